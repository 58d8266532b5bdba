# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What random graphs are made of: values, choices of the seed, inputs, weights and nodes. What nodes there are is in the files beside it."""
import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTS, BOOL = (np.int32, np.int64), np.bool_
# Integers of which ONNX Runtime lacks kernels here and there; by the first characters of their codes in NumPy.
SMALL = (np.int8, np.uint8, np.int16, np.uint16, np.uint32)
LACKING = {
    "Max": "i2 u2", "Min": "i2 u2", "Clip": "i2 u2", "Pad": "i2 u2", "Neg": "b1 u1 u2 u4", "Where": "i2 u2 u4", "ReduceMax": "i2 u2 u4", "ReduceMin": "i2 u2 u4",
    "ArgMax": "i2 u2 u4", "ArgMin": "i2 u2 u4", "TopK": "u2 u4", "Trilu": "i1 u1 i2 u2 u4", "DepthToSpace": "b1 i2 u2 i4 u4 i8", "SpaceToDepth": "b1 i2 u2 i4 u4 i8",
    "CumSum": "i1 u1 i2 u2 u4", "ReduceSum": "i1 u1 i2 u2 u4", "Resize": "b1 i2 u2 u4 i8", "MaxPool": "b1 i2 u2 i4 u4 i8",
}
ONNX_TYPE = {np.dtype(t): helper.np_dtype_to_tensor_dtype(np.dtype(t)) for t in (np.float16, np.float32, np.float64, BFLOAT16, np.int32, np.int64, *SMALL, BOOL)}
MOST_ELEMENTS = 6000


def is_float(dtype):
    """NumPy by itself does not know bf16 as one."""
    return np.dtype(dtype).kind == "f" or np.dtype(dtype) == BFLOAT16


def runs(operator, dtype):
    """Whether ONNX Runtime has the operator for these integers or bools."""
    return np.dtype(dtype).str[1:] not in LACKING.get(operator, "").split()


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


