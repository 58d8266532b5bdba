# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random ONNX graphs: a seed is a graph, with its inputs, in any version of this file that makes the same choices.

A graph is a dozen or two of nodes over values of ranks 0 to 5, of floats, integers and bools: element-wise ops and broadcasts, movement of elements,
reductions, contractions, and patterns that compilers fuse, such as normalizations and attention. Some have symbolic extents. Values stay
so small that f32 is enough to tell right from wrong.
"""
import copy

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INTS, BOOL = np.float32, (np.int32, np.int64), np.bool_
ONNX_TYPE = {np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (np.float16, np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8, np.int16, np.uint16, np.bool_)}
MOST_ELEMENTS = 6000


class Value:
    """shape: concrete extents; names: the symbol of each that is one, or None."""

    def __init__(self, name, dtype, shape, names=None):
        self.name, self.dtype, self.shape = name, np.dtype(dtype), tuple(int(extent) for extent in shape)
        self.names = tuple(names) if names is not None else (None,) * len(self.shape)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_known(self):
        return not any(self.names)


class Graph:
    def __init__(self, seed, float_type=np.float32):
        self.random = np.random.default_rng(seed)
        self.float = np.dtype(float_type)
        self.nodes, self.weights, self.values, self.inputs, self.feeds = [], [], [], [], {}
        self.used = set()
        self.symbols = {"n": int(self.pick([1, 2, 3, 5, 8])), "m": int(self.pick([4, 7, 16, 33]))} if self.chance(0.25) else {}
        for _ in range(int(self.random.integers(1, 4))):
            self.add_input()
        for _ in range(int(self.random.integers(4, 16))):
            self.grow()

    # -------------------------------------------------------------------------------------------------- choices

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, things):
        return things[int(self.random.integers(len(things)))]

    def extent(self):
        return int(self.pick([1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 64]))

    def shape(self, rank=None):
        while True:
            shape = [self.extent() for _ in range(int(self.pick([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5]) if rank is None else rank))]
            if np.prod(shape, dtype=np.int64) <= MOST_ELEMENTS:
                return shape

    def numbers(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.random.random(shape) < 0.5
        if dtype.kind in "iu":
            return self.random.integers(-9 if dtype.kind == "i" else 0, 10, shape).astype(dtype)
        return self.random.uniform(-2, 2, shape).astype(dtype)

    def some(self, want=lambda value: True, dtype=None):
        """A value that fits, recent ones more often; None if there is none."""
        fitting = [value for value in self.values if (dtype is None or value.dtype == dtype) and want(value)]
        if not fitting:
            return None
        return fitting[-1 - min(len(fitting) - 1, int(self.random.geometric(0.35)) - 1)]

    def some_float(self, want=lambda value: True):
        return self.some(want, self.float)

    # --------------------------------------------------------------------------------------------------- pieces

    def add_input(self):
        shape = self.shape()
        names = [None] * len(shape)
        for d in range(len(shape)):
            if self.symbols and self.chance(0.4):
                names[d] = self.pick(sorted(self.symbols))
                shape[d] = self.symbols[names[d]]
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return self.add_input()
        dtype = self.pick([self.float] * 5 + [np.int64, np.int32])
        value = Value(f"x{len(self.inputs)}", dtype, shape, names)
        self.inputs.append(value)
        self.feeds[value.name] = self.numbers(shape, dtype)
        self.values.append(value)
        return value

    def other_feeds(self):
        """Other numbers for the inputs of the same graph; the same each time it is made anew."""
        return {value.name: self.numbers(self.feeds[value.name].shape, value.dtype) for value in self.inputs}

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value, dtype=None):
        return self.constant(np.array(value, dtype or self.float))

    def weight(self, *shape, scale=1.0):
        if len(shape) > 1 and self.chance(0.25):
            return self.quantized(shape, scale).name
        array = self.random.uniform(-1, 1, shape) * scale
        return self.constant(array.astype(self.float))

    def quantized(self, shape, scale):
        """Integers less a zero, times a scale: of all elements or of each index of an axis, as DequantizeLinear or written out."""
        integer = np.dtype(self.pick([np.int8, np.uint8] + [np.int16, np.uint16] * (self.float != np.float16)))
        limits = np.iinfo(integer)
        integers = self.constant(self.random.integers(limits.min, limits.max + 1, shape).astype(integer))
        axis = int(self.random.integers(len(shape))) if self.chance(0.7) else None
        each = () if axis is None else (shape[axis],)
        scales = (self.random.uniform(0.5, 1.5, each) * scale * 2 / (limits.max - limits.min)).astype(self.float)
        zeros = np.asarray(self.random.integers(limits.min, limits.max + 1, each) // 4 if self.chance(0.6) else np.zeros(each)).astype(integer)
        if self.float == np.float32 and integer.itemsize == 1 and self.chance(0.5):
            along = {} if axis is None else {"axis": axis}
            return self.node("DequantizeLinear", [integers, self.constant(scales), self.constant(zeros)], self.float, shape, **along)
        spread = [extent if d == axis else 1 for d, extent in enumerate(shape)] if axis is not None else []
        value = self.node("Cast", [integers], self.float, shape, to=ONNX_TYPE[self.float])
        if zeros.any():
            value = self.like("Sub", value, self.constant(zeros.astype(self.float).reshape(spread)))
        return self.like("Mul", value, self.constant(scales.reshape(spread)))

    def node(self, operator, inputs, dtype, shape, names=None, outputs=None, **attributes):
        """Adds a node of one result, or of several like it with `outputs`."""
        results = outputs or [f"v{len(self.nodes)}"]
        given = [value.name if isinstance(value, Value) else value for value in inputs]
        self.used.update(given)
        self.nodes.append(helper.make_node(operator, given, results, name=f"{operator}_{len(self.nodes)}", **attributes))
        return Value(results[0], dtype, shape, names)

    def like(self, operator, x, *more, dtype=None, **attributes):
        return self.node(operator, [x, *more], dtype or x.dtype, x.shape, x.names, **attributes)

    def keep(self, value):
        if value is not None and value.size <= MOST_ELEMENTS * 4:
            self.values.append(value)
        return value

    def grow(self):
        makers = [self.unary] * 5 + [self.binary] * 6 + [self.compare_select] * 2 + [self.cast] * 2 + [self.reduce] * 3 + [self.movement] * 9 + [
            self.softmax, self.arg, self.cumsum, self.gather, self.gather, self.matmul, self.matmul, self.linear, self.linear, self.conv, self.conv, self.wide_conv,
            self.pool, self.normalization, self.normalization, self.rms, self.gelu, self.attention, self.rotation, self.integers,
            self.einsum, self.instance_norm, self.resize, self.conv_transpose, self.scatter, self.table]
        self.keep(self.pick(makers)())

    # ---------------------------------------------------------------------------------------------- element-wise

    def tame(self, x):
        """The same within [-3, 3]."""
        return self.like("Clip", x, self.number(-3), self.number(3))

    def unary(self):
        x = self.some_float()
        if x is None:
            return None
        kind = self.pick(["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sqrt", "Floor", "Ceil", "Round", "Reciprocal", "Cos", "Sin", "Log", "HardSwish",
                          "Softplus", "LeakyRelu", "Elu", "Clip"])
        # The first has no code yet, and what the others multiply with is an f32 whatever they multiply.
        if self.float == np.float64 and kind in ("Erf", "HardSwish", "LeakyRelu", "Elu"):
            kind = "Tanh"
        if kind in ("Exp", "Softplus", "Elu", "Cos", "Sin"):
            x = self.tame(x)
        if kind in ("Sqrt", "Reciprocal", "Log"):
            x = self.like("Add", self.like("Abs", x), self.number(0.5))
        if kind == "Clip":
            return self.like("Clip", x, self.number(-1), self.number(1.5))
        return self.like(kind, x)

    def fitting(self, x):
        """Another value, or a constant, that broadcasts with x to a shape that is known to fit, with the shape."""
        other = self.some(lambda value: value is not x and joined(value, x) is not None, x.dtype) if self.chance(0.6) else None
        if other is None:
            cut = int(self.random.integers(0, x.rank + 1))
            shape = [1 if name or self.chance(0.3) else extent for extent, name in zip(x.shape, x.names)][cut:]
            other = Value(self.constant(self.numbers(shape, x.dtype)), x.dtype, shape)
        return other, joined(x, other)

    def binary(self):
        x = self.some(lambda value: value.dtype != BOOL and value.dtype in (self.float, np.int32, np.int64))
        if x is None:
            return None
        y, (shape, names) = self.fitting(x)
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return None
        if x.dtype.kind == "i":
            kind = self.pick(["Add", "Sub", "Mul", "Max", "Min"])
            if kind == "Mul":
                x = self.like("Max", self.like("Min", x, self.number(50, x.dtype)), self.number(-50, x.dtype))
                y = self.like("Max", self.like("Min", y, self.number(50, x.dtype)), self.number(-50, x.dtype))
        else:
            kind = self.pick(["Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow"])
            if kind == "Mul":
                x, y = self.tame(x), self.tame(y)
            if kind == "Div":
                y = self.like("Add", self.like("Abs", y), self.number(0.5))
            if kind == "Pow":
                x, y = self.tame(x), Value(self.number(self.pick([2.0, 3.0, 1.0])), self.float, ())
                shape, names = x.shape, x.names
        if self.chance(0.4) and kind not in ("Div", "Pow"):
            x, y = y, x
        return self.node(kind, [x, y], x.dtype, shape, names)

    def compare_select(self):
        x = self.some(lambda value: value.dtype in (self.float, np.int32, np.int64))
        if x is None:
            return None
        y, (shape, names) = self.fitting(x)
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return None
        condition = self.node(self.pick(["Less", "Greater", "LessOrEqual", "GreaterOrEqual"]), [x, y], BOOL, shape, names)
        if self.chance(0.2):
            condition = self.like("Not", condition)
        return self.node("Where", [condition, x, y] if self.chance(0.5) else [condition, y, x], x.dtype, shape, names)

    def cast(self):
        x = self.some()
        if x is None:
            return None
        to = np.dtype(self.pick([self.float, self.float, np.int32, np.int64, np.int8, BOOL]))
        if x.dtype == self.float and to == np.int8:
            x = self.tame(x)
        if x.dtype.kind == "i" and x.dtype.itemsize > 1 and to == np.int8:
            return None
        result = self.like("Cast", x, dtype=to, to=ONNX_TYPE[to])
        if to in (np.int8, BOOL):
            result = self.like("Cast", result, dtype=self.float, to=ONNX_TYPE[self.float])
        return result

    def integers(self):
        x = self.some(lambda value: value.dtype in INTS)
        if x is None:
            return None
        kind = self.pick(["Neg", "Abs", "Sign", "Cast"])
        if kind in ("Neg", "Abs"):
            return self.like(kind, x)
        bounded = self.like("Max", self.like("Min", x, self.number(40, x.dtype)), self.number(-40, x.dtype))
        return self.like("Cast", bounded, dtype=self.float, to=ONNX_TYPE[self.float])

    def gelu(self):
        x = self.some_float()
        if x is None:
            return None
        if self.chance(0.5):
            erf = self.like("Erf", self.like("Div", x, self.number(2 ** 0.5)))
            return self.like("Mul", self.like("Mul", x, self.like("Add", erf, self.number(1))), self.number(0.5))
        x = self.tame(x)
        inner = self.like("Add", x, self.like("Mul", self.like("Pow", x, self.number(3.0)), self.number(0.044715)))
        tanh = self.like("Tanh", self.like("Mul", inner, self.number(0.7978845608)))
        return self.like("Mul", self.like("Mul", x, self.number(0.5)), self.like("Add", tanh, self.number(1)))

    # ------------------------------------------------------------------------------------------------- reductions

    def axes(self, x, most=None):
        axes = [d for d in range(x.rank) if self.chance(0.4)] or [int(self.random.integers(x.rank))]
        return sorted(axes[:most])

    def reduce(self):
        x = self.some_float(lambda value: value.rank > 0)
        if x is None:
            return None
        axes, keeps = self.axes(x), int(self.chance(0.5))
        kind = self.pick(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"])
        shape = [1 if d in axes else extent for d, extent in enumerate(x.shape) if keeps or d not in axes]
        names = [None if d in axes else name for d, name in enumerate(x.names) if keeps or d not in axes]
        if kind == "ReduceSum":
            return self.node(kind, [self.tame(x), self.constant(np.array(axes, np.int64))], x.dtype, shape, names, keepdims=keeps)
        tamed = x if kind in ("ReduceMean", "ReduceMax", "ReduceMin") else self.tame(x)
        return self.node(kind, [tamed], x.dtype, shape, names, axes=axes, keepdims=keeps)

    def softmax(self):
        x = self.some_float(lambda value: value.rank > 0)
        return x and self.like(self.pick(["Softmax", "Softmax", "LogSoftmax"]), x, axis=int(self.random.integers(-x.rank, x.rank)))

    def arg(self):
        x = self.some_float(lambda value: value.rank > 0)
        if x is None:
            return None
        axis, keeps = int(self.random.integers(x.rank)), int(self.chance(0.5))
        shape = [1 if d == axis else extent for d, extent in enumerate(x.shape) if keeps or d != axis]
        names = [None if d == axis else name for d, name in enumerate(x.names) if keeps or d != axis]
        return self.node(self.pick(["ArgMax", "ArgMin"]), [x], np.int64, shape, names, axis=axis, keepdims=keeps, select_last_index=int(self.chance(0.3)))

    def cumsum(self):
        x = self.some_float(lambda value: value.rank > 0)
        if x is None:
            return None
        axis = self.constant(np.array(int(self.random.integers(x.rank)), np.int64))
        return self.like("CumSum", self.tame(x), axis, exclusive=int(self.chance(0.3)), reverse=int(self.chance(0.3)))

    def last_is_known(self, value):
        return value.rank > 0 and value.names[-1] is None

    def normalization(self):
        x = self.some_float(lambda value: self.last_is_known(value) and value.shape[-1] > 1)
        if x is None:
            return None
        centered = self.like("Sub", x, self.mean(x))
        variance = self.mean(self.like("Mul", centered, centered))
        scaled = self.like("Div", centered, self.like("Sqrt", self.like("Add", variance, self.number(0.1))))
        return self.like("Add", self.like("Mul", scaled, self.weight(x.shape[-1])), self.weight(x.shape[-1]))

    def mean(self, x):
        return self.node("ReduceMean", [x], x.dtype, x.shape[:-1] + (1,), x.names[:-1] + (None,), axes=[-1], keepdims=1)

    def rms(self):
        x = self.some_float(self.last_is_known)
        if x is None:
            return None
        x = self.tame(x)
        root = self.like("Sqrt", self.like("Add", self.mean(self.like("Pow", x, self.number(2.0))), self.number(0.1)))
        return self.like("Mul", self.like("Mul", x, self.like("Reciprocal", root)), self.weight(x.shape[-1]))

    # --------------------------------------------------------------------------------------------------- movement

    def movement(self):
        x = self.some(lambda value: value.rank > 0)
        return x and self.pick([self.transpose, self.transpose, self.reshape, self.reshape, self.slice, self.slice, self.concat, self.concat, self.pad, self.expand,
                                self.squeeze, self.unsqueeze, self.split])(x)

    def transpose(self, x):
        order = [int(d) for d in self.random.permutation(x.rank)]
        return self.node("Transpose", [x], x.dtype, [x.shape[d] for d in order], [x.names[d] for d in order], perm=order)

    def reshape(self, x):
        if not x.is_known:  # neighbors that are known become one, or one becomes two
            pairs = [d for d in range(x.rank - 1) if not x.names[d] and not x.names[d + 1]]
            if not pairs or sum(name is not None for name in x.names) > 1:
                return None
            d = self.pick(pairs)
            shape = x.shape[:d] + (x.shape[d] * x.shape[d + 1],) + x.shape[d + 2:]
            names = x.names[:d] + x.names[d + 1:]
            wanted = [-1 if name else extent for extent, name in zip(shape, names)]
        else:
            rest, shape = x.size, []
            for _ in range(int(self.random.integers(1, 5))):
                divisor = self.pick([d for d in range(1, max(rest, 1) + 1) if rest % d == 0]) if rest > 0 else 0
                shape.append(divisor)
                rest = rest // divisor if divisor else 0
            shape = shape + [rest] if rest != 1 else shape
            wanted, names = list(shape), None
            if self.chance(0.3) and x.size:
                wanted[int(self.random.integers(len(wanted)))] = -1
        return self.node("Reshape", [x, self.constant(np.array(wanted, np.int64))], x.dtype, shape, names)

    def slice(self, x):
        known = [d for d in range(x.rank) if not x.names[d]]
        if not known:
            return None
        axes = sorted(set(int(self.pick(known)) for _ in range(2)))
        starts, ends, steps, shape = [], [], [], list(x.shape)
        for axis in axes:
            extent, step = x.shape[axis], int(self.pick([1, 1, 1, 2, 3]))
            start = int(self.random.integers(extent))
            end = int(self.random.integers(start + 1, extent + 1))
            shape[axis] = len(range(start, end, step))
            starts.append(start - extent if self.chance(0.3) else start)
            ends.append(2 ** 40 if end == extent and self.chance(0.5) else end)
            steps.append(step)
        given = [self.constant(np.array(numbers, np.int64)) for numbers in (starts, ends, axes, steps)]
        return self.node("Slice", [x, *given], x.dtype, shape, x.names)

    def split(self, x):
        axes = [d for d in range(x.rank) if not x.names[d] and x.shape[d] > 1]
        if not axes:
            return None
        axis = self.pick(axes)
        first = int(self.random.integers(1, x.shape[axis]))
        results = [f"v{len(self.nodes)}_{part}" for part in range(2)]
        sizes = self.constant(np.array([first, x.shape[axis] - first], np.int64))
        shape = [list(x.shape), list(x.shape)]
        shape[0][axis], shape[1][axis] = first, x.shape[axis] - first
        one = self.node("Split", [x, sizes], x.dtype, shape[0], x.names, outputs=results, axis=axis)
        self.keep(one)
        return Value(results[1], x.dtype, shape[1], x.names)

    def concat(self, x):
        axes = [d for d in range(x.rank) if not x.names[d]]
        if not axes:
            return None
        axis = self.pick(axes)
        parts = [x]
        for _ in range(int(self.random.integers(1, 4))):
            other = self.some(lambda value: value.rank == x.rank and value.names == x.names and
                              all(a == b for d, (a, b) in enumerate(zip(value.shape, x.shape)) if d != axis), x.dtype)
            parts.insert(int(self.random.integers(len(parts) + 1)), self.like("Neg", x) if x.dtype != BOOL and self.chance(0.2) else other)
        shape = list(x.shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.node("Concat", parts, x.dtype, shape, x.names, axis=axis) if np.prod(shape) <= MOST_ELEMENTS else None

    def pad(self, x):
        if x.dtype != self.float:
            return None
        low = [0 if name else int(self.pick([0, 0, 1, 2])) for name in x.names]
        high = [0 if name else int(self.pick([0, 0, 1, 3])) for name in x.names]
        shape = [a + extent + b for a, extent, b in zip(low, x.shape, high)]
        mode = self.pick(["constant", "constant", "edge", "reflect"])
        if mode == "edge" or (mode == "reflect" and all(max(a, b) < extent for a, extent, b in zip(low, x.shape, high) if a or b)):
            return self.node("Pad", [x, self.constant(np.array(low + high, np.int64))], x.dtype, shape, x.names, mode=mode)
        return self.node("Pad", [x, self.constant(np.array(low + high, np.int64)), self.number(self.pick([0, 1.5]))], x.dtype, shape, x.names)

    def expand(self, x):
        if not x.is_known:
            return None
        shape = [self.extent() if extent == 1 and self.chance(0.6) else extent for extent in x.shape]
        if self.chance(0.4):
            shape = [self.pick([1, 2, 3])] + shape
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        return self.node("Expand", [x, self.constant(np.array(shape, np.int64))], x.dtype, shape)

    def unsqueeze(self, x):
        if x.rank > 4:
            return None
        axis = int(self.random.integers(x.rank + 1))
        return self.node("Unsqueeze", [x, self.constant(np.array([axis], np.int64))], x.dtype, x.shape[:axis] + (1,) + x.shape[axis:],
                         x.names[:axis] + (None,) + x.names[axis:])

    def squeeze(self, x):
        ones = [d for d in range(x.rank) if x.shape[d] == 1 and not x.names[d]]
        if not ones:
            return None
        axis = self.pick(ones)
        return self.node("Squeeze", [x, self.constant(np.array([axis], np.int64))], x.dtype, x.shape[:axis] + x.shape[axis + 1:],
                         x.names[:axis] + x.names[axis + 1:])

    def gather(self):
        x = self.some(lambda value: value.rank > 0 and not value.names[-1])
        known = [] if x is None else [d for d in range(x.rank) if not x.names[d]]
        if not known:
            return None
        axis = self.pick(known)
        extent = x.shape[axis]
        if self.chance(0.3):
            shape = [1 if name else extent for extent, name in zip(x.shape, x.names)]
            shape[axis] = int(self.random.integers(1, 6))
            indices = self.constant(self.random.integers(-extent, extent, shape).astype(self.pick(INTS)))
            return self.node("GatherElements", [x, indices], x.dtype, shape, axis=axis) if x.is_known else None
        shape = self.pick([(), (3,), (2, 4)])
        if x.size // extent * int(np.prod(shape)) > MOST_ELEMENTS:
            return None
        indices = self.constant(np.asarray(self.random.integers(-extent, extent, shape)).astype(self.pick(INTS)))
        return self.node("Gather", [x, indices], x.dtype, x.shape[:axis] + shape + x.shape[axis + 1:],
                         x.names[:axis] + (None,) * len(shape) + x.names[axis + 1:], axis=axis)

    def table(self):
        table = self.quantized(self.shape(int(self.pick([2, 2, 3]))), 1.0)
        axis, shape = int(self.random.integers(table.rank)), self.pick([(), (3,), (2, 4)])
        if table.size // table.shape[axis] * int(np.prod(shape)) > MOST_ELEMENTS:
            return None
        indices = self.constant(np.asarray(self.random.integers(-table.shape[axis], table.shape[axis], shape)).astype(self.pick(INTS)))
        return self.node("Gather", [table, indices], table.dtype, table.shape[:axis] + shape + table.shape[axis + 1:], axis=axis)

    def rotation(self):
        x = self.some_float(lambda value: self.last_is_known(value) and value.shape[-1] % 2 == 0)
        if x is None:
            return None
        half = x.shape[-1] // 2

        def part(first, last):
            bounds = [self.constant(np.array([number], np.int64)) for number in (first, last, -1)]
            return self.node("Slice", [x, *bounds], x.dtype, x.shape[:-1] + (half,), x.names)

        low, high = part(0, half), part(half, 2 * half)
        turned = self.node("Concat", [self.like("Neg", high), low], x.dtype, x.shape, x.names, axis=-1)
        return self.like("Add", self.like("Mul", x, self.weight(x.shape[-1])), self.like("Mul", turned, self.weight(x.shape[-1])))

    # ----------------------------------------------------------------------------------------------- contractions

    def epilogue(self, value):
        """Now and then what kernels compute of sums."""
        if self.chance(0.5) and not value.names[-1]:
            value = self.like("Add", value, self.weight(value.shape[-1]))
        if self.chance(0.4):
            value = self.like(self.pick(["Relu", "Sigmoid", "Tanh"]), value)
        if self.chance(0.3):
            other = self.some(lambda one: one.shape == value.shape and one.names == value.names, value.dtype)
            value = self.like("Add", value, other) if other is not None else value
        return value

    def linear(self):
        x = self.some_float(lambda value: value.rank > 1 and self.last_is_known(value) and value.shape[-1] > 0)
        if x is None:
            return None
        x, depth = self.tame(x), x.shape[-1]
        for _ in range(self.pick([1, 1, 2, 3])):  # of one left side
            columns = self.extent()
            if x.size // depth * columns > MOST_ELEMENTS:
                return None
            result = self.node("MatMul", [x, self.weight(depth, columns, scale=depth ** -0.5)], x.dtype, x.shape[:-1] + (columns,), x.names[:-1] + (None,))
            self.keep(self.epilogue(result))
        return None

    def matmul(self):
        x = self.some_float(lambda value: value.rank > 1 and self.last_is_known(value))
        if x is None:
            return None
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        y = self.some_float(lambda value: value.rank == x.rank and value.shape[:-2] == x.shape[:-2] and value.names[:-2] == x.names[:-2] and
                            value.shape[-2] == x.shape[-1] and value.names[-2] is None)
        if y is None:
            y = self.node("Transpose", [x], x.dtype, [x.shape[d] for d in order], [x.names[d] for d in order], perm=order)
        shape, names = x.shape[:-1] + (y.shape[-1],), x.names[:-1] + (y.names[-1],)
        if np.prod(shape) > MOST_ELEMENTS:
            return None
        scaled = self.like("Mul", self.tame(x), self.number(x.shape[-1] ** -0.5))
        return self.epilogue(self.node("MatMul", [scaled, self.tame(y)], x.dtype, shape, names))

    def attention(self):
        depth, columns = int(self.pick([4, 8, 16, 24])), int(self.pick([4, 8, 17]))
        x = self.some_float(lambda value: value.rank == 3 and self.last_is_known(value))
        if x is None or x.size // x.shape[-1] * max(depth, columns) > MOST_ELEMENTS:
            return None
        x = self.tame(x)

        def projected(width):
            weight = self.weight(x.shape[-1], width, scale=x.shape[-1] ** -0.5)
            return self.node("MatMul", [x, weight], x.dtype, x.shape[:-1] + (width,), x.names[:-1] + (None,))

        q, k, v = projected(depth), projected(depth), projected(columns)
        kt = self.node("Transpose", [k], x.dtype, (x.shape[0], depth, x.shape[1]), (x.names[0], None, x.names[1]), perm=[0, 2, 1])
        square = (x.shape[0], x.shape[1], x.shape[1]), (x.names[0], x.names[1], x.names[1])
        scores = self.like("Mul", self.node("MatMul", [q, kt], x.dtype, *square), self.number(depth ** -0.5))
        if self.chance(0.4) and not x.names[1]:
            causal = np.triu(np.full((x.shape[1], x.shape[1]), -10, self.float), 1)
            scores = self.like("Add", scores, self.constant(causal))
        return self.node("MatMul", [self.like("Softmax", scores, axis=-1), v], x.dtype, x.shape[:-1] + (columns,), x.names[:-1] + (None,))

    def image(self):
        """A value of rank 3 or 4 whose image is known."""
        return self.some_float(lambda value: value.rank in (3, 4) and not any(value.names[1:]) and value.size > 0)

    def conv(self):
        x = self.image()
        if x is None:
            return None
        channels, spatial = x.shape[1], x.shape[2:]
        groups = self.pick([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
        filters = groups * int(self.pick([1, 2, 3, 8, 16]) if groups == 1 else self.pick([1, 1, 2]))
        kernel = [int(self.pick([1, 1, 3, 3, 2, 5])) for _ in spatial]
        strides = [int(self.pick([1, 1, 2])) for _ in spatial]
        dilations = [int(self.pick([1, 1, 1, 2])) for _ in spatial]
        low, high = ([int(self.pick([0, 1, k // 2])) for k in kernel] for _ in range(2))
        shape = [(extent + a + b - (k - 1) * d - 1) // s + 1 for extent, a, b, k, d, s in zip(spatial, low, high, kernel, dilations, strides)]
        if min(shape) < 1 or x.shape[0] * filters * np.prod(shape) > MOST_ELEMENTS:
            return None
        depth = channels // groups * int(np.prod(kernel))
        given = [self.tame(x), self.weight(filters, channels // groups, *kernel, scale=depth ** -0.5)] + ([self.weight(filters)] if self.chance(0.6) else [])
        result = self.node("Conv", given, x.dtype, (x.shape[0], filters, *shape), (x.names[0],) + (None,) * (1 + len(shape)), group=groups, kernel_shape=kernel,
                           strides=strides, dilations=dilations, pads=low + high)
        if self.chance(0.5):
            result = self.like(self.pick(["Relu", "Sigmoid", "Tanh"]), result)
        return result

    def wide_conv(self):
        """With windows of 3 x 3 and as many channels as Winograd's algorithm is for."""
        x = self.image()
        if x is None or x.rank != 4 or min(x.shape[2:]) < 3:
            return None
        filters, low, high = int(self.pick([32, 40])), [int(self.pick([0, 1])) for _ in range(2)], [int(self.pick([0, 1])) for _ in range(2)]
        if x.shape[0] * filters * np.prod(x.shape[2:]) > MOST_ELEMENTS:
            return None
        names = (x.names[0], None, None, None)
        wide = self.node("Conv", [self.tame(x), self.weight(32, x.shape[1], 1, 1, scale=x.shape[1] ** -0.5)], x.dtype, (x.shape[0], 32, *x.shape[2:]), names)
        shape = [extent + a + b - 2 for extent, a, b in zip(x.shape[2:], low, high)]
        result = self.node("Conv", [wide, self.weight(filters, 32, 3, 3, scale=288 ** -0.5)], x.dtype, (x.shape[0], filters, *shape), names, pads=low + high)
        return self.like(self.pick(["Relu", "Sigmoid"]), result) if self.chance(0.5) else result

    def pool(self):
        x = self.image()
        if x is None:
            return None
        spatial = x.shape[2:]
        kernel = [int(self.pick([1, 2, 3])) for _ in spatial]
        strides = [int(self.pick([1, 2])) for _ in spatial]
        low, high = ([int(self.random.integers(k)) for k in kernel] for _ in range(2))
        shape = [(extent + a + b - k) // s + 1 for extent, a, b, k, s in zip(spatial, low, high, kernel, strides)]
        if min(extent + a + b - k for extent, a, b, k in zip(spatial, low, high, kernel)) < 0:
            return None
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": low + high}
        kind = self.pick(["MaxPool", "AveragePool"])
        if kind == "AveragePool":
            attributes["count_include_pad"] = int(self.chance(0.5))
        return self.node(kind, [x], x.dtype, (*x.shape[:2], *shape), x.names, **attributes)

    def einsum(self):
        x = self.some_float(lambda value: value.rank in (2, 3, 4) and not any(value.names[-2:]))
        if x is None:
            return None
        batch = "abc"[:x.rank - 2]
        rows, inner, columns = x.shape[-2], x.shape[-1], int(self.pick([1, 3, 8, 17]))
        if x.size // inner * columns > MOST_ELEMENTS:
            return None
        result = list(batch + "ij")
        order = [int(d) for d in self.random.permutation(x.rank)]
        shape, names = (*x.shape[:-2], rows, columns), (*x.names[:-2], None, None)
        equation = f"{batch}ik,jk->{''.join(result[d] for d in order)}"
        return self.node("Einsum", [self.tame(x), self.weight(columns, inner, scale=inner ** -0.5)], x.dtype, [shape[d] for d in order],
                         [names[d] for d in order], equation=equation)

    def instance_norm(self):
        x = self.some_float(lambda value: value.rank in (3, 4) and value.names[1] is None and np.prod(value.shape[2:]) > 1)
        return x and self.like("InstanceNormalization", self.tame(x), self.weight(x.shape[1]), self.weight(x.shape[1]), epsilon=0.1)

    def resize(self):
        x = self.image()
        if x is None:
            return None
        # Places are of f32, as ONNX Runtime has them, which has no kernel for f64.
        mode = "nearest" if self.float == np.float64 else self.pick(["nearest", "linear"] + ["cubic"] * (x.rank == 4))
        spatial = [int(self.pick([extent, 2 * extent, extent + 1, max(1, extent // 2)])) for extent in x.shape[2:]]
        shape = (*x.shape[:2], *spatial)
        if np.prod(shape) > MOST_ELEMENTS or x.names[0]:
            return None
        place = self.pick(["half_pixel", "asymmetric", "align_corners"])
        return self.node("Resize", [x, "", "", self.constant(np.array(shape, np.int64))], x.dtype, shape, x.names, mode=mode,
                         coordinate_transformation_mode=place, **({"nearest_mode": "floor"} if mode == "nearest" else {}))

    def conv_transpose(self):
        x = self.image()
        if x is None:
            return None
        channels, spatial = x.shape[1], x.shape[2:]
        # Groups are wrong in ONNX's evaluator, and ONNX Runtime has none for f64.
        groups = 1 if self.float == np.float64 else self.pick([g for g in (1, 1, 2, channels) if channels % g == 0])
        filters, kernel, strides = int(self.pick([1, 2, 3, 8])), [int(self.pick([1, 2, 3, 4])) for _ in spatial], [int(self.pick([1, 2, 3])) for _ in spatial]
        pads = [int(self.pick([0, 0, 1])) * (k > 1) for k in kernel]
        shape = [(extent - 1) * s + k - 2 * low for extent, s, k, low in zip(spatial, strides, kernel, pads)]
        if min(shape) < 1 or x.shape[0] * filters * groups * np.prod(shape) > MOST_ELEMENTS:
            return None
        depth = channels // groups * int(np.prod(kernel))
        return self.node("ConvTranspose", [self.tame(x), self.weight(channels, filters, *kernel, scale=depth ** -0.5), self.weight(filters * groups)], x.dtype,
                         (x.shape[0], filters * groups, *shape), (x.names[0],) + (None,) * (1 + len(shape)), group=groups, kernel_shape=kernel, strides=strides,
                         pads=pads + pads)

    def scatter(self):
        x = self.some_float(lambda value: value.rank > 0 and not any(value.names) and value.size > 0)
        if x is None:
            return None
        reduction = self.pick(["none", "add", "mul"])
        if reduction == "mul":
            x = self.tame(x)
        if self.chance(0.4):
            axis = int(self.random.integers(x.rank))
            extent = x.shape[axis]
            count = int(self.random.integers(1, min(extent, 9) + 1))
            shape = (*x.shape[:axis], count, *x.shape[axis + 1:])
            order = np.argsort(self.random.random((*x.shape[:axis], extent, *x.shape[axis + 1:])), axis=axis)
            indices = np.take(order, range(count), axis=axis).astype(self.pick(INTS))
            if reduction != "none":  # several for one place
                indices //= 2
            indices -= ((self.random.random(shape) < 0.2) * extent).astype(indices.dtype)
            return self.like("ScatterElements", x, self.constant(indices), self.weight(*shape), axis=axis, reduction=reduction)
        depth = int(self.random.integers(1, x.rank + 1))
        places = int(np.prod(x.shape[:depth]))
        rows = self.random.permutation(places)[:int(self.random.integers(1, min(places, 9) + 1))]
        if reduction != "none":
            rows //= 2
        indices = np.stack(np.unravel_index(rows, x.shape[:depth]), axis=-1).astype(np.int64)
        indices -= np.array(x.shape[:depth]) * (self.random.random(indices.shape) < 0.2)
        return self.like("ScatterND", x, self.constant(indices), self.weight(len(rows), *x.shape[depth:]), reduction=reduction)

    # ---------------------------------------------------------------------------------------------------- the model

    def outputs(self):
        """Values that nothing reads, and one that something does now and then; the last ones first."""
        unread = [value for value in self.values if value.name not in self.used and value not in self.inputs]
        read = [value for value in self.values if value.name in self.used and value not in self.inputs]
        return list(reversed(unread))[:4] + ([self.pick(read)] if read and self.chance(0.3) else [])

    def model(self):
        outputs = self.outputs()
        if not outputs:
            return None
        nodes, results = list(self.nodes), []
        for value in outputs:
            dtype = value.dtype
            if dtype not in (np.float16, np.float32, np.float64, np.int32, np.int64):
                nodes.append(helper.make_node("Cast", [value.name], [value.name + "_out"], to=TensorProto.INT32))
                value, dtype = Value(value.name + "_out", np.int32, value.shape, value.names), np.dtype(np.int32)
            results.append(info(value))
        needed, kept = {result.name for result in results}, []
        for node in reversed(nodes):
            if needed & set(node.output):
                kept.append(node)
                needed.update(node.input)
        inputs = [value for value in self.inputs if value.name in needed]
        weights = [weight for weight in self.weights if weight.name in needed]
        graph = helper.make_graph(list(reversed(kept)), "random", [info(value) for value in inputs], results, weights)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def info(value):
    return helper.make_tensor_value_info(value.name, ONNX_TYPE[value.dtype], [name or extent for extent, name in zip(value.shape, value.names)])


def joined(x, y):
    """(extents, symbols) of two shapes that are broadcast together; None if that is not known to fit."""
    rank, shape, names = max(x.rank, y.rank), [], []
    for d in range(-rank, 0):
        a, b = (((value.shape[d], value.names[d]) if value.rank >= -d else (1, None)) for value in (x, y))
        if a != b and (1, None) not in (a, b):
            return None
        shape.append(b[0] if a == (1, None) else a[0])
        names.append(b[1] if a == (1, None) else a[1])
    return tuple(shape), tuple(names)


def in_f64(model):
    """The same graph with f64 for every float."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16)
    for value in [*wide.graph.input, *wide.graph.output]:
        if value.type.tensor_type.elem_type in floats:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    arrays = {weight.name: numpy_helper.to_array(weight) for weight in wide.graph.initializer}
    for i, weight in enumerate(wide.graph.initializer):
        if weight.data_type in floats:
            wide.graph.initializer[i].CopyFrom(numpy_helper.from_array(arrays[weight.name].astype(np.float64), weight.name))
    nodes = [copy.deepcopy(node) for node in wide.graph.node if node.op_type != "DequantizeLinear"]
    for node in wide.graph.node:
        if node.op_type == "DequantizeLinear":  # of constants, and nobody has it for f64
            integers, scales, zeros = (arrays[name].astype(np.float64) for name in node.input)
            if scales.ndim:
                spread = [-1 if d == node.attribute[0].i else 1 for d in range(integers.ndim)]
                scales, zeros = scales.reshape(spread), zeros.reshape(spread)
            wide.graph.initializer.append(numpy_helper.from_array((integers - zeros) * scales, node.output[0]))
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in floats:
                attribute.i = TensorProto.DOUBLE
    del wide.graph.node[:]
    wide.graph.node.extend(nodes)
    return wide
