# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generates tokens with the steps that generation.py exported, and compares them with those of PyTorch.

    generated.py FOLDER [--capacity 64] [--target cpu] [--device cpu:0]

The prompt is read in one step, in two, and token by token. Needs the Python package of the build (PYTHONPATH), and onnx.
"""
import argparse
import pathlib
import sys
import tempfile

import heddle
import numpy as np
import onnx
from heddle import generation


def cross(folder, scratch, features, options):
    """What the decoder of Whisper reads of a sound."""
    module = heddle.open(heddle.compile(folder / "whisper_encoder.onnx", scratch / "whisper_encoder.heddle", target=options.target), options.device)
    return dict(zip([result.name for result in module.main.results], module(features), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--capacity", type=int, default=64)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--device", default="cpu:0")
    options = parser.parse_args()
    wrong, steps = 0, sorted(options.folder.glob("*_step.onnx"))
    if not steps:
        sys.exit(f"generated: {options.folder} has no *_step.onnx; generation.py writes them")
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            name, scratch = step.stem.removesuffix("_step"), pathlib.Path(folder)
            given = np.load(options.folder / f"{name}.npz")
            prompt, expected = given["prompt"][0].tolist(), given["greedy"].tolist()
            fixed = cross(options.folder, scratch, given["features"], options) if "features" in given else {}
            model = generation.with_sampling(onnx.load(step), greedy=True)
            with heddle.open(heddle.compile(model, scratch / f"{name}.heddle", target=options.target), options.device) as module:
                for part in (len(prompt), 2, 1):
                    with generation.Session(module, options.capacity, window=16, **fixed) as session:
                        read = max(0, len(prompt) - part)
                        for begin in range(0, read, part):
                            session.step([prompt[begin:min(begin + part, read)]])
                        found = list(session.generate(prompt[read:], len(expected)))
                    differ = sum(a != b for a, b in zip(found, expected, strict=True))
                    wrong += differ
                    print(f"{name}, prompt in steps of {part}: {len(expected) - differ} of {len(expected)} tokens are PyTorch's; {len(set(expected))} different ones")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
