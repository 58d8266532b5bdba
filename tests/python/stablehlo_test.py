# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.compile of StableHLO: text in generic form as it is, and other forms through jaxlib, if it is installed."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import heddle
import heddle.stablehlo

GENERIC = b"""#loc = loc(unknown)
"builtin.module"() <{sym_name = "twice"}> ({
  "func.func"() <{function_type = (tensor<3xf32>) -> tensor<3xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "func.return"(%0) : (tensor<3xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""
PRETTY = b"""// twice
module @twice {
  func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %mask = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %0 = stablehlo.add %x, %x : tensor<3xf32>
    %1 = stablehlo.select %mask, %0, %x : tensor<3xi1>, tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""
TX = b"""module {
  func.func @main(%x: tensor<3xf32> {tx.name = "x"}) -> (tensor<3xf32> {tx.name = "y"}) {
    %0 = tx.add %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""
HAS_JAXLIB = importlib.util.find_spec("jaxlib") is not None


class Stablehlo(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-python-stablehlo-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_generic_text_is_compiled_as_it_is(self):
        for model in (GENERIC, self.folder / "twice.mlir"):
            (self.folder / "twice.mlir").write_bytes(GENERIC)
            path = heddle.compile(model, self.folder / "twice.heddle", target="cpu:x86-64-v3")
            with heddle.open(path, devices="cpu") as module:
                self.assertEqual(module(np.array([1, 2, 3], np.float32)).numpy().tolist(), [2, 4, 6])

    def test_text_in_the_dialect_of_the_compiler_needs_no_jaxlib(self):
        (self.folder / "tx.mlir").write_bytes(TX)
        with mock.patch.dict(sys.modules, {"jaxlib.mlir.ir": None}):
            path = heddle.compile(self.folder / "tx.mlir", target="cpu:x86-64-v3")
        with heddle.open(path, devices="cpu") as module:
            self.assertEqual(module(np.array([1, 2, 3], np.float32)).tolist(), [2, 4, 6])

    def test_forms_are_told_apart(self):
        self.assertTrue(heddle.stablehlo.is_another(TX))
        self.assertFalse(heddle.stablehlo.is_another(PRETTY))
        self.assertTrue(heddle.stablehlo.is_generic(GENERIC))
        self.assertFalse(heddle.stablehlo.is_generic(PRETTY))
        for content in (GENERIC, PRETTY, b"ML\xefR\x0dStableHLO_v1.0.0\0", b"func.func @main() {"):
            self.assertTrue(heddle.stablehlo.is_stablehlo(content), content)
        for content in (b"", b"\x08\x0a\x12\x07pytorch", b"modula"):
            self.assertFalse(heddle.stablehlo.is_stablehlo(content), content)
        self.assertEqual(heddle.stablehlo._version(b"ML\xefR\x0dStableHLO_v1.2.30\0"), "1.2.30")

    def test_bools_are_packed(self):
        text = 'dense<"0x0100000000000000000101"> : tensor<11xi1>'
        packed = heddle.stablehlo._BOOLS.sub(heddle.stablehlo._packed, text)
        self.assertEqual(packed, 'dense<"0x0106"> : tensor<11xi1>')
        unchanged = 'dense<"0x0100"> : tensor<2xi8>'
        self.assertEqual(heddle.stablehlo._BOOLS.sub(heddle.stablehlo._packed, unchanged), unchanged)

    def test_without_jaxlib_the_error_names_it(self):
        with mock.patch.dict(sys.modules, {"jaxlib.mlir.ir": None}):
            with self.assertRaisesRegex(heddle.NotFoundError, "jaxlib, which reads it, cannot be imported .*; pip install jaxlib"):
                heddle.compile(PRETTY, self.folder / "twice.heddle")

    def test_a_source_of_another_class_is_refused(self):
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "got an object of class int"):
            heddle.stablehlo.convert(3)
        with self.assertRaisesRegex(heddle.MissingFileError, "cannot be read"):
            heddle.stablehlo.convert(self.folder / "none.mlir")

    def test_command(self):
        source, written = self.folder / "in.mlir", self.folder / "out.mlir"
        source.write_bytes(GENERIC)
        done = subprocess.run([sys.executable, "-m", "heddle.stablehlo", source, written], capture_output=True, text=True, env=os.environ)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(written.read_bytes(), GENERIC)
        done = subprocess.run([sys.executable, "-m", "heddle.stablehlo", source], capture_output=True, text=True, env=os.environ)
        self.assertEqual(done.returncode, 2)
        self.assertIn("python3 -m heddle.stablehlo IN OUT", done.stderr)

    @unittest.skipUnless(HAS_JAXLIB, "jaxlib is not installed; pip install jaxlib")
    def test_pretty_text_is_converted(self):
        path = heddle.compile(PRETTY, self.folder / "twice.heddle", target="cpu:x86-64-v3")
        with heddle.open(path, devices="cpu") as module:
            self.assertEqual(module(np.array([1, 2, 3], np.float32)).numpy().tolist(), [2, 2, 6])


if __name__ == "__main__":
    unittest.main()
