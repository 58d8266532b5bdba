# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Frozen modules of every format version, executed: their code is of the format ids of code.h as they were.

kernels-0.1.heddle has the kernel of kernels_module.cpp as x86_64-elf/1, sample-stack/1, sample-fixed/1 and ptx/1, cubin-0.1.heddle as cubin/1; add-0.1.heddle was compiled from an ONNX file
with one Add of 4 floats, as x86_64-elf/1 for x86-64-v3 and v4. They are never written again (compat_module_test.cpp opens them and compares what they say).
"""
import json
import os
import pathlib
import subprocess
import unittest

SOURCE, BUILD = pathlib.Path(os.environ["HEDDLE_SOURCE"]), pathlib.Path(os.environ["HEDDLE_BUILD"])
HERE = SOURCE / "tests" / "compat"
PLUGINS = BUILD / "lib" / "heddle" / "plugins.d"
TEMPLATES = BUILD / "tests" / "template"


def application(*words):
    done = subprocess.run([BUILD / "tests" / "compat_application", *[str(word) for word in words]], capture_output=True, text=True, check=False,
                          timeout=300)
    return done.returncode, done.stdout + done.stderr


class FrozenModules(unittest.TestCase):
    def executes(self, plugins, device, modules="kernels-*.heddle"):
        found = sorted(HERE.glob(modules))
        self.assertTrue(found, f"no {modules}")
        for module in found:
            code, text = application("run", plugins, device, module, "")
            self.assertEqual(code, 0, text[-2000:])
            self.assertIn("\ncall: ok\n", text)
            self.assertIn("\nstart: ok\n", text)

    def test_x86_64_elf_1(self):
        self.executes(PLUGINS, "heddle.cpu:0")

    def test_the_formats_of_the_templates(self):
        self.executes(TEMPLATES / "driver" / "cpp", "org.example.sample:0")
        self.executes(TEMPLATES / "driver" / "c", "org.example.sample_c:0")

    def test_what_gpus_take(self):
        """ptx/1 and cubin/1."""
        code, text = application("report", PLUGINS, "devices")
        self.assertEqual(code, 0, text)
        devices = json.loads(text[text.index("{"):])["devices"]
        if not any(device["driver"] == "heddle.cuda" for device in devices):
            self.assertNotEqual(os.environ.get("HEDDLE_GPU"), "required", "no CUDA device")
            self.skipTest("SKIP: no CUDA device; the frozen ptx/1 and cubin/1 were not executed")
        self.executes(PLUGINS, "heddle.cuda:0")
        self.executes(PLUGINS, "heddle.cuda:0", "cubin-*.heddle")

    def test_a_compiled_network(self):
        if not (BUILD / "bin" / "heddle").exists():
            self.skipTest("SKIP: the command heddle is not built")
        done = subprocess.run([BUILD / "bin" / "heddle", "run", HERE / "add-0.1.heddle", "--device", "cpu:0", "--input", "x=f32[4]=1,2,3,4", "--input",
                               "y=f32[4]=10,20,30,40", "--expect", "z=f32[4]=11,22,33,44"], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        wrong = subprocess.run([BUILD / "bin" / "heddle", "run", HERE / "add-0.1.heddle", "--device", "cpu:0", "--input", "x=f32[4]=1,2,3,4", "--input",
                                "y=f32[4]=10,20,30,40", "--expect", "z=f32[4]=11,22,33,45"], capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(wrong.returncode, 3, wrong.stderr + wrong.stdout)


if __name__ == "__main__":
    unittest.main()
