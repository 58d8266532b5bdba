# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `cmake --install` puts into an empty folder works there, and the C example builds against it."""
import os
import pathlib
import shutil
import subprocess

from heddle_command import DIGITS, HeddleTestCase, REPOSITORY, TIMEOUT_S, environment

BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", REPOSITORY / "build" / "release"))


class Installation(HeddleTestCase):
    def execute(self, *command):
        process = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=TIMEOUT_S, cwd=self.folder,
                                 stdin=subprocess.DEVNULL, env=environment())
        self.assertEqual(process.returncode, 0, f"{command}\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
        return process.stdout

    def install(self, *arguments):
        prefix = self.folder / "prefix"
        self.execute("cmake", "--install", BUILD, "--prefix", prefix, *arguments)
        return prefix

    def test_the_c_example_reads_a_digit(self):
        prefix = self.install()
        self.execute(prefix / "bin" / "heddle", "compile", DIGITS, "-o", "digits.heddle")
        sanitize = os.environ.get("HEDDLE_SANITIZE")
        self.execute(
            shutil.which("cc") or "gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", *([f"-fsanitize={sanitize}"] if sanitize else []),
            REPOSITORY / "examples" / "read_digit.c", "-I", prefix / "include", "-L", prefix / "lib", "-lheddle",
            f"-Wl,-rpath,{prefix / 'lib'}", "-o", "read_digit",
        )
        self.assertEqual(self.execute("./read_digit", "digits.heddle"), "the digit is a 1\n")

    def test_the_runtime_alone_finds_its_plugins(self):
        prefix = self.install("--component", "runtime")
        self.assertFalse((prefix / "bin" / "heddle-compile").exists())
        plugins = self.execute(prefix / "bin" / "heddle-plugins", "--why", "--format", "csv")
        self.assertIn(f"{prefix}/lib/heddle/plugins.d/heddle.cpu.toml", plugins)
        self.assertIn("\ncpu:0,heddle.cpu,", self.execute(prefix / "bin" / "heddle", "devices", "--format", "csv"))


if __name__ == "__main__":
    import unittest

    unittest.main()