class Pieces:
    def __init__(self, seed, float_type):
        self.random = np.random.default_rng(seed)
        self.float = np.dtype(float_type)
        # What came with later opsets is in bf16, too, and axes are inputs there.
        self.opset = 23 if self.float == BFLOAT16 else int(self.pick([17, 23]))
        self.of_small = self.chance(0.2)
        self.nodes, self.weights, self.values, self.inputs, self.feeds = [], [], [], [], {}
        self.used, self.fixed, self.types, self.outside, self.names_given = set(), set(), {}, [], 0
        self.symbols = {"n": int(self.pick([1, 2, 3, 5, 8])), "m": int(self.pick([4, 7, 16, 33]))} if self.chance(0.25) else {}

    # ------------------------------------------------------------------------------------------------------------- choices

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
            return np.asarray(self.random.random(shape) < 0.5)
        if dtype in SMALL:  # also what has the highest bit
            limits = np.iinfo(dtype)
            return self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        if dtype.kind == "i":
            return self.random.integers(-9, 10, shape).astype(dtype)
        return self.random.uniform(-2, 2, shape).astype(dtype)

    def some(self, want=lambda value: True, dtype=None):
        """A value that fits, recent ones more often; None if there is none."""
        fitting = [value for value in self.values if (dtype is None or value.dtype == dtype) and want(value)]
        if not fitting:
            return None
        return fitting[-1 - min(len(fitting) - 1, int(self.random.geometric(0.35)) - 1)]

    def some_float(self, want=lambda value: True):
        return self.some(want, self.float)

    def last_is_known(self, value):
        return value.rank > 0 and value.names[-1] is None

    def image(self, operator=None):
        """A value of rank 3 or 4 whose image is known: of floats, or of what the operator is run for."""
        fits = lambda value: value.rank in (3, 4) and not any(value.names[1:]) and value.size > 0
        return self.some(lambda value: fits(value) and runs(operator, value.dtype)) if operator else self.some_float(fits)

    # -------------------------------------------------------------------------------------------------------------- pieces

    def add_input(self):
        shape = self.shape()
        names = [None] * len(shape)
        for d in range(len(shape)):
            if self.symbols and self.chance(0.4):
                names[d] = self.pick(sorted(self.symbols))
                shape[d] = self.symbols[names[d]]
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return self.add_input()
        dtype = self.pick([self.float] * 6 + [np.int64, np.int32, BOOL] + [self.pick(SMALL)] * (9 if self.of_small else 1)) if self.inputs else self.float
        return self.input_of(dtype, shape, names)

    def input_of(self, dtype, shape, names=None):
        value = Value(f"x{len(self.inputs)}", dtype, shape, names)
        self.inputs.append(value)
        self.feeds[value.name] = self.numbers(shape, dtype)
        self.values.append(value)
        return value

    def other_feeds(self):
        """Other numbers for the inputs of the same graph; the same each time it is made anew."""
        return {value.name: self.feeds[value.name] if value.name in self.fixed else self.numbers(self.feeds[value.name].shape, value.dtype)
                for value in self.inputs}

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
        integer = np.dtype(self.pick([np.int8, np.uint8] + [np.int16, np.uint16] * (self.float.itemsize > 2)))
        limits = np.iinfo(integer)
        integers = self.constant(self.random.integers(limits.min, limits.max + 1, shape).astype(integer))
        axis = int(self.random.integers(len(shape))) if self.chance(0.7) else None
        each = () if axis is None else (shape[axis],)
        scales = (self.random.uniform(0.5, 1.5, each) * scale * 2 / (limits.max - limits.min)).astype(self.float)
        zeros = np.asarray(self.random.integers(limits.min, limits.max + 1, each) // 4 if self.chance(0.6) else np.zeros(each)).astype(integer)
        if self.float == np.float32 and (integer.itemsize == 1 or self.opset > 20) and self.chance(0.5):
            along = {} if axis is None else {"axis": axis}
            return self.node("DequantizeLinear", [integers, self.constant(scales), self.constant(zeros)], self.float, shape, **along)
        spread = [extent if d == axis else 1 for d, extent in enumerate(shape)] if axis is not None else []
        value = self.node("Cast", [integers], self.float, shape, to=ONNX_TYPE[self.float])
        if zeros.any():
            value = self.like("Sub", value, self.constant(zeros.astype(self.float).reshape(spread)))
        return self.like("Mul", value, self.constant(scales.reshape(spread)))

    def fresh(self):
        """A number that no name has yet."""
        self.names_given += 1
        return self.names_given

    def node(self, operator, inputs, dtype, shape, names=None, outputs=None, **attributes):
        """Adds a node of one result, or of several like it with `outputs`."""
        results = outputs or [f"v{self.fresh()}"]
        self.types[results[0]] = np.dtype(dtype)
        given = [value.name if isinstance(value, Value) else value for value in inputs]
        self.used.update(given)
        self.nodes.append(helper.make_node(operator, given, results, name=f"{operator}_{self.fresh()}", **attributes))
        return Value(results[0], dtype, shape, names)

    def like(self, operator, x, *more, dtype=None, **attributes):
        return self.node(operator, [x, *more], dtype or x.dtype, x.shape, x.names, **attributes)

    def keep(self, value):
        if value is not None and value.size <= MOST_ELEMENTS * 4:
            self.values.append(value)
        return value

    def tame(self, x):
        """The same within [-3, 3]."""
        return self.like("Clip", x, self.number(-3), self.number(3))

    def bounded(self, x, most):
        """The same i32 or i64 within [-most, most]."""
        return self.like("Max", self.like("Min", x, self.number(most, x.dtype)), self.number(-most, x.dtype))

    def reduced(self, operator, x, axes, keeps=True):
        """The axes are an attribute or an input, as the opset has it."""
        shape = [1 if d in axes else extent for d, extent in enumerate(x.shape) if keeps or d not in axes]
        names = [None if d in axes else name for d, name in enumerate(x.names) if keeps or d not in axes]
        counted = [d - x.rank if self.chance(0.3) else d for d in axes]
        if operator == "ReduceSum" or self.opset >= 18:
            return self.node(operator, [x, self.constant(np.array(counted, np.int64))], x.dtype, shape, names, keepdims=int(keeps))
        return self.node(operator, [x], x.dtype, shape, names, axes=counted, keepdims=int(keeps))

    def fitting(self, x):
        """Another value, or a constant, that broadcasts with x to a shape that is known to fit, with the shape."""
        other = self.some(lambda value: value is not x and joined(value, x) is not None, x.dtype) if self.chance(0.6) else None
        if other is None:
            cut = int(self.random.integers(0, x.rank + 1))
            shape = [1 if name or self.chance(0.3) else extent for extent, name in zip(x.shape, x.names)][cut:]
            other = Value(self.constant(self.numbers(shape, x.dtype)), x.dtype, shape)
        return other, joined(x, other)


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
