# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes inputs from which the fuzzers of importers begin, in addition to the corpus that the tests replay.

    seeds.py FOLDER [--cases FOLDER]

FOLDER/onnx gets the smallest models of ONNX's backend tests that have each operator, and random graphs with control flow; FOLDER/stablehlo the
programs of tests/stablehlo and, of cases that stablehlo_cases.py prepared (--cases), the smallest ones that have each operation. FOLDER/onnx.dict and
FOLDER/stablehlo.dict have the names of operators and attributes, as libFuzzer's -dict takes them.
"""
import argparse
import collections
import pathlib
import re
import shutil
import sys

import numpy as np
import onnx
import onnx.backend.test
import onnx.defs

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "random_graphs"))
from graph import Graph

# Larger inputs are slow, and most of their bytes are weights.
MOST_BYTES = 8192
# How many models of each operator.
OF_EACH = 2
GRAPHS = 60


def operators_of(graph):
    for node in graph.node:
        yield f"{node.domain}.{node.op_type}"
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                yield from operators_of(inner)


def smallest_of_each(files, kinds_of):
    """The files that are among the smallest of one of their kinds."""
    left, chosen = collections.defaultdict(lambda: OF_EACH), []
    for path in sorted(files, key=lambda path: (path.stat().st_size, path)):
        kinds = set(kinds_of(path)) if path.stat().st_size <= MOST_BYTES else ()
        if any(left[kind] > 0 for kind in kinds):
            chosen.append(path)
            for kind in kinds:
                left[kind] -= 1
    return chosen


def write_onnx(folder):
    folder.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data"
    for path in smallest_of_each(data.glob("*/*/model.onnx"), lambda path: operators_of(onnx.load(path).graph)):
        shutil.copy(path, folder / f"{path.parent.name}.onnx")
    for seed in range(GRAPHS):
        model = Graph(seed, np.dtype(np.float32), control=True).model()
        if model is not None and model.ByteSize() <= MOST_BYTES:
            onnx.save(model, folder / f"graph_{seed}.onnx")


def write_stablehlo(folder, cases):
    folder.mkdir(parents=True, exist_ok=True)
    files = [*(TESTS / "stablehlo" / "programs").glob("*/*.mlir"), *(cases.glob("*/model.mlir") if cases else ())]
    for path in smallest_of_each(files, lambda path: re.findall(r'"((?:stablehlo|chlo|func)\.\w+)"', path.read_text())):
        shutil.copy(path, folder / f"{path.parent.name}.mlir")


def write_words(path, words):
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cases", type=pathlib.Path, help="as of stablehlo_cases.py --prepare")
    arguments = parser.parse_args()
    write_onnx(arguments.folder / "onnx")
    write_stablehlo(arguments.folder / "stablehlo", arguments.cases)
    schemas = onnx.defs.get_all_schemas_with_history()
    write_words(arguments.folder / "onnx.dict", {schema.name for schema in schemas} | {name for schema in schemas for name in schema.attributes})
    text = "".join(path.read_text() for path in (arguments.folder / "stablehlo").glob("*.mlir"))
    write_words(arguments.folder / "stablehlo.dict", set(re.findall(r'"((?:stablehlo|chlo|func)\.\w+)"', text)) | set(re.findall(r"\b([a-z]\w+) = ", text)))
    for kind in ("onnx", "stablehlo"):
        print(f"{len(list((arguments.folder / kind).iterdir()))} inputs in {arguments.folder / kind}")


if __name__ == "__main__":
    main()
