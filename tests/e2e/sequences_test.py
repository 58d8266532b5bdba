# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with sequences and optionals: each module gives what ONNX Runtime gives, for all positions and numbers that are inputs, or refuses the call or the
model with the reason. A sequence is as many arguments or results as it has elements."""
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from heddle_command import HeddleTestCase

onnxruntime.set_default_logger_severity(4)
F, I = np.float32, np.int64
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
TARGET = "cpu:x86-64-v3"


def f32(*shape, first=0):
    return (np.arange(first, first + np.prod(shape), dtype=F).reshape(shape) % 11 - 5) / 2


def i64(value):
    return np.array(value, I)


class Case(NamedTuple):
    what: str
    text: str
    stated: list  # --specialize
    calls: list  # the inputs of each call, by name
    refused: list = []  # inputs, and what the error says


ABC = {"a": f32(2, 3), "b": f32(2, 3, first=6), "c": f32(2, 3, first=12)}
RAGGED = {"a": f32(2, 3), "b": f32(1, 3, first=6), "c": f32(4, 3, first=12)}
CASES = [
    Case("all positions are data", """main (float[2,3] a, float[2,3] b, float[2,3] c, int64 insert, int64 erase, int64 at) => (float[2,3] y, int64 n, seq(float[2,3]) left) {
      empty = SequenceEmpty ()
      one = SequenceInsert (empty, a)
      two = SequenceInsert (one, b, insert)
      three = SequenceInsert (two, c, insert)
      d = Neg (a)
      four = SequenceInsert (three, d)
      left = SequenceErase (four, erase)
      y = SequenceAt (left, at)
      n = SequenceLength (left) }""", ["left=3"],
         [{**ABC, "insert": i64(i), "erase": i64(e), "at": i64(a)} for i, e, a in ((0, 0, 0), (1, 3, -1), (-1, -4, 2), (0, -1, -3))],
         [({**ABC, "insert": i64(2), "erase": i64(0), "at": i64(0)}, "index 2 is outside"), ({**ABC, "insert": i64(0), "erase": i64(4), "at": i64(0)}, "index 4 is outside -4..3"),
          ({**ABC, "insert": i64(0), "erase": i64(0), "at": i64(-4)}, "index -4 is outside -3..2"), ({**ABC, "insert": i64(-2), "erase": i64(0), "at": i64(0)}, "is outside")]),
    Case("tensors of other extents", """main (float[p,3] a, float[q,3] b, float[r,3] c, int64 at) => (float[k,3] y, float[m,3] z) {
      s = SequenceConstruct (a, b, c)
      t = SequenceErase (s, at)
      x = SequenceAt (s, at)
      y = Neg (x)
      z = ConcatFromSequence <axis = 0> (t) }""", [], [{**RAGGED, "at": i64(i)} for i in (0, 1, -1)], [({**RAGGED, "at": i64(3)}, "index 3 is outside -3..2")]),
    Case("known positions and new axes", """main (float[2,3] a, float[2,3] b) => (float[2,2,3] y, float[2,6] z, seq(float[2,3]) s) {
      last = Constant <value = int64 {-1}> ()
      one = SequenceConstruct (a)
      s = SequenceInsert (one, b, last)
      y = ConcatFromSequence <axis = -2, new_axis = 1> (s)
      z = ConcatFromSequence <axis = 1> (s) }""", [], [{"a": ABC["a"], "b": ABC["b"]}]),
    Case("parts of a tensor", """main (float[n,4] x, int64 size, int64[2] sizes) => (seq(float[k,4]) s, seq(float[n,k]) t, seq(float[n]) u) {
      s = SplitToSequence <axis = 0> (x, size)
      t = SplitToSequence <axis = -1> (x, sizes)
      u = SplitToSequence <axis = 1, keepdims = 0> (x) }""", ["s=3"],
         [{"x": f32(7, 4), "size": i64(3), "sizes": np.array((1, 3), I)}, {"x": f32(6, 4), "size": i64(2), "sizes": np.array((4, 0), I)}],
         [({"x": f32(7, 4), "size": i64(2), "sizes": np.array((1, 3), I)}, "compiled for calls in which it gives 3 tensors"), ({"x": f32(7, 4), "size": i64(3), "sizes": np.array((1, 2), I)}, "have to be equal"),
          ({"x": f32(7, 4), "size": i64(0), "sizes": np.array((1, 3), I)}, "compiled for calls in which it gives 3 tensors")]),
    Case("inputs", """main (seq(float[n]) x, seq(float[n]) y, float[1] w) => (seq(float[n]) z, seq(float[n]) same, int64 count) {
      z = SequenceMap <body = b (float[n] a, float[n] c, float[1] v) => (float[n] d) { e = Add (a, c)  d = Mul (e, v) }> (x, y, w)
      same = Identity (x)
      count = SequenceLength (x) }""", ["x=2", "y=2"],
         [{"x": [f32(3), f32(5, first=1)], "y": [f32(3, first=4), f32(5, first=2)], "w": f32(1)}, {"x": [f32(1), f32(0)], "y": [f32(1), f32(0)], "w": f32(1)}]),
    Case("a loop that inserts as often as the call says", """main (int64 n, bool go, seq(float[k]) x) => (seq(float[k]) y, float[3] last) {
      zero = Constant <value = float[3] {0, 0, 0}> ()
      y, last = Loop (n, go, x, zero) <body = b (int64 i, bool c, seq(float[k]) s, float[3] v) => (bool d, seq(float[k]) t, float[3] w) {
        d = Identity (c)
        one = Constant <value = float[3] {1, 2, 3}> ()
        w = Add (v, one)
        t = SequenceInsert (s, w) }> }""", ["x=1", "y=4"],
         [{"n": i64(3), "go": np.array(True), "x": [f32(2)]}],
         [({"n": i64(2), "go": np.array(True), "x": [f32(2)]}, "the model is compiled for calls in which the number of steps is 3"), ({"n": i64(3), "go": np.array(False), "x": [f32(2)]}, "the model is compiled for calls in which the number of steps is 3")]),
    Case("a loop over a sequence", """main (float[2,3] a, float[2,3] b, int64 at) => (float[2,3] total, float[4,2,3] each) {
      s = SequenceConstruct (a, b)
      n = Constant <value = int64 {4}> ()
      go = Constant <value = bool {1}> ()
      two = Constant <value = int64 {2}> ()
      start = SequenceAt (s, at)
      total, each = Loop (n, go, start) <body = l (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[2,3] x) {
        d = Identity (c)
        m = Mod (i, two)
        x = SequenceAt (s, m)
        w = Add (v, x) }> }""", [], [{"a": ABC["a"], "b": ABC["b"], "at": i64(i)} for i in (0, 1)]),
    Case("branches", """main (bool c, float[3] x) => (seq(float[3]) y) {
      y = If (c) <then_branch = t () => (seq(float[3]) u) { n = Neg (x)  u = SequenceConstruct (x, n) },
                  else_branch = e () => (seq(float[3]) v) { a = Abs (x)  v = SequenceConstruct (a, x) }> }""", [],
         [{"c": np.array(c), "x": f32(3)} for c in (True, False)]),
    Case("one of two branches", """main (bool c, float[3] x) => (seq(float[3]) y) {
      y = If (c) <then_branch = t () => (seq(float[3]) u) { u = SequenceConstruct (x) },
                  else_branch = e () => (seq(float[3]) v) { a = Abs (x)  v = SequenceConstruct (a, x) }> }""", ["y=2"],
         [{"c": np.array(False), "x": f32(3)}], [({"c": np.array(True), "x": f32(3)}, "in which the condition is 0")]),
]

SEQUENCE = "main (float[3] x) => (float[3] y) { s = SequenceConstruct (x, x)  y = %s }"
REFUSED = [
    ("a number of elements that nobody stated", "main (seq(float[n]) x) => (int64 y) { y = SequenceLength (x) }", [], "--specialize 'x=3'"),
    ("a shape that nobody stated", "main (seq(float[]) x) => (int64 y) { y = SequenceLength (x) }", ["x=1"], "--specialize 'x=[n,4]'"),
    ("a position outside", "main (float[3] x) => (float[3] y) { p = Constant <value = int64 {2}> ()  s = SequenceConstruct (x, x)  y = SequenceAt (s, p) }", [],
     "position 2 is outside of a sequence of 2 tensors; it can be -2 to 1"),
    ("an empty sequence", "main (int64 i) => (float[3] y) { s = SequenceEmpty ()  y = SequenceAt (s, i) }", [], "its sequence is empty"),
    ("another element type", "main (float[3] x, int64[3] z) => (int64 y) { s = SequenceConstruct (x, z)  y = SequenceLength (s) }", [], "one element type, and 1 has i64, not f32"),
    ("a sequence as a tensor", SEQUENCE % "Neg (s)", [], "input 0 ('s') is a sequence of 2 tensors, and has to be a tensor"),
    ("a tensor as a sequence", "main (float[3] x) => (int64 y) { y = SequenceLength (x) }", [], "input 0 is a tensor, and has to be a sequence"),
    ("another number than the compiler finds", "main (float[3] x) => (int64 y) { s = SequenceConstruct (x, x)  y = SequenceLength (s) }", ["s=3"],
     "it is a sequence of 2 tensors in each call"),
    ("a name that is no sequence", "main (float[3] x) => (float[3] y) { y = Neg (x) }", ["x=3"], "'x' is no sequence of the model"),
    ("a form that is none", "main (float[3] x) => (float[3] y) { y = Neg (x) }", ["x=[3"], "its shape has no ']'"),
    ("steps that nobody stated", """main (int64 n, float[3] x) => (seq(float[3]) y) {
      e = SequenceEmpty ()
      y = Loop (n, "", e) <body = b (int64 i, bool c, seq(float[3]) s) => (bool d, seq(float[3]) t) { d = Identity (c)  t = SequenceInsert (s, x) }> }""", [], "--specialize 'y=3'"),
    ("a value that is not there", """main (float[3] x) => (float[3] y) { o = Optional <type = float[3]> ()  y = OptionalGetElement (o) }""", [], "an optional without a value"),
]


class Sequences(HeddleTestCase):
    def save(self, text, name="model"):
        path = self.folder / f"{name}.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        return path

    def stated(self, texts):
        return [f"--specialize={text}" for text in texts]

    def inputs(self, feeds):
        arguments = []
        for name, value in feeds.items():
            for own, array in [(f"{name}[{i}]", one) for i, one in enumerate(value)] if isinstance(value, list) else [(name, value)]:
                np.save(self.folder / f"{own}.npy", array)
                arguments.append(f"--input={own}=@{self.folder}/{own}.npy")
        return arguments

    def test_gives_what_onnx_runtime_gives(self):
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path = self.save(case.text, f"case{number}")
                outputs = [output.name for output in onnx.load(path).graph.output]
                module = self.compile(path, "--target", TARGET, *self.stated(case.stated))
                session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                for feeds in case.calls:
                    expected = {}
                    for name, value in zip(outputs, session.run(None, feeds), strict=True):
                        expected.update({f"{name}[{i}]": one for i, one in enumerate(value)} if isinstance(value, list) else {name: value})
                    results = [f"--output={name}=@{self.folder}/out-{name}.npy" for name in expected]
                    self.succeed("run", module, *self.inputs(feeds), *results)
                    for name, value in expected.items():
                        got = np.load(self.folder / f"out-{name}.npy")
                        self.assertEqual(got.shape, np.asarray(value).shape, f"{name} of {feeds}")
                        self.assert_close(got, np.asarray(value), 1e-6, 1e-6)
                for feeds, reason in case.refused:
                    self.assertIn(reason, self.fail_with(1, "run", module, *self.inputs(feeds)).stderr)

    def test_refuses_what_is_not_there(self):
        for what, text, stated, reason in REFUSED:
            with self.subTest(what):
                self.assertIn(reason, self.fail_with((1, 2), "compile", self.save(text), "-o", self.folder / "refused.heddle", *self.stated(stated)).stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
