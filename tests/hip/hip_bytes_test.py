# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized operators of ONNX models on heddle.hip over the stand-in for AMD's library: bytes are multiplied by the matrix instructions of each chip."""
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
from heddle_command import DIGITS, HeddleTestCase, heddle_path  # pylint: disable=wrong-import-position
from hip_models_test import CHIPS, stand_in  # pylint: disable=wrong-import-position

TYPES = {np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int8): TensorProto.INT8, np.dtype(np.int32): TensorProto.INT32,
         np.dtype(np.float32): TensorProto.FLOAT}
INSTRUCTIONS = {"gfx90a": "v_mfma_i32_16x16x16i8", "gfx942": "v_mfma_i32_16x16x32_i8", "gfx1100": "v_wmma_i32_16x16x16_iu8",
                "gfx1201": "v_wmma_i32_16x16x16_iu8"}
GENERATOR = np.random.default_rng(39)


def whole(kind, *extents):
    return GENERATOR.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, extents, kind)


def u8(value):
    return np.array(value, np.uint8)


def f32(value):
    return np.array(value, np.float32)


FILTER, WEIGHTS = whole(np.int8, 40, 24, 3, 3), whole(np.int8, 70, 40)
SCALES, BIAS = (GENERATOR.random(40) * 0.01).astype(np.float32), GENERATOR.integers(-1000, 1000, 40, np.int32)
IMAGE, MATRIX = whole(np.uint8, 2, 24, 9, 11), whole(np.uint8, 37, 70)
IMAGE[0, 0], MATRIX[0], WEIGHTS[:, 0], FILTER[0] = 255, 255, -128, -128
# The product, its attributes; inputs that are not constants; and the largest difference. The zero point of DynamicQuantizeLinear is known in a call only.
CASES = {
    "products of bytes": ("MatMulInteger", {}, {"a": whole(np.int8, 37, 70)}, {"b": WEIGHTS}, 0),
    "products less zero points": ("MatMulInteger", {}, {"a": MATRIX, "a_zero": u8(117)}, {"b": whole(np.uint8, 70, 40), "b_zero": u8(99)}, 0),
    "products of bytes without a sign": ("MatMulInteger", {}, {"a": MATRIX}, {"b": whole(np.uint8, 70, 40)}, 0),
    "a convolution of bytes": ("ConvInteger", {"pads": [1, 1, 1, 1]}, {"x": IMAGE.view(np.int8)}, {"w": FILTER}, 0),
    "a convolution less a zero point": ("ConvInteger", {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"x": IMAGE}, {"w": FILTER, "x_zero": u8(117)}, 0),
    "a convolution less one of each call": ("ConvInteger", {"pads": [1, 1, 0, 1]}, {"x": IMAGE, "x_zero": u8(117)}, {"w": FILTER}, 0),
    "a convolution with a filter around 128": ("ConvInteger", {"pads": [1, 1, 1, 1], "group": 2}, {"x": IMAGE},
                                               {"w": whole(np.uint8, 40, 12, 3, 3), "x_zero": u8(3), "w_zero": u8(128)}, 0),
    "a quantized product": ("QLinearMatMul", {}, {"a": MATRIX}, {"a_scale": f32(0.02), "a_zero": u8(117), "b": WEIGHTS, "b_scale": f32(0.01),
                                                                 "b_zero": np.array(0, np.int8), "y_scale": f32(0.1), "y_zero": u8(128)}, 1),
    "a quantized product of activations": ("QLinearMatMul", {}, {"a": MATRIX, "b": whole(np.uint8, 70, 40)},
                                           {"a_scale": f32(0.02), "a_zero": u8(117), "b_scale": f32(0.01), "b_zero": u8(100), "y_scale": f32(0.1),
                                            "y_zero": u8(128)}, 1),
    "a quantized convolution": ("QLinearConv", {"pads": [1, 1, 1, 1]}, {"x": IMAGE},
                                {"x_scale": f32(0.02), "x_zero": u8(117), "w": FILTER, "w_scale": SCALES, "w_zero": np.zeros(40, np.int8), "y_scale": f32(0.5),
                                 "y_zero": u8(128), "bias": BIAS}, 1),
    "a convolution with zero points of both sides": ("ConvInteger", {"pads": [1, 1, 0, 1], "strides": [1, 2], "dilations": [2, 1]}, {"x": IMAGE, "x_zero": u8(117)},
                                                     {"w": whole(np.uint8, 40, 24, 3, 3), "w_zero": u8(99)}, 0),
    "a quantized convolution with zero points of channels": (
        "QLinearConv", {"pads": [1, 1, 1, 1]}, {"x": IMAGE},
        {"x_scale": f32(0.02), "x_zero": u8(0), "w": whole(np.uint8, 40, 24, 3, 3), "w_scale": SCALES, "w_zero": whole(np.uint8, 40), "y_scale": f32(0.5),
         "y_zero": u8(128)}, 1),
}
ORDER = {"MatMulInteger": ["a", "b", "a_zero", "b_zero"], "ConvInteger": ["x", "w", "x_zero", "w_zero"],
         "QLinearMatMul": ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"],
         "QLinearConv": ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]}


