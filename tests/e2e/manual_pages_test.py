# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The manual pages that the build makes from the help of each command."""
import re
import shutil
import subprocess
import unittest

from heddle_command import HeddleTestCase, heddle_path

PAGES = heddle_path().parents[1] / "share" / "man" / "man1" if heddle_path() else None


class ManualPages(HeddleTestCase):
    def commands(self):
        help_text = self.succeed("--help").stdout
        return [name for name in re.findall(r"^  ([a-z]+) ", help_text, re.MULTILINE) if name not in ("diff", "reduce", "breaks")]  # of the Python package

    def test_every_command_has_its_page(self):
        self.assertEqual({page.name for page in PAGES.iterdir()}, {"heddle.1", *(f"heddle-{command}.1" for command in self.commands())})
        self.assertEqual((PAGES / "heddle-run.1").read_text(), self.succeed("help", "--man", "run").stdout)

    @unittest.skipUnless(shutil.which("groff"), "SKIP: groff is not installed")
    def test_pages_are_correct_and_have_every_flag(self):
        for page in sorted(PAGES.iterdir()):
            with self.subTest(page=page.name):
                shown = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-u", page], capture_output=True, text=True, check=True,
                                       timeout=60)
                self.assertEqual(shown.stderr, "")
                for section in ("NAME", "SYNOPSIS", "DESCRIPTION"):
                    self.assertTrue(re.search(rf"(?m)^{section}$", shown.stdout), section)
                command = page.stem.removeprefix("heddle").removeprefix("-")
                help_text = self.succeed(*([command] if command else []), "--help").stdout
                for flag in re.findall(r"^ {1,10}(?:-\w,)?(--[a-z][a-zA-Z0-9-]+)", help_text, re.MULTILINE):
                    self.assertTrue(re.search(rf"(?m)^ +(?:-\w,)?{flag}\b", shown.stdout), flag)
        params = (PAGES / "heddle-params.1").read_text()
        self.assertIn('.SH "HEDDLE PARAMS DIFF"', params)
        self.assertIn("\\-\\-rtol", params)

    def test_a_flag_says_once_that_it_may_be_repeated(self):
        for command in self.commands():
            for line in self.succeed(command, "--help").stdout.splitlines():
                self.assertLessEqual(line.count("may be repeated"), 1, f"{command}: {line}")

    def test_a_command_that_does_not_exist_has_none(self):
        self.assertIn("there is no such command", self.fail_with(2, "help", "--man", "nope").stderr)


if __name__ == "__main__":
    unittest.main()
