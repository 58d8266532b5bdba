# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each exit code stands for: 0 fine, 1 failed, 2 usage, 3 numbers differ, 4 device or plugin unavailable."""
import json

import numpy as np

from heddle_command import DIGITS, HeddleTestCase, heddle


class ExitCodes(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.module = self.compile(DIGITS)
        self.image, self.logits = self.folder / "image.npy", self.folder / "logits.npy"
        np.save(self.image, np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 1, 8, 8))
        self.run_arguments = ["run", self.module, "--input", f"image=@{self.image}"]

    def test_0_when_all_is_well(self):
        self.succeed(*self.run_arguments, "--output", f"@{self.logits}")
        self.assertEqual(np.load(self.logits).shape, (2, 10))

    def test_1_when_the_work_fails(self):
        (self.folder / "empty.heddle").write_bytes(b"")
        self.fail_with(1, "run", self.folder / "empty.heddle")

    def test_2_for_an_unknown_flag(self):
        self.assertIn("--no-such-flag", self.fail_with(2, *self.run_arguments, "--no-such-flag").stderr)
        self.assertIn("--no-such-flag", self.fail_with(2, "compile", DIGITS, "--no-such-flag").stderr)

    def test_2_for_an_unknown_command(self):
        self.assertIn("weave", self.fail_with(2, "weave").stderr)

    def test_2_for_a_missing_argument(self):
        self.fail_with(2, "run")
        self.fail_with(2, "compile")

    def test_0_or_3_as_the_numbers_agree_or_differ(self):
        self.succeed(*self.run_arguments, "--output", f"@{self.logits}")
        self.succeed(*self.run_arguments, "--expect", f"@{self.logits}")
        off = np.load(self.logits)
        off[1, 4] += 1.0
        np.save(self.logits, off)
        result = heddle(*self.run_arguments, "--expect", f"@{self.logits}")
        self.assertEqual(result.code, 3, str(result))
        self.succeed(*self.run_arguments, "--expect", f"@{self.logits}", "--atol", "2", "--rtol", "0")

    def test_3_when_the_expected_shape_differs(self):
        np.save(self.logits, np.zeros((2, 9), np.float32))
        result = heddle(*self.run_arguments, "--expect", f"@{self.logits}")
        self.assertIn(result.code, (2, 3), str(result))

    def test_4_when_a_required_plugin_is_not_there(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[plugins]\nrequire = ["acme.absent"]\n')
        self.assertIn("acme.absent", self.fail_with(4, *self.run_arguments, "--config", config).stderr)

    def test_4_when_the_only_driver_is_disabled(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[plugins]\ndisable = ["heddle.cpu"]\n')
        self.assertIn("heddle.cpu", self.fail_with(4, *self.run_arguments, "--config", config).stderr)

    def test_results_are_on_stdout_and_are_json_when_asked(self):
        for command in (["devices"], ["plugins"]):
            with self.subTest(command=command):
                json.loads(self.succeed(*command, "--format", "json").stdout)