class HipBytes(HeddleTestCase):
    def save(self, nodes, inputs, constants, element):
        model = self.folder / "model.onnx"
        graph = helper.make_graph(nodes, "bytes", [helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape) for name, value in inputs.items()],
                                  [helper.make_tensor_value_info("y", element, None)],
                                  [numpy_helper.from_array(value, name) for name, value in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
        for name, value in inputs.items():
            np.save(self.folder / f"{name}.npy", value)
        return model

    def check(self, model, inputs, most, chips, least=50):
        """The CPU's results on each chip, and the instruction in its code."""
        code = self.folder / "code"
        module = self.compile(model, "--target", "cpu," + ",".join(f"hip:{chip}" for chip in chips), "--dump-code", code)
        given = [part for name in inputs for part in ("--input", f"{name}=@{self.folder}/{name}.npy")]

        def run(device, **options):
            self.succeed("run", module, *given, "--output", f"@{self.folder}/y.npy", "--device", device, **options)
            return np.load(self.folder / "y.npy").astype(np.float64)

        expected = run("cpu:0")
        self.assertGreater(len(np.unique(expected)), least)
        for chip in chips:
            np.testing.assert_allclose(run("hip:0", **stand_in(chip, CHIPS[chip])), expected, rtol=0, atol=most, err_msg=chip)
            image = code / f"model.{chip}.hsaco"
            tool = heddle_path().parents[1] / "tests" / "amdgpu-run"
            shown = subprocess.run([tool, image], capture_output=True, text=True, check=True).stdout
            kernels = re.findall(r"^(\w+): \d+ instructions", shown, re.MULTILINE)
            texts = [subprocess.run([tool, image, "--list", kernel], capture_output=True, text=True, check=True).stdout for kernel in kernels]
            self.assertTrue(any(INSTRUCTIONS[chip] in text for text in texts), f"{chip}: no {INSTRUCTIONS[chip]}")

    def test_operators_use_the_instructions_for_bytes(self):
        for number, (name, (operator, attributes, inputs, constants, most)) in enumerate(CASES.items()):
            with self.subTest(name):
                present = {**inputs, **constants}
                names = [operand if operand in present else "" for operand in ORDER[operator]]
                while not names[-1]:
                    names.pop()
                element = TYPES[present["y_zero"].dtype] if "y_zero" in present else TensorProto.INT32
                model = self.save([helper.make_node(operator, names, ["y"], **attributes)], inputs, constants, element)
                # Each chip has every second case, MFMA and WMMA both of them.
                self.check(model, inputs, most, ["gfx90a", "gfx1100"] if number % 2 else ["gfx942", "gfx1201"])

    def test_layers_between_quantize_and_dequantize(self):
        """A convolution as quantizers write it: its bytes are multiplied, and the scales belong to the sums."""
        constants = {"scale": f32(0.02), "zero": u8(117), "w": FILTER, "w_scale": SCALES, "w_zero": np.zeros(40, np.int8), "bias": BIAS,
                     "bias_scale": SCALES * np.float32(0.02), "y_scale": f32(0.5), "y_zero": u8(128)}
        nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]), helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
                 helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wd"], axis=0),
                 helper.make_node("DequantizeLinear", ["bias", "bias_scale"], ["bd"], axis=0),
                 helper.make_node("Conv", ["d", "wd", "bd"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
                 helper.make_node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["yq"]), helper.make_node("DequantizeLinear", ["yq", "y_scale", "y_zero"], ["y"])]
        inputs = {"x": (GENERATOR.random((2, 24, 9, 11)) * 5 - 2.5).astype(np.float32)}
        self.check(self.save(nodes, inputs, constants, TensorProto.FLOAT), inputs, 0.5, list(CHIPS))

    def test_a_network_as_onnx_runtime_quantizes_it(self):
        """With zero points of activations and of weights, and with those that each call computes."""
        images = {"image": GENERATOR.random((3, 1, 8, 8), dtype=np.float32)}
        np.save(self.folder / "image.npy", images["image"])

        class Images(quantization.CalibrationDataReader):
            def __init__(self):
                self.left = [images]

            def get_next(self):
                return self.left.pop() if self.left else None

        kinds = quantization.QuantType
        model = self.folder / "model.onnx"
        for how in ("static", "dynamic"):
            with self.subTest(how):
                if how == "dynamic":
                    quantization.quantize_dynamic(DIGITS, model, weight_type=kinds.QInt8)
                else:
                    quantization.quantize_static(DIGITS, model, Images(), quant_format=quantization.QuantFormat.QOperator, activation_type=kinds.QUInt8,
                                                 weight_type=kinds.QUInt8)
                # The results are about 10; one step of a layer is about 0.1.
                self.check(model, images, 0.5, ["gfx90a", "gfx1201"], least=25)
