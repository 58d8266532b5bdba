# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads handwritten digits that training never saw, with a compiled module and the `heddle` command.

Called by tools/dev/demo. Shows a few images with the digit that the network reads, and every one it
gets wrong, then accuracy and images per second. Only the command line is used: `heddle run` and
`heddle bench`.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from split import load_split

SHADES = " ░▒▓█"
PICTURES_IN_A_ROW = 4


def picture(image):
    """The lines of an 8x8 image of 0..1, two characters a pixel."""
    levels = np.rint(image * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[level] * 2 for level in row) for row in levels]


def show(images, captions):
    for start in range(0, len(images), PICTURES_IN_A_ROW):
        chosen = slice(start, start + PICTURES_IN_A_ROW)
        for line in zip(*(picture(image[0]) for image in images[chosen])):
            print("  " + "   ".join(line).rstrip())
        print("  " + "   ".join(f"{caption:16s}" for caption in captions[chosen]).rstrip() + "\n")


def heddle(command, *arguments):
    process = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"demo: heddle {arguments[0]} failed with exit code {process.returncode}:\n{process.stderr.strip()}")
    return process.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", default="heddle", help="the command (default: the one on PATH)")
    parser.add_argument("--module", type=pathlib.Path, required=True, help="digits.onnx, compiled")
    arguments = parser.parse_args()

    _, _, images, labels = load_split()
    with tempfile.TemporaryDirectory(prefix="heddle-demo-") as folder:
        given, got = pathlib.Path(folder, "images.npy"), pathlib.Path(folder, "logits.npy")
        np.save(given, images)
        heddle(arguments.heddle, "run", arguments.module, "--input", f"image=@{given}", "--output", f"@{got}")
        read = np.load(got).argmax(1)
        report = json.loads(
            heddle(arguments.heddle, "bench", arguments.module, "--input", f"image=@{given}", "--format", "json")
        )

    few = slice(0, 2 * PICTURES_IN_A_ROW)
    print(f"\nthe first {few.stop} of {len(images)} images that training never saw:\n")
    show(images[few], [f"read as {digit}" for digit in read[few]])
    wrong = np.flatnonzero(read != labels)
    if len(wrong):
        print(f"all {len(wrong)} that are read wrongly:\n")
        show(images[wrong], [f"{read[i]}, should be {labels[i]}" for i in wrong])
    right = len(labels) - len(wrong)
    print(f"accuracy: {right} of {len(labels)} right ({right / len(labels):.2%})")
    seconds = median_call_seconds(report)
    print(f"speed: {len(images) / seconds:,.0f} images per second ({seconds * 1e6:,.0f} µs for a batch of {len(images)})")


def median_call_seconds(report):
    """The median time of one call in what `heddle bench --format json` prints."""
    return report["median_ns"] * 1e-9


if __name__ == "__main__":
    main()
