# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The validation layer on the mutants of the kit's tests: a host that keeps every rule is told of what the driver breaks, where a call shows it."""
import os
import subprocess
import unittest

import kit

PROGRAM = kit.BUILD / "tests" / "behind_the_layer"
LAYER = kit.BUILD / "lib" / "libheddle_validation.so"
DRIVER = kit.BUILD / "tests" / "odd_driver" / "libheddle_odd_driver.so"

# mutant: the rule that the layer names
MUTANTS = {
    "alignment_of_3": "HD-M-04",
    "one_device": "HD-E-07",
    "no_first_word": "HD-H-01",
    "overwrites_outputs": "HD-E-04",
    "ignores_alignment": "HD-M-04",
    "never_releases_imports": "HD-T-03",
    "releases_imports_at_once": "HD-T-03",
    "clobbers_errno": "HD-T-02",
    "clobbers_the_signal_mask": "HD-T-02",
    "clobbers_floating_point": "HD-T-02",
    "starts_at_0": "HD-Q-09",
    "queries_one_less": "HD-Q-09",
    "gives_up_early": "HD-Q-09",
    "notifies_twice": "HD-T-03",
    "forgets_the_queues_work": "HD-Q-06",
}
ODDITIES = ("", "tiny", "hidden_memory", "wide_alignment", "staged_copies", "least_functions", "short_tables")


def told(changes):
    done = subprocess.run([PROGRAM, LAYER, DRIVER], capture_output=True, text=True, timeout=120, check=False,
                          env={**kit.environment(), "ODD_DRIVER": changes})
    return done.returncode, [line for line in done.stdout.splitlines() if "broke a rule" in line], done.stdout + done.stderr


class Layer(unittest.TestCase):
    def test_every_mutant_that_a_call_shows_is_told_of(self):
        missed = {}
        for mutant, rule in MUTANTS.items():
            _, lines, everything = told(mutant)
            if not any(f"the plugin broke a rule" in line and f"[{rule}]" in line for line in lines):
                missed[mutant] = everything[-600:]
        self.assertEqual(missed, {})

    def test_nothing_is_told_of_drivers_that_keep_the_rules(self):
        for oddity in ODDITIES:
            code, lines, everything = told(oddity)
            self.assertEqual((code, lines), (0, []), f"{oddity}: {everything[-600:]}")
            self.assertRegex(everything, r"validation: \d{2,} calls of test.odd_driver were checked, 0 violations were found")


if __name__ == "__main__":
    unittest.main()
