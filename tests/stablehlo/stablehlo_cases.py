# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and runs StableHLO programs as any model, and compares the results. Writes results.json, and one table by operation, table.md.

    stablehlo_cases.py --cases FOLDER --prepare [--tests CLONE] [--jax]      makes cases; needs jaxlib, and jax for --jax
    stablehlo_cases.py --cases FOLDER --out FOLDER [--device cpu] [--target cpu] [--jobs N] [--only GLOB ...] [--before FILE] [--failures]
    stablehlo_cases.py --cases FOLDER --out FOLDER --target cuda --device none --modules FOLDER       compiles, for another machine
    stablehlo_cases.py --cases FOLDER --out FOLDER --device cuda:0 --modules FOLDER --only-run        runs there

--tests takes the tests of StableHLO's interpreter from a clone of github.com/openxla/stablehlo: stablehlo/tests/interpret, and stablehlo/testdata, which
was made from JAX's tests. Constants become arguments. --jax exports functions of jax_functions.py and computes with JAX what they have to give.

Many cases share a process. One that crashes or takes more than --limit seconds fails, and the next one has a new process. With --before the results are
compared with an earlier results.json. Exits with 1 if a case fails that passed before, and with 2 if the command is wrong.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "onnx_cases")]
import onnx_cases
import table

import case_files

INDEX = "cases.json"


class Child(onnx_cases.Child):
    PROGRAM = HERE / "stablehlo_worker.py"


def prepare(arguments, tell):
    """Writes the cases and the list of them, with the reasons of those that were left out."""
    import heddle.stablehlo as stablehlo
    known, index = set(), []

    def chosen(name, operator):
        return not arguments.only or any(fnmatch.fnmatch(name, glob) for glob in arguments.only)

    def add(name, operator, text, inputs, expected, checks, **more):
        if name in known:
            raise RuntimeError(f"two cases are named {name}")
        known.add(name)
        folder = f"{len(index):05d}"
        case_files.write(arguments.cases / folder, stablehlo.convert(text.encode() if isinstance(text, str) else text),
                         {"name": name, "operator": operator, "inputs": inputs, "expected": expected, "checks": checks, **more})
        index.append({"name": name, "operator": operator, "folder": folder})
        if len(index) % 500 == 0:
            tell(f"{len(index)} cases")

    left_out = {}
    if arguments.tests:
        import interpreter_tests
        left_out = interpreter_tests.prepare(arguments.tests, stablehlo, chosen, add)
    if arguments.jax:
        import jax_functions
        jax_functions.prepare(stablehlo, chosen, add)
    (arguments.cases / INDEX).write_text(json.dumps({"cases": index, "left_out": left_out}, indent=1))
    for reason, names in left_out.items():
        tell(f"left out, {len(names)}: {reason}, such as {names[0]}")
    tell(f"{len(index)} cases in {arguments.cases}")


def run_all(index, settings, arguments, tell):
    """Results, in the order of the cases."""
    results, turn, lock, errors = {}, iter(index), threading.Lock(), []

    def work():
        child = Child(settings, arguments.limit)
        with tempfile.TemporaryDirectory(prefix="heddle-stablehlo-") as folder:
            try:
                while not errors:
                    with lock:
                        case = next(turn, None)
                    if case is None:
                        return
                    module = (arguments.modules or pathlib.Path(folder)) / (case["folder"] + ".heddle")
                    began = time.monotonic()
                    if arguments.only_run and not module.exists():
                        answer = {"verdict": "failed", "reasons": ["compiler: it was not compiled"], "message": f"there is no {module.name}", "nodes": None}
                    else:
                        answer = child.ask({"name": case["name"], "folder": str(arguments.cases / case["folder"]), "module": str(module)})
                    if arguments.device not in ("cpu", "none") and any(reason.startswith("run") for reason in answer["reasons"]):
                        child.stop()  # a fault may have ended the device's context
                    if not arguments.modules:
                        module.unlink(missing_ok=True)
                    with lock:
                        results[case["name"]] = {"name": case["name"], "operator": case["operator"], **answer, "seconds": round(time.monotonic() - began, 3)}
                        if len(results) % 200 == 0:
                            tell(f"{len(results)} of {len(index)}")
            except Exception as error:  # of this program: the command fails
                errors.append(error)
            finally:
                child.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, min(arguments.jobs, len(index))))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[case["name"]] for case in index]


