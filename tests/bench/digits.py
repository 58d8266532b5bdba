# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The digit network: images per second at several batch sizes, Heddle beside ONNX Runtime, in turns, in one process."""
import argparse
import pathlib
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "models"), str(TESTS / "models" / "digits")]
import heddle_ctypes
import peers
import turns
from split import load_split


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 16, 360])
    arguments = parser.parse_args()
    model = str(TESTS / "models" / "digits" / "digits.onnx")
    heddle = str(heddle_ctypes.command_path())
    _, _, images, _ = load_split()
    rows = []
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        module = pathlib.Path(folder, "digits.heddle")
        compile_s = peers.compile_network(heddle, model, module)
        opened = heddle_ctypes.Runtime(heddle_ctypes.one_core_config()).open(module)
        for batch in arguments.batches:
            image, contenders = images[:batch], {}
            inputs, (expected,) = peers.expected_of(model, image)
            for which, threads, device in (("all", turns.cores(), "cpu"), ("one", 1, "one")):
                contenders[f"theirs {which}"] = peers.onnx_runtime_call(model, inputs, threads)
                contenders[f"ours {which}"], results = opened.instance(device).function().prepare(image)
                if (results[0].numpy().argmax(1) != expected.argmax(1)).any():
                    raise RuntimeError(f"batch {batch}, {which}: a prediction differs from ONNX Runtime's")
            medians = turns.measure(contenders, arguments.rounds, 0.1)
            row = [batch]
            for which in ("all", "one"):
                pair = [f"{side} {which}" for side in ("ours", "theirs")]
                row += [f"{batch / sorted(medians[name])[len(medians[name]) // 2]:,.0f}" for name in pair]
                row.append(f"{turns.ratio(medians, *pair):.2f}")
            rows.append(row)
        size = module.stat().st_size
    print(f"{turns.machine()}; compiled in {compile_s:.2f} s to {size / 1e3:.0f} kB; images per second; ratio of times, ours / theirs\n")
    headings = ["batch"]
    for which in (f"{turns.cores()} cores", "1 core"):
        headings += [f"Heddle, {which}", f"ONNX Runtime, {which}", "ratio"]
    print(turns.table(headings, rows))


if __name__ == "__main__":
    main()
