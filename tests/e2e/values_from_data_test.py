# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices, shapes and values that are wrong only when a model runs, each with ONNX Runtime's verdict: where it fails, Heddle fails; where it has a result, Heddle
has the same, or refuses. Where ONNX leaves the result open, Heddle has the one that docs/operators.md states, whatever ONNX Runtime gives."""
from typing import NamedTuple

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from checks_test import model
from heddle_command import HeddleTestCase, heddle

FLOAT, INT64, INT32, UINT8, INT8, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL)
onnxruntime.set_default_logger_severity(4)  # what it refuses is wanted
TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(np.int32): INT32, np.dtype(np.uint8): UINT8, np.dtype(np.int8): INT8,
         np.dtype(np.bool_): BOOL}
F, I = np.float32, np.int64
LOWEST = np.iinfo(I).min


def f32(*values):
    return np.array(values, F)


def i64(*values):
    return np.array(values, I)


def zeros(*shape):
    return np.zeros(shape, F)


class Case(NamedTuple):
    what: str
    operator: str
    inputs: list  # arrays; a symbol for an extent: (array, [names or extents])
    constants: dict = {}  # more inputs, after those: name: array
    attributes: dict = {}
    result: object = FLOAT
    open: object = None  # ONNX leaves it open: Heddle's result, or "error"; ONNX Runtime is not asked, since some of these end its process


CASES = [
    # indices
    Case("an index above its dimension", "Gather", [zeros(100, 2), i64(3, 300)]),
    Case("an index below its dimension", "Gather", [zeros(100, 2), i64(3, -101)]),
    Case("the lowest index", "Gather", [np.arange(100, dtype=F), i64(-100, 99)]),
    Case("an index above another axis", "Gather", [zeros(3, 4), i64(4)], attributes={"axis": 1}),
    Case("an index of 32 bits that is wrong", "Gather", [zeros(3, 4), np.array([-4], np.int32)]),
    Case("an index above a symbolic dimension", "Gather", [(zeros(5, 2), ["n", 2]), i64(5)]),
    Case("an index of nothing", "Gather", [(zeros(0, 2), ["n", 2]), i64(0)]),
    Case("an index of an element", "GatherElements", [zeros(3, 4), np.full((3, 2), 4)], attributes={"axis": 1}),
    Case("an index of a point", "GatherND", [zeros(3, 4), np.array([[0, 0], [2, -5]])]),
    Case("an index of a point in a batch", "GatherND", [zeros(2, 3), np.array([[1], [3]])], attributes={"batch_dims": 1}),
    Case("a place to write an element that is outside", "ScatterElements", [zeros(3, 4), np.full((1, 4), 3), np.ones((1, 4), F)]),
    Case("a place to write an element below its dimension", "ScatterElements", [zeros(3, 4), np.full((1, 4), -4), np.ones((1, 4), F)]),
    Case("the lowest place to write", "ScatterElements", [zeros(3, 4), np.full((1, 4), -3), np.ones((1, 4), F)]),
    Case("a place to write a row that is outside", "ScatterND", [zeros(3, 4), np.array([[3]]), np.ones((1, 4), F)]),
    Case("a row that is not there, as one of many", "ScatterND", [zeros(3, 4), np.array([[0], [-4]]), np.ones((2, 4), F)]),
    Case("a class that is not there", "OneHot", [i64(0, 5, -1, -6)], {"depth": np.array(5, I), "values": f32(0, 1)}),
    # shapes
    Case("more elements than a shape has", "Reshape", [(zeros(2, 3), ["n", 3])], {"shape": i64(-1, 4)}),
    Case("a shape for another number of elements", "Reshape", [(zeros(2, 3), ["n", 3])], {"shape": i64(3, 3)}),
    Case("an extent that cannot be expanded", "Expand", [(zeros(2, 3), ["n", 3])], {"shape": i64(4, 3)}),
    Case("an extent of one that is expanded", "Expand", [(np.ones((1, 3), F), ["n", 3])], {"shape": i64(4, 3)}),
    Case("parts of different heights", "Concat", [(zeros(2, 3), ["n", 3]), (zeros(4, 3), ["m", 3])], attributes={"axis": 1}),
    Case("operands of different lengths", "Add", [(zeros(2, 3), ["n", 3]), (zeros(4, 3), ["m", 3])]),
    Case("factors that do not fit", "MatMul", [(zeros(2, 3), [2, "k"]), (zeros(4, 2), ["l", 2])]),
    Case("a dimension that is not one", "Squeeze", [(zeros(2, 3), ["n", 3])], {"axes": i64(0)}),
    Case("a condition of another length", "Where", [(np.zeros(3, bool), ["n"]), (zeros(4), ["m"]), zeros(1)], result=FLOAT),
    Case("a window that is larger than the image", "Conv", [(zeros(1, 1, 2, 2), [1, 1, "h", "w"]), np.ones((1, 1, 3, 3), F)]),
    Case("a pool that is larger than the image", "MaxPool", [(zeros(1, 1, 2, 2), [1, 1, "h", "w"])], attributes={"kernel_shape": [3, 3]}),
    Case("more of the largest than there are", "TopK", [(zeros(2), ["n"])], {"k": i64(3)}),
    Case("parts that do not add up", "Split", [(zeros(5), ["n"])], {"split": i64(3)}),
    # values
    Case("a quotient of integers by zero", "Div", [i64(1, 2), i64(1, 0)], result=INT64, open="error"),
    Case("a remainder of integers by zero", "Mod", [i64(1, 2), i64(1, 0)], result=INT64, open="error"),
    Case("a quotient that does not fit", "Div", [i64(LOWEST, 7), i64(-1, -1)], result=INT64, open=i64(LOWEST, -7)),
    Case("a quotient of numbers by zero", "Div", [f32(1, -1, 0), f32(0, 0, 0)]),
    Case("a number too large for an integer", "Cast", [f32(1e20, -1e20, 2.9, -2.9)], attributes={"to": INT32}, result=INT32,
         open=np.array([2**31 - 1, -2**31, 2, -2], np.int32)),
    Case("no number, as an integer", "Cast", [f32(np.nan, np.inf, -np.inf)], attributes={"to": INT64}, result=INT64, open=i64(0, 2**63 - 1, LOWEST)),
    Case("a number too large for a byte", "Cast", [f32(300, -1, 255.9)], attributes={"to": UINT8}, result=UINT8, open=np.array([255, 0, 255], np.uint8)),
    Case("an integer too large for 32 bits", "Cast", [i64(2**32 + 5, -2**31 - 1)], attributes={"to": INT32}, result=INT32),
    Case("an integer too large for a byte", "Cast", [i64(300, -129)], attributes={"to": INT8}, result=INT8),
    Case("a number as a truth value", "Cast", [f32(0, -0.0, 0.1, np.nan)], attributes={"to": BOOL}, result=BOOL),
    Case("the sum of nothing", "ReduceSum", [(zeros(0, 3), ["n", 3])], {"axes": i64(0)}),
    Case("the product of nothing", "ReduceProd", [(zeros(0, 3), ["n", 3])], attributes={"axes": [0]}),
    Case("the largest of nothing", "ReduceMax", [(zeros(0, 3), ["n", 3])], attributes={"axes": [0]}),
    Case("the mean of nothing", "ReduceMean", [(zeros(0, 3), ["n", 3])], attributes={"axes": [0]}, open=np.full((1, 3), np.nan, F)),
    Case("the index of the largest of nothing", "ArgMax", [(zeros(0, 3), ["n", 3])], attributes={"axis": 0}, result=INT64),
    Case("the root and the logarithm of what is negative", "Sqrt", [f32(-1, 0, np.inf)]),
    Case("a logarithm of zero", "Log", [f32(0, -1)]),
    Case("limits the wrong way round", "Clip", [f32(-5, 0, 5)], {"least": np.array(2, F), "most": np.array(1, F)}),
    Case("numbers that a scale takes out of range", "QuantizeLinear", [f32(1e9, -1e9, 2.5, 3.5)], {"scale": np.array(1, F), "zero": np.array(128, np.uint8)},
         result=UINT8),
    Case("a row of minus infinity", "Softmax", [np.full((1, 3), -np.inf, F)]),
    Case("a power of integers that is no integer", "Pow", [i64(2, -1, 1), i64(-1, -1, -3)], result=INT64, open=i64(0, -1, 1)),
]


class ValuesFromData(HeddleTestCase):
    device, target = "cpu", "cpu"

    def files_of(self, case, number):
        names = [f"in{i}" for i in range(len(case.inputs))]
        arrays = [given[0] if isinstance(given, tuple) else given for given in case.inputs]
        shapes = [given[1] if isinstance(given, tuple) else given.shape for given in case.inputs]
        outputs = [("y", case.result, None)] + ([("more", INT64, None)] if case.operator == "TopK" else [])
        node = helper.make_node(case.operator, [*names, *case.constants], [name for name, _, _ in outputs], name="here", **case.attributes)
        path = self.folder / f"{number}.onnx"
        path.write_bytes(model([node], [(name, TYPES[array.dtype], shape) for name, array, shape in zip(names, arrays, shapes)], outputs, case.constants.items()))
        return path, dict(zip(names, arrays))

    def run_case(self, path, feeds):
        """The result, or None where the model is refused when it is compiled, or the call fails."""
        module, result = path.with_suffix(".heddle"), path.with_suffix(".npy")
        compiled = heddle("compile", path, "-o", module, "--target", self.target)
        if compiled.code != 0:
            self.assert_clear_error(compiled)
            return None
        arguments = []
        for name, array in feeds.items():
            np.save(path.with_suffix(f".{name}.npy"), array)
            arguments += ["--input", f"{name}=@{path.with_suffix(f'.{name}.npy')}"]
        ran = heddle("run", module, "--device", self.device, *arguments, "--output", f"y=@{result}")
        if ran.code != 0:
            self.assert_clear_error(ran)
            return None
        return np.load(result)

    def test_nothing_is_silently_wrong(self):
        refused = []
        for number, case in enumerate(CASES):
            with self.subTest(case.what):
                path, feeds = self.files_of(case, number)
                wanted = case.open
                if wanted is None:
                    try:
                        wanted = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
                    except Exception:  # the bindings have several kinds
                        wanted = "error"
                got = self.run_case(path, feeds)
                if isinstance(wanted, str):
                    self.assertIsNone(got, f"{case.what}: {got} instead of an error")
                elif got is None:
                    refused.append(case.what)
                else:
                    np.testing.assert_array_equal(got, wanted, case.what)
        # The only one that ONNX Runtime computes: the shape of the result leaves one extent for an input that could be 1, too.
        self.assertEqual(refused, ["an extent of one that is expanded"])
