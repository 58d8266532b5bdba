# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle explain --memory` against what `heddle run --statistics` says that it took, the text of
`heddle explain`, and `heddle run --param-mode`."""
import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import CPU_AND_STREAMS, DIGITS, TEST_DRIVERS, HeddleTestCase, heddle

DEVICES = CPU_AND_STREAMS + 'allocator = { plugin = "heddle.track" }\n'


def mul_chain(path, rows="n", name="model", nodes=("first", "second"), graph_input="x"):
    """Two matrix products: parameters, packed weights, and a value between."""
    random = np.random.default_rng(3)
    weights = [random.standard_normal(shape).astype(np.float32) for shape in ((512, 256), (256, 256))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [graph_input, "w0"], ["between"], name=nodes[0]), helper.make_node("MatMul", ["between", "w1"], ["y"], name=nodes[1])],
        name, [helper.make_tensor_value_info(graph_input, TensorProto.FLOAT, [rows, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 256])], [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def convolutions(path):
    """1x1 convolutions with normalizations, whose weights of 2 to 8 MiB are folded and packed in several parts of the initializer."""
    random = np.random.default_rng(3)
    nodes, initializers, value, channels = [], [], "x", 512
    for i, out in enumerate((1024, 2048, 1024)):
        initializers.append(numpy_helper.from_array(random.standard_normal((out, channels, 1, 1)).astype(np.float32), f"w{i}"))
        names = [f"{kind}{i}" for kind in ("scale", "bias", "mean", "variance")]
        initializers += [numpy_helper.from_array(np.abs(random.standard_normal(out)).astype(np.float32), name) for name in names]
        nodes += [helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"]), helper.make_node("BatchNormalization", [f"c{i}", *names], [f"n{i}"])]
        value, channels = f"n{i}", out
    graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 512, 7, 7])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, channels, 7, 7])], initializers)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


class ExplainCase(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.config = self.folder / "heddle.toml"
        self.config.write_text(DEVICES)
        self.flags = ["--config", self.config, "--plugin-path", TEST_DRIVERS]

    def explain(self, module, *flags):
        return json.loads(self.succeed("explain", module, "--format", "json", *flags).stdout)


class MemoryTest(ExplainCase):
    def check(self, module, bindings, inputs, dims):
        """What is said for each of the dims is what a process of its own takes."""
        bound = [part for binding in bindings for part in ("--device", binding)]
        told = self.explain(module, "--memory", *self.flags, *bound, *dims)["memory"][0]
        self.assertTrue(told["bound"])
        program = told["programs"][0]
        self.assertEqual(len(program["calls"]), len(inputs))
        for call, given in zip(program["calls"], inputs, strict=True):
            self.assertEqual(call["not_counted"], [])
            run = self.succeed("run", module, *self.flags, *bound, *given, "--statistics")
            devices = {device["device"]: device["pool"] for device in json.loads(run.stderr[run.stderr.index("{"):])["devices"]}
            self.assertEqual(set(devices), {place["place"] for place in program["places"]})
            for place, needs in zip(program["places"], call["places"], strict=True):
                pool = devices[place["place"]]
                held = {holder["owner"]: holder["requested"] for holder in pool["holders"]}
                self.assertEqual(held.get("weights", 0), place["parameters"])
                self.assertEqual(held.get("constants and state", 0), place["constants"] + place["derived"] + place["state"])
                self.assertEqual(held.get("intermediate values", 0), needs["arena"])
                self.assertEqual(pool["requested"], needs["total"])
                self.assertEqual(pool["peak_requested"], needs["peak"])
        return told

    def test_a_network_needs_what_it_takes(self):
        module = self.compile(DIGITS)
        inputs = [["--input", f"image=f32[{batch},1,8,8]=0.5"] for batch in (1, 7, 64)]
        for device in ("one", "gpu"):
            with self.subTest(device=device):
                self.check(module, [device], inputs, ["--dim", "batch=1,7,64"])

    def test_an_overwritten_input_needs_what_it_takes(self):
        """Donated or not; the statistics of a run are those of one call."""
        nodes = [helper.make_node("Tanh", ["w"], ["a"]), helper.make_node("Sin", ["a"], ["b"]), helper.make_node("Add", ["b", "x"], ["nw"]),
                 helper.make_node("MatMul", ["nw", "nw"], ["y"])]
        types = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (256, 256)) for name in ("w", "x", "nw", "y")}
        graph = helper.make_graph(nodes, "model", [types["w"], types["x"]], [types["nw"], types["y"]])
        model, module = self.folder / "model.onnx", self.folder / "model.heddle"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
        inputs = [f"--input={name}=f32[256,256]=0.5" for name in ("w", "x")]
        bound = ["--device", "one", *self.flags]
        self.succeed("compile", model, "-o", module)
        expected = self.succeed("run", module, *inputs).stdout
        for flags, donated, copied in ((["--alias", "w=nw"], ["w"], 1), (["--alias", "w=nw", "--donate", "x"], ["w", "x"], 2),
                                       (["--donate", "w"], ["w"], 1), ([], ["x"], 0)):
            self.succeed("compile", model, "-o", module, *flags)
            needs = self.explain(module, "--memory", *bound)["memory"][0]["programs"][0]["calls"][0]["places"][0]
            self.assertEqual(needs["copies"], copied * 4 * 256 * 256, flags)
            for names, peak in ((donated, needs["total"]), ([], needs["total"] + needs["copies"])):
                run = self.succeed("run", module, *bound, *inputs, *(f"--donate={name}" for name in names), "--statistics")
                self.assertEqual(run.stdout, expected)
                (device,) = json.loads(run.stderr[run.stderr.index("{"):])["devices"]
                self.assertEqual(device["pool"]["peak_requested"], peak, (flags, names))
                self.assertEqual("saved nothing: its 262144 bytes" in run.stderr, bool(names) and copied == 0)
            text = self.succeed("explain", module, "--memory", *bound).stdout
            self.assertEqual("total, not donated" in text, copied != 0)
            self.assertEqual("not donated: a call copies them first" in text, copied != 0)
        self.assertIn("--donate: there is no input 'q'; the function has w: f32[256,256], x", self.fail_with(2, "run", module, *inputs, "--donate=q").stderr)

    def test_values_take_the_place_of_an_argument_that_is_no_longer_read(self):
        """Between four products: one of two large values is in the memory of x, and small ones that live at the same time share it."""
        random = np.random.default_rng(5)
        weights = [numpy_helper.from_array(random.standard_normal((256, 256)).astype(np.float32) / 16, f"w{i}") for i in range(6)]
        nodes = [helper.make_node("MatMul", ["x", "w0"], ["h0"]), *(helper.make_node("MatMul", [f"h{i}", f"w{i + 1}"], [f"h{i + 1}"]) for i in range(3)),
                 helper.make_node("Slice", ["h3", "zero", "quarter"], ["part"]), helper.make_node("Slice", ["h3", "quarter", "half"], ["other"]),
                 helper.make_node("MatMul", ["part", "w4"], ["p"]), helper.make_node("MatMul", ["other", "w4"], ["q"]),
                 helper.make_node("MatMul", ["p", "w5"], ["y0"]), helper.make_node("MatMul", ["q", "w5"], ["y1"])]
        places = [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in (("zero", 0), ("quarter", 64), ("half", 128))]
        graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (256, 256))],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, (64, 256)) for name in ("y0", "y1")], weights + places)
        model, module = self.folder / "model.onnx", self.folder / "model.heddle"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
        np.save(self.folder / "x.npy", random.standard_normal((256, 256)).astype(np.float32))
        bound, given = ["--device", "one", *self.flags], f"--input=x=@{self.folder / 'x.npy'}"
        arenas, printed = [], []
        for flags in ([], ["--donate", "x"]):
            self.succeed("compile", model, "-o", module, *flags)
            arenas.append(self.explain(module, "--memory", *bound)["memory"][0]["programs"][0]["calls"][0]["places"][0]["arena"])
            for donated in ([], ["--donate=x"]) if flags else ([],):
                run = self.succeed("run", module, *bound, given, *donated, "--statistics")
                printed.append(run.stdout)
                (device,) = json.loads(run.stderr[run.stderr.index("{"):])["devices"]
                held = {holder["owner"]: holder["peak_requested"] for holder in device["pool"]["holders"]}
                self.assertEqual(held.get("intermediate values", 0), arenas[-1])
        self.assertEqual(arenas, [2 * 4 * 256 * 256, 4 * 256 * 256])
        self.assertEqual(set(printed), {printed[0]})

    def test_values_of_an_initializer_in_parts_share_memory(self):
        module = self.compile(convolutions(self.folder / "model.onnx"))
        told = self.check(module, ["one"], [["--input", "x=f32[1,512,7,7]=1", "--values", "1", "--param-mode", "file"]], [])
        place = told["programs"][0]["places"][0]
        # The largest weight as it is stored, transposed, and scaled: what one part computes is in the memory of what earlier parts computed.
        self.assertLess(place["peak_at_load"] - place["weights"], 3.1 * 2048 * 1024 * 4)
        mapped = self.succeed("run", module, *self.flags, "--device", "one", "--input", "x=f32[1,512,7,7]=1", "--values", "1", "--statistics",
                              "--param-mode", "mmap").stderr
        statistics = json.loads(mapped[mapped.index("{"):])
        self.assertEqual(statistics["weights"]["bytes_read"], 0)
        self.assertEqual(statistics["devices"][0]["pool"]["peak_requested"], place["peak_at_load_mapped"])

    def test_an_extent_beyond_all_memory_is_told_as_such(self):
        error = self.fail_with(2, "explain", self.compile(DIGITS), "--memory", "--dim", f"batch={2**62}").stderr
        self.assertIn(f"got f32[{2**62},1,8,8], whose bytes do not fit 64 bits [HD-F-01]", error)

    def test_each_of_two_devices_needs_what_it_takes(self):
        model = mul_chain(self.folder / "model.onnx", rows=5)
        module = self.folder / "placed.heddle"
        self.succeed("compile", model, "-o", module, "--place", "second=@host")
        told = self.check(module, ["gpu", "@host=one"], [["--input", "x=f32[5,512]=1"]], [])
        self.assertEqual([place["slots"] for place in told["programs"][0]["places"]], [[""], ["@host"]])
        both = self.check(module, ["one", "@host=one"], [["--input", "x=f32[5,512]=1"]], [])
        self.assertEqual(both["programs"][0]["places"][0]["slots"], ["", "@host"])

    def test_parameters_outside_need_not_be_there(self):
        model = mul_chain(self.folder / "model.onnx")
        module, parameters = self.folder / "model.heddle", self.folder / "model.safetensors"
        self.succeed("compile", model, "-o", module, "--params-out", parameters)
        parameters.unlink()
        told = self.explain(module, "--memory", *self.flags, "--device", "one")["memory"][0]
        self.assertGreaterEqual(told["programs"][0]["places"][0]["peak_at_load"], (512 + 256) * 256 * 4)
        self.assertNotIn("route", self.explain(module, "--memory", "--device", "cpu:0"), "that would load code")

    def test_of_a_table_for_people(self):
        module = self.compile(mul_chain(self.folder / "model.onnx"))
        text = self.succeed("explain", module, "--memory").stdout
        self.assertRegex(text, r"slot or device +memory +n=1 +n=8 +n=64\ndefault +weights +")
        text = self.succeed("explain", module, "--memory", "--input", "f32[3,512]", "--device", "cpu:0").stdout
        self.assertRegex(text, r"slot or device +memory +n=3\ncpu:0 \(default\) +weights +")
        self.assertRegex(text, r"inputs +6.0 KiB\n +results +3.0 KiB\n")
        self.assertRegex(text, r"\n +peak at load +\d\S+ MiB\n +files mapped +\d\S+ [KM]iB\n")


class TextTest(ExplainCase):
    def named_chain(self, rows, count=12):
        """A chain of element-wise nodes with long names, which become one region."""
        nodes = [helper.make_node("Sin", [f"v{i}"], [f"v{i + 1}"], name=f"/encoder/layer.{i}/" + "attention/" * 6 + f"Sin_{i}") for i in range(count)]
        graph = helper.make_graph(nodes, "model", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [rows, 8])],
                                  [helper.make_tensor_value_info(f"v{count}", TensorProto.FLOAT, [rows, 8])])
        path = self.folder / "chain.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    def test_a_summary_and_a_row_per_region(self):
        model = mul_chain(self.folder / "model.onnx", rows=5)
        module = self.compile(model)
        text = self.succeed("explain", module).stdout
        summary, rows = text.split("\nregions of main, for cpu")
        self.assertLess(len(summary.splitlines()), 25)
        self.assertIn(f"hash {self.explain(module)['content_hash']}\n", summary)
        self.assertIn("  arguments  x: f32[5,512]\n  results    y: f32[5,256]\n", summary)
        self.assertIn("  regions    2 contraction\n  ops        of 2 nodes of the model: 2 matmul\n", summary)
        rows = rows.splitlines()[1:]
        self.assertRegex(rows[0], r"^region +nodes +kind +result +family +strategy +share$")
        self.assertRegex(rows[1], r"^main\.0\.matmul +first +contraction +f32\[5,256\] +cpu +microkernel +\d+\.\d %$")
        self.assertRegex(rows[2], r"^main\.1\.matmul +second +contraction +f32\[5,256\] +cpu +microkernel +\d+\.\d %$")
        self.assertEqual(len(rows), 3)
        self.assertAlmostEqual(sum(float(row.split()[-2]) for row in rows[1:]), 100, delta=0.2)
        # The first product has twice the multiplications of the second.
        self.assertGreater(float(rows[1].split()[-2]), float(rows[2].split()[-2]))

    def test_of_symbols_no_share_is_known(self):
        text = self.succeed("explain", self.compile(mul_chain(self.folder / "model.onnx"))).stdout
        self.assertRegex(text, r"main\.0\.matmul +first +contraction +f32\[n,256\] +cpu +microkernel\n")
        self.assertNotIn("share", text)

    def test_long_lists_are_counted_and_lines_stay_short(self):
        text = self.succeed("explain", self.compile(self.named_chain(4))).stdout
        row = next(line for line in text.splitlines() if line.startswith("main.0."))
        self.assertRegex(row, r"^main\.0\.sin +\.\.\.\S*/attention/Sin_0 \+11 +element-wise +f32\[4,8\] ")
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith("file")), 120)

    def test_a_topic_comes_alone(self):
        module = self.compile(DIGITS)
        memory = self.succeed("explain", module, "--memory").stdout
        self.assertTrue(memory.startswith("memory needed by 'main', for cpu\n"), memory)
        route = self.succeed("explain", module, "--route", *self.flags, "--device", "one").stdout
        self.assertTrue(route.startswith("slot 'default' is one (heddle.cpu): "), route)
        self.assertRegex(route, r"\nmain\.0\.conv +conv1 +cpu +default +one +default +own x86-64-v\d")
        for text in (memory, route):
            self.assertNotIn("function main", text)
            self.assertNotIn("strategy", text)
        both = self.succeed("explain", module, "--route", "--memory", *self.flags, "--device", "one").stdout
        self.assertTrue(both.startswith(route), both)
        self.assertIn("\nmemory needed by 'main', for cpu\n", both)
        full = self.succeed("explain", module, "--full", "--route", "--memory", *self.flags, "--device", "one").stdout
        self.assertIn(both, full)
        self.assertIn("\nfunction main\n", full)
        self.assertIn("\nthe compiler's report\n", full)


class ParamModeTest(ExplainCase):
    def test_each_mode_gives_the_same_numbers_or_a_reason(self):
        module, parameters, y = (self.folder / name for name in ("model.heddle", "model.safetensors", "y.npy"))
        self.succeed("compile", mul_chain(self.folder / "model.onnx"), "-o", module, "--params-out", parameters)
        common = ["run", module, "--params", parameters, *self.flags, "--input", "x=f32[2,512]=1", "--statistics"]
        self.succeed(*common, "--device", "one", "--output", f"@{y}")
        bytes_of_all = (512 + 256) * 256 * 4
        for device, mode in [(device, mode) for device in ("one", "gpu") for mode in ("auto", "file", "direct", "preload", "mmap")]:
            with self.subTest(device=device, mode=mode):
                result = heddle(*common, "--device", device, "--param-mode", mode, "--expect", f"@{y}")
                if device == "gpu" and mode == "mmap":
                    self.assertEqual(result.code, 4, result)
                    self.assertIn(f'"{mode}": ', result.stderr)
                    self.assertIn("--param-mode file", result.stderr)
                    continue
                if mode == "direct" and "refused" in result.stderr:  # a file system without it
                    continue
                self.assertEqual(result.code, 0, result)
                weights = json.loads(result.stderr[result.stderr.index("{"):])["weights"]
                mapped = mode == "mmap"
                self.assertEqual((weights["bytes_read"], weights["bytes_mapped"]), (0, bytes_of_all) if mapped else (bytes_of_all, 0))

    def test_file_wins_over_the_configuration(self):
        module = self.compile(mul_chain(self.folder / "model.onnx"))
        self.config.write_text(DEVICES + '[param_io]\nmethod = ["gds"]\n')
        common = ["run", module, *self.flags, "--device", "one", "--input", "x=f32[2,512]=1"]
        self.assertEqual(heddle(*common).code, 4)
        self.succeed(*common, "--param-mode", "file")


if __name__ == "__main__":
    unittest.main()
