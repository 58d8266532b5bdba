# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoding token by token, with a cache that is one longer after each step, beside ONNX Runtime.

    decoding.py FILE.onnx ...

Each FILE is one step as export_networks.py writes it (NETWORK_step): a token, the mask, and each layer's keys and values; results are the logits, and longer keys and values, which are the
next step's arguments as they are. In turns, each contender decodes --steps tokens behind a cache of --past; then as many calls of the first step alone, which show what it costs
that each step's shape is new. Logits are compared after the last step. Prints a Markdown table. With --device cuda:0 --target cuda it is ONNX Runtime on the CPU that decodes beside.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import onnxruntime

import heddle_ctypes
import peers
import turns


def ours(module, inputs, device):
    runtime = heddle_ctypes.Runtime()
    function = runtime.open(module).instance(device).function()
    first = [function.tensor(index, array) for index, array in enumerate(inputs.values())]

    def step(ids, mask, cache):
        call, results = function.start([function.tensor(0, ids), function.tensor(1, mask), *cache])
        call.wait()
        return results[0], results[1:]
    return step, first[2:], lambda logits: logits.numpy()


def onnx_runtime(model, inputs, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names, outputs = list(inputs), [output.name for output in session.get_outputs()]
    first = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in inputs.values()]

    def step(ids, mask, cache):
        given = [onnxruntime.OrtValue.ortvalue_from_numpy(ids), onnxruntime.OrtValue.ortvalue_from_numpy(mask), *cache]
        results = session.run_with_ort_values(outputs, dict(zip(names, given, strict=True)))
        return results[0], results[1:]
    return step, first[2:], lambda logits: logits.numpy()


def decode(contender, ids, past, steps, grows):
    """(seconds a step, the last logits)"""
    step, cache, read = contender
    mask = np.ones((1, past + steps + 1), np.int64)
    times, logits = [], None
    for turn in range(steps):
        before = time.perf_counter()
        logits, longer = step(ids, mask[:, :past + 1 + (turn if grows else 0)], cache)
        times.append(time.perf_counter() - before)
        if grows:
            cache = longer
    return statistics.median(times), read(logits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--past", type=int, default=128)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    rows, heddle, past = [], str(heddle_ctypes.command_path()), arguments.past
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        for model in arguments.models:
            data = np.load(model.with_suffix(".npz"))
            inputs = {name[3:]: data[name] for name in data.files if name.startswith("in:")}
            ids, generator = inputs["input_ids"], np.random.default_rng(3)
            for name, array in list(inputs.items())[2:]:
                inputs[name] = generator.standard_normal((*array.shape[:2], past, array.shape[3]), np.float32)
            module = pathlib.Path(folder) / f"{model.stem}.heddle"
            peers.compile_network(heddle, model, module, "--target", arguments.target)
            contenders = {"Heddle": ours(module, inputs, arguments.device), "ORT": onnx_runtime(model, inputs, turns.cores())}
            times = {}
            for _ in range(arguments.rounds):
                last = {}
                for name, contender in contenders.items():
                    for grows in (True, False):
                        seconds, logits = decode(contender, ids, past, arguments.steps, grows)
                        times.setdefault((name, grows), []).append(seconds)
                        if grows:
                            last[name] = logits
                if not peers.agree(last["Heddle"], last["ORT"]):
                    raise RuntimeError(f"{model.name}: the logits after {arguments.steps} steps are wrong")
            rows.append([model.stem, *(turns.milliseconds(values) for values in times.values()), f"{turns.ratio(times, ('Heddle', True), ('ORT', True)):.2f}",
                         f"{turns.ratio(times, ('Heddle', True), ('Heddle', False)):.3f}"])
    print(f"{turns.machine()}; {peers.versions()}; f32; {arguments.steps} steps behind a cache of {past}; {arguments.rounds} rounds in turns, medians\n")
    print(turns.table(["network", "Heddle ms", "same shape", "ORT ms", "same shape", "ratio", "growing / same shape"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
