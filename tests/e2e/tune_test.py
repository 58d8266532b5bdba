# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle tune`, what `heddle compile --tuned` makes of its choices, what `heddle compile --explain` says of plans, and kernels for some calls only."""
import json
import re
import signal
import subprocess
import time

import numpy as np
import onnx
from onnx import helper

from heddle_command import DIGITS, HeddleTestCase, environment, heddle_path

DEPTH, COLUMNS = 96, 640


class Tune(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.weights = np.random.default_rng(1).standard_normal((DEPTH, COLUMNS)).astype(np.float32)
        floats = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["product"], name="product"), helper.make_node("Relu", ["product"], ["y"], name="relu")],
            "layer", [helper.make_tensor_value_info("x", floats, ["rows", DEPTH])],
            [helper.make_tensor_value_info("y", floats, ["rows", COLUMNS])], [onnx.numpy_helper.from_array(self.weights, "w")])
        self.model = self.folder / "layer.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.model)

    def report(self, name, *arguments):
        return json.loads(self.succeed("compile", self.model, "-o", self.folder / name, "--no-cache", "--explain=json", *arguments).stdout)

    def matmul(self, report):
        """The kernel of the product that every call may take."""
        symbol = next(region["kernel"] for region in report["regions"] if region["ops"][0]["op"] == "tx.matmul")
        kernel = next(kernel for kernel in report["kernels"] if kernel["kernel"] == symbol)
        return kernel | {"plans": [plan for plan in kernel["plans"] if plan["strategy"] == kernel["strategy"]]}

    def results(self, module, rows):
        np.save(self.folder / "x.npy", np.random.default_rng(2).standard_normal((200, DEPTH)).astype(np.float32)[:rows])
        self.succeed("run", self.folder / module, "--device", "cpu", "--input", f"x=@{self.folder}/x.npy", "--output", f"@{self.folder}/y.npy")
        return np.load(self.folder / "y.npy")

    def test_rows_have_the_same_bits_whatever_kernel_takes_the_call(self):
        self.report("plain.heddle")
        whole = self.results("plain.heddle", 200)
        expected = np.maximum(np.load(self.folder / "x.npy") @ self.weights, 0)
        self.assert_close(whole, expected, 1e-4, 1e-4)
        for rows in (1, 5, 12, 13, 64, 199):
            self.assertTrue(np.array_equal(self.results("plain.heddle", rows), whole[:rows]), rows)

    def test_calls_take_the_kernel_that_is_for_them(self):
        kernel = self.matmul(self.report("plain.heddle"))
        few = [plan for plan in kernel["plans"] if plan["when"].startswith("s0 <= 12") and plan["choice"] != kernel["choice"]]
        picks = {plan["when"]: plan["choice"] for plan in few}
        self.assertEqual(len(picks), 2, "with few and with many compute units")
        choices = self.folder / "choices.json"
        choices.write_text(json.dumps({"choices": [{"family": "cpu", "kernel": kernel["name"], "when": when, "choice": choice}
                                                   for when, choice in picks.items()]}))
        report = self.report("few.heddle", "--tuned", choices)
        choice_of = {kernel["kernel"]: kernel.get("choice") for kernel in report["kernels"]}
        for rows, is_few in ((4, True), (12, True), (13, False), (100, False)):
            profile = json.loads(self.succeed("profile", self.folder / "few.heddle", "--device", "cpu", "--dim", f"rows={rows}", "--iterations", 1,
                                              "--format", "json").stdout)
            taken = next(choice_of[row["kernel"]] for row in profile["regions"] if "matmul" in row["kernel"])
            self.assertEqual(taken in picks.values(), is_few, (rows, taken, picks))
        whole = self.results("plain.heddle", 200)
        for rows in (1, 12, 13):
            self.assertTrue(np.array_equal(self.results("few.heddle", rows), whole[:rows]), rows)

    def test_choices_are_taken_and_keep_the_results(self):
        plain = self.report("plain.heddle")
        kernel = self.matmul(plain)
        usual = kernel["choice"]
        other = next(plan["choice"] for plan in kernel["plans"] if plan["when"] == "" and plan["choice"] != usual)
        choices = self.folder / "choices.json"
        choices.write_text(json.dumps({"choices": [
            {"family": "cpu", "kernel": kernel["name"], "when": "", "choice": other},
            {"family": "cpu", "kernel": "of another model", "when": "", "choice": "any"}]}))
        tuned = self.report("tuned.heddle", "--tuned", choices)
        self.assertEqual(self.matmul(tuned)["choice"], other)
        self.assertEqual(tuned["tuned"], {"choices": 2, "taken": 1})
        self.assertTrue(np.array_equal(self.results("tuned.heddle", 150), self.results("plain.heddle", 150)))
        self.assertEqual([plan["choice"] for plan in self.matmul(tuned)["plans"] if plan["taken"] and plan["when"] == ""], [other])
        # A choice that the kernel does not have leaves it as it is.
        choices.write_text(choices.read_text().replace(other, "no such plan"))
        again = self.report("again.heddle", "--tuned", choices)
        self.assertEqual(self.matmul(again)["choice"], usual)
        self.assertEqual(again["tuned"], {"choices": 2, "taken": 0})

    def test_a_compile_says_where_choices_were_measured(self):
        kernel = self.matmul(self.report("plain.heddle"))
        choices = self.folder / "choices.json"
        written = {"choices": [{"family": "cpu", "kernel": kernel["name"], "when": "", "choice": kernel["choice"]}]}
        for device in ("gpu:7, a device of another machine", None):
            choices.write_text(json.dumps(written | ({"device": device} if device else {})))
            told = self.succeed("compile", self.model, "-o", self.folder / "tuned.heddle", "--tuned", choices, "--explain=json")
            self.assertEqual(json.loads(told.stdout)["tuned"], {"choices": 1, "taken": 1} | ({"device": device} if device else {}))
            self.assertEqual(f"were measured on {device}" in told.stderr, device is not None, told.stderr)
            if device is None:
                self.assertRegex(told.stderr, r"\Awrote \S+/tuned\.heddle [\d.]+ [KM]?i?B in [\d.]+ s\n\Z")
        # Whatever is there in place of a text is nothing.
        for device in (7, ["cpu:0"], None, {}):
            choices.write_text(json.dumps(written | {"device": device}))
            self.assertEqual(self.report("tuned.heddle", "--tuned", choices)["tuned"], {"choices": 1, "taken": 1})

    def test_choices_that_cannot_be_read(self):
        for text in ("", '{"choices":' + "[" * 40000, "[]", '{"choices": 1}', '{"choices": [{"family": "cpu"}]}'):
            (self.folder / "choices.json").write_text(text)
            result = self.fail_with(1, "compile", self.model, "-o", self.folder / "m.heddle", "--tuned", self.folder / "choices.json")
            self.assertIn("choices.json", result.stderr)
            self.assertIn("heddle tune", result.stderr)
        result = self.fail_with(1, "compile", self.model, "-o", self.folder / "m.heddle", "--tuned", self.folder / "none.json")
        self.assertIn("No such file", result.stderr)
        self.assertFalse((self.folder / "m.heddle").exists())

    def test_tune_measures_and_writes_choices_that_compile_takes(self):
        choices = self.folder / "choices.json"
        told = json.loads(self.succeed("tune", self.model, "-o", choices, "--device", "cpu", "--dim", "rows=64", "--seconds", 0.02, "--plans", 3,
                                       "--gain", 0, "--cache", self.folder / "cache", "--format", "json").stdout)
        self.assertTrue(told["kernels"])
        written = json.loads(choices.read_text())
        self.assertEqual(written["dims"], ["rows=64"])
        self.assertRegex(written["device"], r"^cpu:0, .+, \d+ compute units$")
        # Only the case that was measured.
        self.assertTrue(all("s0 <= 12" not in choice["when"] for choice in written["choices"]), written)
        report = self.report("tuned.heddle", "--tuned", choices)
        for choice in written["choices"]:
            if choice["when"] == "":
                self.assertEqual(self.matmul(report)["choice"], choice["choice"])
        self.assertEqual(report.get("tuned", {}).get("taken", 0), len(written["choices"]))

    def test_tune_has_the_flags_that_determine_kernels(self):
        flags = {command: set(re.findall(r"--[a-z][a-z-]*", self.succeed(command, "--help").stdout)) for command in ("compile", "run", "tune")}
        outputs = {"--params-out", "--annotate-affinity", "--tuned", "--no-cache", "--dump-after", "--dump-to", "--dump-code", "--report", "--ptxas", "--reproducer", "--rerun",
                   "--explain", "--params-in-hashes", "--verify-target"}
        self.assertEqual(flags["compile"] - flags["tune"] - outputs, set())
        self.assertLessEqual({"--params", "--params-over", "--device", "--input"} & flags["run"], flags["tune"])

    def test_tune_runs_what_they_make_of_a_model(self):
        """Arguments that the function overwrites, values that calls keep, and weights in files."""
        floats = onnx.TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, floats, [64, columns]) for name, columns in
                  (("x", DEPTH), ("sum", COLUMNS), ("last", COLUMNS), ("y", COLUMNS), ("z", COLUMNS))]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], name="product"), helper.make_node("Add", ["sum", "product"], ["y"], name="add"),
                 helper.make_node("Mul", ["last", "product"], ["z"], name="mul")]
        graph = helper.make_graph(nodes, "sums", values[:3], values[3:], [onnx.numpy_helper.from_array(self.weights, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.model)
        np.savez(self.folder / "w.npz", w=self.weights)
        np.savez(self.folder / "over.npz", w=2 * self.weights)
        tune = ("tune", self.model, "-o", self.folder / "choices.json", "--device", "cpu", "--seconds", 0.01, "--plans", 2, "--format", "json")
        for flags in (("--alias", "sum=y"), ("--donate", "x", "--donate", "sum"), ("--alias", "sum=y", "--state", "last=z"),
                      ("--params-in", self.folder / "w.npz", "--params-over", self.folder / "over.npz")):
            told = json.loads(self.succeed(*tune, *flags).stdout)
            self.assertIn("product", [kernel["region"] for kernel in told["kernels"]][0], flags)
            self.succeed("compile", self.model, "-o", self.folder / "m.heddle", "--tuned", self.folder / "choices.json", *flags[:-2 if "--params-over" in flags else None])
        self.assertIn("compiler: donating 'nothing'", self.fail_with((1, 2), *tune, "--donate", "nothing").stderr)
        self.assertIn("uses none of its tensors", self.fail_with(1, *tune, "--params-over", self.folder / "over.npz").stderr)
        self.assertIn("would overwrite", self.fail_with(2, "tune", self.model, "-o", self.folder / "over.npz", "--params-over", self.folder / "over.npz").stderr)

    def test_tune_leaves_nothing_where_it_fails(self):
        choices = self.folder / "choices.json"
        self.fail_with(1, "tune", self.folder / "none.onnx", "-o", choices)
        self.fail_with(2, "tune", self.model)
        self.fail_with(2, "tune", self.model, "-o", self.model)
        self.fail_with(2, "tune", self.model, "-o", choices, "--dim", "columns=3")
        self.assertIn("--dim NAME=N", self.fail_with(2, "tune", self.model, "-o", choices).stderr)
        self.assertIn("no-folder", self.fail_with(1, "tune", self.model, "-o", self.folder / "no-folder" / "c.json", "--dim", "rows=3").stderr)
        self.assertFalse(choices.exists())

    def test_a_signal_leaves_nothing(self):
        folder = self.folder / "temporary"
        folder.mkdir()
        process = subprocess.Popen([heddle_path(), "tune", self.model, "-o", self.folder / "choices.json", "--device", "cpu", "--dim", "rows=64",
                                    "--seconds", "60"], env={**environment(), "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not list(folder.glob("*/base.heddle")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertFalse((self.folder / "choices.json").exists())


class Plans(HeddleTestCase):
    """What a report says of each region: the plans of all strategies, which were taken, and who refused."""
    STRATEGIES = {"cpu": ["pack", "depthwise", "winograd", "blocks", "dot products", "microkernel", "siblings", "walks", "attention", "rows", "output groups", "generic"],
                  "cuda": ["attention", "rows", "gemv", "output groups", "generic"]}

    def report(self, *arguments):
        return json.loads(self.succeed("compile", DIGITS, "-o", self.folder / "m.heddle", "--explain=json", *arguments).stdout)

    def test_every_strategy_has_its_say(self):
        report = self.report("--target", "cpu,cuda")
        kernels = {(kernel["family"], kernel["kernel"]): kernel for kernel in report["kernels"]}
        explained = set()
        for region in report["regions"]:
            kernel = kernels[region["family"], region["kernel"]]
            order = self.STRATEGIES[kernel["family"]]
            able = list(dict.fromkeys(plan["strategy"] for plan in kernel["plans"]))
            refused = [refusal["strategy"] for refusal in kernel.get("refused", [])]
            self.assertEqual(able, [name for name in order if name in able])
            self.assertEqual(sorted(able + refused), sorted(order), kernel)
            self.assertNotIn("", [refusal["reason"] for refusal in kernel.get("refused", [])])
            # The first that takes the region makes its kernel: by one plan for each case that it distinguishes.
            self.assertEqual(kernel["strategy"], able[0])
            own = [plan for plan in kernel["plans"] if plan["strategy"] == able[0]]
            for when in {plan["when"] for plan in own}:
                self.assertEqual(sum(plan["taken"] for plan in own if plan["when"] == when), 1, kernel)
            self.assertEqual([plan["choice"] for plan in own if plan["taken"] and plan["when"] == ""], [kernel.get("choice", "")])
            self.assertFalse(any(plan["taken"] for plan in kernel["plans"] if plan["strategy"] != able[0]), kernel)
            self.assertTrue(all(plan["estimate_ns"] is None or plan["estimate_ns"] > 0 for plan in kernel["plans"]))
            explained.add((kernel["family"], kernel["kernel"]))
        # Kernels for some calls only have what is said of their region with the usual one.
        self.assertEqual(explained, {name for name, kernel in kernels.items() if "plans" in kernel})
        self.assertTrue(all("plans" in kernel for kernel in kernels.values() if "refused" in kernel))
        able = {(kernel["family"], *dict.fromkeys(plan["strategy"] for plan in kernel.get("plans", []))) for kernel in report["kernels"]}
        self.assertLessEqual({("cpu", "output groups", "generic"), ("cuda", "output groups", "generic")}, able)

    def test_a_report_for_people_is_short(self):
        text = self.succeed("compile", DIGITS, "-o", self.folder / "m.heddle", "--explain").stdout
        report = self.report()
        taken = sum(plan["taken"] for kernel in report["kernels"] for plan in kernel.get("plans", []))
        self.assertEqual(text.count("- taken: "), taken)
        self.assertRegex(text, r"- not_taken: \d+ of microkernel")
        self.assertIn("- strategies: generic, reason: cannot form stages: its weights are packed", text)
        self.assertNotIn("reason: -", text)

    def test_the_module_is_the_same_without_a_report(self):
        self.report("--no-cache")
        explained = (self.folder / "m.heddle").read_bytes()
        self.succeed("compile", DIGITS, "-o", self.folder / "m.heddle", "--no-cache")
        self.assertTrue((self.folder / "m.heddle").read_bytes() == explained, "the modules differ")
