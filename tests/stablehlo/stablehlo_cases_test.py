# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that JAX exported, in generic form (those of jax_functions.py, without locations), give what JAX computes; and stablehlo_cases.py finds what
is wrong."""
import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import case_files
import check_rules
import dense_values
import stablehlo_cases
import stablehlo_worker

TARGET = "cpu:x86-64-v3"


class StablehloCases(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-stablehlo-cases-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_command(self, cases, *arguments, code=0):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            got = stablehlo_cases.main(["--cases", str(cases), "--out", str(self.folder / "out"), "--target", TARGET, "--jobs", "1", *map(str, arguments)])
        self.assertEqual(got, code, text.getvalue())
        return {one["name"]: one for one in json.loads((self.folder / "out" / "results.json").read_text())}

    def test_programs_give_what_jax_computes(self):
        results = self.run_command(HERE / "programs")
        self.assertEqual({name: one["message"] for name, one in results.items() if one["verdict"] != "passed"}, {})
        self.assertGreater(len(results), 12)

    def copied(self, name, change):
        """A folder with the case, whose text or values are changed."""
        cases = self.folder / "cases"
        shutil.copytree(HERE / "programs" / name, cases / name)
        (cases / "cases.json").write_text(json.dumps({"cases": [{"name": name, "operator": "x", "folder": name}], "left_out": {}}))
        change(cases / name)
        return cases

    def test_a_wrong_value_is_found(self):
        def change(folder):
            case = case_files.read(folder)
            case["expected"][0] = case["expected"][0] + np.float32(0.01)
            case_files.write(folder, (folder / "model.mlir").read_text(), case)
        one = self.run_command(self.copied("cond", change))["cond"]
        self.assertEqual((one["verdict"], one["reasons"]), ("failed", ["values"]))
        self.assertIn("differs in 5 of 5 elements, first at [0]", one["message"])

    def test_an_unknown_op_is_the_reason(self):
        def change(folder):
            path = folder / "model.mlir"
            path.write_text(path.read_text().replace('"stablehlo.sine"', '"stablehlo.of_tomorrow"'))
        one = self.run_command(self.copied("cond", change))["cond"]
        self.assertEqual((one["verdict"], one["reasons"]), ("failed", ["operator stablehlo.of_tomorrow"]), one["message"])

    def test_a_case_that_fails_now_is_told_from_one_that_failed_before(self):
        before = self.folder / "before.json"
        cases = self.copied("cond", lambda folder: (folder / "model.mlir").write_text("nothing"))
        before.write_text(json.dumps([{"name": "cond", "verdict": "passed"}]))
        self.run_command(cases, "--before", before, code=1)
        before.write_text(json.dumps([{"name": "cond", "verdict": "failed"}]))
        self.run_command(cases, "--before", before)


class Rules(unittest.TestCase):
    def test_ulps(self):
        one = np.array([1, 1, -0.0, np.inf, np.nan, np.inf], np.float32)
        other = np.array([np.nextafter(np.float32(1), np.float32(2)), 1, 0, np.inf, np.nan, 1], np.float32)
        self.assertEqual(check_rules.ulps(one, other).tolist(), [1, 0, 0, 0, 0, check_rules.MOST])
        tiny = np.array([1e-45], np.float32)
        self.assertEqual(check_rules.ulps(tiny, -tiny).tolist(), [2])
        half = np.array([1], ml_dtypes.bfloat16)
        self.assertEqual(check_rules.ulps(half, half + ml_dtypes.bfloat16(2.0 ** -7)).tolist(), [1])

    def test_near_is_absolute(self):
        check = {"kind": "near", "tolerance": 1e-4}
        got, wanted = np.array([1e9, np.inf, np.nan, 0.00005]), np.array([1e9 + 1, np.inf, np.nan, 0])
        self.assertEqual(check_rules.is_right(got, wanted, check).tolist(), [False, True, True, True])

    def test_results_compared_with_each_other(self):
        case = {"expected": [np.zeros(0)] * 2, "checks": [{"kind": "near", "tolerance": 0.1, "other": 1}, {"kind": "any"}]}
        self.assertIsNone(check_rules.verdict([np.ones(2), np.ones(2) + 0.05], case))
        self.assertEqual(check_rules.verdict([np.ones(2), np.ones(2) + 0.5], case)[0], "values")

    def test_dense_values(self):
        self.assertEqual(dense_values.values("dense<[1.0, 0x7F80]> : tensor<2xbf16>").astype(np.float32).tolist(), [1, np.inf])
        self.assertEqual(dense_values.values("dense<(3.0,-4.0)> : tensor<2xcomplex<f32>>").tolist(), [3 - 4j] * 2)
        self.assertEqual(dense_values.values('dense<"0x0100FFFF"> : tensor<2xi16>').tolist(), [1, -1])
        self.assertEqual(dense_values.values("dense<[true, false]> : tensor<2xi1>").tolist(), [True, False])
        self.assertEqual(dense_values.values("dense<> : tensor<2x0xf32>").shape, (2, 0))

    def test_reasons(self):
        message = "stablehlo: importing 'stablehlo.while' at 'f' (a.mlir:2:3) failed: it carries no tensors"
        self.assertEqual(stablehlo_worker.reasons_of(message), ["form stablehlo.while: it carries no tensors"])
        message = "stablehlo: importing 'model.mlir' failed: 2 ops are not supported: 'stablehlo.rng' (at -:3:12), 'chlo.zeta' (2 times, first at -:4:1); use others"
        self.assertEqual(stablehlo_worker.reasons_of(message), ["operator stablehlo.rng", "operator chlo.zeta"])


if __name__ == "__main__":
    unittest.main()
