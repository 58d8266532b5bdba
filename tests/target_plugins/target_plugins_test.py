# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiler targets as plugins: the template's target compiles for the template's driver, and mutants of it cost only what they were asked for."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from heddle_command import REPOSITORY, TIMEOUT_S, HeddleTestCase, environment, heddle, heddle_path

SANITIZE = os.environ.get("HEDDLE_SANITIZE")
BUILD = heddle_path().parents[1] if heddle_path() else None
DRIVER = BUILD / "tests" / "template" / "driver" / "cpp" if BUILD else None
TARGET = BUILD / "tests" / "template" / "target" / "cpp" if BUILD else None
MUTANT = BUILD / "tests" / "target_plugins" / "libmutant_target.so" if BUILD else None
WRONG_OWN = BUILD / "tests" / "target_plugins" / "wrong_own" if BUILD else None
MANIFEST = """manifest = 1
[plugin]
id = "{id}"
version = "0.1.0"
kind = ["target"]
library = "{library}"
abi = ["0.3", "0.3"]
families = ["{family}"]
[facts]
parts = {parts}
elements = {elements}
fault = "{fault}"
[limits]
workgroup_size = 1024
shared_memory_bytes = 65536
workspace_bytes = 65536
"""
# What is asked of the plugin, and what the warning says of it.
OF_CLAIM = {
    "claim_crash": "ended by signal 11",
    "claim_abort": "ended by signal 6",
    "claim_exit": "exit code 3",
    "claim_hang": "did not answer within",
    "claim_throw": "thrown by the mutant",
    "claim_memory": "memory",
    "claim_status": "does not want to",
    "claim_no_array": "the array or its stride is missing",
    "claim_no_nodes": "the array is missing",
    "claim_stride": "stride",
    "claim_size": "struct_size",
    "claim_no_name": "name",
    "claim_odd_name": "name",
    "claim_odd_refusal": "a refusal is of node",
}
OF_ONE_CLAIM = {
    "claim_unknown_node": "there is no node",
    "claim_node_twice": "a node twice",
    "claim_nothing": "no nodes",
    "claim_claimed_twice": "claimed twice",
    "emit_crash": "ended by signal 11",
    "emit_exit": "exit code 3",
    "emit_hang": "did not answer within",
    "emit_throw": "thrown by the mutant",
    "emit_memory": "memory",
    "emit_status": "does not want to",
    "emit_too_large": "more than the",
    "emit_empty": "the code is empty",
    "emit_foreign_format": "does not belong to target",
    "emit_own_format_of_heddle": "does not belong to target",
    "emit_portable": "does not belong to target",
    "emit_no_version": "NAME/VERSION",
    "emit_no_target": "target within the format",
    "emit_no_entry": "no entry",
    "emit_other_name": "another name",
    "emit_empty_name": "an entry has no name",
    "emit_entry_twice": "there twice",
    "emit_bindings": "bindings",
    "emit_constants": "bytes of constants",
    "emit_no_threads": "workgroups of 0 threads",
    "emit_too_many_threads": "of its manifest",
    "emit_too_much_memory": "of its manifest",
    "emit_too_much_workspace": "of its manifest",
    "emit_no_guards": "the array is missing",
    "emit_unguarded_first": "has no guards, and is not the last",
    "emit_no_expressions": "the array is missing",
    "emit_other_expression": "no expression for its number of workgroups",
    "emit_later_operand": "do not come before it",
    "emit_unknown_symbol": "symbol 7",
    "emit_unknown_kind": "kind 99",
    "emit_no_workgroups": "0 workgroups",
    "emit_missing_entry": "is not in the code",
    "emit_lying_record": "in its record",
    "emit_damaged_code": "damaged",
}
OF_INSPECT = {"inspect_crash": "ended by signal 11", "inspect_hang": "did not answer within", "inspect_exit": "exit code 3"}


