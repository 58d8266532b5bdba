# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small language model of Llama's kind, as an ONNX model of one step of generation, and the same in NumPy.

The caches have a fixed number of places, `capacity`. A step writes the keys and values of its tokens behind the `past` ones, and attends to the first
places, as many as `mask` has elements, so that the work is in proportion to what is there, and not to the capacity.
"""
import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

EPSILON = 1e-5


@dataclasses.dataclass
class Shape:
    vocabulary: int = 256
    width: int = 64
    layers: int = 2
    heads: int = 4
    cache_heads: int = 2
    inner: int = 128
    capacity: int = 128
    batch: int = 1

    @property
    def size(self):
        return self.width // self.heads

    def caches(self):
        return [f"{kind}_{layer}" for layer in range(self.layers) for kind in ("keys", "values")]


def weights(shape, seed=1):
    random = np.random.default_rng(seed)

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) / rows ** 0.5).astype("f4")

    narrow = shape.cache_heads * shape.size
    found = {"embedding": random.standard_normal((shape.vocabulary, shape.width)).astype("f4"), "norm": np.ones(shape.width, "f4"),
             "head": 2 * matrix(shape.width, shape.vocabulary)}
    for layer in range(shape.layers):
        sizes = {"query": (shape.width, shape.width), "key": (shape.width, narrow), "value": (shape.width, narrow), "out": (shape.width, shape.width),
                 "gate": (shape.width, shape.inner), "up": (shape.width, shape.inner), "down": (shape.inner, shape.width)}
        found |= {f"{name}_{layer}": matrix(*size) for name, size in sizes.items()}
        found |= {f"{name}_{layer}": (1 + random.standard_normal(shape.width) / 10).astype("f4") for name in ("norm1", "norm2")}
    angles = np.arange(shape.capacity)[:, None] / 10000.0 ** (np.arange(0, shape.size, 2) / shape.size)
    return found | {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}


def step_model(shape, values):
    """tokens [batch, n], past [batch], mask [batch, window] and the caches; logits [batch, vocabulary] behind the last token, and the caches."""
    nodes, constants = [], [numpy_helper.from_array(array, name) for name, array in values.items()]

    def node(operator, *inputs, result=None, **attributes):
        nodes.append(helper.make_node(operator, inputs, [result or f"{operator.lower()}_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def whole(value):
        constants.append(numpy_helper.from_array(np.array(value, "i8"), f"constant_{len(constants)}"))
        return constants[-1].name

    def numbers(axis, of):
        return node("Range", whole(0), node("Squeeze", node("Shape", of, start=axis, end=axis + 1)), whole(1))

    row = node("Add", node("Unsqueeze", "past", whole([1])), numbers(1, "tokens"))
    reached = node("LessOrEqual", numbers(1, "mask"), node("Unsqueeze", row, whole([2])))
    allowed = node("And", reached, node("Unsqueeze", node("Cast", "mask", to=TensorProto.BOOL), whole([1])))
    allowed = node("Unsqueeze", allowed, whole([1]))
    window = node("Shape", "mask", start=1)

    def heads(x, count):
        return node("Transpose", node("Reshape", x, whole([0, 0, count, shape.size])), perm=[0, 2, 1, 3])

    def cached(x, name):
        longer = node("TensorScatter", name, x, "past", axis=2, result=f"longer_{name}")
        return node("Slice", longer, whole([0]), window, whole([2]))

    x = node("Gather", "embedding", "tokens")
    for layer in range(shape.layers):
        y = node("RMSNormalization", x, f"norm1_{layer}", epsilon=EPSILON)
        query, key, value = (heads(node("MatMul", y, f"{name}_{layer}"), count)
                             for name, count in (("query", shape.heads), ("key", shape.cache_heads), ("value", shape.cache_heads)))
        query, key = (node("RotaryEmbedding", part, "cos", "sin", row) for part in (query, key))
        y = node("Attention", query, cached(key, f"keys_{layer}"), cached(value, f"values_{layer}"), allowed)
        y = node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), whole([0, 0, shape.width]))
        x = node("Add", x, node("MatMul", y, f"out_{layer}"))
        y = node("RMSNormalization", x, f"norm2_{layer}", epsilon=EPSILON)
        gate = node("Swish", node("MatMul", y, f"gate_{layer}"))
        x = node("Add", x, node("MatMul", node("Mul", gate, node("MatMul", y, f"up_{layer}")), f"down_{layer}"))
    x = node("RMSNormalization", node("Gather", x, whole(-1), axis=1), "norm", epsilon=EPSILON)
    node("MatMul", x, "head", result="logits")

    def value(name, dims, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, dims)

    of_cache = [shape.batch, shape.cache_heads, shape.capacity, shape.size]
    inputs = [value("tokens", [shape.batch, "n"], TensorProto.INT64), value("past", [shape.batch], TensorProto.INT64),
              value("mask", [shape.batch, "window"], TensorProto.INT64), *(value(name, of_cache) for name in shape.caches())]
    outputs = [value("logits", [shape.batch, shape.vocabulary]), *(value(f"longer_{name}", of_cache) for name in shape.caches())]
    graph = helper.make_graph(nodes, "step", inputs, outputs, constants)
    model = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 24)])
    helper.set_model_props(model, {f"heddle.state.{name}": f"longer_{name}" for name in shape.caches()})
    return model


def logits(shape, values, tokens):
    """Of all positions of one row of tokens, without a cache."""
    def normalized(x, scale):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * scale

    def rotated(x):
        half, (cos, sin) = shape.size // 2, (values[name][:len(tokens)] for name in ("cos", "sin"))
        low, high = x[..., :half], x[..., half:]
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)

    def heads(x, count):
        return x.reshape(len(tokens), count, shape.size).transpose(1, 0, 2).repeat(shape.heads // count, 0)

    x = values["embedding"][tokens].astype("f8")
    for layer in range(shape.layers):
        y = normalized(x, values[f"norm1_{layer}"])
        query, key, value = (heads(y @ values[f"{name}_{layer}"], count)
                             for name, count in (("query", shape.heads), ("key", shape.cache_heads), ("value", shape.cache_heads)))
        scores = rotated(query) @ rotated(key).transpose(0, 2, 1) / shape.size ** 0.5
        scores = np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf)
        weight = np.exp(scores - scores.max(-1, keepdims=True))
        y = (weight / weight.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(tokens), shape.width)
        x = x + y @ values[f"out_{layer}"]
        y = normalized(x, values[f"norm2_{layer}"])
        gate = y @ values[f"gate_{layer}"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ values[f"up_{layer}"])) @ values[f"down_{layer}"]
    return normalized(x, values["norm"]) @ values["head"]
