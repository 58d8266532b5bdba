# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle compile --params-in`: weights are left to files that exist already. Their values are not read, neither those of the model, which need not
exist, nor those of the file; results are those of the model that has them."""
import json
import os
import struct
import subprocess
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase, environment, heddle, heddle_path
from parameter_formats_test import BLOCKS, random_blocks, text, write_gguf, write_irpa
from params_out_test import IMAGE, Network

F32 = np.float32


def external(tensor, location="never.bin"):
    """The tensor with its values in a file that does not exist."""
    values = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize * int(np.prod(tensor.dims))
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="length", value=str(values))


def without_values(source, path, keep=()):
    """The model in which no stored tensor of floats or 8 bits has its values, except for some."""
    model = onnx.load(source)
    for tensor in [*model.graph.initializer, *(node.attribute[0].t for node in model.graph.node if node.op_type == "Constant")]:
        if tensor.name not in keep and tensor.data_type in (TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32):
            external(tensor)
    path.write_bytes(model.SerializeToString())
    return path


def info(name, shape, element_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def save(path, nodes, inputs, outputs, tensors):
    graph = helper.make_graph(nodes, "small", inputs, outputs, tensors)
    path.write_bytes(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    return path


def absent(name, *shape, element_type=TensorProto.FLOAT):
    tensor = TensorProto(name=name, data_type=element_type, dims=shape)
    external(tensor)
    return tensor


class ParamsIn(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.module = self.folder / "m.heddle"

    def products(self, *weights):
        """y = x @ w0 @ w1 ..., of weights without values."""
        nodes, value = [], "x"
        for i, tensor in enumerate(weights):
            nodes.append(helper.make_node("MatMul", [value, tensor.name], [f"y{i}"]))
            value = f"y{i}"
        return save(self.folder / "products.onnx", nodes, [info("x", [2, weights[0].dims[0]])], [info(value, [2, weights[-1].dims[1]])], weights)

    def npz(self, name, **arrays):
        np.savez(self.folder / name, **arrays)
        return self.folder / name

    def parameters(self, module=None):
        told = json.loads(self.succeed("explain", module or self.module, "--format", "json").stdout)["parameters"]
        return {(one["scope"], one["name"]): one["stored"] for one in told}

    def compile_with(self, model, *flags):
        return self.succeed("compile", model, "-o", self.module, *flags)

    def refuse(self, code, *flags, model=None):
        """The error; no module is left."""
        error = self.fail_with(code, "compile", model or self.model, "-o", self.module, *flags).stderr
        self.assertFalse(self.module.exists())
        self.assertEqual(len(error.strip().splitlines()), 1, error)
        return error

    def network(self):
        """A network of many operators, the file of its weights, the model without values, and an image."""
        network = Network(1)
        whole = network.build(self.folder / "whole.onnx", 3)
        self.succeed("compile", whole, "-o", self.folder / "whole.heddle")
        self.succeed("compile", whole, "-o", self.folder / "unused.heddle", "--params-out", self.folder / "weights.safetensors")
        model = without_values(whole, self.folder / "model.onnx", {"asymmetric.zero_point", "half", "scales", "quantized.zero_point"})
        image = np.random.default_rng(9).standard_normal(IMAGE).astype(F32)
        return network, model, image, self.run_module(self.folder / "whole.heddle", "image", image)

    def shards(self, arrays, count=3):
        """An index of files that have every third tensor."""
        names, index = sorted(arrays), {}
        for i in range(count):
            self.npz(f"shard-{i}.npz", **{name: arrays[name] for name in names[i::count]})
            self.succeed("params", "convert", self.folder / f"shard-{i}.npz", "-o", self.folder / f"shard-{i}.safetensors")
            index.update({name: f"shard-{i}.safetensors" for name in names[i::count]})
        path = self.folder / "model.safetensors.index.json"
        path.write_text(json.dumps({"metadata": {}, "weight_map": index}))
        return path

    def test_results_are_those_of_the_model_with_its_values(self):
        network, model, image, expected = self.network()
        in_files = {name: value for name, value in network.weights.items()}
        gguf = self.folder / "weights.gguf"
        numbers = {"float32": 0, "int8": 24, "int32": 26}
        write_gguf(gguf, [(name, numbers[value.dtype.name], list(value.shape) or [1], np.asarray(value).tobytes())
                          for name, value in in_files.items() if value.dtype.name in numbers and np.ndim(value)])
        rest = {name: value for name, value in in_files.items() if value.dtype.name not in numbers or not np.ndim(value)}
        for files in ([self.folder / "weights.safetensors"], [self.shards(in_files)], [gguf, self.npz("rest.npz", **rest)]):
            flags = [flag for file in files for flag in ("--params-in", file)]
            said = self.compile_with(model, *flags).stderr
            self.assertIn(f"from {files[0]}: ", said)
            self.assertEqual(self.parameters(), {("", name): False for name in network.weights}, said)
            run = [flag for file in files for flag in ("--params", file)]
            self.assertEqual(self.run_module(self.module, "image", image, *run).tobytes(), expected.tobytes(), files)
            self.assertLess(self.module.stat().st_size, self.folder.joinpath("whole.heddle").stat().st_size)
            self.module.unlink()

    def test_what_no_file_has_stays_in_the_module_or_goes_to_a_file_of_its_own(self):
        _, _, image, expected = self.network()
        part, report = self.folder / "part.safetensors", self.folder / "report.json"
        self.succeed("params", "convert", self.folder / "weights.safetensors", "-o", part, "--only", "wide.*", "--only", "norm.*")
        in_part = {f"{layer}.{name}" for layer, all in (("wide", ("weight", "bias")), ("norm", ("weight", "bias", "running_mean", "running_var")))
                   for name in all}
        whole = self.folder / "whole.onnx"
        said = self.compile_with(whole, "--params-in", part, "--report", report).stderr
        self.assertRegex(said, r"part.safetensors: 6 weights, 81\.\d+ KiB\nin the module: \d+ weights, .* KiB: conv.weight, act.slope, .* and \d+ more")
        self.assertEqual({name for (_, name), stored in self.parameters().items() if not stored}, in_part)
        told = json.loads(report.read_text())["parameters"]
        self.assertEqual(told["left_to_files"], [{"file": str(part), "scope": "", "count": 6, "bytes": 83072, "file_bytes": 83072,
                                                  "names": told["left_to_files"][0]["names"]}])
        self.assertEqual(set(told["left_to_files"][0]["names"]), in_part)
        self.assertNotIn("part.safetensors", self.succeed("explain", self.module, "--format", "json").stdout)
        self.assert_close(self.run_module(self.module, "image", image, "--params", part), expected, 1e-6, 1e-6)
        rest = self.folder / "rest.safetensors"
        self.compile_with(whole, "--params-in", part, "--params-out", rest, "--report", report)
        listed = {row["name"] for row in json.loads(self.succeed("params", "ls", rest, "--format", "json").stdout)["tensors"]}
        self.assertTrue({"conv.weight", "narrow.weight", "offsets"} <= listed)
        self.assertFalse(listed & in_part)
        self.assertEqual(set(json.loads(report.read_text())["parameters"]["in_parameter_file"]["names"]), listed)
        self.assert_close(self.run_module(self.module, "image", image, "--params", part, "--params", rest), expected, 1e-6, 1e-6)

    def test_scopes_names_and_transposed_matrices(self):
        a, b = (np.random.default_rng(seed).standard_normal((3, 4)).astype(F32) for seed in (1, 2))
        one, two = self.npz("one.npz", w=a), self.npz("two.npz", w=b)
        model = self.products(absent("first", 3, 4), absent("onnx::MatMul_7=", 4, 3))
        said = self.compile_with(model, "--params-in", f"one={one}", "--params-in", f"two={two}", "--param-name", "first=one=w", "--param-name",
                                 "onnx::MatMul_7==two=w:transposed").stderr
        self.assertIn(f"from {one}: 1 weight, 48 B, scope one\nfrom {two}: 1 weight, 48 B, scope two\n", said)
        self.assertEqual(self.parameters(), {("one", "w"): False, ("two", "w"): False})
        x = np.random.default_rng(3).standard_normal((2, 3)).astype(F32)
        files = ("--params", f"one={one}", "--params", f"two={two}")
        self.assert_close(self.run_module(self.module, "x", x, *files), x @ a @ b.T, 1e-5, 1e-5)
        exchanged = ("--params", f"one={two}", "--params", f"two={one}")
        self.assert_close(self.run_module(self.module, "x", x, *exchanged), x @ b @ a.T, 1e-5, 1e-5)
        unknown = self.fail_with(1, "run", self.module, "--input", "x=f32[2,3]=1", "--params", f"one={one}", "--params", f"tow={two}").stderr
        self.assertIn("no file is given for its scope 'two'; pass one with --params two=FILE", unknown)
        shown = self.succeed("explain", self.module, "--full").stdout
        self.assertRegex(shown, r"scope  parameter  type      bytes\none    w          f32\[3,4\]  48\ntwo    w          f32\[3,4\]  48\n")
        self.assertIn("outside: 2 of 96 B in scope 'one', 'two'; computed", self.succeed("explain", self.module).stdout)
        verified = heddle("params", "verify", self.npz("other.npz", v=a), "--module", self.module, "--scope", "two")
        self.assertEqual(verified.code, 1)
        self.assertRegex(verified.stdout, r"w\s+missing\s+the module needs f32\[3,4\] in scope 'two'")
        self.assertIn("1 needed by the module; no error", self.succeed("params", "verify", one, "--module", self.module, "--scope", "one").stdout)

    def test_a_star_stands_for_the_same_text_in_both_names(self):
        arrays = {name: np.random.default_rng(i).standard_normal((4, 4)).astype(F32) for i, name in enumerate(("a", "b", "model.c", "d.weight"))}
        file = self.npz("w.npz", **arrays)
        model = self.products(*(absent(name, 4, 4) for name in ("model.a", "model.b", "model.c", "layer.d")))
        rules = ("model.*=*", "layer.*=*.weight:transposed", "model.a=b")
        self.compile_with(model, "--params-in", f"s={file}", *(flag for rule in rules for flag in ("--param-name", rule)))
        x = np.eye(2, 4, dtype=F32)
        self.assert_close(self.run_module(self.module, "x", x, "--params", f"s={file}"),
                          x @ arrays["b"] @ arrays["b"] @ arrays["model.c"] @ arrays["d.weight"].T, 1e-5, 1e-5)

    def test_blocks_become_the_type_of_the_model(self):
        content, values = random_blocks("Q4_K", 256)
        file = self.folder / "w.gguf"
        write_gguf(file, [("w", BLOCKS["Q4_K"][0], [3, 256], content)])
        model = self.products(absent("w", 3, 256))
        self.compile_with(model, "--params-in", file)
        x = np.eye(2, 3, dtype=F32)
        self.assert_close(self.run_module(self.module, "x", x, "--params", file), x @ values, 1e-6, 1e-6)
        # One tensor under two names of the model is one parameter.
        model = self.products(absent("up", 3, 256), absent("down", 256, 3))
        self.compile_with(model, "--params-in", file, "--param-name", "up=w", "--param-name", "down=w:transposed")
        self.assertEqual(self.parameters(), {("", "w"): False})
        self.assert_close(self.run_module(self.module, "x", x, "--params", file), x @ values @ values.T, 1e-4, 1e-3)
        wrong = self.products(absent("w", 3, 256, element_type=TensorProto.DOUBLE))
        self.module.unlink()
        self.assertIn("the model has f64[3,256], the file has Q4_K[3,256]", self.refuse(1, "--params-in", file, model=wrong))

    def test_blocks_stay_as_they_are_where_kernels_read_them(self):
        """A table of rows, which is the last matrix, too, and a matrix in other blocks."""
        for table_type, matrix_type in (("Q8_0", "Q4_K"), ("Q6_K", "Q5_K"), ("Q4_0", "Q8_0")):
            (table, rows), (matrix, columns) = random_blocks(table_type, 256, 1), random_blocks(matrix_type, 256, 2)
            file = self.folder / "w.gguf"
            tensors = [("table", BLOCKS[table_type][0], [3, 256], table), ("matrix", BLOCKS[matrix_type][0], [3, 256], matrix)]
            write_gguf(file, tensors)
            nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("Gemm", ["x", "matrix", "bias"], ["y"], transB=1),
                     helper.make_node("Transpose", ["table"], ["across"]), helper.make_node("MatMul", ["x", "across"], ["z"])]
            model = save(self.folder / "blocks.onnx", nodes, [info("ids", ["n"], TensorProto.INT64)], [info("y", ["n", 3]), info("z", ["n", 3])],
                         [absent("table", 3, 256), absent("matrix", 3, 256), numpy_helper.from_array(np.array([1, 2, 3], F32), "bias")])
            self.compile_with(model, "--params-in", file)
            shown = self.succeed("explain", self.module, "--full").stdout
            self.assertRegex(shown, fr"table +{table_type}\[3,256\]")
            self.assertRegex(shown, fr"matrix +{matrix_type}\[3,256\]")
            self.assertIn("no error", self.succeed("params", "verify", file, "--module", self.module).stdout)
            y, z = self.folder / "y.npy", self.folder / "z.npy"
            given = ("--input", f"ids=@{self.folder / 'ids.npy'}", "--params", file, "--output", f"y=@{y}", "--output", f"z=@{z}")
            # Files may have tensors at any multiple of 32.
            for ids, shift, mode, counter in (([2], 0, "mmap", "mapped"), ([0, -1], 32, "mmap", "mapped"), ([0, -1, 1, 2, 0, 1], 0, "file", "read")):
                write_gguf(file, tensors, text("general.architecture") + struct.pack("<I", 8) + text("a" * (4 + shift)), 1)
                np.save(self.folder / "ids.npy", np.array(ids, np.int64))
                ran = self.succeed("run", self.module, *given, "--statistics", "--param-mode", mode)
                self.assertRegex(ran.stdout + ran.stderr, fr'"bytes_{counter}": ?{len(table) + len(matrix)}\b')
                x = rows[ids]
                self.assertLess(np.max(np.abs(np.load(y) - (x @ columns.T + [1, 2, 3])) / (np.abs(x) @ np.abs(columns).T)), 1e-6)
                self.assertLess(np.max(np.abs(np.load(z) - x @ rows.T) / (np.abs(x) @ np.abs(rows).T)), 1e-6)
            # Of other blocks there is another module.
            write_gguf(file, [("table", BLOCKS["Q4_1"][0], [3, 256], random_blocks("Q4_1", 256)[0]), tensors[1]])
            error = self.fail_with(1, "run", self.module, *given).stderr
            self.assertIn(f"the module reads blocks of {table_type}[3,256], the file has Q4_1[3,256]; give a file with such blocks, or compile", error)
            self.assertRegex(heddle("params", "verify", file, "--module", self.module).stdout, fr"table +type +the module needs {table_type}\[3,256\]")
            write_gguf(file, tensors)
            self.compile_with(model, "--params-in", file, "--params-in-values")  # for files, and overlays, of any type
            self.assertRegex(self.succeed("explain", self.module, "--full").stdout, r"matrix +f32\[3,256\]")
            over = self.folder / "over.npz"
            np.savez(over, matrix=np.zeros((3, 256), F32))
            self.succeed("run", self.module, *given, "--params-over", over)
            self.assertTrue(np.all(np.load(y) == [1, 2, 3]))
            write_gguf(file, [("table", BLOCKS["Q4_1"][0], [3, 256], random_blocks("Q4_1", 256)[0]), tensors[1]])
            self.compile_with(model, "--params-in", file)  # kernels do not read Q4_1
            self.assertRegex(self.succeed("explain", self.module, "--full").stdout, r"table +f32\[3,256\]")
            self.succeed("run", self.module, *given)

    def test_files_without_types(self):
        file, w = self.folder / "a.irpa", np.arange(12, dtype=F32).reshape(3, 4)
        write_irpa(file, [("w", w.tobytes())])
        self.compile_with(self.products(absent("w", 3, 4)), "--params-in", file)
        self.assert_close(self.run_module(self.module, "x", np.ones((2, 3), F32), "--params", file), np.ones((2, 3), F32) @ w, 1e-6, 1e-6)
        self.module.unlink()
        self.assertIn("the model has f32[3,5], the file has u8[48]", self.refuse(1, "--params-in", file, model=self.products(absent("w", 3, 5))))

    def test_values_that_have_to_be_known_are_those_of_the_model(self):
        nodes = [helper.make_node("Mul", ["x", "w"], ["scaled"]), helper.make_node("Mul", ["scaled", "temperature"], ["hot"]),
                 helper.make_node("Reshape", ["hot", "shape"], ["y"])]
        known = [numpy_helper.from_array(np.array(value), name) for name, value in (("temperature", F32(2)), ("shape", np.array([3, 2], np.int64)))]
        file = self.npz("w.npz", w=np.full(6, 3, F32), temperature=F32(5), shape=np.array([6, 1], np.int64))
        model = save(self.folder / "known.onnx", nodes, [info("x", [6])], [info("y", [3, 2])], [absent("w", 6), *known])
        result = self.compile_with(model, "--params-in", file)
        self.assertRegex(result.stderr, "warning: tensor 'temperature' has the value of the model, not that of a file: .*it is a scalar")
        self.assertNotIn("'shape'", result.stderr)
        self.assertEqual(self.parameters(), {("", "w"): False})
        self.assertTrue(np.array_equal(self.run_module(self.module, "x", np.ones(6, F32), "--params", file), np.full((3, 2), 6, F32)))
        self.module.unlink()
        error = self.refuse(1, "--params-in", file, "--param-name", "temperature=w", model=model)
        self.assertIn("taking tensor 'temperature' from", error)
        self.assertIn("the compiler has to know its values, because it is a scalar", error)
        for tensor in known:
            external(tensor)
        for name, why in (("temperature", "it is a scalar"), ("shape", "it is a small tensor of integers")):
            kept = [tensor for tensor in known if tensor.name != name]
            fresh = [numpy_helper.from_array(np.array({"temperature": F32(2), "shape": np.array([3, 2], np.int64)}[one.name]), one.name) for one in kept]
            broken = save(self.folder / "broken.onnx", nodes, [info("x", [6])], [info("y", [3, 2])],
                          [absent("w", 6), *fresh, *(one for one in known if one.name == name)])
            error = self.refuse(1, "--params-in", file, model=broken)
            self.assertRegex(error, f"tensor '{name}' failed: .*No such file.*the compiler has to know its values, because {why}.*the model has to have")

    def test_scales_that_a_shape_depends_on_are_those_of_the_model(self):
        nodes = [helper.make_node("Mul", ["base", "twice"], ["scales"]), helper.make_node("Resize", ["x", "", "scales"], ["big"], mode="nearest"),
                 helper.make_node("Mul", ["big", "gain"], ["y"])]
        arrays = {"base": np.ones(4, F32), "twice": np.array([1, 1, 2, 3], F32), "gain": np.array([2], F32)}
        tensors = [numpy_helper.from_array(value, name) for name, value in arrays.items()]
        external(tensors[2])
        model = save(self.folder / "resize.onnx", nodes, [info("x", [1, 1, 2, 2])], [info("y", [1, 1, 4, 6])], tensors)
        file = self.npz("w.npz", **{**arrays, "twice": np.array([1, 1, 1, 1], F32)})
        self.assertIn("'twice' has the value of the model, not that of a file", self.compile_with(model, "--params-in", file).stderr)
        self.assertEqual(self.parameters(), {("", "gain"): False})
        self.assertEqual(self.run_module(self.module, "x", np.ones((1, 1, 2, 2), F32), "--params", file).shape, (1, 1, 4, 6))

    def test_a_zero_point_has_to_be_known(self):
        nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wide"]), helper.make_node("MatMul", ["x", "wide"], ["y"])]
        file = self.npz("w.npz", w=np.arange(12, dtype=np.int8).reshape(3, 4), scale=F32(0.5), zero=np.int8(2))
        absent_ones = [absent("w", 3, 4, element_type=TensorProto.INT8), absent("scale")]
        x, y = info("x", [2, 3]), info("y", [2, 4])
        model = save(self.folder / "zero.onnx", nodes, [x], [y], [*absent_ones, numpy_helper.from_array(np.array(np.int8(2)), "zero")])
        self.compile_with(model, "--params-in", file)
        expected = np.ones((2, 3), F32) @ ((np.arange(12).reshape(3, 4) - 2) * 0.5).astype(F32)
        self.assert_close(self.run_module(self.module, "x", np.ones((2, 3), F32), "--params", file), expected, 1e-6, 1e-6)
        self.module.unlink()
        broken = save(self.folder / "zero.onnx", nodes, [x], [y], [*absent_ones, absent("zero", element_type=TensorProto.INT8)])
        self.assertRegex(self.refuse(1, "--params-in", file, model=broken),
                         "reading tensor 'zero' failed: .*the compiler has to know whether a zero point is 0")

    def test_a_zero_point_of_a_symmetric_model_is_not_that_of_a_file(self):
        nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wide"]), helper.make_node("MatMul", ["x", "wide"], ["y"])]
        file = self.npz("w.npz", w=np.arange(12, dtype=np.int8).reshape(3, 4), scale=F32(0.5), zero=np.int8(2))
        model = save(self.folder / "zero.onnx", nodes, [info("x", [2, 3])], [info("y", [2, 4])],
                     [absent("w", 3, 4, element_type=TensorProto.INT8), absent("scale"), numpy_helper.from_array(np.array(np.int8(0)), "zero")])
        self.assertIn("warning: tensor 'zero' has the value of the model, not that of a file: the compiler has to know it, because the model's zero point is "
                      "0, so quantization is symmetric\n", self.compile_with(model, "--params-in", file).stderr)
        self.assertEqual(self.parameters(), {("", "w"): False, ("", "scale"): False})
        expected = np.ones((2, 3), F32) @ (np.arange(12, dtype=F32).reshape(3, 4) * F32(0.5))
        self.assert_close(self.run_module(self.module, "x", np.ones((2, 3), F32), "--params", file), expected, 1e-6, 1e-6)
        self.module.unlink()
        self.assertRegex(self.refuse(1, "--params-in", file, "--param-name", "zero=zero", model=model),
                         "taking tensor 'zero' from .* failed: the model's zero point is 0, so its quantization is symmetric for every file; remove its --param-name")

    def test_many_zero_points_are_counted(self):
        count, nodes, tensors, arrays = 7, [], [], {}
        for i in range(count):
            nodes += [helper.make_node("DequantizeLinear", [f"w{i}", f"scale{i}", f"zero{i}"], [f"wide{i}"]),
                      helper.make_node("MatMul", [f"x{i}" if i else "x", f"wide{i}"], [f"x{i + 1}" if i < count - 1 else "y"])]
            tensors += [absent(f"w{i}", 3, 3, element_type=TensorProto.INT8), absent(f"scale{i}"), numpy_helper.from_array(np.array(np.int8(0)), f"zero{i}")]
            arrays |= {f"w{i}": np.ones((3, 3), np.int8), f"scale{i}": F32(1), f"zero{i}": np.int8(0)}
        model = save(self.folder / "zeros.onnx", nodes, [info("x", [2, 3])], [info("y", [2, 3])], tensors)
        said = self.compile_with(model, "--params-in", self.npz("w.npz", **arrays)).stderr
        self.assertEqual(said.count("has the value of the model"), 4, said)
        self.assertIn("warning: 3 more tensors have the values of the model, not those of a file, because the model's zero point is 0", said)

    def test_a_name_that_would_have_no_effect_is_an_error(self):
        nodes = [helper.make_node("Constant", [], ["number"], value_float=2.0), helper.make_node("Constant", [], ["list"], value_ints=[1, 2]),
                 helper.make_node("Mul", ["x", "number"], ["t"]), helper.make_node("Cast", ["list"], ["floats"], to=TensorProto.FLOAT),
                 helper.make_node("Mul", ["t", "floats"], ["u"]), helper.make_node("Mul", ["u", "w"], ["y"])]
        model = save(self.folder / "numbers.onnx", nodes, [info("x", [2])], [info("y", [2])], [absent("w", 2)])
        file = self.npz("w.npz", w=np.ones(2, F32), number=F32(7), list=np.ones(2, np.int64))
        self.compile_with(model, "--params-in", file)
        self.assertEqual(self.run_module(self.module, "x", np.ones(2, F32), "--params", file).tolist(), [2, 4])
        self.module.unlink()
        for name in ("number", "list"):
            self.assertIn(f"the model stores no tensor '{name}'", self.refuse(2, "--params-in", file, "--param-name", f"{name}=w", model=model))

    def test_a_weight_can_stay_in_the_module(self):
        nodes = [helper.make_node("Mul", ["x", "v"], ["t"]), helper.make_node("Add", ["t", "w"], ["y"])]
        model = save(self.folder / "two.onnx", nodes, [info("x", [2])], [info("y", [2])],
                     [numpy_helper.from_array(np.full(2, 3, F32), "v"), numpy_helper.from_array(np.full(2, 4, F32), "w")])
        file = self.npz("w.npz", v=np.full(2, 7, F32), w=np.full(2, 5, F32))
        self.assertNotIn("warning", self.compile_with(model, "--params-in", file, "--param-name", "v=").stderr)
        self.assertEqual(self.run_module(self.module, "x", np.ones(2, F32), "--params", file).tolist(), [8, 8])
        self.module.unlink()
        self.assertIn("has another name already", self.refuse(2, "--params-in", file, "--param-name", "v=", "--param-name", "v=w", model=model))
        # One tensor for both, of which only one is named.
        said = self.compile_with(model, "--params-in", file, "--param-name", "v=w").stderr
        self.assertRegex(said, "warning: tensor 'w' of '.*w.npz' is both 'w' and 'v' of the model; --param-name 'w=' leaves 'w' in the module, "
                               "--param-name 'w=w' says that it is right\n")
        self.assertNotIn("warning", self.compile_with(model, "--params-in", file, "--param-name", "v=w", "--param-name", "w=w").stderr)
        self.assertEqual(self.run_module(self.module, "x", np.ones(2, F32), "--params", file).tolist(), [10, 10])

    def test_a_file_of_which_no_result_depends_is_said(self):
        model = save(self.folder / "dead.onnx", [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("Mul", ["x", "dead"], ["nowhere"])],
                     [info("x", [2])], [info("y", [2])], [absent("w", 2), absent("dead", 2)])
        one, two = self.npz("one.npz", w=np.ones(2, F32)), self.npz("two.npz", dead=np.ones(2, F32))
        said = self.compile_with(model, "--params-in", one, "--params-in", two).stderr
        self.assertRegex(said, "warning: parameter file '.*two.npz' is not used: no result of the model depends on the weights that it has\n")
        self.assertNotIn("one.npz' is not used", said)

    def test_no_output_overwrites_a_shard(self):
        arrays = {name: np.ones((3, 3), F32) for name in ("a", "b", "c")}
        index, model = self.shards(arrays), self.products(*(absent(name, 3, 3) for name in "abc"))
        shard = self.folder / "shard-1.safetensors"
        before = shard.read_bytes()
        for flags in (("--report", shard), ("--reproducer", shard), ("--dump-after", "canonicalize", "--dump-to", shard), ("--params-out", shard)):
            self.assertIn("would overwrite a shard of --params-in, '", self.refuse(2, "--params-in", index, *flags, model=model))
        self.assertIn("-o would overwrite a shard of --params-in", self.fail_with(2, "compile", model, "-o", shard, "--params-in", index).stderr)
        self.assertIn("-o would overwrite a shard of --params-in", self.fail_with(2, "tune", model, "-o", shard, "--params-in", index).stderr)
        self.compile_with(model, "--params-in", index)
        self.assertIn("-o would overwrite a shard of --params, '", self.fail_with(2, "tune", model, "-o", shard, "--params", index).stderr)
        x = self.folder / "x.npy"
        np.save(x, np.ones((2, 3), F32))
        self.compile_with(model, "--params-in", index)
        error = self.fail_with(2, "run", self.module, "--params", index, "--input", f"x=@{x}", "--output", f"@{shard}").stderr
        self.assertRegex(error, "--output @.* would overwrite a shard of --params, '")
        self.assertEqual(shard.read_bytes(), before)
        self.succeed("run", self.module, "--params", index, "--input", f"x=@{x}", "--output", f"@{self.folder / 'y.npy'}")

    def test_a_descriptor_is_a_file(self):
        w = np.arange(12, dtype=F32).reshape(3, 4)
        file, model = self.npz("w.npz", w=w), self.products(absent("w", 3, 4))
        with open(file, "rb") as opened:
            os.unlink(file)  # only the descriptor is left
            command = [heddle_path(), "compile", model, "-o", self.module, "--params-in", f"/dev/fd/{opened.fileno()}"]
            done = subprocess.run(command, env=environment(), stderr=subprocess.PIPE, text=True, pass_fds=[opened.fileno()])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.parameters(), {("", "w"): False})

    def test_warnings_are_printable(self):
        name = "\x1b[31mred\x07"
        model = save(self.folder / "red.onnx", [helper.make_node("Mul", ["x", name], ["t"]), helper.make_node("Mul", ["t", "w"], ["y"])], [info("x", [2])],
                     [info("y", [2])], [numpy_helper.from_array(np.array(F32(2)), name), absent("w", 2)])
        content = {name: F32(3), "w": np.ones(2, F32)}
        header, values, at = {}, b"", 0
        for one, value in content.items():
            data = np.asarray(value).tobytes()
            header[one] = {"dtype": "F32", "shape": list(np.shape(value)), "data_offsets": [at, at + len(data)]}
            values, at = values + data, at + len(data)
        text = json.dumps(header).encode()
        file = self.folder / "red.safetensors"
        file.write_bytes(len(text).to_bytes(8, "little") + text + values)
        said = self.compile_with(model, "--params-in", file).stderr
        self.assertRegex(said, r"warning: tensor '.*red.*' has the value of the model")
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\x07", said)

    def test_scopes_in_the_text_of_the_compiler(self):
        text = self.folder / "m.mlir"
        text.write_text("""func.func @main(%x: tensor<2xf32> {tx.name = "x"}) -> (tensor<2xf32> {tx.name = "y"}) {
  %a = tx.parameter "w" {scope = "a"} : tensor<2xf32>
  %b = tx.parameter "w" {scope = "derived.0"} : tensor<2xf32>
  %c = tx.parameter "derived.0" {scope = ""} : tensor<2xf32>
  %ab = tx.sub %a, %b : tensor<2xf32>
  %abc = tx.mul %ab, %c : tensor<2xf32>
  %y = tx.add %x, %abc : tensor<2xf32>
  return %y : tensor<2xf32>
}""")
        self.compile_with(text)
        self.assertEqual(self.parameters(), {("a", "w"): False, ("derived.0", "w"): False, ("", "derived.0"): False})
        files = [self.npz(f"{i}.npz", **{name: np.full(2, value, F32)}) for i, (name, value) in enumerate((("w", 5), ("w", 3), ("derived.0", 7)))]
        got = self.run_module(self.module, "x", np.ones(2, F32), "--params", f"a={files[0]}", "--params", f"derived.0={files[1]}", "--params", files[2])
        self.assertEqual(got.tolist(), [15, 15])
        problems = heddle("params", "verify", files[0], "--module", self.module, "--scope", "")
        self.assertRegex(problems.stdout, r"derived.0\s+missing\s+the module needs f32\[2\], the file has no tensor")
        self.assertNotIn("w ", problems.stdout.split("text\n")[1])

    def test_tuning_takes_the_same_flags(self):
        w = np.random.default_rng(5).standard_normal((640, 96)).astype(F32)
        file = self.npz("w.npz", w=w)
        model = save(self.folder / "layer.onnx", [helper.make_node("MatMul", ["x", "layer"], ["y"])], [info("x", [64, 96])], [info("y", [64, 640])],
                     [absent("layer", 96, 640)])
        flags = ("--params-in", f"s={file}", "--param-name", "layer=w:transposed")
        self.succeed("tune", model, "-o", self.folder / "choices.json", "--device", "cpu", "--seconds", "0.01", "--plans", "2", *flags)
        self.compile_with(model, *flags, "--tuned", self.folder / "choices.json")
        x = np.ones((64, 96), F32)
        self.assert_close(self.run_module(self.module, "x", x, "--params", f"s={file}"), x @ w.T, 1e-4, 1e-4)
        self.assertIn("would overwrite", self.fail_with(2, "tune", model, "-o", file, *flags).stderr)

    def test_a_large_file_takes_no_longer_than_a_small_one(self):
        """1,000 tensors of 100 MB in a sparse file, and external data that does not exist."""
        count, columns = 1000, 1024
        names = [f"w{i}" for i in range(count)]
        seen = {}
        for kind, rows in (("small", 1), ("large", 25_000)):
            size = rows * columns * 4
            header = json.dumps({name: {"dtype": "F32", "shape": [rows, columns], "data_offsets": [i * size, (i + 1) * size]}
                                 for i, name in enumerate(names)}).encode()
            file = self.folder / f"{kind}.safetensors"
            with open(file, "wb") as out:
                out.write(len(header).to_bytes(8, "little") + header)
                out.truncate(8 + len(header) + count * size)
            nodes = [helper.make_node("Gather", [name, "ids"], [f"g{i}"]) for i, name in enumerate(names)]
            nodes += [helper.make_node("Add", [f"s{i - 1}" if i > 1 else "g0", f"g{i}"], [f"s{i}"]) for i in range(1, count)]
            model = save(self.folder / f"{kind}.onnx", nodes, [info("ids", [1], TensorProto.INT64)], [info(f"s{count - 1}", [1, columns])],
                         [absent(name, rows, columns) for name in names])
            command = [heddle_path(), "compile", model, "-o", self.module, "--params-in", file, "--target", "cpu:x86-64-v3"]
            begin = time.monotonic()
            with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as child:
                said = child.stderr.read()
                _, status, used = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0, said)
            self.assertIn("1000 weights", said)
            seen[kind] = time.monotonic() - begin, used.ru_maxrss * 1024
        self.assertLess(seen["large"][0], 3 * seen["small"][0] + 5, seen)
        self.assertLess(seen["large"][1], 1.5 * seen["small"][1], seen)

    def test_mistakes(self):
        w = np.ones((3, 4), F32)
        self.model = self.products(absent("encoder.weight", 3, 4))
        good, other = self.npz("good.npz", **{"encoder.weight": w}), self.npz("other.npz", **{"encoder.wieght": w, "position": w})
        name = "--param-name"
        stored = self.folder / "stored.onnx"
        model = onnx.load(self.model, load_external_data=False)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "encoder.weight"))
        stored.write_bytes(model.SerializeToString())
        self.assertRegex(self.refuse(1, "--params-in", other, model=stored), "using parameter file .*other.npz' failed: no weight of the model is one of its 2 tensors; it has 'encoder.wieght', "
                                        "the model has 'encoder.weight'; --param-name 'encoder.weight=encoder.wieght' takes a tensor of another name")
        cases = [
            (1, ["--params-in", other], "No such file.*; no file has a tensor 'encoder.weight', but 'encoder.wieght'; --param-name "
                                        "'encoder.weight=encoder.wieght' takes a tensor of another name"),
            (1, ["--params-in", good, "--params-in", other], "other.npz' failed: no weight of the model is one of its 2 tensors"),
            (1, ["--params-in", self.folder / "none.npz"], "opening parameter file .*none.npz' failed: No such file or directory; check the path"),
            (1, ["--params-in", self.folder], "it is not a regular file; name a file of parameters"),
            (2, ["--params-in", f"{'s' * 70_000}={good}"], "its scope is not UTF-8 text of up to 65535 bytes"),
            (2, ["--params-in", "scope="], "parameter file 'scope=' is not possible: it is written SCOPE=FILE"),
            (1, ["--params-in", good, "--params-in", self.npz("copy.npz", **{"encoder.weight": w})],
             "both '.*good.npz' and '.*copy.npz' have a tensor 'encoder.weight'; name one of them"),
            (1, ["--params-in", f"a={good}", "--params-in", f"b={good}"],
             "of scope 'a' and .* of scope 'b' have a tensor 'encoder.weight'; select one, such as with --param-name 'encoder.weight=a=encoder.weight'"),
            (1, ["--params-in", self.npz("type.npz", **{"encoder.weight": w.astype(np.float16)})],
             r"taking tensor 'encoder.weight' from .*type.npz' failed: the model has f32\[3,4\], the file has f16\[3,4\]; convert the file with heddle params "
             r"convert --type f32"),
            (1, ["--params-in", self.npz("int.npz", **{"encoder.weight": w.astype(np.int8)})], r"the model has f32\[3,4\], the file has i8\[3,4\]; give"),
            (1, ["--params-in", self.npz("shape.npz", **{"encoder.weight": w[:2]})], r"the model has f32\[3,4\], the file has f32\[2,4\]; give the file"),
            (1, ["--params-in", self.npz("turned.npz", **{"encoder.weight": w.T.copy()})],
             r"has f32\[3,4\], the file has f32\[4,3\]; --param-name 'encoder.weight=encoder.weight:transposed' takes it transposed"),
            (2, ["--params-in", good, name, "encoder.wieght=encoder.weight"],
             "parameter name 'encoder.wieght=encoder.weight' is not possible: the model stores no tensor 'encoder.wieght'; did you mean 'encoder.weight'"),
            (2, ["--params-in", other, name, "encoder.weight=encoder.weight"], "no file has a tensor 'encoder.weight'; did you mean 'encoder.wieght'"),
            (2, ["--params-in", f"s={other}", name, "encoder.weight=s=postion"], "no file has a tensor 'postion'; did you mean 'position'"),
            (2, ["--params-in", good, name, "encoder.weight"], "is not possible: it is written MODEL_NAME=FILE_NAME"),
            (2, ["--params-in", good, name, "model.*=*"], "no file has a tensor for one of the model's; the model has 'encoder.weight'"),
            (2, ["--params-in", good, name, "encoder.*=w"], "no file has a tensor for one of the model's"),
            (2, [name, "encoder.weight=a"], "no file is given; name one with --params-in"),
            (2, ["--params-in", other, name, "encoder.weight=position", name, "encoder.weight=encoder.wieght"], "has another name already"),
            (1, ["--params-in", self.npz("cube.npz", w=w.reshape(1, 3, 4)), name, "encoder.weight=w:transposed"],
             r"the model has f32\[3,4\], transposed, the file has f32\[1,3,4\]"),
            (2, ["--params-in", good, "--params-out", good], "would overwrite"),
        ]
        for code, flags, text in cases:
            with self.subTest(flags=flags):
                self.assertRegex(self.refuse(code, *flags), text)
        # A weight that no file has, without values.
        self.model = self.products(absent("encoder.weight", 3, 4), absent("decoder.weight", 4, 5))
        self.assertRegex(self.refuse(1, "--params-in", good), "tensor 'decoder.weight' failed: .*No such file.*no file has a tensor 'decoder.weight', but "
                                                              "'encoder.weight'; --param-name 'decoder.weight=encoder.weight' takes")
        self.model = self.products(absent("encoder.weight", 3, 4), absent("large", 4, 50_000))
        self.assertRegex(self.refuse(1, "--params-in", good), "tensor 'large' of .* failed: .*No such file.*no file has a tensor 'large'; --param-name 'large=FILE_NAME' takes")
        # A shard that does not have what the index says.
        index = self.shards({"encoder.weight": w, "b": w, "c": w})
        self.succeed("params", "convert", self.npz("wrong.npz", v=w), "-o", self.folder / "shard-2.safetensors")
        self.model = self.products(absent("encoder.weight", 3, 4))
        self.assertRegex(self.refuse(1, "--params-in", index), "says that tensor 'encoder.weight' is in .*shard-2.safetensors', which does not have it")
        before = (self.folder / "shard-1.safetensors").read_bytes()
        index = self.shards({"encoder.weight": w, "b": w, "c": w})
        self.assertRegex(self.refuse(2, "--params-in", index, "--params-out", self.folder / "shard-1.safetensors"), "would overwrite a shard of --params-in")
        self.assertEqual((self.folder / "shard-1.safetensors").read_bytes(), before)
        text = self.folder / "m.mlir"
        text.write_text('func.func @main() -> tensor<2xf32> { %w = tx.parameter "w" {scope = "a"} : tensor<2xf32>\n return %w : tensor<2xf32> }')
        self.assertIn("parameter files are for ONNX models", self.refuse(1, "--params-in", good, model=text))


if __name__ == "__main__":
    unittest.main(verbosity=2)
