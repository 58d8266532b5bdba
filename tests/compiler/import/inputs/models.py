# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of the text tests beside this folder: `models.py NAME FILE` writes one. Each is as small as its subject allows.

Knows nothing of the importer.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node


def value(name, shape, element_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def constant(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def of_any_type(name):
    return helper.make_empty_tensor_value_info(name)


def unary(operator, opset=17, shape=(2, 3, 4), result=(2, 3, 4), initializers=(), more=(), **attributes):
    nodes = [node(operator, ["x", *more], ["y"], name="subject", **attributes)]
    return nodes, [value("x", shape)], [value("y", result) if result else of_any_type("y")], initializers, opset


def external(location):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return unary("Add", shape=(3,), result=(3,), initializers=[weight], more=["w"])


def foreign(operator, inputs=1, outputs=1, shape=(2, 3), said=None, opset=1, domain="test", more=(), **attributes):
    """A node of a foreign domain between two of ours; `said` is the shape of its first output in value_info."""
    operands = ["a", "b", "c"][:inputs]
    nodes = [node("Relu", ["x"], ["a"], name="before"),
             *([node("Neg", ["x"], ["b"])] if inputs > 1 else []),
             *([node("Abs", ["x"], ["c"])] if inputs > 2 else []),
             node(operator, operands, [f"o{i}" for i in range(outputs)], name="subject", domain=domain, **attributes),
             node("Sigmoid", ["o0"], ["y"], name="after")]
    values = [value("o0", said)] if said else []
    results = [value("y", None), *(of_any_type(f"o{i}") for i in range(1, outputs))]
    return nodes, [value("x", shape)], results, list(more), 17, values, [helper.make_opsetid(domain, opset)]


def eight_bits(data_type, name="w"):
    return TensorProto(name=name, data_type=data_type, raw_data=b"\0")


def symbolic_batch():
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["batch"]),
        node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    initializers = [constant("first", [0], np.int64), constant("rest", [-1], np.int64)]
    return nodes, [value("x", ("batch", 3, 4))], [value("y", ("batch", 12))], initializers, 17


def typed(operator, *types):
    inputs = [value(f"x{i}", (2, 2), element_type) for i, element_type in enumerate(types)]
    nodes = [node(operator, [i.name for i in inputs], ["y"], name="subject")]
    return nodes, inputs, [value("y", (2, 2))], [], 17


def one_name():
    constants = [constant("", np.linspace(first, 1, 20000)) for first in (-1, 0)]
    nodes = [node("Constant", [], [f"c{i}"], name="same", value=tensor) for i, tensor in enumerate(constants)]
    return [*nodes, node("Add", ["c0", "c1"], ["y"])], [], [value("y", (20000,))], [], 17


def derived_name():
    weight = numpy_helper.from_array(np.linspace(-1, 1, 20000, dtype=np.float32), "derived.0")
    return [node("Add", ["x", "derived.0"], ["y"])], [value("x", (20000,))], [value("y", (20000,))], [weight], 17


def window(kernel, channels=1, **attributes):
    filter_of = helper.make_tensor_value_info("w", TensorProto.FLOAT, (1, channels, *kernel))
    nodes = [node("Conv", ["x", "w"], ["y"], name="subject", kernel_shape=kernel, auto_pad="SAME_UPPER", **attributes)]
    return nodes, [value("x", (1, channels, 8, 2048)), filter_of], [value("y", (1, 1, None, None))], [], 17


def integer_gemm():
    matrix = [value(name, (2, 2), TensorProto.INT32) for name in ("a", "b")]
    return [node("Gemm", ["a", "b"], ["y"], name="subject", alpha=1e30)], matrix, [value("y", (2, 2), TensorProto.INT32)], [], 17


def quantize(scale, *zero_point, opset=21, **attributes):
    initializers = [constant("scale", scale), *zero_point]
    return unary("QuantizeLinear", opset, result=None, initializers=initializers, more=[tensor.name for tensor in initializers], **attributes)


def dequantize(scale, dtype, zero_point=None, opset=21, **attributes):
    initializers = [constant("scale", scale), *([] if zero_point is None else [constant("zero", zero_point, dtype)])]
    nodes = [node("DequantizeLinear", ["x", *(tensor.name for tensor in initializers)], ["y"], name="subject", **attributes)]
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return nodes, [value("x", ("batch", 3, 4), element_type)], [of_any_type("y")], initializers, opset


def quantized_layer():
    """A convolution with weights of int8, its result rounded to int8 and read back."""
    initializers = [
        constant("filter", np.arange(-96, 96).reshape(8, 24, 1, 1), np.int8), constant("filter_scale", np.full(8, 0.5)),
        constant("filter_zero", np.zeros(8), np.int8), constant("scale", 0.25), constant("zero", -3, np.int8),
    ]
    nodes = [
        node("DequantizeLinear", ["filter", "filter_scale", "filter_zero"], ["weights"], axis=0),
        node("Conv", ["x", "weights"], ["sum"]),
        node("QuantizeLinear", ["sum", "scale", "zero"], ["quantized"]),
        node("DequantizeLinear", ["quantized", "scale", "zero"], ["y"]),
    ]
    return nodes, [value("x", (1, 24, 5, 7))], [value("y", (1, 8, 5, 7))], initializers, 17


def quantized_convolution():
    """The same with a bias, at the size where a kernel that keeps all it reads in shared memory would need 606,208 bytes of it."""
    random = np.random.default_rng(0)
    initializers = [
        constant("filter", random.integers(-127, 128, (256, 64, 3, 3)), np.int8), constant("filter_scale", random.uniform(0.001, 0.011, 256)),
        constant("filter_zero", np.zeros(256), np.int8),
        constant("bias", random.integers(-1000, 1000, 256), np.int32), constant("bias_scale", random.uniform(0.001, 0.011, 256)),
        constant("bias_zero", np.zeros(256), np.int32), constant("scale", 0.05), constant("zero", 3, np.int8),
    ]
    nodes = [
        node("DequantizeLinear", ["filter", "filter_scale", "filter_zero"], ["weights"], axis=0),
        node("DequantizeLinear", ["bias", "bias_scale", "bias_zero"], ["offset"], axis=0),
        node("Conv", ["x", "weights", "offset"], ["sum"], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["sum", "scale", "zero"], ["quantized"]),
        node("DequantizeLinear", ["quantized", "scale", "zero"], ["y"]),
    ]
    return nodes, [value("x", (1, 64, 512, 512))], [value("y", (1, 256, 512, 512))], initializers, 17


def slice_step(step):
    lists = [constant(name, [number], np.int64) for name, number in (("starts", 1), ("ends", 2**63 - 1), ("axes", 1), ("steps", step))]
    return unary("Slice", initializers=lists, more=[tensor.name for tensor in lists])


def with_constants(operator, *tensors, **attributes):
    """The operator on x and constants."""
    return unary(operator, initializers=tensors, more=[tensor.name for tensor in tensors], **attributes)


def indices_of(shape):
    return constant("i", np.zeros(shape), np.int64)


def range_of(*numbers, dtype=np.float32):
    """Range of constants; a text is an input of that name."""
    names = [number if isinstance(number, str) else f"c{index}" for index, number in enumerate(numbers)]
    initializers = [constant(f"c{index}", number, dtype) for index, number in enumerate(numbers) if not isinstance(number, str)]
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [value(number, (), element_type) for number in numbers if isinstance(number, str)]
    return [node("Range", names, ["y"], name="subject")], inputs, [value("y", (None,), element_type)], initializers, 17


def range_of_batch(start, delta):
    nodes = [
        node("Shape", ["x"], ["shape"], end=1), node("Squeeze", ["shape"], ["limit"]),
        node("Range", ["start", "limit", "delta"], ["y"], name="subject"),
    ]
    initializers = [constant("start", start, np.int64), constant("delta", delta, np.int64)]
    return nodes, [value("x", ("batch", 3))], [value("y", (None,), TensorProto.INT64)], initializers, 17


def int64s(**values):
    return [constant(name, numbers, np.int64) for name, numbers in values.items()]


def shape_of_batch(*nodes, result=TensorProto.FLOAT, shape=("batch", 1, 3), x_type=TensorProto.FLOAT, constants=()):
    """Nodes that may use x, its shape `s` and its batch `b`, a vector of one."""
    first = [node("Shape", ["x"], ["s"]), node("Shape", ["x"], ["b"], end=1)]
    return [*first, *nodes], [value("x", shape, x_type)], [value("y", None, result)], list(constants), 17


def expand_minus_one():
    """Expand as an exporter writes it: -1 keeps an extent, and stands for 1 in ONNX's own shape."""
    nodes = [
        node("Concat", ["b", "five", "minus"], ["wanted"], axis=0), node("Reshape", ["wanted", "minus"], ["flat"]),
        node("Shape", ["flat"], ["count"]),
        node("ConstantOfShape", ["count"], ["ones"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])),
        node("Mul", ["ones", "minus_one"], ["negative"]), node("Equal", ["flat", "negative"], ["is_open"]),
        node("Where", ["is_open", "ones", "flat"], ["shape"]), node("Expand", ["x", "shape"], ["y"]),
    ]
    return shape_of_batch(*nodes, constants=int64s(five=[5], minus=[-1], minus_one=-1))


