# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models as portable code on the driver of the SDK's template, which interprets it, against ONNX Runtime.

HEDDLE_TEST_ALL=1 runs all nine networks; by default one.
"""
import json
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, HeddleTestCase, REPOSITORY, TEST_ALL, TIMEOUT_S, environment, heddle, heddle_path
import light  # found through heddle_command
import transformer_layer_test as layers

TEMPLATE = heddle_path().parents[1] / "tests" / "template" / "driver" / "cpp" if heddle_path() else None
STREAMS = heddle_path().parents[1] / "tests" / "plugins.d" if heddle_path() else None
GRAPHS = 40


@unittest.skipUnless(TEMPLATE and (TEMPLATE / "libsample_driver.so").exists(), "SKIP: the template is not built")
class Portable(HeddleTestCase):
    def check(self, path, feeds, device="sample:0", **options):
        """Runs the model with these options of the driver, and returns the statistics of its device."""
        module = self.compile(path, "--target", "portable")
        got, given = self.folder / "got.npy", []
        for index, (name, array) in enumerate(feeds.items()):
            np.save(self.folder / f"{index}.npy", array)
            given += ["--input", f"{name}=@{self.folder / str(index)}.npy"]
        got.unlink(missing_ok=True)
        text = self.succeed("run", module, *given, "--output", f"@{got}", "--device", device, "--statistics",
                              extra_environment=self.with_options(options)).stderr
        expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        self.assert_close(np.load(got), expected, 1e-3, 1e-4 * float(np.abs(expected).max()))
        (found,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"] == device]
        return found["driver_counts"]

    def with_options(self, options, interpreted="allow"):
        config = self.folder / "heddle.toml"
        config.write_text(f'interpreted = "{interpreted}"\n[driver."org.example.sample"]\n' + "".join(f"{name} = {value}\n" for name, value in options.items()))
        return {"HEDDLE_PLUGIN_PATH": f"{TEMPLATE}:{STREAMS}", "HEDDLE_CONFIG": str(config)}

    def check_layer(self, layer):
        path, random = self.folder / "layer.onnx", np.random.default_rng(3)
        model = layer.build()
        onnx.save(model, path)
        shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
        feeds = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
        for device in ("sample:0", "streams:0"):
            self.check(path, feeds, device=device)

    def test_digits(self):
        for batch in (1, 5):
            self.check(DIGITS, {"image": np.random.default_rng(7).random((batch, 1, 8, 8), dtype=np.float32)})

    def test_memory_that_the_host_cannot_address(self):
        feeds = {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
        counts = self.check(DIGITS, feeds, host_access="true", own_kernels="false")
        self.assertEqual(counts["interpreted"], counts["dispatches"])
        self.assertGreater(counts["interpreted_ns"], 0)
        self.assertEqual(counts["interpreted_ns"], counts["kernel_ns"])
        self.assertEqual(counts["staged_bytes"], 0)
        counts = self.check(DIGITS, feeds, host_access="false", threads=2)
        self.assertGreater(counts["staged_bytes"], feeds["image"].nbytes)

    def test_memory_behind_streams(self):
        """Of the stream driver's backend on the host, in whose graphs and streams a kernel is interpreted like any other."""
        for batch in (1, 5):
            self.check(DIGITS, {"image": np.random.default_rng(7).random((batch, 1, 8, 8), dtype=np.float32)}, device="streams:0")

    def test_memory_between_nodes(self):
        """A softmax has a matrix between its nodes, which is a part of the call's arena: it is planned, reported, and limited."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], "softmax", [value("x", TensorProto.FLOAT, ["n", "n"])],
                                  [value("y", TensorProto.FLOAT, ["n", "n"])])
        between = 1000 * 1000 * 4 + 2 * 4032  # the matrix, and two vectors in multiples of 64 bytes
        self.check_arena(graph, (1000, 1000), [("streams:0", {}, between), ("sample:0", {"host_access": "false"}, between), ("sample:0", {}, between)])

    def test_lines_of_sorts(self):
        """Each thread keeps a line with its order in the arena, if it is long. Other devices have one compute unit."""
        value = helper.make_tensor_value_info

        def graph(rows, n):
            return helper.make_graph([helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=-1)], "sort", [value("x", TensorProto.FLOAT, [rows, n])],
                                     [value("y", TensorProto.FLOAT, [rows, 10]), value("i", TensorProto.INT64, [rows, 10])],
                                     [numpy_helper.from_array(np.array([10], np.int64), "k")])

        line = 20000 * (4 + 8 + 8)
        for rows, n in ((3, 20000), ("rows", "n")):
            self.check_arena(graph(rows, n), (3, 20000), [("sample:0", {"threads": 1}, line), ("sample:0", {"threads": 8}, 3 * line), ("streams:0", {}, line),
                                                          ("sample:0", {"threads": 2}, 2 * line)])
        self.check_arena(graph(3, 1000), (3, 1000), [("sample:0", {"threads": 8}, 0)])

    def check_arena(self, graph, shape, cases):
        """That results are right, and that the arena of a call has as many bytes as each case says: in the plan, in the device's pool, and for a limit."""
        path = self.folder / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        x = np.random.default_rng(5).standard_normal(shape, np.float32)
        module = self.folder / "model.heddle"
        given = [each.dim_param for each in graph.input[0].type.tensor_type.shape.dim]
        dims = [part for name, extent in dict(zip(given, shape)).items() if name for part in ("--dim", f"{name}={extent}")]
        run = ("run", module, "--input", f"x=f32[{shape[0]},{shape[1]}]=1", "--device")
        for device, options, expected in cases:
            with self.subTest(device=device, options=options):
                self.check(path, {"x": x}, device=device, **options)
                environment = self.with_options(options)
                shown = self.succeed("explain", module, "--memory", "--format", "json", "--device", device, *dims, extra_environment=environment)
                (place,) = json.loads(shown.stdout)["memory"][0]["programs"][0]["calls"][0]["places"]
                self.assertEqual(place["arena"], expected)
                text = self.succeed(*run, device, "--statistics", extra_environment=environment).stderr
                (found,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"] == device]
                held = {holder["owner"]: holder["requested"] for holder in found["pool"]["holders"]}
                self.assertEqual((held.get("intermediate values", 0), found["pool"]["requested"]), (expected, place["total"]))
        # For the last case, a limit that is just enough, and one below.
        config = self.folder / "heddle.toml"
        for limit, code in ((place["total"], 0), (place["total"] - 1, None)):
            config.write_text('interpreted = "allow"\n[driver."org.example.sample"]\n' + "".join(f"{name} = {value}\n" for name, value in options.items()) +
                              '[device.limited]\ndriver = "org.example.sample"\nselect = { ordinal = 0 }\n'
                              f'[device.limited.allocator]\nplugin = "heddle.limit"\nlimit = {limit}\nover = {{ plugin = "heddle.system" }}\n')
            ran = heddle(*run, "limited", extra_environment=environment)
            if code == 0:
                self.assertEqual(ran.code, 0, str(ran))
            else:
                self.assertNotEqual(ran.code, 0)
                self.assert_clear_error(ran)
                self.assertIn("limit", ran.stderr)

    def test_a_tensor_without_elements(self):
        """No place is in it, so all of the result is what is outside, as on the CPU."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Pad", ["x", "pads", "value"], ["y"])], "pad", [value("x", TensorProto.FLOAT, [0, 3])],
                                  [value("y", TensorProto.FLOAT, [3, 3])],
                                  [helper.make_tensor("pads", TensorProto.INT64, [4], [1, 0, 2, 0]), helper.make_tensor("value", TensorProto.FLOAT, [], [1.5])])
        path, got = self.folder / "pad.onnx", self.folder / "cpu.npy"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        self.check(path, {"x": np.zeros((0, 3), np.float32)})
        self.succeed("run", self.compile(path), "--input", f"x=@{self.folder / '0.npy'}", "--output", f"@{got}")
        np.testing.assert_array_equal(np.load(got), np.full((3, 3), 1.5, np.float32))

    def test_kernels_of_the_driver(self):
        """Products and convolutions run on the driver's kernel, and reports say so, before the first call too; the rest is interpreted."""
        feeds = {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
        counts = self.check(DIGITS, feeds, threads=1)
        self.assertLess(counts["interpreted_ns"], counts["kernel_ns"])
        module = self.compile(DIGITS, "--target", "portable")
        for own in (True, False):
            environment = self.with_options({"own_kernels": str(own).lower()})
            shown = json.loads(self.succeed("explain", module, "--route", "--device", "sample:0", "--format", "json", extra_environment=environment).stdout)
            parts = shown["route"]["portable"]
            by = {part["runs"] for part in parts}
            self.assertEqual(by, {"sample.convolution", "sample.product", "interpreted"} if own else {"interpreted"})
            self.assertTrue(all(part["why"] for part in parts), parts)
            self.assertTrue(all(part["what"].startswith("contract") for part in parts if part["runs"] != "interpreted"), parts)
            text = self.succeed("explain", module, "--route", "--device", "sample:0", extra_environment=environment).stdout
            self.assertIn("it is no contraction" if own else "the driver has no kernels of its own", text)

    def test_rules_choose_kernels_of_the_driver(self):
        """[[prefer]] orders them, region by region, with the same numbers."""
        module = self.compile(DIGITS, "--target", "portable")
        image = self.folder / "image.npy"
        np.save(image, np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32))

        def run(rules):
            environment = self.with_options({"threads": 1})
            config = self.folder / "heddle.toml"
            config.write_text(config.read_text() + rules)
            got = self.folder / "got.npy"
            text = self.succeed("run", module, "--input", f"image=@{image}", "--output", f"@{got}", "--device", "sample:0", "--statistics",
                                extra_environment=environment).stderr
            (device,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"] == "sample:0"]
            shown = json.loads(self.succeed("explain", module, "--route", "--device", "sample:0", "--format", "json", extra_environment=environment).stdout)
            regions = {region["region"]: region for region in shown["route"]["regions"]}
            return np.load(got), device["driver_counts"], regions

        expected, usual, regions = run("")
        self.assertLess(usual["interpreted"], usual["dispatches"])
        rule = '[[prefer]]\nop = "*.conv"\nuse = {}\n'
        got, counts, regions = run(rule.format('["interpreted"]'))
        self.assert_close(got, expected, 1e-4, 1e-4)
        convolutions = [region for name, region in regions.items() if name.split(" ")[0].endswith(".conv")]
        self.assertGreaterEqual(len(convolutions), 3)
        self.assertGreater(counts["interpreted"], usual["interpreted"])
        for region in convolutions:
            self.assertEqual(region["runs"], "interpreted")
            self.assertIn("[[prefer]] at", region["why"])
        text = self.succeed("explain", module, "--route", "--device", "sample:0", extra_environment={
            "HEDDLE_PLUGIN_PATH": str(TEMPLATE), "HEDDLE_CONFIG": str(self.folder / "heddle.toml")}).stdout
        self.assertIn(f"by [[prefer]], {len(convolutions)} regions are run by other kernels of the driver, or interpreted", text)
        got, counts, regions = run(rule.format('["driver:sample.product", "driver:sample.conv*", "interpreted"]'))
        self.assert_close(got, expected, 1e-4, 1e-4)
        self.assertEqual(counts["interpreted"], usual["interpreted"])
        for name, region in regions.items():
            if not name.split(" ")[0].endswith(".conv"):
                continue
            self.assertEqual(region["runs"], "driver:sample.conv*")
            self.assertIn("driver:sample.product: 'sample.convolution' is none of the kernels that may run it", region["passed"][0])
        config = self.folder / "heddle.toml"
        # What is ordered is not warned of, and still can be forbidden.
        every, call = '[[prefer]]\nop = "*"\nuse = ["interpreted"]\n', ("run", module, "--input", f"image=@{image}", "--device", "sample:0")
        environment = self.with_options({}, interpreted="warn")
        config.write_text(config.read_text() + every)
        self.assertNotIn("none of the kernels that may run it", self.succeed(*call, extra_environment=environment).stderr)
        environment = self.with_options({}, interpreted="forbid")
        config.write_text(config.read_text() + every)
        self.assertIn('interpreted = "forbid"', self.fail_with((1, 2, 3, 4), *call, extra_environment=environment).stderr)
        # A region for which nothing is left.
        environment = self.with_options({})
        config.write_text(config.read_text() + rule.format('["driver:acme.*"]'))
        failed = self.fail_with((1, 2, 3, 4), "run", module, "--input", f"image=@{image}", "--device", "sample:0", extra_environment=environment)
        self.assertIn("no entry of [[prefer]]", failed.stderr)
        self.assertIn("'sample.convolution' is none of the kernels that may run it, 'acme.*'", failed.stderr)

    def test_what_may_be_interpreted(self):
        module = self.compile(DIGITS, "--target", "portable")
        image = self.folder / "image.npy"
        np.save(image, np.zeros((1, 1, 8, 8), np.float32))
        run = ("run", module, "--input", f"image=@{image}", "--device", "sample:0")
        for rule, said in (("allow", False), ("warn", True)):
            result = self.succeed(*run, extra_environment=self.with_options({}, interpreted=rule))
            self.assertEqual("device 'sample:0' interprets" in result.stderr, said, result.stderr)
        refused = self.fail_with((1, 2, 3, 4, 5, 6), *run, extra_environment=self.with_options({}, interpreted="forbid"))
        self.assertIn("device 'sample:0' interprets", refused.stderr)
        self.assertIn('interpreted = "forbid" in heddle.toml', refused.stderr)
        # What is forbidden is listed all the same.
        listed = self.fail_with(refused.code, "explain", module, "--route", "--device", "sample:0", extra_environment=self.with_options({}, interpreted="forbid"))
        self.assertRegex(listed.stdout, r"k2_pool +sample:0 +fold +interpreted ")
        self.assertIn('interpreted = "forbid" in heddle.toml', listed.stderr)
        both = self.compile(DIGITS, "--target", "cpu,portable")
        self.succeed("run", both, "--input", f"image=@{image}", "--device", "cpu:0", extra_environment=self.with_options({}, interpreted="forbid"))

    def test_a_layer_of_bert(self):
        self.check_layer(layers.Layer())

    def test_a_layer_of_llama(self):
        self.check_layer(layers.LlamaLayer())

    def test_random_graphs(self):
        for seed, type_name in ((0, "float32"), (GRAPHS, "float64"), (2 * GRAPHS, "float16")):
            process = subprocess.run(
                [sys.executable, "-B", REPOSITORY / "tests" / "random_graphs" / "random_graphs.py", "--count", str(GRAPHS // 2), "--seed", str(seed), "--type", type_name,
                 "--target", "portable", "--device", "sample:0"],
                text=True, capture_output=True, timeout=TIMEOUT_S,
                env={**environment(), "HEDDLE_BIN": str(heddle_path().parent), "HEDDLE_PLUGIN_PATH": str(TEMPLATE)})
            self.assertEqual(process.returncode, 0, process.stdout[-4000:] + process.stderr[-4000:])

    def test_the_module_has_code_of_one_format(self):
        code = self.folder / "code"
        self.compile(DIGITS, "--target", "portable", "--dump-code", code)
        image, text = sorted(code.iterdir())
        self.assertEqual(image.read_bytes()[:9], b"HDLPORT\0\1")
        self.assertEqual(text.name, image.name + ".txt")
        self.assertRegex(text.read_text(), r"op [0-9]+: conv/1 of tensor [0-9]+, tensor [0-9]+, dilations = \[1, 1\], groups = 1, .* -> f32\[s0, 8, 8, 24\]\n")
        self.assertNotIn("array<", text.read_text())

    def test_names_agree(self):
        """What the compiler writes beside the nodes is proved for all ops of all nine networks."""
        for name in light.NAMES:
            code = self.folder / name
            self.compile(light.randomized(name), "--target", "portable", "--dump-code", code)
            head = next(code.glob("*.txt")).read_text().splitlines()[0]
            self.assertRegex(head, r"^names: [1-9][0-9]+ agree, 0 tested, 0 unknown, 0 disagree$", name)


def add_networks():
    for name in light.NAMES:
        def test(self, name=name):
            if name != "squeezenet" and not TEST_ALL:
                self.skipTest("SKIP: a long one; HEDDLE_TEST_ALL=1 runs it")
            self.check(light.randomized(name), {light.recorded(name)[0]: light.random_input(name)}, device="streams:0")
            for access in ("true", "false") if TEST_ALL else ("false",):
                self.check(light.randomized(name), {light.recorded(name)[0]: light.random_input(name)}, host_access=access)
        setattr(Portable, f"test_{name}", test)


add_networks()
