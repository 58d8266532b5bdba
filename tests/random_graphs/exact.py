# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results of a graph in f64: what decides where f32 is not enough. By ONNX's own evaluator, or by ONNX Runtime where that cannot do it."""
import copy

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from evaluators import EVALUATORS, Disturb
from pieces import is_float

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
# What ONNX Runtime raises for a graph that it does not run.
REFUSALS = (ort.NotImplemented, ort.Fail, ort.InvalidGraph, ort.InvalidArgument, ort.RuntimeException)


class NotEvaluated(Exception):
    """Nobody can do it in f64; some operators have limits there."""


def session_options():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # which has faults of its own
    return options


def in_f64(model):
    """The same graph with f64 for every float."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    arrays = {weight.name: numpy_helper.to_array(weight) for weight in wide.graph.initializer}
    for i, weight in enumerate(wide.graph.initializer):
        if weight.data_type in FLOATS:
            wide.graph.initializer[i].CopyFrom(numpy_helper.from_array(arrays[weight.name].astype(np.float64), weight.name))
    widen(wide.graph, arrays, wide.graph.initializer)
    return wide


def widen(graph, arrays, weights):
    """Values and nodes of the graph, and of those in it."""
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type in FLOATS:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    nodes = []
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            nodes += dequantized(node, arrays, weights)
        elif node.op_type == "QuantizeLinear":
            nodes += quantized(node, arrays, weights)
        else:
            nodes.append(copy.deepcopy(node))
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                widen(attribute.g, arrays, weights)
            if node.op_type in ("Cast", "EyeLike") and attribute.name in ("to", "dtype") and attribute.i in FLOATS:
                attribute.i = TensorProto.DOUBLE
        if node.op_type == "GroupNormalization":  # ONNX Runtime expands it, to f32 unless told otherwise
            node.attribute.append(helper.make_attribute("stash_type", TensorProto.DOUBLE))
    del graph.node[:]
    graph.node.extend(nodes)


# Nobody has these for f64.
def dequantized(node, arrays, weights):
    """(integers - zero) * scale: a constant, or of one scale."""
    scales, zeros = (arrays[name].astype(np.float64) for name in node.input[1:])
    if node.input[0] in arrays:
        integers = arrays[node.input[0]].astype(np.float64)
        if scales.ndim:
            spread = [-1 if d == node.attribute[0].i else 1 for d in range(integers.ndim)]
            scales, zeros = scales.reshape(spread), zeros.reshape(spread)
        weights.append(numpy_helper.from_array((integers - zeros) * scales, node.output[0]))
        return []
    name = node.output[0]
    weights.extend(numpy_helper.from_array(array, f"{name}_{what}") for what, array in (("scale", scales), ("zero", zeros)))
    return [helper.make_node("Cast", [node.input[0]], [f"{name}_cast"], to=TensorProto.DOUBLE),
            helper.make_node("Sub", [f"{name}_cast", f"{name}_zero"], [f"{name}_less"]), helper.make_node("Mul", [f"{name}_less", f"{name}_scale"], [name])]


def quantized(node, arrays, weights):
    """round(x / scale) + zero within the limits of the integers; of one scale."""
    name, (scale, zero) = node.output[0], (arrays[name] for name in node.input[1:])
    limits = np.iinfo(zero.dtype)
    numbers = {"scale": scale, "zero": zero, "least": limits.min, "most": limits.max}
    weights.extend(numpy_helper.from_array(np.array(value, np.float64), f"{name}_{what}") for what, value in numbers.items())
    return [helper.make_node("Div", [node.input[0], f"{name}_scale"], [f"{name}_divided"]), helper.make_node("Round", [f"{name}_divided"], [f"{name}_round"]),
            helper.make_node("Add", [f"{name}_round", f"{name}_zero"], [f"{name}_sum"]),
            helper.make_node("Clip", [f"{name}_sum", f"{name}_least", f"{name}_most"], [f"{name}_kept"]),
            helper.make_node("Cast", [f"{name}_kept"], [name], to=helper.np_dtype_to_tensor_dtype(zero.dtype))]


def with_more(wide, model, more):
    """The graph of f64, where more(exact, name) are nodes between what a node of the model gives as a float and who reads it."""
    result = onnx.ModelProto()
    result.CopyFrom(wide)
    add_more(result.graph, onnx.shape_inference.infer_shapes(model).graph, more)
    return result


def add_more(wide, graph, more):
    """To the graph of f64 and to those in it; `graph` is what it is of, with the types of its values."""
    known = {value.name: value.type.tensor_type.elem_type for value in [*graph.value_info, *graph.output]}
    inner = {node.name: [attribute.g for attribute in node.attribute if attribute.HasField("g")] for node in graph.node}
    nodes = []
    for node in wide.node:
        exact = copy.deepcopy(node)
        nodes.append(exact)
        for body, narrow in zip((attribute.g for attribute in exact.attribute if attribute.HasField("g")), inner.get(node.name, [])):
            add_more(body, narrow, more)
        for i, name in enumerate(node.output):
            if known.get(name) in FLOATS or known.get(name) == TensorProto.DOUBLE:
                exact.output[i] = f"{name}_exact"
                nodes += more(f"{name}_exact", name)
    del wide.node[:]
    wide.node.extend(nodes)


def in_doubles(feeds):
    return {name: array.astype(np.float64) if is_float(array.dtype) else array for name, array in feeds.items()}


def f64_results(model, feeds):
    wide, feeds = in_f64(model), in_doubles(feeds)
    try:
        return evaluated(model, wide, feeds)
    except NotEvaluated as error:
        try:
            return onnxruntime.InferenceSession(wide.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]).run(None, feeds)
        except REFUSALS as other:
            raise NotEvaluated(f"{error}; {other}") from other


def bf16_results(model, feeds):
    """Of f64 that each node rounds to bf16: ONNX Runtime has next to nothing of bf16 on a CPU."""
    def rounded(exact, name):
        return [helper.make_node("Cast", [exact], [f"{name}_narrow"], to=TensorProto.BFLOAT16), helper.make_node("Cast", [f"{name}_narrow"], [name], to=TensorProto.DOUBLE)]

    results = evaluated(model, with_more(in_f64(model), model, rounded), in_doubles(feeds))
    return [result.astype(ml_dtypes.bfloat16) if is_float(result.dtype) else result for result in results]


def disturbed_results(model, feeds, by, seed):
    """Of f64 with an error of what each node gives, as of rounding."""
    def disturbed(exact, name):
        return [helper.make_node("Disturb", [exact], [name], domain=Disturb.op_domain, by=by)]

    wide = with_more(in_f64(model), model, disturbed)
    wide.opset_import.append(helper.make_opsetid(Disturb.op_domain, 1))
    Disturb.random = np.random.default_rng(seed)
    return evaluated(model, wide, in_doubles(feeds))


def evaluated(model, wide, feeds):
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(wide, new_ops=[*EVALUATORS, Disturb]).run(None, feeds)
    except (ValueError, IndexError, NotImplementedError, RuntimeError, TypeError) as error:
        raise NotEvaluated(str(error)) from error
    for output, result in zip(onnx.shape_inference.infer_shapes(model).graph.output, results, strict=True):
        wanted = tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)
        if output.type.tensor_type.HasField("shape") and all(wanted) and wanted != result.shape:
            raise NotEvaluated(f"{output.name} is {result.shape}, not {wanted}")  # as of some pools
    return results
