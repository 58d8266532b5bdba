# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.hip over AMD's HIP library and the stand-in for the HSA runtime: a part of the conformance kit (all of it with
HEDDLE_AMD_HIP_WHOLE_KIT=1, some minutes), and digits."""
import os
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS / "e2e")]
import kit  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position
from heddle_command import DIGITS, HeddleTestCase  # pylint: disable=wrong-import-position

WHOLE = bool(os.environ.get("HEDDLE_AMD_HIP_WHOLE_KIT"))
PART = "buffer.import,transfer.fill_at,transfer.copy_2d,transfer.pinned,dispatch.bindings,dispatch.arguments,timeline.across,lifetime.objects"
HSA = str(kit.BUILD / "tests" / "hsa")
# AMD's library ends the process when a kernel faults.
ENDS_THE_PROCESS = {"failure.device_lost"}


class Kit(unittest.TestCase):
    def test_the_kit(self):
        for seed in ("1",) if WHOLE else ("1", "2"):
            with self.subTest(seed=seed):
                os.environ.update(LD_LIBRARY_PATH=HSA, HEDDLE_HSA_SEED=seed)
                _, cases = kit.run(kit.BUILD / "tests/hip/gfx90a/heddle.hip.toml", "--time-limit", "300", *([] if WHOLE else ["--filter", PART]),
                                   timeout=3600)
                failed = {name: case["texts"] for name, case in cases.items() if case["outcome"] in ("failed", "skipped")}
                self.assertEqual({name: texts for name, texts in failed.items() if name not in ENDS_THE_PROCESS}, {})
                self.assertGreaterEqual(kit.count(cases, "passed"), 125 if WHOLE else 9)


class Digits(HeddleTestCase):
    def test_digits(self):
        module = self.compile(DIGITS, "--target", "cpu,hip:gfx90a")
        image = np.random.default_rng(3).random((2, 1, 8, 8), dtype=np.float32)
        expected = self.run_module(module, "image", image, "--device", "cpu:0")
        got = self.run_module(module, "image", image, "--device", "hip:0", extra_environment={"LD_LIBRARY_PATH": HSA, "HEDDLE_HSA_SEED": "3"})
        self.assert_close(got, expected, 1e-4, 1e-4)
        self.assertFalse((got == expected).all(), "the very bits of the CPU: did it run there?")


if __name__ == "__main__":
    unittest.main()
