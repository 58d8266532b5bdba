# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times networks that export.py wrote beside ONNX Runtime, OpenVINO and, with --inductor, PyTorch's Inductor: with all cores and with one. Writes
results.json after each network, and table.md.

    beside_peers.py FOLDER --out FOLDER [--only GLOB ...] [--call N ...] [--inductor] [--rounds N] [--seconds S]

Each network has a process of its own, in which everybody takes turns. Calls are those of NAME.npz: --call 0 is the first one; by default all. The ratio
is that of Heddle's time to the time of the best of the others in the same round, the median of all rounds; below 1 Heddle is faster. A result of Heddle
that is not the expected one, or a peer that cannot run the network, is noted and printed; a wrong result of Heddle makes the exit code 1. Inductor
compiles the network that the file was exported from, for exactly the sizes of the call. Products are of true f32 everywhere.
"""
import argparse
import fnmatch
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "onnx_cases"))
sys.path.insert(0, str(HERE.parent / "bench"))
import heddle_ctypes
import network_worker
import peers
import turns
import worker

PEERS = {"ONNX Runtime": peers.onnx_runtime_call, "OpenVINO": peers.openvino_call}


def inductor_calls(name, inputs, numbers_of_threads):
    """Number of threads to function of one call. `inputs` are in the order of the file, which may lack some of the network's."""
    import export
    import torch
    import torch._dynamo.config
    import torch._inductor.config
    torch.set_float32_matmul_precision("highest")
    torch._inductor.config.freezing = True
    torch._dynamo.config.recompile_limit = 100  # each number of threads is a version of the function to it
    torch.manual_seed(1234)
    short, _, full = name.partition(".")
    network = export.networks()[short]("full" in full.split("."))
    network.model.eval().float()
    export.randomize(network.model)
    given = [torch.from_numpy(inputs[one]) for one in network.inputs]
    compiled = torch.compile(network.model)

    def call_with(threads):
        def call():
            torch.set_num_threads(threads)
            with torch.inference_mode():
                return compiled(*given)
        call()
        return call
    return {threads: call_with(threads) for threads in numbers_of_threads}


def time_call(model, module, names, inputs, wanted, settings, report):
    """{threads: {contender: [medians]}}, all in the same rounds. What a peer cannot do goes to `report`."""
    given, contenders = {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in zip(names, inputs, strict=True)}, {}
    inputs = [worker.as_bytes(array) if array.dtype.kind == "U" else array for array in inputs]
    for threads, device in settings["threads"]:
        call, results = module.instance(device).function().prepare(*inputs)
        for result, (name, array) in zip(results, wanted.items(), strict=True):
            error, wrong = network_worker.compared(name, result.numpy(), array)
            if error is None:
                report(f"Heddle, {threads} threads: {wrong}", wrong=True)
        contenders["Heddle", threads] = call
        for peer, make in PEERS.items():
            if peer == "OpenVINO" and not peers.openvino:
                continue
            try:
                contender = make(model, given, threads)
                contender()
                contenders[peer, threads] = contender
            except Exception as error:  # of any kind
                report(f"{peer}: {str(error).strip().splitlines()[0][:300]}")
    if settings["inductor"]:
        try:
            for threads, contender in inductor_calls(model.stem, given, [threads for threads, _ in settings["threads"]]).items():
                contenders["Inductor", threads] = contender
        except Exception as error:  # of any kind
            report(f"Inductor: {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")
    medians = turns.measure(contenders, settings["rounds"], settings["seconds"])
    found = {}
    for threads, _ in settings["threads"]:
        mine = {name: values for (name, number), values in medians.items() if number == threads}
        others = {name: statistics.median(values) for name, values in mine.items() if name != "Heddle"}
        best = min(others, key=others.get, default=None)
        found[threads] = {"ms": {name: round(statistics.median(values) * 1e3, 4) for name, values in mine.items()}, "best": best,
                          "ratio": round(turns.ratio(mine, "Heddle", best), 3) if best else None}
    return found


def time_network(model, settings):
    """{name, compile_seconds, calls: [{sizes, threads: {N: {ms, best, ratio}}}], notes, wrong}"""
    import onnx
    found = {"name": model.stem, "calls": [], "notes": [], "wrong": False}

    def report(text, wrong=False):
        found["wrong"] |= wrong
        if text not in found["notes"]:
            found["notes"].append(text)

    runtime = heddle_ctypes.Runtime(heddle_ctypes.one_core_config())
    loaded = onnx.load(model, load_external_data=False)
    known = {tensor.name for tensor in loaded.graph.initializer}
    names = [value.name for value in loaded.graph.input if value.name not in known]
    del loaded
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        path = pathlib.Path(folder) / "module.heddle"
        found["compile_seconds"] = round(peers.compile_network(str(heddle_ctypes.command_path()), str(model), str(path)), 2)
        module = runtime.open(path)
        for index, (sizes, inputs, wanted) in enumerate(network_worker.calls_of(model.with_suffix(".npz"), names)):
            if not settings["calls"] or index in settings["calls"]:
                found["calls"].append({"sizes": sizes, "threads": time_call(model, module, names, inputs, wanted, settings, report)})
    return found


