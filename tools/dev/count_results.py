# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the test cases of one run and prints `N passed, N failed` as its last line.

Called by tools/dev/test. Reads only result files that the run has just written: ctest's, lit's, and, for a ctest test
that reports its own cases (GoogleTest, unittest), `<test name>.xml`. What did not run is never counted as passed.
"""
import argparse
import pathlib
import re
import sys
import xml.etree.ElementTree as xml


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = []
        self.skipped = []


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def named_with_reason(name, skipped):
    """`name (why it was skipped)`, as far as the result file says."""
    words = " ".join(((skipped.get("message") or skipped.text or "") if skipped is not None else "").split())
    reason = re.sub(r"^/.*?\.cpp:\d+ ", "", words).removeprefix("SKIP: ")
    return f"{name} ({reason[:160]})" if reason else name


def count_cases(path, prefix, tally):
    """Adds the cases of one result file; returns how many of them failed."""
    failed = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{prefix}{case.get('classname', '')}.{case.get('name', '')}"
        what = outcome(case)
        if what == "passed":
            tally.passed += 1
        elif what == "skipped":
            tally.skipped.append(named_with_reason(name, case.find("skipped")))
        else:
            failed += 1
            tally.failed.append(name)
    return failed


def count_ctest(results, registered, status, tally):
    path = results / "ctest.xml"
    if not path.exists():
        tally.failed.append("ctest: no result file")
        return
    cases = list(xml.parse(path).getroot().iter("testcase"))
    if len(cases) != registered:
        tally.failed.append(f"ctest: {registered} tests are registered, {len(cases)} have a result")
    failures = 0
    for case in cases:
        name = case.get("name")
        own = results / f"{name}.xml"
        skip = case.find("skipped")
        declared_skip = skip is not None and "SKIP" in (skip.get("message") or "").upper()
        if case.get("status") == "disabled" or declared_skip:
            tally.skipped.append(named_with_reason(name, skip))
        elif case.get("status") != "run" or outcome(case) != "passed":
            failures += 1
            # A crash leaves no result file, or one without a failure: it still counts as one failure.
            if not own.exists() or count_cases(own, f"{name}: ", tally) == 0:
                tally.failed.append(name)
        elif own.exists():
            before = tally.passed + len(tally.skipped)
            if count_cases(own, f"{name}: ", tally) > 0:
                continue
            if tally.passed + len(tally.skipped) == before:
                tally.failed.append(f"{name}: ran no case")
        else:
            tally.passed += 1
    if status != 0 and failures == 0:
        tally.failed.append(f"ctest: exit status {status}")


def count_lit(results, status, tally):
    if status == "none":
        return
    path = results / "lit.xml"
    if not path.exists():
        tally.failed.append("lit: no result file")
        return
    failed = count_cases(path, "lit: ", tally)
    if status != "0" and failed == 0:
        tally.failed.append(f"lit: exit status {status}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--registered", type=int, required=True)
    parser.add_argument("--ctest-status", type=int, required=True)
    parser.add_argument("--lit-status", required=True)
    arguments = parser.parse_args()
    tally = Tally()
    count_ctest(arguments.results, arguments.registered, arguments.ctest_status, tally)
    count_lit(arguments.results, arguments.lit_status, tally)
    if tally.passed == 0 and not tally.failed:
        tally.failed.append("no test ran")
    for name in tally.skipped:
        print(f"skipped: {name}")
    for name in tally.failed:
        print(f"failed: {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed")
    sys.stdout.flush()
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
