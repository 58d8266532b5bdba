# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Suppressed boxes, Fourier transforms, deformed convolutions, n-grams and bits: each module is called with several shapes, and gives what ONNX Runtime
gives, or NumPy where ONNX Runtime lacks the operator."""
from typing import Callable, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from heddle_command import HeddleTestCase

onnxruntime.set_default_logger_severity(4)
F, I = np.float32, np.int64


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def boxes(batch, count, seed=0):
    """Corners in any order, of which many overlap."""
    corners = np.random.default_rng(seed).uniform(0, 4, (batch, count, 4)).astype(F)
    return np.round(corners * 8) / 8


def scores(batch, classes, count, seed=1):
    """Some are equal."""
    return (np.random.default_rng(seed).integers(0, 20, (batch, classes, count)) / 20).astype(F)


def transformed(x, length=None, axis=-2, inverse=False, one_sided=False):
    """Of a signal whose last dimension has real and imaginary parts."""
    values = x[..., 0].astype(np.float64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    at = axis % x.ndim
    if inverse and one_sided:
        return np.fft.irfft(values, length, at)[..., None].astype(x.dtype)
    result = np.fft.ifft(values, length, at) if inverse else np.fft.rfft(values.real, length, at) if one_sided else np.fft.fft(values, length, at)
    return np.stack([result.real, result.imag], -1).astype(x.dtype)


class Case(NamedTuple):
    what: str
    text: str
    calls: list  # the inputs of each call, by name
    expected: Callable = None  # of the inputs by name: the outputs; without it, ONNX Runtime's
    opset: str = '"" : 20'
    tolerance: float = 2e-5


SPECTRA = {  # length of the signal, parts, inputs and attributes of the node
    "direct": (30, 2, {}), "of real numbers": (33, 1, {"one_sided": True}), "inverse": (17, 2, {"inverse": True}),
    "cut off": (40, 2, {"length": 12}), "with zeros": (10, 1, {"length": 31}), "divided": (600, 2, {}), "divided twice": (1024, 1, {"one_sided": True}),
    "of a long prime": (601, 1, {}), "divided inverse": (840, 2, {"inverse": True}), "to real numbers": (10, 2, {"inverse": True, "one_sided": True}),
    "to an odd number of real numbers": (12, 2, {"inverse": True, "one_sided": True, "length": 23}),
    "divided, to real numbers": (513, 2, {"inverse": True, "one_sided": True}), "divided, with zeros": (500, 1, {"length": 1000}),
}


def spectrum(what, elements, parts, how):
    length = f"l = Constant <value = int64 {{{how['length']}}}> ()\n" if "length" in how else ""
    attributes = ", ".join(f"{name} = 1" for name in (["inverse"] if how.get("inverse") else []) + (["onesided"] if how.get("one_sided") else []))
    attributes = f"<{attributes}>" if attributes else ""
    text = f"""main (float[n,{elements},{parts}] x) => (float[n,a,b] y) {{
      {length} y = DFT {attributes} (x{', l' if length else ''}) }}"""
    return Case(f"DFT {what}", text, [{"x": f32(n, elements, parts)} for n in (1, 3)], lambda x: [transformed(x, **how)])


CASES = [spectrum(what, *one) for what, one in SPECTRA.items()] + [
    Case("DFT along another axis, of a symbolic length, in f64", "main (double[2,n,3,2] x) => (double[2,n,3,2] y) { axis = Constant <value = int64 {1}> ()  y = DFT (x, , axis) }",
         [{"x": f32(2, n, 3, 2).astype(np.float64)} for n in (1, 5, 24)], lambda x: [transformed(x, axis=1)], tolerance=1e-9),
    Case("DFT of opset 17, whose axis is an attribute", "main (float[4,n,3,1] x) => (float[a,b,c,2] y) { y = DFT <axis = 0, onesided = 1> (x) }",
         [{"x": f32(4, n, 3, 1)} for n in (1, 5)], lambda x: [transformed(x, axis=0, one_sided=True)], '"" : 17'),
    Case("STFT of symbolic signals", """main (float[n,l,1] x) => (float[n,f,33,2] y) {
      step = Constant <value = int64 {16}> ()  size = Constant <value = int64 {64}> ()  window = HannWindow (size)  y = STFT (x, step, window) }""",
         [{"x": f32(n, l, 1)} for n, l in ((1, 64), (2, 200))]),
    Case("STFT by steps that are data, of complex numbers", "main (float[2,96,2] x, int64 step, int64 size) => (float[2,f,b,2] y) { y = STFT <onesided = 0> (x, step, , size) }",
         [{"x": f32(2, 96, 2), "step": np.array(step, I), "size": np.array(size, I)} for step, size in ((16, 32), (7, 96))]),
    Case("MelWeightMatrix", """main (int64 n, int64 l, int64 r, float a, float b) => (float[x,y] w) { w = MelWeightMatrix (n, l, r, a, b) }""",
         [{"n": np.array(n, I), "l": np.array(l, I), "r": np.array(16000, I), "a": np.array(a, F), "b": np.array(7000, F)} for n, l, a in ((8, 256, 0), (20, 401, 100))],
         opset='"" : 17'),
    Case("NonMaxSuppression of symbolic boxes", """main (float[n,b,4] boxes, float[n,c,b] scores) => (int64[k,3] y) {
      most = Constant <value = int64[1] {4}> ()  overlap = Constant <value = float[1] {0.3}> ()  least = Constant <value = float[1] {0.25}> ()
      y = NonMaxSuppression (boxes, scores, most, overlap, least) }""",
         [{"boxes": boxes(n, b), "scores": scores(n, c, b)} for n, c, b in ((1, 1, 1), (2, 3, 40), (1, 2, 150))] +
         [{"boxes": boxes(1, 9), "scores": np.zeros((1, 2, 9), F)}]),
    Case("NonMaxSuppression by numbers that are data", """main (float[2,30,4] boxes, float[2,3,30] scores, int64 most, float overlap) => (int64[k,3] y) {
      y = NonMaxSuppression <center_point_box = 1> (boxes, scores, most, overlap) }""",
         [{"boxes": boxes(2, 30), "scores": scores(2, 3, 30), "most": np.array(most, I), "overlap": np.array(overlap, F)}
          for most, overlap in ((100, 0.5), (3, 0.1), (0, 0.5), (-1, 0.5), (30, 0))]),
    Case("DeformConv", """main (float[n,6,h,w] x, float[n,24,a,b] offset, float[n,12,a,b] mask) => (float[n,4,a,b] y) {
      filter = Constant <value = float[4,3,2,3] {""" + ", ".join(str(v) for v in f32(72, seed=3)) + """}> ()  bias = Constant <value = float[4] {1, -2, 0.5, 3}> ()
      y = DeformConv <group = 2, offset_group = 2, kernel_shape = [2,3], strides = [2,1], dilations = [1,2], pads = [1,0,0,2]> (x, filter, offset, bias, mask) }""",
         [{"x": f32(n, 6, 7, 8), "offset": f32(n, 24, 4, 6, seed=1), "mask": f32(n, 12, 4, 6, seed=2)} for n in (1, 3)], opset='"" : 19'),
    Case("TfIdfVectorizer", """main (int64[n,t] x) => (float[n,7] y) {
      y = TfIdfVectorizer <mode = "TFIDF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 3, ngram_counts = [0, 4], ngram_indexes = [0,1,2,3,4,5,6],
        pool_int64s = [2,3,5,4, 5,6, 7,8, 6,7], weights = [1.0,2.0,3.0,4.0,5.0,6.0,7.0]> (x) }""",
         [{"x": np.random.default_rng(n).integers(1, 9, (n, t))} for n, t in ((1, 12), (3, 2), (4, 30))]),
    Case("BitCast", "main (float[n] x, int64[n] i) => (uint32[n] y, double[n] z) { h = Neg (x)  y = BitCast <to = 12> (h)  z = BitCast <to = 11> (i) }",
         [{"x": np.array([0, 1, -3.5, np.inf, 1e-40], F), "i": np.arange(5, dtype=I) << 60}], lambda x, i: [(-x).view(np.uint32), i.view(np.float64)], '"" : 26'),
    Case("MaxRoiPool", "main (float[n,c,h,w] x, float[r,5] rois) => (float[r,c,3,2] y) { y = MaxRoiPool <pooled_shape = [3, 2], spatial_scale = 0.5> (x, rois) }",
         [{"x": f32(2, 3, 9, 7), "rois": np.array([[0, 0, 0, 12, 16], [1, 3, 5, 9, 9], [1, -4, -6, 4, 1], [0, 9, 9, 3, 3], [1, 11, 17, 60, 60]], F)},
          {"x": f32(1, 1, 2, 5, seed=2), "rois": np.array([[0, 1, 1, 8, 2]], F)}]),
    *(Case(f"GlobalLpPool, p {p}", f"main (float[n,c,h,w] x) => (float[n,c,1,1] y) {{ y = GlobalLpPool <p = {p}> (x) }}", [{"x": f32(2, 3, 5, 4)}, {"x": f32(1, 1, 1, 1)}])
      for p in (1, 2, 3)),
]


class BoxesAndSignals(HeddleTestCase):
    def save(self, case, name):
        path = self.folder / f"{name}.onnx"
        onnx.save(parser.parse_model(f"<ir_version: 10, opset_import: [{case.opset}]>\n{case.text}"), path)
        return path

    def expected(self, case, path):
        if case.expected:
            return lambda feeds: case.expected(**feeds)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda feeds: session.run(None, feeds)

    def test_gives_what_others_give(self):
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path = self.save(case, f"case{number}")
                outputs = [output.name for output in onnx.load(path).graph.output]
                module, expected = self.compile(path), self.expected(case, path)
                for feeds in case.calls:
                    for name, array in feeds.items():
                        np.save(self.folder / f"{name}.npy", array)
                    self.succeed("run", module, "--device", "cpu", *(f"--input={name}=@{self.folder}/{name}.npy" for name in feeds),
                                 *(f"--output={name}=@{self.folder}/out-{name}.npy" for name in outputs))
                    for name, wanted in zip(outputs, expected(feeds), strict=True):
                        got = np.load(self.folder / f"out-{name}.npy")
                        self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype), f"{name} of {feeds}")
                        scale = max(1, float(np.abs(wanted).max())) if wanted.size and wanted.dtype.kind == "f" and case.opset != '"" : 26' else 1
                        self.assert_close(got, wanted, case.tolerance, case.tolerance * scale)


if __name__ == "__main__":
    import unittest
    unittest.main()
