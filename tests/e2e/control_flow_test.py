# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""If, Loop and Scan: each model gives what ONNX Runtime gives, or is refused when it is compiled, with the node and the reason. (ONNX's reference implementation
stacks matrices of a Loop as it stacks vectors, and has no Scan that goes backwards.)"""
import json
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from heddle_command import CPU_AND_STREAMS, TEST_DRIVERS, HeddleTestCase

onnxruntime.set_default_logger_severity(4)
F, I = np.float32, np.int64
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def f32(*shape):
    return (np.arange(np.prod(shape), dtype=F).reshape(shape) % 7 - 3) / 2


class Case(NamedTuple):
    what: str
    text: str
    calls: list  # the inputs of each call, by name


TRUE, FALSE = np.array(True), np.array(False)
CASES = [
    Case("a branch that takes values from outside", """main (bool c, float[3,4] x, float[3,4] z) => (float[3,4] y) {
      a = Mul (x, z)
      b = If (c) <then_branch = t () => (float[3,4] p) { p = Add (a, x) }, else_branch = e () => (float[3,4] q) { r = Exp (a)  q = Sub (r, z) }>
      y = Relu (b) }""", [{"c": TRUE, "x": f32(3, 4), "z": f32(3, 4)[::-1]}, {"c": FALSE, "x": f32(3, 4), "z": f32(3, 4)[::-1]}]),
    Case("a branch that computes nothing, and several results", """main (bool[1] c, float[n] x) => (float[n] y, float[n] z, int64[2] w) {
      y, z, w = If (c) <then_branch = t () => (float[n] p, float[n] q, int64[2] k) { p = Identity (x)  q = Neg (x)  k = Constant <value = int64[2] {1, 2}> () },
                        else_branch = e () => (float[n] r, float[n] s, int64[2] l) { r = Abs (x)  s = Identity (r)  l = Constant <value = int64[2] {3, 4}> () }> }""",
         [{"c": np.array([True]), "x": f32(5)}, {"c": np.array([False]), "x": f32(3)}]),
    Case("branches in branches", """main (int64 k, float[4] x) => (float[4] y) {
      zero = Constant <value = int64 {0}> ()
      one = Constant <value = int64 {1}> ()
      low = Equal (k, zero)
      y = If (low) <then_branch = t () => (float[4] p) { p = Neg (x) },
                    else_branch = e () => (float[4] q) {
                      mid = Equal (k, one)
                      q = If (mid) <then_branch = t2 () => (float[4] r) { r = Mul (x, x) }, else_branch = e2 () => (float[4] s) { s = Sqrt (x) }> }> }""",
         [{"k": np.array(k, I), "x": np.abs(f32(4))} for k in (0, 1, 2)]),
    Case("a branch that is known, with another extent than the other one", """main (float[2,3] x) => (float[6] y) {
      shape = Shape (x)
      two = Constant <value = int64[2] {2, 5}> ()
      alike = Equal (shape, two)
      first = Constant <value = int64 {0}> ()
      same = Gather (alike, first)
      y = If (same) <then_branch = t () => (float[6] p) { k = Constant <value = int64[1] {-1}> ()  p = Reshape (x, k) },
                     else_branch = e () => (float[1] q) { l = Constant <value = int64[2] {0, 1}> ()  q = ReduceSum <keepdims = 0> (x, l) }> }""",
         [{"x": f32(2, 3)}]),
    Case("a counted loop with a value that is carried and one that is stacked", """main (float[2] x) => (float[2] y, float[5,2] all) {
      n = Constant <value = int64 {5}> ()
      go = Constant <value = bool {1}> ()
      y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s) {
        d = Identity (c)
        k = Cast <to = 1> (i)
        w = Add (v, k)
        s = Mul (w, w) }> }""", [{"x": f32(2)}, {"x": f32(2) + 1}]),
    Case("values that change places", """main (int64 n, float[3] x, float[3] z) => (float[3] y, float[3] w) {
      go = Constant <value = bool {1}> ()
      y, w = Loop (n, go, x, z) <body = b (int64 i, bool c, float[3] a, float[3] b) => (bool d, float[3] e, float[3] f) {
        d = Identity (c)
        e = Identity (b)
        f = Add (a, b) }> }""", [{"n": np.array(n, I), "x": f32(3), "z": f32(3) + 1} for n in (0, 1, 7)]),
    Case("a loop until a condition ends it", """main (float x, float[4] z) => (float y, float[4] w) {
      limit = Constant <value = float {100.0}> ()
      go = Less (x, limit)
      y, w = Loop ("", go, x, z) <body = b (int64 i, bool c, float v, float[4] u) => (bool d, float t, float[4] s) {
        two = Constant <value = float {2.0}> ()
        t = Mul (v, two)
        s = Sub (u, v)
        d = Less (t, limit) }> }""", [{"x": np.array(x, F), "z": f32(4)} for x in (3.0, 99.0, 200.0)]),
    Case("a loop that a number of steps or a condition ends, both of them data", """main (int64 n, bool go, float[2] x) => (float[2] y) {
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        three = Constant <value = int64 {3}> ()
        w = Add (v, x)
        d = Less (i, three) }> }""", [{"n": np.array(n, I), "go": go, "x": f32(2)} for n, go in ((2, TRUE), (9, TRUE), (9, FALSE), (0, TRUE))]),
    Case("loops in loops, with a branch", """main (float[2,3] x) => (float[2,3] y, float[4,3,2,3] all) {
      four = Constant <value = int64 {4}> ()
      three = Constant <value = int64 {3}> ()
      go = Constant <value = bool {1}> ()
      y, all = Loop (four, go, x) <body = outer (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[3,2,3] rows) {
        d = Identity (c)
        w, rows = Loop (three, go, v) <body = inner (int64 j, bool f, float[2,3] g) => (bool h, float[2,3] k, float[2,3] row) {
          h = Identity (f)
          odd = Greater (i, j)
          k = If (odd) <then_branch = t () => (float[2,3] p) { p = Add (g, x) }, else_branch = e () => (float[2,3] q) { q = Sub (g, v) }>
          row = Neg (k) }> }> }""", [{"x": f32(2, 3)}]),
    *(Case(f"a loop of at most {steps} steps, which its condition ends", """main (bool go, float[2] x) => (float[2] y) {
      n = Constant <value = int64 {%d}> ()
      limit = Constant <value = int64 {9}> ()
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        w = Add (v, x)
        d = Less (i, limit) }> }""" % steps, [{"go": go, "x": f32(2)} for go in (TRUE, FALSE)]) for steps in (2**63 - 1, 2**63 - 2, -2**63)),
    Case("a loop without a condition before it that its body's condition ends", """main (float[2] x) => (float[2] y) {
      n = Constant <value = int64 {9}> ()
      three = Constant <value = int64 {3}> ()
      y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Less (i, three)  w = Add (v, x) }> }""", [{"x": f32(2)}]),
    *(Case(f"values of {steps} steps", """main (float[2] x) => (float[2] y, float[m,2] all) {
      n = Constant <value = int64 {%d}> ()
      go = Constant <value = bool {1}> ()
      y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s) {
        d = Identity (c)
        w = Add (v, x)
        s = Neg (w) }> }""" % steps, [{"x": f32(2)}]) for steps in (0, -3)),
    Case("a loop over the rows of an input, by index", """main (float[n,3] x, float[3] z) => (float[3] y) {
      shape = Shape (x)
      zero = Constant <value = int64 {0}> ()
      n = Gather (shape, zero)
      go = Constant <value = bool {1}> ()
      y = Loop (n, go, z) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
        d = Identity (c)
        row = Gather (x, i)
        w = Max (v, row) }> }""", [{"x": f32(n, 3), "z": np.full(3, -9, F)} for n in (4, 1, 6)]),
    Case("a recurrent layer", """main (float[steps,batch,8] x, float[batch,16] h) => (float[batch,16] last, float[steps,batch,16] all)
      <float[8,16] u = {%s}, float[16,16] r = {%s}> {
      last, all = Scan <num_scan_inputs = 1, body = b (float[batch,16] s, float[batch,8] v) => (float[batch,16] t, float[batch,16] row) {
        p = MatMul (v, u)
        q = MatMul (s, r)
        sum = Add (p, q)
        t = Tanh (sum)
        row = Identity (t) }> (h, x) }""" % (", ".join(f"{k % 5 - 2}.5" for k in range(128)), ", ".join(f"{(k % 11 - 5) / 32}" for k in range(256))),
         [{"x": f32(steps, batch, 8), "h": f32(batch, 16)} for steps, batch in ((5, 2), (1, 3), (9, 2))]),
    Case("a scan along other dimensions, backwards", """main (float[3,4] x, float[4,3] z, float[3] s) => (float[3] y, float[3,4] all, float[4,3] back) {
      y, all, back = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0], scan_output_axes = [1, 0],
                           scan_output_directions = [0, 1],
                           body = b (float[3] a, float[3] p, float[3] q) => (float[3] c, float[3] d, float[3] e) {
        c = Add (a, p)
        d = Mul (c, q)
        e = Identity (a) }> (s, x, z) }""", [{"x": f32(3, 4), "z": f32(4, 3), "s": f32(3)}]),
    Case("branches of different extents, and of one element", """main (bool c, float[n] x) => (float[k] y, float[m] z) {
      p, r = If (c) <then_branch = t () => (float[n] a, float b) { a = Neg (x)  b = ReduceMax <keepdims = 0> (x) },
                     else_branch = e () => (float[o] d, float[1] f) { d = Concat <axis = 0> (x, x, x)  f = ReduceMin <keepdims = 1> (x) }>
      y = Exp (p)
      z = Mul (y, r) }""", [{"c": c, "x": f32(n)} for c in (TRUE, FALSE) for n in (2, 5)]),
    Case("a branch whose extents fit only where it is taken", """main (float[n,3] x) => (float[m,3] y) {
      zero = Constant <value = int64[1] {0}> ()
      one = Constant <value = int64[1] {1}> ()
      shape = Shape (x)
      n = Gather <axis = 0> (shape, zero)
      is_one = Equal (n, one)
      y = If (is_one) <then_branch = t () => (float[1,3] a) { b = Squeeze (x, zero)  e = Neg (b)  a = Unsqueeze (e, zero) },
                       else_branch = e () => (float[o,3] q) { q = Identity (x) }> }""", [{"x": f32(n, 3)} for n in (1, 4)]),
    Case("numbers of stacked values that are data", """main (int64 n, bool go, float[2] x) => (float[2] y, float[k,2] all) {
      y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s) {
        d = Constant <value = bool {1}> ()
        w = Add (v, x)
        s = Neg (w) }> }""", [{"n": np.array(n, I), "go": go, "x": f32(2)} for n, go in ((3, TRUE), (0, TRUE), (-2, TRUE), (4, FALSE), (11, TRUE))]),
    Case("stacked values until a condition", """main (float x, float[2] z) => (float y, float[k] all, float[k,2] rows) {
      limit = Constant <value = float {100.0}> ()
      go = Less (x, limit)
      y, all, rows = Loop ("", go, x) <body = b (int64 i, bool c, float v) => (bool d, float t, float s, float[2] r) {
        two = Constant <value = float {2.0}> ()
        t = Mul (v, two)
        s = Neg (t)
        r = Mul (z, t)
        d = Less (t, limit) }> }""", [{"x": np.array(x, F), "z": f32(2)} for x in (3.0, 99.0, 200.0, 0.001)]),
    Case("a value that grows", """main (int64 n, float[1] x) => (float[k] y, float s) {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[m] v) => (bool d, float[l] w) { d = Identity (c)  u = Neg (v)  w = Concat <axis = 0> (u, x) }>
      s = ReduceSum <keepdims = 0> (y) }""", [{"n": np.array(n, I), "x": f32(1) + 4} for n in (0, 1, 2, 40)]),
    Case("values that grow alike and apart, from nothing, until a condition", """main (float[0,2] k, float[0,2] v, float[1,2] x, int64 limit) => (float[a,2] p, float[b,2] q, float[c,2] r, float[2] s) {
      go = Constant <value = bool {1}> ()
      p, q, r, s = Loop ("", go, k, v, x, x) <body = body (int64 i, bool c, float[e,2] k0, float[f,2] v0, float[g,2] x0, float[h,2] s0)
                                             => (bool d, float[e1,2] k1, float[f1,2] v1, float[g1,2] x1, float[1,2] s1) {
        k1 = Concat <axis = 0> (k0, s0)
        twice = Add (s0, s0)
        v1 = Concat <axis = 0> (v0, twice)
        x1 = Concat <axis = 0> (x0, x0)
        sum = Add (k1, v1)
        s1 = ReduceMean <axes = [0], keepdims = 1> (sum)
        d = Less (i, limit) }> }""",
         [{"k": np.zeros((0, 2), F), "v": np.zeros((0, 2), F), "x": f32(1, 2), "limit": np.array(n, I)} for n in (0, 1, 5)]),
    Case("a value that grows in a loop in a loop, with branches", """main (int64 n, float[2] x) => (float[k] y) {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go, x) <body = outer (int64 i, bool c, float[a] v) => (bool d, float[b] w) {
        d = Identity (c)
        t = Loop (i, go, v) <body = inner (int64 j, bool e, float[f] p) => (bool g, float[h] q) {
          g = Identity (e)
          one = Constant <value = int64 {1}> ()
          low = Less (j, one)
          r = If (low) <then_branch = then () => (float[2] r1) { r1 = Neg (x) }, else_branch = other () => (float[4] r2) { r2 = Concat <axis = 0> (x, x) }>
          q = Concat <axis = 0> (p, r) }>
        w = Concat <axis = 0> (t, x) }> }""", [{"n": np.array(n, I), "x": f32(2)} for n in (0, 1, 3, 5)]),
    Case("values that grow and are not needed, and one whose extent alone is", """main (bool c, int64 n, float[2] x) => (float[2] y, int64[1] k, float[2] z) {
      b = Loop (n, , x) <body = b (int64 i, bool c0, float[m] v) => (bool d, float[l] w) { d = Identity (c0)  w = Concat <axis = 0> (v, x) }>
      e = Loop (n, , x) <body = b2 (int64 i2, bool c2, float[m2] v2) => (bool d2, float[l2] w2) { d2 = Identity (c2)  w2 = Concat <axis = 0> (v2, x, x) }>
      k = Shape (e)
      y = Neg (x)
      z = If (c) <then_branch = t () => (float[2] p) {
                    f = Loop (n, , x) <body = b3 (int64 i3, bool c3, float[m3] v3) => (bool d3, float[l3] w3) { d3 = Identity (c3)  w3 = Concat <axis = 0> (v3, x) }>
                    p = Abs (x) },
                  else_branch = g () => (float[2] q) { q = Sqrt (x) }> }""",
         [{"c": TRUE, "n": np.array(3, I), "x": f32(2)}, {"c": FALSE, "n": np.array(0, I), "x": np.abs(f32(2))}]),
    Case("slices of growing length in a loop", """main (int64 n, float[6] x) => (float y, float[k] all) {
      go = Constant <value = bool {1}> ()
      nothing = Constant <value = float {0.0}> ()
      y, all = Loop (n, go, nothing) <body = b (int64 i, bool c, float v) => (bool d, float w, float s) {
        d = Identity (c)
        zero = Constant <value = int64[1] {0}> ()
        end = Unsqueeze (i, zero)
        head = Slice (x, zero, end)
        s = ReduceSum <keepdims = 0> (head)
        w = Add (v, s) }> }""", [{"n": np.array(n, I), "x": f32(6)} for n in (0, 1, 6, 8)]),
    Case("counts that a branch and a step read", """main (float[5] x, bool c) => (float y, float[3] z) {
      n = Constant <value = int64 {3}> ()
      go = Constant <value = bool {1}> ()
      y = If (c) <then_branch = t () => (float p) { i = NonZero (x)  f = Cast <to = 1> (i)  p = ReduceSum <keepdims = 0> (f) },
                  else_branch = e () => (float q) { q = ReduceMax <keepdims = 0> (x) }>
      z = Loop (n, go) <body = b (int64 i, bool g) => (bool h, float s) {
        h = Identity (g)
        f = Cast <to = 1> (i)
        above = Less (x, f)
        a = Compress <axis = 0> (x, above)
        s = ReduceSum <keepdims = 0> (a) }> }""", [{"x": f32(5), "c": c} for c in (TRUE, FALSE)]),
]

REFUSED = [
    ("a value whose rank changes", """main (int64 n, float[1] x) => (float[k] y) {
      go = Constant <value = bool {1}> ()
      axis = Constant <value = int64[1] {0}> ()
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[m] v) => (bool d, float[l,o] w) { d = Identity (c)  w = Unsqueeze (v, axis) }> }""",
     "values whose types or ranks change are not supported"),
    ("branches of different ranks", """main (bool c, float[2] x) => (float[k] y) {
      y = If (c) <then_branch = t () => (float[2] p) { p = Neg (x) }, else_branch = e () => (float[1,2] q) {
        axis = Constant <value = int64[1] {0}> ()
        q = Unsqueeze (x, axis) }> }""",
     "branches that give different types or ranks are not supported"),
    ("an extent that a branch computes", """main (bool c, float[4] x) => (float[k,1] y) {
      y = If (c) <then_branch = t () => (float[p,1] a) { i = NonZero (x)  j = Transpose (i)  a = Cast <to = 1> (j) }, else_branch = e () => (float[4,1] b) {
        axis = Constant <value = int64[1] {1}> ()
        b = Unsqueeze (x, axis) }> }""",
     "output 0 has an extent that a branch computes from values of the call"),
    ("stacked values of different extents", """main (int64 n, float[4] x) => (float[k,m] y) {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[l] w) {
        d = Identity (c)
        zero = Constant <value = int64[1] {0}> ()
        end = Unsqueeze (i, zero)
        w = Slice (x, zero, end) }> }""",
     "it stacks values with an extent that each step computes"),
    ("an operator that is not there, in a loop", """main (int64 n, float[2] x) => (float[2] y) {
      go = Constant <value = bool {1}> ()
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Identity (c)  w = Frobnicate (v) }> }""", "Frobnicate"),
    ("a loop that never ends", """main (float[2] x) => (float[2] y) {
      y = Loop ("", "", x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { d = Identity (c)  w = Neg (v) }> }""", "it never ends"),
]


class ControlFlow(HeddleTestCase):
    device, target = "cpu", "cpu"

    def save(self, text, name="model"):
        path = self.folder / f"{name}.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        return path

    def run_call(self, module, feeds, outputs, *arguments):
        for name, array in feeds.items():
            arguments += tuple(self.given(name, array))
        for name in outputs:
            arguments += ("--output", f"{name}=@{self.folder}/out-{name}.npy")
        self.succeed("run", module, "--device", self.device, *arguments)
        return [np.load(self.folder / f"out-{name}.npy") for name in outputs]

    def test_gives_what_onnx_runtime_gives(self):
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path = self.save(case.text, f"case{number}")
                model = onnx.load(path)
                module = self.compile(path, "--target", self.target)
                session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                for feeds in case.calls:
                    expected = session.run(None, feeds)
                    got = self.run_call(module, feeds, [output.name for output in model.graph.output])
                    for one, other in zip(got, expected, strict=True):
                        self.assert_close(one, np.asarray(other), 1e-5, 1e-5)

    def test_refuses_what_is_not_there(self):
        for what, text, reason in REFUSED:
            with self.subTest(what):
                result = self.fail_with(1, "compile", self.save(text), "-o", self.folder / "refused.heddle")
                self.assertIn(reason, result.stderr)

    def test_values_of_a_branch_are_checked_where_it_is_taken(self):
        path = self.save("""main (bool c, float[3] x, int64 k) => (float y) {
          zero = Constant <value = int64 {0}> ()
          y = If (c) <then_branch = t () => (float p) { p = Gather (x, k) }, else_branch = e () => (float q) { q = Gather (x, zero) }> }""")
        module = self.compile(path, "--target", self.target)
        wrong = {"x": f32(3), "k": np.array(3, I)}
        self.assertEqual(self.run_call(module, {"c": FALSE, **wrong}, ["y"])[0], f32(3)[0])
        arguments = [part for name, array in {"c": TRUE, **wrong}.items() for part in self.given(name, array)]
        result = self.fail_with(1, "run", module, "--device", self.device, *arguments)
        self.assertIn("index 3 is outside -3..2", result.stderr)

    def test_a_loop_is_on_one_slot_with_all_that_is_in_it(self):
        config = self.folder / "heddle.toml"
        config.write_text(CPU_AND_STREAMS)
        model = parser.parse_model(HEAD + """main (int64 n, float[4] x, float[3,4] rows) => (float[4] y, float[3,4] all) {
          go = Constant <value = bool {1}> ()
          three = Constant <value = int64 {3}> ()
          z = Exp (x)
          w, all = Loop (three, go, z) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] s, float[4] p) {
            row = Gather (rows, i)
            q = Mul (v, row)
            far = Greater (n, i)
            s = If (far) <then_branch = t () => (float[4] a) { a = Add (q, x) }, else_branch = e () => (float[4] b) { b = Neg (q) }>
            p = Abs (s)
            d = Identity (c) }>
          y = Neg (w) }""")
        for node in model.graph.node:
            if node.op_type == "Loop":
                node.name = "steps"
        path = self.folder / "placed.onnx"
        onnx.save(model, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        module = self.folder / "placed.heddle"
        self.succeed("compile", path, "-o", module, "--target", "cpu", "--place", "steps=@other")
        for n, default, other in ((0, "one", "one"), (2, "one", "gpu"), (3, "gpu", "one"), (1, "gpu", "gpu")):
            feeds = {"n": np.array(n, I), "x": f32(4), "rows": f32(3, 4)}
            arguments = [part for name, array in feeds.items() for part in self.given(name, array)]
            outputs = [part for name in ("y", "all") for part in ("--output", f"{name}=@{self.folder}/out-{name}.npy")]
            self.succeed("run", module, "--config", config, "--plugin-path", TEST_DRIVERS, "--device", default, "--device", f"@other={other}", *arguments, *outputs)
            for name, expected in zip(("y", "all"), session.run(None, feeds), strict=True):
                self.assert_close(np.load(self.folder / f"out-{name}.npy"), expected, 1e-5, 1e-5)

    def given(self, name, array):
        np.save(self.folder / f"{name}.npy", array)
        return ["--input", f"{name}=@{self.folder}/{name}.npy"]

    def test_explain_and_profile_name_the_regions_of_a_loop(self):
        module = self.compile(self.save(CASES[8].text), "--target", self.target)
        described = self.succeed("explain", module, "--format", "json").stdout
        profile = json.loads(self.succeed("profile", module, "--format", "json", "--iterations", "2").stdout)
        regions = [region["region"] for region in profile["regions"]]
        for part in ("main.loop0.loop1.", "main.loop0.loop1.if2.then.", "main.loop0.loop1.if2.else."):
            self.assertIn(f'"{part}', described)
            self.assertTrue(any(region.startswith(part) for region in regions), regions)


if __name__ == "__main__":
    import unittest
    unittest.main()
