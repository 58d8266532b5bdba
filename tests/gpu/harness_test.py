# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tests/gpu/run itself, on a pack of scripts: verdicts, what is kept of an earlier run, and the report. Needs no GPU."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GTEST = "echo '[  PASSED  ] %d tests.'\n"


class Harness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-harness-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pack(self, commit, **programs):
        """A pack whose test programs are these shell scripts; each also counts its runs."""
        build = self.folder / "content" / "build"
        (build / "tests").mkdir(parents=True, exist_ok=True)
        (self.folder / "content" / "libraries").mkdir(exist_ok=True)
        (build / "commit").write_text(commit + "\n")
        for name, script in programs.items():
            path = build / "tests" / name
            path.write_text(f"#!/bin/sh\necho ran >>'{self.folder}/{name}.runs'\n{script}")
            path.chmod(0o755)
        (self.folder / "pack").mkdir(exist_ok=True)
        for name in ("build", "libraries"):
            subprocess.run(["tar", "-C", build.parent, "-cJf", self.folder / "pack" / f"{name}.tar.xz", name], check=True)

    def run_jobs(self, *jobs):
        """(exit code, verdicts)."""
        command = [sys.executable, "-B", HERE / "run", "--pack", self.folder / "pack", "--out", self.folder / "out", "--work", self.folder / "work", *jobs]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        self.assertEqual(result.stderr, "")
        verdicts = {job: json.loads((self.folder / "out" / f"{job}.json").read_text())["verdict"] for job in jobs}
        return result.returncode, verdicts

    def runs(self, program):
        return (self.folder / f"{program}.runs").read_text().count("ran")

    def test_says_what_passed_failed_and_was_skipped(self):
        self.pack("A", gpu_driver_test=GTEST % 3 + "echo '[  SKIPPED ] 2 tests, listed below:'", gpu_runtime_test="echo broken; exit 3",
                  core_bench="echo 'SKIP: nothing to measure'; exit 77", weights_bench="echo fine")
        code, verdicts = self.run_jobs("driver", "runtime", "share", "weights_open")
        self.assertEqual(code, 1)
        self.assertEqual(verdicts, {"driver": "passed, 2 skipped", "runtime": "failed with 3", "share": "skipped", "weights_open": "passed"})

    def test_a_job_that_ran_nothing_is_skipped(self):
        self.pack("A", gpu_driver_test=GTEST % 0 + "echo '[  SKIPPED ] 5 tests, listed below:'",
                  gpu_runtime_test="printf 'Ran 0 tests in 0.1s\\n\\nOK (skipped=1)\\n'", core_bench="printf 'Ran 4 tests in 0.1s\\n\\nOK (skipped=1)\\n'")
        code, verdicts = self.run_jobs("driver", "runtime", "share")
        self.assertEqual(code, 0)
        self.assertEqual(verdicts, {"driver": "skipped", "runtime": "skipped", "share": "passed, 1 skipped"})

    def test_goes_on_with_the_same_pack_and_begins_again_with_another(self):
        self.pack("A", gpu_driver_test=GTEST % 1)
        self.run_jobs("driver")
        self.run_jobs("driver")
        self.assertEqual(self.runs("gpu_driver_test"), 1)
        self.assertIn("Commit A,", (self.folder / "out" / "report.md").read_text())
        self.pack("B", gpu_driver_test="exit 1")
        code, verdicts = self.run_jobs("driver")
        self.assertEqual((code, self.runs("gpu_driver_test"), verdicts["driver"]), (1, 2, "failed with 1"))
        report = (self.folder / "out" / "report.md").read_text()
        self.assertIn("Commit B,", report)
        self.assertIn("| driver | failed with 1 |", report)
        self.assertRegex(report, r"pack [0-9a-f]{16}; \d{4}-\d\d-\d\d \d\d:\d\d to ")

    def test_the_report_has_the_jobs_of_earlier_runs_of_the_same_pack(self):
        self.pack("A", gpu_driver_test=GTEST % 1, gpu_runtime_test=GTEST % 1)
        self.run_jobs("driver")
        self.run_jobs("runtime")
        report = (self.folder / "out" / "report.md").read_text()
        self.assertIn("| driver | passed |", report)
        self.assertIn("| runtime | passed |", report)

    def test_a_damaged_verdict_is_run_again(self):
        self.pack("A", gpu_driver_test=GTEST % 1)
        self.run_jobs("driver")
        (self.folder / "out" / "driver.json").write_text("{")
        self.run_jobs("driver")
        self.assertEqual(self.runs("gpu_driver_test"), 2)


class Pack(unittest.TestCase):
    def test_packs_a_build_without_tests(self):
        """Programs and libraries are scripts and texts here: what counts is that nothing but the build of the runtime and the compiler is asked for."""
        with tempfile.TemporaryDirectory(prefix="heddle pack ") as name:
            folder = pathlib.Path(name)
            build, tree = folder / "build", folder / "tree"
            (build / "bin").mkdir(parents=True)
            heddle = build / "bin" / "heddle"
            heddle.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho compiled >"$2"\n')
            heddle.chmod(0o755)
            (build / "lib" / "heddle" / "plugins.d").mkdir(parents=True)
            for library in ("libheddle", "libheddle_compiler", "libheddle_validation"):
                (build / "lib" / f"{library}.so").write_text("a library")
            subprocess.run(["git", "-c", "init.defaultBranch=main", "init", "-q", tree], check=True)
            subprocess.run(["git", "-C", tree, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "one"], check=True)
            (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={tree}\n")
            done = subprocess.run([HERE / "pack", folder / "pack", build], capture_output=True, text=True, timeout=300, env={**os.environ, "HEDDLE_VENV": sys.prefix})
            self.assertEqual(done.returncode, 0, done.stderr)
            listed = subprocess.run(["tar", "-tJf", folder / "pack" / "build.tar.xz"], check=True, capture_output=True, text=True).stdout.split()
            for packed in ("build/bin/heddle", "build/lib/libheddle.so", "build/tests/peers.heddle", "build/commit"):
                self.assertIn(packed, listed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