def expand_after_convolutions():
    """The same for extents that two convolutions have left, and a product of them: none of them is -1, since no call has an image that is too small."""
    expand, _, _, numbers, _ = expand_minus_one()
    filters = node("Conv", ["image", "w"], ["once"], strides=[2, 2]), node("Conv", ["once", "w"], ["twice"])
    sizes = [node("Shape", ["twice"], ["s"], start=2), node("ReduceProd", ["s"], ["b"], keepdims=1)]
    weight = constant("w", np.ones((1, 1, 3, 3)))
    return [*filters, *sizes, *expand[2:]], [value("image", ("n", 1, "h", "w")), value("x", (1, 3))], [value("y", None)], [weight, *numbers], 17


def expand_if_one():
    nodes = [node("Equal", ["b", "one"], ["is"]), node("Where", ["is", "five", "b"], ["shape"]),
             node("Expand", ["x", "shape"], ["y"], name="subject")]
    return shape_of_batch(*nodes, constants=int64s(one=[1], five=[5]))


def reshaped(*nodes, constants=()):
    """x [2, 3, 4] in the shape `r`."""
    return ([*nodes, node("Reshape", ["x", "r"], ["y"], name="subject")], [value("x", (2, 3, 4))], [value("y", None)],
            list(constants), 17)


def root_of_shape():
    """Rows of 16 as squares, whose side is computed in floats."""
    nodes = [
        node("Shape", ["x"], ["count"], start=1), node("Cast", ["count"], ["float"], to=TensorProto.FLOAT),
        node("Sqrt", ["float"], ["root"]), node("Cast", ["root"], ["side"], to=TensorProto.INT64),
        node("Concat", ["minus", "side", "side"], ["wanted"], axis=0), node("Reshape", ["x", "wanted"], ["y"]),
    ]
    return nodes, [value("x", ("batch", 16))], [value("y", None)], int64s(minus=[-1]), 17


def pads_of_pairs():
    """Pads from the last dimension to the first, in pairs, as the older exporter of PyTorch turns them into ONNX's."""
    nodes = [
        node("ConstantOfShape", ["two"], ["none"], value=helper.make_tensor("v", TensorProto.INT64, [1], [0])),
        node("Concat", ["given", "none"], ["flat"], axis=0), node("Reshape", ["flat", "rows"], ["pairs"]),
        node("Slice", ["pairs", "minus", "least", "first", "minus"], ["turned"]), node("Transpose", ["turned"], ["sides"], perm=[1, 0]),
        node("Reshape", ["sides", "minus"], ["all"]), node("Cast", ["all"], ["pads"], to=TensorProto.INT64), node("Pad", ["x", "pads"], ["y"]),
    ]
    constants = int64s(two=[2], given=[1, 2, 3, 0], rows=[-1, 2], minus=[-1], least=[-(2**63) + 1], first=[0])
    return nodes, [value("x", ("batch", 3, 4))], [value("y", None)], constants, 17


