# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One and the same file on every kind of device that is here: the CPU; an NVIDIA GPU, if there is one; stand-ins for AMD's and Intel's GPUs, if they are
built. `tests/gpu/run` has this as job `vendors`. A line for each device says what ran."""
import hashlib
import os
import shutil
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, HeddleTestCase, heddle, heddle_path
import transformer_layer_test as layers

TARGETS = "cpu,cuda,hip,level_zero"
TESTS = heddle_path().parents[1] / "tests" if heddle_path() else None
INTEL = TESTS / "level_zero/libheddle_test_level_zero.so" if TESTS else None
CHIPS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")


def devices():
    """(what it is, the binding, its environment), the CPU first."""
    found = [("cpu", "cpu:0", {})]
    has_gpu = "heddle.cuda:0" in heddle("devices").stdout
    if has_gpu or os.environ.get("HEDDLE_GPU") == "required":
        found.append(("cuda", "cuda:0", {}))
    if (TESTS / "hip/hip_6").exists():
        found += [(f"hip, {chip} interpreted", "hip:0", {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(TESTS / "hip/hip_6"), os.environ.get("LD_LIBRARY_PATH")])),
                                                         "HEDDLE_HIP_STAND_IN": f"chip={chip},seed=5"}) for chip in CHIPS]
    if INTEL.exists() and shutil.which("llvm-spirv-15"):
        found.append(("level_zero, on PoCL", "level_zero:0", {"ZE_ENABLE_ALT_DRIVERS": str(INTEL), "ZE_ENABLE_VALIDATION_LAYER": "1",
                                                              "ZE_ENABLE_PARAMETER_VALIDATION": "1", "POCL_CACHE_DIR": str(INTEL.parent / "pocl")}))
    return found


def quantized_product():
    """A product of bytes with zero points, whose scaled sums are rounded to bytes again."""
    generator = np.random.default_rng(4)
    constants = {"x_scale": np.array(0.02, np.float32), "x_zero": np.array(117, np.uint8), "w": generator.integers(-128, 128, (64, 48), np.int8),
                 "w_scale": np.array(0.01, np.float32), "w_zero": np.array(0, np.int8), "y_scale": np.array(0.1, np.float32), "y_zero": np.array(128, np.uint8)}
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"], ["y"])], "quantized",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", 64])], [helper.make_tensor_value_info("y", TensorProto.UINT8, ["n", 48])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


class Vendors(HeddleTestCase):
    def check(self, name, model, inputs, rtol, atol):
        module = self.compile(model, "--target", TARGETS)
        shown = self.succeed("explain", module).stdout
        for family in TARGETS.split(","):
            self.assertRegex(shown, rf"(?m)^(code)? *{family}: ")
        digest = hashlib.sha256(module.read_bytes()).hexdigest()
        given = []
        for key, value in inputs.items():
            np.save(self.folder / f"{key}.npy", value)
            given += ["--input", f"{key}=@{self.folder}/{key}.npy"]
        expected = None
        for what, binding, environment in devices():
            with self.subTest(model=name, device=what):
                result = self.folder / "result.npy"
                result.unlink(missing_ok=True)
                self.succeed("run", module, *given, "--output", f"@{result}", "--device", binding, extra_environment=environment)
                got = np.load(result).astype(np.float64)
                expected = got if expected is None else expected
                np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol * np.abs(expected).max())
                route = self.succeed("explain", "--route", "--device", binding, module, extra_environment=environment).stdout
                self.assertRegex(route, rf"(?m)^{what.split(',')[0]} +{binding} +\S")
                print(f"{name}, file {digest[:16]}, on {what}: largest difference {np.abs(got - expected).max() / np.abs(expected).max():.1e}", flush=True)
        self.assertEqual(hashlib.sha256(module.read_bytes()).hexdigest(), digest)

    def test_digits(self):
        self.check("digits", DIGITS, {"image": np.random.default_rng(3).random((3, 1, 8, 8), dtype=np.float32)}, 1e-4, 1e-5)

    def test_a_quantized_product(self):
        model = self.folder / "quantized.onnx"
        onnx.save(quantized_product(), model)
        # A sum that lies between two steps may be rounded to either.
        self.check("quantized", model, {"x": np.random.default_rng(5).integers(0, 256, (33, 64), np.uint8)}, 0, 1 / 200)

    def test_a_layer_of_a_transformer(self):
        model, size = self.folder / "layer.onnx", (layers.BATCH, layers.SEQUENCE, layers.HIDDEN)
        onnx.save(layers.Layer().build(), model)
        inputs = {"x": np.random.default_rng(2).standard_normal(size, np.float32), "mask": np.zeros((layers.BATCH, 1, 1, layers.SEQUENCE), np.float32)}
        self.check("layer", model, inputs, 1e-3, 1e-4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
