# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes, axes and counts that are inputs of a model: each module is called several times with other values, and gives what ONNX Runtime gives, or refuses the
call with the node and the reason."""
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from heddle_command import HeddleTestCase

onnxruntime.set_default_logger_severity(4)
F, I = np.float32, np.int64
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
LARGEST, LOWEST = np.iinfo(I).max, np.iinfo(I).min


def f32(*shape):
    return (np.arange(np.prod(shape), dtype=F).reshape(shape) % 11 - 5) / 2


def i64(*values):
    return np.array(values, I)


class Case(NamedTuple):
    what: str
    text: str
    calls: list  # the inputs of each call, by name
    refused: list = []  # inputs, and what the error says


X = f32(2, 3, 4)
CASES = [
    Case("Reshape", "main (float[2,3,4] x, int64[3] s) => (float[a,b,c] y) { h = Neg (x)  r = Reshape (h, s)  y = Exp (r) }",
         [{"x": X, "s": i64(*s)} for s in ((4, 3, 2), (0, -1, 2), (24, 1, 1), (-1, 0, 0))],
         [({"x": X, "s": i64(5, 5, 1)}, "have to be equal"), ({"x": X, "s": i64(-3, 8, 1)}, "-3 is below 0"),
          ({"x": X, "s": i64(1 << 41, 1, 1)}, "is above 1099511627776")]),
    Case("Reshape of a batch to extents of which some are known", """main (float[n,4] x, int64[1] k) => (float[a,b,2] y) {
      two = Constant <value = int64[1] {2}> ()
      open = Constant <value = int64[1] {-1}> ()
      s = Concat <axis = 0> (open, k, two)
      y = Reshape (x, s) }""", [{"x": f32(6, 4), "k": i64(3)}, {"x": f32(2, 4), "k": i64(1)}], [({"x": f32(1, 4), "k": i64(3)}, "have to be equal")]),
    Case("Expand", "main (float[3,1] x, int64[3] s) => (float[a,b,c] y) { y = Expand (x, s) }",
         [{"x": f32(3, 1), "s": i64(*s)} for s in ((2, 3, 4), (1, 1, 1), (5, 1, 2), (0, 3, 2))], [({"x": f32(3, 1), "s": i64(1, 2, 1)}, "have to be equal")]),
    Case("Tile and ConstantOfShape", """main (float[2,3] x, int64[2] k) => (float[a,b] y, float[c,d] z) { y = Tile (x, k)  z = ConstantOfShape (k) }""",
         [{"x": f32(2, 3), "k": i64(*k)} for k in ((1, 1), (2, 3), (0, 2))], [({"x": f32(2, 3), "k": i64(1, -1)}, "-1 is below 0")]),
    Case("Range of integers", "main (int64 a, int64 b, int64 d) => (int64[n] y) { y = Range (a, b, d) }",
         [{"a": np.array(a, I), "b": np.array(b, I), "d": np.array(d, I)} for a, b, d in ((0, 5, 1), (10, -3, -4), (3, 3, 1), (5, 1, 2), (-2, 9, 3))]),
    Case("Range of numbers", "main (float a, float b, float d) => (float[n] y) { y = Range (a, b, d) }",
         [{"a": np.array(a, F), "b": np.array(b, F), "d": np.array(d, F)} for a, b, d in ((0, 5, 0.5), (1, -3, -1), (2, 2, 1))]),
    Case("Slice", "main (float[5,7] x, int64[2] a, int64[2] b, int64[2] axes, int64[2] d) => (float[p,q] y) { y = Slice (x, a, b, axes, d) }",
         [{"x": f32(5, 7), "a": i64(*a), "b": i64(*b), "axes": i64(*axes), "d": i64(*d)} for a, b, axes, d in (
             ((1, 2), (4, 6), (0, 1), (1, 2)), ((-1, LARGEST), (LOWEST, LOWEST), (1, 0), (-2, -1)), ((0, 9), (3, 9), (-2, -1), (1, 1)),
             ((3, -100), (1, 100), (0, 1), (1, 3)))],
         [({"x": f32(5, 7), "a": i64(0, 0), "b": i64(1, 1), "axes": i64(0, 2), "d": i64(1, 1)}, "index 2 is outside -2..1")]),
    Case("Slice along a known axis, and Shape of the result", """main (float[n,3] x, int64[1] a, int64[1] b) => (float[p,3] y, int64[2] s) {
      axes = Constant <value = int64[1] {0}> ()
      y = Slice (x, a, b, axes)
      s = Shape (y) }""", [{"x": f32(6, 3), "a": i64(1), "b": i64(-1)}, {"x": f32(2, 3), "a": i64(5), "b": i64(9)}]),
    Case("Split", "main (float[7] x, int64[2] s) => (float[a] y, float[b] z) { y, z = Split <axis = 0> (x, s) }",
         [{"x": f32(7), "s": i64(*s)} for s in ((3, 4), (7, 0))], [({"x": f32(7), "s": i64(3, 3)}, "have to be equal")]),
    Case("Pad", "main (float[3,4] x, int64[4] p, float v) => (float[a,b] y) { y = Pad (x, p, v) }",
         [{"x": f32(3, 4), "p": i64(*p), "v": np.array(v, F)} for p, v in (((1, 0, 2, 3), 0.5), ((0, 0, 0, 0), 1), ((-1, 2, 0, -3), -2))],
         [({"x": f32(3, 4), "p": i64(-2, 0, -2, 0), "v": np.array(0, F)}, "-1 is below 0")]),
    Case("Pad by other elements", """main (float[3,4] x, int64[4] p) => (float[a,b] y, float[c,d] z) {
      y = Pad <mode = "reflect"> (x, p)
      z = Pad <mode = "edge"> (x, p) }""", [{"x": f32(3, 4), "p": i64(*p)} for p in ((1, 2, 2, 3), (0, 0, 1, 0))],
         [({"x": f32(3, 4), "p": i64(3, 0, 0, 0)}, "index 3 is outside -3..2")]),
    Case("reductions", """main (float[2,3,4] x, int64[2] axes) => (float[a,b,c] y, float[d] z, float[e] w) {
      y = ReduceSum (x, axes)
      z = ReduceMax <keepdims = 0> (x, axes)
      w = ReduceLogSumExp <keepdims = 0> (x, axes) }""", [{"x": X, "axes": i64(*axes)} for axes in ((0, 2), (1, 0), (-1, -2))],
         [({"x": X, "axes": i64(1, 1)}, "have to be equal")]),
    Case("a reduction that keeps dimensions", "main (float[2,3,4] x, int64[1] axes) => (float[a,b,c] y) { y = ReduceProd (x, axes) }",
         [{"x": X, "axes": i64(axis)} for axis in (0, 1, -1)], [({"x": X, "axes": i64(3)}, "index 3 is outside -3..2")]),
    Case("NonZero and Compress", """main (float[3,n] x, bool[2] c) => (int64[2,k] y, float[a,n] z) { y = NonZero (x)  z = Compress <axis = 0> (x, c) }""",
         [{"x": f32(3, 4), "c": np.array([True, True])}, {"x": np.zeros((3, 2), F), "c": np.array([False, False])}, {"x": f32(3, 1), "c": np.array([False, True])}]),
    Case("Unique", "main (float[n] x) => (float[a] y, int64[a] i, int64[n] j, int64[a] c) { y, i, j, c = Unique <sorted = 0> (x) }",
         [{"x": np.array(x, F)} for x in ((2, 1, 1, 3, 4, 3), (5,), (7, 7, 7))]),
    Case("axes of none", "main (float[2,3] x, int64[0] axes) => (float[1,1] y, float[2,3] z) { y = ReduceMean (x, axes)  z = ReduceMean <noop_with_empty_axes = 1> (x, axes) }",
         [{"x": f32(2, 3), "axes": i64()}]),
    Case("CumSum", "main (float[2,3,4] x, int64 axis) => (float[2,3,4] y) { y = CumSum <exclusive = 1> (x, axis) }",
         [{"x": X, "axis": np.array(axis, I)} for axis in (0, 1, 2, -1)]),
    Case("Unsqueeze and Squeeze", """main (float[2,3] x, int64[2] axes) => (float[2,3] y) {
      u = Unsqueeze (x, axes)
      v = Neg (u)
      y = Squeeze (v, axes) }""", [{"x": f32(2, 3), "axes": i64(*axes)} for axes in ((0, 1), (3, 1), (-1, 0), (2, 1))]),
    Case("TopK, OneHot and Trilu", """main (float[3,5] x, int64[1] k, int64[2] index, float[2] values, int64 depth) => (float[3,a] y, int64[3,a] i, float[2,b] h, float[3,5] t) {
      y, i = TopK (x, k)
      h = OneHot (index, depth, values)
      t = Trilu (x, depth) }""", [{"x": f32(3, 5), "k": i64(k), "index": i64(0, -2), "values": np.array([0, 1], F), "depth": np.array(d, I)} for k, d in ((2, 4), (5, 2))],
         [({"x": f32(3, 5), "k": i64(6), "index": i64(0, 1), "values": np.array([0, 1], F), "depth": np.array(3, I)}, "has to be at least")]),
    Case("Resize by sizes and by scales", """main (float[1,2,3,4] x, int64[4] sizes, float[4] scales) => (float[a,b,c,d] y, float[e,f,g,h] z) {
      y = Resize <mode = "linear"> (x, "", "", sizes)
      z = Resize <mode = "nearest"> (x, "", scales) }""",
         [{"x": f32(1, 2, 3, 4), "sizes": i64(1, 2, *s), "scales": np.array((1, 1, *r), F)} for s, r in (((6, 8), (2, 3)), ((2, 3), (0.5, 0.6)))]),
    Case("Resize of a part, and by a filter", """main (float[1,1,4,6] x, float[8] roi, int64[4] sizes, float[4] scales) => (float[a,b,c,d] y, float[e,f,g,h] z) {
      y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 9.0> (x, roi, "", sizes)
      z = Resize <mode = "cubic", antialias = 1, exclude_outside = 1> (x, "", scales) }""",
         [{"x": f32(1, 1, 4, 6), "roi": np.array((0, 0, *a, 1, 1, *b), F), "sizes": i64(1, 1, *s), "scales": np.array((1, 1, *r), F)} for a, b, s, r in (
             ((0.25, -0.5), (0.75, 1.5), (3, 4), (0.5, 0.6)), ((0, 0), (1, 1), (4, 6), (1, 0.3)), ((0.5, 0.2), (0.9, 0.6), (1, 2), (2, 1.5)))]),
    Case("Col2Im", "main (float[n,6,l] x, int64[2] image, int64[2] block) => (float[a,b,c,d] y) { y = Col2Im <pads = [0, 1, 1, 0], strides = [1, 2]> (x, image, block) }",
         [{"x": f32(n, 6, count), "image": i64(*image), "block": i64(*block)} for n, count, image, block in ((2, 12, (3, 5), (1, 2)), (1, 6, (3, 4), (2, 3)))],
         [({"x": f32(2, 6, 12), "image": i64(3, 9), "block": i64(1, 2)}, "have to be equal"), ({"x": f32(2, 6, 12), "image": i64(0, 5), "block": i64(1, 2)}, "has to be at least")]),
    Case("extents that lead to others", """main (float[n,4] x, int64[1] k, float[4,3] w) => (float[a,3] y, int64[2] t) {
      zero = Constant <value = int64[1] {0}> ()
      head = Slice (x, zero, k)
      p = MatMul (head, w)
      s = Shape (p)
      q = Expand (p, s)
      total = ReduceSum <keepdims = 0> (q)
      whole = Cast <to = 7> (total)
      count = Abs (whole)
      c = Unsqueeze (count, zero)
      three = Constant <value = int64[1] {3}> ()
      t0 = Concat <axis = 0> (c, three)
      r = ConstantOfShape (t0)
      t = Shape (r)
      y = Relu (q) }""", [{"x": f32(6, 4), "k": i64(k), "w": np.ones((4, 3), F)} for k in (3, 1, 6)]),
]

REFUSED = [("a rank that is data", "main (float[6] x, int64[n] s) => (float[a] y) { y = Reshape (x, s) }", "a number of elements that is known only when the model runs")]


class DataExtents(HeddleTestCase):
    device, target = "cpu", "cpu"

    def save(self, text, name="model"):
        path = self.folder / f"{name}.onnx"
        onnx.save(parser.parse_model(HEAD + text), path)
        return path

    def inputs(self, feeds):
        for name, array in feeds.items():
            np.save(self.folder / f"{name}.npy", array)
        return [f"--input={name}=@{self.folder}/{name}.npy" for name in feeds]

    def test_gives_what_onnx_runtime_gives(self):
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path = self.save(case.text, f"case{number}")
                outputs = [output.name for output in onnx.load(path).graph.output]
                module = self.compile(path, "--target", self.target)
                session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
                results = [f"--output={name}=@{self.folder}/out-{name}.npy" for name in outputs]
                for feeds in case.calls:
                    self.succeed("run", module, "--device", self.device, *self.inputs(feeds), *results)
                    for name, expected in zip(outputs, session.run(None, feeds), strict=True):
                        got = np.load(self.folder / f"out-{name}.npy")
                        self.assertEqual(got.shape, np.asarray(expected).shape, f"{name} of {feeds}")
                        self.assert_close(got, np.asarray(expected), 1e-5, 1e-5)
                for feeds, reason in case.refused:
                    result = self.fail_with(1, "run", module, "--device", self.device, *self.inputs(feeds))
                    self.assertIn(reason, result.stderr)

    def test_refuses_what_is_not_there(self):
        for what, text, reason in REFUSED:
            with self.subTest(what):
                result = self.fail_with(1, "compile", self.save(text), "-o", self.folder / "refused.heddle")
                self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
