# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Some random graphs, always the same ones; tests/random_graphs/random_graphs.py by hand has as many as one wants."""
import re
import subprocess
import sys

from heddle_command import HeddleTestCase, REPOSITORY, TIMEOUT_S, environment, heddle_path

COUNT = 150


class RandomGraphs(HeddleTestCase):
    def check(self, *arguments):
        process = subprocess.run([sys.executable, "-B", REPOSITORY / "tests" / "random_graphs" / "random_graphs.py", "--count", str(COUNT), *arguments], text=True,
                                 capture_output=True, timeout=TIMEOUT_S, env={**environment(), "HEDDLE_BIN": str(heddle_path().parent)})
        self.assertEqual(process.returncode, 0, process.stdout[-4000:] + process.stderr[-4000:])
        return process.stdout

    def test_floats(self):
        text = self.check("--target", "cpu:x86-64-v3", "--interpret", "2")
        self.assertGreater(int(re.search(r"(\d+) interpreted", text)[1]), COUNT // 4, text)

    def test_floats_for_any_cpu(self):
        self.check("--target", "cpu", "--seed", str(COUNT))

    def test_doubles(self):
        self.check("--type", "float64", "--target", "cpu:x86-64-v3", "--seed", str(2 * COUNT))

    def test_halves_of_either_kind(self):
        self.check("--type", "float16", "--target", "cpu:x86-64-v3", "--seed", str(3 * COUNT))
        self.check("--type", "bfloat16", "--target", "cpu:x86-64-v3", "--seed", str(4 * COUNT))

    def test_control_flow_and_extents_from_data(self):
        self.check("--control", "--target", "cpu:x86-64-v3", "--seed", str(5 * COUNT), "--count", str(COUNT // 3))
