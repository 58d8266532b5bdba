# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of 8 bits and less that are no i8 or u8: conversions of all values of f16 and bf16, and of all bit patterns, against ml_dtypes; movement, arguments
and results with any number of elements, weights, and quantization by blocks."""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from heddle_command import REPOSITORY, HeddleTestCase, heddle

sys.path.insert(0, str(REPOSITORY / "tests" / "bench"))
import heddle_ctypes

FLOATS = {TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
          TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
          TensorProto.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu, TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn}
INTEGERS = {TensorProto.INT4: ml_dtypes.int4, TensorProto.UINT4: ml_dtypes.uint4, TensorProto.INT2: ml_dtypes.int2, TensorProto.UINT2: ml_dtypes.uint2}
NARROW = {**FLOATS, **INTEGERS}
F32, F16, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16


def patterns(dtype):
    """Every value of the type, by its bits."""
    bits = heddle_ctypes.bits_of(heddle_ctypes.TYPES[np.dtype(dtype)])
    codes = np.arange(1 << bits, dtype=np.uint8)
    if np.dtype(dtype).name.startswith("int"):
        codes = ((codes ^ (1 << bits - 1)) - (1 << bits - 1)).astype(np.uint8)
    return codes.view(dtype)


def bits_of(array):
    return array.reshape(-1).view(np.uint8 if array.dtype.itemsize == 1 else np.uint16 if array.dtype.itemsize == 2 else np.uint32)


def all_of_16_bits():
    """All values of f16 and of bf16, as f32: among them subnormal ones, infinities and NaN of both signs, and ties between values of 8 bits."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        return np.concatenate([codes.view(np.float16).astype(np.float32), codes.view(ml_dtypes.bfloat16).astype(np.float32)])


def same_bits(case, got, wanted, about):
    """Equal bits; of NaN, only that it is one."""
    case.assertEqual(got.dtype, wanted.dtype, about)
    case.assertEqual(got.shape, wanted.shape, about)
    if got.dtype.name.startswith(("int", "uint")):  # ml_dtypes does not define the unused bits
        np.testing.assert_array_equal(got.astype(np.int16), wanted.astype(np.int16), about)
        return
    with np.errstate(all="ignore"):
        is_nan = np.isnan(wanted.astype(np.float32))
        case.assertTrue((np.isnan(got.astype(np.float32)) == is_nan).all(), about)
    differ = np.flatnonzero((bits_of(got) != bits_of(wanted)) & ~is_nan.reshape(-1))
    case.assertEqual(len(differ), 0, f"{about}: {len(differ)} differ, first {differ[:3]}: {got.reshape(-1)[differ[:3]]}, not {wanted.reshape(-1)[differ[:3]]}")


