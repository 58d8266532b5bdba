# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls from Python: results, arrays in and out without a copy, and the errors of what is wrong."""
import errno
import gc
import os
import pathlib
import subprocess
import unittest
import unittest.mock
import weakref

import heddle
import models
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
LARGE = 1 << 16


class Calls(unittest.TestCase):
    def test_results_are_those_of_onnx_runtime(self):
        model = SOURCE / "tests/models/digits/digits.onnx"
        image = np.random.default_rng(1).random((3, 1, 8, 8), np.float32)
        expected = onnxruntime.InferenceSession(model).run(None, {"image": image})[0]
        with heddle.open(heddle.compile(model, models.FOLDER / "digits.heddle")) as digits:
            for result in (digits(image), digits(image=image), digits.main(image), digits["main"](image)):
                np.testing.assert_allclose(result.numpy(), expected, 1e-4, 1e-4)
            self.assertEqual(digits.functions, ("main",))
            self.assertEqual(digits.main.arguments[0], ("image", "float32", ("batch", 1, 8, 8)))
            self.assertEqual(digits.statistics()["calls"], 4)

    def test_several_results_have_names(self):
        module = heddle.open(models.two_results())
        for n in (1, 5, 2000):
            x, y = np.arange(n, dtype="f4"), np.ones(n, "f4")
            both = module(x, y=y)
            np.testing.assert_array_equal(both.total, x + y)
            total, difference = both
            np.testing.assert_array_equal(difference.numpy(), x - y)
        self.assertIs(both.total, total)
        out = [None, heddle.empty(2000)]
        self.assertIs(module(x, y, out=out)[1], out[1])
        np.testing.assert_array_equal(out[1], x - y)

        class MadeWhenAsked:  # nothing keeps its items
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return heddle.empty(2000)

        for wrong in (MadeWhenAsked(), [None], x):
            with self.assertRaisesRegex(TypeError, "out must be a list or a tuple of 2 arrays"):
                module(x, y, out=wrong)
        for wrong, kind in ((float("nan"), ValueError), ("a", TypeError), (10**400, ValueError)):
            with self.assertRaisesRegex(kind, "calling 'main' failed: timeout is a number of seconds, got "):
                module(x, y, timeout=wrong)

    def test_results_outlive_their_module(self):
        def call():
            x = np.ones(8, "f4")
            return heddle.open(models.two_results())(x, x)

        results = [call() for _ in range(20)]
        gc.collect()
        for one in results:  # the names of the fields are those of the function, which is gone
            self.assertRegex(repr(one), r"^heddle\.Results\(total=<heddle\.Tensor f32\[8\] on cpu:0>, difference=<heddle\.Tensor f32\[8\] on cpu:0>\)$")
            self.assertEqual(one._fields, ("total", "difference"))

    def test_a_list_of_results_may_change_during_the_call(self):
        size = 1 << 22
        function = heddle.open(models.two_results()).main
        x = np.ones(size, "f4")
        first, second = function(x, x)
        out = [first, second]
        address = first.address
        call = function.start(x, 2 * x, out=out)
        out[0] = None
        out[1] = heddle.empty(3)
        results = call.result()
        self.assertIs(results[0], first)
        self.assertIs(results[1], second)
        del out, call, results
        self.assertEqual((first.address, first.numpy()[-1], second.numpy()[-1]), (address, 3, -1))
        out = [None, None]
        call = function.start(x, x, out=out)
        out[0] = call
        known = weakref.ref(call)
        call.result()
        del call, out
        gc.collect()
        self.assertIsNone(known())

    def test_an_earlier_result_keeps_its_contents(self):
        module = heddle.open(models.add(4))
        one = np.ones(4, "f4")
        first = module(one, one)
        for _ in range(10):
            module(one, one * 5)
        second = module(first, one)
        self.assertEqual((first.tolist(), second.tolist()), ([2.0] * 4, [3.0] * 4))

    def test_arrays_go_in_and_out_in_place(self):
        function = heddle.open(models.add(LARGE)).main
        x, y, z = heddle.empty(LARGE), heddle.empty(LARGE), heddle.empty(LARGE)
        x[:], y[:] = 1, 2
        self.assertEqual(function.tensor("x", x, copy=False).address, x.ctypes.data)
        result = function(x, y)
        self.assertEqual(function.transfers["bytes_copied"], 0)
        for array in (result.numpy(), np.asarray(result), np.from_dlpack(result), np.asarray(memoryview(result))):
            self.assertEqual(array.ctypes.data, result.address)
        self.assertIs(function(x, y, out=z), z)
        self.assertEqual(function.transfers["bytes_copied"], 0)
        self.assertTrue((z == 3).all())
        # An address that the device refuses is copied, and the figures say so.
        moved = np.frombuffer(bytearray(4 * LARGE + 128), "u1")
        start = -moved.ctypes.data % 64 + 4
        moved = moved[start:start + 4 * LARGE].view("f4")
        moved[:] = 4
        self.assertEqual(function(moved, y).numpy()[-1], 6)
        self.assertEqual(function.transfers["bytes_copied"], 4 * LARGE)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "multiple of 64 bytes"):
            function.tensor("x", moved, copy=False)

    def test_arguments_are_read_before_results_are_written(self):
        function = heddle.open(models.add(LARGE)).main
        values = np.arange(LARGE, dtype="f4")
        for distance in (0, 4, 16, 1024, LARGE - 16, LARGE):
            for start in (0, 4):
                place = heddle.empty(2 * LARGE + 64)
                x, out = place[start:start + LARGE], place[start + distance:start + distance + LARGE]
                for one, two, result in ((x, values, out), (values, x, out), (x, x, out), (out, values, x)):
                    (out if one is out else x)[:] = values
                    function(one, two, out=result)
                    np.testing.assert_array_equal(result, 2 * values)
        x[:] = values
        call = function.start(x, values, out=x)
        call.result()
        np.testing.assert_array_equal(x, 2 * values)

    def test_overlapping_tensors_and_results_are_refused(self):
        function = heddle.open(models.add(LARGE)).main
        place, one = heddle.empty(2 * LARGE), np.ones(LARGE, "f4")
        first, second = place[:LARGE], place[16:16 + LARGE]
        tensor = function.tensor("x", first, copy=False)
        for out in (second, function.tensor("x", second, copy=False), function.tensor("y", first, copy=False), first):
            for given in ((tensor, one), (one, tensor)):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, "result 'z' is to be written to a tensor that overlaps argument '[xy]'"):
                    function(*given, out=out)
        two = heddle.open(models.two_results())
        for shift in (0, 4, 16):  # with and without a copy
            results = [place[:LARGE], place[shift:shift + LARGE]]
            for given in (results, results[::-1], [results[0], two.main.tensor("x", place[16:16 + LARGE], copy=False)]):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, "result 'difference'.*overlaps.*result 'total'"):
                    two(one, one, out=given)

    def test_memory_of_a_result_outlives_everything(self):
        module = heddle.open(models.add(LARGE))
        array = module(np.full(LARGE, 2, "f4"), np.full(LARGE, 3, "f4")).numpy()
        shared = np.from_dlpack(module(np.full(LARGE, 1, "f4"), np.full(LARGE, 3, "f4")))
        module.close()
        del module
        self.assertTrue((array == 5).all() and (shared == 4).all())

    def test_read_only_arrays_are_arguments_and_no_results(self):
        function = heddle.open(models.add(LARGE)).main
        x = heddle.empty(LARGE)
        x[:] = 1
        x.setflags(write=False)
        self.assertEqual(function(x, x).numpy()[0], 2)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "result 'z' of 'main'.*read-only"):
            function(x, x, out=x)
        tensor = function.tensor("x", x)
        self.assertFalse(np.asarray(memoryview(tensor)).flags.writeable)
        with self.assertRaises(BufferError):
            tensor.__dlpack__()

    def test_dlpack_makes_a_copy_on_request(self):
        module = heddle.open(models.add(LARGE))
        x = np.ones(LARGE, "f4")
        result = module(x, x)
        copy = np.from_dlpack(result, copy=True)
        self.assertFalse(np.shares_memory(copy, result.numpy()))
        self.assertTrue(np.shares_memory(np.from_dlpack(result), result.numpy()))
        copy[:] = 7
        self.assertEqual((result.numpy()[0], copy[-1]), (2, 7))
        x.setflags(write=False)
        tensor = module.main.tensor("x", x)
        self.assertTrue(np.from_dlpack(tensor, copy=True).flags.writeable)
        tensor.__dlpack__(copy=True)  # dropped

    def test_dlpack_of_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        function = heddle.open(models.add(LARGE)).main
        x = torch.ones(LARGE)
        result = torch.from_dlpack(function(x, x))
        self.assertEqual(float(result.sum()), 2.0 * LARGE)

    def test_arrays_of_jax_are_used_in_place_and_never_written(self):
        try:
            import jax
        except ImportError:
            self.skipTest("jax is not installed")
        function = heddle.open(models.add(LARGE)).main
        x = jax.numpy.arange(LARGE, dtype="float32")
        result = function(x, x)
        self.assertEqual(function.transfers, {"bytes_in_place": 2 * x.nbytes, "bytes_copied": 0})
        back = jax.dlpack.from_dlpack(result)
        self.assertEqual((back.unsafe_buffer_pointer(), float(back[LARGE - 1])), (result.address, 2.0 * (LARGE - 1)))
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "result 'z' of 'main' is .*: got a read-only array to write to"):
            function(x, x, out=x)

    def test_files_that_are_not_there_are_told_by_their_errno(self):
        module = models.weighed(4)
        for call, kind, number in ((lambda: heddle.open("nowhere.heddle"), heddle.MissingFileError, errno.ENOENT),
                                   (lambda: heddle.open(f"{__file__}/nowhere.heddle"), heddle.NotFoundError, errno.ENOTDIR),
                                   (lambda: heddle.open(module, parameters="nowhere.npz"), heddle.MissingFileError, errno.ENOENT)):
            with self.assertRaisesRegex(kind, "nowhere.*; check the path") as caught:
                call()
            self.assertEqual((caught.exception.domain, caught.exception.native_code), ("errno", number))
            self.assertEqual(getattr(caught.exception, "errno", number), number)
        with self.assertRaises(FileNotFoundError):
            heddle.open(module, parameters="nowhere.npz")

    def test_a_tensor_with_one_element_is_a_number(self):
        module = heddle.open(models.add(1))
        result = module(np.full(1, 2.5, "f4"), np.ones(1, "f4"))
        self.assertEqual((float(result), int(result)), (3.5, 3))
        with heddle.open(models.add(4)) as several, self.assertRaisesRegex(TypeError, r"its shape is \(4,\), and only a tensor with one element"):
            float(several(np.ones(4, "f4"), np.ones(4, "f4")))

    def test_errors_name_the_argument(self):
        module = heddle.open(models.add(4))
        x = np.ones(4, "f4")
        read_only = np.frombuffer(bytes(16), "f4")
        fixed = heddle.empty(4)
        fixed.setflags(write=False)

        class OnDevice:
            def __init__(self, *device):
                self.device = device

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, **_):
                raise AssertionError("asked for memory of another device")

        class Exporter:  # as PyTorch's parameters and meta tensors, and deleted arrays of JAX
            def __init__(self, device, memory=None):
                self.device, self.memory = device, memory

            def __dlpack_device__(self):
                if isinstance(self.device, Exception):
                    raise self.device
                return self.device

            def __dlpack__(self, **_):
                raise self.memory

        for call, kind, text in (
                (lambda: module(x), TypeError, "argument 'y' is missing, f32"),
                (lambda: module(x, x, x), TypeError, r"takes 2 arguments \('x', 'y'\), got 3"),
                (lambda: module(x, q=x), TypeError, "no argument 'q'"),
                (lambda: module(x, x=x), TypeError, "'x' is given twice"),
                (lambda: module(x, [1]), TypeError, "'y' .*class list"),
                (lambda: module(x, x.astype("G")), TypeError, "'y' .*format 'Zg'"),
                (lambda: module(x, x.astype("c8")), ValueError, r"'y' expects f32\[4\], got f32\[4,2\]"),
                (lambda: module(x, x.astype("f8")), ValueError, r"input 'y' expects f32\[4\], got f64\[4\]"),
                (lambda: module(x, np.ones(5, "f4")), ValueError, r"'y' expects f32\[4\], got f32\[5\]"),
                (lambda: module(x, np.ones(8, "f4")[::2]), ValueError, "'y' .*not contiguous.*ascontiguousarray"),
                (lambda: heddle.open("nowhere.heddle"), FileNotFoundError, "nowhere.heddle"),
                (lambda: heddle.open(__file__), ValueError, "calls_test.py"),
                (lambda: heddle.open(models.add(4), devices="acme:7"), LookupError, "acme:7"),
                (lambda: module["other"], LookupError, "it has 'main'"),
                (lambda: module(x, OnDevice(2, 3)), ValueError, r"argument 'y' of 'main' is f32\[4\] on device 'cpu:0': got a OnDevice on CUDA device 3; move it"),
                (lambda: module(x, OnDevice(10, 0)), ValueError, r"got a OnDevice on device \(10, 0\) of DLPack"),
                (lambda: module(x, x, stream=0), ValueError, "uses no CUDA device"),
                (lambda: module(x, x, wait=False), ValueError, "uses no CUDA device"),
                (lambda: module(x, x, wait=0), TypeError, "wait is True or False, got 0"),
                (lambda: module(x, x, out=np.ones(5, "f4")), ValueError, r"result 'z' is f32\[4\], got an? (array|tensor) of f32\[5\]"),
                (lambda: module(x, x, out=x.astype("f8")), ValueError, r"result 'z' is f32\[4\], got an? (array|tensor) of f64\[4\]"),
                (lambda: module(x, x, out=np.ones(8, "f4")[::2]), ValueError, r"result 'z' of 'main' is f32\[4\]: .*not contiguous"),
                (lambda: module(x, x, out=[1.0]), TypeError, r"result 'z' of 'main' is f32\[4\]: got an object of class list"),
                (lambda: module(x, x, out=read_only), ValueError, r"result 'z' of 'main' is f32\[4\]: got a read-only array"),
                (lambda: module(x, x, out=module.main.tensor("x", fixed)), ValueError, r"result 'z' of 'main' is f32\[4\]: got a read-only tensor"),
                (lambda: module(x, x, out=[1.0]), TypeError, "result 'z'"),
                (lambda: module(x, np.ones(4, "M8[s]")), ValueError, r"argument 'y' .*got an ndarray of datetime64\[s\]; its memory cannot be shared: "),
                (lambda: module(x, Exporter(ValueError("a meta tensor"))), ValueError, "argument 'y' .*got an Exporter; .*ValueError: a meta tensor"),
                (lambda: module(x, Exporter((1, 0), BufferError("use detach()"))), ValueError, "argument 'y' .*got an Exporter; .*BufferError: use detach"),
                (lambda: module(x, Exporter((1, 0), RuntimeError("deleted"))), ValueError, "argument 'y' .*RuntimeError: deleted"),
                (lambda: module(x, Exporter(1)), ValueError, "argument 'y' .*__dlpack_device__ returned 1 instead of two numbers"),
                (lambda: module(x, Exporter((1, "a"))), ValueError, r"argument 'y' .*__dlpack_device__ returned \(1, 'a'\) instead of two numbers"),
                (lambda: module(x, np.ma.masked_array(x, [1, 0, 0, 1])), ValueError, r"argument 'y' .*got a MaskedArray of float32, whose mask .*filled"),
                (lambda: module.main.tensor(2**70, x), TypeError, "'main' has no argument 1180591620717411303424; its arguments"),
                (lambda: module.main.tensor(-1, x), TypeError, "'main' has no argument -1; its arguments"),
                (lambda: module.main.tensor("x", x, copy="no"), TypeError, "argument 'x' of 'main' failed: copy is None, True or False, got 'no'"),
                (lambda: module(x, x).__dlpack__(max_version=1), TypeError, "max_version is a tuple of two numbers or None, got 1"),
                (lambda: module(x, x).__dlpack__(dl_device="xy"), TypeError, "dl_device is a tuple of two numbers or None, got 'xy'"),
                (lambda: module(x, x).__dlpack__(copy="x"), TypeError, "copy is None, True or False, got 'x'"),
                (lambda: module(x, x).__dlpack__(stream="x"), TypeError, "stream is a number or None, got 'x'"),
                (lambda: module.start(x, x).result("x"), TypeError, "waiting for a call of 'main' failed: timeout is a number of seconds, got 'x'"),
                (lambda: heddle.open(models.add(4), devices=3), TypeError, "devices is the name of a device, .*got int"),
                (lambda: heddle.open(models.add(4), devices={"default": 3}), TypeError, "a device of devices is a str, got int"),
                (lambda: heddle.open(b"m.heddle"), TypeError, "its path is a str .*got bytes; os.fsdecode .*contents of a module"),
                (lambda: heddle.open(models.add(4), runtime=object()), TypeError, "runtime is a heddle.Runtime, got object"),
                (lambda: heddle.open(models.add(4), config=b"x"), TypeError, "config is a str .*got bytes"),
                (lambda: heddle.Runtime(config_text=5), TypeError, "config_text is a str, got int"),
                (lambda: heddle.Runtime(plugin_paths=[5]), TypeError, "an element of plugin_paths is a str .*got int"),
                (lambda: heddle.Runtime(plugin_paths=5), TypeError, "plugin_paths is a str, or several in a list, got int"),
                (lambda: heddle.Runtime().report(5), TypeError, "its topic is a str, got int"),
                (lambda: heddle.open("a\0b"), ValueError, r"its path is 'a\\x00b', which has a zero byte"),
                (lambda: heddle.open("\udc80"), ValueError, r"its path is '\\udc80', which is not UTF-8"),
                (lambda: heddle.open(models.add(4), parameters={5: "x"}), TypeError, "reading parameters failed: a scope is a str, got int"),
                (lambda: heddle.open(models.add(4), parameters=np.array("x")), TypeError, "parameters: expected a path, .*got ndarray"),
                (lambda: heddle.compile("m.onnx", 5), TypeError, "compiling failed: output is a str .*got int"),
                (lambda: heddle.compile("m.onnx", timeout="5 s"), TypeError, "compiling failed: timeout is a number of seconds or None, got '5 s'"),
                (lambda: heddle.compile("m.onnx", progress=5), TypeError, "compiling failed: progress is a function .*got int"),
                (lambda: heddle.compile("m.onnx", target=5), TypeError, "compiling failed: target is a str, or several in a list, got int"),
                (lambda: heddle.compile("m.onnx", alias="x=y"), TypeError, "compiling failed: alias is a dictionary of names, got str"),
                (lambda: heddle.compile("m.onnx", state={"x": 5}), TypeError, "compiling failed: a value of state is a str, got int"),
                (lambda: heddle.empty(2**70), ValueError, "making an array of 4722366482869645213696 bytes failed"),
                (lambda: module.function(5), TypeError, "its name is a str, got int"),
                (lambda: module[5], TypeError, "its name is a str, got int"),
                (lambda: heddle.empty((-1,)), ValueError, r"an extent is 0 or more, got \(-1,\)"),
                (lambda: heddle.empty("x"), TypeError, "shape is a number or several, got 'x'"),
                (lambda: heddle.empty(4, "float33"), TypeError, "dtype is one of NumPy or its name, got 'float33'"),
                (lambda: heddle.Module.__new__(heddle.Module)(1), TypeError, "was made by __new__ alone"),
                (lambda: module.other, AttributeError, "no function 'other'")):
            with self.assertRaisesRegex(kind, text) as caught:
                call()
            if kind is not AttributeError:
                self.assertIsInstance(caught.exception, heddle.Error)
                self.assertIn(caught.exception.code, ("INVALID_ARGUMENT", "NOT_FOUND"))
        tensor = module(x, x)
        with self.assertRaisesRegex(ValueError, "also argument 'x'"):
            module(tensor, x, out=tensor)
        view = tensor.numpy()
        with self.assertRaises(BufferError):
            tensor.release()
        del view
        tensor.release()
        with self.assertRaisesRegex(RuntimeError, r"heddle: argument 'x' of 'main' is f32\[4\]: the given tensor has been released"):
            module(tensor, x)
        with self.assertRaisesRegex(RuntimeError, r"heddle: result '\w+' of 'main' is f32\[4\]: the tensor to write it to has been released"):
            module(x, x, out=tensor)
        with self.assertRaisesRegex(RuntimeError, "heddle: using a tensor failed: it has been released"):
            tensor.numpy()
        module.close()
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "closed"):
            module(x, x)
        never_called = heddle.open(models.add(4))
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "reporting the profile of .* failed: it records no times; open it with profile=True"):
            never_called.profile()
        never_called.close()
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "getting a function of .* failed: the module is closed"):
            never_called(x, x)

    def test_a_failed_compilation_is_an_exception(self):
        with self.assertRaises(heddle.CompileError) as caught:
            heddle.compile(b"not a model", models.FOLDER / "none.heddle")
        self.assertNotEqual(caught.exception.exit_code, 0)
        compiler = models.FOLDER / "crash"
        compiler.write_text("#!/bin/sh\necho nearly done\nkill -ABRT $$\n")
        compiler.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, {"HEDDLE_COMPILER": str(compiler)}):
            for progress in (None, lambda *_: None):
                with self.assertRaisesRegex(heddle.CompileError, "SIGABRT.*\nnearly done"):
                    heddle.compile(b"", models.FOLDER / "none.heddle", progress=progress)
        with unittest.mock.patch.dict(os.environ, {"PATH": "/nowhere"}), unittest.mock.patch("heddle._compile.compiler_folder", lambda: None):
            os.environ.pop("HEDDLE_COMPILER", None)
            with self.assertRaisesRegex(heddle.NotFoundError, r"pip install heddle\[compiler\], or set HEDDLE_COMPILER to its path"):
                heddle.compile(b"", models.FOLDER / "none.heddle")

    def test_weights_are_left_to_files(self):
        nodes = [helper.make_node("MatMul", ["x", "up"], ["h"]), helper.make_node("MatMul", ["h", "onnx::MatMul_7"], ["y"])]
        tensors = [TensorProto(name="up", data_type=TensorProto.FLOAT, dims=[2, 3]), TensorProto(name="onnx::MatMul_7", data_type=TensorProto.FLOAT, dims=[3, 4])]
        graph = helper.make_graph(nodes, "model", [models.value("x", [1, 2])], [models.value("y", [1, 4])], tensors)
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        up, down = (np.random.default_rng(seed).standard_normal(shape).astype("f4") for seed, shape in ((1, (2, 3)), (2, (4, 3))))
        files = {"": models.FOLDER / "up.npz", "down": [models.FOLDER / "down.npz"]}
        np.savez(files[""], up=up)
        np.savez(files["down"][0], w=down)
        output = models.FOLDER / "left.heddle"
        heddle.compile(model, output, params_in=files, param_names={"onnx::MatMul_7": "w:transposed"})
        with heddle.open(output, parameters=files) as module:
            self.assertEqual([(one["scope"], one["name"], one["stored"]) for one in module.report()["parameters"]], [("", "up", False), ("down", "w", False)])
            np.testing.assert_allclose(module(np.ones((1, 2), "f4")).numpy(), np.ones((1, 2), "f4") @ up @ down.T, 1e-5)
        with open(files["down"][0], "rb") as opened:
            in_memory = {"": files[""].read_bytes(), "down": opened}
            heddle.compile(model, models.FOLDER / "same.heddle", params_in=in_memory, param_names={"onnx::MatMul_7": "w:transposed"}, progress=lambda *_: None)
        self.assertEqual((models.FOLDER / "same.heddle").stat().st_size, output.stat().st_size)
        with self.assertRaisesRegex(TypeError, "params_in: expected a path, a descriptor, an open file or bytes, got float"):
            heddle.compile(model, models.FOLDER / "none.heddle", params_in=1.5)
        with self.assertRaisesRegex(heddle.CompileError, r"the model has f32\[3,4\], the file has f32\[4,3\]; --param-name"):
            heddle.compile(model, models.FOLDER / "none.heddle", params_in=files, param_names={"onnx::MatMul_7": "w"})

    def test_progress_of_a_compilation(self):
        model, said = SOURCE / "tests/models/digits/digits.onnx", []
        output = models.FOLDER / "progress.heddle"
        heddle.compile(model, output, progress=lambda *step: said.append(step))
        self.assertEqual(said[0][:2], ("import", 0))
        self.assertEqual([stage for stage in ("import", "passes", "code", "write") if stage not in [step[0] for step in said]], [])
        self.assertEqual(len({total for _, _, total in said}), 1)
        self.assertEqual([done for _, done, _ in said], sorted(done for _, done, _ in said))
        self.assertEqual(said[-1], ("write", said[-1][2], said[-1][2]))
        output.unlink()

        def fails(stage, done, total):
            raise failure

        for failure in (KeyError("import"), BrokenPipeError("of mine"), FileNotFoundError("of mine"), subprocess.TimeoutExpired("mine", 3)):
            with self.assertRaises(type(failure)) as caught:
                heddle.compile(model, output, options="--no-cache", progress=fails)
            self.assertIs(caught.exception, failure)
        self.assertFalse(output.exists())
        with self.assertRaisesRegex(heddle.DeadlineExceededError, "took more than 0.05 s"):
            heddle.compile(model, output, options="--no-cache", timeout=0.05)
        with self.assertRaises(heddle.DeadlineExceededError):
            heddle.compile(model, output, options=["--no-cache"], progress=lambda *_: None, timeout=0.05)
        with self.assertRaises(heddle.CompileError) as caught:
            heddle.compile(b"not a model", output, progress=lambda *_: None)
        self.assertNotIn("\x1b", str(caught.exception))
        self.assertNotIn(" done, ", str(caught.exception))

    def test_a_result_in_place_of_another_type_is_an_error(self):
        function = heddle.open(models.add(LARGE)).main
        x = heddle.empty(LARGE)
        for wrong in (heddle.empty(LARGE + 1), heddle.empty(LARGE, "f8")):
            with self.assertRaisesRegex(ValueError, rf"'z' .*f32\[{LARGE}\], got (a tensor of )?f(32|64)\["):
                function(x, x, out=wrong)

    def test_a_closed_runtime(self):
        runtime = heddle.Runtime()
        module = heddle.open(models.add(4), runtime=runtime)
        runtime.close()
        x = np.ones(4, "f4")
        self.assertEqual(module(x, x).tolist(), [2.0] * 4)  # an open module goes on
        for use, what in ((lambda: heddle.open(models.add(4), runtime=runtime), f"opening '{models.add(4)}' failed"), (runtime.devices, "report failed")):
            with self.assertRaisesRegex(heddle.FailedPreconditionError, f"{what}: the runtime is closed; make another"):
                use()

    def test_memory_of_a_module(self):
        module = heddle.open(models.add(LARGE))
        held = [module(np.ones(LARGE, "f4"), np.ones(LARGE, "f4")) for _ in range(8)]
        (memory,) = module.memory()
        self.assertEqual(memory.device, "cpu:0")
        self.assertGreaterEqual(memory.requested, 8 * held[0].nbytes)
        self.assertGreaterEqual(memory.reserved, memory.allocated)
        self.assertGreaterEqual(memory.allocated, memory.requested)
        self.assertEqual(sum(memory.holders.values()), memory.requested)
        counts = module.statistics()["devices"][0]["driver_counts"]
        self.assertEqual((memory.driver_reserved, memory.reserved), (counts["bytes_reserved"], counts["bytes_allocated"]))

    def test_a_tensor_of_a_device_is_for_functions_of_all_modules(self):
        x = np.arange(4, dtype="f4")
        tensor = heddle.tensor(x)
        x[:] = 0
        self.assertEqual((tensor.shape, tensor.dtype, tensor.device, tensor.is_host), ((4,), "float32", "cpu:0", True))
        with heddle.open(models.add(4), devices="cpu") as one, heddle.open(models.two_results(), devices="cpu") as other:
            self.assertEqual(one(tensor, tensor).tolist(), [0, 2, 4, 6])
            self.assertEqual(other(tensor, one(tensor, x)).total.tolist(), [0, 2, 4, 6])
        self.assertEqual(tensor.tolist(), [0, 1, 2, 3])
        with heddle.Runtime() as runtime:
            held = runtime.tensor(np.ones((2, 0), "i8"), "cpu:0")
        self.assertEqual(held.numpy().shape, (2, 0))
        for wrong, kind, text in ((lambda: heddle.tensor([1]), TypeError, "making a tensor on device 'cpu:0' failed: got an object of class list"),
                                  (lambda: heddle.tensor(None), TypeError, "got an object of class NoneType"),
                                  (lambda: heddle.tensor(x[::2]), ValueError, "not contiguous"),
                                  (lambda: heddle.tensor(x, "tpu"), LookupError, "tpu"),
                                  (lambda: heddle.tensor(x, 5), TypeError, "device is a str, got int"),
                                  (lambda: runtime.tensor(x), RuntimeError, "making a tensor failed: the runtime is closed")):
            with self.assertRaisesRegex(kind, text):
                wrong()

    def test_names_where_several_are_taken(self):
        with heddle.open(models.add(4), devices={"default": "cpu"}) as module:
            self.assertEqual(module.route(), heddle.open(models.add(4), devices="cpu").route())
            self.assertIn("main", dir(module))
        with self.assertRaisesRegex(LookupError, "no such slot"):
            heddle.open(models.add(4), devices={"other": "cpu"})
        with self.assertLogs("heddle") as caught:
            heddle.Runtime(plugin_paths="/nowhere").close()
        self.assertRegex("".join(caught.output), "plugin directory '/nowhere'")
        self.assertEqual(heddle.empty(np.int64(3)).shape, (3,))
        self.assertEqual(heddle.empty([np.int64(3), 2]).shape, (3, 2))

    def test_devices_and_plugins(self):
        device = heddle.devices()[0]
        self.assertEqual((device.alias, device.driver, device["alias"], str(device)), ("cpu:0", "heddle.cpu", "cpu:0", "cpu:0"))
        self.assertIn("cpu:0", [device.alias for device in heddle.devices()])
        self.assertIn("heddle.cpu", [plugin["id"] for plugin in heddle.plugins()])


if __name__ == "__main__":
    unittest.main()
