# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules with several slots: compiled with --place, run on several logical CPU devices and on test.streams, whose memory the host cannot
touch. Each is compared with ONNX Runtime and with the same model unplaced."""
import json
import os
import pathlib
import sys
import threading

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import CPU_AND_STREAMS, DIGITS, TEST_DRIVERS, HeddleTestCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import heddle_ctypes  # noqa: E402

DEVICES = CPU_AND_STREAMS + """
[device.two]
driver = "heddle.cpu"
select = { ordinal = 0 }
[device.three]
driver = "heddle.cpu"
select = { ordinal = 0 }
"""


def tensor(name, shape, element_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def call_from_threads(function, cases, in_flight, rounds):
    """One thread for each (input, expected) calls the function with `in_flight` calls at a time; returns what was wrong."""
    wrong = []

    def work(image, expected):
        try:
            call, results = function.prepare_many(in_flight, each=[(image,)] * in_flight)
            for _ in range(rounds):
                call()
                for result in results:
                    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-4 * float(np.abs(expected).max()))
        except Exception as error:  # of a thread: the test says it
            wrong.append(f"batch {len(image)}: {error}")

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def digits_cases():
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    images = [np.random.default_rng(batch).random((batch, 1, 8, 8), dtype=np.float32) for batch in (1, 5, 64, 5)]
    return [(image, session.run(None, {"image": image})[0]) for image in images]


class SlotsCase(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.config = self.folder / "heddle.toml"
        self.config.write_text(DEVICES)
        self.flags = ["--config", self.config, "--plugin-path", TEST_DRIVERS]

    def save(self, nodes, inputs, outputs, constants=None, name="model"):
        graph = helper.make_graph(nodes, name, inputs, outputs,
                                  [numpy_helper.from_array(value, key) for key, value in (constants or {}).items()])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
        onnx.checker.check_model(model)
        path = self.folder / f"{name}.onnx"
        onnx.save(model, path)
        return path

    def place(self, model, *places, flags=()):
        module = self.folder / "placed.heddle"
        self.succeed("compile", model, "-o", module, *(part for place in places for part in ("--place", place)), *flags)
        return module

    def call(self, module, inputs, outputs, *devices):
        arguments = []
        for name, value in inputs.items():
            np.save(self.folder / f"in-{name}.npy", value)
            arguments += ["--input", f"{name}=@{self.folder}/in-{name}.npy"]
        for name in outputs:
            arguments += ["--output", f"{name}=@{self.folder}/out-{name}.npy"]
        result = self.succeed("run", module, *arguments, "--statistics", *self.flags,
                              *(part for device in devices for part in ("--device", device)))
        self.statistics = json.loads(result.stderr[result.stderr.index("{"):])
        return [np.load(self.folder / f"out-{name}.npy") for name in outputs]

    def check(self, model, module, inputs, bindings, rtol=1e-5, atol=1e-6):
        """Runs the placed module on each of the bindings, and compares with ONNX Runtime and with the unplaced module."""
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        outputs = [output.name for output in session.get_outputs()]
        expected = session.run(outputs, inputs)
        plain = self.call(self.compile(model), inputs, outputs)
        for devices in bindings:
            with self.subTest(devices=devices):
                for got, unplaced, right in zip(self.call(module, inputs, outputs, *devices), plain, expected, strict=True):
                    scale = float(np.abs(right).max())
                    self.assert_close(got, right, rtol, atol * scale)
                    self.assert_close(got, unplaced, rtol, atol * scale)

    def places(self, module, *devices):
        bound = [part for device in devices for part in ("--device", device)]
        return json.loads(self.succeed("explain", module, "--format", "json", *self.flags, *bound).stdout)


TWO = [["one"], ["one", "@host=two"], ["gpu", "@host=one"], ["one", "@host=gpu"]]


class Digits(SlotsCase):
    IMAGES = np.random.default_rng(11).random((7, 1, 8, 8), dtype=np.float32)

    def test_a_host_operator_in_the_middle(self):
        module = self.place(DIGITS, "conv2=@host")
        self.check(DIGITS, module, {"image": self.IMAGES}, TWO)
        self.assertEqual(self.statistics["device_crossings"], 2)
        report = self.places(module, "gpu", "@host=one")
        self.assertEqual(report["slots"], ["", "@host"])
        by_node = {region["node"]: region for region in report["places"]["regions"] if region["region"].startswith("main")}
        self.assertEqual((by_node["conv2"]["slot"], by_node["conv2"]["device"], by_node["conv2"]["placed_by"]),
                         ("@host", "one", "--place 'conv2=@host'"))
        self.assertEqual((by_node["conv1"]["slot"], by_node["conv1"]["device"], by_node["conv1"]["placed_by"]),
                         ("default", "gpu", "default"))
        self.assertEqual([(one["from"], one["to"]) for one in report["places"]["transfers"]], [("default", "@host"), ("@host", "default")])
        refused = [one for one in report["compiler_report"]["not_fused"] if one["kind"] == "SlotBoundary"]
        self.assertIn("conv2", refused[0]["consumer"])
        text = self.succeed("explain", module, *self.flags, "--device", "gpu", "--device", "@host=one").stdout
        self.assertRegex(text, r"main\.\d+\.conv +conv2 +cpu, cpu +@host +one +--place 'conv2=@host'")

    def test_patterns_operators_and_the_last_one_that_fits(self):
        module = self.place(DIGITS, "*=@a", "op:MaxPool=@host", "{conv,norm,relu}3=default", "input:image=@host", "output:logits=default")
        self.check(DIGITS, module, {"image": self.IMAGES}, [["one", "@host=two", "@a=gpu"], ["default=gpu", "@host=one", "@a=two"]])
        report = self.places(module)
        self.assertEqual(report["slots"], ["", "@a", "@host"])
        function = report["functions"][0]
        self.assertEqual((function["arguments"][0]["slot"], function["results"][0]["slot"]), (2, 0))
        slots = {region["node"]: region["slot"] for region in report["places"]["regions"] if region["region"].startswith("main")}
        text = self.succeed("explain", module).stdout
        self.assertRegex(text, r"main\.\d+\.pool +pool1 +pooling +f32\[batch,4,4,32\] +@host +cpu +")
        self.assertRegex(text, r"  transfers  \d+: ")
        self.assertIn("arguments  image: f32[batch,1,8,8] on @host\n", text)
        self.assertIn("results    logits: f32[batch,10] on default\n", text)
        self.assertEqual((slots["conv1"], slots["pool1"], slots["conv3"], slots["hidden"]), ("@a", "@host", "default", "@a"))

    def test_everything_placed_leaves_no_default_slot(self):
        module = self.place(DIGITS, "*=@only")
        self.assertEqual(self.places(module)["slots"], ["@only"])
        self.check(DIGITS, module, {"image": self.IMAGES}, [[], ["@only=gpu"]])

    def test_routes_of_the_configuration_bind_slots(self):
        module = self.place(DIGITS, "conv2=@host")
        self.config.write_text(DEVICES + '[[route]]\nslot = "@host"\nto = ["two"]\n[[route]]\nslot = "default"\nto = ["gpu"]\n')
        self.check(DIGITS, module, {"image": self.IMAGES}, [[]])
        route = json.loads(self.succeed("explain", module, "--route", "--format", "json", *self.flags).stdout)["route"]
        self.assertEqual([slot["device"] for slot in route["slots"]], ["gpu", "two"])

    def test_a_restricted_slot_keeps_its_family(self):
        module = self.place(DIGITS, "op:MaxPool=@host", flags=["--target", "cpu,cuda", "--slot", "@host=cpu"])
        report = self.places(module)
        self.assertEqual([program["families"] for program in report["functions"][0]["programs"]], [["cpu", "cpu"], ["cuda", "cpu"]])
        self.assertEqual([program["families"] for program in report["initializer"]], [["cpu", "cpu"], ["cuda", "cpu"]])
        self.assertEqual([executable["name"] for executable in report["executables"]], ["cpu", "cuda"])
        self.check(DIGITS, module, {"image": self.IMAGES}, TWO)

    def test_without_a_restriction_all_slots_are_of_one_family(self):
        report = self.places(self.place(DIGITS, "op:MaxPool=@host", flags=["--target", "cpu,cuda"]))
        self.assertEqual([program["families"] for program in report["functions"][0]["programs"]], [["cpu", "cpu"], ["cuda", "cuda"]])

    def test_the_same_input_gives_the_same_bytes(self):
        flags = ["--target", "cpu,cuda", "--slot", "@host=cpu"]
        first = self.place(DIGITS, "op:MaxPool=@host", "conv3=@b", flags=flags).read_bytes()
        self.assertEqual(self.place(DIGITS, "op:MaxPool=@host", "conv3=@b", flags=[*flags, "--annotate-affinity"]).read_bytes(), first)

    def test_affinities_are_printed(self):
        out = self.succeed("compile", DIGITS, "-o", self.folder / "m.heddle", "--place", "pool1=@host", "--annotate-affinity").stdout
        self.assertIn("tx.pool 'pool1': operands @host, result @host, decided by --place 'pool1=@host'", out)
        self.assertRegex(out, r"\d+ of \d+ ops have no placement and are on the default slot; the first is tx.transpose 'conv1'")
        self.assertIn("result 0: on default, decided by tx.add 'logits'", out)


class Threads(SlotsCase):
    def test_calls_in_flight_from_four_threads(self):
        if os.environ.get("HEDDLE_SANITIZE"):
            self.skipTest("SKIP: Python does not load a library that is built with a sanitizer")
        module = self.place(DIGITS, "conv2=@host", "pool2=@b")
        runtime = heddle_ctypes.Runtime(DEVICES + f'[plugins]\npaths = ["{TEST_DRIVERS}"]\n')
        for devices in ({"": "one", "@host": "two", "@b": "three"}, {"": "gpu", "@host": "one", "@b": "one"}):
            function = runtime.open(module).instance(devices).function()
            self.assertEqual(call_from_threads(function, digits_cases(), in_flight=4, rounds=20), [])


class Branches(SlotsCase):
    """A net with residuals, branches that meet, a parameter and constants that several slots use, and a symbolic batch."""

    CONSTANTS_SEED = 21

    def model(self):
        rng = np.random.default_rng(self.CONSTANTS_SEED)

        def weight(*shape):
            return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

        constants = {"w0": weight(16, 3, 3, 3), "w1": weight(16, 16, 3, 3), "w2": weight(16, 16, 1, 1), "b": weight(16, 1)[:, 0],
                     "w3": weight(64, 272).T.copy(), "scale": weight(16, 1)[:, 0], "zero": np.zeros(16, np.float32),
                     "one": np.ones(16, np.float32), "half": np.array(0.5, np.float32), "wide": np.full((1, 16, 8, 8), 0.25, np.float32)}
        nodes = []

        def node(op, *inputs, **attributes):
            name = f"n{len(nodes)}_{op}"
            nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
            return name

        same = dict(pads=[1, 1, 1, 1])
        x = node("Relu", node("Conv", "x", "w0", "b", **same))
        y = node("Add", x, node("Conv", x, "w1", "b", **same))
        z = node("Relu", node("Conv", y, "w1", "b", **same))  # the filter of the one before
        z = node("BatchNormalization", z, "scale", "b", "zero", "one")
        z = node("Mul", node("Add", z, y), "half")
        left = node("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2])
        right = node("Conv", node("AveragePool", z, kernel_shape=[2, 2], strides=[2, 2]), "w2")
        both = node("Concat", left, node("Sigmoid", right), axis=1)
        both = node("Concat", node("Flatten", both), node("Flatten", node("GlobalAveragePool", node("Sub", x, "wide"))), axis=1)
        both = node("Slice", both, "starts", "ends", "axes")
        logits = node("MatMul", both, "w3")
        nodes.append(helper.make_node("Softmax", [node("Add", logits, node("Mul", logits, "half"))], ["p"], name="last"))
        constants |= {"starts": np.array([0]), "ends": np.array([272]), "axes": np.array([1])}
        nodes.append(helper.make_node("Identity", ["x"], ["same"], name="identity"))
        nodes.append(helper.make_node("Neg", [z], ["negative"], name="neg"))
        return nodes, self.save(nodes, [tensor("x", ["batch", 3, 8, 8])],
                                [tensor("p", ["batch", 64]), tensor("same", ["batch", 3, 8, 8]), tensor("negative", ["batch", 16, 8, 8])],
                                constants)

    def images(self, batch):
        return {"x": np.random.default_rng(batch).standard_normal((batch, 3, 8, 8), dtype=np.float32)}

    def test_round_robin_over_three_slots(self):
        nodes, model = self.model()
        slots = ("default", "@a", "@b")
        module = self.place(model, *(f"{node.name}={slots[i % 3]}" for i, node in enumerate(nodes)))
        bindings = [["one"], ["one", "@a=two", "@b=three"], ["gpu", "@a=one", "@b=two"], ["one", "@a=gpu", "@b=gpu"], ["two", "@a=gpu", "@b=one"]]
        self.check(model, module, self.images(3), bindings)
        self.check(model, module, self.images(1), bindings[1:3])
        # an identity on one slot, of an argument on another, costs nothing but what the caller sees
        self.check(model, module, self.images(16), bindings[2:4])

    def test_random_placements(self):
        nodes, model = self.model()
        for seed in range(4):
            slots = np.random.default_rng(seed).choice(["default", "@a", "@b", "@c"], len(nodes))
            ends = [f"input:x={slots[0]}", f"output:p={slots[1]}", f"output:same={slots[2]}", f"output:negative={slots[3]}"]
            module = self.place(model, *(f"{node.name}={slot}" for node, slot in zip(nodes, slots)), *ends)
            with self.subTest(seed=seed):
                self.check(model, module, self.images(2), [["one", "@a=two", "@b=gpu", "@c=three"], ["gpu", "@a=gpu", "@b=one", "@c=one"]])

    def test_parameters_are_stored_once_and_loaded_for_each_slot(self):
        rng = np.random.default_rng(5)
        constants = {"w": (rng.standard_normal((192, 192)) / 14).astype(np.float32), "table": rng.standard_normal((200, 192)).astype(np.float32),
                     "i": np.array([3, 150], np.int64)}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"), helper.make_node("MatMul", ["h", "w"], ["y"], name="second"),
                 helper.make_node("Gather", ["table", "k"], ["t"], name="near"), helper.make_node("Gather", ["table", "k"], ["u"], name="far"),
                 helper.make_node("Add", ["t", "u"], ["v"], name="sum")]
        model = self.save(nodes, [tensor("x", ["n", 192]), tensor("k", [2], TensorProto.INT64)], [tensor("y", ["n", 192]), tensor("v", [2, 192])],
                          {key: constants[key] for key in ("w", "table")})
        weights = self.folder / "weights.safetensors"
        module = self.place(model, "second=@b", "far=@b", flags=["--params-out", weights])
        report = self.places(module)
        self.assertEqual(sorted(parameter["name"] for parameter in report["parameters"]), ["table", "w"])
        used = [(one["name"], one["slot"]) for one in report["globals"] if one["kind"] == "parameter"]
        self.assertEqual(sorted(used), [("table", 0), ("table", 1), ("w", 0), ("w", 1)])
        self.assertLess(weights.stat().st_size, 192 * 192 * 4 + 200 * 192 * 4 + 4096)
        self.flags += ["--params", weights]
        inputs = {"x": rng.standard_normal((5, 192), dtype=np.float32), "k": constants["i"]}
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        for devices in (["one", "@b=two"], ["gpu", "@b=one"], ["one"]):
            for got, right in zip(self.call(module, inputs, ["y", "v"], *devices), session.run(["y", "v"], inputs)):
                self.assert_close(got, right, 1e-4, 1e-4)


class SmallGraphs(SlotsCase):
    def test_a_value_that_three_slots_use_and_an_argument_that_is_returned(self):
        nodes = [helper.make_node("Exp", ["x"], ["e"], name="e"), helper.make_node("Neg", ["e"], ["a"], name="a"),
                 helper.make_node("Sqrt", ["e"], ["b"], name="b"), helper.make_node("Abs", ["e"], ["c"], name="c"),
                 helper.make_node("Tanh", ["e"], ["d"], name="d"), helper.make_node("Identity", ["x"], ["back"], name="i"),
                 helper.make_node("Identity", ["a"], ["again"], name="j")]
        model = self.save(nodes, [tensor("x", ["n"])], [tensor(name, ["n"]) for name in ("e", "a", "b", "c", "d", "back", "again")])
        module = self.place(model, "a=@a", "b=@b", "c=@c", "d=@b", "output:again=@c", "output:e=@b")
        report = self.places(module)
        transfers = sorted((one["from"], one["to"], one["node"]) for one in report["places"]["transfers"])
        self.assertEqual(transfers, [("@a", "@c", "a"), ("default", "@a", "e"), ("default", "@b", "e"), ("default", "@c", "e")])
        self.assertEqual([result["slot"] for result in report["functions"][0]["results"]], [2, 1, 2, 3, 2, 0, 3])
        for count in (1, 1000):
            self.check(model, module, {"x": np.linspace(0, 2, count, dtype=np.float32)},
                       [["one"], ["one", "@a=two", "@b=three", "@c=gpu"], ["gpu", "@a=one", "@b=two", "@c=gpu"]])

    def test_constants_that_are_returned(self):
        constants = {"small": np.arange(6, dtype=np.float32), "zeros": np.zeros((64, 64), np.float32)}
        nodes = [helper.make_node("Add", ["x", "zeros"], ["y"], name="add"), helper.make_node("Sub", ["y", "zeros"], ["z"], name="sub"),
                 helper.make_node("Identity", ["small"], ["s"], name="i"), helper.make_node("Identity", ["zeros"], ["o"], name="j")]
        model = self.save(nodes, [tensor("x", [64, 64])], [tensor("z", [64, 64]), tensor("s", [6]), tensor("o", [64, 64])], constants)
        module = self.place(model, "sub=@a", "output:s=@a", "output:o=@a")
        self.check(model, module, {"x": np.random.default_rng(3).random((64, 64), dtype=np.float32)}, [["one", "@a=gpu"], ["gpu", "@a=one"]])

    def test_text_with_attributes(self):
        model = self.folder / "text.mlir"
        model.write_text("""
            func.func @main(%x: tensor<4x8xf32> {tx.name = "x"}) -> (tensor<4x8xf32> {tx.name = "y", heddle.affinity = "default"}) {
              %0 = tx.exp %x {place = "@a"} : tensor<4x8xf32>
              %1 = tx.softmax %0 {axis = 1} : tensor<4x8xf32> loc("middle")
              %2 = tx.neg %1 {place = "@a"} : tensor<4x8xf32>
              return %2 : tensor<4x8xf32>
            }""")
        x = np.random.default_rng(1).random((4, 8), dtype=np.float32)
        exp = np.exp(x)
        expected = -np.exp(exp) / np.exp(exp).sum(axis=1, keepdims=True)
        for places, slots in (((), ["", "@a"]), (("middle=@b", "input:x=@b"), ["", "@a", "@b"]), (("op:softmax=@a",), ["", "@a"])):
            module = self.place(model, *places)
            report = self.places(module)
            self.assertEqual(report["slots"], slots)
            self.assertEqual(report["functions"][0]["results"][0]["slot"], 0)
            devices = ["one", "@a=gpu", "@b=two"][:len(slots)]
            self.assert_close(self.call(module, {"x": x}, ["y"], *devices)[0], expected, 1e-5, 1e-6)


class Refused(SlotsCase):
    def refused(self, *flags, model=DIGITS):
        module = self.folder / "none.heddle"
        error = self.fail_with(2, "compile", model, "-o", module, *flags).stderr
        self.assertFalse(module.exists())
        return error

    def test_patterns_that_fit_nothing_name_what_is_near(self):
        self.assertRegex(self.refused("--place", "covn2=@a"), r"'covn2=@a' matches no node of the model; the nearest names are .*'conv2'")
        self.assertRegex(self.refused("--place", "op:MaxPol=@a"), r"matches no operator .*'op:MaxPool'")
        self.assertRegex(self.refused("--place", "MaxPool=@a"), r"matches no node .*'op:MaxPool'")
        self.assertRegex(self.refused("--place", "input:img=@a"), r"matches no input .*'input:image'")
        self.assertRegex(self.refused("--place", "output:image=@a"), r"matches no output .*'output:logits'")
        self.assertIn("'conv9=@a'", self.refused("--place", "conv1=@a", "--place", "conv9=@a"))

    def test_patterns_that_are_none(self):
        for text in ("conv1", "=@a", "conv1=", "conv[1=@a", "conv1=host", "conv1=@", "conv1=@a b", "op:=@a", "{" + "a," * 2000 + "b}=@a"):
            with self.subTest(text=text):
                self.assertIn(f"placement '{text}'", self.refused("--place", text))
        self.assertIn("not UTF-8", self.refused("--place", "conv\udcff=@a"))

    def test_slots_that_cannot_be_restricted(self):
        self.assertRegex(self.refused("--place", "conv1=@a", "--slot", "@b=cpu"), "nothing is placed on @b; the slots are default, @a")
        self.assertRegex(self.refused("--slot", "@a=cpu"), "nothing is placed on @a; the slots are default")
        self.assertRegex(self.refused("--place", "conv1=@a", "--slot", "@a=cuda"), "no target is of family 'cuda'; the targets are of cpu")
        self.assertRegex(self.refused("--place", "conv1=@a", "--slot", "@a"), "it is written @slot=family")
        twice = ("--place", "conv1=@a", "--target", "cpu,cuda", "--slot", "@a=cpu", "--slot", "@a=cuda")
        self.assertRegex(self.refused(*twice), "@a is restricted to 'cpu' already")

    def test_more_slots_than_a_module_has(self):
        nodes = [helper.make_node("Neg", ["x"], [f"y{i}"], name=f"n{i}") for i in range(65)]
        model = self.save(nodes, [tensor("x", [4])], [tensor(f"y{i}", [4]) for i in range(65)])
        places = [part for i in range(65) for part in ("--place", f"n{i}=@s{i}")]
        error = self.fail_with(1, "compile", model, "-o", self.folder / "none.heddle", *places).stderr
        self.assertIn("65 slots; a module has at most 64", error)

    def test_a_slot_that_the_module_does_not_have(self):
        module = self.place(DIGITS, "conv2=@host")
        call = ["run", module, "--input", "image=f32[1,1,8,8]=1", "--device", "@hots=one", *self.flags]
        self.assertIn("it has default, @host", self.fail_with(2, *call).stderr)
        self.assertIn("bound twice", self.fail_with(2, *call[:4], "--device", "one", "--device", "default=two", *self.flags).stderr)

    def test_a_combination_that_was_not_compiled(self):
        module = self.place(DIGITS, "conv2=@host", flags=["--target", "cpu,cuda", "--slot", "@host=cuda"])
        call = ["run", module, "--input", "image=f32[1,1,8,8]=1", "--device", "one", "--device", "@host=two", *self.flags]
        self.assertIn("no program for 'cpu,cpu'", self.fail_with(4, *call).stderr)
