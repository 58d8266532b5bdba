# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters from paths, descriptors, open files and memory."""
import io
import json
import mmap
import os
import pathlib
import subprocess
import sys
import unittest

import heddle
import models
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 64


def content(w, b):
    """An .npz file for models.weighed."""
    out = io.BytesIO()
    np.savez(out, w=np.full((SIZE, SIZE), w, "f4"), b=np.full(SIZE, b, "f4"))
    return out.getvalue()

# Opens a module whose parameters are larger than the memory, in a process that ends itself before it takes much of it.
LARGER_THAN_MEMORY = """
import os, sys, threading, time
import heddle
import numpy as np

def watch():
    while True:
        with open("/proc/self/status") as status:
            if any(int(line.split()[1]) > 1 << 20 for line in status if line.startswith("RssAnon:")):
                os.write(2, b"more than 1 GiB was allocated")
                os._exit(1)
        time.sleep(0.005)

threading.Thread(target=watch, daemon=True).start()
module = heddle.open(sys.argv[1], devices="cpu", parameters=sys.argv[2])
last = int(sys.argv[3]) - 1
print(np.asarray(module(np.array([0, last], "i8"))).tolist(), module.statistics()["weights"]["bytes_mapped"])
"""


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

    def test_a_model_with_external_data(self):
        tensors = [numpy_helper.from_array(np.full((SIZE, SIZE), 2, "f4"), "w"), numpy_helper.from_array(np.full(SIZE, 3, "f4"), "b")]
        path = models.FOLDER / "given.onnx"
        onnx.save(helper.make_model(helper.make_graph([], "model", [], [], tensors)), path, save_as_external_data=True, location="given.bin", size_threshold=0)
        self.assertEqual(self.value(path), 2 * SIZE + 3)
        with open(path, "rb") as file:
            self.assertEqual(self.value(file), 2 * SIZE + 3)
            for given in (file.fileno(), path.read_bytes()):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, "external data 'given.bin' of .* failed: it is in the model's directory"):
                    self.value(given)
        (models.FOLDER / "given.bin").unlink()
        with self.assertRaisesRegex(heddle.NotFoundError, "external data 'given.bin' of .*given.onnx' failed: No such file"):
            self.value(path)

    def test_over_and_refit(self):
        x = np.ones((1, SIZE), "f4")
        self.assertEqual(self.value(self.bytes, over=content(1, 0)), SIZE)
        with heddle.open(self.module, parameters=self.bytes) as module:
            module.refit(content(5, 1))
            self.assertEqual(module(x).numpy()[0, 0], 5 * SIZE + 1)

    def test_a_module_from_a_descriptor(self):
        with open(self.module, "rb") as file, heddle.open(f"/proc/self/fd/{file.fileno()}", parameters=self.bytes) as module:
            self.assertEqual(module(np.ones((1, SIZE), "f4")).numpy()[0, 0], 2 * SIZE + 3)

    def shards(self, names):
        """An index in a directory of its own; w and b are in two shards."""
        folder = models.FOLDER / "shards"
        folder.mkdir(exist_ok=True)
        for name, shape, value in (("w", (SIZE, SIZE), 2), ("b", (SIZE,), 3)):
            text = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * int(np.prod(shape))]}}).encode()
            (folder / f"{name}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + np.full(shape, value, "f4").tobytes())
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": names}))
        return index

    def test_an_index_of_shards_needs_its_directory(self):
        index = self.shards({"w": "w.safetensors", "b": "b.safetensors"})
        expected = 2.0 * SIZE + 3
        self.assertEqual(self.value(index), expected)
        with open(index, "rb") as file:
            self.assertEqual(self.value(file), expected)
            graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "model", [models.value("x", [SIZE, SIZE])],
                                      [models.value("y", [SIZE, SIZE])], [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE])])
            model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
            heddle.compile(model, models.FOLDER / "left.heddle", params_in=file)
            for given in (file.fileno(), f"/dev/fd/{file.fileno()}", index.read_bytes()):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, "names shards, which are in its directory, .* give the path of the index"):
                    self.value(given)
            os.rename(index, index.with_name("moved.json"))
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "names shards, which are in its directory"):
                self.value(file)
        # Numbers would be descriptors of this process.
        with open(self.path, "rb") as file:
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "names shards, which are in its directory"):
                self.value(json.dumps({"weight_map": {"w": str(file.fileno()), "b": str(file.fileno())}}).encode())

    def test_arrays_need_names(self):
        folder = models.FOLDER / "arrays"
        folder.mkdir(exist_ok=True)
        np.save(folder / "w.npy", np.full((SIZE, SIZE), 2, "f4"))
        np.save(folder / "b.npy", np.full(SIZE, 3, "f4"))
        with open(folder / "w.npy", "rb") as w, open(folder / "b.npy", "rb") as b:
            self.assertEqual(self.value([w, b]), 2.0 * SIZE + 3)
            for given in ([w.fileno(), b.fileno()], [w.read(), b.read()]):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, "the tensor of an .npy file has the name of the file, .* or an .npz file"):
                    self.value(given)
        for given in (np.ones(SIZE, "f4"), {"b": np.ones(SIZE)}, [np.ones(2, "f2")]):
            with self.assertRaisesRegex(TypeError, "got an array of type [fde], which is not the contents of a file; write arrays with numpy.savez into an io.BytesIO"):
                self.value(given)

    def test_a_part_of_the_files_can_be_replaced(self):
        """What is not computed from the new values stays, although the bytes of the others are gone."""
        x, half = np.ones((1, SIZE), "f4"), SIZE // 2
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])], "two",
            [models.value("x", ["n", SIZE])], [models.value("y", ["n", SIZE])],
            [numpy_helper.from_array(np.zeros(shape, "f4"), name) for name, shape in (("v", (SIZE, half)), ("w", (half, SIZE)), ("b", (SIZE,)))])
        path = models.FOLDER / "two_products.heddle"
        heddle.compile(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path,
                       options=["--params-out", str(models.FOLDER / "two_products.safetensors")])

        def weights(**values):
            out = io.BytesIO()
            shapes = {"v": (SIZE, half), "w": (half, SIZE), "b": (SIZE,)}
            np.savez(out, **{name: np.full(shapes[name], value, "f4") for name, value in values.items()})
            return out

        expected = {"v": 1, "w": 2, "b": 3}
        with heddle.open(path, parameters=weights(**expected)) as module:
            for new in ({}, {"b": 5}, {"w": 3}, {"v": 2}, {"b": 1, "v": 4}):
                if new:
                    module.refit(weights(**new))
                expected.update(new)
                self.assertEqual(module(x).numpy()[0, 0], SIZE * half * expected["v"] * expected["w"] + expected["b"], new)

    def test_adapters(self):
        """Merged in a child process, and laid over the base."""
        folder = models.FOLDER / "lora"
        folder.mkdir(exist_ok=True)

        def write(path, **arrays):
            header, data = {}, b""
            for name, array in arrays.items():
                header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
                data += array.tobytes()
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data)

        base, adapter, merged = folder / "base.safetensors", folder / "adapter_model.safetensors", folder / "merged.safetensors"
        write(base, w=np.full((SIZE, SIZE), 2, "f4"), b=np.full(SIZE, 3, "f4"))
        write(adapter, **{"base_model.model.fc.lora_A.weight": np.ones((1, SIZE), "f4"), "base_model.model.fc.lora_B.weight": np.ones((SIZE, 1), "f4")})
        (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "lora_alpha": 4}))
        options = {"rename": {"fc.weight": "w"}, "transpose": "w"}
        self.assertEqual(heddle.merge_adapter(base, adapter, merged, **options), str(merged))
        self.assertEqual(self.value(base, over=merged), SIZE * 6.0 + 3)
        heddle.merge_adapter(base, adapter, merged, alpha=1, all=True, rename={"fc.weight": "w"}, transpose=[])
        self.assertEqual(self.value(merged), SIZE * 3.0 + 3)
        with heddle.open(self.module, parameters=base) as module:
            module.refit(merged)
            self.assertEqual(module(np.ones((1, SIZE), "f4")).numpy()[0, 0], SIZE * 3.0 + 3)
        merged.unlink()
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "has no tensor 'fc.weight'"):
            heddle.merge_adapter(base, adapter, merged)
        with self.assertRaisesRegex(heddle.Error, "gone.safetensors.*No such file"):
            heddle.merge_adapter(base, folder / "gone.safetensors", merged)
        with self.assertRaisesRegex(heddle.DeadlineExceededError, "took more than 0 s"):
            heddle.merge_adapter(base, adapter, merged, timeout=0)
        self.assertFalse(merged.exists())
    def test_errors_name_what_was_given(self):
        x = np.ones((1, SIZE), "f4")
        without = io.BytesIO()
        np.savez(without, b=np.ones(SIZE, "f4"))
        for given, name in ((without.getvalue(), f"the bytes of {len(without.getvalue())} bytes in parameters"),
                            (without, f"the BytesIO of {len(without.getvalue())} bytes in parameters")):
            with self.assertRaisesRegex(heddle.NotFoundError, f"no tensor of {name} has that name"):
                self.value(given)
        self.path.write_bytes(without.getvalue())
        with open(self.path, "rb") as file:
            with self.assertRaisesRegex(heddle.NotFoundError, f"no tensor of '{self.path}' has that name"):
                self.value(file)
            with self.assertRaisesRegex(heddle.NotFoundError, f"no tensor of descriptor {file.fileno()} has that name"):
                self.value(file.fileno())
        with self.assertRaisesRegex(heddle.Error, "no file is given for its scope ''; pass one with parameters=FILE"):
            self.value(None)
        with heddle.open(self.module, parameters=self.bytes) as module:
            with self.assertRaisesRegex(heddle.Error, "the bytes of 5 bytes in parameters"):
                module.refit(b"wrong")
            self.assertEqual(module(x).numpy()[0, 0], 2 * SIZE + 3)

    def test_what_is_no_file(self):
        for given in (2.5, [None], {"": object()}, [[self.path]]):
            with self.assertRaisesRegex(TypeError, "parameters: expected a path, a descriptor, an open file or bytes, got "):
                self.value(given)
        with self.assertRaisesRegex(TypeError, "over: expected .* got float"):
            self.value(self.bytes, over=2.5)
        with self.assertRaisesRegex(heddle.Error, "opening parameter file descriptor 1000000 failed: Bad file descriptor"):
            self.value(1000000)
        with open(self.path, "ab") as file, self.assertRaisesRegex(heddle.InvalidArgumentError, "Bad file descriptor; pass a descriptor that is open for reading"):
            self.value(file)
        reader, writer = os.pipe()
        try:
            with self.assertRaisesRegex(heddle.Error, "not a regular file"):
                self.value(reader)
        finally:
            os.close(reader)
            os.close(writer)