def model():
    """Element-wise ops before a product, and after it in its group and apart from it; the batch is symbolic."""
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8])

    weights = np.random.default_rng(5).standard_normal((8, 8), np.float32)
    nodes = [
        helper.make_node("Add", ["x", "y"], ["sum"], name="sum"),
        helper.make_node("Mul", ["sum", "x"], ["product"], name="product"),
        helper.make_node("MatMul", ["product", "w"], ["dense"], name="dense"),
        helper.make_node("Add", ["dense", "y"], ["moved"], name="moved"),
        helper.make_node("Relu", ["moved"], ["positive"], name="positive"),
        helper.make_node("Softmax", ["positive"], ["shares"], name="shares", axis=1),
        helper.make_node("MatMul", ["shares", "w"], ["mixed"], name="mixed"),
        helper.make_node("Min", ["x", "y"], ["least"], name="least"),
        helper.make_node("Sub", ["least", "product"], ["apart"], name="apart"),
    ]
    graph = helper.make_graph(nodes, "g", [value("x"), value("y")], [value("mixed"), value("apart")],
                              [onnx.numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@unittest.skipUnless(TARGET and (TARGET / "libsample_target.so").exists(), "SKIP: the template's target is not built")
class TargetPlugins(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "model.onnx"
        onnx.save(model(), self.path)

    def manifest(self, library, fault="", identity="test.mutant_target", family="sample", parts=False, elements=262144):
        path = self.folder / f"{identity}.toml"
        path.write_text(MANIFEST.format(id=identity, library=library, family=family, parts=str(parts).lower(), elements=elements, fault=fault))
        return path

    def build(self, manifest, *arguments):
        """The module, the compiler's report of the plugin, and the warnings."""
        module, report = self.folder / "model.heddle", self.folder / "report.json"
        result = self.succeed("compile", self.path, "-o", module, "--target", "sample", "--target-plugin", manifest, "--no-cache",
                              "--report", report, *arguments)
        (plugin,) = json.loads(report.read_text())["target_plugins"]
        return module, plugin, result.stderr

    def check_on(self, module, device, rows=3):
        """Runs the module on a device, compares with ONNX Runtime, and returns what the device counted."""
        random = np.random.default_rng(9)
        feeds = {name: random.standard_normal((rows, 8), np.float32) for name in ("x", "y")}
        given, outputs = [], []
        for index, (name, array) in enumerate(feeds.items()):
            np.save(self.folder / f"{index}.npy", array)
            given += ["--input", f"{name}=@{self.folder / str(index)}.npy"]
        expected = onnxruntime.InferenceSession(str(self.path), providers=["CPUExecutionProvider"]).run(None, feeds)
        for index in range(len(expected)):
            outputs += ["--output", f"@{self.folder / f'out{index}.npy'}"]
        config = self.folder / "heddle.toml"
        config.write_text('interpreted = "allow"\n[driver."org.example.sample"]\nown_kernels = false\n')
        text = self.succeed("run", module, *given, *outputs, "--device", device, "--statistics",
                            extra_environment={"HEDDLE_PLUGIN_PATH": str(DRIVER), "HEDDLE_CONFIG": str(config)}).stderr
        for index, one in enumerate(expected):
            self.assert_close(np.load(self.folder / f"out{index}.npy"), one, 1e-4, 1e-5 * max(1.0, float(np.abs(one).max())))
        (counted,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"].endswith(device)]
        self.assertGreater(counted["driver_counts"]["dispatches"], 0)
        return counted["driver_counts"]

    def check(self, module, rows=3):
        """Runs the module on the sample driver, and returns how many of its dispatches were interpreted, and how many there were."""
        counts = self.check_on(module, "sample:0", rows)
        if counts["interpreted"] < counts["dispatches"]:  # what is not portable code takes time, too
            self.assertLess(counts["interpreted_ns"], counts["kernel_ns"])
        return counts["interpreted"], counts["dispatches"]

    def test_the_template(self):
        module, plugin, warnings = self.build(TARGET)
        self.assertEqual(warnings.count("warning"), 0, warnings)
        self.assertEqual((plugin["plugin"], plugin["version"], plugin["failed"]), ("org.example.sample_target", "0.1.0", []))
        self.assertRegex(plugin["sha256"], "^[0-9a-f]{64}$")
        self.assertGreaterEqual(len(plugin["claimed"]), 2, plugin)
        self.assertTrue(plugin["refused"], plugin)
        interpreted, dispatches = self.check(module)
        self.assertEqual(dispatches - interpreted, sum(len(each["nodes"]) for each in plugin["claimed"]))
        self.assertGreater(interpreted, 0)
        # The module itself says whose code it has.
        shown = json.loads(self.succeed("explain", module, "--format", "json").stdout)
        self.assertIn("org.example.sample_target", json.dumps(shown))
        self.assertIn("sample-stack/1", json.dumps(shown))
        self.assertIn("org.example.sample_target 0.1.0", self.succeed("explain", module).stdout)

    def test_more_elements_than_workgroups(self):
        """A device has fewer workgroups than a large tensor has elements; a workgroup computes several, and the last one fewer."""
        manifest = self.manifest(TARGET / "libsample_target.so", identity="org.example.sample_target", elements=5)
        module, plugin, warnings = self.build(manifest)
        self.assertEqual((warnings.count("warning"), plugin["failed"]), (0, []), warnings)
        self.check(module, rows=13)
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["twice"])], "g", [value],
                                  [helper.make_tensor_value_info("twice", TensorProto.FLOAT, ["n"])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.path)
        module, plugin, _ = self.build(TARGET)
        self.assertEqual(len(plugin["claimed"]), 1)
        x = np.arange(2_000_003, dtype=np.float32)
        np.save(self.folder / "x.npy", x)
        self.succeed("run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--output", f"@{self.folder / 'twice.npy'}", "--device", "sample:0",
                     extra_environment={"HEDDLE_PLUGIN_PATH": str(DRIVER)})
        np.testing.assert_array_equal(np.load(self.folder / "twice.npy"), x + x)

    def test_what_it_is_asked(self):
        """--dump-code: the graph and the kernels, as text; the report names all nodes of a claim."""
        code = self.folder / "code"
        _, plugin, _ = self.build(TARGET, "--dump-code", code)
        graph = (code / "model.sample.main.graph.txt").read_text()
        self.assertRegex(graph, r"(?m)^  node \d+: matmul 'dense', group \d+, kernel \d+, values \d+, \d+ -> \d+$")
        self.assertIn("known when the model is loaded", graph)
        together = next(each for each in plugin["claimed"] if "sum" in each["nodes"][0])
        self.assertEqual(together["nodes"], ["sum + product"])
        asked = (code / f"model.sample.{together['kernel']}.txt").read_text()
        self.assertTrue(asked.startswith(f"kernel {together['kernel']}: 2 inputs, 1 outputs, 1 symbols\n"), asked)
        self.assertIn("= mul_f v0, r0: f32", asked)
        self.assertIn("contract over", (code / "model.generic.portable.txt").read_text())

    def test_parts_of_groups(self):
        """Claims of single ops that were a part of another op's kernel: the rest is grouped again, and the numbers stay right."""
        manifest = self.manifest(TARGET / "libsample_target.so", identity="org.example.sample_target", parts=True)
        module, plugin, warnings = self.build(manifest)
        self.assertEqual(warnings.count("warning"), 0, warnings)
        _, whole, _ = self.build(TARGET)
        self.assertGreater(len(plugin["claimed"]), len(whole["claimed"]))
        self.check(module)

    def test_beside_other_targets(self):
        """One file has the plugin's code, code for NVIDIA GPUs and for CPUs, and portable code; it runs on all of these devices that there are."""
        module, again = self.folder / "all.heddle", self.folder / "again.heddle"
        for path in (module, again):
            self.succeed("compile", self.path, "-o", path, "--target", "sample,cuda,cpu,portable", "--target-plugin", TARGET)
        self.assertEqual(module.read_bytes(), again.read_bytes())
        formats = {variant["format"] for executable in json.loads(self.succeed("explain", module, "--format", "json").stdout)["executables"]
                   for variant in executable["variants"]}
        for name in ("sample-stack/", "ptx/", "x86_64-elf/", "portable/"):
            self.assertTrue(any(each.startswith(name) for each in formats), formats)
        interpreted, dispatches = self.check(module)
        self.assertLess(interpreted, dispatches)
        self.check_on(module, "cpu:0")
        if "heddle.cuda:0" in heddle("devices").stdout or os.environ.get("HEDDLE_GPU") == "required":
            self.check_on(module, "cuda:0")

    def test_answers_are_kept(self):
        """A second compile does not ask, unless something that an answer depends on is different."""
        module, again, report = self.folder / "first.heddle", self.folder / "again.heddle", self.folder / "report.json"
        environment = {"XDG_CACHE_HOME": str(self.folder / "cache")}

        def calls(path, manifest):
            self.succeed("compile", self.path, "-o", path, "--target", "sample", "--target-plugin", manifest, "--report", report,
                         extra_environment=environment)
            (plugin,) = json.loads(report.read_text())["target_plugins"]
            self.assertEqual(plugin["failed"], [])
            return plugin["calls"]

        self.assertGreater(calls(module, TARGET), 3)
        self.assertEqual(calls(again, TARGET), 0)
        self.assertEqual(module.read_bytes(), again.read_bytes())
        self.check(again)
        identity = "org.example.sample_target"
        self.assertGreater(calls(again, self.manifest(TARGET / "libsample_target.so", identity=identity)), 0)  # another path, other facts
        # What failed is asked again.
        for _ in range(2):
            self.succeed("compile", self.path, "-o", again, "--target", "sample", "--target-plugin", self.manifest(MUTANT, "emit_crash"), "--report",
                         report, extra_environment=environment)
            (plugin,) = json.loads(report.read_text())["target_plugins"]
            self.assertTrue(plugin["failed"])

    def test_calls_that_no_entry_is_for(self):
        """The last entry has guards too: other calls of the same module are portable code."""
        module, plugin, warnings = self.build(self.manifest(MUTANT, "emit_guarded"))
        self.assertEqual(plugin["failed"], [], warnings)
        few, many = self.check(module, rows=2), self.check(module, rows=3)
        self.assertEqual(many[0], few[0] + 1)
        # Verified with other numbers of rows, and so said.
        plugin, said = self.verify("emit_guarded")
        count = len(plugin["claimed"])
        self.assertIn(f"0 failed; 1 of their {count} entries were not reached by the inputs", said)
        self.assertNotIn("not reached", self.verify("")[1])

    def test_several_targets_are_verified(self):
        one = self.manifest(TARGET / "libsample_target.so", identity="org.example.sample_target")
        other = self.manifest(MUTANT, "emit_wrong_numbers", family="sample")
        folder = self.folder / "other"
        folder.mkdir()
        text = other.read_text().replace('families = ["sample"]', 'families = ["sample_two"]')
        (folder / "two.toml").write_text(text)
        module, report = self.folder / "model.heddle", self.folder / "report.json"
        failed = self.fail_with(4, "compile", self.path, "-o", module, "--target", "sample,sample_two", "--target-plugin", one, "--target-plugin",
                                folder / "two.toml", "--report", report, "--foreign-formats", "--verify-target",
                                extra_environment={"HEDDLE_PLUGIN_PATH": str(DRIVER)})
        # The first has a device, the second has none: what can be verified is, and the rest is said.
        self.assertIn("kernels of target plugin 'org.example.sample_target' 0.1.0 with portable code; 0 have other numbers", failed.stderr)
        self.assertIn("verifying the code of target plugin 'test.mutant_target' 0.1.0 failed", failed.stderr)

    def test_plugins_are_found(self):
        text = self.succeed("compile", self.path, "-o", self.folder / "m.heddle", "--target", "sample",
                            extra_environment={"HEDDLE_PLUGIN_PATH": str(TARGET)}).stderr
        self.assertNotIn("warning", text)
        failed = self.fail_with((1, 2), "compile", self.path, "-o", self.folder / "m.heddle", "--target", "acme", "--target-plugin", TARGET)
        self.assertIn("target 'acme' is not known", failed.stderr)
        self.assertIn("plugins for sample", failed.stderr)
        failed = self.fail_with((1, 2), "compile", self.path, "-o", self.folder / "m.heddle", "--target", "sample:big", "--target-plugin", TARGET)
        self.assertIn("has no levels", failed.stderr)
        # The runtime does not take it for one of its own plugins.
        listed = self.succeed("plugins", "--format", "json", extra_environment={"HEDDLE_PLUGIN_PATH": str(TARGET)}).stdout
        self.assertNotIn("sample_target", listed)

    def test_manifests_with_mistakes(self):
        for text, said in (("manifest = 1\n[plugin]\nkind = [\"driver\"]\n", "its kind is not"), ("[plug", "line 1"),
                           (MANIFEST.format(id="a.b", library="none.so", family="sample", parts="false", elements=1, fault=""), "none.so"),
                           (MANIFEST.format(id="a.b", library=MUTANT, family="Sample", parts="false", elements=1, fault=""), "no name of a target"),
                           (MANIFEST.format(id="a.b", library=MUTANT, family="sample", parts="false", elements=1, fault=""), "its library says id"),
                           (MANIFEST.format(id="test.mutant_target", library=MUTANT, family="sample", parts="[1]", elements=1, fault=""), "fact 'parts'")):
            path = self.folder / "wrong.toml"
            path.write_text(text)
            failed = self.fail_with((1, 2), "compile", self.path, "-o", self.folder / "m.heddle", "--target", "sample", "--target-plugin", path)
            self.assertIn(said, failed.stderr)

    def test_foreign_formats(self):
        manifest = self.manifest(MUTANT, "emit_foreign_format")
        _, plugin, _ = self.build(manifest, "--foreign-formats")
        self.assertIn("acme-elf/1", {each["format"] for each in plugin["claimed"]})

    def test_a_plugin_that_does_not_open(self):
        for fault in ("open_crash", "open_hang", "open_status"):
            failed = heddle("compile", self.path, "-o", self.folder / "m.heddle", "--target", "sample", "--target-plugin", self.manifest(MUTANT, fault),
                            "--target-seconds", "1")
            self.assertEqual(failed.code, 1, str(failed))
            self.assertIn("target plugin 'test.mutant_target' 0.1.0: opening it failed", failed.stderr)

    def mutate(self, fault, said):
        if SANITIZE and fault.endswith(("_crash", "_abort")):
            said = "ended"  # a sanitizer catches the signal
        module, plugin, warnings = self.build(self.manifest(MUTANT, fault), *(("--target-seconds", "1") if "hang" in fault else ()))
        self.assertIn("test.mutant_target", warnings, fault)
        self.assertIn(said, warnings, fault)
        self.assertIn("portable code", warnings, fault)
        self.assertTrue(any(said in each["reason"] for each in plugin["failed"]), (fault, plugin["failed"]))
        return module, plugin

    def test_mutants_of_claims(self):
        for fault, said in OF_CLAIM.items():
            if SANITIZE and fault == "claim_memory":
                continue  # its process has no limit of addresses then
            with self.subTest(fault):
                _, plugin = self.mutate(fault, said)
                self.assertEqual(plugin["claimed"], [])

    def test_mutants_of_one_claim(self):
        """The others stay."""
        _, whole, _ = self.build(TARGET)
        for fault, said in OF_ONE_CLAIM.items():
            if SANITIZE and fault == "emit_memory":
                continue
            with self.subTest(fault):
                _, plugin = self.mutate(fault, said)
                self.assertEqual(len(plugin["claimed"]), len(whole["claimed"]) - 1, fault)

    def test_mutants_of_inspection(self):
        for fault, said in OF_INSPECT.items():
            with self.subTest(fault):
                _, plugin = self.mutate(fault, said)
                self.assertEqual(plugin["claimed"], [])

    def test_modules_of_mutants_run(self):
        for fault, said in (("claim_crash", "signal"), ("claim_claimed_twice", "twice"), ("emit_crash", "signal"), ("emit_missing_entry", "code")):
            self.check(self.mutate(fault, said)[0])

    def verify(self, fault, *arguments, driver=DRIVER):
        """Compiles with --verify-target: the report of the plugin, and what was said."""
        environment = {"HEDDLE_PLUGIN_PATH": str(driver)}
        manifest = self.manifest(MUTANT, fault) if fault else TARGET
        module, report = self.folder / "model.heddle", self.folder / "report.json"
        said = self.succeed("compile", self.path, "-o", module, "--target", "sample", "--target-plugin", manifest, "--report", report, "--verify-target",
                            *arguments, extra_environment=environment).stderr
        self.check(module)
        return json.loads(report.read_text())["target_plugins"][0], said

    def test_numbers_are_verified(self):
        plugin, said = self.verify("")
        count = len(plugin["claimed"])
        self.assertIn(f"compared {count} of {count} kernels of target plugin 'org.example.sample_target' 0.1.0 with portable code; 0 have other numbers, 0 failed", said)
        for fault, reason, failing in (("emit_wrong_numbers", "differs from that of portable code", 0), ("emit_writes_less", "differs", 0),
                                       ("emit_loses_device", "the device is gone", 1), ("emit_endless", "it did not end within 2 s", 1)):
            with self.subTest(fault):
                wrong, said = self.verify(fault, *(("--target-seconds", "2") if fault == "emit_endless" else ()))
                self.assertIn("target plugin 'test.mutant_target' 0.1.0: 'c0_add' is wrong, and becomes portable code", said)
                self.assertIn(reason, said)
                self.assertIn(f"{1 - failing} have other numbers, {failing} failed", said)
                self.assertEqual([each["kernel"] for each in wrong["claimed"]], [each["kernel"] for each in plugin["claimed"]][1:])
                self.assertIn("it was refused by name", [each["reason"] for each in wrong["refused"]])
        failed = self.fail_with(4, "compile", self.path, "-o", self.folder / "m.heddle", "--target", "sample", "--target-plugin", TARGET, "--verify-target")
        self.assertIn("verifying the code of target plugin 'org.example.sample_target' 0.1.0 failed", failed.stderr)
        failed = self.fail_with((1, 2), "compile", self.path, "-o", self.folder / "m.heddle", "--verify-target")
        self.assertIn("there are 0 targets of plugins", failed.stderr)

    def test_kernels_of_the_driver_do_not_verify(self):
        """What the code is compared with is interpreted."""
        plugin, said = self.verify("", driver=WRONG_OWN)
        count = len(plugin["claimed"])
        self.assertIn(f"compared {count} of {count} kernels", said)
        self.assertIn("0 have other numbers, 0 failed", said)
        wrong, _ = self.verify("emit_wrong_numbers", driver=WRONG_OWN)
        self.assertEqual([each["kernel"] for each in wrong["claimed"]], [each["kernel"] for each in plugin["claimed"]][1:])

    def test_claims_at_random(self):
        """Sets of nodes that no compiler would make a kernel of: what is left is grouped again, and numbers stay right."""
        self.manifest(MUTANT, "random")
        for seed, flags in ((0, ()), (100, ("--control",))):
            process = subprocess.run(
                [sys.executable, "-B", REPOSITORY / "tests" / "random_graphs" / "random_graphs.py", "--count", "20", "--seed", str(seed), "--type", "float32",
                 "--target", "sample", "--device", "sample:0", *flags],
                text=True, capture_output=True, timeout=TIMEOUT_S,
                env={**environment(), "HEDDLE_BIN": str(heddle_path().parent), "HEDDLE_PLUGIN_PATH": f"{DRIVER}:{self.folder}"})
            self.assertEqual(process.returncode, 0, process.stdout[-4000:] + process.stderr[-4000:])

    def test_a_claim_that_is_not_convex(self):
        module, _ = self.mutate("claim_not_convex", "not convex")
        self.check(module)

    def test_what_a_plugin_prints_is_no_answer(self):
        for fault in ("claim_prints", "emit_prints"):
            module, plugin, _ = self.build(self.manifest(MUTANT, fault))
            self.assertEqual(plugin["failed"], [])
            self.check(module)


class Protocol(HeddleTestCase):
    """Frames to heddle-target-host that no compiler sends."""

    def answer(self, data):
        process = subprocess.run([str(heddle_path().parent / "heddle-target-host")], input=data, capture_output=True, timeout=60)
        self.assertGreaterEqual(process.returncode, 0, data[:40])
        return process.stdout

    def test_frames(self):
        def frame(kind, payload=b"", protocol=1, size=None):
            return struct.pack("<IHH", len(payload) if size is None else size, kind, protocol) + payload

        failed = 8
        for data in (frame(1, protocol=2), frame(1), frame(2, b"\0" * 40), frame(1, b"\xff" * 60), frame(1, size=0xFFFFFFFF), frame(9)):
            out = self.answer(data)
            size, kind, protocol = struct.unpack("<IHH", out[:8])
            self.assertEqual((kind, protocol, size), (failed, 1, len(out) - 8), data[:40])
        for data in (b"", b"\0", frame(1, b"abc", size=100)):
            self.assertEqual(self.answer(data), b"", data)

    def test_by_hand(self):
        process = subprocess.run([str(heddle_path().parent / "heddle-target-host"), "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(process.returncode, 2)
        self.assertIn("started by heddle compile", process.stderr)


if __name__ == "__main__":
    unittest.main()