def child(model, settings, limit):
    """What time_network answers in a process of its own, or why it did not."""
    command = [sys.executable, __file__, "--child", json.dumps(settings), str(model)]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=limit)
            if process.returncode == 0:
                return json.loads(process.stdout.splitlines()[-1])
            errors.seek(0)
            why = (errors.read().decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"])[-1][:1000]
        except subprocess.TimeoutExpired:
            why = f"takes more than {limit:g} s"
    return {"name": model.stem, "calls": [], "notes": [why], "wrong": True}


def table(results, contenders):
    """A row per network: the call that takes longest, and the ratios of all others."""
    timed = [one for one in results if one["calls"]]
    numbers = list(timed[0]["calls"][0]["threads"]) if timed else []
    headings = ["network", "sizes"]
    for number in numbers:
        headings += [f"{name} ms, {number} thread{'' if number == '1' else 's'}" for name in contenders] + ["best", "ratio", "ratios of all sizes"]
    rows, ratios = [], {number: [] for number in numbers}
    for one in timed:
        longest = max(one["calls"], key=lambda call: call["threads"][numbers[0]]["ms"]["Heddle"])
        row = [one["name"], longest["sizes"]]
        for number in numbers:
            cell, all_sizes = longest["threads"][number], [call["threads"][number]["ratio"] for call in one["calls"]]
            row += [f"{cell['ms'][name]:.3g}" if name in cell["ms"] else "" for name in contenders]
            row += [cell["best"] or "", "" if cell["ratio"] is None else f"{cell['ratio']:.2f}", ", ".join("" if ratio is None else f"{ratio:.2f}" for ratio in all_sizes)]
            ratios[number] += [cell["ratio"]] if cell["ratio"] else []
        rows.append((max(longest["threads"][number]["ratio"] or 0 for number in numbers), row))
    lines = [turns.table(headings, [row for _, row in sorted(rows, key=lambda pair: -pair[0])])]
    for number, values in ratios.items():
        if values:
            lines.append(f"\n{number} threads: geometric mean of the ratios {statistics.geometric_mean(values):.2f}, {sum(value <= 1 for value in values)} of {len(values)} at most 1.0, "
                         f"{sum(value <= 1.5 for value in values)} at most 1.5.")
    notes = [f"- {one['name']}: {note}" for one in results for note in one["notes"]]
    return "\n".join(lines + (["", *notes] if notes else [])) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="with networks, as export.py writes it")
    parser.add_argument("--out", type=pathlib.Path, help="folder for results.json and table.md")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="names of networks; may be repeated")
    parser.add_argument("--call", action="append", type=int, default=[], metavar="N", help="calls of a network, from 0 on; may be repeated")
    parser.add_argument("--inductor", action="store_true", help="time torch.compile as well; needs what export.py needs")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each contender in each round")
    parser.add_argument("--limit", type=float, default=1200, metavar="SECONDS", help="of one network")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        settings = json.loads(arguments.child)
        settings["threads"] = list(dict.fromkeys([(turns.cores(), "cpu"), (1, "one" if turns.cores() > 1 else "cpu")]))
        print(json.dumps(time_network(arguments.folder, settings)))
        return 0
    if not arguments.out:
        parser.error("--out is needed")
    arguments.out.mkdir(parents=True, exist_ok=True)
    models = [path.with_suffix(".onnx") for path in sorted(arguments.folder.glob("*.npz")) if path.with_suffix(".onnx").exists()]
    models = [path for path in models if not arguments.only or any(fnmatch.fnmatch(path.stem, glob) for glob in arguments.only)]
    if not models:
        parser.error("there is no network of such a name")
    settings = {"calls": arguments.call, "inductor": arguments.inductor, "rounds": arguments.rounds, "seconds": arguments.seconds}
    contenders = ["Heddle", "ONNX Runtime"] + ["OpenVINO"] * bool(peers.openvino) + ["Inductor"] * arguments.inductor
    machine, results = turns.machine(), []
    for model in models:
        one = child(model, settings, arguments.limit)
        results.append(one)
        cells = [f"{call['sizes']}: " + ", ".join(f"{number} threads {cell['ratio']} of {cell['best']}" for number, cell in call["threads"].items()) for call in one["calls"]]
        print("\n    ".join([one["name"], *cells, *one["notes"]]), flush=True)
        (arguments.out / "results.json").write_text(json.dumps(results, indent=1))
        page = f"{machine}; {peers.versions()}; f32; {arguments.rounds} rounds in turns, medians\n\n{table(results, contenders)}"
        (arguments.out / "table.md").write_text(page)
    return 1 if any(one["wrong"] for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
