#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/measured/history/2026-11-21-mutants.md's tables from what conformance_mutants_test, conformance_files_test and conformance_foreign_test left in a build:
mutant, the case that is about what it breaks, and what that case said.

usage: tests/conformance/mutant_tables.py BUILD"""
import pathlib
import sys

# file: (heading, what the mutants are of)
KINDS = {
    "mutants": ("Drivers", "`mutations_*.cpp` over the C++ template"),
    "mutants_files": ("Files", "`files_test.py`: the C++ template's manifest, links and kernels for the kit"),
    "mutants_operations": ("Operations", "`odd_operations.cpp` over `heddle.cpu`"),
    "mutants_allocator": ("Allocators", "`odd_allocator.cpp` over the C++ template"),
    "mutants_streams": ("Stream order", "`odd_streams.cpp` over `heddle.pool`"),
    "mutants_library": ("Libraries", "`odd_library.cpp` over the C++ template"),
    "foreign_mutants": ("Foreign", "patches of all six templates, in `foreign`"),
}
MOST = 110  # characters of what a case said


def shown(text):
    cut = text if len(text) <= MOST else text[:MOST].rsplit(" ", 1)[0] + " ..."
    return cut.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]) / "test-results"
    tables = {kind: [line.split("\t") for line in (folder / f"conformance_{kind}.txt").read_text(encoding="utf-8").splitlines()] for kind in KINDS}
    print("| kind | of | mutants | caught |\n| --- | --- | ---: | ---: |")
    total = caught_in_all = 0
    for kind, (heading, source) in KINDS.items():
        # One that must be caught by several cases is one mutant.
        mutants = {line[0] for line in tables[kind]}
        caught = mutants - {line[0] for line in tables[kind] if line[3] != "failed"}
        total += len(mutants)
        caught_in_all += len(caught)
        print(f"| {heading.lower()} | {source} | {len(mutants)} | {len(caught)} |")
    print(f"| all | | {total} | {caught_in_all} |")
    for kind, (heading, _) in KINDS.items():
        rules = kind == "foreign_mutants"
        print(f"\n## {heading}\n\n| mutant |{' rule |' if rules else ''} caught by | which said |\n| --- |{' --- |' if rules else ''} --- | --- |")
        for mutant, rule, case, outcome, text in tables[kind]:
            print(f"| {mutant} |{f' {shown(rule)} |' if rules else ''} {case if outcome == 'failed' else f'NOT by {case}'} | {shown(text)} |")


if __name__ == "__main__":
    main()
