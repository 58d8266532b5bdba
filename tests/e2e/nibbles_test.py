# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of 4 bits with a scale for each block, which products and look-ups read as they are stored: MatMulNBits and DequantizeLinear in the forms in which
quantizers write them, against products of the values in f64."""
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import REPOSITORY, HeddleTestCase, heddle

sys.path.insert(0, str(REPOSITORY / "tests" / "bench"))
import heddle_ctypes

FLOAT, F16, BF16, U4, I4 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UINT4, TensorProto.INT4
TYPES = {FLOAT: np.float32, F16: np.float16}


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], name=operator.lower() + output, **attributes)


def halves(values, axis=-1):
    """Two elements in a byte, the first one in the low bits; the last byte of an odd number has zeros."""
    values = np.moveaxis(np.asarray(values).astype(np.uint8) & 15, axis, -1)
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
    return values[..., 0::2] | values[..., 1::2] << 4


def floats(values, name, element):
    """(the tensor, the numbers that it has)"""
    if element != BF16:
        values = values.astype(TYPES[element])
        return numpy_helper.from_array(values, name), values.astype(np.float64)
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return helper.make_tensor(name, BF16, values.shape, bits.tobytes(), raw=True), (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Model:
    """y = x @ w, and what w is."""

    def __init__(self, form, k, n, block, scale=FLOAT, zeros=None, axis=0, element=U4):
        chosen, blocks = np.random.default_rng([k, n, block]), k // block
        low = -8 if element == I4 else 0
        numbers, zero = chosen.integers(low, low + 16, (n, k)), chosen.integers(low, low + 16, (n, blocks))
        scales, by = floats(chosen.uniform(0.01, 0.02, (n, blocks) if form == "nbits" or axis == 1 else (blocks, n)), "s", scale)
        by = by if by.shape == (n, blocks) and (form == "nbits" or axis == 1) else by.T
        self.tensors = [scales]
        if zeros is None:
            zero = np.full((n, blocks), 8 if form == "nbits" else 0)
        spread = [np.repeat(one, block, axis=1) for one in (zero, by)]
        self.weights, self.k, self.n = ((numbers - spread[0]) * spread[1]).T, k, n  # [k, n]
        inputs = ["x", "w", "s"] if form == "nbits" else ["w", "s"]
        if zeros is not None:
            inputs.append("z")
        if form == "nbits":
            self.tensors.append(numpy_helper.from_array(halves(numbers).reshape(n, blocks, block // 2), "w"))
            if zeros is not None:
                self.tensors.append(numpy_helper.from_array(halves(zero) if zeros == "packed" else zero.astype(np.float32), "z"))
            self.nodes = [node("MatMulNBits", inputs, "y", domain="com.microsoft", K=k, N=n, bits=4, block_size=block)]
            return
        for name, all_of in (("w", numbers), ("z", zero)):
            stored = all_of if axis == 1 else all_of.T
            if name in inputs:
                self.tensors.append(helper.make_tensor(name, element, stored.shape, halves(stored.reshape(-1)).tobytes(), raw=True))
        self.nodes = [node("DequantizeLinear", inputs, "f", axis=axis, block_size=block, output_dtype=FLOAT)]
        self.nodes.append(node("MatMul", ["x", "f"], "y") if axis == 0 else node("Gemm", ["x", "f"], "y", transB=1))


class Nibbles(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.runtime = heddle_ctypes.Runtime()

    def compiled(self, name, model, inputs, outputs, target):
        graph = helper.make_graph(model.nodes, "nibbles", inputs, outputs, model.tensors)
        path, module = (self.folder / f"{name}{ending}" for ending in (".onnx", ".heddle"))
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=11), path)
        result = heddle("compile", path, "-o", module, "--target", target, "--explain=json")
        self.assertEqual(result.code, 0, str(result))
        strategies = [kernel["strategy"] for kernel in json.loads(result.stdout)["kernels"]]
        return self.runtime.open(module).instance("cpu:0").function(), strategies

    def check(self, name, model, strategy="blocks", target="cpu"):
        value = lambda key, last: helper.make_tensor_value_info(key, FLOAT, ["m", last])
        function, strategies = self.compiled(name, model, [value("x", model.k)], [value("y", model.n)], target)
        self.assertEqual("blocks" in strategies, strategy == "blocks", f"{name}: {strategies}")
        all_rows = np.random.default_rng(5).standard_normal((70, model.k)).astype(np.float32)
        whole = None
        for rows in (70, 9, 1):
            got = function.prepare(all_rows[:rows])[1][0].numpy()
            wanted = all_rows[:rows].astype(np.float64) @ model.weights
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{name}, {rows} rows")
            whole = got if whole is None else whole
            if strategy == "blocks":
                np.testing.assert_array_equal(got, whole[:rows], f"{name}: {rows} rows differ from the first of 70")

    def test_columns(self):
        for target in ("cpu", "cpu:x86-64-v3"):
            self.check("nbits", Model("nbits", 96, 37, 32), target=target)
            self.check("nbits_zeros", Model("nbits", 288, 24, 32, F16, zeros="packed"), target=target)
        self.check("nbits_long", Model("nbits", 640, 40, 128, zeros="packed"))
        self.check("nbits_floats", Model("nbits", 64, 24, 32, zeros="floats"), "values")
        self.check("nbits_short", Model("nbits", 64, 24, 16), "values")

    def test_dequantized(self):
        self.check("rows", Model("dequantize", 96, 38, 32, zeros="packed"))
        self.check("rows_signed", Model("dequantize", 128, 22, 64, element=I4))
        self.check("rows_plain", Model("dequantize", 64, 22, 32))
        self.check("rows_short", Model("dequantize", 64, 22, 16, zeros="packed", element=I4), "values")
        for target in ("cpu", "cpu:x86-64-v3"):
            self.check("columns", Model("dequantize", 64, 19, 32, BF16, zeros="packed", axis=1, element=I4), target=target)

    def test_tied(self):
        """A table whose rows are looked up, and multiplied with as the last matrix."""
        model = Model("dequantize", 64, 30, 32, F16, axis=1, element=I4)
        model.nodes[-1:] = [node("Gather", ["f", "i"], "g"), node("MatMul", ["g", "t"], "y"), node("Transpose", ["f"], "t", perm=[1, 0])]
        model.nodes[-2:] = reversed(model.nodes[-2:])
        value = helper.make_tensor_value_info
        function, strategies = self.compiled("tied", model, [value("i", TensorProto.INT64, ["m"])], [value("y", FLOAT, ["m", 30]), value("g", FLOAT, ["m", 64])], "cpu")
        self.assertEqual(sorted(strategies).count("blocks"), 1, strategies)
        indices = np.array([3, 29, 0, -1, 7])
        product, rows = (one.numpy() for one in function.prepare(indices)[1])
        np.testing.assert_allclose(rows, model.weights.T[indices], rtol=1e-6)
        np.testing.assert_allclose(product, model.weights.T[indices] @ model.weights, rtol=1e-4, atol=1e-4)
