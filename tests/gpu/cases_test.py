# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX's cases (tests/onnx_cases) on a CUDA device: those that are right on this machine's CPU are right there, four calls each."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from gpu import GpuTestCase  # first: it finds e2e

ONNX_CASES = pathlib.Path(__file__).resolve().parents[1] / "onnx_cases" / "onnx_cases.py"
PACKED = pathlib.Path(os.environ.get("HEDDLE_BUILD", "")) / "tests" / "onnx_data"
FEWEST = 1500  # that are right on the CPU


class Cases(GpuTestCase):
    def results(self, folder, *options):
        data = ["--data", PACKED] if PACKED.is_dir() else []
        command = [sys.executable, "-B", ONNX_CASES, "--out", folder, *data, *options]
        ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        print(f"{' '.join(options)}: {ended.stdout.strip().splitlines()[-1].strip()}", flush=True)
        return {one["name"]: one for one in json.loads((folder / "results.json").read_text())}

    def test_what_is_right_on_the_cpu_is_right_there(self):
        with tempfile.TemporaryDirectory(prefix="heddle-cases-") as made:
            folder = pathlib.Path(made)
            here = self.results(folder / "cpu", "--target", "cpu", "--device", "cpu")
            if len(here) < FEWEST:
                self.skipTest(f"SKIP: only {len(here)} cases: neither the pack nor the installed onnx has those of the suite `node`")
            there = self.results(folder / "cuda", "--target", "cuda", "--device", self.device, "--calls", "4")
        right = [name for name, one in here.items() if one["verdict"] == "passed"]
        self.assertGreater(len(right), FEWEST)
        wrong = {name: there[name]["message"] or there[name]["reasons"] for name in right if there[name]["verdict"] != "passed"}
        self.assertEqual(wrong, {})


if __name__ == "__main__":
    unittest.main()
