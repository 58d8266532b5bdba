# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle breaks`: runs a program of PyTorch, and says where its compiled functions break, why, and what that costs.

    heddle breaks train.py --steps 10
    heddle breaks --json now.json --against before.json --max-breaks 0 -m my.package
    heddle breaks now.json --html now.html
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import runpy
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from .._errors import Error, make
from . import _breaks_compare, _breaks_page, _breaks_text
from ._breaks_records import Report
from ._pytorch import pytorch


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="heddle breaks", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a program that uses torch.compile, and reports where its functions broke into several graphs, why, what each break cost, and what to write\n"
                    "instead; likewise operators for which the backend has no code. Or reads a report that --json wrote.",
        epilog="Exit codes: 0 success, 1 failure, also of the program, 2 usage error, 3 more breaks or fallbacks than --max-breaks or --max-fallbacks allow.")
    made.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead of a script; what follows are its arguments")
    made.add_argument("--backend", help="compile with this backend instead of those that the program asks for")
    made.add_argument("--caches", action="store_true", help="let Inductor take graphs from its caches, whose fallbacks are then unknown")
    made.add_argument("--format", choices=["text", "json"], default="text", help="of what is printed (text)")
    made.add_argument("--json", metavar="FILE", help="write the report as JSON")
    made.add_argument("--html", metavar="FILE", help="write the report as an HTML page")
    made.add_argument("--against", metavar="FILE", help="print what changed since this report, which --json wrote")
    made.add_argument("--max-breaks", type=int, metavar="N", help="exit with 3 if there are more breaks")
    made.add_argument("--max-fallbacks", type=int, metavar="N", help="exit with 3 if more nodes of graphs fell back")
    made.add_argument("program", nargs="?", metavar="SCRIPT", help="the script, followed by its arguments; or a report that --json wrote (*.json)")
    return made


def _split(made: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what is the program's: everything after the script, or after -m MODULE. A report has no arguments."""
    valued = {name for action in made._actions if action.nargs != 0 for name in action.option_strings}
    i = 0
    while i < len(arguments):
        one = arguments[i]
        if one == "-m" or (one.startswith("-m") and not one.startswith("--")):
            end = i + (2 if one == "-m" else 1)
            return arguments[:end], arguments[end:]
        if not one.startswith("-"):
            return (arguments, []) if one.endswith(".json") else (arguments[:i + 1], arguments[i + 1:])
        i += 2 if one in valued else 1
    return arguments, []


def _read(path: str) -> Report:
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
    except OSError as wrong:
        raise make("NOT_FOUND", f"reading the report {path} failed: {wrong.strerror}") from wrong
    except ValueError as wrong:
        raise make("INVALID_ARGUMENT", f"reading the report {path} failed: it is no JSON ({wrong})") from wrong
    return Report.from_dict(read)


def _always(backend: str) -> Any:
    """Makes `torch.compile` use a backend, whatever it is asked for. Returns what it was."""
    import functools

    torch = pytorch()
    there = torch.compile
    registry = pytorch("_dynamo.backends.registry")
    if backend == "heddle" and backend not in registry.list_backends(exclude_tags=()):  # its entry point is in the wheel, and a build has none
        registry.register_backend(importlib.import_module("heddle.torch").backend, name=backend)

    @functools.wraps(there)
    def compile(*args: Any, **kwargs: Any) -> Any:
        kwargs["backend"] = backend
        kwargs.pop("mode", None)  # of Inductor
        kwargs.pop("options", None)
        return there(*args, **kwargs)

    torch.compile = compile
    return there


def _run(given: argparse.Namespace, arguments: list[str]) -> tuple[Report, int]:
    """The report of a run, and the program's exit code."""
    from .report import Session

    name = given.module or given.program
    session = Session(os.path.basename(name), given.caches).open()
    there = _always(given.backend) if given.backend else None
    argv, path, code = sys.argv, list(sys.path), 0
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd() if given.module else os.path.dirname(os.path.abspath(name)))
    try:
        if given.module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except Exception:
        traceback.print_exc()
        code = 1
    finally:
        session.close()
        sys.argv, sys.path[:] = argv, path
        if there is not None:
            pytorch().compile = there
    return session.result(), code


def _exceeded(report: Report, given: argparse.Namespace) -> list[str]:
    made = []
    for what, found, limit in (("breaks", len(report.breaks), given.max_breaks), ("fallbacks", report.fallbacks, given.max_fallbacks)):
        if limit is not None and found > limit:
            made.append(f"heddle breaks: there {'is' if found == 1 else 'are'} {_breaks_text.count_text(found, what[:-1])}, and --max-{what} is {limit}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code."""
    made = parser()
    mine, others = _split(made, list(sys.argv[1:] if arguments is None else arguments))
    given = made.parse_args(mine)
    flags = {name for action in made._actions for name in action.option_strings if name.startswith("--")} - {"--help"}
    for one in others:
        if one.split("=")[0] in flags:
            print(f"heddle breaks: {one.split('=')[0]} is an argument of {given.module or given.program}, since it follows it; flags of heddle breaks come before",
                  file=sys.stderr)
    if given.program is None and given.module is None:
        made.error("a script, -m MODULE, or a report is needed")
    for name in ("max_breaks", "max_fallbacks"):
        if getattr(given, name) is not None and getattr(given, name) < 0:
            made.error(f"--{name.replace('_', '-')} {getattr(given, name)}: it must not be negative")
    try:
        before = _read(given.against) if given.against else None
        if given.module is None and given.program.endswith(".json"):
            if given.backend:
                made.error(f"{given.program} is a report, which --backend cannot change")
            report, code = _read(given.program), 0
        else:
            if given.module is None and not os.path.exists(given.program):
                raise make("NOT_FOUND", f"running {given.program} failed: there is no such file")
            report, code = _run(given, others)
        for path, text in ((given.json, _breaks_text.json_of), (given.html, _breaks_page.page_of)):
            if path:
                pathlib.Path(path).write_text(text(report), encoding="utf-8")
    except Error as wrong:
        print(f"heddle breaks: {wrong}", file=sys.stderr)
        return 1
    except OSError as wrong:
        print(f"heddle breaks: writing {wrong.filename} failed: {wrong.strerror}", file=sys.stderr)
        return 1
    try:
        print(_breaks_text.json_of(report).rstrip() if given.format == "json" else _breaks_text.text_of(report))
        if before is not None:
            out = sys.stderr if given.format == "json" else sys.stdout
            print(f"\nSince {given.against}\n{_breaks_compare.compare(before, report)}", file=out)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has seen enough, such as head; Python would write the rest when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    exceeded = _exceeded(report, given)
    for line in exceeded:
        print(line, file=sys.stderr)
    if code != 0:
        print(f"heddle breaks: {given.module or given.program} ended with exit code {code}; the report covers the run until then", file=sys.stderr)
        return 1
    return 3 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