def page(results, left_out, device):
    lines = [table.page(results, f"StableHLO programs on {device}")]
    if left_out:
        lines += ["## Left out", "", "| reason | cases |", "| --- | ---: |"]
        lines += [f"| {table.cell(reason)} | {len(names)} |" for reason, names in left_out.items()]
    return "\n".join(lines) + "\n"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=pathlib.Path, required=True, help="folder of the cases")
    parser.add_argument("--prepare", action="store_true", help="make the cases")
    parser.add_argument("--tests", type=pathlib.Path, metavar="CLONE", help="clone of StableHLO, or a folder of .mlir files in the manner of its tests")
    parser.add_argument("--jax", action="store_true", help="functions that JAX exports")
    parser.add_argument("--out", type=pathlib.Path, help="folder for results.json and table.md")
    parser.add_argument("--target", default="cpu", help="as of heddle compile")
    parser.add_argument("--device", default="cpu", help="as of heddle run; none: only compile")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="of one case")
    parser.add_argument("--calls", type=int, default=1, metavar="N", help="calls of one case; a device may replay the later ones")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="names of cases; may be repeated")
    parser.add_argument("--operator", action="append", default=[], metavar="NAME", help="cases of this operation; may be repeated")
    parser.add_argument("--cache", type=pathlib.Path, help="folder for kernels of earlier runs")
    parser.add_argument("--modules", type=pathlib.Path, help="folder that keeps modules")
    parser.add_argument("--only-run", action="store_true", help="run the modules of --modules")
    parser.add_argument("--before", type=pathlib.Path, metavar="FILE", help="an earlier results.json")
    parser.add_argument("--config", default="", help="configuration of the runtime, as TOML")
    parser.add_argument("--failures", action="store_true", help="print each failure")
    arguments = parser.parse_args(argv)
    if arguments.prepare and not (arguments.tests or arguments.jax):
        parser.error("--prepare needs --tests or --jax")
    if not arguments.prepare and not arguments.out:
        parser.error("--prepare makes cases, --out runs them: give one of them, or both")
    if arguments.only_run and not arguments.modules:
        parser.error("--only-run needs --modules")
    if arguments.jobs < 1 or arguments.limit <= 0 or arguments.calls < 1:
        parser.error("--jobs, --limit and --calls have to be positive")
    for name in ("cases", "cache", "modules", "out"):
        if getattr(arguments, name):
            setattr(arguments, name, getattr(arguments, name).resolve())
            getattr(arguments, name).mkdir(parents=True, exist_ok=True)
    return arguments


def main(argv=None):
    arguments = parse(argv)
    begun = time.monotonic()

    def tell(text):
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    if arguments.prepare:
        prepare(arguments, tell)
    if not arguments.out:
        return 0
    kernels = arguments.cache / "kernels" if arguments.cache else None
    if kernels:
        kernels.mkdir(mode=0o700, exist_ok=True)
    if not (arguments.cases / INDEX).exists():
        print(f"{arguments.cases} has no {INDEX}: make cases with --prepare", file=sys.stderr)
        return 2
    listed = json.loads((arguments.cases / INDEX).read_text())
    index = [one for one in listed["cases"] if (not arguments.only or any(fnmatch.fnmatch(one["name"], glob) for glob in arguments.only))
             and (not arguments.operator or one["operator"] in arguments.operator)]
    if not index:
        print("no case has such a name", file=sys.stderr)
        return 2
    settings = {"target": arguments.target, "device": arguments.device, "only_run": arguments.only_run, "config": arguments.config,
                "calls": arguments.calls, "kernels": str(kernels or "")}
    results = run_all(index, settings, arguments, tell)
    (arguments.out / "results.json").write_text(json.dumps(results, indent=1))
    (arguments.out / "table.md").write_text(page(results, listed["left_out"], arguments.device))
    if arguments.failures:
        for one in results:
            if one["verdict"] != "passed":
                print(f"{one['name']}: {'; '.join(one['reasons'])}\n    {one['message']}")
    tell(table.summary(results))
    return 1 if arguments.before and onnx_cases.compare_with(arguments.before, results, tell) else 0


if __name__ == "__main__":
    sys.exit(main())
