# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of the tests of the Python package."""
import functools
import json
import os
import pathlib
import struct
import tempfile

import heddle
import numpy as np
from onnx import TensorProto, helper, numpy_helper

_folder = tempfile.TemporaryDirectory(prefix="heddle-python-")  # removed at exit
FOLDER = pathlib.Path(_folder.name)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "model", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@functools.cache
def add(*shape):
    """The path of z = x + y."""
    model = model_of([helper.make_node("Add", ["x", "y"], ["z"])], [value("x", shape), value("y", shape)], [value("z", shape)])
    return heddle.compile(model, FOLDER / f"add_{'_'.join(map(str, shape))}.heddle")


@functools.cache
def two_results():
    nodes = [helper.make_node("Add", ["x", "y"], ["total"]), helper.make_node("Sub", ["x", "y"], ["difference"])]
    model = model_of(nodes, [value("x", ["n"]), value("y", ["n"])], [value("total", ["n"]), value("difference", ["n"])])
    return heddle.compile(model, FOLDER / "two.heddle")


@functools.cache
def table(rows, columns):
    """The paths of y = table[ids], and of a file with the table: row i is i."""
    values = numpy_helper.from_array(np.repeat(np.arange(rows, dtype="f4")[:, None], columns, axis=1), "table")
    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y"], name="rows")], "model", [value("ids", [2], TensorProto.INT64)],
                              [value("y", [2, columns])], [values])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    weights = FOLDER / f"table_{rows}_{columns}.safetensors"
    return heddle.compile(model, FOLDER / f"table_{rows}_{columns}.heddle", options=["--params-out", str(weights)]), weights


@functools.cache
def weighed(size):
    """The path of y = x @ w + b, without w and b."""
    values = [numpy_helper.from_array(np.ones((size, size), "f4"), "w"), numpy_helper.from_array(np.ones(size, "f4"), "b")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["y"])], "model",
                              [value("x", [1, size])], [value("y", [1, size])], values)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return heddle.compile(model, FOLDER / f"weighed_{size}.heddle", options=["--params-out", str(FOLDER / f"weighed_{size}.safetensors")])


@functools.cache
def heavy(size):
    """The paths of y = x @ w, and of a file with w, which is zero and takes no room on the disk. Loading it packs w."""
    path, weights = FOLDER / f"heavy_{size}.heddle", sparse(size)
    return heddle.compile(model_of(*_product(size)), path, params_in=weights), weights


@functools.cache
def heavy_counter(size):
    """The same, with a state that counts the calls: count = n, n = n + 1."""
    nodes, inputs, outputs, initializers = _product(size)
    nodes += [helper.make_node("Add", ["n", "one"], ["n1"]), helper.make_node("Identity", ["n"], ["count"])]
    initializers.append(numpy_helper.from_array(np.ones(1, "i8"), "one"))
    model = model_of(nodes, [*inputs, value("n", [1], TensorProto.INT64)],
                     [*outputs, value("count", [1], TensorProto.INT64), value("n1", [1], TensorProto.INT64)], initializers)
    weights = sparse(size)
    return heddle.compile(model, FOLDER / f"heavy_counter_{size}.heddle", params_in=weights, state={"n": "n1"}), weights


def heavy_step(size):
    """What model_of takes for y = x @ w, s1 = s + y."""
    nodes, inputs, outputs, initializers = _product(size)
    return [*nodes, helper.make_node("Add", ["s", "y"], ["s1"])], [*inputs, value("s", [1, size])], [value("s1", [1, size])], initializers


def _product(size):
    return ([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, size])], [value("y", [1, size])],
            [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size, size])])


@functools.cache
def sparse(size):
    """A file with w, zeros that take no room on the disk."""
    weights = FOLDER / f"heavy_{size}.safetensors"
    header = json.dumps({"w": {"dtype": "F32", "shape": [size, size], "data_offsets": [0, 4 * size * size]}}).encode()
    header += b" " * (-len(header) % 8)
    weights.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(weights, 8 + len(header) + 4 * size * size)
    return weights


@functools.cache
def long(size, steps):
    """The path of a chain of matrix products."""
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"y{i}", "w"], [f"y{i + 1}"]) for i in range(steps)]
    model = model_of(nodes, [value("x", [size, size]), value("w", [size, size])], [value(f"y{steps}", [size, size])])
    return heddle.compile(model, FOLDER / f"long_{size}_{steps}.heddle")
