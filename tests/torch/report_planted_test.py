# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.report over the programs in planted_breaks: each has one break, or one fallback, of another kind.

Each file has `broken(...)`, with the comment `# breaks here`, and `mended(...)`, which follows the hint and computes the same. The report has to name
the stage, PyTorch's code or the operator, and the line; its hint has to contain the words HINT; and `mended` must not break. The JSON of both has to be
as report.schema.json says. Run as a program, this prints a line for each file; names of files choose some of them.
"""
import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import unittest

from report_test import SCHEMA, violations

FOLDER = pathlib.Path(__file__).resolve().parent / "planted_breaks"
HAS_TORCH = importlib.util.find_spec("torch") is not None
KINDS = 26


def load(path):
    spec = importlib.util.spec_from_file_location("planted_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results_of(made):
    return tuple(made) if not hasattr(made, "shape") else (made,)


def outcome(planted, function):
    """The results of a call of a function, and the gradients of its arguments if it trains."""
    arguments = planted.arguments()
    made = results_of(function(*arguments))
    if getattr(planted, "TRAINS", False):
        sum(one.sum() for one in made).backward()
        made += tuple(one.grad for one in arguments)
    return made


def observed(planted, function, backend):
    """The report of a few calls of a function, and the results of the last one, or the error that ended it."""
    import heddle.torch
    import torch

    torch.compiler.reset()
    before_call = getattr(planted, "before_call", None)
    with torch._dynamo.config.patch(getattr(planted, "CONFIG", {}) if function is planted.mended else {}), heddle.torch.report(planted.__name__) as report:
        compiled = torch.compile(function, backend=backend)
        for number in range(getattr(planted, "CALLS", 2)):
            if before_call is not None:
                before_call(number)
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    made = outcome(planted, compiled)
                except RuntimeError as wrong:
                    made = wrong
                    break
    return report.result(), made


def departures(report):
    """Where the JSON of a report is not as the schema says, or not what is read back."""
    from heddle.torch import _breaks_text
    from heddle.torch._breaks_records import Report

    read = json.loads(_breaks_text.json_of(report))
    return [*violations(read, SCHEMA), *([] if Report.from_dict(read) == report else ["the JSON is not read back as it was"])]


def judge(path):
    """What the report says of a file: (found, hint works, what is wrong)."""
    import heddle.torch
    import torch

    planted = load(path)
    lines = path.read_text().splitlines()
    line = next(i + 1 for i, text in enumerate(lines) if text.endswith("# breaks here"))
    stage, backend = getattr(planted, "STAGE", "trace"), getattr(planted, "BACKEND", "eager")
    if backend == "heddle":
        backend = heddle.torch.backend  # whose name is known only where the package is installed
    report, _ = observed(planted, planted.broken, backend)
    wrong = departures(report)
    if stage == "trace":
        fallbacks = report.fallbacks
        is_old = torch.__version__.startswith("2.11.")  # which has other codes for some, with another message
        codes = (getattr(planted, "CODE_OF_2_11", planted.CODE),) if is_old else (planted.CODE, getattr(planted, "CODE_SINCE_2_15", planted.CODE))
        at = [one for one in report.breaks if one.code in codes and one.place.line == line and one.place.file == str(path)]
        if not at:
            wrong.append(f"no {codes[0]} at line {line}: " + (", ".join(f"{one.code} at {one.place.line} ({one.kind})" for one in report.breaks) or "no break"))
        elif at[0].wrapped_in != [one for one in [getattr(planted, "WRAPPED_IN", "")] if one]:
            wrong.append(f"it is said to be in {at[0].wrapped_in}")
        elif len(report.breaks) != 1 or fallbacks:
            wrong.append(f"{len(report.breaks)} breaks and {fallbacks} fallbacks instead of one break: "
                         + ", ".join(f"{one.code} at {one.place.line} ({one.kind})" for one in report.breaks))
    else:
        found = [one for graph in report.graphs for one in graph.fallbacks]
        at = [one for one in found if one.op == planted.OP and one.place.line == line and one.place.file == str(path)]
        if not at:
            wrong.append(f"no {planted.OP} at line {line}: " + (", ".join(f"{one.op} at {one.place.line}" for one in found) or "no fallback"))
        elif at[0].backward is not getattr(planted, "TRAINS", False):
            wrong.append(f"it is said to be in the {'backward' if at[0].backward else 'forward'} pass")
        elif report.breaks:
            wrong.append("a break instead of a fallback: " + ", ".join(f"{one.code} at {one.place.line}" for one in report.breaks))
    found = not wrong
    hint = at[0].instead if at else ""
    if at and planted.HINT not in hint:
        wrong.append(f"the hint has not the words {planted.HINT!r}: {hint!r}")
    after, mended = observed(planted, planted.mended, backend)
    wrong += departures(after)
    left = [f"{one.code} at {one.place.line} ({one.kind})" for one in after.breaks] + [one.op for graph in after.graphs for one in graph.fallbacks if one.op == getattr(planted, "OP", "")]
    if isinstance(mended, RuntimeError):
        wrong.append(f"mended, it fails: {mended}".splitlines()[0])
    elif left:
        wrong.append("mended, it still breaks: " + ", ".join(left))
    else:
        with contextlib.redirect_stdout(io.StringIO()):
            expected = outcome(planted, planted.broken)
        try:
            torch.testing.assert_close(mended, expected, rtol=1e-5, atol=1e-6)
        except AssertionError as differs:
            wrong.append("mended, it computes something else: " + str(differs).splitlines()[0])
    return found, found and not wrong, "; ".join(wrong)


def files(names=()):
    return [path for path in sorted(FOLDER.glob("*.py")) if not names or path.stem in names]


class Planted(unittest.TestCase):
    @unittest.skipUnless(HAS_TORCH, "SKIP: PyTorch is not installed; tools/dev/setup --torch installs it")
    def test_each_kind_is_found_at_its_line_and_its_hint_works(self):
        judged = {path.stem: judge(path) for path in files()}
        self.assertEqual(len(judged), KINDS)
        for name, (found, works, wrong) in judged.items():
            with self.subTest(name):
                self.assertTrue(found and works, wrong)


def main(names):
    judged = {path.stem: judge(path) for path in files(names)}
    for name, (found, works, wrong) in judged.items():
        print(f"{name:24} {'found' if found else 'NOT FOUND':10} {'hint works' if works else 'HINT DOES NOT WORK':18} {wrong}".rstrip())
    print(f"found {sum(found for found, _, _ in judged.values())} of {len(judged)}, in the right stage and at the right line; "
          f"{sum(works for _, works, _ in judged.values())} hints work when followed")
    return 0 if all(found and works for found, works, _ in judged.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
