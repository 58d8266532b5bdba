# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One small model for each operator and attribute that the networks use, at odd sizes, against ONNX Runtime.

The networks' own shapes are friendly (multiples of 8, square, batch 1); these are not. A case marked
`refusable` may also be answered with a clear error that names the operator.
"""
import json

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from heddle_command import HeddleTestCase, heddle

CASES = {}


def case(label, operator, shape, *constants, opset=17, refusable=False, dtype=np.float32, **attributes):
    assert label not in CASES, label
    CASES[label] = (operator, shape, constants, opset, refusable, dtype, attributes)


def conv(label, shape, filters, bias=True, **attributes):
    case(f"conv_{label}", "Conv", shape, filters, *([(filters[0],)] if bias else []), **attributes)


conv("1x1", (1, 17, 9, 11), (13, 17, 1, 1))
conv("1x1_stride_2", (1, 16, 9, 12), (8, 16, 1, 1), bias=False, strides=[2, 2])
conv("3x3_same", (1, 5, 7, 9), (6, 5, 3, 3), pads=[1, 1, 1, 1])
conv("3x3_batch_3", (3, 8, 10, 10), (16, 8, 3, 3), pads=[1, 1, 1, 1])
conv("3x3_stride_2", (1, 3, 15, 14), (24, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
conv("7x7_stride_2_pad_3", (1, 3, 33, 31), (64, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2])
conv("11x11_stride_4", (1, 3, 43, 47), (96, 3, 11, 11), strides=[4, 4])
conv("5x5_pad_2_group_2", (1, 96, 13, 13), (64, 48, 5, 5), pads=[2, 2, 2, 2], group=2)
conv("1x1_group_4", (1, 24, 7, 7), (112, 6, 1, 1), group=4, bias=False)
conv("depthwise", (1, 34, 9, 9), (34, 1, 3, 3), pads=[1, 1, 1, 1], group=34, bias=False)
conv("depthwise_stride_2", (2, 136, 14, 15), (136, 1, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2], group=136)
conv("depthwise_multiplier_2", (1, 12, 8, 8), (24, 1, 3, 3), group=12)
conv("one_channel", (4, 1, 8, 8), (24, 1, 3, 3), pads=[1, 1, 1, 1])
conv("window_covers_image", (1, 10, 4, 5), (7, 10, 4, 5))
conv("not_square", (1, 6, 12, 9), (10, 6, 1, 7), pads=[0, 3, 0, 3])
conv("pads_all_different", (1, 4, 9, 9), (5, 4, 3, 3), pads=[0, 1, 2, 3])
conv("dilated", (1, 4, 15, 15), (6, 4, 3, 3), dilations=[2, 3], pads=[2, 2, 2, 2])
conv("auto_pad_same_upper", (1, 4, 10, 11), (6, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
conv("auto_pad_same_lower", (1, 4, 10, 11), (6, 4, 4, 4), strides=[2, 2], auto_pad="SAME_LOWER")
conv("one_dimension", (1, 4, 20), (6, 4, 3), pads=[1, 1], refusable=True)
conv("three_dimensions", (1, 4, 6, 7, 5), (20, 4, 3, 3, 2), pads=[1, 1, 0, 1, 1, 0])

case("gemm_trans_b", "Gemm", (3, 37), (11, 37), (11,), transB=1)
case("gemm_one_row", "Gemm", (1, 1024), (1000, 1024), (1000,), transB=1)
case("gemm_plain", "Gemm", (5, 7), (7, 9), (9,))
case("gemm_alpha_beta", "Gemm", (5, 7), (7, 9), (5, 9), alpha=0.5, beta=-2.0)
case("gemm_trans_a", "Gemm", (7, 5), (7, 9), transA=1)
case("matmul", "MatMul", (17, 33), (33, 29))
case("matmul_prime_sizes", "MatMul", (101, 103), (103, 107))
case("matmul_batched", "MatMul", (3, 5, 7), (7, 4))
for type_of_all in (np.float64, np.int32, np.int64):
    case(f"matmul_{type_of_all.__name__}", "MatMul", (5, 9), np.arange(-100, 125).reshape(9, 25).astype(type_of_all), dtype=type_of_all)

case("max_pool_3x3_stride_2", "MaxPool", (1, 9, 13, 15), kernel_shape=[3, 3], strides=[2, 2])
case("max_pool_uneven_pads", "MaxPool", (1, 9, 14, 14), kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1])
case("max_pool_same", "MaxPool", (1, 5, 7, 7), kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
case("max_pool_ceil", "MaxPool", (1, 5, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, refusable=True)
case("average_pool_7x7", "AveragePool", (1, 33, 7, 7), kernel_shape=[7, 7])
case("average_pool_uneven_pads", "AveragePool", (1, 5, 7, 7), kernel_shape=[7, 7], pads=[0, 0, 1, 1])
case("average_pool_without_padding", "AveragePool", (1, 6, 9, 9), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("average_pool_with_padding", "AveragePool", (1, 6, 9, 9), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
case("global_average_pool", "GlobalAveragePool", (2, 19, 6, 5))

case("relu", "Relu", (3, 5, 7))
case("add_bias_per_channel", "Add", (2, 6, 5, 3), (6, 1, 1))
case("add_scalar", "Add", (4, 5), ())
case("add_broadcast_of_the_left", "Add", (5,), (3, 5))
case("mul_per_channel", "Mul", (1, 6, 5, 3), (6, 1, 1))
case("sum_of_two", "Sum", (2, 3, 4), (2, 3, 4))
case("sum_of_three", "Sum", (2, 3, 4), (2, 3, 4), (4,), refusable=True)
case("concat_of_channels", "Concat", (2, 3, 4, 5), (2, 7, 4, 5), (2, 1, 4, 5), axis=1)
case("concat_last_axis", "Concat", (2, 3), (2, 5), axis=-1)
case("batch_normalization", "BatchNormalization", (2, 6, 5, 3), (6,), (6,), (6,), ("positive", 6), epsilon=1e-3)
case("lrn", "LRN", (1, 9, 4, 5), size=5, alpha=1e-1, beta=0.75, bias=2.0)
case("lrn_few_channels", "LRN", (1, 2, 4, 5), size=5, alpha=1e-1, beta=0.75, bias=1.0)
case("softmax_last_axis", "Softmax", (3, 4, 50))
case("softmax_axis_1", "Softmax", (3, 10, 4), axis=1)
case("softmax_opset_9_flattens", "Softmax", (2, 10, 3, 1), opset=9)
case("softmax_large_values", "Softmax", (2, 1000), opset=13)
case("transpose_channel_shuffle", "Transpose", (1, 4, 7, 5, 6), perm=[0, 2, 1, 3, 4])
case("transpose_default", "Transpose", (3, 4, 5))
case("round_large_values", "Round", (3, 5, 70))
case("reshape", "Reshape", (2, 6, 5), np.array([3, 20], np.int64))
case("reshape_zero_and_minus_one", "Reshape", (2, 6, 5), np.array([0, -1], np.int64))
case("flatten_axis_2", "Flatten", (2, 3, 4, 5), axis=2)
case("unsqueeze_attribute", "Unsqueeze", (3, 4), opset=9, axes=[0, 2])
case("unsqueeze_input", "Unsqueeze", (3, 4), np.array([0, 3], np.int64))
case("dropout", "Dropout", (3, 4), opset=9, ratio=0.5)

for operator in ("Elu", "Selu", "Celu", "Softplus", "Softsign", "Mish", "ThresholdedRelu", "Sign", "LeakyRelu"):
    opset = 18 if operator == "Mish" else 17
    case(f"{operator.lower()}", operator, (3, 5, 7), opset=opset)
    case(f"{operator.lower()}_large_values", operator, (3, 5, 7), opset=opset)
case("elu_alpha", "Elu", (3, 50), alpha=0.3)
case("celu_alpha", "Celu", (3, 50), alpha=0.3)
case("selu_alpha_gamma", "Selu", (3, 50), alpha=1.5, gamma=2.0)
case("thresholded_relu_alpha", "ThresholdedRelu", (3, 50), alpha=0.3)
case("prelu_per_channel", "PRelu", (2, 6, 5, 3), (6, 1, 1))
case("sign_int64", "Sign", (3, 50), dtype=np.int64)
case("sign_uint8", "Sign", (3, 50), dtype=np.uint8)
case("is_nan_special", "IsNaN", (3, 5, 7))
case("is_inf_special", "IsInf", (3, 5, 7))
case("is_inf_special_positive", "IsInf", (3, 5, 7), detect_negative=0)
case("is_inf_special_negative", "IsInf", (3, 5, 7), detect_positive=0)
case("arg_max", "ArgMax", (3, 40, 5), axis=1)
case("arg_min_last_axis", "ArgMin", (3, 40), axis=-1, keepdims=0)
case("arg_max_of_equals", "ArgMax", (3, 5, 500), axis=2, dtype=np.uint8)
case("arg_max_of_equals_last", "ArgMax", (3, 5, 500), axis=2, select_last_index=1, dtype=np.uint8)
case("cumsum", "CumSum", (3, 40, 5), np.array(1))
case("cumsum_exclusive_reverse_int64", "CumSum", (3, 40), np.array(-1), exclusive=1, reverse=1, dtype=np.int64)
case("cos", "Cos", (3, 5, 7))
case("sin", "Sin", (3, 5, 7))
case("cos_large_values", "Cos", (3, 5, 70))
case("sin_large_values", "Sin", (3, 5, 70))
case("gather_elements", "GatherElements", (3, 9, 4), np.array([[[8, -9, 0, -1]], [[1, 2, 3, 4]]]), axis=1)
case("gather_elements_last_axis", "GatherElements", (3, 40), np.arange(-40, 20).reshape(3, 20), axis=-1)
case("gather_nd", "GatherND", (3, 9, 4), np.array([[[2, 8], [0, -9]], [[-1, 3], [-3, 0]]]))
case("gather_nd_elements", "GatherND", (3, 9, 4), np.array([[2, 8, 3], [0, -9, -1], [1, 1, -4]]))
case("gather_nd_batch_dims", "GatherND", (3, 9, 4), np.array([[[8]], [[-9]], [[0]]]), batch_dims=1)
case("gather_nd_bool", "GatherND", (3, 70), np.stack(np.meshgrid(np.arange(3), np.arange(70), indexing="ij"), -1), dtype=np.bool_)
case("trilu", "Trilu", (2, 17, 9))
case("trilu_k", "Trilu", (17, 19), np.array(3))
case("trilu_lower", "Trilu", (17, 19), np.array(-2), upper=0)
case("trilu_far", "Trilu", (17, 19), np.array(-(2**62)), upper=0)
case("trilu_int64", "Trilu", (7, 9), dtype=np.int64)
case("not", "Not", (3, 5, 7), dtype=np.bool_)
for operator in ("And", "Or", "Xor"):
    case(f"{operator.lower()}_broadcast", operator, (4, 5, 7), np.arange(5).reshape(5, 1) % 2 == 0, dtype=np.bool_)

f32 = np.float32
five_scales = np.array([0.5, 0.3, 0.25, 0.1, 1], f32)
case("quantize_halves_uint8", "QuantizeLinear", (3, 5, 7), f32(0.5), np.uint8(7))
case("quantize_halves_int8_opset_10", "QuantizeLinear", (3, 5, 7), f32(0.5), np.int8(-7), opset=10)
case("quantize_without_zero_point", "QuantizeLinear", (3, 5, 7), f32(0.01))
case("quantize_large_values_uint16", "QuantizeLinear", (3, 5, 7), np.array([0.003], f32), np.array([700], np.uint16), opset=21)
case("quantize_large_values_int16", "QuantizeLinear", (3, 5, 7), f32(0.003), opset=21, output_dtype=TensorProto.INT16)
case("quantize_per_channel_int8", "QuantizeLinear", (2, 5, 3, 4), five_scales / 40, np.array([0, 1, -5, 3, 100], np.int8))
case("quantize_per_row_uint8", "QuantizeLinear", (5, 33), five_scales / 40, np.array([0, 1, 255, 128, 99], np.uint8), axis=0)
case("quantize_last_axis_opset_25", "QuantizeLinear", (3, 4, 5), five_scales, np.zeros(5, np.int8), opset=25, axis=-1)
case("dequantize_uint8", "DequantizeLinear", (3, 5, 70), f32(0.3), np.uint8(7), dtype=np.uint8)
case("dequantize_int8_opset_10", "DequantizeLinear", (3, 5, 70), f32(0.3), np.int8(-7), dtype=np.int8, opset=10)
case("dequantize_uint16", "DequantizeLinear", (3, 5, 70), f32(0.3), np.uint16(40000), dtype=np.uint16, opset=21)
case("dequantize_int32", "DequantizeLinear", (3, 5, 70), f32(1e-6), dtype=np.int32)
case("dequantize_per_channel_uint8", "DequantizeLinear", (2, 5, 3, 4), five_scales, np.array([0, 1, 255, 128, 9], np.uint8), dtype=np.uint8)
case("dequantize_per_row_int8", "DequantizeLinear", (5, 33), five_scales, np.zeros(5, np.int8), dtype=np.int8, axis=0)


def constant(described, generator, name):
    """An initializer: a given array or number, random values of a shape, or positive ones for ("positive", n)."""
    if isinstance(described, (np.ndarray, np.generic)):
        return numpy_helper.from_array(np.asarray(described), name)
    if described and described[0] == "positive":
        return numpy_helper.from_array(generator.uniform(0.5, 1.5, described[1:]).astype(np.float32), name)
    return numpy_helper.from_array(generator.standard_normal(described).astype(np.float32), name)


def random_input(label, shape, dtype, generator):
    """Normal values, some of them special, all 100 times as large, or multiples of 1/4 around the borders of 8 bits, as the label says; any integers
    and bools."""
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    values = generator.standard_normal(shape)
    if "special" in label:
        values.flat[::3] = np.resize([np.nan, np.inf, -np.inf, 0.0, -0.0], values.flat[::3].shape)
    if "halves" in label:
        return (np.round(values * 400) / 4).astype(dtype)
    return values.astype(dtype) * (100 if "large" in label else 1)


class Operators(HeddleTestCase):
    def check(self, label):
        operator, shape, constants, opset, refusable, dtype, attributes = CASES[label]
        generator = np.random.default_rng(len(label))
        image = random_input(label, shape, dtype, generator)
        weights = [constant(described, generator, f"c{index}") for index, described in enumerate(constants)]
        node = helper.make_node(operator, ["x", *(weight.name for weight in weights)], ["y"], name="subject", **attributes)
        graph = helper.make_graph(
            [node], label, [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)],
            [ValueInfoProto(name="y")], weights,
        )
        model = self.folder / f"{label}.onnx"
        data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": image})[0]
        # With the result's type and shape written down, as exporters do.
        del graph.output[:]
        graph.output.append(helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(expected.dtype), expected.shape))
        model.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())
        if refusable:
            result = heddle("compile", model, "-o", self.folder / "refused.heddle")
            if result.code != 0:
                self.assertEqual(result.code, 1, str(result))
                self.assertIn(operator, result.stderr)
                return
        got = self.run_module(self.compile(model), "x", image)
        if not np.issubdtype(expected.dtype, np.floating):
            self.assert_close(got, expected, 0, 0)
        else:
            self.assert_close(got, expected, 1e-4, 1e-5 * max(1.0, float(np.abs(expected).max())))

    def test_matmul_with_one_repeated_weight(self):
        """Such a weight is stored as its value; what prepares weights at load finds it filled in."""
        graph = helper.make_graph(
            [helper.make_node("ConstantOfShape", ["shape"], ["w"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5])),
             helper.make_node("MatMul", ["x", "w"], ["y"])],
            "repeated", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 40))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 50))],
            [numpy_helper.from_array(np.array([40, 50], np.int64), "shape")],
        )
        model = self.folder / "repeated.onnx"
        model.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
        image = np.arange(120, dtype=f32).reshape(3, 40)
        self.assert_close(self.run_module(self.compile(model), "x", image), image @ np.full((40, 50), 0.5, f32), 1e-6, 0)

    def test_conv_between_quantized_tensors(self):
        """As quantizers write it: everything around the convolution is integers, weights a scale for each filter."""
        generator = np.random.default_rng(1)
        # Steps are powers of two and sums below 2^24 of them, so that every order of summing gives the same bits.
        scales = 2.0 ** generator.integers(-9, -6, 12).astype(f32)
        integers = {
            "filter": generator.integers(-128, 128, (12, 5, 3, 3), np.int8), "filter_zero": np.zeros(12, np.int8),
            "bias": generator.integers(-4000, 4000, 12, np.int32),
            "in_zero": np.uint8(128), "out_zero": np.int8(-3),
        }
        floats = {"filter_scale": scales, "bias_scale": scales * f32(0.25), "in_scale": f32(0.25), "out_scale": f32(0.75)}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "in_scale", "in_zero"], ["image"]),
            helper.make_node("DequantizeLinear", ["filter", "filter_scale", "filter_zero"], ["filter_f32"], axis=0),
            helper.make_node("DequantizeLinear", ["bias", "bias_scale"], ["bias_f32"], axis=0),
            helper.make_node("Conv", ["image", "filter_f32", "bias_f32"], ["sum"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["sum"], ["rectified"]),
            helper.make_node("QuantizeLinear", ["rectified", "out_scale", "out_zero"], ["quantized"]),
            helper.make_node("DequantizeLinear", ["quantized", "out_scale", "out_zero"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes, "quantized", [helper.make_tensor_value_info("x", TensorProto.UINT8, (2, 5, 9, 11))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 12, 9, 11))],
            [numpy_helper.from_array(np.asarray(values), name) for name, values in {**integers, **floats}.items()],
        )
        data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        model = self.folder / "quantized.onnx"
        model.write_bytes(data)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # not QLinearConv
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        image = generator.integers(0, 256, (2, 5, 9, 11), np.uint8)
        expected = session.run(None, {"x": image})[0]
        self.assertGreater(len(np.unique(expected)), 50)
        self.assert_close(self.run_module(self.compile(model), "x", image), expected, 0, 0)

    def test_matmul_integer(self):
        """Exactly, with signs on either side or none, zero points of each kind, known and not, and ranks from 1 to 4."""
        generator = np.random.default_rng(12)

        def integers(kind, shape):
            info = np.iinfo(kind)
            return generator.integers(info.min, info.max + 1, shape, kind)

        cases = (
            (np.uint8, (9, 37), np.int8, (37, 12), (), (12,)), (np.int8, (2, 9, 37), np.uint8, (37, 12), (9,), ()),
            (np.int8, (9, 37), np.int8, (37, 12), None, None), (np.uint8, (3, 1, 4, 10), np.uint8, (2, 10, 8), (3, 1, 4, 1), (2, 1, 8)),
            (np.uint8, (10,), np.int8, (10, 8), (1,), (8,)), (np.uint8, (5, 10), np.int8, (10,), (5,), (1,)),
        )
        for left, left_shape, right, right_shape, left_zero, right_zero in cases:
            for stored in (False, True):
                with self.subTest(left=left, right=right, shapes=(left_shape, right_shape), zeros=(left_zero, right_zero), stored=stored):
                    arrays = {"a": integers(left, left_shape), "b": integers(right, right_shape)}
                    if left_zero is not None:
                        arrays["az"] = integers(left, left_zero)
                    if right_zero is not None:
                        arrays["bz"] = integers(right, right_zero)
                    wide = {name: np.asarray(array).astype(np.int64) for name, array in arrays.items()}
                    row_zero = wide.get("az", 0)
                    if left_zero and len(left_zero) == 1:
                        row_zero = row_zero[:, None] if left_zero[0] > 1 else row_zero
                    expected = np.matmul(wide["a"] - row_zero, wide["b"] - wide.get("bz", 0)).astype(np.int32)
                    inputs = [name for name in arrays if name == "a" or not stored]
                    graph = helper.make_graph(
                        [helper.make_node("MatMulInteger", ["a", "b", "az" if "az" in arrays else "", "bz" if "bz" in arrays else ""], ["y"])], "product",
                        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[name].dtype), arrays[name].shape) for name in inputs],
                        [helper.make_tensor_value_info("y", TensorProto.INT32, expected.shape)],
                        [numpy_helper.from_array(np.asarray(arrays[name]), name) for name in arrays if name not in inputs])
                    model = self.folder / "product.onnx"
                    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
                    module = self.compile(model)
                    for name in inputs:
                        np.save(self.folder / f"{name}.npy", arrays[name])
                    self.succeed("run", module, *(part for name in inputs for part in ("--input", f"{name}=@{self.folder}/{name}.npy")),
                                 "--output", f"@{self.folder}/y.npy")
                    np.testing.assert_array_equal(np.load(self.folder / "y.npy"), expected)

    def check_many(self, nodes, shape):
        """A model of 300 inputs, more than a kernel has bindings for: cut into kernels that have enough, with a note of where."""
        names = [f"x{index}" for index in range(300)]
        inputs = {name: np.random.default_rng(index).standard_normal((3, 5)).astype(f32) for index, name in enumerate(names)}
        graph = helper.make_graph(
            nodes(names), "many", [helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, 5)) for name in names],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
        data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        model = self.folder / "many.onnx"
        model.write_bytes(data)
        expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        module = self.compile(model, "--target", "cpu,cuda")
        refused = json.loads(self.succeed("explain", "--format", "json", module).stdout)["compiler_report"]["not_fused"]
        self.assertEqual({family for one in refused for family in one["families"] if one["kind"] == "TooManyBindings"}, {"cpu", "cuda"})
        for name in names:
            np.save(self.folder / f"{name}.npy", inputs[name])
        result = self.folder / "y.npy"
        given = [part for name in names for part in ("--input", f"{name}=@{self.folder}/{name}.npy")]
        self.succeed("run", module, "--device", "cpu", *given, "--output", f"y=@{result}")
        self.assert_close(np.load(result), expected, 1e-6, 1e-5)

    def test_add_of_300_inputs(self):
        def chain(names):
            sums = [names[0], *(f"s{index}" for index in range(1, 299)), "y"]
            return [helper.make_node("Add", [sums[index], names[index + 1]], [sums[index + 1]]) for index in range(299)]

        self.check_many(chain, (3, 5))

    def test_concat_of_300_inputs(self):
        self.check_many(lambda names: [helper.make_node("Concat", names, ["y"], axis=1)], (3, 1500))


for label in CASES:
    setattr(Operators, f"test_{label}", lambda self, label=label: self.check(label))
