# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the `heddle` command for the end-to-end tests, as a user would from a terminal.

HEDDLE_BIN names the folder of the command; where it is not set, the release build's is taken, and
without that the tests are skipped with a reason. HEDDLE_TEST_ALL=1 asks for the long forms.
Knows the command line only, nothing of libraries or file formats.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "models"))
sys.path.insert(0, str(REPOSITORY / "tests" / "models" / "digits"))

DIGITS = REPOSITORY / "tests" / "models" / "digits" / "digits.onnx"
TEST_ALL = os.environ.get("HEDDLE_TEST_ALL", "0") not in ("", "0")
# A command that neither ends nor answers is a failure of its own.
TIMEOUT_S = 600


def heddle_path():
    """The command's path, or None if nobody said where it is and there is no release build."""
    folder = os.environ.get("HEDDLE_BIN")
    if folder is None and not (REPOSITORY / "build" / "release" / "bin" / "heddle").exists():
        return None
    path = pathlib.Path(folder or REPOSITORY / "build" / "release" / "bin") / "heddle"
    if not path.exists():
        raise FileNotFoundError(f"HEDDLE_BIN is {folder}, but there is no {path}")
    return path


# Where plugins for tests are, and the head of a configuration that has them and does not probe them in a child each time.
TEST_DRIVERS = heddle_path().parents[1] / "tests" / "plugins.d" if heddle_path() else None
CPU_AND_STREAMS = """
version = 1
[plugins.probe]
"heddle.cpu" = "in-process"
"test.streams" = "in-process"
[device.gpu]
driver = "test.streams"
select = { uuid = "e0000000" }
[device.one]
driver = "heddle.cpu"
select = { ordinal = 0 }
"""


class CommandResult:
    def __init__(self, arguments, process):
        self.arguments = [str(argument) for argument in arguments]
        self.code, self.stdout, self.stderr = process.returncode, process.stdout, process.stderr

    def __str__(self):
        return f"heddle {' '.join(self.arguments)}\nexit code {self.code}\n{self.stdout[-2000:]}{self.stderr[-4000:]}"


def environment():
    """The caller's environment without colours, pagers and anything that would change what the command finds."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HEDDLE_")}
    # Of the build, and not the user's; a test that wants none says so.
    return {"XDG_CACHE_HOME": str(heddle_path().parents[1] / "tests" / "cache"), **kept, "NO_COLOR": "1"}


def heddle(*arguments, extra_environment=None, **options):
    """Runs `heddle ARGUMENTS...` to its end and returns its CommandResult, whatever the exit code."""
    process = subprocess.run(
        [str(heddle_path()), *map(str, arguments)], text=True, capture_output=True, timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL, errors="replace", env={**environment(), **(extra_environment or {})}, **options,
    )
    return CommandResult(arguments, process)


def shapes_in(text):
    """Every shape written in a text (1x3x8x8, [1, 3, 8, 8], f32[1,3,8,8]) as a tuple of numbers."""
    found = re.findall(r"(?<![\w.])[\d?]+(?:(?:\s*,\s*|\s*[x×]\s*)[\d?]+)+", text)
    return [tuple(int(part) for part in re.findall(r"\d+", shape)) for shape in found]


class HeddleTestCase(unittest.TestCase):
    """A test with a folder of its own, removed afterwards."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if heddle_path() is None:
            raise unittest.SkipTest("SKIP: HEDDLE_BIN is not set and build/release/bin/heddle does not exist")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def succeed(self, *arguments, **options):
        result = heddle(*arguments, **options)
        self.assertEqual(result.code, 0, str(result))
        return result

    def fail_with(self, code, *arguments, **options):
        """Runs a command that must fail in order: the exit code, something on stderr, nothing that looks like a crash."""
        result = heddle(*arguments, **options)
        self.assertIn(result.code, code if isinstance(code, tuple) else (code,), str(result))
        self.assert_clear_error(result)
        return result

    def assert_clear_error(self, result):
        self.assertTrue(result.stderr.strip(), f"no error text: {result}")
        for bad in ("terminate called", "Assertion", "Stack dump", "Segmentation", "Sanitizer", "LLVM ERROR", "core dumped"):
            self.assertNotIn(bad, result.stderr, str(result))

    def compile(self, model, *arguments):
        module = self.folder / (pathlib.Path(model).stem + ".heddle")
        self.succeed("compile", model, "-o", module, *arguments)
        return module

    def run_module(self, module, name, value, *arguments, **options):
        """One call of the module's function with one input; returns its first output."""
        given, got = self.folder / "input.npy", self.folder / "output.npy"
        np.save(given, value)
        got.unlink(missing_ok=True)
        self.succeed("run", module, "--input", f"{name}=@{given}", "--output", f"@{got}", *arguments, **options)
        return np.load(got)

    def assert_close(self, got, expected, rtol, atol):
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.dtype, expected.dtype)
        if not got.size:
            return
        excess = np.abs(got.astype(np.float64) - expected) - (rtol * np.abs(expected.astype(np.float64)) + atol)
        worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
        wrong = int((~(excess <= 0)).sum())
        self.assertEqual(
            wrong, 0,
            f"{wrong} of {excess.size} values differ by more than {rtol}*|expected| + {atol:.3g}; the worst, at "
            f"{tuple(map(int, worst))}, is {got[worst]!r}, expected {expected[worst]!r}",
        )
