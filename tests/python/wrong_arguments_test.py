# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every public function is called with values of wrong types for each of its parameters: a heddle.Error names the parameter and what came."""
import inspect
import pathlib
import unittest

import heddle
import models
import numpy as np
import onnx


class Odd:
    def __repr__(self):
        return "an odd object"


ODD = Odd()
NUMBERS = (3, 2.5, 1j)
# Wrong values by what a parameter takes.
WRONG = {
    "text": (ODD, *NUMBERS, b"x", [], {}, None, np.ones(3), int, True),
    "path": (ODD, *NUMBERS, b"x", [], {}, np.ones(3), int, True),
    "texts": (ODD, *NUMBERS, {"x": "y"}, [3], [None], np.ones(3), int, True),
    "names": (ODD, *NUMBERS, "x", ["x"], {3: "y"}, {"x": 3}, np.ones(3), int, True),
    "devices": (ODD, *NUMBERS, b"x", ["cpu"], {"default": 3}, {3: "cpu"}, np.ones(3), int, True),
    "files": (ODD, 2.5, 1j, [None], [[]], {3: "x"}, {"": ODD}, np.ones(3), int, True),
    "flag": (ODD, *NUMBERS, "yes", b"x", [], {}, None, np.ones(3), int),
    "seconds": (ODD, 1j, "3", b"3", [], {}, np.ones(3), int, float("nan")),
    "number": (ODD, 1j, "3", b"3", [], {}, np.ones(3), int),
    "function": (ODD, *NUMBERS, "print", [], {}, np.ones(3), True),
    "runtime": (ODD, *NUMBERS, "x", [], {}, np.ones(3), True, heddle.Runtime),
    "array": (ODD, *NUMBERS, "x", [1.0], {}, None, int, True, np.array(["x", 1], object), np.ones(3, "M8[s]"), range(3)),
    "result": (ODD, *NUMBERS, "x", [1.0], {}, int, True, np.array(["x"]), b"1234567890123456", range(3)),
    "argument": (ODD, 2.5, 7, -1, True, "z", b"x", [], {}, None, np.ones(3)),
    "shape": (ODD, 2.5, "3", b"3", {}, {3: 4}, None, [2.5], [None], True, int),
    "type": (ODD, 3, 2.5, 1j, "no such type", b"x", [3], {"a": ODD}, np.ones(3), np.array("x"), True),
    "donate": (ODD, *NUMBERS, "z", b"x", ["z"], [3], {}, np.ones(3), int, True, "x"),  # x is an array
    "state": (ODD, *NUMBERS, "x", [], {}, np.ones(3), int, True),
    "stream": (ODD, 3, "x", [], {}, np.ones(3), int),  # on a CPU device also a right one
    "copy": (ODD, *NUMBERS, "yes", [], {}, np.ones(3), int),
    "pair": (ODD, *NUMBERS, "x", "xy", [1, 0], (1,), ("a", "b"), (2.5, 0), {}, np.ones(2), True),
    "number or None": (ODD, 2.5, 1j, "x", [], {}, np.ones(3), int),
    "model": (ODD, *NUMBERS, [], {}, None, np.ones(3), int, True),
}


class WrongArguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.onnx = models.FOLDER / "add.onnx"
        onnx.save(models.model_of([onnx.helper.make_node("Add", ["x", "y"], ["z"])], [models.value("x", [4]), models.value("y", [4])],
                                  [models.value("z", [4])]), cls.onnx)
        cls.path = models.add(4)
        cls.output = str(models.FOLDER / "never.heddle")
        cls.runtime = heddle.Runtime()
        cls.module = heddle.open(cls.path, runtime=cls.runtime)
        cls.function = cls.module.main
        cls.x = np.ones(4, "f4")

    def check(self, function, right, parameters, says=None):
        """right: arguments that are accepted. parameters: what each takes, by its name. says: other words for names of parameters."""
        for name, kind in parameters.items():
            for wrong in WRONG[kind]:
                with self.subTest(f"{getattr(function, '__qualname__', function)}({name}={wrong!r})"):
                    with self.assertRaises(heddle.Error) as caught:
                        function(**{**right, name: wrong})
                    error, text = caught.exception, str(caught.exception)
                    self.assertIsInstance(error, (TypeError, ValueError, LookupError, NotImplementedError))
                    self.assertRegex(text, (says or {}).get(name, rf"\b{name}\b"))
                    self.assertRegex(text, r"got |expected |has no argument |uses no CUDA device|is to be donated")
                    self.assertNotIn("incompatible function arguments", text)

    def covers(self, function, parameters, but=()):
        known = [name for name, one in inspect.signature(function).parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and name != "self"]
        self.assertEqual(sorted(known), sorted([*parameters, *but]), function)

    def test_open_and_module(self):
        says = {"path": "its path is a str", "devices": "devices|a slot of devices|a device of devices", "parameters": "parameters", "over": "over"}
        takes = {"path": "path", "devices": "devices", "parameters": "files", "over": "files", "profile": "flag", "background": "flag", "check_hashes": "flag"}
        self.covers(heddle.open, takes, ("config", "runtime"))
        self.check(heddle.open, {"path": self.path}, takes | {"config": "path", "runtime": "runtime"}, says)
        self.covers(heddle.Module, takes, ("runtime",))
        self.check(heddle.Module, {"path": self.path, "runtime": self.runtime}, takes | {"runtime": "runtime"}, says)
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "its path is a str or an os.PathLike of one, got NoneType"):
            heddle.open(None)

    def test_a_module(self):
        weighed = heddle.open(models.weighed(64), parameters=models.FOLDER / "weighed_64.safetensors")
        self.covers(heddle.Module.function, {"name"})
        self.check(self.module.function, {}, {"name": "text"}, {"name": "its name is a str"})
        self.check(lambda name: self.module[name], {}, {"name": "text"}, {"name": "its name is a str"})
        self.covers(heddle.Module.wait, {"timeout"})
        self.check(self.module.wait, {}, {"timeout": "seconds"})
        self.covers(heddle.Module.refit, {"parameters", "over"})
        self.check(weighed.refit, {"parameters": models.FOLDER / "weighed_64.safetensors"}, {"parameters": "files", "over": "files"})
        for name, member in vars(heddle.Module).items():
            if inspect.isfunction(member) and not name.startswith("_") and name not in ("function", "wait", "refit", "start"):
                self.covers(member, {})

    def test_calls(self):
        right = {"x": self.x, "y": self.x}
        takes = {"x": "array", "y": "array", "out": "result", "donate": "donate", "state": "state", "timeout": "seconds", "stream": "stream", "wait": "flag"}
        for call in (self.module, self.function, self.module.start, self.function.start):
            self.check(call, right, takes, {"x": "argument 'x'", "y": "argument 'y'", "out": "result 'z'", "donate": "donate"})
        self.covers(heddle.Function.tensor, {"argument", "array", "copy"})
        self.check(self.function.tensor, {"argument": "x", "array": self.x}, {"argument": "argument", "array": "array", "copy": "copy"}, {"array": "argument 'x'"})
        call = self.function.start(self.x, self.x)
        for wait in (call.result, call.exception):
            self.covers(wait, {"timeout"})
            self.check(wait, {}, {"timeout": "seconds"})
        for text, wrong in (("argument 'y' is missing", {"x": self.x}), ("it has no argument 'q'", right | {"q": 1})):
            for call in (self.module, self.function, self.module.start, self.function.start):
                with self.assertRaisesRegex(heddle.ArgumentTypeError, text):
                    call(**wrong)

    def test_a_runtime_and_tensors(self):
        takes = {"config": "path", "config_text": "text", "plugin_paths": "texts", "environment": "flag"}
        self.covers(heddle.Runtime, takes)
        self.check(heddle.Runtime, {}, takes)
        self.covers(heddle.Runtime.report, {"topic"})
        self.check(self.runtime.report, {}, {"topic": "text"})
        for make in (heddle.tensor, self.runtime.tensor):
            self.covers(make, {"array", "device"})
            self.check(make, {"array": self.x}, {"array": "array", "device": "text"}, {"array": "making a tensor on device 'cpu:0'"})
        self.covers(heddle.empty, {"shape", "dtype"})
        self.check(heddle.empty, {"shape": 3}, {"shape": "shape", "dtype": "type"})
        tensor = self.module(self.x, self.x)
        takes = {"stream": "number or None", "max_version": "pair", "dl_device": "pair", "copy": "copy"}
        self.covers(tensor.__dlpack__, takes)
        self.check(tensor.__dlpack__, {}, takes)
        self.covers(tensor.__array__, {"dtype", "copy"})
        self.check(tensor.__array__, {}, {"dtype": "type", "copy": "copy"})

    def test_compile_and_merge(self):
        takes = {"model": "model", "output": "path", "target": "texts", "donate": "texts", "alias": "names", "state": "names", "params_in": "files",
                 "param_names": "names", "params_in_hashes": "flag", "options": "texts", "timeout": "seconds", "progress": "function",
                 "reproducer": "path"}
        self.covers(heddle.compile, takes)
        self.check(heddle.compile, {"model": self.onnx, "output": self.output}, takes)
        self.assertFalse(pathlib.Path(self.output).exists())
        takes = {"base": "path", "adapter": "path", "output": "path", "alpha": "number", "rename": "names", "transpose": "texts", "type": "path", "all": "flag",
                 "timeout": "seconds"}
        self.covers(heddle.merge_adapter, takes)
        self.check(heddle.merge_adapter, {"base": "a", "adapter": "b", "output": "c"}, takes)

    def test_objects_that_only_heddle_makes(self):
        for kind in (heddle.Tensor, heddle.Call, heddle.State, heddle.Function):
            for make in (kind, lambda: kind(3), lambda: kind.__new__(kind), lambda: kind(x=3)):
                with self.assertRaisesRegex(heddle.ArgumentTypeError, f"making an object of class {kind.__name__} failed: only heddle makes such objects"):
                    make()

    def test_methods_take_no_more_than_they_name(self):
        tensor = self.module(self.x, self.x)
        for method in (tensor.release, tensor.numpy, tensor.tolist, tensor.item, self.module.close, self.runtime.close, self.module.state().close,
                       self.function.start(self.x, self.x).done, self.function.start(self.x, self.x).cancel):
            for wrong in ((1,), (1, 2)):
                with self.assertRaisesRegex(TypeError, "takes no arguments"):
                    method(*wrong)
            with self.assertRaisesRegex(TypeError, "takes no keyword arguments"):
                method(k=1)
        self.assertEqual(tensor.numpy()[0], 2)
        self.assertFalse(self.module.closed or self.runtime.closed)
        for function in (heddle.devices, heddle.plugins):
            self.covers(function, {})

    def test_no_public_function_is_left_out(self):
        classes = {name for name in heddle.__all__ if isinstance(getattr(heddle, name), type)}
        self.assertEqual(set(heddle.__all__) - classes, {"compile", "devices", "empty", "merge_adapter", "open", "plugins", "strings", "tensor"})
        self.assertEqual({name for name in classes if not issubclass(getattr(heddle, name), heddle.Error)},
                         {"Call", "Device", "DeviceMemory", "Function", "Module", "Runtime", "State", "Tensor", "TensorType"})


if __name__ == "__main__":
    unittest.main()
