# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle compile --params-out`: every weight of a model is in the file, by its name in the model, and none is in the module. So another file of
the same names makes it another model, entirely."""
import json
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase
from transformer_layer_test import BATCH, HIDDEN, SEQUENCE, Layer

IMAGE = (2, 3, 12, 12)
WIDE = 2304  # a row of 8 or more is above the size from which weights always were outside


class Network:
    """A convolution with everything around it, dense layers, a quantized layer, and what exporters write between them."""

    def __init__(self, seed, is_trained=True):
        self.random = np.random.default_rng(seed)
        self.is_trained = is_trained  # else normalizations are as they are before training: ones and zeros
        self.nodes, self.weights, self.structure = [], {}, {}

    def node(self, operator, *inputs, **attributes):
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, name, *shape, start=0.0):
        self.weights[name] = (start + 0.3 * self.random.standard_normal(shape)).astype(np.float32)
        return name

    def known(self, name, value):
        """Part of the structure: the same for every file of weights."""
        self.structure[name] = np.asarray(value)
        return name

    def normalization(self, name, channels):
        names = []
        for part, start in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            full = self.weight(f"{name}.{part}", channels, start=start)
            self.weights[full] = np.abs(self.weights[full]) + np.float32(0.1) if part == "running_var" else self.weights[full]
            if not self.is_trained:
                self.weights[full] = np.full(channels, start, np.float32)
            names.append(full)
        return names

    def quantized(self, x, zero_point):
        """x in 8 bits and back, and a layer of 8 bits with a bias of 32."""
        w = self.weights
        w["act.scale"], w["act.zero_point"] = np.float32(self.random.uniform(0.02, 0.05)), np.uint8(zero_point)
        w["quantized.weight"] = self.random.integers(-128, 128, (16, 8), dtype=np.int8)
        w["quantized.scale"] = np.float32(self.random.uniform(0.01, 0.02))
        w["quantized.bias"] = self.random.integers(-500, 500, 8, dtype=np.int32)
        w["quantized.bias_scale"] = np.float32(self.random.uniform(0.0005, 0.001))
        self.known("quantized.zero_point", np.int8(0))
        act = ("act.scale", "act.zero_point")
        x = self.node("DequantizeLinear", self.node("QuantizeLinear", x, *act), *act)
        matrix = self.node("DequantizeLinear", "quantized.weight", "quantized.scale", "quantized.zero_point")
        bias = self.node("DequantizeLinear", "quantized.bias", "quantized.bias_scale")
        x = self.node("Add", self.node("MatMul", x, matrix), bias)
        w["asymmetric.weight"] = self.random.integers(0, 256, (8, 8), dtype=np.uint8)
        w["asymmetric.scale"], w["asymmetric.zero_point"] = np.float32(self.random.uniform(0.01, 0.02)), np.uint8(self.random.integers(100, 156))
        return self.node("MatMul", x, self.node("DequantizeLinear", "asymmetric.weight", "asymmetric.scale", "asymmetric.zero_point"))

    def build(self, path, zero_point):
        x = self.node("Conv", "image", self.weight("conv.weight", 8, 3, 3, 3), pads=[1, 1, 1, 1])
        x = self.node("BatchNormalization", x, *self.normalization("norm", 8), epsilon=1e-3)
        x = self.node("PRelu", x, self.weight("act.slope", 1))
        x = self.node("Conv", x, self.weight("depthwise.weight", 8, 1, 3, 3), self.weight("depthwise.bias", 8), group=8)
        x = self.node("Relu", x)
        x = self.node("Resize", x, "", self.known("scales", np.array([1, 1, 2, 2], np.float32)), mode="nearest",
                      coordinate_transformation_mode="asymmetric")
        x = self.node("Reshape", self.node("GlobalAveragePool", x), self.known("flat", np.array([-1, 8], np.int64)))
        x = self.node("Gemm", x, self.weight("wide.weight", WIDE, 8), self.weight("wide.bias", WIDE), transB=1)
        x = self.node("Mul", x, self.known("half", np.float32(0.5)))
        x = self.node("Gemm", x, self.weight("narrow.weight", WIDE, 16), self.weight("narrow.bias", 16))
        x = self.node("LayerNormalization", x, self.weight("last.weight", 16, start=1), self.weight("last.bias", 16), axis=-1)
        x = self.quantized(x, zero_point)
        offsets = numpy_helper.from_array(self.random.standard_normal(8).astype(np.float32), "")
        self.weights["offsets"] = numpy_helper.to_array(offsets)
        self.nodes.append(helper.make_node("Constant", [], ["offsets"], name="offsets", value=offsets))
        x = self.node("Add", x, "offsets")
        self.nodes.append(helper.make_node("Gemm", [x, self.weight("score.weight", 8, 1), self.weight("score.bias", 1)], ["score"]))
        stored = {**self.weights, **self.structure}
        del stored["offsets"]
        graph = helper.make_graph(self.nodes, "network", [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
                                  [helper.make_tensor_value_info("score", TensorProto.FLOAT, [IMAGE[0], 1])],
                                  [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()])
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path


class ParamsOut(HeddleTestCase):
    def network(self, name, seed, zero_point, is_trained=True):
        network = Network(seed, is_trained)
        return network, network.build(self.folder / f"{name}.onnx", zero_point)

    def compile_both(self, model):
        """The module with its weights inside, the one without, and the file of weights."""
        inside, outside, weights = (model.with_suffix(suffix) for suffix in (".inside.heddle", ".heddle", ".safetensors"))
        self.succeed("compile", model, "-o", inside)
        self.succeed("compile", model, "-o", outside, "--params-out", weights)
        return inside, outside, weights

    def listed(self, weights):
        rows = json.loads(self.succeed("params", "ls", weights, "--format", "json").stdout)["tensors"]
        for row in rows:  # else it could not be mapped
            self.assertTrue(row["bytes"] % 64 or not row["offset"] % 64, row)
        return {row["name"] for row in rows}

    def dispatches(self, module):
        told = json.loads(self.succeed("explain", module, "--format", "json").stdout)
        (program,) = told["functions"][0]["programs"]
        return sum(command["command"] == "dispatch" for command in program["commands"]), told["parameters"]

    def test_every_weight_is_in_the_file_by_its_name_and_none_in_the_module(self):
        network, model = self.network("model", 1, 3)
        inside, outside, weights = self.compile_both(model)
        self.assertEqual(self.listed(weights), set(network.weights))
        for name, value in network.weights.items():
            self.succeed("params", "extract", weights, name, "-o", self.folder / "one.npy")
            got = np.load(self.folder / "one.npy")
            self.assertEqual((got.dtype, got.shape), (value.dtype, value.shape), name)
            self.assertTrue(np.array_equal(got, value), name)
        dispatches, parameters = self.dispatches(outside)
        self.assertEqual({one["name"] for one in parameters}, set(network.weights))
        self.assertEqual([one["name"] for one in parameters if one["stored"]], [])
        # Long enough not to occur by chance; the other module shows that they would be found.
        telling = {name: value.tobytes() for name, value in network.weights.items() if value.nbytes >= 16}
        found = {module: {name for name, value in telling.items() if value in module.read_bytes()} for module in (inside, outside)}
        self.assertEqual(found, {inside: set(telling), outside: set()})
        self.assertEqual(dispatches, self.dispatches(inside)[0])

    def test_another_file_makes_it_another_model(self):
        image = np.random.default_rng(9).standard_normal(IMAGE).astype(np.float32)
        results, files = {}, {}
        for name, seed, zero_point, is_trained in (("first", 1, 0, False), ("second", 2, 7, True)):
            _, model = self.network(name, seed, zero_point, is_trained)
            inside, outside, weights = self.compile_both(model)
            files[name] = outside, weights
            results[name] = self.run_module(outside, "image", image, "--params", weights)
            self.assert_close(results[name], self.run_module(inside, "image", image), 1e-5, 1e-5)
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # else it multiplies integers
            expected, = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"image": image})
            self.assert_close(results[name], expected, 1e-3, 1e-3)
        self.assertGreater(np.abs(results["first"] - results["second"]).min(), 0.01)
        for module, weights in (("first", "second"), ("second", "first")):
            got = self.run_module(files[module][0], "image", image, "--params", files[weights][1])
            self.assertEqual(got.tobytes(), results[weights].tobytes(), f"{module}.heddle with the weights of {weights}")

    def test_a_transformer_layer_has_as_many_dispatches(self):
        layer = Layer()
        model = self.folder / "layer.onnx"
        onnx.save(layer.build(), model)
        inside, outside, weights = self.compile_both(model)
        expected = {tensor.name for tensor in layer.weights if tensor.dims and tensor.data_type == TensorProto.FLOAT}
        self.assertEqual(self.listed(weights), expected)
        self.assertEqual(self.dispatches(outside)[0], self.dispatches(inside)[0])
        values = {"x": (BATCH, SEQUENCE, HIDDEN), "mask": (BATCH, 1, 1, SEQUENCE)}
        given = []
        for name, shape in values.items():
            np.save(self.folder / f"{name}.npy", np.random.default_rng(3).standard_normal(shape).astype(np.float32))
            given += ["--input", f"{name}=@{self.folder / f'{name}.npy'}"]
        results = []
        for module, flags in ((inside, ()), (outside, ("--params", weights))):
            self.succeed("run", module, *given, "--output", f"@{self.folder / 'y.npy'}", *flags)
            results.append(np.load(self.folder / "y.npy"))
        self.assert_close(results[1], results[0], 1e-5, 1e-5)

    def test_numbers_that_shapes_depend_on_stay_in_the_module(self):
        """Scales of a Resize that are computed from a vector: no weight, although a float with a dimension."""
        nodes = [helper.make_node("Mul", ["base", "twice"], ["scales"]), helper.make_node("Resize", ["x", "", "scales"], ["big"], mode="nearest"),
                 helper.make_node("Mul", ["big", "gain"], ["y"])]
        tensors = [numpy_helper.from_array(value, name) for name, value in
                   (("base", np.array([1, 1, 1, 1], np.float32)), ("twice", np.array([1, 1, 2, 3], np.float32)),
                    ("gain", np.array([2], np.float32)))]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 1, 2, 2]), ("y", [1, 1, 4, 6]))]
        model = self.folder / "resize.onnx"
        onnx.save(helper.make_model(helper.make_graph(nodes, "resize", values[:1], values[1:], tensors), ir_version=8,
                                    opset_imports=[helper.make_opsetid("", 17)]), model)
        _, outside, weights = self.compile_both(model)
        self.assertEqual(self.listed(weights), {"gain"})
        x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
        got = self.run_module(outside, "x", x, "--params", weights)
        self.assertEqual(got.shape, (1, 1, 4, 6))
        self.assertEqual((got.min(), got.max()), (0, 6))


if __name__ == "__main__":
    unittest.main(verbosity=2)
