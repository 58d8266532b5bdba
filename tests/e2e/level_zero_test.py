# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models on Intel's loader for Level Zero and the stand-in for a driver (tests/level_zero), whose kernels PoCL runs. Compared with ONNX Runtime and
with the CPU. HEDDLE_TEST_ALL=1 also runs SqueezeNet; docs/vendors/intel.md has the command for other networks."""
import os
import shutil
import subprocess
import unittest

import numpy as np
import onnx
import onnxruntime

from heddle_command import DIGITS, HeddleTestCase, TEST_ALL, heddle_path
import light  # found through heddle_command
import transformer_layer_test as layers

STAND_IN = heddle_path().parents[1] / "tests/level_zero/libheddle_test_level_zero.so" if heddle_path() else None
HIP = STAND_IN.parents[1] / "hip" / "hip_6" if STAND_IN else None
DEVICES = """
version = 1
[plugins.probe]
"heddle.cpu" = "in-process"
[[route]]
slot = "@host"
to = ["cpu:0"]
[[route]]
slot = "@gpu"
to = ["level_zero:0"]
"""


def settings(**more):
    return {"ZE_ENABLE_ALT_DRIVERS": str(STAND_IN), "ZE_ENABLE_VALIDATION_LAYER": "1", "ZE_ENABLE_PARAMETER_VALIDATION": "1", "ZE_ENABLE_HANDLE_LIFETIME": "1",
            "HEDDLE_ZE_DELAY_US": "20", "POCL_CACHE_DIR": str(STAND_IN.parent / "pocl"), **more}


@unittest.skipUnless(STAND_IN and STAND_IN.exists() and shutil.which("llvm-spirv-15"), "SKIP: the stand-in for Level Zero is not built")
class LevelZero(HeddleTestCase):
    def check_code(self, folder):
        """Every image is valid: that for any device in the narrowest environment of OpenCL."""
        images = sorted(folder.glob("*.spirv"))
        self.assertEqual([image.name.split(".", 1)[1] for image in images], ["spv1.0.spirv", "spv1.3-sg32.spirv"])
        for image, where in zip(images, ("opencl1.2", "spv1.3")):
            subprocess.run(["spirv-val", "--target-env", where, str(image)], check=True)

    def test_digits_are_as_on_the_cpu(self):
        code = self.folder / "code"
        module = self.compile(DIGITS, "--target", "cpu,level_zero", "--dump-code", code)
        self.check_code(code)
        images = np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)
        expected = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
        atol = 1e-4 * float(np.abs(expected).max())
        # Immediate command lists; queues by the option, and since the driver has no such lists.
        for seed, lists, has_lists in ((1, "true", "1"), (2, "false", "1"), (3, "true", "0")):
            with self.subTest(seed=seed, lists=lists, has_lists=has_lists):
                got = self.run_module(module, "image", images, "--device", "level_zero:0",
                                      extra_environment=settings(HEDDLE_ZE_SEED=str(seed), HEDDLE_ZE_IMMEDIATE=has_lists,
                                                                 HEDDLE_SET=f'driver."heddle.level_zero".immediate_lists = {lists}'))
                self.assert_close(got, expected, 1e-3, atol)

    def test_products_of_bytes(self):
        """With and without a sign, a depth that is no multiple of 4, zero points; exactly."""
        model, code = self.folder / "bytes.onnx", self.folder / "code"
        generator = np.random.default_rng(6)
        a, b = generator.integers(0, 256, (33, 70), np.uint8), generator.integers(-128, 128, (70, 40), np.int8)
        a[0], b[:, 0] = 255, -128
        a_zero, b_zero = np.array(117, np.uint8), generator.integers(-128, 128, 40, np.int8)
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMulInteger", ["a", "b", "a_zero", "b_zero"], ["y"])], "bytes",
            [onnx.helper.make_tensor_value_info("a", onnx.TensorProto.UINT8, ["n", 70]), onnx.helper.make_tensor_value_info("b", onnx.TensorProto.INT8, [70, 40])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, ["n", 40])],
            [onnx.numpy_helper.from_array(array, name) for name, array in (("a_zero", a_zero), ("b_zero", b_zero))])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), model)
        expected = (a.astype(np.int32) - a_zero) @ (b.astype(np.int32) - b_zero)
        module = self.compile(model, "--target", "cpu,level_zero", "--dump-code", code)
        images = sorted(code.glob("*.spirv"))
        self.assertEqual([image.name.split(".", 1)[1] for image in images],
                         ["spv1.0-dp4a.spirv", "spv1.0.spirv", "spv1.3-sg32-dp4a.spirv", "spv1.3-sg32.spirv"])
        for image, where in zip(images, ("opencl1.2", "opencl1.2", "spv1.3", "spv1.3")):
            subprocess.run(["spirv-val", "--target-env", where, str(image)], check=True)
            self.assertEqual(b"SPV_KHR_integer_dot_product" in image.read_bytes(), "dp4a" in image.name, image.name)
        for name, array in (("a", a), ("b", b)):
            np.save(self.folder / f"{name}.npy", array)
        for dots, level in (("1", "spv1.0-dp4a"), ("0", "spv1.0")):
            with self.subTest(dots=dots):
                environment = settings(HEDDLE_ZE_DP4A=dots)
                self.succeed("run", module, "--device", "level_zero:0", "--input", f"a=@{self.folder}/a.npy", "--input", f"b=@{self.folder}/b.npy",
                             "--output", f"@{self.folder}/y.npy", extra_environment=environment)
                np.testing.assert_array_equal(np.load(self.folder / "y.npy"), expected)
                route = self.succeed("explain", "--route", "--device", "level_zero:0", module, extra_environment=environment).stdout
                self.assertRegex(route, rf"spirv/1 {level}(?!-)")

    def test_layers_of_transformers(self):
        size = (layers.BATCH, layers.SEQUENCE, layers.HIDDEN)
        angles = np.outer(np.arange(layers.SEQUENCE), 10000.0 ** (-np.arange(0, layers.SIZE, 2) / layers.SIZE))
        angles = np.concatenate([angles, angles], axis=-1)[None, None]
        causal = np.triu(np.full((layers.SEQUENCE, layers.SEQUENCE), -np.inf, np.float32), 1)[None, None]
        cases = {
            "plain": (layers.Layer, {"mask": np.zeros((layers.BATCH, 1, 1, layers.SEQUENCE), np.float32)}),
            "llama": (layers.LlamaLayer, {"mask": causal, "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}),
        }
        for name, (layer, others) in cases.items():
            with self.subTest(name):
                model, code = self.folder / f"{name}.onnx", self.folder / name
                onnx.save(layer().build(), model)
                module = self.compile(model, "--target", "cpu,level_zero", "--dump-code", code)
                self.check_code(code)
                inputs = {"x": np.random.default_rng(2).standard_normal(size, np.float32), **others}
                for key, array in inputs.items():
                    np.save(self.folder / f"{key}.npy", array)
                self.succeed("run", module, "--device", "level_zero:0", *(part for key in inputs for part in ("--input", f"{key}=@{self.folder / key}.npy")),
                             "--output", f"@{self.folder}/y.npy", extra_environment=settings(HEDDLE_ZE_SEED="4"))
                expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]
                self.assert_close(np.load(self.folder / "y.npy"), expected, 1e-4, 1e-5)

    def test_sin_cos_and_pow_on_a_device_without_doubles(self):
        nodes = [onnx.helper.make_node("Sin", ["x"], ["s"]), onnx.helper.make_node("Cos", ["x"], ["c"]), onnx.helper.make_node("Pow", ["e", "x"], ["p"]),
                 onnx.helper.make_node("Concat", ["s", "c", "p"], ["y"], axis=0)]
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [count]) for name, count in (("x", 300), ("e", 300), ("y", 900))]
        model = self.folder / "model.onnx"
        graph = onnx.helper.make_graph(nodes, "graph", values[:2], values[2:])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), model)
        module = self.compile(model, "--target", "cpu,level_zero")
        generator = np.random.default_rng(5)
        x, e = (generator.uniform(low, high, 300).astype(np.float32) for low, high in ((-20, 20), (0.1, 9)))
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "e.npy", e)
        self.succeed("run", module, "--device", "level_zero:0", "--input", f"x=@{self.folder}/x.npy", "--input", f"e=@{self.folder}/e.npy",
                     "--output", f"@{self.folder}/y.npy", extra_environment=settings(HEDDLE_ZE_DOUBLES="0"))
        wide_x, wide_e = x.astype(np.float64), e.astype(np.float64)
        self.assert_close(np.load(self.folder / "y.npy"), np.concatenate([np.sin(wide_x), np.cos(wide_x), wide_e**wide_x]).astype(np.float32), 3e-7, 0)

    def test_a_module_on_the_cpu_and_on_level_zero(self):
        places = [argument for pattern in ("conv*=@gpu", "norm*=@gpu", "pool*=@gpu", "hidden=@host", "logits=@host") for argument in ("--place", pattern)]
        module = self.compile(DIGITS, "--target", "cpu,level_zero", "--slot", "@gpu=level_zero", "--slot", "@host=cpu", *places)
        config = self.folder / "heddle.toml"
        config.write_text(DEVICES, encoding="utf-8")
        images = np.random.default_rng(8).random((3, 1, 8, 8), dtype=np.float32)
        expected = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
        got = self.run_module(module, "image", images, "--config", config, extra_environment=settings(HEDDLE_ZE_SEED="3"))
        self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))

    @unittest.skipUnless(HIP and HIP.exists(), "SKIP: the stand-in for HIP is not built")
    def test_a_module_on_hip_and_on_level_zero(self):
        module = self.compile(DIGITS, "--target", "hip:gfx1100,level_zero", "--slot", "@amd=hip", "--slot", "@intel=level_zero",
                              *(part for pattern in ("conv*=@amd", "norm*=@amd", "pool*=@intel", "hidden=@intel", "logits=@intel") for part in ("--place", pattern)))
        images = np.random.default_rng(9).random((2, 1, 8, 8), dtype=np.float32)
        expected = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
        environment = settings(LD_LIBRARY_PATH=str(HIP), HEDDLE_HIP_STAND_IN="chip=gfx1100")
        devices = ("--device", "@amd=hip:0", "--device", "@intel=level_zero:0")
        got = self.run_module(module, "image", images, *devices, extra_environment=environment)
        self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))
        route = self.succeed("explain", "--route", *devices, module, extra_environment=environment).stdout
        for part in ("hsaco/1 gfx1100", "spirv/1 spv1.0"):
            self.assertIn(part, route)

    def test_parts_of_devices(self):
        def shown(**more):
            lines = self.succeed("devices", extra_environment=settings(HEDDLE_ZE_DEVICES="2", HEDDLE_ZE_SUB_DEVICES="2", **more)).stdout.splitlines()
            return [line for line in lines if "level_zero:" in line]

        self.assertEqual(len(shown()), 2)
        self.assertEqual(len(shown(ZE_FLAT_DEVICE_HIERARCHY="FLAT")), 4)
        (part,) = shown(ZE_AFFINITY_MASK="1.1")
        self.assertIn("2.0 GiB", part)
        module = self.compile(DIGITS, "--target", "cpu,level_zero")
        images = np.random.default_rng(10).random((2, 1, 8, 8), dtype=np.float32)
        expected = self.run_module(module, "image", images, "--device", "cpu:0")
        got = self.run_module(module, "image", images, "--device", "level_zero:0",
                              extra_environment=settings(HEDDLE_ZE_DEVICES="2", HEDDLE_ZE_SUB_DEVICES="2", ZE_AFFINITY_MASK="1.1"))
        self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))

    def test_a_device_that_is_lost_and_one_whose_memory_is_exhausted(self):
        module = self.compile(DIGITS, "--target", "cpu,level_zero")
        arguments = ("run", module, "--input", "image=f32[1,1,8,8]=0", "--device", "level_zero:0")
        lost = self.fail_with(4, *arguments, extra_environment=settings(HEDDLE_ZE_LOSE_AFTER="4"))
        self.assertIn("ZE_RESULT_ERROR_DEVICE_LOST", lost.stderr)
        full = self.fail_with(1, *arguments, extra_environment=settings(HEDDLE_ZE_MEMORY="65536"))
        self.assertRegex(full.stderr, r"of its 65536 bytes are free")

    def test_a_module_without_code_for_it_says_so(self):
        module = self.compile(DIGITS)
        result = self.fail_with((3, 4, 5, 6), "run", module, "--input", "image=f32[1,1,8,8]=0", "--device", "level_zero:0", extra_environment=settings())
        self.assertIn("level_zero", result.stderr)

    def test_without_a_driver_a_reason_is_given(self):
        shown = self.succeed("plugins", "--why", extra_environment={"ZE_ENABLE_ALT_DRIVERS": os.devnull})
        self.assertRegex(shown.stdout, r"heddle\.level_zero[\s\S]*(zeInit returned ZE_RESULT_ERROR_|libze_loader\.so\.1 cannot be opened)")

    def test_squeezenet_is_as_on_the_cpu(self):
        if not TEST_ALL:
            self.skipTest("SKIP: a long one; HEDDLE_TEST_ALL=1 runs it")
        code = self.folder / "code"
        module = self.compile(light.randomized("squeezenet"), "--target", "cpu,level_zero", "--dump-code", code)
        self.check_code(code)
        name, _, _ = light.recorded("squeezenet")
        image = light.random_input("squeezenet")
        expected = self.run_module(module, name, image, "--device", "cpu:0")
        got = self.run_module(module, name, image, "--device", "level_zero:0", extra_environment=settings())
        self.assert_close(got, expected, 1e-4, 1e-5 * float(np.abs(expected).max()))


if __name__ == "__main__":
    unittest.main()
