# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.minify finds a planted wrong operator, reduces the graph to it, and writes a script that shows it. Skipped without PyTorch
(tools/dev/setup --torch)."""
import contextlib
import io
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import heddle

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _cache, _read_text, _text

GRAPHS = pathlib.Path(__file__).resolve().parent / "graphs"


if torch is not None:
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm, self.drop = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8), nn.Dropout(0.5)

        def forward(self, x):
            gate = torch.sigmoid(self.b(torch.relu(self.a(x))))
            return self.norm(self.drop(gate) * x + x).softmax(-1)


def planted(old, new):
    """The text has another operator than the graph."""
    add = _text.Writer.add

    def write(self, node):
        add(self, node)
        self._lines[-1:] = [one.replace(f'"{old}"', f'"{new}"') for one in self._lines[-1:]]

    return mock.patch.object(_text.Writer, "add", write)


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Minify(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-torch-minify-")
        self.addCleanup(temporary.cleanup)
        self.script = pathlib.Path(temporary.name, "reproducer.py")
        torch.manual_seed(0)
        self.model, self.x = Gated(), torch.randn(4, 8)
        heddle.torch.clear()

    def run_script(self):
        """(exit code, output) in this process, where the operator is planted."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), self.assertRaises(SystemExit) as ended:
            runpy.run_path(str(self.script), run_name="__main__")
        return ended.exception.code, said.getvalue()

    def check_found(self, found, operator, count=1):
        self.assertIsNotNone(found)
        self.assertEqual((found.kind, found.operator, found.nodes), ("wrong", operator, count))
        self.assertTrue(found.is_repeated)
        self.assertIn(f"the first node that differs is {operator}", str(found))
        number = next(i for i, one in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if "gate = torch.sigmoid" in one)
        self.assertTrue(found.place.endswith(f"minify_test.py:{number}"), found.place)
        self.assertEqual(heddle.torch.graphs(), [])

    def test_what_is_right(self):
        self.assertIsNone(heddle.torch.minify(self.model, (self.x,), self.script, training=True))
        self.assertFalse(self.script.exists())

    def test_a_wrong_operator_of_a_symbolic_graph(self):
        with planted("aten.sigmoid.default", "aten.tanh.default"):
            found = heddle.torch.minify(self.model, (self.x,), self.script, dynamic=True)
            self.check_found(found, "aten.sigmoid.default")
            code, said = self.run_script()
            self.assertEqual(code, 1)
            self.assertRegex(said, "^wrong: result 0 differs by ")
        done = subprocess.run([sys.executable, self.script], capture_output=True, text=True, check=False)  # nothing is planted there
        self.assertEqual((done.returncode, done.stdout), (0, "nothing is wrong\n"), done.stderr)

    def test_a_wrong_operator_of_a_backward_pass(self):
        with planted("aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default"):
            found = heddle.torch.minify(self.model, (self.x,), self.script, training=True)
        self.assertEqual((found.operator, found.nodes, found.is_repeated), ("aten._softmax_backward_data.default", 1, True), str(found))

    def test_what_does_not_compile(self):
        compiled = _cache.compiled

        def fail(text, *more):
            if "aten.sigmoid.default" in text:
                raise heddle.CompileError("planted failure")
            return compiled(text, *more)

        with mock.patch.object(_cache, "compiled", fail):
            found = heddle.torch.minify(self.model, (self.x,), self.script)
        self.assertEqual((found.kind, found.operator, found.nodes), ("compile", "aten.sigmoid.default", 1))
        self.assertIn("planted failure", found.text)

    def test_texts_give_what_pytorch_computed(self):
        for path in sorted(GRAPHS.glob("*.mlir")):
            function = _read_text.read(path)
            with np.load(path.with_suffix(".npz")) as file:
                for call in sorted({key.split(".")[0] for key in file.files}):
                    given = [torch.from_numpy(file[f"{call}.a{i}"]) for i in range(len(function.dynamic))]
                    for i, got in enumerate(function(*given)):
                        torch.testing.assert_close(got, torch.from_numpy(file[f"{call}.r{i}"]), rtol=1e-4, atol=1e-5, msg=lambda text: f"{path.name}, {call}, {i}: {text}")

    def test_a_wrong_operator_of_a_text(self):
        with np.load(GRAPHS / "perceptron.npz") as file:
            given = [torch.from_numpy(file[f"call0.a{i}"]) for i in range(sum(key.startswith("call0.a") for key in file.files))]
        self.assertIsNone(heddle.torch.minify(GRAPHS / "perceptron.mlir", given, self.script))
        with planted("aten.relu.default", "aten.tanh.default"):
            found = heddle.torch.minify(GRAPHS / "perceptron.mlir", given, self.script)
        self.assertEqual((found.operator, found.nodes, found.is_repeated), ("aten.relu.default", 1, True), str(found))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "a function, a module or the path of a text, got int"):
            heddle.torch.minify(3, (self.x,), self.script)
        with self.assertRaisesRegex(heddle.NotFoundError, "cannot be read"):
            heddle.torch.minify(self.script, (self.x,), self.script)
        self.script.write_text("no graph")
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "it has no function @main"):
            heddle.torch.minify(self.script, (self.x,), self.script)


if __name__ == "__main__":
    unittest.main()
