# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles networks that export.py wrote, calls each module with inputs of several sizes, and compares with PyTorch. Writes results.json, and one table,
table.md.

    networks.py FOLDER --out FOLDER [--device cpu] [--target cpu] [--jobs N] [--only GLOB ...] [--before FILE]
    networks.py FOLDER --out FOLDER --target cuda --device none --modules FOLDER     compiles, for another machine
    networks.py --out FOLDER --device cuda:0 --modules FOLDER --only-run             runs there; needs neither the compiler nor onnx

A network is FOLDER/NAME.onnx; FOLDER/NAME.npz has its calls: inputs and outputs by "CALL:in:NAME" and "CALL:out:NAME". All calls are of one instance, in
turn, and the first one is repeated at the end. One that crashes or takes more than --limit seconds fails. With --cache kernels are compiled once. Exits
with 1 if a network fails, with --before only if it passed in that results.json, and with 2 if the command is wrong.
"""
import argparse
import fnmatch
import json
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "onnx_cases"))
sys.path.insert(0, str(HERE.parent / "bench"))
import onnx_cases
import table as cases_table


class Child(onnx_cases.Child):
    PROGRAM = HERE / "network_worker.py"


def chosen_networks(arguments):
    """Name to (model or None, folder that keeps the module or None)."""
    if arguments.only_run:
        names = [one["name"] for one in json.loads((arguments.modules / "results.json").read_text())]
    else:
        names = sorted(path.stem for path in arguments.folder.glob("*.npz") if path.with_suffix(".onnx").exists())
    wanted = [name for name in names if not arguments.only or any(fnmatch.fnmatch(name, glob) for glob in arguments.only)]
    return {name: (None if arguments.only_run else arguments.folder / f"{name}.onnx", arguments.modules and arguments.modules / name) for name in wanted}


def run_all(chosen, settings, arguments, tell):
    """Results in the order of the names."""
    compiled = {one["name"]: one for one in json.loads((arguments.modules / "results.json").read_text())} if arguments.only_run else {}
    results, turn, lock, errors = {}, iter(chosen), threading.Lock(), []

    def work():
        child = Child(settings, arguments.limit)
        try:
            while not errors:
                with lock:
                    name = next(turn, None)
                if name is None:
                    return
                if name in compiled and compiled[name]["verdict"] != "passed":
                    results[name] = compiled[name]
                    continue
                model, kept = chosen[name]
                if kept:
                    kept.mkdir(parents=True, exist_ok=True)
                began = time.monotonic()
                answer = child.ask({"name": name, "model": str(model or ""), "kept": str(kept or "")})
                if arguments.device not in ("cpu", "none") and answer["verdict"] != "passed":
                    child.stop()  # a fault may have ended the device's context
                with lock:
                    results[name] = {"name": name, **answer, "seconds": round(time.monotonic() - began, 2)}
                    tell(f"{name}: {row(results[name])[3]}{' ' + results[name]['message'] if results[name]['message'] else ''}")
        except Exception as error:  # of this program: the command fails
            errors.append(error)
        finally:
            child.stop()

    threads = [threading.Thread(target=work) for _ in range(min(arguments.jobs, len(chosen)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[name] for name in chosen]


def row(one):
    """Name, number of nodes, whether it compiles, errors of the calls, share of kernels."""
    nodes, calls = one.get("nodes") or {}, one.get("calls", [])
    compiles = "yes" if one.get("compile_seconds") is not None else "no: " + "; ".join(one["reasons"])
    if one["verdict"] != "passed" and compiles == "yes":
        compiles = "yes, but " + "; ".join(one["reasons"])
    errors = ", ".join(f"{call['sizes']}: {'wrong' if call['error'] is None else format(call['error'], '.1e')}" for call in calls)
    computed = nodes.get("kernels", 0) + nodes.get("host", 0)
    seconds = "" if one.get("compile_seconds") is None else f"{one['compile_seconds']:.1f}"
    return one["name"], str(sum(nodes.values()) or one.get("count", "")), compiles, errors, seconds, cases_table.share(nodes.get("kernels", 0), computed)


def summary(results):
    passed = sum(one["verdict"] == "passed" for one in results)
    return f"{passed} of {len(results)} networks are right for all sizes, {sum(one.get('compile_seconds') is not None for one in results)} compile."


def times(results):
    """The rows of those that were timed, the slowest beside ONNX Runtime first."""
    timed = sorted((one for one in results if one.get("times")), key=lambda one: -one["times"]["ratio"])
    return [f"| {one['name']} | {one['times']['sizes']} | {one['times']['heddle']:.2f} | {one['times']['onnx_runtime']:.2f} | {one['times']['ratio']:.2f} |" for one in timed]


def page(results, title):
    lines = [f"# {title}", "", summary(results), "", "An error is the largest difference in a result, divided by the result's largest value. *Kernels* is the share of nodes in "
             "generated kernels, of those that compute something when the module runs.", "",
             "| network | nodes | compiles | errors by size | compile s | kernels |", "| --- | ---: | --- | --- | ---: | ---: |"]
    lines += ["| " + " | ".join(cases_table.cell(part) for part in row(one)) + " |" for one in results]
    if rows := times(results):
        lines += ["", "## Beside ONNX Runtime", "", "Medians of a call of the sizes that take longest, in turns; below 1 Heddle is faster.", "",
                  "| network | sizes | Heddle ms | ONNX Runtime ms | ratio |", "| --- | --- | ---: | ---: | ---: |", *rows]
    found = cases_table.reasons_of([one for one in results if one["verdict"] != "passed"])
    if found:
        lines += ["", "## Reasons", "", "*Alone* counts the networks with no other reason.", "", "| reason | networks | alone | such as |", "| --- | ---: | ---: | --- |"]
        lines += [f"| {cases_table.cell(reason)} | {count} | {alone} | {example} |"
                  for reason, (count, alone, example) in sorted(found.items(), key=lambda one: (-one[1][0], one[0]))]
        lines += ["", "## Failures", "", "| network | message |", "| --- | --- |"]
        lines += [f"| {one['name']} | {cases_table.cell(one['message'])} |" for one in results if one["verdict"] != "passed"]
    return "\n".join(lines) + "\n"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="with networks, as export.py writes it")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for results.json and table.md")
    parser.add_argument("--target", default="cpu", help="as of heddle compile")
    parser.add_argument("--device", default="cpu", help="as of heddle run; none: only compile")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="of one network")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="names of networks; may be repeated")
    parser.add_argument("--cache", type=pathlib.Path, help="folder for kernels of earlier runs")
    parser.add_argument("--modules", type=pathlib.Path, help="folder that keeps modules and values")
    parser.add_argument("--only-run", action="store_true", help="run the modules of --modules")
    parser.add_argument("--before", type=pathlib.Path, metavar="FILE", help="an earlier results.json")
    parser.add_argument("--seconds", type=float, default=0, help="also time each call beside ONNX Runtime in six turns of so many seconds each")
    parser.add_argument("--config", default="", help="configuration of the runtime, as TOML")
    arguments = parser.parse_args(argv)
    if arguments.only_run and not arguments.modules:
        parser.error("--only-run needs --modules")
    if arguments.seconds and (arguments.only_run or arguments.device == "none"):
        parser.error("--seconds needs networks and a device")
    if not arguments.only_run and not arguments.folder:
        parser.error("a folder of networks is needed")
    if arguments.jobs < 1 or arguments.limit <= 0:
        parser.error("--jobs and --limit have to be positive")
    for name in ("folder", "cache", "modules", "out"):
        if getattr(arguments, name):
            setattr(arguments, name, getattr(arguments, name).resolve())
    return arguments


def main(argv=None):
    arguments = parse(argv)
    begun = time.monotonic()

    def tell(text):
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    for folder in filter(None, (arguments.out, arguments.cache, arguments.modules)):
        folder.mkdir(parents=True, exist_ok=True)
    if arguments.cache:
        arguments.cache.chmod(0o700)  # as the compiler wants it
    settings = {"target": arguments.target, "device": arguments.device, "only_run": arguments.only_run, "config": arguments.config,
                "kernels": str(arguments.cache or ""), "seconds": arguments.seconds}
    chosen = chosen_networks(arguments)
    if not chosen:
        print("there is no network of such a name", file=sys.stderr)
        return 2
    results = run_all(chosen, settings, arguments, tell)
    (arguments.out / "results.json").write_text(json.dumps(results, indent=1))
    if arguments.modules and not arguments.only_run:
        (arguments.modules / "results.json").write_text(json.dumps(results, indent=1))
    (arguments.out / "table.md").write_text(page(results, f"Networks that PyTorch exported, on {arguments.device}"))
    tell(summary(results))
    if arguments.before:
        return 1 if onnx_cases.compare_with(arguments.before, results, tell) else 0
    return 0 if all(one["verdict"] == "passed" for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
