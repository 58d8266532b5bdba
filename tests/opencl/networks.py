# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs digits, the nine `light` networks with random weights, layers of transformers and two layers of BERT base on the driver of sdk/examples/opencl,
compares each with the CPU device, and prints a table, with the seconds of the first run, of the processor in it, and of a second run.

    networks.py --driver FOLDER [--only NAME ...] [--target TARGET] [--option NAME=VALUE ...] [--folder FOLDER]

--driver is where the driver was built. --folder is for modules, inputs and results; by default, it is removed at the end. --option sets an option of the
driver, such as translate=false. Exits with 1 if a result differs by more than 1e-5 of the largest value, or a run fails. PoCL needs minutes to compile
the kernels of a network, but keeps them in POCL_CACHE_DIR.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "models")]
import bert  # noqa: E402
import light  # noqa: E402
import transformer_layer_test as layers  # noqa: E402

BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build" / "release"))
HEDDLE = BUILD / "bin" / "heddle"
MOST_DIFFERENCE = 1e-5  # of the largest value
BERT_LAYERS = 2


def of_layer(layer, folder):
    model, path, random = layer.build(), folder / "layer.onnx", np.random.default_rng(3)
    onnx.save(model, path)
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
    return path, {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def of_bert(folder):
    random, path = np.random.default_rng(5), folder / "bert.onnx"

    def weight(name, distribution, shape):
        _, mean, deviation = distribution
        return onnx.numpy_helper.from_array(random.normal(mean, deviation, shape).astype(np.float32), name)

    onnx.save(bert.model(BERT_LAYERS, weight), path)
    return path, bert.random_inputs()


NAMES = ("digits", "layer", "llama", "bert", *light.NAMES)


def model_of(name, folder):
    """(path of the ONNX file, {input: array})."""
    if name == "digits":
        return ROOT / "tests/models/digits/digits.onnx", {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
    if name in ("layer", "llama"):
        return of_layer(layers.Layer() if name == "layer" else layers.LlamaLayer(), folder)
    if name == "bert":
        return of_bert(folder)
    return light.randomized(name), {light.recorded(name)[0]: light.random_input(name)}


def run(command, environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-1500:]}")
    return done.stderr


def processor_seconds():
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check(name, target, folder, environment):
    """(largest difference / largest value, [seconds of the first run, of the processor in it, of the second run], dispatches that were interpreted, all)."""
    path, inputs = model_of(name, folder)
    module = folder / "model.heddle"
    run([HEDDLE, "compile", path, "-o", module, "--target", f"cpu,{target}"], environment)
    arguments = [HEDDLE, "run", module]
    for number, (key, array) in enumerate(inputs.items()):
        np.save(folder / f"{number}.npy", array)
        arguments += ["--input", f"{key}=@{folder}/{number}.npy"]
    run([*arguments, "--device", "cpu:0", "--output", f"@{folder}/expected.npy"], environment)
    arguments += ["--device", "opencl:0", "--output", f"@{folder}/got.npy", "--statistics"]
    start, before = time.monotonic(), processor_seconds()
    text = run(arguments, environment)
    seconds = [time.monotonic() - start, processor_seconds() - before]
    start = time.monotonic()
    run(arguments, environment)
    seconds.append(time.monotonic() - start)
    (device,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"] == "opencl:0"]
    expected, got = np.load(folder / "expected.npy"), np.load(folder / "got.npy")
    largest = float(np.abs(expected).max())
    if expected.shape != got.shape or not np.isfinite(got).all() or not 0 < largest < np.inf:
        raise RuntimeError(f"the results have the shapes {expected.shape} and {got.shape}, or values that are not finite")
    counts = device["driver_counts"]
    return float(np.abs(got - expected).max()) / largest, seconds, counts["interpreted"], counts["dispatches"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", type=pathlib.Path, required=True, help="the folder with org.example.opencl.toml and the library")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, default=NAMES, help="of: " + ", ".join(NAMES))
    parser.add_argument("--target", default="portable", help="for which the model is compiled, beside cpu")
    parser.add_argument("--option", nargs="+", metavar="NAME=VALUE", default=[], help="options of the driver")
    parser.add_argument("--folder", type=pathlib.Path, help="for modules, inputs and results")
    arguments = parser.parse_args()
    print("| model | largest difference from the CPU's result / largest value | | first run, s | of the processor | second run, s | interpreted |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="heddle-networks-") as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "heddle.toml"
        config.write_text('interpreted = "allow"\n[driver."org.example.opencl"]\n' + "".join(option.replace("=", " = ", 1) + "\n" for option in arguments.option))
        environment = {"HEDDLE_PLUGIN_PATH": str(arguments.driver), "HEDDLE_CONFIG": str(config)}
        for name in arguments.only:
            verdict = "WRONG"
            try:
                difference, seconds, interpreted, dispatches = check(name, arguments.target, folder, environment)
                verdict = "right" if difference <= MOST_DIFFERENCE else "WRONG"
                times = " | ".join(f"{each:.1f}" for each in seconds)
                print(f"| {name} | {difference:.1e} | {verdict} | {times} | {interpreted} of {dispatches} |", flush=True)
            except RuntimeError as error:
                print(f"| {name} | | WRONG | | | | |\n{error}", flush=True)
            wrong += verdict != "right"
    print(f"\n{len(arguments.only) - wrong} of {len(arguments.only)} right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
