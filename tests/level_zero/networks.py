# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs digits, the nine `light` networks with random weights and two layers of transformers on the stand-in for an Intel GPU, compares each with the CPU
device, and prints a table.

    networks.py [--intel] [--only NAME ...] [--folder FOLDER]

Kernels run on PoCL, or with --intel on Intel's OpenCL runtime for CPUs. FOLDER is for modules, inputs and results; by default, it is removed at the end.
Exits with 1 if a result differs by more than 1e-5 of the largest value, or a run fails. PoCL needs minutes to compile the kernels of a network, but
keeps them in POCL_CACHE_DIR.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "models")]
import light  # noqa: E402
import transformer_layer_test as layers  # noqa: E402

BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build" / "release"))
HEDDLE = BUILD / "bin" / "heddle"
MOST_DIFFERENCE = 1e-5  # of the largest value


def layer_inputs(others):
    size = (layers.BATCH, layers.SEQUENCE, layers.HIDDEN)
    return {"x": np.random.default_rng(2).standard_normal(size, np.float32), **others}


def plain_layer():
    return layers.Layer().build(), layer_inputs({"mask": np.zeros((layers.BATCH, 1, 1, layers.SEQUENCE), np.float32)})


def llama_layer():
    angles = np.outer(np.arange(layers.SEQUENCE), 10000.0 ** (-np.arange(0, layers.SIZE, 2) / layers.SIZE))
    angles = np.concatenate([angles, angles], axis=-1)[None, None]
    causal = np.triu(np.full((layers.SEQUENCE, layers.SEQUENCE), -np.inf, np.float32), 1)[None, None]
    return layers.LlamaLayer().build(), layer_inputs({"mask": causal, "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)})


LAYERS = {"a layer of a transformer": plain_layer, "a layer like Llama's": llama_layer}
NAMES = ("digits", *LAYERS, *light.NAMES)


def model_of(name, folder):
    """(path of the ONNX file, {input: array})."""
    if name == "digits":
        return ROOT / "tests/models/digits/digits.onnx", {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
    if name in LAYERS:
        model, inputs = LAYERS[name]()
        path = folder / "layer.onnx"
        onnx.save(model, path)
        return path, inputs
    input_name, _, _ = light.recorded(name)
    return light.randomized(name), {input_name: light.random_input(name)}


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-1500:]}")


def check(name, folder, stand_in):
    """(largest difference / largest value, seconds on the stand-in)."""
    path, inputs = model_of(name, folder)
    module = folder / "model.heddle"
    run([HEDDLE, "compile", path, "-o", module, "--target", "cpu,level_zero"])
    arguments = [HEDDLE, "run", module]
    for number, (key, array) in enumerate(inputs.items()):
        np.save(folder / f"{number}.npy", array)
        arguments += ["--input", f"{key}=@{folder}/{number}.npy"]
    run([*arguments, "--device", "cpu:0", "--output", f"@{folder}/expected.npy"])
    start = time.monotonic()
    run([*stand_in, *arguments, "--device", "level_zero:0", "--output", f"@{folder}/got.npy"])
    seconds = time.monotonic() - start
    expected, got = np.load(folder / "expected.npy"), np.load(folder / "got.npy")
    largest = float(np.abs(expected).max())
    if expected.shape != got.shape or not np.isfinite(got).all() or not 0 < largest < np.inf:
        raise RuntimeError(f"the results have the shapes {expected.shape} and {got.shape}, or values that are not finite")
    return float(np.abs(got - expected).max()) / largest, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intel", action="store_true", help="on Intel's OpenCL runtime for CPUs")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, default=NAMES, help="of: " + ", ".join(NAMES))
    parser.add_argument("--folder", type=pathlib.Path, help="for modules, inputs and results")
    arguments = parser.parse_args()
    stand_in = [ROOT / "tests/level_zero/stand_in", *(["--intel"] if arguments.intel else []), "HEDDLE_ZE_DELAY_US=20"]
    print(f"| on {'the runtime of Intel' if arguments.intel else 'PoCL'} | largest difference from the CPU's result / largest value | | s |")
    print("| --- | ---: | --- | ---: |", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="heddle-networks-") as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in arguments.only:
            try:
                difference, seconds = check(name, folder, stand_in)
                verdict = "right" if difference <= MOST_DIFFERENCE else "WRONG"
                print(f"| {name} | {difference:.1e} | {verdict} | {seconds:.0f} |", flush=True)
            except RuntimeError as error:
                verdict = "WRONG"
                print(f"| {name} | | WRONG | |\n{error}", flush=True)
            wrong += verdict != "right"
    print(f"\n{len(arguments.only) - wrong} of {len(arguments.only)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
