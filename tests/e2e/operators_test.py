# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One small model for each operator and attribute that the networks use, at odd sizes, against ONNX Runtime.

The networks' own shapes are friendly (multiples of 8, square, batch 1); these are not. A case marked
`refusable` may also be answered with a clear error that names the operator.
"""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase, heddle

CASES = {}


def case(label, operator, shape, *constants, opset=17, refusable=False, **attributes):
    assert label not in CASES, label
    CASES[label] = (operator, shape, constants, opset, refusable, attributes)


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

case("gemm_trans_b", "Gemm", (3, 37), (11, 37), (11,), transB=1)
case("gemm_one_row", "Gemm", (1, 1024), (1000, 1024), (1000,), transB=1)
case("gemm_plain", "Gemm", (5, 7), (7, 9), (9,))
case("gemm_alpha_beta", "Gemm", (5, 7), (7, 9), (5, 9), alpha=0.5, beta=-2.0)
case("gemm_trans_a", "Gemm", (7, 5), (7, 9), transA=1)
case("matmul", "MatMul", (17, 33), (33, 29))
case("matmul_prime_sizes", "MatMul", (101, 103), (103, 107))
case("matmul_batched", "MatMul", (3, 5, 7), (7, 4))

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


def constant(described, generator, name):
    """An initializer: a given integer array, random values of a shape, or positive ones for ("positive", n)."""
    if isinstance(described, np.ndarray):
        return numpy_helper.from_array(described, name)
    if described and described[0] == "positive":
        return numpy_helper.from_array(generator.uniform(0.5, 1.5, described[1:]).astype(np.float32), name)
    return numpy_helper.from_array(generator.standard_normal(described).astype(np.float32), name)


class Operators(HeddleTestCase):
    def check(self, label):
        operator, shape, constants, opset, refusable, attributes = CASES[label]
        generator = np.random.default_rng(len(label))
        image = generator.standard_normal(shape).astype(np.float32) * (100 if "large" in label else 1)
        weights = [constant(described, generator, f"c{index}") for index, described in enumerate(constants)]
        node = helper.make_node(operator, ["x", *(weight.name for weight in weights)], ["y"], name="subject", **attributes)
        graph = helper.make_graph(
            [node], label, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights,
        )
        model = self.folder / f"{label}.onnx"
        data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": image})[0]
        # With the result's shape written down, as exporters do.
        del graph.output[:]
        graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, expected.shape))
        model.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString())
        if refusable:
            result = heddle("compile", model, "-o", self.folder / "refused.heddle")
            if result.code != 0:
                self.assertEqual(result.code, 1, str(result))
                self.assertIn(operator, result.stderr)
                return
        got = self.run_module(self.compile(model), "x", image)
        self.assert_close(got, expected, 1e-4, 1e-5 * max(1.0, float(np.abs(expected).max())))


for label in CASES:
    setattr(Operators, f"test_{label}", lambda self, label=label: self.check(label))
