#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Digits, the nine `light` networks with random weights and two layers of BERT's shape on AMD GPUs that are interpreted, against the CPU driver.

    networks.py --write FOLDER                                    models for a machine without the onnx package
    networks.py [--models FOLDER] [--chips gfx90a,...] [--over hip,amd,convolution] [--jobs N] [--seconds N] [--out FOLDER] [NETWORK ...]

Each network is compiled once, for the CPU and all chips, and runs once per chip over the stand-in of tests/hip (`hip`), and for gfx90a over AMD's own HIP
library and the stand-in of tests/hsa (`amd`). `convolution` is amdgpu_large_convolution_test, all of its 4,096 workgroups for each chip. N jobs run side
by side, each for at most so many seconds. A line is written for each as it ends, and the table at the end into FOLDER/networks.md, too.

Right means that each value differs from the CPU's by at most 1e-3 of itself and 1e-4 of the largest one. Every kernel of a run is interpreted, with images
of full size. HEDDLE_BIN is the folder of the commands; the stand-ins lie beside it, in tests/hip and tests/hsa. HEDDLE_AMD_LIBRARIES is a folder with
libamdhip64.so.5 and what it needs, where the system has none. The name `none` stands for no network.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "models"), str(HERE.parent / "e2e")]
import random_weights  # noqa: E402
from heddle_command import DIGITS, environment, heddle_path  # noqa: E402

LIGHT = ("shufflenet", "squeezenet", "bvlc_alexnet", "zfnet512", "inception_v1", "inception_v2", "densenet121", "resnet50", "vgg19")
NETWORKS = ("digits", "bert", *LIGHT)
MAJORS = {"gfx90a": 5, "gfx942": 6, "gfx1100": 7, "gfx1201": 6}  # of HIP that the stand-in is
CONVOLUTION_PARTS = 16
COLUMNS = ("network", "chip", "over", "result", "largest difference", "instructions of waves", "interpreted", "s")


def write_models(folder, names):
    """NAME.onnx, whose weights are in a file NAME.weights that NAME.json describes, and its inputs, which are small enough to be kept."""
    import bert
    import light
    import onnx
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        recipe, at = [], 0

        def weight(key, distribution, shape):
            nonlocal at
            recipe.append([random_weights.seed_of(light.WEIGHT_SEED, name, key), distribution, list(shape)])
            tensor = onnx.TensorProto(name=key, dims=shape, data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
            size = 4 * int(np.prod(shape))
            for field, value in (("location", f"{name}.weights"), ("offset", at), ("length", size)):
                tensor.external_data.add(key=field, value=str(value))
            at += size
            return tensor

        if name == "digits":
            shutil.copy(DIGITS, folder / "digits.onnx")
            inputs = {"image": np.random.default_rng(3).random((2, 1, 8, 8), dtype=np.float32)}
        elif name == "bert":
            onnx.save(bert.model(2, weight), folder / "bert.onnx")
            inputs = bert.random_inputs()
        else:
            (folder / f"{name}.onnx").write_bytes(light.with_weights(name, weight, check=False).SerializeToString(deterministic=True))
            inputs = {light.recorded(name)[0]: light.random_input(name)}
        for n, value in enumerate(inputs.values()):
            np.save(folder / f"{name}.{n}.npy", value)
        (folder / f"{name}.json").write_text(json.dumps({"inputs": list(inputs), "weights": recipe}))


def table(rows):
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows))


