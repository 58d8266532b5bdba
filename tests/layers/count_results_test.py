# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests that tools/dev/count_results.py never hides a failure: crashes, missing results, tests that ran no case."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
COUNTER = SOURCE / "tools" / "dev" / "count_results.py"

PASSED = '<testcase name="{}" status="run"/>'
FAILED = '<testcase name="{}" status="fail"><failure message=""/></testcase>'
NOT_RUN = '<testcase name="{}" status="notrun"><skipped message="Unable to find executable"/></testcase>'
SKIPPED = '<testcase name="{}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>'


class CountResults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = pathlib.Path(self.folder.name)

    def write(self, name, *cases):
        (self.results / name).write_text(f"<testsuite>{''.join(cases)}</testsuite>")

    def count(self, registered, ctest=0, lit="none"):
        arguments = ["--registered", str(registered), "--ctest-status", str(ctest), "--lit-status", lit]
        done = subprocess.run(
            [sys.executable, str(COUNTER), str(self.results), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.splitlines()[-1], done.returncode

    def test_counts_cases_of_programs_that_report_them(self):
        self.write("ctest.xml", PASSED.format("a"), PASSED.format("b"))
        self.write("a.xml", PASSED.format("x"), PASSED.format("y"))
        self.assertEqual(self.count(2), ("3 passed, 0 failed", 0))

    def test_does_not_count_skipped_cases(self):
        self.write("ctest.xml", PASSED.format("a"), SKIPPED.format("b"))
        self.write("a.xml", PASSED.format("x"), NOT_RUN.format("y"))
        self.assertEqual(self.count(2), ("1 passed, 0 failed", 0))

    def test_a_failed_case_is_counted_once(self):
        self.write("ctest.xml", FAILED.format("a"))
        self.write("a.xml", PASSED.format("x"), FAILED.format("y"))
        self.assertEqual(self.count(1, ctest=8), ("1 passed, 1 failed", 1))

    def test_a_crash_without_results_fails(self):
        self.write("ctest.xml", FAILED.format("a"))
        self.assertEqual(self.count(1, ctest=8), ("0 passed, 1 failed", 1))

    def test_a_crash_after_good_results_fails(self):
        self.write("ctest.xml", FAILED.format("a"))
        self.write("a.xml", PASSED.format("x"))
        self.assertEqual(self.count(1, ctest=8), ("1 passed, 1 failed", 1))

    def test_a_missing_program_fails(self):
        self.write("ctest.xml", NOT_RUN.format("a"), PASSED.format("b"))
        self.assertEqual(self.count(2, ctest=8), ("1 passed, 1 failed", 1))

    def test_a_test_without_result_fails(self):
        self.write("ctest.xml", PASSED.format("a"))
        self.assertEqual(self.count(2), ("1 passed, 1 failed", 1))

    def test_a_program_that_ran_no_case_fails(self):
        self.write("ctest.xml", PASSED.format("a"))
        self.write("a.xml")
        self.assertEqual(self.count(1), ("0 passed, 1 failed", 1))

    def test_no_tests_at_all_fail(self):
        self.write("ctest.xml")
        self.assertEqual(self.count(0), ("0 passed, 1 failed", 1))

    def test_no_result_file_fails(self):
        self.assertEqual(self.count(0), ("0 passed, 1 failed", 1))

    def test_an_unexplained_exit_status_fails(self):
        self.write("ctest.xml", PASSED.format("a"))
        self.assertEqual(self.count(1, ctest=1), ("1 passed, 1 failed", 1))

    def test_text_tests_are_added(self):
        self.write("ctest.xml", PASSED.format("a"))
        self.write("lit.xml", PASSED.format("x.mlir"), FAILED.format("y.mlir"))
        self.assertEqual(self.count(1, lit="1"), ("2 passed, 1 failed", 1))

    def test_text_tests_without_result_fail(self):
        self.write("ctest.xml", PASSED.format("a"))
        self.assertEqual(self.count(1, lit="2"), ("1 passed, 1 failed", 1))


if __name__ == "__main__":
    unittest.main()
