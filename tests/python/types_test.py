# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The types of the Python package: mypy and pyright in strict mode, and stubs that name what the extension has."""
import ast
import importlib.util
import inspect
import json
import os
import pathlib
import pydoc
import subprocess
import sys
import tempfile
import typing
import unittest

import heddle
import heddle._core

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2])) / "sdk" / "python"


class Types(unittest.TestCase):
    def test_mypy_strict(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed; run tools/dev/setup --tests")
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "-p", "heddle"], cwd=SOURCE, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pyright_strict(self):
        if importlib.util.find_spec("pyright") is None:
            self.skipTest("pyright is not installed; pip install 'pyright[nodejs]'")
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.relpath(SOURCE, os.path.realpath(folder))
            configuration = {"include": [f"{package}/heddle"], "extraPaths": [package], "typeCheckingMode": "strict", "pythonVersion": "3.11",
                             "reportPrivateUsage": "none", "reportMissingModuleSource": "none"}  # modules use names of each other, and of _core
            pathlib.Path(folder, "pyrightconfig.json").write_text(json.dumps(configuration))
            done = subprocess.run([sys.executable, "-m", "pyright", "-p", folder, "--pythonpath", sys.executable], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_everything_has_a_description(self):
        for name in heddle.__all__:
            if not (isinstance(getattr(heddle, name), type) and issubclass(getattr(heddle, name), heddle.Error)):  # those are their name
                self.assertGreater(len(getattr(heddle, name).__doc__ or ""), 40, name)
        for kind in (heddle.Tensor, heddle.Function, heddle.Call, heddle.State, heddle.Module, heddle.Runtime):
            for name, member in inspect.getmembers(kind):
                if not name.startswith("_"):
                    self.assertTrue(inspect.getdoc(member), f"{kind.__name__}.{name}")
        self.assertIn("progress", pydoc.render_doc(heddle.compile, renderer=pydoc.plaintext))

    def test_signatures_and_hints_can_be_asked_for(self):
        for function in (heddle.Function.start, heddle.Function.tensor, heddle.Call.result, heddle.Call.exception, heddle.Tensor.numpy, heddle.Tensor.__array__,
                         heddle.Tensor.__dlpack__, heddle.Module.start, heddle.open):
            self.assertTrue(inspect.signature(function).parameters, function)
        self.assertEqual(str(inspect.signature(heddle.Function.tensor)), "(self, /, argument, array, *, copy=None)")
        for function in (heddle.open, heddle.compile, heddle.empty, heddle.devices, heddle.plugins, *vars(heddle.Module).values(), *vars(heddle.Runtime).values()):
            if inspect.isfunction(function):
                self.assertIn("return", {"return": None, **typing.get_type_hints(function)})
        self.assertEqual(typing.get_type_hints(heddle.devices)["return"], list[heddle.Device])

    def test_the_stubs_have_every_public_name(self):
        stubs = {node.name: {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                 for node in ast.parse((SOURCE / "heddle" / "_core.pyi").read_text()).body if isinstance(node, ast.ClassDef)}
        for name in ("Tensor", "Function", "Call", "State", "Runtime", "Module"):
            members = {member for member in vars(getattr(heddle._core, name)) if not member.startswith("_")}
            self.assertEqual(members, {member for member in stubs[name] if not member.startswith("_")})


if __name__ == "__main__":
    unittest.main()
