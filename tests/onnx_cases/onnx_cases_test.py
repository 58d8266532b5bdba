# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of ONNX's backend tests: one of every operator and of every function's body that is supported; and that onnx_cases.py finds what is wrong."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cases
import onnx_cases
import reasons
import worker

TARGET = "cpu:x86-64-v3"


class OnnxCases(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-onnx-cases-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_command(self, *arguments, code=0, out="out"):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            got = onnx_cases.main(["--out", str(self.folder / out), "--target", TARGET, "--jobs", "1", *map(str, arguments)])
        self.assertEqual(got, code, text.getvalue())
        return {one["name"]: one for one in json.loads((self.folder / out / "results.json").read_text())}

    def test_a_case_of_each_operator(self):
        results = self.run_command("--names", HERE / "representative.txt")
        wrong = {name: one["message"] or one["reasons"] for name, one in results.items() if one["verdict"] != "passed"}
        self.assertEqual(wrong, {})
        self.assertGreater(sum(one["nodes"]["kernels"] for one in results.values()), len(results))
        self.assertIn(f"{len(results)} of {len(results)} cases pass (100.0 %)", (self.folder / "out" / "table.md").read_text())

    def changed_data(self, change):
        """A data folder with the case "relu", whose expected output is changed."""
        data = self.folder / "data"
        case = data / "node" / "test_relu"
        shutil.copytree(cases.data_folder() / "node" / "test_relu", case, dirs_exist_ok=True)
        path = case / "test_data_set_0" / "output_0.pb"
        array = numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())).copy()
        path.write_bytes(numpy_helper.from_array(change(array)).SerializeToString())
        return data

    def test_wrong_results_are_found(self):
        def one_value(array):
            array.reshape(-1)[-1] += 0.01
            return array

        for kind, change in (("values", one_value), ("type", lambda array: array.astype(np.float64)), ("shape", lambda array: array.reshape(-1)),
                             ("values", lambda array: np.where(array == 0, np.nan, array))):
            results = self.run_command("--data", self.changed_data(change))
            self.assertEqual(results["relu"]["reasons"], [kind], results)
        # And a command that compares with an earlier one fails.
        before = self.folder / "before.json"
        before.write_text(json.dumps([{"name": "relu", "verdict": "passed"}]))
        self.run_command("--data", self.changed_data(one_value), "--before", before, code=1)
        self.assertEqual(self.run_command("--data", self.changed_data(lambda array: array), "--before", before)["relu"]["verdict"], "passed")

    def test_modules_run_without_the_compiler(self):
        modules = self.folder / "modules"
        chosen = ["--only", "relu", "--only", "split_equal_parts_2d_opset13", "--only", "if_seq"]
        compiled = self.run_command("--modules", modules, "--device", "none", *chosen)
        ran = self.run_command("--modules", modules, "--only-run", "--device", "cpu", out="ran")
        self.assertEqual(compiled.keys(), ran.keys())
        self.assertEqual({name: one["verdict"] for name, one in ran.items()},
                         {"relu": "passed", "split_equal_parts_2d_opset13": "passed", "if_seq": compiled["if_seq"]["verdict"]})
        self.assertEqual(ran["relu"]["nodes"], {"kernels": 1, "host": 0, "neither": 0})
        # The values that are kept are those that are compared.
        shutil.copy(modules / "split_equal_parts_2d_opset13" / "values.npz", modules / "relu" / "values.npz")
        ran = self.run_command("--modules", modules, "--only-run", "--only", "relu", out="ran")
        self.assertEqual(ran["relu"]["verdict"], "failed")

    def test_every_call_is_compared(self):
        self.assertEqual(self.run_command("--only", "relu", "--calls", 3)["relu"]["verdict"], "passed")
        relu = cases.read_case(cases.data_folder() / "node" / "test_relu")
        asked = worker.Worker({"only_run": False, "config": "", "calls": 3, "target": TARGET, "device": "cpu", "modules": False, "kernels": ""})
        calls = [relu["outputs"], relu["outputs"], [np.zeros_like(relu["outputs"][0])]]
        asked.run = lambda module, case: iter(calls)
        answer = asked.answer("relu", cases.data_folder() / "node" / "test_relu", self.folder / "relu.heddle")
        self.assertEqual((answer["verdict"], answer["reasons"], answer["message"][:15]), ("failed", ["values"], "call 3: output "))

    def test_the_cache_keeps_verdicts_of_unchanged_cases(self):
        cache = ["--cache", self.folder / "cache"]
        first = self.run_command("--data", self.changed_data(lambda array: array), *cache)
        again = self.run_command("--data", self.folder / "data", *cache)
        self.assertEqual(first, again)  # also the seconds
        changed = self.run_command("--data", self.changed_data(lambda array: array + 1), *cache)
        self.assertEqual(changed["relu"]["reasons"], ["values"])

    def test_a_crash_is_the_failure_of_one_case(self):
        settings = {"target": TARGET, "device": "cpu", "only_run": False, "config": "", "calls": 1, "modules": False, "kernels": ""}
        question = {"name": "relu", "folder": str(cases.data_folder() / "node" / "test_relu"), "module": str(self.folder / "relu.heddle")}
        child = onnx_cases.Child(settings, 60)
        self.addCleanup(child.stop)
        self.assertEqual(child.ask(question)["verdict"], "passed")
        os.kill(child.process.pid, signal.SIGSTOP)
        child.limit = 0.5
        self.assertEqual(child.ask(question)["reasons"], ["time"])
        child.limit = 60
        child.start()
        pid = child.process.pid
        os.kill(pid, signal.SIGSTOP)
        crash = threading.Timer(0.3, lambda: (os.kill(pid, signal.SIGSEGV), os.kill(pid, signal.SIGCONT)))
        crash.start()
        answer = child.ask(question)
        crash.join()
        self.assertEqual(answer["reasons"], ["crash SIGSEGV"], answer)
        self.assertEqual(child.ask(question)["verdict"], "passed")

    def test_sequences_strings_and_small_types_are_kept(self):
        import ml_dtypes
        case = {"inputs": [np.arange(3, dtype=ml_dtypes.bfloat16), [np.array([1], np.int8), np.array(2.5)], None, np.array(["a", "ä"], object)],
                "outputs": [np.array([1, 2], ml_dtypes.int4)], "rtol": 0.5, "atol": 0, "names": ["y"], "specializations": ["x=2"]}
        cases.write_values(case, self.folder / "values.npz")
        got = cases.read_values(self.folder / "values.npz")
        self.assertEqual({key: repr(value) for key, value in got.items()}, {key: repr(value) for key, value in case.items()})

    def test_results_become_sequences_by_their_names(self):
        self.assertEqual(cases.with_structure(["a", "b", "c", "d"], [1, [1], None, []], {"b[0]": 2, "b[1]": 3, "a": 1}), [1, [2, 3], None, []])
        with self.assertRaises(ValueError):
            cases.with_structure(["a"], [1], {"a": 1, "b": 2})
        self.assertEqual(cases.tensors([1, [2, 3], None, []]), [1, 2, 3])

    def test_reasons_are_counted_by_kind(self):
        said = ("onnx: importing the model failed: 3 of its 5 nodes need unsupported features: operator Loop (opset 11) in 2 nodes, first 'a (opset 3)'; operator "
                "Pad (opset 11): input 1 ('pads') must be known when the model is compiled, in 1 node, 'b'; element type STRING (opset 11) in 1 input, 'x'; see docs/operators.md")
        self.assertEqual(reasons.of_compiler(said),
                         ["operator Loop", "type STRING", "form Pad: input 1 ('..') must be known when the model is compiled"])
        node = helper.make_node("If", ["c"], ["y"])
        self.assertEqual(cases.operator_of(node), "If")


if __name__ == "__main__":
    unittest.main()
