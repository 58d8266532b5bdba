# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs heddle-conformance for the tests of this folder."""
import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ["HEDDLE_BUILD"])
SOURCE = pathlib.Path(os.environ["HEDDLE_SOURCE"])
KIT = BUILD / "bin" / "heddle-conformance"
SANITIZED = bool(os.environ.get("HEDDLE_SANITIZE"))
# For plugins that must pass, however busy the machine is.
PATIENT = ("--time-limit", "300", "--patience", "100")


def environment():
    """Faults that a plugin makes on purpose, or that a case makes with fork and exit, are the kit's to report."""
    changed = dict(os.environ)
    changed["ASAN_OPTIONS"] = changed.get("ASAN_OPTIONS", "") + ":detect_leaks=0:allocator_may_return_null=1"
    changed["TSAN_OPTIONS"] = changed.get("TSAN_OPTIONS", "") + ":die_after_fork=0:allocator_may_return_null=1"
    return changed


def run(plugin, *arguments, timeout=600):
    """(exit code, {case: {"outcome", "texts", ...}}) of one run of the kit."""
    command = [str(KIT), "--plugin", str(plugin), "--json", "--jobs", "4", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False)
    if done.returncode not in (0, 1):
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr or done.stdout[-2000:]}")
    result = json.loads(done.stdout)
    return done.returncode, {case["name"]: case for case in result["cases"]}


def write_table(name, lines):
    """(mutant, rule, case, outcome, texts), for mutant_tables.py."""
    folder = BUILD / "test-results"
    folder.mkdir(exist_ok=True)
    (folder / f"conformance_{name}.txt").write_text("".join("\t".join(" ".join(field.split()) for field in line) + "\n" for line in lines))


def count(cases, outcome):
    return sum(case["outcome"] == outcome for case in cases.values())
