# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nine `light` networks compiled for AMD GPUs of both kinds: every kernel fits the chip and keeps its values in registers. Nothing runs here.
HEDDLE_TEST_ALL=1 compiles all of them with random weights, too."""
import json

from heddle_command import HeddleTestCase, TEST_ALL
import light  # found through heddle_command

RANDOM_BY_DEFAULT = ("squeezenet",)
TARGETS = {"gfx90a": {"subgroup_size": 64, "registers": 512}, "gfx1100": {"subgroup_size": 32, "registers": 256}}
LOCAL_MEMORY_BYTES = 65_536


class Compiled(HeddleTestCase):
    def check(self, path):
        report_path = self.folder / "report.json"
        self.succeed("compile", path, "-o", self.folder / "model.heddle", "--target", ",".join(f"hip:{chip}" for chip in TARGETS), "--report", report_path)
        report = json.loads(report_path.read_text())
        self.assertEqual({region["family"] for region in report["regions"]}, {"hip"})
        for kernel in report["kernels"]:
            self.assertEqual({variant["target"] for variant in kernel["variants"]}, set(TARGETS))
            for variant in kernel["variants"]:
                with self.subTest(kernel=kernel["kernel"], target=variant["target"]):
                    self.assertEqual(variant["format"], "hsaco/1")
                    self.assertEqual(variant["subgroup_size"], TARGETS[variant["target"]]["subgroup_size"])
                    self.assertLessEqual(variant["registers"], TARGETS[variant["target"]]["registers"])
                    self.assertLessEqual(variant["shared_memory_bytes"], LOCAL_MEMORY_BYTES)
                    self.assertEqual((variant["private_bytes"], variant["spilled_bytes"]), (0, 0))
                    self.assertGreaterEqual(variant["subgroups_per_simd"], 1)


def add_cases():
    """One case for each network, so that each is counted by itself."""
    for name in light.NAMES:
        setattr(Compiled, f"test_{name}_fits_both_chips", lambda self, name=name: self.check(light.published_path(name)))
        if name in RANDOM_BY_DEFAULT or TEST_ALL:
            setattr(Compiled, f"test_{name}_with_random_weights_fits_both_chips", lambda self, name=name: self.check(light.randomized(name)))


add_cases()
