# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions: those that a model defines, and operators that ONNX defines by a body. Each model gives what ONNX's reference implementation gives, for each
extent of its symbols; or it is refused when it is compiled, with the node and the reason, in bounded time."""
import json
import time
from typing import NamedTuple

import numpy as np
import onnx
from onnx import parser
from onnx.reference import ReferenceEvaluator

from heddle_command import HeddleTestCase

F, I = np.float32, np.int64


def head(opset=17, more=""):
    return f'<ir_version: 10, opset_import: ["" : {opset}{more}]>\n'


LOCAL = head(more=', "local" : 1')
BODY = '<domain: "local", opset_import: ["" : 17, "local" : 1]>\n'


def f32(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F)


def elu(x, alpha):
    return np.where(x < 0, alpha * (np.exp(x) - 1), x).astype(F)


def rounds_of_inner(x):
    return np.tanh(np.exp(np.tanh(np.exp(x))))


class Case(NamedTuple):
    what: str
    text: str
    calls: list  # the inputs of each call, by name
    expected: object = None  # a function of them, if the reference implementation does not know the model


CASES = [
    Case("attributes of calls, defaults, and an attribute that is left out", LOCAL + """main (float[n] x) => (float[n] y) {
      a = local.scaled <factor = 3.0> (x)
      b = local.scaled <factor = -1.0, shift = 0.25> (a)
      c = local.cut <alpha = 2.0> (b)
      d = local.cut (b)
      y = Sub (c, d) }
    """ + BODY + """scaled <factor, shift: float = 0.5> (x) => (y) {
      f = Constant <value_float: float = @factor> ()
      s = Constant <value_float: float = @shift> ()
      a = Mul (x, f)
      y = Add (a, s) }
    """ + BODY + "cut <alpha> (x) => (y) { y = Elu <alpha: float = @alpha> (x) }", [{"x": f32(5)}, {"x": f32(2)}],
         lambda x: (elu(0.25 - (3 * x + F(0.5)), 2) - elu(0.25 - (3 * x + F(0.5)), 1),)),
    Case("calls in calls, with the same names on each level, and inputs that are left out", LOCAL + """main (float[3] x) => (float[3] y) {
      a = local.outer (x, x)
      y = local.outer (a) }
    """ + BODY + """outer (x, z) => (y) {
      a = local.inner (x)
      b = local.inner (a)
      y = Clip (b, , z) }
    """ + BODY + """inner (a) => (b) {
      x = Exp (a)
      b = Tanh (x) }""", [{"x": f32(3)}], lambda x: (rounds_of_inner(np.minimum(rounds_of_inner(x), x)),)),
    Case("a result that is an argument, a result that nobody takes, and other opsets", head(21, ', "local" : 1') + """main (float[2,3] x, float[2,3] z) => (float[2,3] y, float[2,3] w) {
      p, q = local.swap (x, z)
      y = Sub (p, q)
      w = local.swap (z, x) }
    <domain: "local", opset_import: ["" : 12]>
    swap (a, b) => (b, c) { c = Softmax <axis = 0> (a) }""", [{"x": f32(2, 3), "z": f32(3, 2).T.copy()}],
         lambda x, z: (z - np.exp(x) / np.exp(x).sum(), x)),
    Case("overloads", LOCAL + """main (float[4] x) => (float[4] y) {
      a = local.f (x)
      b = local.f:minus (x)
      y = Mul (a, b) }
    """ + BODY + "f (x) => (y) { y = Exp (x) }\n" + BODY.replace('"local", o', '"local", overload: "minus", o') + "f (x) => (y) { y = Neg (x) }",
         [{"x": f32(4)}], lambda x: (np.exp(x) * -x,)),
    Case("a branch of a function that takes values and attributes from outside of it", LOCAL + """main (bool c, float[4] x) => (float[4] y) {
      y = local.chosen <factor = 3.0> (c, x) }
    """ + BODY + """chosen <factor> (c, x) => (y) {
      e = Exp (x)
      y = If (c) <then_branch = t () => (float[4] p) { f = Constant <value_float: float = @factor> ()  p = Mul (e, f) },
                  else_branch = u () => (float[4] q) { q = local.half (e) }> }
    """ + BODY + "half (x) => (y) { h = Constant <value = float {0.5}> ()  y = Mul (x, h) }",
         [{"c": np.array(True), "x": f32(4)}, {"c": np.array(False), "x": f32(4)}],
         lambda c, x: (np.exp(x) * F(3 if c else 0.5),)),
    Case("windows", head() + """main (float[8] x) => (float[8] y, double[9] z) {
      n = Constant <value = int64 {8}> ()
      m = Constant <value = int64 {9}> ()
      a = HannWindow (n)
      b = HammingWindow <periodic = 0> (n)
      z = BlackmanWindow <output_datatype = 11> (m)
      c = Add (a, b)
      y = Mul (x, c) }""", [{"x": f32(8)}]),
    Case("a grid", head(20) + """main (float[2,2,3] x) => (float[2,4,5,2] y, float[2,4,5,2] z) {
      n = Constant <value = int64[4] {2, 3, 4, 5}> ()
      y = AffineGrid (x, n)
      z = AffineGrid <align_corners = 1> (x, n) }""", [{"x": f32(2, 2, 3)}]),
    Case("bodies of schemas of several opsets", head(13) + """main (float[n,3,4,4] x) => (float[n,3,4,4] y, uint8[n,3,4,4] q, float s, uint8 z) {
      a = MeanVarianceNormalization (x)
      y = Shrink <bias = 0.25, lambd = 0.75> (a)
      q, s, z = DynamicQuantizeLinear (x) }""", [{"x": f32(2, 3, 4, 4)}, {"x": f32(3, 3, 4, 4)}]),
    Case("losses of a symbolic batch", head(13) + """main (float[n,5] x, int64[n] t, float[5] w) => (float a, float[n] b, float c, float[n,5] p) {
      a, p = SoftmaxCrossEntropyLoss (x, t, w)
      b = NegativeLogLikelihoodLoss <reduction = "none", ignore_index = -7> (x, t)
      c = NegativeLogLikelihoodLoss <reduction = "mean"> (x, t) }""",
         [{"x": f32(n, 5), "t": np.arange(n, dtype=I) % 5, "w": np.abs(f32(5))} for n in (3, 7)]),
    Case("attention with a past of any length", head(23) + """main (float[b,n,16] q, float[b,n,8] k, float[b,n,8] v, float[b,2,past,4] pk, float[b,2,past,4] pv)
         => (float[b,n,16] y, float[b,2,total,4] nk, float[b,2,total,4] nv) {
      y, nk, nv = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = 1> (q, k, v, , pk, pv) }""",
         [{"q": f32(b, n, 16), "k": f32(b, n, 8), "v": f32(n, b, 8).reshape(b, n, 8), "pk": f32(b, 2, p, 4), "pv": f32(p, b, 2, 4).reshape(b, 2, p, 4)}
          for b, n, p in ((1, 3, 2), (2, 1, 5))]),
    Case("rotary embeddings of any length", head(23) + """main (float[b,n,12] x, float[50,2] c, float[50,2] s, int64[b,n] at) => (float[b,n,12] y) {
      y = RotaryEmbedding <num_heads = 2, rotary_embedding_dim = 4> (x, c, s, at) }""",
         [{"x": f32(b, n, 12), "c": f32(50, 2), "s": f32(2, 50).T.copy(), "at": np.arange(b * n, dtype=I).reshape(b, n)} for b, n in ((2, 3), (1, 7))]),
    Case("linear attention of any length", head(27) + """main (float[b,n,8] q, float[b,n,4] k, float[b,n,6] v, float[b,2,2,3] past, float[b,n,2] decay, float[b,n,1] beta)
         => (float[b,n,12] y, float[b,2,2,3] state, float[b,n,12] z) {
      y, state = LinearAttention <q_num_heads = 4, kv_num_heads = 2> (q, k, v, past, decay, beta)
      z = LinearAttention <q_num_heads = 4, kv_num_heads = 2, update_rule = "linear", scale = 0.5> (q, k, v) }""",
         [{"q": f32(b, n, 8), "k": f32(b, n, 4), "v": f32(b, n, 6), "past": f32(b, 2, 2, 3), "decay": f32(b, n, 2), "beta": f32(b, n, 1)} for b, n in ((2, 3), (1, 6))],
         lambda q, k, v, past, decay, beta: (*linear_attention(q, k, v, past, decay, beta, 2**-0.5),
                                             linear_attention(q, k, v, 0 * past, 0 * decay, None, 0.5)[0])),
    Case("layer normalization with its mean", head() + """main (float16[n,4,6] x, float16[4,6] w) => (float16[n,4,6] y, float[n,1,1] m, float[n,1,1] s) {
      y, m, s = LayerNormalization <axis = 1> (x, w) }""", [{"x": f32(3, 4, 6).astype(np.float16), "w": f32(4, 6).astype(np.float16)}],
         lambda x, w: layer_normalization(x, w)),
    Case("operands at an axis, up to opset 6", '<ir_version: 3, opset_import: ["" : 6]>\n' + """main (float[2,3,4] x, float[3] z, float[2,3,4] v) => (float[2,3,4] y) {
      a = Add <broadcast = 1, axis = 1> (x, z)
      b = Mul (a, v)
      y = PRelu (b, z) }""", [{"x": f32(2, 3, 4), "z": f32(3), "v": f32(4, 3, 2).reshape(2, 3, 4)}],
         lambda x, z, v: (np.where((x + z[:, None]) * v < 0, (x + z[:, None]) * v * z[:, None], (x + z[:, None]) * v),)),
]


def layer_normalization(x, w):
    x, w = x.astype(F), w.astype(F)
    mean = x.mean((1, 2), keepdims=True)
    factor = 1 / np.sqrt(((x - mean) ** 2).mean((1, 2), keepdims=True) + F(1e-5))
    return ((x - mean) * factor * w).astype(np.float16), mean, factor


def linear_attention(q, k, v, state, decay, beta, scale):
    """Of 4 heads of queries, 2 of keys and values."""
    batch, length = q.shape[:2]
    results = np.empty((batch, length, 12), F)
    for t in range(length):
        state = state * np.exp(decay[:, t])[:, :, None, None]
        keys, values = k[:, t].reshape(batch, 2, 2), v[:, t].reshape(batch, 2, 3)
        if beta is not None:
            values = beta[:, t, :, None] * (values - np.einsum("bhkv,bhk->bhv", state, keys))
        state = state + keys[..., None] * values[:, :, None]
        results[:, t] = scale * np.einsum("bgk,bgkv->bgv", q[:, t].reshape(batch, 4, 2), state.repeat(2, 1)).reshape(batch, 12)
    return results, state.astype(F)


def chain(count, calls):
    """Functions f0 to f(count - 1), each of which calls the next one some times."""
    bodies = [BODY + f"f{i} (x) => (y) {{ {' '.join(f'{name} = local.f{i + 1} (x)' for name in ['y', *'abcdefgh'][:calls])} }}\n" for i in range(count - 1)]
    return LOCAL + "main (float[2] x) => (float[2] y) { y = local.f0 (x) }\n" + "".join(bodies) + BODY + f"f{count - 1} (x) => (y) {{ y = Exp (x) }}"


def one(call, body):
    return LOCAL + f"main (float[2] x) => (float[2] y) {{ {call} }}\n" + body


REFUSED = [
    ("a function that calls itself", one("y = local.f (x)", BODY + "f (x) => (y) { y = local.f (x) }"), "function 'local.f' calls itself"),
    ("functions that call each other", one("y = local.f (x)", BODY + "f (x) => (y) { y = local.g (x) }\n" + BODY + "g (x) => (y) { y = local.f (x) }"),
     "calls itself: local.f calls local.g calls local.f"),
    ("too many calls", chain(40, 8), "the bodies of all calls of functions together have more than 262144 nodes"),
    ("calls that are too deep", chain(70, 1), "functions call each other more than 64 deep"),
    ("two functions of one name", one("y = local.f (x)", 2 * (BODY + "f (x) => (y) { y = Exp (x) }\n")), "function 'local.f' failed: it is defined twice"),
    ("more inputs than the function has", one("y = local.f (x, x)", BODY + "f (x) => (y) { y = Exp (x) }"), "it has 2 inputs, and function 'local.f' has 1"),
    ("another type of an attribute", one("y = local.f <a = 1> (x)", BODY + "f <a> (x) => (y) { y = Elu <alpha: float = @a> (x) }"),
     "attribute 'a' is INT, and function 'local.f' takes FLOAT"),
    ("an operator that is in no function", one("y = local.f (x)", BODY + "f (x) => (y) { y = local.g (x) }"), "operator local.g, opset 1) failed: operator is not supported"),
    ("a body of no opset", one("y = local.f (x)", BODY.replace('"" : 17, ', "") + "f (x) => (y) { y = Exp (x) }"), "imports no opset of the default domain"),
    ("a body of a newer opset", one("y = local.f (x)", BODY.replace("17", "99") + "f (x) => (y) { y = Exp (x) }"), "opset 99 is outside of 1 to 27"),
]


class Functions(HeddleTestCase):
    def save(self, text, name="model"):
        path = self.folder / f"{name}.onnx"
        onnx.save(parser.parse_model(text), path)
        return path

    def run_call(self, module, feeds, outputs):
        arguments = []
        for name, array in feeds.items():
            np.save(self.folder / f"{name}.npy", array)
            arguments += ["--input", f"{name}=@{self.folder}/{name}.npy"]
        for name in outputs:
            arguments += ["--output", f"{name}=@{self.folder}/out-{name}.npy"]
        self.succeed("run", module, *arguments)
        return [np.load(self.folder / f"out-{name}.npy") for name in outputs]

    def test_gives_what_the_reference_gives(self):
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path = self.save(case.text, f"case{number}")
                model, module = onnx.load(path), self.compile(path)
                for feeds in case.calls:
                    expected = case.expected(**feeds) if case.expected else ReferenceEvaluator(model).run(None, feeds)
                    got = self.run_call(module, feeds, [output.name for output in model.graph.output])
                    for result, reference in zip(got, expected, strict=True):
                        half = result.dtype == np.float16
                        self.assertEqual(result.dtype, np.asarray(reference).dtype)
                        self.assert_close(result, np.asarray(reference), 2e-3 if half else 2e-5, 2e-3 if half else 2e-5)

    def test_refuses_what_does_not_fit(self):
        for what, text, reason in REFUSED:
            with self.subTest(what):
                start = time.monotonic()
                result = self.fail_with(1, "compile", self.save(text), "-o", self.folder / "refused.heddle")
                self.assertIn(reason, result.stderr)
                self.assertLess(time.monotonic() - start, 120)

    def test_reports_name_the_call(self):
        module = self.compile(self.save(one("y = local.f (x)", BODY + "f (x) => (y) { e = Exp (x)  y = local.g (e) }\n" + BODY + "g (x) => (y) { y = Tanh (x) }")))
        self.assertIn("y/g#1/Tanh#0", self.succeed("explain", module, "--format", "json").stdout)

    def test_attention_is_one_kernel(self):
        for what, inputs in {"mask": "q, k, v, m", "lengths": "q, k, v, , , , s"}.items():
            with self.subTest(what):
                model = self.save(head(24) + f"""main (float[2,4,3,8] q, float[2,2,6,8] k, float[2,2,6,8] v, float[3,6] m, int64[2] s) => (float[2,4,3,8] y) {{
                  y = Attention <softcap = 5.0> ({inputs}) }}""")
                report = json.loads(self.succeed("compile", model, "-o", self.folder / "model.heddle", "--target", "cpu", "--explain=json").stdout)
                self.assertIn("attention", [kernel["strategy"] for kernel in report["kernels"]])


if __name__ == "__main__":
    import unittest
    unittest.main()
