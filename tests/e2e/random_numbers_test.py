# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random operators: distributions, seeds, and that calls without a seed have numbers of their own. The bounds are five standard deviations and more."""
import sys

import numpy as np
import onnx
from onnx import parser

from heddle_command import REPOSITORY, HeddleTestCase

sys.path.insert(0, str(REPOSITORY / "tests" / "bench"))
import heddle_ctypes

COUNT = 1 << 16
MODEL = """<ir_version: 10, opset_import: ["" : 22]>
main (float[n] x, float[2,4] logits, float ratio, bool trains) => (float[n] u, float[n] v, double[n] w, float16[n] h, float[n] normal, bool[n] coin,
    int64[2,4096] chosen, float[n] dropped, bool[n] mask, float[n] fresh, float[n] other) {
  u = RandomUniformLike <seed = 1.0> (x)
  v = RandomUniformLike <seed = 2.0, low = -3.0, high = 5.0> (x)
  w = RandomUniformLike <seed = 1.0, dtype = 11> (x)
  h = RandomUniformLike <seed = 1.0, dtype = 10> (x)
  normal = RandomNormalLike <seed = 3.5, mean = 2.0, scale = 0.5> (x)
  quarter = Constant <value = float {0.25}> ()
  zeros = Mul (x, quarter)
  coin = Bernoulli <seed = 4.0, dtype = 9> (zeros)
  chosen = Multinomial <seed = 5.0, sample_size = 4096, dtype = 7> (logits)
  dropped, mask = Dropout <seed = 6> (x, ratio, trains)
  fresh = RandomUniformLike (x)
  other = RandomUniformLike (x)
}"""


class RandomNumbers(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names = [output.name for output in parser.parse_model(MODEL).graph.output]

    def open(self):
        path = self.folder / "random.onnx"
        onnx.save(parser.parse_model(MODEL), path)
        return heddle_ctypes.Runtime("").open(self.compile(path))

    def call(self, function, count=COUNT, ratio=0.3, trains=True):
        logits = np.log(np.array([[1, 2, 0, 1], [0, 0, 0, 5]], np.float32) + np.float32(1e-30))
        results = function.prepare(np.ones(count, np.float32), logits, np.array(ratio, np.float32), np.array(trains))[1]
        return dict(zip(self.names, (result.numpy().copy() for result in results), strict=True))

    def near(self, values, mean, deviation, count=COUNT):
        self.assertLess(abs(np.mean(values, dtype=np.float64) - mean), 5 * deviation / count**0.5)

    def test_all(self):
        module = self.open()
        function = module.instance("cpu").function()
        first = self.call(function)
        with self.subTest("uniform"):
            for name, low, high in (("u", 0, 1), ("v", -3, 5), ("w", 0, 1), ("h", 0, 1), ("fresh", 0, 1)):
                values = first[name].astype(np.float64)
                self.assertGreaterEqual(values.min(), low)
                self.assertLess(values.max(), high)
                self.near(values, (low + high) / 2, (high - low) / 12**0.5)
                tenths = np.histogram(values, 10, (low, high))[0]
                self.assertLess(np.abs(tenths - COUNT / 10).max(), 6 * (COUNT * 0.09) ** 0.5, name)
                self.assertLess(abs(np.corrcoef(values[1:], values[:-1])[0, 1]), 5 / COUNT**0.5, name)
            self.assertGreater(len(np.unique(first["w"])), COUNT - 2)
        with self.subTest("normal"):
            values = (first["normal"].astype(np.float64) - 2) / 0.5
            self.near(values, 0, 1)
            self.near(values**2, 1, 2**0.5)
            self.near(values**4, 3, 96**0.5)
        with self.subTest("of probabilities"):
            self.near(first["coin"], 0.25, 0.1875**0.5)
            self.near(first["mask"], 0.7, 0.21**0.5)
            np.testing.assert_allclose(first["dropped"], np.where(first["mask"], 1 / 0.7, 0), rtol=1e-6)
            for index, probability in enumerate((0.25, 0.5, 0, 0.25)):
                self.near(first["chosen"][0] == index, probability, 0.5, 4096)
            self.assertTrue((first["chosen"][1] == 3).all())
        with self.subTest("seeds"):
            second = self.call(function)
            for name in self.names:
                same = np.array_equal(first[name], second[name])
                self.assertEqual(same, name not in ("fresh", "other"), name)
            self.assertLess(np.mean(first["fresh"] == first["other"]), 0.001)
            self.assertLess(abs(np.corrcoef(first["fresh"], second["fresh"])[0, 1]), 5 / COUNT**0.5)
            np.testing.assert_array_equal(self.call(function, 100)["normal"], first["normal"][:100])
            again = self.call(module.instance("cpu").function())
            for name in self.names:
                np.testing.assert_array_equal(again[name], first[name], name)
        with self.subTest("no training, and no elements"):
            result = self.call(function, trains=False)
            self.assertTrue((result["mask"]).all() and (result["dropped"] == 1).all())
            self.assertTrue((self.call(function, ratio=0)["dropped"] == 1).all())
            self.assertEqual(self.call(function, 0)["u"].shape, (0,))

    def test_refused_in_a_loop(self):
        path = self.folder / "loop.onnx"
        onnx.save(parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
            main (int64 n, bool go, float[4] x) => (float[4] y) {
              y = Loop (n, go, x) <body = step (int64 i, bool c, float[4] a) => (bool d, float[4] b) { d = Identity (c)  r = RandomNormalLike (a)  b = Add (a, r) }>
            }"""), path)
        result = self.fail_with(1, "compile", path, "-o", self.folder / "refused.heddle")
        self.assertIn("random numbers in a graph of If, Loop or Scan", result.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
