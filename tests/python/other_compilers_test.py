# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling and calling in a process that has other libraries with an LLVM or an MLIR of their own, which are used before and after. Each test has a
process of its own, since the order in which libraries are loaded matters."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent

# Code that has each library compile something and checks the result.
USES = {
    "torch": "import torch\n"
             "assert torch.jit.script(torch.nn.ReLU())(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]\n",
    "jax": "import jax\n"
           "assert jax.jit(lambda x: x + 1)(jax.numpy.ones(3)).tolist() == [2, 2, 2]\n",
    "llvmlite": "import ctypes, llvmlite.binding as llvm\n"
                "llvm.initialize_native_target(); llvm.initialize_native_asmprinter()\n"
                "code = llvm.parse_assembly('define i32 @f(i32 %x) { %y = add i32 %x, 1 ret i32 %y }')\n"
                "engine = llvm.create_mcjit_compiler(code, llvm.Target.from_default_triple().create_target_machine())\n"
                "engine.finalize_object()\n"
                "assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(engine.get_function_address('f'))(41) == 42\n",
    # Kernels of Triton need a GPU, but not its MLIR.
    "triton": "from triton._C.libtriton import ir\n"
              "context = ir.context(); ir.load_dialects(context)\n"
              "assert 'module' in str(ir.builder(context).create_module())\n",
    "iree.compiler": "from iree.compiler import ir\n"
                     "with ir.Context(): assert 'module' in str(ir.Module.parse('module {}'))\n",
}

COMPILE = """
import heddle, models, numpy
from onnx import helper
model = models.model_of([helper.make_node("MatMul", ["x", "x"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])],
                        [models.value("x", ["n", "n"])], [models.value("y", ["n", "n"])])
path = heddle.compile(model, models.FOLDER / "softmax.heddle", target=["cpu", "cuda"], options="--no-cache")
with heddle.open(path, devices="cpu") as module:
    for n in (1, 7):
        x = numpy.random.default_rng(n).random((n, n), "f4")
        e = numpy.exp(x @ x - (x @ x).max(axis=1, keepdims=True))
        numpy.testing.assert_allclose(module(x).numpy(), e / e.sum(axis=1, keepdims=True), 1e-5)
try:
    heddle.compile(b"not a model", models.FOLDER / "none.heddle")
    raise SystemExit("what is not a model was compiled")
except heddle.CompileError as error:
    assert "none" not in error.output, error.output
assert "libheddle_compiler" not in open("/proc/self/maps").read()
"""


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package around it
        return False


class OtherCompilers(unittest.TestCase):
    def run_python(self, code):
        paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        done = subprocess.run([sys.executable, "-B", "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, f"{code}\n{done.stdout}{done.stderr}")

    def check(self, *names):
        missing = [name for name in names if not is_installed(name)]
        if missing:
            self.skipTest(f"{', '.join(missing)} is not installed")
        uses = "".join(USES[name] for name in names)
        self.run_python(uses + COMPILE + uses)
        self.run_python("import heddle\n" + uses + COMPILE + uses)

    def test_torch(self):
        self.check("torch")

    def test_jax(self):
        self.check("jax")

    def test_llvmlite(self):
        self.check("llvmlite")

    def test_triton(self):
        self.check("triton")

    def test_iree(self):
        self.check("iree.compiler")

    def test_all_that_are_installed(self):
        names = [name for name in USES if is_installed(name)]
        if len(names) < 2:
            self.skipTest(f"of {', '.join(USES)}, {names or 'none'} is installed")
        self.check(*names)
        self.check(*reversed(names))


if __name__ == "__main__":
    unittest.main()
