# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules on heddle.hip over the stand-in for AMD's library, by the commands: results on each chip, why a device is not used."""
import json
import pathlib
import re
import shutil
import sys

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "e2e"))
from heddle_command import DIGITS, HeddleTestCase, heddle_path  # pylint: disable=wrong-import-position
import parameter_formats_test as formats  # found through heddle_command; pylint: disable=wrong-import-position,wrong-import-order

CHIPS = {"gfx90a": 5, "gfx942": 6, "gfx1100": 7, "gfx1201": 6}


def stand_in(chip, major=6, **more):
    """The environment of a command that finds the stand-in, as a library of this major version of HIP."""
    settings = {key: value for key, value in more.items() if key.islower()}
    return {"extra_environment": {"LD_LIBRARY_PATH": str(heddle_path().parents[1] / "tests" / "hip" / f"hip_{major}"),
                                  "HEDDLE_HIP_STAND_IN": ",".join([f"chip={chip}", *(f"{key}={value}" for key, value in settings.items())]),
                                  **{key: value for key, value in more.items() if key.isupper()}}}


def images(count):
    return np.random.default_rng(count).random((count, 1, 8, 8), dtype=np.float32)


class HipModels(HeddleTestCase):
    def test_digits_on_each_chip(self):
        module = self.compile(DIGITS, "--target", "cpu,hip")
        expected = self.run_module(module, "image", images(3), "--device", "cpu:0")
        for chip, major in CHIPS.items():
            with self.subTest(chip):
                got = self.run_module(module, "image", images(3), "--device", "hip:0", **stand_in(chip, major))
                self.assert_close(got, expected, 1e-4, 1e-4)
                self.assertFalse((got == expected).all(), "the very bits of the CPU: did it run there?")

    def test_one_file_for_four_vendors_and_a_device_that_the_configuration_names(self):
        module = self.compile(DIGITS, "--target", "cpu,cuda:sm_80,hip:gfx1100,level_zero")
        shown = self.succeed("explain", module).stdout
        for family in ("cpu", "cuda", "hip", "level_zero"):
            self.assertRegex(shown, rf"(?m)^(code)? *{family}: ")
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[device.radeon]\ndriver = "heddle.hip"\nselect = { uuid = "' + 15 * "5a" + '01" }\n'
                          '[[route]]\nslot = "default"\nto = ["radeon"]\n')
        expected = self.run_module(module, "image", images(2), "--device", "cpu:0")
        two = stand_in("gfx1100", devices=2)
        got = self.run_module(module, "image", images(2), "--config", config, **two)
        self.assert_close(got, expected, 1e-4, 1e-4)
        self.assertRegex(self.succeed("explain", "--route", "--config", config, module, **two).stdout, r"hip +radeon +hsaco/1 gfx1100")
        report = json.loads(self.succeed("profile", module, "--format", "json", "--dim", "batch=1", "--iterations", "2", "--config", config, **two).stdout)
        self.assertEqual([row["region"] for row in report["regions"] if row["time_ns"] <= 0], [])
        self.assertIn("conv", report["regions"][0]["region"])
        full = self.fail_with(1, "run", module, "--input", "image=f32[1,1,8,8]=0.5", "--config", config, **stand_in("gfx1100", devices=2, memory=65536))
        self.assertIn("hipErrorOutOfMemory", full.stderr)
        self.assertEqual([line[:8] for line in full.stderr.splitlines() if line and line[0] != " "], ["heddle: "], full.stderr)

    def test_weights_in_blocks_are_decoded_by_the_device(self):
        columns, file, source = 512, self.folder / "w.gguf", self.folder / "rows.mlir"
        for kind, (chip, major) in zip(("Q4_0", "Q5_K", "IQ4_XS", "NVFP4"), CHIPS.items()):
            with self.subTest(f"{kind} on {chip}"):
                content, values = formats.random_blocks(kind, columns)
                formats.write_gguf(file, [("w", formats.BLOCKS[kind][0], [formats.ROWS, columns], content)])
                table = f"tensor<{formats.ROWS}x{columns}xf32>"
                source.write_text(f'module {{ func.func @main(%ids: tensor<{formats.ROWS}xi64> {{tx.name = "ids"}}) -> ({table} {{tx.name = "y"}}) {{\n'
                                  f'  %w = tx.parameter "w" : {table}\n'
                                  f"  %y = tx.gather %w, %ids {{axis = 0 : i64}} : {table}, tensor<{formats.ROWS}xi64> -> {table}\n"
                                  f"  return %y : {table} }} }}\n")
                module = self.compile(source, "--target", f"hip:{chip}")
                ids, got = self.folder / "ids.npy", self.folder / "y.npy"
                np.save(ids, np.arange(formats.ROWS, dtype=np.int64))
                done = self.succeed("run", module, "--params", file, "--input", f"ids=@{ids}", "--output", f"@{got}", "--device", "hip:0", "--statistics",
                                    **stand_in(chip, major))
                self.assertEqual((np.load(got) != values).sum(), 0)
                uploaded = max(map(int, re.findall(r'"upload_bytes": *(\d+)', done.stderr)))
                self.assertLess(uploaded, 4 * formats.ROWS * columns, "the host has decoded them")

    def test_a_module_on_two_drivers(self):
        expected = self.run_module(self.compile(DIGITS), "image", images(2))
        module = self.compile(DIGITS, "--target", "cpu,hip:gfx1100", "--place", "op:Conv=@gpu", "--slot", "@gpu=hip")
        for devices in (("cpu:0", "hip:0"), ("hip:1", "hip:0")):
            with self.subTest(devices=devices):
                got = self.run_module(module, "image", images(2), "--device", devices[0], "--device", f"@gpu={devices[1]}", **stand_in("gfx1100", devices=2))
                self.assert_close(got, expected, 1e-4, 1e-4)

    def test_a_module_on_amd_and_intel(self):
        intel = heddle_path().parents[1] / "tests" / "level_zero" / "libheddle_test_level_zero.so"
        if not intel.exists() or not shutil.which("llvm-spirv-15"):
            self.skipTest("SKIP: the stand-in for Level Zero is not built")
        expected = self.run_module(self.compile(DIGITS), "image", images(2))
        places = [argument for pattern in ("conv*=@amd", "norm*=@amd", "relu*=@amd", "pool*=@intel", "hidden=@intel", "logits=@intel")
                  for argument in ("--place", pattern)]
        module = self.compile(DIGITS, "--target", "hip:gfx1100,level_zero", "--slot", "@amd=hip", "--slot", "@intel=level_zero", *places)
        both = stand_in("gfx1100", seed=2, ZE_ENABLE_ALT_DRIVERS=str(intel), ZE_ENABLE_VALIDATION_LAYER="1", ZE_ENABLE_PARAMETER_VALIDATION="1",
                        POCL_CACHE_DIR=str(intel.parent / "pocl"))
        got = self.run_module(module, "image", images(2), "--device", "@amd=hip:0", "--device", "@intel=level_zero:0", **both)
        self.assert_close(got, expected, 1e-4, 1e-4)

    def test_why_a_device_or_a_variant_is_not_used(self):
        module = self.compile(DIGITS, "--target", "cpu,hip:gfx1100")
        other = stand_in("gfx1030")
        self.assertIn("AMD gfx1030 (interpreted)", self.succeed("devices", **other).stdout)
        refused = self.fail_with(4, "run", module, "--input", "image=f32[1,1,8,8]=0.5", "--device", "hip:0", **other)
        self.assertIn("hip:0: executable 'hip' has no variant that it runs (it has hsaco/1 gfx1100)", refused.stderr)
        shown = self.succeed("devices", **stand_in("gfx1100", devices=3, HIP_VISIBLE_DEVICES="2,0")).stdout
        self.assertIn("0000:a2:00.0", shown)
        self.assertIn("0000:a0:00.0", shown)
        self.assertNotIn("0000:a1:00.0", shown)
        route = self.succeed("explain", "--route", "--device", "hip:1", module, **stand_in("gfx1100", devices=2)).stdout
        self.assertIn("hsaco/1 gfx1100", route)
        hidden = self.succeed("plugins", "--why", **stand_in("gfx1100", HIP_VISIBLE_DEVICES="")).stdout
        self.assertIn("hipInit returned hipErrorNoDevice", hidden)

    def test_a_library_that_is_absent_or_unknown_is_a_reason(self):
        folder = self.folder / "libraries"
        folder.mkdir()

        def why():
            return self.succeed("plugins", "--why", extra_environment={"LD_LIBRARY_PATH": str(folder)}).stdout

        for major in (5, 6, 7):
            (folder / f"libamdhip64.so.{major}").write_bytes(b"nothing")
        self.assertIn("libamdhip64.so.7: file too short; ", why())
        folder = self.folder / "other"  # the result of a probe is kept as long as the environment is the same
        folder.mkdir()
        for major in (5, 6, 7):
            (folder / f"libamdhip64.so.{major}").symlink_to(heddle_path().parents[1] / "lib" / "heddle" / "plugins.d" / "libheddle_cpu.so")
        lacks = "; ".join(f"libamdhip64.so.{major} lacks hipGetErrorName" for major in (7, 6, 5))
        self.assertIn(lacks + "; install AMD's driver", why())
