# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters from paths, descriptors, open files and memory."""
import io
import mmap
import os
import pathlib
import unittest

import heddle
import models
import numpy as np
from onnx import TensorProto, helper

SIZE = 64


def content(w, b):
    """An .npz file for models.weighed."""
    out = io.BytesIO()
    np.savez(out, w=np.full((SIZE, SIZE), w, "f4"), b=np.full(SIZE, b, "f4"))
    return out.getvalue()


class Parameters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        heddle.open(models.add(4)).close()  # the runtime keeps some descriptors

    def setUp(self):
        self.module = models.weighed(SIZE)
        self.bytes = content(2, 3)
        self.path = models.FOLDER / "given.npz"
        self.path.write_bytes(self.bytes)
        self.descriptors = len(os.listdir("/proc/self/fd"))

    def tearDown(self):
        self.assertEqual(len(os.listdir("/proc/self/fd")), self.descriptors)

    def value(self, parameters, **options):
        with heddle.open(self.module, parameters=parameters, **options) as module:
            return float(module(np.ones((1, SIZE), "f4")).numpy()[0, 0])

    def test_every_kind_of_file(self):
        expected = 2.0 * SIZE + 3
        for given in (str(self.path), self.path, [self.path], {"": self.path}, {"": [self.path]}, self.bytes, bytearray(self.bytes),
                      memoryview(self.bytes), np.frombuffer(self.bytes, "u1"), io.BytesIO(self.bytes).getbuffer(), [self.bytes], {"": self.bytes}):
            self.assertEqual(self.value(given), expected)
        with open(self.path, "rb") as file:
            file.seek(7)
            for given in (file, file.fileno(), [file], {"": file.fileno()}, pathlib.Path(f"/dev/fd/{file.fileno()}")):
                self.assertEqual(self.value(given), expected)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                self.assertEqual(self.value(mapped), expected)
            os.unlink(self.path)
            self.assertEqual(self.value(file), expected)
            self.assertEqual(file.tell(), 7)
        memory = os.memfd_create("weights")
        os.write(memory, self.bytes)
        try:
            for method in ("buffered", "mmap"):
                runtime = heddle.Runtime(config_text=f'[param_io]\nmethod = ["{method}", "buffered"]\n')
                self.assertEqual(self.value(memory, runtime=runtime), expected)
                runtime.close()
            self.assertEqual(self.value(memory, background=True), expected)
        finally:
            os.close(memory)

    def test_objects_that_are_like_files_or_descriptors(self):
        expected = 2.0 * SIZE + 3
        memory = io.BytesIO(self.bytes)
        memory.seek(5)
        self.assertEqual(self.value(memory), expected)
        self.assertEqual(memory.tell(), 5)
        memory.write(b"")  # no buffer of it is left
        with open(self.path, "rb") as file:
            self.assertEqual(self.value(np.int64(file.fileno())), expected)
            self.assertEqual(self.value(np.array(file.fileno())), expected)
        for given in (True, np.bool_(True), [False]):
            with self.assertRaisesRegex(TypeError, "parameters: expected a path, .* got bool"):
                self.value(given)
        for given in (-1, np.int32(-1)):
            with self.assertRaisesRegex(ValueError, "parameters: a descriptor is 0 or more, got -1"):
                self.value(given)
        strided = np.frombuffer(self.bytes + self.bytes, "u1")[::2]
        with self.assertRaisesRegex(ValueError, "parameters: the bytes of a ndarray are not contiguous; pass a copy"):
            self.value(strided)

    def test_compiling_with_descriptors_and_scopes(self):
        graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "model", [models.value("x", [SIZE, SIZE])], [models.value("y", [SIZE, SIZE])],
                                  [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE])])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        output = models.FOLDER / "descriptor.heddle"
        with open(self.path, "rb") as file:
            for given in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}", np.int64(file.fileno()), io.BytesIO(self.bytes)):
                heddle.compile(model, output, params_in=given)
                with heddle.open(output, parameters=self.path) as module:
                    self.assertEqual(float(module(np.ones((SIZE, SIZE), "f4")).numpy()[0, 0]), 2)
        with self.assertRaisesRegex(heddle.CompileError, "/dev/fd/1000000.*Bad file descriptor"):
            heddle.compile(model, output, params_in="/dev/fd/1000000")
        with self.assertRaisesRegex(TypeError, "scope 'a=b' of params_in has a '='"):
            heddle.compile(model, output, params_in={"a=b": self.path})

    def test_over_and_refit(self):
        x = np.ones((1, SIZE), "f4")
        self.assertEqual(self.value(self.bytes, over=content(1, 0)), SIZE)
        with heddle.open(self.module, parameters=self.bytes) as module:
            module.refit(content(5, 1))
            self.assertEqual(module(x).numpy()[0, 0], 5 * SIZE + 1)

    def test_a_module_from_a_descriptor(self):
        with open(self.module, "rb") as file, heddle.open(f"/proc/self/fd/{file.fileno()}", parameters=self.bytes) as module:
            self.assertEqual(module(np.ones((1, SIZE), "f4")).numpy()[0, 0], 2 * SIZE + 3)

    def test_what_is_no_file(self):
        for given in (2.5, [None], {"": object()}, [[self.path]]):
            with self.assertRaisesRegex(TypeError, "parameters: expected a path, a descriptor, an open file or bytes, got "):
                self.value(given)
        with self.assertRaisesRegex(TypeError, "over: expected .* got float"):
            self.value(self.bytes, over=2.5)
        with self.assertRaisesRegex(heddle.Error, "/proc/self/fd/1000000.*Bad file descriptor"):
            self.value(1000000)
        with open(self.path, "wb") as file, self.assertRaisesRegex(heddle.Error, "Bad file descriptor|is empty|0 bytes"):
            self.value(file)
        reader, writer = os.pipe()
        try:
            with self.assertRaisesRegex(heddle.Error, "not a regular file"):
                self.value(reader)
        finally:
            os.close(reader)
            os.close(writer)


if __name__ == "__main__":
    unittest.main()