class NarrowTypes(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.runtime = heddle_ctypes.Runtime()

    def compiled(self, nodes, inputs, outputs, initializers=(), opset=25):
        """The function of a model of these nodes; inputs and outputs are (name, type, shape)."""
        values = [[helper.make_tensor_value_info(*one) for one in all] for all in (inputs, outputs)]
        graph = helper.make_graph(nodes, "narrow", *values, initializer=list(initializers))
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=12)
        path, module = self.folder / "model.onnx", self.folder / "model.heddle"
        onnx.save(self.model, path)
        result = heddle("compile", path, "-o", module)
        self.assertEqual(result.code, 0, str(result))
        return self.runtime.open(module).instance("cpu:0").function()

    def run_once(self, function, *arrays):
        return [result.numpy() for result in function.prepare(*arrays)[1]]

    def test_encode(self):
        values = all_of_16_bits()
        nodes, outputs, wanted = [], [], []

        def output(kind, expected, **attributes):
            name = f"y{len(outputs)}"
            nodes.append(helper.make_node("Cast", ["x"], [name], to=kind, **attributes))
            outputs.append((name, kind, ["n"]))
            wanted.append((f"{onnx.helper.tensor_dtype_to_string(kind)} {attributes}", expected))

        with np.errstate(all="ignore"):
            for kind, dtype in FLOATS.items():
                if kind == TensorProto.FLOAT8E8M0:
                    continue
                if kind == TensorProto.FLOAT4E2M1:
                    output(kind, np.where(np.isnan(values), -0.0, values).astype(dtype))
                    continue
                output(kind, numpy_helper.saturate_cast(values, dtype), saturate=1)
                output(kind, values.astype(dtype), saturate=0)
        function = self.compiled(nodes, [("x", F32, ["n"])], outputs)
        for (about, expected), got in zip(wanted, self.run_once(function, values)):
            same_bits(self, got, expected, about)

    def test_encode_exponents(self):
        """FLOAT8E8M0: every number from 2^-126 on as ONNX's reference has it; below it, by the specification's table."""
        values = np.abs(all_of_16_bits())
        values = values[np.isnan(values) | ((values >= 2.0**-126) & (values < np.inf))]
        special = np.array([0, 2.0**-149, 2.0**-127, 1.25 * 2.0**-127, 1.75 * 2.0**-127, np.inf, 2.0**127 * 1.5], np.float32)
        modes = [(mode, saturate) for mode in ("up", "down", "nearest") for saturate in (0, 1)]
        nodes = [helper.make_node("Cast", ["x"], [f"y{i}"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)
                 for i, (mode, saturate) in enumerate(modes)]
        function = self.compiled(nodes, [("x", F32, ["n"])], [(f"y{i}", TensorProto.FLOAT8E8M0, ["n"]) for i in range(len(modes))])
        expected = {("up", 1): (0, 0, 0, 1, 1, 254, 254), ("down", 1): (0, 0, 0, 0, 0, 254, 254), ("nearest", 1): (0, 0, 0, 0, 1, 254, 254),
                    ("up", 0): (255, 255, 0, 1, 1, 255, 255), ("down", 0): (255, 255, 0, 0, 0, 255, 254), ("nearest", 0): (255, 255, 0, 0, 1, 255, 255)}
        for mode, got, of_special in zip(modes, self.run_once(function, values), self.run_once(function, special)):
            same_bits(self, got, numpy_helper.to_float8e8m0(values, bool(mode[1]), mode[0]), str(mode))
            self.assertEqual(tuple(bits_of(of_special)), expected[mode], str(mode))

    def test_decode(self):
        """Every bit pattern, to f32, f16, i32 and bool; packed ones with a number of elements that fills no byte."""
        for kind, dtype in NARROW.items():
            targets = [F32, F16, TensorProto.INT32, TensorProto.BOOL]
            nodes = [helper.make_node("Cast", ["x"], [f"y{i}"], to=to) for i, to in enumerate(targets)]
            function = self.compiled(nodes, [("x", kind, ["n"])], [(f"y{i}", to, ["n"]) for i, to in enumerate(targets)])
            for count in (len(patterns(dtype)), len(patterns(dtype)) - 1, 1, 0):
                values = patterns(dtype)[:count]
                got = self.run_once(function, values)
                with np.errstate(all="ignore"):
                    numbers = values.astype(np.float32)
                    same_bits(self, got[0], numbers, f"{dtype} to f32")
                    same_bits(self, got[1], numbers.astype(np.float16), f"{dtype} to f16")
                    whole = np.where(np.isnan(numbers), 0, np.clip(np.trunc(numbers), -2.0**31, 2.0**31 - 128)).astype(np.int64)
                whole = np.where(numbers >= 2.0**31, 2**31 - 1, whole).astype(np.int32)
                np.testing.assert_array_equal(got[2], whole, str(dtype))
                np.testing.assert_array_equal(got[3], numbers != 0, str(dtype))

    def test_integers(self):
        """Casts keep the lowest bits, of whole numbers and of floats."""
        values = np.arange(-40, 41, dtype=np.int32)
        nodes = [helper.make_node("Cast", [name], [f"{name}{i}"], to=kind) for name in "xf" for i, kind in enumerate(INTEGERS)]
        function = self.compiled(nodes, [("x", TensorProto.INT32, ["n"]), ("f", F32, ["n"])],
                                 [(f"{name}{i}", kind, ["n"]) for name in "xf" for i, kind in enumerate(INTEGERS)])
        got = self.run_once(function, values, values.astype(np.float32) + np.where(values < 0, -0.5, 0.5).astype(np.float32))
        for i, dtype in enumerate(list(INTEGERS.values()) * 2):
            same_bits(self, got[i], values.astype(np.int8).astype(dtype), f"{i} {dtype}")

    def test_between(self):
        """From one narrow type to another; the middle one is rounded to."""
        nodes = [helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT8E4M3FN), helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT4E2M1),
                 helper.make_node("Cast", ["b"], ["y"], to=TensorProto.INT4)]
        function = self.compiled(nodes, [("x", TensorProto.FLOAT8E5M2, [7, "n"])], [("y", TensorProto.INT4, [7, "n"])])
        values = patterns(ml_dtypes.float8_e5m2)[:7 * 13].reshape(7, 13)
        with np.errstate(all="ignore"):
            wanted = values.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).astype(np.float32).astype(ml_dtypes.int4)
        same_bits(self, self.run_once(function, values)[0], wanted, "chain")

    def test_movement(self):
        """Ops that only move elements, and constants of the model, for each type at once."""
        index = numpy_helper.from_array(np.array([2, 0, 2, -1], np.int64), "index")
        shape = numpy_helper.from_array(np.array([5, 3], np.int64), "shape")
        for kind, dtype in NARROW.items():
            every = np.resize(patterns(dtype), 15).reshape(3, 5)
            other = np.resize(patterns(dtype)[::-1], 20).reshape(4, 5)
            nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Reshape", ["t", "shape"], ["r"]),
                     helper.make_node("Concat", ["x", "w"], ["c"], axis=0), helper.make_node("Gather", ["c", "index"], ["g"]),
                     helper.make_node("Where", ["m", "g", "w"], ["s"]), helper.make_node("Identity", ["x"], ["i"])]
            outputs = [("t", [5, 3]), ("r", [5, 3]), ("c", [7, 5]), ("g", [4, 5]), ("s", [4, 5]), ("i", [3, 5])]
            function = self.compiled(nodes, [("x", kind, [3, 5]), ("m", TensorProto.BOOL, [4, 5])], [(name, kind, extents) for name, extents in outputs],
                                     [index, shape, numpy_helper.from_array(other, "w")])
            mask = np.arange(20).reshape(4, 5) % 3 == 0
            joined = np.concatenate([every, other])
            wanted = [every.T, every.T.reshape(5, 3), joined, joined[[2, 0, 2, 6]], np.where(mask, joined[[2, 0, 2, 6]], other), every]
            for (name, _), got, expected in zip(outputs, self.run_once(function, every, mask), wanted):
                same_bits(self, got, np.ascontiguousarray(expected), f"{dtype} {name}")

    def test_weights(self):
        """A quantized weight that is large enough for a parameter, with an odd number of elements."""
        generator = np.random.default_rng(7)
        for kind, dtype in ((TensorProto.UINT4, ml_dtypes.uint4), (TensorProto.INT2, ml_dtypes.int2), (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn)):
            codes = patterns(dtype)
            codes = codes[~np.isnan(codes.astype(np.float32))]
            weight = codes[generator.integers(0, len(codes), (513, 517))]
            scale = generator.uniform(0.5, 1, 517).astype(np.float32)
            nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1), helper.make_node("MatMul", ["x", "d"], ["y"])]
            initializers = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(scale, "s")]
            x = generator.standard_normal((2, 513)).astype(np.float32)
            wanted = x.astype(np.float64) @ (weight.astype(np.float64) * scale)
            function = self.compiled(nodes, [("x", F32, ["n", 513])], [("y", F32, ["n", 517])], initializers)
            np.testing.assert_allclose(self.run_once(function, x)[0], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max(), err_msg=str(dtype))

    def test_blocks(self):
        """Scales by blocks whose last one is not full, of known and of symbolic extents, with zero points and powers of 2 as scales."""
        generator = np.random.default_rng(11)
        x = (generator.standard_normal((3, 11, 2)) * 4).astype(np.float32)
        scale = generator.uniform(0.5, 2, (3, 4, 2)).astype(np.float32)
        for dtype, kind in ((np.uint8, TensorProto.UINT8), (ml_dtypes.int4, TensorProto.INT4), (ml_dtypes.uint2, TensorProto.UINT2)):
            zero = (generator.integers(0, 2, (3, 4, 2))).astype(np.uint8).astype(dtype)
            nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=3),
                     helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1, block_size=3)]
            for extents in ([3, 11, 2], ["n", 11, 2]):
                scales = [extents[0], 4, 2]
                function = self.compiled(nodes, [("x", F32, extents), ("s", F32, scales), ("z", kind, scales)], [("q", kind, extents), ("d", F32, extents)])
                got = self.run_once(function, x, scale, zero)
                wanted = ReferenceEvaluator(self.model).run(None, {"x": x, "s": scale, "z": zero})
                same_bits(self, got[0], wanted[0], f"{dtype} {extents}")
                np.testing.assert_allclose(got[1], wanted[1], rtol=1e-6, err_msg=str(dtype))

    def test_refusals(self):
        """Arithmetic is refused, with the node, the input and the type."""
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], name="sum")], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT8E5M2, [4])], [helper.make_tensor_value_info("y", TensorProto.FLOAT8E5M2, [4])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12), self.folder / "add.onnx")
        result = heddle("compile", self.folder / "add.onnx", "-o", self.folder / "add.heddle")
        self.assertNotEqual(result.code, 0)
        for text in ("node 'sum' (operator Add, opset 25)", "input 0 ('x') has element type FLOAT8E5M2"):
            self.assertIn(text, result.stderr)
