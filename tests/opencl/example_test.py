# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of a real device, sdk/examples/opencl: it is built against an installation of the component sdk, where no source of Heddle is, passes the kit,
and runs models as OpenCL C, which its compiler target or the driver has written, and interpreted. Skipped where no platform of OpenCL is installed.

HEDDLE_TEST_ALL=1 runs networks.py as well, for minutes.
"""
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e")]
from heddle_command import DIGITS, HeddleTestCase, TEST_ALL, TIMEOUT_S, environment, heddle_path  # noqa: E402

BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build" / "release"))
ID = "org.example.opencl"


def why_not():
    """What is missing on this machine; empty: nothing."""
    if not shutil.which("cmake"):
        return "cmake"
    if not any((pathlib.Path(folder) / "CL" / "cl.h").exists() for folder in ("/usr/include", "/usr/local/include")):
        return "CL/cl.h (Debian: opencl-c-headers)"
    try:
        count = ctypes.c_uint32()
        found = ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return "libOpenCL.so.1 (Debian: ocl-icd-libopencl1)"
    return "" if found else "a platform of OpenCL (Debian: pocl-opencl-icd)"


MISSING = why_not()


@unittest.skipIf(MISSING, f"SKIP: there is no {MISSING}")
@unittest.skipIf(os.environ.get("HEDDLE_SANITIZE"), "SKIP: the driver of this test is not sanitized")
class Example(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        temporary = tempfile.TemporaryDirectory(prefix="heddle-opencl-")
        cls.addClassCleanup(temporary.cleanup)
        prefix, cls.driver = pathlib.Path(temporary.name) / "prefix", pathlib.Path(temporary.name) / "build"
        # Optimized code would take longer to compile than it saves.
        flags = "-Wall -Wextra -Werror -O0"
        for command in (["cmake", "--install", BUILD, "--component", "sdk", "--prefix", prefix],
                        ["cmake", "-S", prefix / "share/doc/heddle/examples/opencl", "-B", cls.driver, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                         f"-DCMAKE_CXX_FLAGS_RELEASE={flags}"],
                        ["cmake", "--build", cls.driver, "-j", "2"]):
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
            if done.returncode != 0:
                raise AssertionError(f"{' '.join(map(str, command))}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")

    def with_options(self, more=None, **options):
        config = self.folder / "heddle.toml"
        config.write_text(f'interpreted = "allow"\n[driver."{ID}"]\n' + "".join(f"{name} = {value}\n" for name, value in options.items()))
        return {"HEDDLE_PLUGIN_PATH": str(self.driver), "HEDDLE_CONFIG": str(config), **(more or {})}

    def kit(self, *arguments):
        command = [heddle_path().with_name("heddle-conformance"), "--plugin", self.driver / f"{ID}.toml", "--json", "--jobs", "2", "--time-limit", "300", "--patience", "100",
                   *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=TIMEOUT_S, env=environment())
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return {case["name"]: case for case in json.loads(done.stdout)["cases"]}

    def compile_for(self, path, target):
        return self.compile(path, "--target", target, *(["--target-plugin", self.driver / f"{ID}_target.toml"] if target != "portable" else []))

    def run_on_device(self, path, feeds, target, **options):
        """The first result of the model, and the counts of the device."""
        module, got, given = self.compile_for(path, target), self.folder / "got.npy", []
        for index, (name, array) in enumerate(feeds.items()):
            np.save(self.folder / f"{index}.npy", array)
            given += ["--input", f"{name}=@{self.folder / str(index)}.npy"]
        got.unlink(missing_ok=True)
        text = self.succeed("run", module, *given, "--output", f"@{got}", "--device", "opencl:0", "--statistics", extra_environment=self.with_options(**options)).stderr
        (device,) = [each for each in json.loads(text[text.index("{"):text.rindex("}") + 1])["devices"] if each["device"] == "opencl:0"]
        return np.load(got), device["driver_counts"]

    def check(self, path, feeds, target="portable", **options):
        got, counts = self.run_on_device(path, feeds, target, **options)
        expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        self.assert_close(got, expected, 1e-4, 1e-5 * float(np.abs(expected).max()))
        return counts

    def test_the_kit(self):
        cases = self.kit()
        self.assertEqual({name: case["texts"] for name, case in cases.items() if case["outcome"] == "failed"}, {})
        self.assertGreaterEqual(sum(case["outcome"] == "passed" for case in cases.values()), 125)

    def test_digits(self):
        feeds = {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
        counts = self.check(DIGITS, feeds)
        self.assertEqual((counts["interpreted"], counts["staged_bytes"]), (0, 0))
        self.assertGreater(counts["kernel_ns"], 0)
        counts = self.check(DIGITS, feeds, translate="false")
        self.assertEqual(counts["interpreted"], counts["dispatches"])
        self.assertGreater(counts["staged_bytes"], feeds["image"].nbytes)

    def test_the_target(self):
        feeds = {"image": np.random.default_rng(7).random((5, 1, 8, 8), dtype=np.float32)}
        counts = self.check(DIGITS, feeds, "cpu,opencl", translate="false")  # nothing is left to be interpreted
        self.assertEqual(counts["interpreted"], 0)
        text = self.succeed("explain", self.folder / "digits.heddle").stdout
        self.assertRegex(text, r"plugin +org\.example\.opencl_target 0\.1\.0, target opencl: (\d+) kernels for \1 regions")
        self.assertRegex(text, r"main\.0\.conv +conv1, norm1, relu1 .* opencl +opencl\.product")
        verified = self.succeed("compile", DIGITS, "-o", self.folder / "verified.heddle", "--target", "opencl", "--verify-target", "--target-plugin",
                                self.driver / f"{ID}_target.toml", extra_environment=self.with_options())
        self.assertRegex(verified.stdout + verified.stderr, r"compared (\d+) of \1 kernels of target plugin")

    def test_a_tensor_without_elements(self):
        """No place is in it, so all of the result is what is outside."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Pad", ["x", "pads", "value"], ["y"])], "pad", [value("x", TensorProto.FLOAT, (0, 3))],
                                  [value("y", TensorProto.FLOAT, (3, 3))],
                                  [helper.make_tensor("pads", TensorProto.INT64, (4,), (1, 0, 2, 0)), helper.make_tensor("value", TensorProto.FLOAT, (), (1.5,))])
        path = self.folder / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        for target in ("portable", "opencl"):
            self.assertEqual(self.check(path, {"x": np.zeros((0, 3), np.float32)}, target)["interpreted"], 0)

    def test_what_has_no_opencl_c_is_interpreted(self):
        """A product whose sides are no multiples of a tile, and a sort, for which there is only the interpreter."""
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("a", (3, 45, 70)), ("b", (70, 37)), ("top", (3, 45, 5)))]
        graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"]),
                                   helper.make_node("TopK", ["c", "k"], ["top", "which"], axis=-1)],
                                  "product_and_sort", values[:2], values[2:], [helper.make_tensor("k", TensorProto.INT64, (1,), (5,))])
        path, random = self.folder / "model.onnx", np.random.default_rng(11)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        feeds = {"a": random.standard_normal((3, 45, 70), np.float32), "b": random.standard_normal((70, 37), np.float32)}
        for target in ("portable", "opencl"):
            counts = self.check(path, feeds, target)
            self.assertGreater(counts["interpreted"], 0)
            self.assertLess(counts["interpreted"], counts["dispatches"])
            self.assertLess(counts["interpreted_ns"], counts["kernel_ns"])
        text = self.succeed("explain", self.folder / "model.heddle").stdout
        self.assertIn("opencl.product", text)
        self.compile_for(path, "portable")
        text = self.succeed("explain", self.folder / "model.heddle", "--route", "--device", "opencl:0", extra_environment=self.with_options()).stdout
        self.assertIn("opencl.product", text)
        self.assertIn("there is no OpenCL C for a sort", text)

    def test_what_is_missing_is_said(self):
        def reason_of(state, extra):
            text = self.succeed("plugins", "--format", "json", extra_environment=self.with_options({"XDG_CACHE_HOME": str(self.folder / "cache"), **extra})).stdout
            (plugin,) = [each for each in json.loads(text)["plugins"] if each["id"] == ID]
            self.assertEqual(plugin["state"], state, plugin)
            return plugin["reason"]

        (self.folder / "empty").mkdir()
        self.assertIn("OpenCL has no platform", reason_of("no-device", {"OCL_ICD_VENDORS": str(self.folder / "empty")}))
        libraries = self.folder / "libraries"
        libraries.mkdir()
        (libraries / "libOpenCL.so.1").write_bytes(b"no library")
        self.assertIn("libOpenCL.so.1", reason_of("missing-dependency", {"LD_LIBRARY_PATH": str(libraries)}))

    def test_a_compilers_log_is_in_the_error(self):
        kernels = (self.driver / "conformance" / "kernels.toml").read_text().replace("kernel void chain(", "kernel void chain(no_type ")
        (self.folder / "kernels.toml").write_text(kernels)
        cases = self.kit("--kernels", self.folder / "kernels.toml", "--filter", "dispatch.kernels")
        texts = " ".join(text for case in cases.values() for text in case["texts"])
        self.assertIn("OpenCL's compiler gave CL_BUILD_PROGRAM_FAILURE", texts)
        self.assertIn("no_type", texts)

    def test_functions_that_are_not_what_their_names_say(self):
        """An image of the target plugin whose functions were changed: they are shared by name with those of other images."""
        code = "HDLOCL1\\u0000" + "\\u0004" + "\\u0000" * 7 + "code" + "kernel void f0123456789abcdef(global uchar* b0, ulong a0) {}"
        text = (self.driver / "conformance" / "kernels.toml").read_text()
        (self.folder / "kernels.toml").write_text(text[:text.index("code = ")] + f'code = "{code}"\n')
        texts = " ".join(text for case in self.kit("--kernels", self.folder / "kernels.toml", "--filter", "dispatch.kernels").values() for text in case["texts"])
        self.assertIn("'kernel void f0123456789abcdef' is not what its name says", texts)

    @unittest.skipUnless(TEST_ALL, "SKIP: a long one; HEDDLE_TEST_ALL=1 runs it")
    def test_networks(self):
        command = [sys.executable, "-B", ROOT / "tests" / "opencl" / "networks.py", "--driver", self.driver]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600, env={**os.environ, "HEDDLE_BUILD": str(heddle_path().parents[1])})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
