# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Digits and the nine networks on a GPU: the same files that run on the CPU, against ONNX Runtime on the CPU."""
import os
import pathlib
import shutil
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from gpu import GpuTestCase  # noqa: E402  (finds e2e)
from heddle_command import DIGITS  # noqa: E402
from networks_test import run_in_onnx_runtime  # noqa: E402
import light  # noqa: E402


class Models(GpuTestCase):
    def compare(self, path, name, image, rtol, atol_of_largest, *options, devices=()):
        module = self.compile(path, "--target", "cpu,cuda", *options)
        expected = run_in_onnx_runtime(path, image)
        for device in (self.device, *devices):
            got = self.run_module(module, name, image, "--device", device)
            error = np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max()
            print(f"{pathlib.Path(path).stem} on {device}: largest difference {error:.2e} of the largest value", flush=True)
            self.assert_close(got, expected, rtol, atol_of_largest * float(np.abs(expected).max()))

    def test_digits(self):
        images = np.random.default_rng(7).random((360, 1, 8, 8), dtype=np.float32)
        self.compare(DIGITS, "image", images, 1e-4, 1e-5, devices=["cpu:0"])

    def test_digits_as_machine_code(self):
        ptxas = shutil.which("ptxas", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
        if ptxas is None:
            self.skipTest("SKIP: no ptxas")
        images = np.random.default_rng(7).random((360, 1, 8, 8), dtype=np.float32)
        self.compare(DIGITS, "image", images, 1e-4, 1e-5, "--ptxas", ptxas)

    def check(self, name):
        input_name, _, _ = light.recorded(name)
        # One network shows, as the digits do, that the file for both runs on the CPU as well.
        self.compare(light.randomized(name), input_name, light.random_input(name), 1e-3, 1e-4, devices=["cpu:0"] if name == "squeezenet" else ())


for network in light.NAMES:
    setattr(Models, f"test_{network}_equals_onnx_runtime", lambda self, name=network: self.check(name))

if __name__ == "__main__":
    unittest.main(verbosity=2)
