# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle profile` on a GPU: ResNet-50's table, its sums beside the time of a call, and the device's peaks."""
import json
import unittest

from gpu import GpuTestCase  # first: it finds e2e and the models
from heddle_command import heddle
import light


class Profile(GpuTestCase):
    def test_resnet50(self):
        module = self.compile(light.randomized("resnet50"), "--target", "cuda")
        flags = ("profile", module, "--device", self.device, "--warmup", "5", "--iterations", "20")
        report = json.loads(self.succeed(*flags, "--format", "json").stdout)
        self.assertGreaterEqual(len(report["regions"]), 50)
        self.assertTrue(all(row["device"] == self.device and row["time_ns"] > 0 for row in report["regions"]))
        # Regions do not overlap while they are timed; the rest of a call is the host's part of it.
        self.assertLessEqual(report["regions_ns"], report["call_ns"])
        self.assertGreater(report["regions_ns"], report["call_ns"] / 2)
        peaks = report["peaks"][self.device]
        self.assertNotIn("unmeasured", peaks)
        # Of any GPU that is supported, and of none.
        for rate, least, most in (("gflops", 1e3, 1e6), ("f16_gflops", 1e4, 1e7), ("read_gbytes", 100, 1e5), ("copy_gbytes", 100, 1e5),
                                  ("cached_gbytes", 100, 1e6)):
            self.assertTrue(least < peaks[rate] < most, peaks)
        for row in report["kinds"]:
            self.assertTrue(0 < row["roofline"] < 3, row)
        print(heddle(*flags).stdout)
        print(heddle("bench", module, "--device", self.device).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
