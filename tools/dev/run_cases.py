# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the unittest cases of one file and writes their outcomes where tools/dev/test counts them.

Usage: run_cases.py SCRIPT RESULTS.xml. Called by ctest through heddle_add_python_test. A module that cannot be loaded,
or that holds no case, is a failure.
"""
import importlib.util
import pathlib
import sys
import unittest
import xml.etree.ElementTree as xml


class RecordingResult(unittest.TextTestResult):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.suite = xml.Element("testsuite")

    def record(self, test, kind=None, text=""):
        case = xml.SubElement(self.suite, "testcase", name=test.id())
        if kind:
            xml.SubElement(case, kind).text = text

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.record(test, "failure", str(error[1]))

    def addError(self, test, error):
        super().addError(test, error)
        self.record(test, "error", str(error[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.record(subtest, "failure", str(error[1]))

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.record(test, "skipped", "expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, "failure", "unexpected success")


def main():
    script, results = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    sys.path.insert(0, str(script.parent))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    outcome = unittest.TextTestRunner(resultclass=RecordingResult, verbosity=2).run(suite)
    results.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(outcome.suite).write(results, encoding="utf-8", xml_declaration=True)
    if outcome.testsRun == 0:
        print(f"run_cases: {script} holds no case", file=sys.stderr)
        return 1
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