class LargerThanMemory(unittest.TestCase):
    def test_files_that_do_not_fit_are_mapped_by_default(self):
        """Zeros that are nowhere on the disk; the last element of each tensor is not zero."""
        with open("/proc/meminfo") as told:
            memory = int(next(line for line in told if line.startswith("MemTotal:")).split()[1]) << 10
        names, each = ["u", "v"], (memory * 3 // 4 | 63) + 1
        path, module = models.FOLDER / "large.safetensors", models.FOLDER / "large.heddle"
        header = json.dumps({name: {"dtype": "U8", "shape": [each], "data_offsets": [i * each, (i + 1) * each]} for i, name in enumerate(names)}).encode()
        header += b" " * (-(len(header) + 8) % 64 + 8)  # tensors begin at multiples of 8 only, as in most files
        self.addCleanup(path.unlink, missing_ok=True)
        try:
            with open(path, "wb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                for i in range(len(names)):
                    file.seek(8 + len(header) + (i + 1) * each - 1)
                    file.write(bytes([20 + i]))
        except OSError as failure:
            self.skipTest(f"the file system has no place for a file of {len(names) * each} bytes without contents: {failure}")
        parameters = [onnx.TensorProto(name=name, data_type=TensorProto.UINT8, dims=[each]) for name in names]
        nodes = [helper.make_node("Gather", [name, "at"], [f"of {name}"]) for name in names]
        nodes.append(helper.make_node("BitwiseXor", [f"of {name}" for name in names], ["y"]))
        graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("at", TensorProto.INT64, [2])],
                                  [helper.make_tensor_value_info("y", TensorProto.UINT8, [2])], parameters)
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
        heddle.compile(model.SerializeToString(), str(module), params_in=str(path))
        ran = subprocess.run([sys.executable, "-c", LARGER_THAN_MEMORY, str(module), str(path), str(each)], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.strip(), f"[0, {20 ^ 21}] {len(names) * each}")


if __name__ == "__main__":
    unittest.main()
