# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle profile` on a GPU: ResNet-50's table, and its sums beside the time of a call."""
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
        print(heddle(*flags).stdout)
        print(heddle("bench", module, "--device", self.device).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
