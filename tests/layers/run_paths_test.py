# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks where built programs and libraries look for the libraries they need: never in the current folder, which an empty or a relative
entry of RUNPATH would mean."""
import os
import pathlib
import re
import subprocess
import unittest

BUILD = pathlib.Path(os.environ["HEDDLE_BUILD"])
FOLDERS = ("bin", "lib", "lib/heddle/plugins.d", "tests")


def elf_files():
    for folder in FOLDERS:
        for path in sorted((BUILD / folder).glob("*")):
            if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
                yield path


class RunPaths(unittest.TestCase):
    def test_no_entry_is_empty_or_relative(self):
        count = 0
        for path in elf_files():
            dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
            for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
                count += 1
                for entry in entries.split(":"):
                    self.assertRegex(entry, r"^(/|\$ORIGIN(/|$))", f"{path} searches '{entries}'")
        self.assertGreater(count, 3, "too few files have a RUNPATH to have been looked at")


if __name__ == "__main__":
    unittest.main()
