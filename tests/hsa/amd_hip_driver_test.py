# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.hip over AMD's HIP library and the stand-in for the HSA runtime: a part of the conformance kit and digits; with HEDDLE_TEST_ALL=1, which takes
many minutes, the whole kit and the nine `light` networks with random weights."""
import os
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS / "e2e")]
import kit  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position
from heddle_command import DIGITS, TEST_ALL, HeddleTestCase  # pylint: disable=wrong-import-position
import light  # found through heddle_command; pylint: disable=wrong-import-position,wrong-import-order

PART = "buffer.import,transfer.fill_at,transfer.copy_2d,transfer.pinned,dispatch.bindings,dispatch.arguments,timeline.across,lifetime.objects,blocks."
HSA = str(kit.BUILD / "tests" / "hsa")


class Kit(unittest.TestCase):
    def test_the_kit(self):
        for seed in ("1",) if TEST_ALL else ("1", "2"):
            with self.subTest(seed=seed):
                os.environ.update(LD_LIBRARY_PATH=HSA, HEDDLE_HSA_SEED=seed)
                _, cases = kit.run(kit.BUILD / "tests/hip/gfx90a/heddle.hip.toml", *kit.PATIENT, *([] if TEST_ALL else ["--filter", PART]),
                                   timeout=3600)
                failed = {name: case["texts"] for name, case in cases.items() if case["outcome"] in ("failed", "skipped")}
                self.assertEqual(failed, {})
                self.assertGreaterEqual(kit.count(cases, "passed"), 140 if TEST_ALL else 12)

    def test_a_fault_ends_the_process_as_the_driver_says(self):
        # The library itself aborts when the HSA runtime reports an error of a queue.
        os.environ.update(LD_LIBRARY_PATH=HSA, HEDDLE_HSA_SEED="1")
        _, cases = kit.run(kit.BUILD / "tests/hip/gfx90a/heddle.hip.toml", *kit.PATIENT, "--filter", "failure.device_lost")
        case = cases["failure.device_lost"]
        self.assertEqual(case["outcome"], "absent", case["texts"])
        self.assertIn("HEDDLE_DEVICE_FAULT_ENDS_PROCESS, by abort()", case["texts"][0])
        self.assertIn("Device::callbackQueue aborting with error : HSA_STATUS_ERROR_MEMORY_FAULT", case["texts"][1])


class Models(HeddleTestCase):
    def check(self, model, name, value):
        module = self.compile(model, "--target", "cpu,hip:gfx90a")
        expected = self.run_module(module, name, value, "--device", "cpu:0")
        numbers = self.folder / "numbers"
        got = self.run_module(module, name, value, "--device", "hip:0",
                              extra_environment={"LD_LIBRARY_PATH": HSA, "HEDDLE_HSA_SEED": "3", "HEDDLE_HSA_STATISTICS": str(numbers)})
        self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))
        self.assertRegex(numbers.read_text(), r"kernels=[1-9]\d+ instructions=[1-9]\d{4}")

    def test_digits(self):
        self.check(DIGITS, "image", np.random.default_rng(3).random((2, 1, 8, 8), dtype=np.float32))


def add_cases():
    for name in light.NAMES if TEST_ALL else ():
        setattr(Models, f"test_{name}", lambda self, name=name: self.check(light.randomized(name), light.recorded(name)[0], light.random_input(name)))


add_cases()


if __name__ == "__main__":
    unittest.main()