def products():
    """Batches of sequences as rows and back, in shapes that multiply the symbols in any order."""
    nodes = [
        node("Shape", ["x"], ["s"]), node("Split", ["s", "ones"], ["batch", "sequence", "heads", "depth"]),
        node("Flatten", ["x"], ["rows"], axis=2), node("Relu", ["rows"], ["r"]),
        node("Mul", ["sequence", "batch"], ["count"]), node("Mul", ["heads", "count"], ["headed"]),
        node("Concat", ["headed", "minus"], ["first"], axis=0), node("Reshape", ["r", "first"], ["long"]),
        node("Mul", ["sequence", "heads"], ["wide"]), node("Mul", ["wide", "depth"], ["wider"]), node("Mul", ["wider", "batch"], ["all"]),
        node("Reshape", ["long", "all"], ["flat"]), node("Reshape", ["flat", "minus"], ["same"]), node("Add", ["flat", "same"], ["sum"]),
        node("Reshape", ["sum", "s"], ["back"]), node("Add", ["back", "x"], ["y"]),
    ]
    return (nodes, [value("x", ("batch", "sequence", "heads", 64))], [value("y", None)],
            int64s(ones=[1, 1, 1, 1], minus=[-1]), 17)


def product_of_sums():
    """[a + b, c] twice behind itself, as rows, and back."""
    nodes = [
        node("Concat", ["x", "z"], ["both"], axis=0), node("Concat", ["both", "both"], ["twice"], axis=0),
        node("Shape", ["both"], ["s"]), node("Split", ["s", "ones"], ["count", "width"]),
        node("Reshape", ["twice", "minus"], ["flat"]), node("Concat", ["minus", "count", "width"], ["shape"], axis=0),
        node("Reshape", ["flat", "shape"], ["y"]),
    ]
    return nodes, [value("x", ("a", "c")), value("z", ("b", "c"))], [value("y", None)], int64s(ones=[1, 1], minus=[-1]), 17


def product_of_empty():
    """The sum of a * b ones, of inputs [a, 0] and [b, 0]."""
    nodes = [
        node("Shape", ["x"], ["a"], end=1), node("Shape", ["z"], ["b"], end=1), node("Mul", ["a", "b"], ["count"]),
        node("ConstantOfShape", ["count"], ["ones"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1])),
        node("ReduceSum", ["ones"], ["y"], keepdims=0),
    ]
    return nodes, [value("x", ("a", 0)), value("z", ("b", 0))], [value("y", ())], [], 17


def reshape_of_batch(shape, *wanted):
    """The input of that shape reshaped to numbers and extents of its own: "0" is the first."""
    names = [f"e{want}" if isinstance(want, str) else f"c{index}" for index, want in enumerate(wanted)]
    nodes = [node("Shape", ["x"], ["s"])]
    nodes += [node("Gather", ["s", f"i{want}"], [f"e{want}"]) for want in dict.fromkeys(want for want in wanted if isinstance(want, str))]
    nodes += [node("Concat", names, ["shape"], axis=0), node("Reshape", ["x", "shape"], ["y"], name="subject")]
    numbers = {f"c{index}": [want] for index, want in enumerate(wanted) if not isinstance(want, str)}
    indices = {f"i{want}": [int(want)] for want in wanted if isinstance(want, str)}
    return nodes, [value("x", shape)], [value("y", None)], int64s(**numbers, **indices), 17


def slice_of_batch(starts, ends, steps=1, constant_extent=None, shape=("batch", 6)):
    """Axis 0 of x, or of a constant of that extent; a text is the batch plus that number."""
    nodes = [node("Shape", ["x"], ["b"], end=1)]
    names = []
    for name, number in (("starts", starts), ("ends", ends)):
        names.append(name)
        if isinstance(number, str):
            names[-1] = name + "_of_batch"
            nodes.append(node("Add", ["b", name], [names[-1]]))
    initializers = int64s(starts=[int(starts)], ends=[int(ends)], axes=[0], steps=[steps])
    if constant_extent:
        initializers.append(constant("table", np.arange(constant_extent * 6).reshape(constant_extent, 6)))
    nodes.append(node("Slice", ["table" if constant_extent else "x", *names, "axes", "steps"], ["y"], name="subject"))
    return nodes, [value("x", shape)], [value("y", None)], initializers, 17


def equal(*nodes, weights=(), **shapes):
    """Inputs of these shapes; the last node is the one that needs extents to be equal."""
    *before, (operator, inputs, attributes) = nodes
    made = [node(*one[:2], [f"v{index}"], **one[2]) for index, one in enumerate(before)]
    made.append(node(operator, inputs, ["y"], name="subject", **attributes))
    return made, [value(name, shape) for name, shape in shapes.items()], [value("y", None)], list(weights), 17


def thirds(name):
    return ("Slice", [name, "one", "end", "zero", "three"], {})


THIRDS = int64s(one=[1], end=[2**63 - 1], zero=[0], three=[3])


def unsupported_everywhere():
    """Operators, attributes, outputs and element types, also behind each other."""
    resize = {"mode": "quadratic", "coordinate_transformation_mode": "sideways"}
    nodes = [
        node("Frobnicate", ["x"], ["a"], name="first"),
        node("MaxPool", ["a"], ["b", "places"], name="pool", kernel_shape=[2, 2], storage_order=1),
        node("Add", ["b", "w"], ["c"], name="eighth"),
        node("Resize", ["a", "roi", "scales"], ["d"], name="resize", **resize),
        node("Resize", ["d", "roi", "scales"], ["e"], name="resize_again", **resize),
        node("Frobnicate", ["e"], ["f"], name="second"),
        node("Cast", ["f"], ["g"], name="behind_what_is_not_known", to=TensorProto.COMPLEX64),
        node("Cast", ["x"], ["h"], name="cast", to=TensorProto.COMPLEX64),
        node("Relu", ["h"], ["j"], name="of_the_type"),
        node("Relu", ["t"], ["k"], name="text"),
        node("Frobnicated", ["x"], ["count"], name="late"),
        node("Reshape", ["x", "count"], ["y"], name="by_what_is_assumed"),
    ]
    values = [value("a", (1, 3, 4, 4)), value("h", (1, 3, 4, 4), TensorProto.COMPLEX64), value("count", (2,), TensorProto.INT64)]
    initializers = [eight_bits(TensorProto.FLOAT8E4M3FN), constant("roi", [0, 0, 0, 0, 1, 1, 1, 1]), constant("scales", [1, 1, 2, 2])]
    return (nodes, [value("x", (1, 3, 4, 4)), value("t", (2,), TensorProto.STRING)], [value("y", None)], initializers, 18, values, [])