class Runs:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.build = arguments, folder, heddle_path().parents[1]
        self.lock, self.rows, self.failed = threading.Lock(), [], False
        self.libraries = os.environ.get("LD_LIBRARY_PATH", "")

    def command(self, *arguments, libraries=None, **more):
        """stdout of a command, which may use the stand-in in a folder."""
        paths = ":".join(str(path) for path in (libraries, self.libraries) if path)
        there = {**environment(), **({"LD_LIBRARY_PATH": paths} if paths else {}), **more}
        done = subprocess.run(list(map(str, arguments)), text=True, capture_output=True, timeout=self.arguments.seconds, env=there, stdin=subprocess.DEVNULL,
                              errors="replace", check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
        return done.stdout

    def add(self, *row):
        with self.lock:
            self.rows.append(row)
            print("\t".join(map(str, row)), flush=True)
            if self.arguments.out:
                (self.arguments.out / "networks.md").write_text(table(sorted(self.rows, key=lambda one: (one[2], one[1]))) + "\n")

    def attempt(self, what, job):
        """Runs a job, whose row it adds: network, chip and stand-in, then what the job gives."""
        started = time.monotonic()
        try:
            found = job()
        except subprocess.TimeoutExpired:
            found = (f"not over after {self.arguments.seconds} s", "", "", "")
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            found = (f"FAILED: {' '.join(str(error).split())}", "", "", "")
        if found is not None:
            self.failed = self.failed or found[0] != "right"
            self.add(*what, *found, f"{time.monotonic() - started:.1f}")
        return found is None

    def run(self, name, *device, statistics=None, **options):
        """The first output of a network."""
        given = self.arguments.models / name
        inputs = json.loads(given.with_suffix(".json").read_text())["inputs"]
        result = self.folder / f"{name}.{'.'.join(map(str, device))}.npy"
        parts = [part for n, key in enumerate(inputs) for part in ("--input", f"{key}=@{given}.{n}.npy")]
        self.command(heddle_path(), "run", self.folder / f"{name}.heddle", *parts, "--device", device[0], "--output", f"@{result}", **options)
        return np.load(result)

    def prepare(self, name):
        """Makes the weights, compiles, and runs on the CPU."""
        given = self.arguments.models / f"{name}.json"
        model = self.folder / f"{name}.onnx"
        shutil.copy(given.with_suffix(".onnx"), model)
        recipe = json.loads(given.read_text())["weights"]
        if recipe:
            random_weights.write(recipe, self.folder / f"{name}.weights")
        targets = ",".join(["cpu", *(f"hip:{chip}" for chip in self.arguments.chips)])
        self.command(heddle_path(), "compile", model, "-o", self.folder / f"{name}.heddle", "--target", targets)
        (self.folder / f"{name}.weights").unlink(missing_ok=True)
        np.save(self.folder / f"{name}.expected.npy", self.run(name, "cpu:0"))

    def compare(self, name, chip, over):
        numbers = self.folder / f"{name}.{chip}.{over}.numbers"
        if over == "amd":
            options = {"libraries": f"{self.build}/tests/hsa:{os.environ.get('HEDDLE_AMD_LIBRARIES', '')}".rstrip(":"), "HEDDLE_HSA_SEED": "3", "HEDDLE_HSA_STATISTICS": str(numbers)}
        else:
            options = {"libraries": self.build / "tests" / "hip" / f"hip_{MAJORS[chip]}", "HEDDLE_HIP_STAND_IN": f"chip={chip},seed=3",
                       "HEDDLE_HIP_STATISTICS": str(numbers)}
        got = self.run(name, "hip:0", chip, over, **options).astype(np.float64)
        expected = np.load(self.folder / f"{name}.expected.npy").astype(np.float64)
        largest = float(np.abs(expected).max())
        difference = np.abs(got - expected)
        is_right = got.shape == expected.shape and bool((difference <= 1e-3 * np.abs(expected) + 1e-4 * largest).all())
        instructions = sum(map(int, re.findall(r" instructions=(\d+)", numbers.read_text() if numbers.exists() else "")))
        if instructions < 1000:
            raise RuntimeError(f"{instructions} instructions were interpreted: it did not run there")
        return "right" if is_right else "WRONG", f"{difference.max() / largest:.1e} of the largest value", f"{instructions:,}", "100 %"

    def convolution(self, chip, part):
        test = self.build / "tests" / "amdgpu_large_convolution_test"
        text = self.command(test, HEDDLE_AMDGPU_CASES=f"whole:{chip}:{part}/{CONVOLUTION_PARTS}")
        workgroups, instructions = map(int, re.search(r"workgroups=(\d+) instructions=(\d+)", text).groups())
        return workgroups, instructions

    def whole_convolution(self, chip, parts):
        done = [part.result() for part in parts]
        if sum(workgroups for workgroups, _ in done) != 4096:
            raise RuntimeError("some workgroups did not run")
        return "right", "within one step of the quantization", f"{sum(count for _, count in done):,}", "100 %"

    def start(self, pool):
        """Small networks first, so that there are results early; the convolution, which fills all cores, last."""
        arguments, waiting = self.arguments, []

        def network(name):
            if self.attempt((name, "all", "compiler, CPU"), lambda: self.prepare(name)):
                for over in arguments.over:
                    for chip in arguments.chips if over == "hip" else ["gfx90a"] if over == "amd" and "gfx90a" in arguments.chips else []:
                        waiting.append(pool.submit(self.attempt, (name, chip, over), lambda chip=chip, over=over: self.compare(name, chip, over)))

        prepared = [pool.submit(network, name) for name in arguments.networks]
        parts = {chip: [pool.submit(self.convolution, chip, part) for part in range(CONVOLUTION_PARTS)]
                 for chip in (arguments.chips if "convolution" in arguments.over else [])}
        for one in prepared:
            one.result()
        for one in waiting:
            one.result()
        for chip, those in parts.items():
            self.attempt(("the large convolution", chip, "the interpreter alone"), lambda chip=chip, those=those: self.whole_convolution(chip, those))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--models", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--chips", type=lambda text: text.split(","), default=list(MAJORS))
    parser.add_argument("--over", type=lambda text: text.split(","), default=["hip"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.networks = [name for name in arguments.networks or NETWORKS if name != "none"]
    unknown = [*set(arguments.networks) - set(NETWORKS), *set(arguments.chips) - set(MAJORS), *set(arguments.over) - {"hip", "amd", "convolution"}]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if arguments.write:
        write_models(arguments.write, arguments.networks)
        return 0
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="heddle-networks-") as folder:
        if arguments.models is None:
            arguments.models = pathlib.Path(folder) / "models"
            write_models(arguments.models, arguments.networks)
        runs = Runs(arguments, pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs.start(pool)
    print(table(sorted(runs.rows, key=lambda row: (row[2], row[1]))))
    return 1 if runs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
