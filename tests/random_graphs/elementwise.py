# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes that compute each element by itself, of broadcast operands."""
import numpy as np

from pieces import BOOL, INTS, MOST_ELEMENTS, ONNX_TYPE, SMALL, Pieces, Value, is_float, joined, runs


class ElementWise(Pieces):
    def unary(self):
        x = self.some_float()
        if x is None:
            return None
        kind = self.pick(["Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Sqrt", "Floor", "Ceil", "Round", "Reciprocal", "Cos", "Sin", "Log", "HardSwish",
                          "Softplus", "LeakyRelu", "Elu", "Clip", "Clip", "Celu", "HardSigmoid", "Selu", "Softsign", "Sign", "ThresholdedRelu", "PRelu"] +
                         ["Mish", "Gelu"] * (self.opset > 19))
        # What these multiply with is an f32 whatever they multiply.
        if self.float == np.float64 and kind in ("HardSwish", "LeakyRelu", "Elu", "HardSigmoid", "Selu"):
            kind = "Tanh"
        if self.float != np.float32 and kind == "Celu":  # which ONNX has for f32 alone
            kind = "Tanh"
        if kind in ("Exp", "Softplus", "Elu", "Celu", "Selu", "Mish", "Cos", "Sin"):
            x = self.tame(x)
        if kind in ("Sqrt", "Reciprocal", "Log"):
            x = self.like("Add", self.like("Abs", x), self.number(0.5))
        if kind == "Clip":
            return self.like("Clip", x, *self.pick([(self.number(-1), self.number(1.5)), (self.number(-0.5),), ("", self.number(1))]))
        if kind == "PRelu":
            cut = int(self.random.integers(0, x.rank + 1))
            return self.like("PRelu", x, self.weight(*[1 if name or self.chance(0.3) else extent for extent, name in zip(x.shape, x.names)][cut:]))
        if kind in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu") and self.chance(0.5):
            return self.like(kind, x, alpha=self.pick([0.25, 0.75, 1.5]))
        if kind == "HardSigmoid" and self.chance(0.5):
            return self.like(kind, x, alpha=0.25, beta=0.375)
        if kind == "Gelu":
            return self.like(kind, x, approximate=self.pick(["none", "tanh"]))
        return self.like(kind, x)

    def binary(self):
        x = self.some(lambda value: value.dtype != BOOL)
        if x is None:
            return None
        y, (shape, names) = self.fitting(x)
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return None
        if not is_float(x.dtype):
            return self.binary_of_integers(x, y, shape, names)
        kind = self.pick(["Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow", "Mod"])
        if kind == "Mul":
            x, y = self.tame(x), self.tame(y)
        if kind == "Div":
            y = self.like("Add", self.like("Abs", y), self.number(0.5))
        if kind in ("Pow", "Mod"):
            x, y = self.tame(x), Value(self.number(self.pick([2.0, 3.0, 1.0] if kind == "Pow" else [1.5, -0.75])), self.float, ())
            return self.node(kind, [x, y], x.dtype, x.shape, x.names, **({"fmod": 1} if kind == "Mod" else {}))
        if kind != "Div" and self.chance(0.4):
            x, y = y, x
        return self.node(kind, [x, y], x.dtype, shape, names)

    def binary_of_integers(self, x, y, shape, names):
        """Those of up to 16 bits, and of no sign, wrap around."""
        kind = self.pick([kind for kind in ("Add", "Sub", "Mul", "Max", "Min", "Div", "Mod") if runs(kind, x.dtype)])
        if kind == "Mul" and x.dtype in INTS:
            x, y = self.bounded(x, 50), self.bounded(y, 50)
        if kind in ("Div", "Mod"):
            divisor = Value(self.number(self.pick([2, 3, 7]), x.dtype), x.dtype, ())
            return self.node(kind, [x, divisor], x.dtype, x.shape, x.names, **({"fmod": int(self.chance(0.3))} if kind == "Mod" else {}))
        return self.node(kind, [x, y] if self.chance(0.6) else [y, x], x.dtype, shape, names)

    def several(self):
        """Of more operands than two."""
        operands, shape, names = [], (), ()
        kind = self.pick(["Sum", "Mean", "Max", "Min"])
        for _ in range(int(self.pick([1, 3, 3, 4]))):
            joint = Value("", self.float, shape, names)
            x = self.some_float(lambda value: joined(value, joint) is not None)
            if x is None:
                return None
            operands.append(self.tame(x) if kind in ("Sum", "Mean") else x)
            shape, names = joined(x, joint)
            if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
                return None
        return self.node(kind, operands, self.float, shape, names)

    def compare_select(self):
        x = self.some(lambda value: value.dtype != BOOL)
        if x is None:
            return None
        y, (shape, names) = self.fitting(x)
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return None
        kinds = ["Less", "Greater", "LessOrEqual", "GreaterOrEqual"] + ["Equal"] * (not is_float(x.dtype))
        condition = self.node(self.pick(kinds), [x, y], BOOL, shape, names)
        if self.chance(0.2):
            condition = self.like("Not", condition)
        if self.chance(0.2) or not runs("Where", x.dtype):
            return condition
        return self.node("Where", [condition, x, y] if self.chance(0.5) else [condition, y, x], x.dtype, shape, names)

    def logic(self):
        x = self.some(dtype=BOOL)
        if x is None:
            return None
        if self.chance(0.2):
            return self.like("Not", x)
        y, (shape, names) = self.fitting(x)
        if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS:
            return None
        result = self.node(self.pick(["And", "Or", "Xor", "Equal"]), [x, y], BOOL, shape, names)
        return self.like("Where", result, self.number(0.75), self.number(-0.5), dtype=self.float) if self.chance(0.4) else result

    def replaced(self):
        """What is no number becomes one."""
        x = self.some_float()
        if x is None:
            return None
        kind = self.pick(["Sqrt", "Log"])
        value = self.like(kind, x)
        odd = self.like("IsNaN", value, dtype=BOOL)
        if kind == "Log" and self.chance(0.5) and (self.float == np.float32 or self.opset > 19):
            odd = self.like("Or", odd, self.like("IsInf", value, dtype=BOOL))
            return self.node("Where", [odd, self.number(-1), value], x.dtype, x.shape, x.names)
        return self.node("Where", [odd, self.number(-1), self.like("Max", value, self.number(-9))], x.dtype, x.shape, x.names)

    def cast(self):
        x = self.some()
        if x is None:
            return None
        to = np.dtype(self.pick([self.float, self.float, np.int32, np.int64, np.int8, BOOL, self.pick(SMALL)]))
        if x.dtype in SMALL and to == self.float:
            return self.float_of(x)
        if x.dtype == self.float and to in SMALL:
            if to != np.int8 or self.chance(0.5):
                x = self.like("Mul", self.tame(x), self.number(40))
            else:
                x = self.tame(x)
            x = x if to.kind == "i" else self.like("Abs", x)
        if x.dtype in INTS and to == self.float:
            x = self.bounded(x, 1000)
        result = self.like("Cast", x, dtype=to, to=ONNX_TYPE[to])
        if to == BOOL or to in SMALL and self.chance(0.5):
            result = self.like("Cast", result, dtype=self.float, to=ONNX_TYPE[self.float]) if to == BOOL else self.float_of(result)
        return result

    def float_of(self, x):
        """Within [-2, 2]; f16 and bf16 hold not every integer."""
        wide = self.float if self.float.itemsize > 2 else np.dtype(np.float32)
        result = self.like("Cast", x, dtype=wide, to=ONNX_TYPE[wide])
        result = self.like("Mul", result, self.number(2 / np.iinfo(x.dtype).max, wide))
        return result if wide == self.float else self.like("Cast", result, dtype=self.float, to=ONNX_TYPE[self.float])

    def integers(self):
        x = self.some(lambda value: value.dtype.kind in "iu")
        if x is None:
            return None
        if x.dtype in SMALL:
            kind = self.pick([kind for kind in ("Neg", "Abs", "Sign", "Clip", "Cast") if runs(kind, x.dtype)])
            if kind == "Clip":
                return self.like(kind, x, self.number(3, x.dtype), self.number(100, x.dtype))
            return self.float_of(x) if kind == "Cast" else self.like(kind, x)
        kind = self.pick(["Neg", "Abs", "Sign", "Clip", "Cast"])
        if kind == "Clip":
            return self.like(kind, x, self.number(-5, x.dtype), self.number(4, x.dtype))
        if kind != "Cast":
            return self.like(kind, x)
        return self.like("Cast", self.bounded(x, 40), dtype=self.float, to=ONNX_TYPE[self.float])

    def quantization(self):
        """To integers, and back: now or in the end."""
        x = self.some_float()
        if x is None or self.float != np.float32:
            return None
        integer = np.dtype(self.pick([np.int8, np.uint8] + [np.int16, np.uint16] * (self.opset > 20)))
        limits = np.iinfo(integer)
        factors = [self.number(6 / (limits.max - limits.min)), self.number((limits.max + limits.min + 1) // 2 + int(self.pick([0, 0, 11])), integer)]
        integers = self.like("QuantizeLinear", self.tame(x), *factors, dtype=integer)
        if self.chance(0.2):
            return integers
        if self.chance(0.3) and x.rank > 1:
            integers = self.transpose(integers)
        return self.like("DequantizeLinear", integers, *factors, dtype=self.float)

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