MODELS = {
    "equal_symbols": lambda: equal(("Add", ["a", "b"], {}), a=("first", 4), b=("second", 4)),
    "equal_chain_of_two": lambda: equal(("Transpose", ["a"], {}), ("Add", ["a", "v0"], {}), a=("n", "n")),
    "equal_chain": lambda: equal(("Add", ["c", "b"], {}), ("Add", ["a", "v0"], {}), ("MatMul", ["v1", "w"], {}),
                                 weights=[constant("w", np.eye(5))], a=(2, "n"), b=(2, "m"), c=(2, "k")),
    "equal_sum": lambda: equal(("Concat", ["past", "new"], {"axis": 0}), ("Add", ["v0", "mask"], {}),
                               past=("past", 4), new=("new", 4), mask=("total", 4)),
    "equal_sum_first": lambda: equal(("Concat", ["past", "new"], {"axis": 0}), ("Add", ["v0", "mask"], {}),
                                     mask=("total", 4), past=("past", 4), new=("new", 4)),
    "equal_product": lambda: equal(("Flatten", ["a"], {"axis": 2}), ("Add", ["v0", "b"], {}), a=("m", "n", 2), b=("all", 2)),
    "equal_thirds": lambda: equal(thirds("a"), thirds("b"), ("Add", ["v0", "v1"], {}), weights=THIRDS, a=("m", 4), b=("n", 4)),
    "equal_thirds_matmul": lambda: equal(thirds("a"), thirds("b"), ("Transpose", ["v0"], {}), ("MatMul", ["v2", "v1"], {}), weights=THIRDS,
                                         a=("m", 4), b=("n", 3)),
    "equal_thirds_concat": lambda: equal(thirds("a"), thirds("b"), ("Concat", ["v0", "v1"], {"axis": 1}), weights=THIRDS,
                                         a=("m", 4), b=("n", 3)),
    "equal_thirds_reshape": lambda: equal(thirds("a"), thirds("b"), ("Shape", ["v1"], {"end": 1}), ("Concat", ["v2", "rest"], {"axis": 0}),
                                          ("Reshape", ["v0", "v3"], {}), weights=[*THIRDS, *int64s(rest=[2, -1])], a=("m", 4), b=("n", 3)),
    "equal_reshape": lambda: equal(("Shape", ["b"], {}), ("Reshape", ["a", "v0"], {}), a=("n", "m", 6), b=("n", 3, "k", 2)),
    "equal_unnamed": lambda: equal(("Gemm", ["a", "b"], {"transB": 1}), a=(3, None), b=(4, None)),
    "equal_to_none": lambda: equal(("Concat", ["a", "one"], {"axis": 0}), ("Add", ["v0", "a"], {}), weights=[constant("one", [1])], a=("n",)),
    "equal_to_odd": lambda: equal(("Concat", ["a", "a"], {"axis": 0}), ("Add", ["v0", "w"], {}), weights=[constant("w", [1, 2, 3])], a=("n",)),
    "equal_to_others": lambda: equal(("MatMul", ["a", "three"], {}), ("MatMul", ["a", "four"], {}), ("Add", ["v0", "v1"], {}),
                                     weights=[constant("three", np.ones((3, 2))), constant("four", np.ones((4, 2)))], a=(2, "n")),
    "least": lambda: equal(("Shape", ["a"], {"end": 1}), ("Min", ["v0", "four"], {}), ("Concat", ["v1", "rest"], {"axis": 0}), ("Expand", ["b", "v2"], {}),
                           weights=int64s(four=[4], rest=[2]), a=("n",), b=(1, 2)),
    "least_is_data": lambda: equal(("Shape", ["a"], {"end": 1}), ("Min", ["v0", "four"], {}), ("Cast", ["v1"], {"to": TensorProto.FLOAT}), ("Mul", ["a", "v2"], {}),
                                   weights=int64s(four=[4]), a=("n",)),
    "largest_of_positive": lambda: equal(("Shape", ["a"], {"end": 1}), ("Max", ["v0", "one"], {}), ("Expand", ["b", "v1"], {}), ("Add", ["v2", "a"], {}),
                                         weights=int64s(one=[1]), a=("n",), b=(1,)),
    "range_to_a_float": lambda: equal(("CastLike", ["zero", "seven"], {}), ("CastLike", ["one_and_more", "seven"], {}), ("Range", ["v0", "seven", "v1"], {}),
                                      ("Cast", ["v2"], {"to": 1}), ("Add", ["v3", "a"], {}),
                                      weights=[constant("zero", 0), constant("one_and_more", 1.75), constant("seven", 7, np.int64)], a=("n",)),
    "largest_of_quotient": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["b"], {"end": 1}), ("Div", ["v0", "v1"], {}), ("Max", ["v2", "one"], {}),
                                         ("Expand", ["c", "v3"], {}), weights=int64s(one=[1]), a=("n",), b=("m",), c=(1,)),
    "quotient_below_zero": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["b"], {"end": 1}), ("Sub", ["v0", "five"], {}), ("Div", ["v2", "v1"], {}),
                                         ("Cast", ["v3"], {"to": 1}),
                                         weights=int64s(five=[5]), a=("n",), b=("m",)),
    "equal_to_quotient": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["b"], {"end": 1}), ("Div", ["v0", "v1"], {}), ("Expand", ["c", "v2"], {}),
                                       ("Add", ["v3", "d"], {}), a=("n",), b=("m",), c=(1,), d=("k",)),
    "quotients_of_which_one_is_whole": lambda: equal(("Shape", ["a"], {}), ("Sub", ["v0", "five"], {}), ("Concat", ["v0", "v1"], {"axis": 0}), ("Shape", ["b"], {}),
                                                     ("Div", ["v2", "v3"], {}), ("Cast", ["v4"], {"to": 1}), weights=int64s(five=[5]), a=("n",), b=("m",)),
    "split_of_which_one_is_used": lambda: (
        [node("Shape", ["a"], ["n"]), node("Shape", ["b"], ["m"]), node("Sub", ["n", "m"], ["rest"]), node("Concat", ["m", "rest"], ["sizes"], axis=0),
         node("Split", ["a", "sizes"], ["y", "unused"], name="subject")],
        [value("a", ("n",)), value("b", ("m",))], [value("y", None)], [], 17),
    "chain_of_sums": lambda: (
        [one for i in range(40) for one in (node("Concat", [f"x{i + 1}", f"x{i + 2}"], [f"c{i}"], axis=0), node("Add", [f"c{i}", f"x{i}"], [f"y{i}"]))],
        [value(f"x{i}", (f"d{i}",)) for i in range(42)], [value("y39", None)], [], 17),
    "largest_with_zero": lambda: equal(("Shape", ["a"], {"end": 1}), ("Sub", ["one", "v0"], {}), ("Max", ["v1", "zero"], {}), ("Add", ["v2", "v0"], {}),
                                       ("Expand", ["b", "v3"], {}), weights=int64s(one=[1], zero=[0]), a=("n",), b=(1,)),
    "quotient_of_extents": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["b"], {"end": 1}), ("Div", ["v0", "v1"], {}), ("Expand", ["c", "v2"], {}),
                                         a=("n",), b=("m",), c=(1,)),
    "rest_of_extents": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["b"], {"end": 1}), ("Mod", ["v0", "v1"], {}), ("Expand", ["c", "v2"], {}),
                                     a=("n",), b=("m",), c=(1,)),
    "exact_quotient": lambda: equal(("Shape", ["a"], {"end": 1}), ("Shape", ["a"], {"start": 1}), ("Mul", ["v0", "v1"], {}), ("Div", ["v2", "v1"], {}),
                                    ("Expand", ["b", "v3"], {}), ("Concat", ["v4", "v4"], {"axis": 0}), a=("n", "m"), b=(1,)),
    "split_of_symbol": lambda: (
        [node("Split", ["a"], ["v0", "v1"], axis=0), node("Sub", ["v0", "v1"], ["y"], name="subject")], [value("a", ("n", 3))], [value("y", None)], [], 17),
    "blocks": lambda: equal(("Shape", ["a"], {}), ("Div", ["v0", "two"], {}), ("Concat", ["v1", "two"], {"axis": 0}), ("Reshape", ["a", "v2"], {}),
                            weights=int64s(two=[2]), a=("n",)),
    "shape_expanded": lambda: (
        [node("Shape", ["x"], ["s"], end=1), node("Expand", ["s", "two"], ["ss"]), node("Concat", ["ss", "last"], ["wanted"], axis=0),
         node("Expand", ["x", "wanted"], ["y"], name="subject")],
        [value("x", ("batch", 1))], [value("y", None)], int64s(two=[2], last=[3]), 17),
    "products": products,
    "product_of_sums": product_of_sums,
    "product_of_empty": product_of_empty,
    "product_splits": lambda: reshape_of_batch(("batch", 12, 64, "sequence"), -1, 64, "3"),
    "product_splits_again": lambda: reshape_of_batch(("batch", "sequence", 12), -1, "1", "0"),
    "product_uneven": lambda: reshape_of_batch(("batch", "sequence", 6), "0", "1", 4, -1),
    "product_of_others": lambda: reshape_of_batch(("batch", "sequence", 6), "0", "0", -1),
    "slice_to_batch": lambda: slice_of_batch(0, "0", constant_extent=512),
    "slice_steps_to_batch": lambda: slice_of_batch(1, "0", steps=2, constant_extent=512),
    "slice_behind": lambda: slice_of_batch(5, 2**63 - 1),
    "slice_steps": lambda: slice_of_batch(1, 2**63 - 1, steps=3),
    "slice_but_last": lambda: slice_of_batch(0, -1),
    "slice_but_last_two": lambda: slice_of_batch(1, "-2", steps=2),
    "slice_steps_but_last": lambda: slice_of_batch(0, -1, steps=3),
    "slice_steps_to_fewer": lambda: slice_of_batch(0, "-4", steps=3),
    "slice_steps_of_table": lambda: slice_of_batch(0, "-2", steps=2, constant_extent=10),
    "slice_of_table_from_batch": lambda: slice_of_batch("0", 900, constant_extent=512),
    "slice_of_nothing_to_before": lambda: slice_of_batch("-4", "-6"),
    "slice_from_the_end": lambda: slice_of_batch("0", -7),
    "slice_steps_of_nothing": lambda: slice_of_batch(5, 3, steps=2),
    "slice_last_of_two": lambda: slice_of_batch(-1, 2**63 - 1, shape=("batch", "batch")),
    "split_unevenly": lambda: (
        [node("Split", ["x"], ["v0", "v1", "v2"], axis=0, num_outputs=3, name="subject"), node("Concat", ["v2", "v0", "v1"], ["y"], axis=0)],
        [value("x", ("batch", 3))], [value("y", None)], [], 18),
    "slice_all": lambda: slice_of_batch(-(2**63), "+3"),
    "slice_nothing": lambda: slice_of_batch(4, 3),
    "slice_last": lambda: slice_of_batch(-1, 2**63 - 1),
    "slice_last_batch": lambda: equal(("Shape", ["b"], {"end": 1}), ("Neg", ["v0"], {}), ("Slice", ["a", "v1", "end"], {}), weights=int64s(end=[2**63 - 1]),
                                      a=("n", 3), b=("m",)),
    "slice_but_last_batch": lambda: equal(("Shape", ["b"], {"end": 1}), ("Neg", ["v0"], {}), ("Slice", ["a", "zero", "v1"], {}), weights=int64s(zero=[0]),
                                          a=("n", 3), b=("m",)),
    "slice_first": lambda: slice_of_batch(0, 1),
    "slice_last_two": lambda: slice_of_batch(-2, 2**63 - 1),
    "slice_first_five": lambda: slice_of_batch(0, 5),
    "slice_from_batch": lambda: slice_of_batch("-2", 2**63 - 1),
    "slice_reversed": lambda: slice_of_batch(-1, -(2**63), steps=-1),
    "slice_other": lambda: (
        [node("Shape", ["z"], ["n"]), node("Slice", ["x", "zero", "n"], ["y"], name="subject")],
        [value("x", ("batch",)), value("z", ("n",))], [value("y", None)], int64s(zero=[0]), 17),
    "expand_minus_one": expand_minus_one,
    "expand_after_convolutions": expand_after_convolutions,
    "expand_if_one": expand_if_one,
    "shape_of_bounds": lambda: shape_of_batch(
        node("Max", ["b", "zero"], ["most"]), node("Min", ["most", "s"], ["least"]),
        node("Cast", ["least"], ["cast"], to=TensorProto.INT32),
        node("Cast", ["cast"], ["back"], to=TensorProto.INT64), node("ConstantOfShape", ["back"], ["y"]),
        shape=("batch",), constants=int64s(zero=[0])),
    "shape_is_data": lambda: shape_of_batch(
        node("Mul", ["x", "b"], ["y"], name="subject"), result=TensorProto.INT64, x_type=TensorProto.INT64, shape=("batch", 2)),
    "shape_is_output": lambda: shape_of_batch(
        node("Add", ["s", "s"], ["twice"]), node("Div", ["twice", "three"], ["y"]), result=TensorProto.INT64, constants=int64s(three=[3])),
    "shape_negative_quotient": lambda: shape_of_batch(
        node("Sub", ["five", "b"], ["less"]), node("Div", ["less", "three"], ["y"], name="subject"), result=TensorProto.INT64,
        constants=int64s(three=[3], five=[5])),
    "shape_is_compared": lambda: shape_of_batch(node("Equal", ["s", "one"], ["y"]), result=TensorProto.BOOL, constants=int64s(one=[1])),
    "shape_root": root_of_shape,
    "shape_rounded": lambda: reshaped(
        node("Cast", ["a"], ["floats"], to=TensorProto.FLOAT), node("Div", ["floats", "two"], ["halves"]), node("Ceil", ["halves"], ["up"]),
        node("Pow", ["up", "one"], ["same"]), node("Cast", ["same"], ["r"], to=TensorProto.INT64),
        constants=[*int64s(a=[7, 11], one=[1]), constant("two", 2)]),
    "shape_of_matrix": lambda: reshaped(
        node("Reshape", ["a", "b"], ["matrix"]), node("Shape", ["matrix"], ["r"]), constants=int64s(a=range(24), b=[4, -1])),
    "pads_of_pairs": pads_of_pairs,
    "gather_by_matrix": lambda: (
        [node("Reshape", ["i", "two"], ["matrix"]), node("Gather", ["a", "matrix"], ["y"])],
        [], [value("y", (2, 2), TensorProto.INT64)], int64s(a=[5, 6, 7], i=[0, 1, 2, 1], two=[2, 2]), 17),
    "matrix_of_nothing": lambda: (
        [node("Reshape", ["a", "wide"], ["matrix"]), node("Transpose", ["matrix"], ["tall"]), node("Abs", ["tall"], ["y"])],
        [], [value("y", (0, 2), TensorProto.INT64)], int64s(a=[], wide=[2, -1]), 17),
    "matrix_without_rows": lambda: (
        [node("Reshape", ["a", "two"], ["matrix"]), node("Slice", ["matrix", "zero", "zero", "zero"], ["none"]),
         node("Transpose", ["none"], ["wide"]), node("Abs", ["wide"], ["y"])],
        [], [value("y", (2, 0), TensorProto.INT64)], int64s(a=[1, 2, 3, 4], two=[2, 2], zero=[0]), 17),
    "floats_of_nothing": lambda: (
        [node("Add", ["none", "one"], ["y"])], [], [value("y", (0,))], [constant("none", []), constant("one", 1)], 17),
    "add_of_one": lambda: ([node("Add", ["one"], ["y"], name="subject")], [], [value("y", ())], [constant("one", 1)], 17),
    "shape_split": lambda: shape_of_batch(
        node("Split", ["s", "parts"], ["first", "rest"]), node("Concat", ["rest", "first"], ["turned"], axis=0),
        node("Reshape", ["x", "turned"], ["y"]), constants=int64s(parts=[1, 2])),
    "shape_unbroadcast": lambda: reshaped(node("Add", ["a", "b"], ["r"], name="sum"), constants=int64s(a=[1, 2], b=[1, 2, 3])),
    "shape_of_bools": lambda: reshaped(
        node("Not", ["where"], ["not"]), node("And", ["where", "not"], ["never"]), node("Or", ["where", "never"], ["is"]),
        node("Where", ["is", "a", "b"], ["r"]), constants=[constant("where", [True, False], np.bool_), *int64s(a=[4, 0], b=[0, 6])]),
    "shape_named_again": lambda: reshaped(node("Identity", ["a"], ["r"]), constants=int64s(a=[6, 4])),
    "shape_truncates": lambda: reshaped(
        node("Div", ["a", "b"], ["q"]), node("Add", ["q", "c"], ["r"]), constants=int64s(a=[-7, 27], b=[2, -4], c=[7, 12])),
    "int32_wraps": lambda: ([node("Add", ["a", "b"], ["y"])], [], [value("y", (1,), TensorProto.INT32)],
                            [constant("a", [2**31 - 1], np.int32), constant("b", [1], np.int32)], 17),
    "unsqueeze_scalar": lambda: (
        [node("Unsqueeze", ["a", "axes"], ["y"])], [], [value("y", (1, 1), TensorProto.INT64)], int64s(a=5, axes=[0, 1]), 17),
    "range_folded": lambda: reshaped(node("Range", ["a", "b", "c"], ["r"]), constants=int64s(a=6, b=3, c=-2)),
    "gather_nd": lambda: with_constants("GatherND", indices_of((2, 5, 1)), batch_dims=1),
    "gather_nd_many": lambda: with_constants("GatherND", indices_of((2, 4))),
    "gather_nd_batch": lambda: with_constants("GatherND", indices_of((2, 3, 4)), batch_dims=3),
    "gather_nd_floats": lambda: with_constants("GatherND", constant("i", [[0, 1]])),
    "gather_nd_symbolic": lambda: (
        [node("GatherND", ["x", "i"], ["y"], name="subject")],
        [value("x", (2, 3)), value("i", (2, "n"), TensorProto.INT64)], [value("y", None)], [], 17),
    "gather_input": lambda: (
        [node("Gather", ["x", "i"], ["y"], name="subject")],
        [value("x", (5, 2)), value("i", (3,), TensorProto.INT64)], [value("y", None)], [], 17),
    "gather_arg_max": lambda: (
        [node("ArgMax", ["x"], ["i"], axis=0, keepdims=0), node("Gather", ["x", "i"], ["y"], name="subject")],
        [value("x", (5, 2))], [value("y", None)], [], 17),
    "gather_elements": lambda: with_constants("GatherElements", indices_of((2, 1, 3)), axis=-2),
    "gather_elements_beyond": lambda: with_constants("GatherElements", indices_of((3, 1, 4)), axis=1),
    "cos_sin": lambda: ([node("Cos", ["x"], ["c"]), node("Sin", ["c"], ["y"])], [value("x", (2,))], [value("y", (2,))], [], 17),
    "range_symbolic": lambda: range_of_batch(0, 1),
    "range_steps": lambda: range_of_batch(2, 3),
    "range_still": lambda: range_of_batch(0, 0),
    "range_floats": lambda: range_of(0.5, 2.25, 0.5),
    "range_empty": lambda: range_of(3, 100, -1, dtype=np.int32),
    "range_of_data": lambda: range_of(0, "limit", 1),
    "range_endless": lambda: range_of(0, 1, 1e-30),
    "trilu": lambda: unary("Trilu"),
    "trilu_lower": lambda: with_constants("Trilu", constant("k", -1, np.int64), upper=0),
    "trilu_of_row": lambda: unary("Trilu", shape=(3,)),
    "symbolic_batch": symbolic_batch,
    "quantized_convolution": quantized_convolution,
    "external_beside": lambda: external("weights.bin"),
    "external_above": lambda: external("../weights.bin"),
    "external_absolute": lambda: external("/etc/passwd"),
    "external_link": lambda: external("link.bin"),
    "unsupported": lambda: unary("Frobnicate"),
    "unsupported_near": lambda: unary("GatherNDs"),
    "unsupported_far": lambda: unary("LXTN"),
    "unsupported_many": lambda: (
        [node("ReduceL9", ["x"], ["a"]), node("Frobnicate", ["a"], ["b"], name="sum"), node("Relu", ["b"], ["c"]),
         node("ReduceL9", ["c"], ["d"], name="late"),
         node("Scale", ["d"], ["y"], name="scale", domain="test")],
        [value("x", (2,))], [value("y", (2,))], [], 17, [], [helper.make_opsetid("test", 3)]),
    "unsupported_of_all_kinds": lambda: (
        [node(f"{chr(65 + index)}zzzzzzz", ["x"], [f"y{index}"]) for index in range(25)],
        [value("x", (2,))], [value("y0", (2,))], [], 17),
    "unsupported_in_thousands": lambda: (
        [node(f"Frobnicate{index:04}", ["x"], [f"y{index}"], name="n" * 300) for index in range(2000)],
        [value("x", (2,))], [value("y0", (2,))], [], 17),
    "unsupported_attributes": lambda: unary("QuantizeLinear", opset=25, block_size=2, output_dtype=TensorProto.STRING,
                                            precision=TensorProto.STRING, initializers=[constant("a", 1.0)], more="a"),
    "unsupported_everywhere": unsupported_everywhere,
    "unsupported_of_data": lambda: (
        [node("Reshape", ["x", "r"], ["a"], name="one"), node("Reshape", ["x", "s"], ["b"], name="two"), node("Reshape", ["a", "r"], ["c"], name="three")],
        [value("x", (2, 3)), *(value(name, ("n",), TensorProto.INT64) for name in "rs")], [value("c", None)], [], 17),
    "opset_old": lambda: unary("Relu", opset=0),
    "opset_new": lambda: unary("Relu", opset=999),
    "twice": lambda: unary("Add", initializers=[constant("w", [1.0]), constant("w", [2.0])], more=["w"]),
    "unsorted": lambda: (
        [node("Relu", ["between"], ["y"], name="second"), node("Neg", ["x"], ["between"], name="first")],
        [value("x", (2,))], [value("y", (2,))], [], 17),
    "softmax_12": lambda: unary("Softmax", opset=12),
    "softmax_13": lambda: unary("Softmax", opset=13, axis=1),
    "clip_attributes": lambda: unary("Clip", opset=10, min=-1.0, max=2.0),
    "clip_inputs": lambda: unary("Clip", initializers=[constant("low", -1.0), constant("high", 2.0)], more=["low", "high"]),
    "squeeze_attribute": lambda: unary("Squeeze", opset=12, shape=(1, 3, 1), result=(1, 3), axes=[2]),
    "squeeze_input": lambda: unary("Squeeze", shape=(1, 3, 1), result=(1, 3), initializers=[constant("a", [2], np.int64)], more=["a"]),
    "mixed_types": lambda: typed("Add", TensorProto.FLOAT, TensorProto.INT32),
    "mixed_matmul": lambda: typed("MatMul", TensorProto.FLOAT, TensorProto.DOUBLE),
    "text_type": lambda: typed("Relu", TensorProto.STRING),
    "float8_initializer": lambda: unary("Add", initializers=[eight_bits(TensorProto.FLOAT8E4M3FN)], more=["w"]),
    "float8_unused": lambda: unary("Relu", initializers=[eight_bits(TensorProto.FLOAT8E4M3FN)]),
    "quantize": lambda: quantize(0.5, constant("zero", 7, np.int8)),
    "quantize_default": lambda: quantize(0.5, opset=10),
    "quantize_axis": lambda: quantize([0.5, 1, 2], constant("zero", [0, 1, 2], np.uint8), opset=13, axis=-2),
    "quantize_output": lambda: quantize([0.5], output_dtype=TensorProto.INT16),
    "quantize_half": lambda: quantize(0.5, opset=23, precision=TensorProto.FLOAT16),
    "quantize_float8": lambda: quantize(0.5, eight_bits(TensorProto.FLOAT8E4M3FN, "zero")),
    "quantize_int4": lambda: quantize(0.5, output_dtype=TensorProto.INT4),
    "quantize_two_types": lambda: quantize(0.5, constant("zero", 7, np.int8), output_dtype=TensorProto.UINT8),
    "quantize_int32": lambda: quantize(0.5, constant("zero", 7, np.int32)),
    "quantize_blocks": lambda: quantize(np.ones((2, 3, 2)), axis=2, block_size=2),
    "quantize_precision": lambda: quantize(0.5, opset=23, precision=TensorProto.DOUBLE),
    "dequantize": lambda: dequantize(0.5, np.uint8, 7),
    "dequantize_symmetric": lambda: dequantize([0.5, 1, 2], np.int8, [0, 0, 0]),
    "dequantize_int32": lambda: dequantize(0.5, np.int32, 7, opset=23, output_dtype=TensorProto.BFLOAT16),
    "dequantize_int64": lambda: dequantize(0.5, np.int64),
    "dequantize_old_axis": lambda: dequantize([0.5, 1, 2], np.uint8, opset=10),
    "dequantize_too_few": lambda: dequantize([0.5, 1], np.uint8),
    "dequantize_two_shapes": lambda: dequantize([0.5, 1, 2], np.uint8, 7),
    "quantized_layer": quantized_layer,
    "one_name": one_name,
    "derived_name": derived_name,
    "window_wraps": lambda: window((2, 2049), 2048, dilations=[1048575, 1048575], strides=[1, 2047]),
    "window_large": lambda: window((524288, 1048575)),
    "integer_gemm": integer_gemm,
    "slice_far": lambda: slice_step(2**63 - 1),
    "slice_back": lambda: slice_step(-(2**63)),
    "foreign": lambda: foreign("Scale", factor=3.0),
    "foreign_defaults": lambda: foreign("Scale", opset=2),
    "foreign_newer": lambda: foreign("Scale", opset=7, factor=3.0),
    "foreign_older": lambda: foreign("Butterfly", opset=0, tag=1),
    "foreign_many": lambda: foreign("Butterfly", inputs=2, outputs=3, tag=7, axes=[0, 1], weights=[0.5, 2.0]),
    "foreign_symbolic": lambda: foreign("Butterfly", inputs=2, outputs=3, shape=("batch", 3), tag=7),
    "foreign_said": lambda: foreign("Unsaid", said=(3, 2)),
    "foreign_said_symbol": lambda: foreign("Unsaid", shape=("batch", 3), said=("batch", 5)),
    "foreign_said_unknown": lambda: foreign("Unsaid", said=("other", 5)),
    "foreign_unsaid": lambda: foreign("Unsaid"),
    "foreign_unknown": lambda: foreign("Nobody"),
    "foreign_attribute": lambda: foreign("Scale", speed=1),
    "foreign_attribute_kind": lambda: foreign("Scale", factor=3),
    "foreign_attribute_missing": lambda: foreign("Butterfly", inputs=2),
    "foreign_attribute_tensor": lambda: foreign("Scale", factor=constant("t", [1.0])),
    "foreign_inputs": lambda: foreign("Scale", inputs=2),
    "foreign_outputs": lambda: foreign("Scale", outputs=2),
    "gelu": lambda: unary("Gelu", opset=20, approximate="tanh"),
    "gelu_symbolic": lambda: unary("Gelu", opset=22, shape=("batch", 3), result=("batch", 3)),
    "softmax": lambda: unary("Softmax", opset=13, axis=1),
    "softmax_older": lambda: unary("Softmax", opset=12),
    "clip": lambda: unary("Clip", opset=13, initializers=[constant("low", 0.5), constant("high", 2.0)], more=["low", "high"]),
    "clip_above": lambda: unary("Clip", opset=13, initializers=[constant("high", 2.0)], more=["", "high"]),
    "identity": lambda: unary("Identity", opset=14),
    "reshape": lambda: unary("Reshape", opset=14, result=(6, 4), initializers=[constant("s", [6, 4], np.int64)], more=["s"]),
    "matmul": lambda: unary("MatMul", opset=13, result=(2, 3, 5), initializers=[constant("w", np.ones((4, 5)))], more=["w"]),
    "matmul_of_itself": lambda: unary("MatMul", opset=13, shape=(3, 3), result=(3, 3), more=["x"]),
    "convolution": lambda: unary("Conv", opset=11, shape=(1, 2, 4, 4), result=(1, 2, 4, 4), initializers=[constant("w", np.ones((2, 2, 1, 1)))], more=["w"]),
    "huge_extent": lambda: unary("Relu", shape=(2**41,), result=(2**41,)),
    "huge_tensor": lambda: unary("Relu", shape=(2**30, 2**30), result=(2**30, 2**30)),
    "huge_result": lambda: unary("Expand", shape=(1,), result=(2,), initializers=[constant("s", [2**30, 2**30], np.int64)], more=["s"]),
    "huge_shape_product": lambda: unary(
        "Reshape", shape=(4,), result=(4,), initializers=[constant("s", [2**39, 2**39, -1], np.int64)], more=["s"]),
}


def model(name):
    nodes, inputs, outputs, initializers, opset, *foreign_parts = MODELS[name]()
    values, opsets = foreign_parts or ([], [])
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers, value_info=values)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset), *opsets])


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as file:
        file.write(model(sys.argv[1]).SerializeToString())
