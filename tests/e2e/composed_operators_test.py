# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that the importer makes of others, in many forms, against ONNX Runtime.

Each case is a node. Those of one opset are one model, and those whose input has symbolic extents are another one, which is called with several shapes.
"""
import json

import numpy as np
import onnxruntime
from onnx import ValueInfoProto, helper, numpy_helper

from heddle_command import HeddleTestCase

CASES = {}
SYMBOLIC = {}
REFUSED = {}


def case(label, operator, inputs, opset=18, outputs=1, rtol=1e-5, **attributes):
    """A node. Inputs: a shape is an input of the model with random f32 elements, Given(array) one with these, an array a constant, "" what is left
    out, and another text the name of a value."""
    assert label not in CASES, label
    CASES[label] = (operator, inputs, opset, outputs, rtol, attributes)


def symbolic(label, operator, inputs, outputs=1, rtol=1e-5, **attributes):
    """The same for a node that reads "x", of extents SYMBOLIC_DIMS, or values of SYMBOLIC_NODES."""
    assert label not in SYMBOLIC, label
    SYMBOLIC[label] = (operator, inputs, 18, outputs, rtol, attributes)


def refused(label, said, operator, inputs, opset=18, **attributes):
    """A node that is refused with a text that has this in it."""
    assert label not in REFUSED, label
    REFUSED[label] = (said, (operator, inputs, opset, 1, 0, attributes))


class Given:
    def __init__(self, array):
        self.array = array


def f32(*numbers):
    return np.array(numbers, np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


def floats(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


for place in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"):
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for name, scale in (("whole", f32(1, 1, 2, 3)), ("parts", f32(1, 1, 1.7, 0.6))):
            case(f"resize_nearest_{place}_{rounding}_{name}", "Resize", [(1, 2, 5, 4), "", scale], opset=19, mode="nearest",
                 coordinate_transformation_mode=place, nearest_mode=rounding)
    for mode in ("linear", "cubic"):
        for name, scale in (("parts", f32(1, 1, 1.7, 0.6)), ("to_one", f32(1, 1, 0.2, 2))):
            case(f"resize_{mode}_{place}_{name}", "Resize", [(2, 3, 5, 4), "", scale], opset=19, mode=mode, coordinate_transformation_mode=place)
case("resize_sizes", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 8, 3)], mode="linear")
for mode in ("nearest", "linear", "cubic"):
    case(f"resize_{mode}_align_corners", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 8, 3)], mode=mode, coordinate_transformation_mode="align_corners")
case("resize_crop", "Resize", [(1, 3, 5, 4), f32(0, 0, 0.2, 0.5, 1, 1, 0.6, 1.5), "", i64(1, 3, 3, 6)], mode="linear", extrapolation_value=-2.0,
     coordinate_transformation_mode="tf_crop_and_resize")
for mode in ("linear", "cubic"):
    case(f"resize_antialias_{mode}", "Resize", [(1, 3, 9, 7), "", f32(1, 1, 0.4, 0.6)], mode=mode, antialias=1, exclude_outside=1)
case("resize_sizes_nearest", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 10, 7)], mode="nearest")
case("resize_sizes_three_times", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 15, 12)], mode="nearest")
case("resize_sizes_cubic", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 9, 11)], mode="cubic", cubic_coeff_a=-0.5)
case("resize_same_sizes", "Resize", [(1, 3, 5, 4), "", "", i64(1, 3, 5, 4)], mode="cubic")
case("resize_empty_roi", "Resize", [(1, 3, 5, 4), f32(), f32(1, 1, 2, 2)], opset=11, mode="linear")
case("resize_empty_scales_and_sizes", "Resize", [(1, 3, 5, 4), f32(), f32(), i64(1, 3, 7, 9)], opset=11, mode="linear")
case("resize_axes", "Resize", [(1, 3, 5, 4), "", f32(1.5, 2)], mode="linear", axes=[3, 2])
case("resize_axes_sizes", "Resize", [(1, 3, 5, 4), "", "", i64(9, 2)], mode="nearest", axes=[2, 3])
case("resize_exclude_outside", "Resize", [(1, 3, 5, 4), "", f32(1, 1, 1.7, 0.6)], mode="cubic", exclude_outside=1)
case("resize_one_dimension", "Resize", [(7,), "", f32(2.5)], mode="nearest")
case("resize_two_dimensions", "Resize", [(5, 7), "", f32(2.5, 0.7)], mode="linear")
case("resize_three_dimensions", "Resize", [(2, 5, 7), "", f32(2, 2.5, 0.7)], mode="linear")
case("resize_volume", "Resize", [(1, 2, 3, 4, 5), "", f32(1, 1, 2, 1.5, 0.7)], mode="linear")
case("resize_of_batch_and_channels", "Resize", [(2, 3, 4, 5), "", f32(2, 1.5, 1, 3)], mode="nearest")
case("resize_of_channels_last", "Resize", [(1, 4, 5, 3), "", f32(1, 2, 1.5, 1)], mode="linear")
case("resize_wide", "Resize", [(1, 1, 1, 5000), "", f32(1, 1, 1, 2)], mode="linear")
case("resize_int32", "Resize", [Given(np.arange(20, dtype=np.int32).reshape(1, 1, 4, 5)), "", f32(1, 1, 1.5, 2)], mode="nearest")
case("resize_uint8", "Resize", [Given(np.arange(20, dtype=np.uint8).reshape(1, 1, 4, 5)), "", f32(1, 1, 2, 2)], mode="nearest")
case("resize_f16", "Resize", [Given(floats(1, 2, 4, 5).astype(np.float16)), "", f32(1, 1, 1.5, 2)], rtol=1e-3, mode="linear")
case("resize_opset_10", "Resize", [(1, 2, 5, 4), f32(1, 1, 2, 1.7)], opset=10, mode="nearest")
case("resize_opset_10_less", "Resize", [(1, 2, 5, 7), f32(1, 1, 0.6, 0.7)], opset=10, mode="nearest")
case("resize_opset_10_linear", "Resize", [(1, 2, 5, 4), f32(1, 1, 2, 0.7)], opset=10, mode="linear")
case("resize_opset_11_half_pixel_for_nn", "Resize", [(1, 2, 5, 4), f32(), f32(1, 1, 0.6, 2)], opset=11, nearest_mode="floor",
     coordinate_transformation_mode="tf_half_pixel_for_nn")
case("resize_opset_13", "Resize", [(1, 2, 5, 4), "", f32(1, 1, 2, 2)], opset=13, mode="linear", coordinate_transformation_mode="align_corners")
for opset in (7, 9):
    for name, scale in (("", (1.0, 1.0, 2.0, 3.0)), ("_more", (1.0, 1.0, 1.7, 2.5))):
        for mode in ("nearest", "linear"):
            inputs, attributes = ([(2, 3, 4, 5)], {"scales": scale}) if opset == 7 else ([(2, 3, 4, 5), f32(*scale)], {})
            case(f"upsample_{opset}_{mode}{name}", "Upsample", inputs, opset=opset, mode=mode, **attributes)

case("tile", "Tile", [(2, 3, 4), i64(2, 1, 3)])
case("tile_once", "Tile", [(2, 3), i64(1, 1)])
case("tile_nothing", "Tile", [(2, 3), i64(0, 2)])
case("tile_vector", "Tile", [(5,), i64(4)])
case("tile_int64", "Tile", [Given(np.arange(6).reshape(2, 3)), i64(2, 2)])
case("tile_bool", "Tile", [Given(np.arange(6).reshape(2, 3) % 2 == 0), i64(3, 2)])
case("depth_to_space", "DepthToSpace", [(2, 12, 3, 5)], blocksize=2)
case("depth_to_space_crd", "DepthToSpace", [(2, 18, 3, 5)], blocksize=3, mode="CRD")
case("depth_to_space_opset_9", "DepthToSpace", [(2, 12, 3, 5)], opset=9, blocksize=2)
case("space_to_depth", "SpaceToDepth", [(2, 3, 4, 10)], blocksize=2)
case("space_to_depth_3", "SpaceToDepth", [(1, 2, 6, 9)], blocksize=3)


def transposed(label, shape, filters, bias=True, groups=1, **attributes):
    bias = [floats(filters[1] * groups)] if bias else []
    case(f"conv_transpose_{label}", "ConvTranspose", [shape, floats(*filters), *bias], group=groups, **attributes)


transposed("plain", (1, 5, 6, 7), (5, 4, 3, 3))
transposed("same", (2, 5, 6, 7), (5, 4, 3, 3), pads=[1, 1, 1, 1])
transposed("without_bias", (1, 5, 6, 7), (5, 4, 3, 3), bias=False)
transposed("2x2_stride_2", (1, 16, 6, 7), (16, 8, 2, 2), strides=[2, 2])
transposed("4x4_stride_2", (1, 16, 6, 7), (16, 8, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1])
transposed("3x3_stride_2", (1, 5, 6, 7), (5, 4, 3, 3), strides=[2, 2])
transposed("3x3_stride_2_output_padding", (1, 5, 6, 7), (5, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
transposed("strides_differ", (1, 5, 6, 7), (5, 4, 5, 3), strides=[3, 1], pads=[2, 0, 1, 1])
transposed("stride_above_kernel", (1, 5, 3, 4), (5, 4, 2, 1), strides=[3, 2])
transposed("stride_above_kernel_output_padding", (1, 5, 3, 4), (5, 4, 1, 2), strides=[3, 4], output_padding=[2, 3])
transposed("large_pads", (1, 5, 6, 7), (5, 4, 3, 3), strides=[2, 2], pads=[5, 2, 1, 4])
transposed("dilated", (1, 5, 6, 7), (5, 4, 3, 3), dilations=[2, 3])
transposed("dilated_stride_2", (1, 5, 6, 7), (5, 4, 3, 2), dilations=[2, 3], strides=[2, 2], pads=[1, 2, 3, 0], output_padding=[1, 1])
transposed("group_2", (1, 6, 6, 7), (6, 4, 3, 3), groups=2, strides=[2, 2])
transposed("depthwise", (1, 6, 6, 7), (6, 1, 4, 4), groups=6, strides=[2, 2], pads=[1, 1, 1, 1])
transposed("depthwise_stride_1", (1, 6, 6, 7), (6, 1, 3, 3), groups=6, pads=[1, 1, 1, 1])
transposed("output_shape", (1, 5, 6, 7), (5, 4, 3, 3), strides=[2, 2], output_shape=[12, 14])
transposed("output_shape_same_upper", (1, 5, 6, 7), (5, 4, 3, 3), strides=[2, 2], output_shape=[12, 14], auto_pad="SAME_UPPER")
transposed("same_upper", (1, 5, 6, 7), (5, 4, 4, 3), strides=[2, 2], auto_pad="SAME_UPPER")
transposed("same_lower", (1, 5, 6, 7), (5, 4, 4, 3), strides=[2, 2], auto_pad="SAME_LOWER")
transposed("same_stride_above_kernel", (1, 5, 6, 7), (5, 4, 1, 2), strides=[2, 3], auto_pad="SAME_UPPER")
transposed("valid", (1, 5, 6, 7), (5, 4, 4, 3), strides=[2, 2], auto_pad="VALID")
transposed("one_dimension", (2, 5, 9), (5, 4, 4), strides=[2], pads=[1, 1])
transposed("three_dimensions", (1, 3, 3, 4, 2), (3, 4, 2, 3, 3), strides=[2, 1, 2])
case("conv_transpose_given_filter", "ConvTranspose", [(1, 5, 6, 7), (5, 4, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1])

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
positive = Given(np.abs(floats(2, 3, 4)) + 0.5)
for operator in REDUCTIONS:
    case(f"{operator}_all", operator, [positive])
    case(f"{operator}_axes", operator, [positive, i64(-1, 0)])
    case(f"{operator}_without_keepdims", operator, [positive, i64(1)], keepdims=0)
    case(f"{operator}_attribute", operator, [positive], opset=13, axes=[1, 2])
case("ReduceL1_int32", "ReduceL1", [Given(np.arange(-6, 6, dtype=np.int32).reshape(3, 4)), i64(1)])
case("ReduceSumSquare_int64", "ReduceSumSquare", [Given(np.arange(-6, 6).reshape(3, 4)), i64(1)])
case("ReduceLogSumExp_far", "ReduceLogSumExp", [Given(f32(1000, 1001, -1000, -np.inf, -np.inf, -np.inf, np.inf, 1, 2).reshape(3, 3)), i64(1)])
for operator in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
    case(f"{operator}_int32", operator, [Given(np.arange(1, 13, dtype=np.int32).reshape(3, 4)), i64(1)])
    case(f"{operator}_of_no_axes", operator, [positive], noop_with_empty_axes=1)
case("instance_norm", "InstanceNormalization", [(2, 3, 5, 4), (3,), (3,)], epsilon=1e-3)
case("instance_norm_1d", "InstanceNormalization", [(2, 3, 40), floats(3), floats(3)])
case("group_norm_opset_18", "GroupNormalization", [(2, 6, 5, 4), (3,), (3,)], num_groups=3)
case("group_norm_of_vectors", "GroupNormalization", [(4, 6), (6,), (6,)], opset=21, num_groups=2)
halves = Given((np.sign(floats(3, 6, 5)) * 1e-4).astype(np.float16))  # their squares are none of f16, nor is epsilon
case("group_norm_f16", "GroupNormalization", [halves, np.ones(6, np.float16), np.zeros(6, np.float16)], opset=21, rtol=3e-3, num_groups=3, epsilon=1e-9)
case("rms_norm_f16", "RMSNormalization", [halves, np.ones(5, np.float16)], opset=23, rtol=3e-3, epsilon=1e-9)
case("layer_norm_f16", "LayerNormalization", [Given(np.array([[0] * 5, [1, 2, 3, 4, 6]], np.float16)), np.ones(5, np.float16)], rtol=3e-3, epsilon=1e-12)
case("rms_norm_f64", "RMSNormalization", [Given(floats(3, 8).astype(np.float64)), np.ones(8)], opset=23)
case("group_norm_opset_21", "GroupNormalization", [(2, 6, 5, 4), (6,), (6,)], opset=21, num_groups=3)
case("group_norm_one_group", "GroupNormalization", [(1, 6, 7), floats(6), floats(6)], opset=21, num_groups=1, epsilon=0.1)
case("rms_norm", "RMSNormalization", [(2, 3, 8), floats(8)], opset=23)
case("rms_norm_axes", "RMSNormalization", [(2, 3, 8), floats(3, 8)], opset=23, axis=1, epsilon=0.01)
for name, equation, *shapes in (
    ("matmul", "ij,jk->ik", (3, 4), (4, 5)), ("implicit", "ij,jk", (3, 4), (4, 5)), ("implicit_order", "ba,cb", (3, 4), (5, 3)),
    ("transposed", "ij->ji", (3, 4)), ("sum", "ij->", (3, 4)), ("sum_rows", "ij->i", (3, 4)), ("outer", "i,j->ij", (3,), (4,)),
    ("product", "ij,ij->ij", (3, 4), (3, 4)), ("dot", "i,i->", (7,), (7,)), ("heads", "bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("values", "bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)), ("two_inner", "abcd,cdef->abef", (2, 3, 4, 5), (4, 5, 2, 3)),
    ("inner_summed", "ijk,jl->il", (2, 3, 4), (3, 5)), ("ellipsis", "...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 6)),
    ("ellipsis_of_one", "...ij,jk->...ik", (2, 3, 4, 5), (5, 6)), ("ellipsis_last", "i...->...i", (2, 3, 4)), ("spaces", " i j , j k -> i k ", (3, 4), (4, 5)),
    ("three", "ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), ("three_batched", "bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)), ("capital", "aA,Ab->ab", (3, 4), (4, 2)),
    ("broadcast_ellipsis", "...ij,...jk->...ik", (1, 3, 4), (5, 4, 6)), ("broadcast_inner", "ij,jk->ik", (3, 1), (4, 5)),
    ("broadcast_product", "ij,ij->ij", (3, 1), (3, 5)), ("diagonal", "ii->i", (4, 4)), ("trace", "ii", (4, 4)),
    ("batched_diagonal", "...ii->...i", (2, 3, 3)), ("diagonal_of_three", "iji,i->j", (3, 4, 3), (3,)), ("thrice", "iii->i", (3, 3, 3)),
):
    case(f"einsum_{name}", "Einsum", list(shapes), opset=12, equation=equation)
signed = np.array([7, -7, 7, -7, 6, -6, 0, 5], np.int64), np.array([3, 3, -3, -3, 3, -3, 4, -5], np.int64)
for dtype in (np.int32, np.int64, np.int8):
    for fmod in (0, 1):
        case(f"mod_{np.dtype(dtype)}_{fmod}", "Mod", [Given(one.astype(dtype)) for one in signed], opset=13, fmod=fmod)
case("mod_uint8", "Mod", [Given(np.array([7, 250, 9], np.uint8)), Given(np.array([3, 7, 9], np.uint8))], opset=13)
case("mod_floats", "Mod", [Given(f32(1, -1, 5.3, -5.3, 7, 0, 1e8, 3)), Given(f32(0.1, 0.1, 2, -2, np.inf, 3, 0.7, 3))], opset=13, rtol=1e-6, fmod=1)
case("mod_broadcast", "Mod", [Given(np.arange(-6, 6).reshape(3, 4)), i64(5)], opset=13)
for mode in ("edge", "reflect", "wrap"):
    case(f"pad_{mode}", "Pad", [(2, 3, 5), i64(0, 1, 2, 0, 2, 3), ""], opset=19, mode=mode)
    case(f"pad_{mode}_axes", "Pad", [(2, 3, 5), i64(3, -1), "", i64(-1)], opset=19, mode=mode)
case("pad_negative", "Pad", [(4, 5), i64(-1, 2, 3, -2), f32(7).reshape(())])
case("pad_reflect_opset_11", "Pad", [(2, 3, 5), i64(0, 0, 4, 0, 0, 4)], opset=11, mode="reflect")
case("one_hot", "OneHot", [Given(i64(0, 3, -1, -5, 9)), i64(4), f32(-1, 2)], opset=11)
case("one_hot_axis_0", "OneHot", [Given(i64([1, 2], [0, 5])), i64(3), f32(0, 1)], opset=11, axis=0)
case("eye_like", "EyeLike", [(3, 5)], k=1)
case("eye_like_int64", "EyeLike", [(4, 3)], k=-1, dtype=7)
case("pow_int64", "Pow", [Given(i64(2, -3, 5, 10, 0)), Given(i64(10, 3, 3, 5, 0))])
case("pow_int32_f32", "Pow", [Given(np.array([2, -3, 5], np.int32)), f32(2, 3, 4)])
for largest in (0, 1):
    case(f"top_k_{largest}", "TopK", [(3, 17), i64(5)], outputs=2, largest=largest)
    case(f"top_k_all_{largest}", "TopK", [(2, 9, 4), i64(9)], outputs=2, axis=1, largest=largest)
    case(f"top_k_ties_{largest}", "TopK", [Given(np.array([[2, 1, 2, 2, 1, 0], [5, 5, 5, 5, 5, 5]], np.int64)), i64(4)], outputs=2, largest=largest)
    case(f"top_k_infinities_{largest}", "TopK", [Given(np.array([1, -np.inf, np.inf, -np.inf, 3], np.float32)), i64(4)], outputs=2, largest=largest)
case("top_k_words", "TopK", [Given(np.random.default_rng(6).standard_normal((2, 50257)).astype(np.float32)), i64(50)], outputs=2)
case("top_k_none", "TopK", [(3, 4), i64(0)], outputs=2)
case("top_k_first_axis", "TopK", [(40, 3), i64(1)], outputs=2, axis=0)
case("top_k_double", "TopK", [Given(np.random.default_rng(5).standard_normal((2, 300))), i64(20)], outputs=2)
case("slice_from_before_the_first", "Slice", [(3, 4), i64(-5, -9), i64(-10, -20), i64(0, 1), i64(-1, -2)])
case("scatter_elements", "ScatterElements", [(3, 5), i64([1, 0, 2, 0, 1], [2, 2, 0, -1, 0]), (2, 5)])
case("scatter_elements_axis_1", "ScatterElements", [(2, 5, 3), Given(np.random.default_rng(3).permuted(np.tile(np.arange(5).reshape(1, 5, 1), (2, 1, 3)), axis=1)[:, :4]),
                                                    (2, 4, 3)], axis=1)
case("scatter_elements_add", "ScatterElements", [(2, 4), i64([1, 1, -1], [0, 0, 0]), (2, 3)], axis=-1, reduction="add")
case("scatter_elements_mul", "ScatterElements", [(4,), i64(1, 1, 3), (3,)], reduction="mul")
case("scatter_elements_max", "ScatterElements", [(2, 4), i64([1, 1, -1], [0, 0, 0]), (2, 3)], axis=-1, reduction="max")
case("scatter_elements_many", "ScatterElements", [(3, 2000), Given(np.random.default_rng(4).integers(-2000, 2000, (3, 5000))), (3, 5000)], axis=1, reduction="add", rtol=1e-4)
case("scatter_elements_of_bools", "ScatterElements", [Given(np.array([True, False, False])), Given(i64(0, 0, 1, 1)), Given(np.array([True, True, True, True]))], reduction="add")
case("scatter_nd_add", "ScatterND", [(4, 3), i64([1], [3], [1]), (3, 3)], reduction="add")
case("scatter_nd_min", "ScatterND", [(4, 3), i64([1, 1], [3, 0], [1, 1]), (3,)], reduction="min")
case("scatter_nd_many", "ScatterND", [(1000, 1000), Given(np.random.default_rng(4).permutation(1000000)[:2000].reshape(1000, 2) % 1000), (1000,)], reduction="add")
case("scatter_nd_rows", "ScatterND", [(5, 3), i64([0], [4], [2]), (3, 3)])
case("scatter_nd_elements", "ScatterND", [(5, 3, 2), i64([0, 2], [4, -1], [-5, 0]), (3, 2)])
case("scatter_nd_all", "ScatterND", [(2, 3), Given(i64([[0, 1], [1, 2]], [[1, 0], [0, 0]])), (2, 2)])
case("scatter_nd_last_wins", "ScatterND", [(4,), i64([1], [1], [3], [1]), (4,)])
case("scatter_nd_int64", "ScatterND", [Given(np.arange(8)), Given(i64([4], [3], [1], [7])), Given(i64(9, 10, 11, 12))])

for operator in ("Acos", "Asin", "Atan", "Sinh", "Cosh", "Asinh", "Tan"):
    case(operator.lower(), operator, [Given(f32(0, -0.0, 1e-6, -1e-6, 0.2, -0.2, 0.3, -0.45, 0.6, -0.7, 0.99, -1, 1))], rtol=3e-6)
case("atan_of_large", "Atan", [Given(f32(1.1, -2, 3, -40, 1e30))], rtol=3e-6)
case("asinh_of_large", "Asinh", [Given(f32(1.1, -2, 3, -40, 1e30))], rtol=3e-6)
case("acosh", "Acosh", [Given(f32(1, 1.0001, 1.2, 2, 3, 1e5, 1e30))], rtol=3e-6)
case("atanh", "Atanh", [Given(f32(0, 1e-6, -0.2, 0.25, -0.6, 0.999))], rtol=3e-6)
for direction in ("LEFT", "RIGHT"):
    for dtype in (np.uint8, np.uint32, np.uint64):
        bits = np.iinfo(dtype).bits
        case(f"shift_{direction}_{bits}", "BitShift", [Given(np.array([1, 3, 200, np.iinfo(dtype).max, 77], dtype)), Given(np.array([0, 1, 5, bits - 1, 2], dtype))],
             direction=direction)
for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    case(operator.lower(), operator, [Given(np.array([[1], [-7], [2 ** 62 + 5]])), Given(np.array([-1, 12, 0x5555555555]))])
case("hardmax_11", "Hardmax", [(2, 3, 4)], opset=11, axis=1)
case("hardmax_of_equal", "Hardmax", [Given(f32(1, 3, 3, 2).reshape(2, 2))], axis=0)
case("lp_normalization", "LpNormalization", [(2, 3, 4)], axis=1, p=1)
case("lp_pool", "LpPool", [(1, 2, 9, 8)], opset=18, p=3, kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1])
for columns in (0, 1):
    case(f"max_pool_places_{columns}", "MaxPool", [(2, 3, 7, 6)], outputs=2, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], storage_order=columns)
case("max_pool_places_dilated", "MaxPool", [(2, 3, 9)], outputs=2, kernel_shape=[3], dilations=[2], ceil_mode=1, strides=[2])
for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            case(f"grid_sample_{mode}_{padding}_{align}", "GridSample", [(2, 3, 4, 5), Given(floats(2, 3, 6, 2) * 1.3)], opset=20, mode=mode, padding_mode=padding,
                 align_corners=align, rtol=3e-5)
for mode in ("avg", "max"):
    case(f"roi_align_{mode}", "RoiAlign", [(2, 3, 8, 9), Given(np.array([[0, 1, 6, 7], [-2, 2.5, 11, 3], [4, 4, 4, 4]], np.float32)), Given(i64(1, 0, 1))], mode=mode,
         output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.9)
# As many samples as each region has pixels: 4 x 3 and 4 x 5 of an output, and none of a region without extent.
for mode in ("avg", "max"):
    for half_pixel in (True, False):
        case(f"roi_align_adaptive_{mode}_{half_pixel}", "RoiAlign", [(2, 3, 8, 9), Given(np.array([[0, 1, 6, 7], [-2, 2.5, 11, 9.5], [4, 4, 4, 4], [3, 1, 3.5, 2]], np.float32)),
                                                                     Given(i64(1, 0, 1, 1))],
             mode=mode, output_height=2, output_width=3, sampling_ratio=0, spatial_scale=1.1,
             **({} if half_pixel else dict(coordinate_transformation_mode="output_half_pixel")))
case("col2im", "Col2Im", [(2, 12, 8), i64(5, 6), i64(2, 3)], pads=[0, 1, 0, 1], strides=[2, 1], dilations=[2, 2])
case("conv_transpose_more_than_the_pads_leave", "ConvTranspose", [(1, 3, 5, 4), floats(3, 2, 3, 3)], output_shape=[12, 6], strides=[2, 1])
case("det", "Det", [(3, 5, 5)])
case("det_with_zeros", "Det", [Given(f32(0, 2, 0, 3, 0, 0, 0, 0, 4, 1, 2, 3, 2, 4, 6, 0, 1, 1).reshape(2, 3, 3))])
case("reverse_sequence", "ReverseSequence", [(4, 3, 2), Given(i64(4, 1, 2))], batch_axis=1, time_axis=0)
for name, inputs in (("qlinear_columns", [Given(np.array([[1, 200, 30], [255, 0, 7]], np.uint8)), f32(0.02), np.array([100], np.uint8),
                                          np.array([[1, -20], [-128, 127], [5, 6]], np.int8), f32(0.01, 0.03), np.array([3, -4], np.int8), f32(0.05),
                                          np.array([128], np.uint8)]),):
    case(name, "QLinearMatMul", inputs)
case("qlinear_conv", "QLinearConv", [Given(np.arange(150, dtype=np.uint8).reshape(1, 6, 5, 5)), np.array(0.02, np.float32), np.array(100, np.uint8),
                                     np.arange(-100, 116, 2).astype(np.int8).reshape(4, 3, 3, 3), f32(0.01, 0.02, 0.03, 0.005), np.zeros(4, np.int8), np.array(0.2, np.float32),
                                     np.array(120, np.uint8), np.array([10, -200, 3000, 4], np.int32)], group=2, pads=[1, 1, 0, 1], strides=[2, 1])


def recurrent(label, operator, gates, directions=1, inputs=3, outputs=2, hidden=6, **attributes):
    steps, batch, size = 5, 3, 4
    weights = [floats(directions, gates * hidden, size), floats(directions, gates * hidden, hidden), floats(directions, 2 * gates * hidden) * 0.5]
    state = [floats(directions, batch, hidden)] * (2 if operator == "LSTM" else 1) + [floats(directions, 3 * hidden)]
    given = [(steps, batch, size), *weights, Given(np.array([5, 2, 3], np.int32)), *state]
    case(label, operator, given[:inputs], opset=14, outputs=outputs, rtol=2e-5, hidden_size=hidden, **attributes)


recurrent("rnn", "RNN", 1, inputs=4)
recurrent("rnn_lengths_both", "RNN", 1, directions=2, inputs=6, direction="bidirectional", activations=["Relu", "ScaledTanh"], activation_alpha=[0.7], activation_beta=[1.2])
recurrent("gru_both", "GRU", 3, directions=2, inputs=6, direction="bidirectional", linear_before_reset=1)
recurrent("gru_backward", "GRU", 3, inputs=6, direction="reverse")
recurrent("lstm", "LSTM", 4, outputs=3)
recurrent("lstm_both", "LSTM", 4, directions=2, inputs=8, outputs=3, direction="bidirectional", clip=1.5)
recurrent("lstm_both_wide", "LSTM", 4, directions=2, inputs=8, outputs=3, hidden=190, direction="bidirectional", input_forget=1)  # a loop per direction

# Extents of "x" and of its calls. Values that nodes may read beside it: shapes that are computed of its own.
SYMBOLIC_DIMS = ["n", 4, "h", "w"]
SYMBOLIC_CALLS = [(2, 4, 5, 7), (1, 4, 3, 2), (1, 4, 1, 1), (1, 4, 12, 30)]
SYMBOLIC_CONSTANTS = {"zero": i64(0), "two": i64(2), "four": i64(4), "factors": i64(2, 2), "more": i64(3, 1), "fixed": i64(6, 9), "one": i64(1), "three": i64(3), "axis": i64(2),
                      "index": np.array(0), "place": i64([2]), "row": floats(1, 3)}
SYMBOLIC_NODES = [
    helper.make_node("Shape", ["x"], ["shape"]),
    helper.make_node("Slice", ["shape", "zero", "two"], ["outer"]),
    helper.make_node("Slice", ["shape", "two", "four"], ["image"]),
    helper.make_node("Mul", ["image", "factors"], ["image_twice"]),
    helper.make_node("Add", ["image", "more"], ["image_more"]),
    helper.make_node("Concat", ["outer", "image_twice"], ["sizes_twice"], axis=0),
    helper.make_node("Concat", ["outer", "image_more"], ["sizes_more"], axis=0),
    helper.make_node("Concat", ["outer", "fixed"], ["sizes_fixed"], axis=0),
    helper.make_node("Concat", ["one", "one", "outer"], ["repeats"], axis=0),
    helper.make_node("Gather", ["x", "index"], ["sample"]),
    helper.make_node("Slice", ["sample", "zero", "two"], ["updates"]),
    helper.make_node("Slice", ["shape", "two", "three"], ["height"]),
    helper.make_node("ScatterElements", ["shape", "three", "height"], ["shape_of_squares"]),
    helper.make_node("Div", ["height", "two"], ["height_less"]),
    helper.make_node("Neg", ["height"], ["height_below"]),
    helper.make_node("Mod", ["height_below", "three"], ["height_missing"]),
    helper.make_node("Concat", ["zero", "zero", "one", "zero", "zero", "zero", "height_missing", "height_less"], ["pads_to_multiple"], axis=0),
    helper.make_node("Concat", ["height_less", "one"], ["few_by_one"], axis=0),
    helper.make_node("Concat", ["height_less", "three"], ["few_by_three"], axis=0),
    helper.make_node("Expand", ["place", "few_by_one"], ["few_places"]),
    helper.make_node("Expand", ["row", "few_by_three"], ["few_updates"]),
]

for place in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric"):
    for mode, sizes in (("nearest", "sizes_more"), ("linear", "sizes_fixed")):
        symbolic(f"resize_{mode}_{place}", "Resize", ["x", "", "", sizes], mode=mode, coordinate_transformation_mode=place)
for mode in ("nearest", "linear", "cubic"):
    symbolic(f"resize_{mode}_sizes_twice", "Resize", ["x", "", "", "sizes_twice"], mode=mode)
    symbolic(f"resize_{mode}_twice", "Resize", ["x", "", f32(1, 1, 2, 2)], mode=mode)
    symbolic(f"resize_{mode}_parts", "Resize", ["x", "", f32(1, 1, 1 / 3, 2.25)], mode=mode)
    symbolic(f"resize_{mode}_parts_align_corners", "Resize", ["x", "", f32(1, 1, 1 / 3, 2.25)], mode=mode, coordinate_transformation_mode="align_corners")
symbolic("resize_exclude_outside", "Resize", ["x", "", "", "sizes_more"], mode="cubic", exclude_outside=1)
symbolic("resize_floor", "Resize", ["x", "", "", "sizes_twice"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
symbolic("resize_prefer_ceil", "Resize", ["x", "", "", "sizes_more"], mode="nearest", nearest_mode="round_prefer_ceil")
symbolic("tile", "Tile", ["x", i64(2, 1, 3, 2)])
symbolic("tile_by_extents", "Tile", ["x", "repeats"])
symbolic("depth_to_space", "DepthToSpace", ["x"], blocksize=2)
symbolic("depth_to_space_crd", "DepthToSpace", ["x"], blocksize=2, mode="CRD")
symbolic("conv_transpose", "ConvTranspose", ["x", floats(4, 3, 3, 3)])
symbolic("conv_transpose_2x2_stride_2", "ConvTranspose", ["x", floats(4, 3, 2, 2), floats(3)], strides=[2, 2])
symbolic("conv_transpose_4x4_stride_2", "ConvTranspose", ["x", floats(4, 3, 4, 4)], strides=[2, 2], pads=[1, 1, 1, 1])
symbolic("conv_transpose_output_padding", "ConvTranspose", ["x", floats(4, 3, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
symbolic("conv_transpose_same_upper", "ConvTranspose", ["x", floats(4, 3, 4, 3)], strides=[2, 2], auto_pad="SAME_UPPER")
symbolic("conv_transpose_group_2", "ConvTranspose", ["x", floats(4, 3, 3, 3)], strides=[2, 3], group=2)
symbolic("conv_same_upper", "Conv", ["x", floats(3, 4, 3, 2)], auto_pad="SAME_UPPER")
symbolic("conv_same_upper_stride_2", "Conv", ["x", floats(3, 4, 3, 4), floats(3)], strides=[2, 2], auto_pad="SAME_UPPER")
symbolic("conv_same_lower_stride_above_kernel", "Conv", ["x", floats(3, 4, 3, 2)], strides=[2, 3], auto_pad="SAME_LOWER")
symbolic("max_pool_same_upper", "MaxPool", ["x"], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")
symbolic("reduce_l2", "ReduceL2", ["x", i64(2, 3)])
symbolic("reduce_log_sum_exp", "ReduceLogSumExp", ["x", i64(1)], keepdims=0)
symbolic("instance_norm", "InstanceNormalization", ["x", floats(4), floats(4)], rtol=1e-4)
symbolic("einsum", "Einsum", ["x", "x"], rtol=1e-4, equation="nchw,ncxw->nchx")
symbolic("einsum_channels", "Einsum", ["x", floats(4, 6)], equation="nchw,cf->nhwf")
symbolic("einsum_broadcast", "Einsum", ["x", floats(1, 4, 1, 1)], equation="nchw,nchw->nhw")
symbolic("expand_to_scattered_extents", "Expand", [floats(1, 4, 1, 1), "shape_of_squares"])
symbolic("scatter_nd_of_few", "ScatterND", [floats(6, 3), "few_places", "few_updates"])
symbolic("scatter_nd", "ScatterND", ["x", i64([0, 1], [0, -1]), "updates"])
symbolic("mod_of_extents", "Mod", ["image", "factors"])
symbolic("pad_edge", "Pad", ["x", i64(0, 0, 2, 1, 0, 0, 3, 4)], mode="edge")
symbolic("top_k", "TopK", ["x", i64(1)], outputs=2)
symbolic("top_k_of_height", "TopK", ["x", "height"], outputs=2, axis=2)
symbolic("slice_backwards", "Slice", ["x", i64(-1, -1), i64(-2**63, -2**62), i64(2, 3), i64(-1, -2)])
symbolic("slice_backwards_from_place", "Slice", ["x", i64(2), i64(-2**63), i64(3), i64(-1)])
symbolic("pad_to_multiple", "Pad", ["x", "pads_to_multiple"])
symbolic("pad_edge_to_multiple", "Pad", ["x", "pads_to_multiple"], mode="edge")
symbolic("slice_from_extent", "Slice", ["x", "height_less", "height", "axis"])

image = (1, 3, 5, 4)
refused("resize_place", "attribute 'coordinate_transformation_mode' is 'sideways', which is not supported", "Resize", [image, "", f32(1, 1, 2, 2)],
        coordinate_transformation_mode="sideways")
refused("resize_crop_without_roi", "tf_crop_and_resize needs the input roi", "Resize", [image, "", f32(1, 1, 2, 2)],
        coordinate_transformation_mode="tf_crop_and_resize")
refused("resize_keep_aspect_ratio", "attribute 'keep_aspect_ratio_policy' is 'not_wider', which is not supported", "Resize", [image, "", "", i64(1, 3, 9, 9)],
        keep_aspect_ratio_policy="not_wider")
refused("resize_scale_of_0", "scale 0.000000 of dimension 2 is not above 0", "Resize", [image, "", f32(1, 1, 0, 2)])
refused("resize_negative_scale", "scale -1.000000 of dimension 3 is not above 0", "Resize", [image, "", f32(1, 1, 2, -1)])
refused("resize_nan_scale", "of dimension 3 is not above 0", "Resize", [image, "", f32(1, 1, 2, np.nan)])
refused("resize_huge_scale", "is above 1099511627776", "Resize", [image, "", f32(1, 1, 2, 1e30)])
refused("resize_three_scales", "it has 3 scales for 4 dimensions", "Resize", [image, "", f32(1, 2, 2)])
refused("resize_three_sizes", "it has 3 sizes for 2 dimensions", "Resize", [image, "", "", i64(3, 4, 5)], axes=[2, 3])
refused("resize_neither", "it needs scales, or sizes, and not both", "Resize", [image])
refused("resize_both", "it needs scales, or sizes, and not both", "Resize", [image, "", f32(1, 1, 2, 2), i64(1, 3, 9, 9)])
refused("resize_negative_size", "extent -9 of dimension", "Resize", [image, "", "", i64(1, 3, 9, -9)])
refused("resize_axis_twice", "an axis is listed twice", "Resize", [image, "", f32(2, 2)], axes=[2, -2])
refused("resize_of_nothing", "dimension 2 has no elements to resize", "Resize", [(1, 3, 0, 4), "", "", i64(1, 3, 9, 4)])
refused("resize_unknown_mode", "'area', which is not supported", "Resize", [image, "", f32(1, 1, 2, 2)], mode="area")
refused("resize_linear_of_integers", "elements other than floats are supported in mode 'nearest' only", "Resize",
        [Given(np.zeros(image, np.int32)), "", f32(1, 1, 2, 2)], mode="linear")
refused("upsample_opset_10", "it is in opsets up to 9; Resize is in later ones", "Upsample", [image, f32(1, 1, 2, 2)], opset=10)
refused("upsample_three_scales", "it has 3 scales for 4 dimensions", "Upsample", [image], opset=7, scales=[1.0, 2.0, 2.0])
refused("top_k_many", "k is not from 0 to the extent of dimension 1", "TopK", [(3, 4), i64(5)])
refused("top_k_negative", "k is not from 0 to the extent of dimension 1", "TopK", [(3, 4), i64(-1)])
refused("tile_rank", "it has 3 repeats for rank 4", "Tile", [image, i64(1, 2, 3)])
refused("tile_negative", "a repeat is -1", "Tile", [image, i64(1, 1, 1, -1)])
refused("depth_to_space_channels", "dimension 1 is not a multiple of 4", "DepthToSpace", [image], blocksize=2)
refused("depth_to_space_rank", "its input needs rank 4, has 3", "DepthToSpace", [(4, 5, 6)], blocksize=2)
refused("depth_to_space_mode", "mode 'RCD' is not known", "DepthToSpace", [(1, 4, 5, 6)], blocksize=2, mode="RCD")
refused("space_to_depth_extent", "dimension 2 is not a multiple of 2", "SpaceToDepth", [image], blocksize=2)
refused("space_to_depth_block", "blocksize 0 is out of range", "SpaceToDepth", [image], blocksize=0)
refused("conv_transpose_channels", "the input's channels are not 4", "ConvTranspose", [image, floats(4, 2, 3, 3)])
refused("conv_transpose_groups", "group 2 does not divide 3 channels", "ConvTranspose", [image, floats(3, 2, 3, 3)], group=2)
refused("conv_transpose_bias", "the bias does not have 2 elements", "ConvTranspose", [image, floats(3, 2, 3, 3), floats(3)])
refused("conv_transpose_pads", "the pads leave nothing of dimension 2", "ConvTranspose", [image, floats(3, 2, 3, 3)], pads=[9, 0, 9, 0])
refused("conv_transpose_output_shape", "output_shape 0 does not fit dimension 2", "ConvTranspose", [image, floats(3, 2, 3, 3)], output_shape=[0, 4])
refused("einsum_operands", "the equation has 1 operands, and the node 2 inputs", "Einsum", [(2, 3), (3, 4)], equation="ij->i")
refused("einsum_rank", "'ij' of the equation is for another rank than the 3 of its input", "Einsum", [(2, 3, 4)], equation="ij->i")
refused("einsum_repeats", "a label is in the equation's output twice", "Einsum", [(3, 3)], equation="ij->ii")
refused("einsum_output", "a label of the equation's output is in no operand", "Einsum", [(3, 3)], equation="ij->ik")
refused("einsum_letters", "the equation has '2' where a letter was expected", "Einsum", [(3, 3)], equation="i2->i")
refused("einsum_extents", "extents that have one label differ", "Einsum", [(2, 3), (4, 5)], equation="ij,jk->ik")
refused("group_norm_groups", "its channels are not a multiple of num_groups, which is 4", "GroupNormalization", [(1, 6, 7), (6,), (6,)], opset=21, num_groups=4)
refused("group_norm_stash", "stash_type is 7", "GroupNormalization", [(1, 6, 7), (6,), (6,)], opset=21, num_groups=2, stash_type=7)
refused("instance_norm_scale", "input 1 does not have one element for each channel or group", "InstanceNormalization", [(1, 6, 7), (5,), (6,)])
refused("mod_of_floats", "floats need fmod 1", "Mod", [(3,), (3,)])
refused("pad_reflect_far", "dimension 1 has 3 elements, which are too few for its pads", "Pad", [(2, 3), i64(0, 3, 0, 0)], mode="reflect")
refused("pad_mode", "mode 'mirror' is not known", "Pad", [(2, 3), i64(0, 3, 0, 0)], mode="mirror")
refused("scatter_elements_part", "the indices have fewer elements than the data along dimension 1", "ScatterElements", [(3, 5), i64([1, 0]), (1, 2)])
refused("scatter_nd_reduction", "reduction 'mean' is not one of none, add, mul, max and min", "ScatterND", [(4,), i64([1]), (1,)], reduction="mean")
refused("scatter_nd_updates", "the updates do not fit the data and the indices", "ScatterND", [(4, 2), i64([1]), (1, 3)])
refused("scatter_nd_outside", "the index 4 is outside -4..3", "ScatterND", [(4,), i64([4]), (1,)])


class Model:
    """Nodes of cases in one model, with its inputs, and what ONNX Runtime makes of them."""

    def __init__(self, cases, opset, nodes=(), constants=None, inputs=None):
        self.inputs, self.tolerances, made = {}, {}, list(nodes)
        constants, dims = dict(constants or {}), dict(inputs or {})
        for label, (operator, given, _, outputs, rtol, attributes) in cases.items():
            generator, names = np.random.default_rng(len(label)), []
            for index, described in enumerate(given):
                name = described if isinstance(described, str) else f"{label}.{index}"
                names.append(name)
                if isinstance(described, np.ndarray):
                    constants[name] = described
                elif isinstance(described, Given):
                    self.inputs[name] = described.array
                elif not isinstance(described, str):
                    self.inputs[name] = generator.standard_normal(described).astype(np.float32)
            results = [f"{label}.y{index}" if index else label for index in range(outputs)]
            self.tolerances.update(dict.fromkeys(results, rtol))
            made.append(helper.make_node(operator, names, results, name=label, **attributes))
        declared = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in self.inputs.items()]
        declared += [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)), dims[name]) for name in dims]
        graph = helper.make_graph(made, "composed", declared, [ValueInfoProto(name=name) for name in self.tolerances],
                                  [numpy_helper.from_array(array, name) for name, array in constants.items()])
        self.data = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()

    def expected(self, inputs):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.data, options, providers=["CPUExecutionProvider"])
        names = list(self.tolerances)
        return dict(zip(names, session.run(names, inputs), strict=True))


class ComposedOperators(HeddleTestCase):
    def save(self, model):
        path = self.folder / "model.onnx"
        path.write_bytes(model.data)
        return path

    def call(self, model, module, inputs):
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
        given = [part for name in inputs for part in ("--input", f"{name}=@{self.folder}/{name}.npy")]
        wanted = [part for name in model.tolerances for part in ("--output", f"{name}=@{self.folder}/{name}.out.npy")]
        self.succeed("run", module, "--device", "cpu", *given, *wanted)
        for name, expected in model.expected(inputs).items():
            with self.subTest(case=name, shapes=[array.shape for array in inputs.values()] if len(inputs) == 1 else []):
                got = np.load(self.folder / f"{name}.out.npy")
                self.assertEqual((got.shape, got.dtype), (expected.shape, expected.dtype))
                if expected.size == 0:
                    continue
                same = got == expected  # infinities, too
                got, expected = np.where(same, 0, got), np.where(same, 0, expected)
                rtol = model.tolerances[name] if np.issubdtype(expected.dtype, np.floating) else 0
                self.assert_close(got, expected, rtol, rtol * float(np.abs(expected.astype(np.float64)).max()))

    def check(self, opset):
        model = Model({label: one for label, one in CASES.items() if one[2] == opset}, opset)
        self.call(model, self.compile(self.save(model)), model.inputs)

    def test_symbolic(self):
        model = Model(SYMBOLIC, 18, SYMBOLIC_NODES, SYMBOLIC_CONSTANTS, {"x": SYMBOLIC_DIMS})
        module = self.compile(self.save(model))
        for shape in SYMBOLIC_CALLS:
            self.call(model, module, {"x": floats(*shape)})

    def check_refused(self, label):
        said, one = REFUSED[label]
        model = Model({label: one}, one[2])
        result = self.fail_with(1, "compile", self.save(model), "-o", self.folder / "refused.heddle")
        self.assertIn(f"node '{label}' (operator {one[0]}, opset {one[2]}) failed: ", result.stderr)
        self.assertIn(said, result.stderr)

    def test_a_symbolic_scale_of_many_digits(self):
        model = Model({"odd": ("Resize", ["x", "", f32(1, 1, 1.2345, 1)], 18, 1, 0, {})}, 18, inputs={"x": SYMBOLIC_DIMS})
        result = self.fail_with(1, "compile", self.save(model), "-o", self.folder / "refused.heddle")
        self.assertIn("dimension 2 is symbolic, and its scale 1.234500 is not a quotient of small numbers", result.stderr)

    def test_a_symbolic_extent_in_blocks(self):
        model = Model({"blocks": ("SpaceToDepth", ["x"], 18, 1, 0, {"blocksize": 2})}, 18, inputs={"x": SYMBOLIC_DIMS})
        module = self.compile(self.save(model))
        self.succeed("run", module, "--device", "cpu", "--input", "x=f32[2,4,6,8]=1")
        result = self.fail_with(1, "run", module, "--device", "cpu", "--input", "x=f32[2,4,5,6]=1")
        self.assertRegex(result.stderr, r"have to be equal.*; given are 'x' f32\[2,4,5,6\]")

    def test_repeating_needs_no_table(self):
        """The nearest element at a whole scale is repeated, and not looked up."""
        model = Model({"twice": CASES["resize_sizes_three_times"]}, 18)
        report = json.loads(self.succeed("explain", "--format", "json", self.compile(self.save(model))).stdout)
        self.assertNotIn("gather", json.dumps(report["compiler_report"]))


for opset in sorted({one[2] for one in CASES.values()}):
    setattr(ComposedOperators, f"test_opset_{opset}", lambda self, opset=opset: self.check(opset))
for label in REFUSED:
    setattr(ComposedOperators, f"test_refused_{label}", lambda self, label=label: self.check_refused(label))
