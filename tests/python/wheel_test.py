# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The installed wheels heddle and heddle-compiler: programs, where their libraries come from, licenses and SBOM. tools/dev/wheels runs it."""
import ctypes
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest
from importlib import metadata

import heddle
import models
import numpy as np

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
PACKAGE = pathlib.Path(heddle.__file__).resolve().parent
EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)\.so\.\d+")


def installed(name):
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


@unittest.skipIf(installed("heddle") is None or installed("heddle-compiler") is None, "the wheels are not installed; run tools/dev/wheels")
class Wheels(unittest.TestCase):
    def run_script(self, *arguments):
        done = subprocess.run([pathlib.Path(sys.prefix, "bin", arguments[0]), *arguments[1:]], capture_output=True, text=True, timeout=300,
                              env={"HOME": str(models.FOLDER), "PATH": "/nowhere"})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_commands(self):
        module = models.FOLDER / "command.heddle"
        self.run_script("heddle", "compile", SOURCE / "tests/models/digits/digits.onnx", "-o", module, "--target", "cpu,cuda")
        self.assertIn("image", self.run_script("heddle", "explain", module))
        self.assertIn("cpu:0", self.run_script("heddle", "devices"))
        page = models.FOLDER / "page.html"
        self.run_script("heddle", "explain", module, "--html", page)
        self.assertIn("<svg", page.read_text())
        for name in ("heddle-compile", "heddle-page", "heddle-params", "heddle-profile", "heddle-tune"):
            self.assertIn("Usage", self.run_script(name, "--help"))

    def test_plugins_of_the_wheel(self):
        plugins = {plugin["id"]: plugin for plugin in heddle.plugins()}
        for name in ("heddle.cpu", "heddle.cuda", "heddle.log", "heddle.pool"):
            self.assertEqual(pathlib.Path(plugins[name]["manifest"]).parent, PACKAGE / "lib" / "heddle" / "plugins.d")
        self.assertEqual(plugins["heddle.cpu"]["state"], "available")

    def test_validation_is_there(self):
        with heddle.Runtime(config_text="[validation]\ncalls = true\n") as runtime, heddle.open(models.add(4), runtime=runtime) as module:
            self.assertEqual(module(np.ones(4, "f4"), np.ones(4, "f4")).tolist(), [2.0] * 4)
            self.assertTrue(runtime.report("validation"))

    def test_every_library_is_of_the_wheels_or_everywhere(self):
        seen = 0
        for name in ("heddle", "heddle-compiler"):
            for file in installed(name).files:
                path = pathlib.Path(str(file.locate()))
                if not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                    continue
                seen += 1
                done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, env={})
                for library, found in re.findall(r"^\s*(\S+) => (.+?)(?: \(0x.*)?$", done.stdout, re.MULTILINE):
                    if not EVERYWHERE.fullmatch(library):
                        self.assertIn(pathlib.Path(found).resolve().parent.parent.name, ("heddle", "heddle_compiler"), f"{path} takes {library} from {found}")
        self.assertGreater(seen, 12)

    def test_llvm_is_in_the_compiler_and_exported_by_nothing(self):
        folder = pathlib.Path(str(installed("heddle-compiler").locate_file("heddle_compiler/lib")))
        self.assertEqual([path.name for path in folder.iterdir() if re.match("lib(LLVM|MLIR|lld)", path.name)], [])
        library = ctypes.CDLL(str(folder / "libheddle_compiler.so.0"))
        self.assertTrue(hasattr(library, "heddle_compile"))
        for name in ("LLVMContextCreate", "LLVMInitializeX86Target", "mlirContextCreate", "_ZN4llvm24DisableABIBreakingChecksE"):
            self.assertFalse(hasattr(library, name), name)

    def test_licenses_and_sbom(self):
        for name in ("heddle", "heddle-compiler"):
            files = {str(file): pathlib.Path(str(file.locate())) for file in installed(name).files}
            (listed,) = [path for file, path in files.items() if file.endswith(f"sboms/{name}.cdx.json")]
            document = json.loads(listed.read_text())
            self.assertEqual((document["bomFormat"], document["metadata"]["component"]["version"]), ("CycloneDX", installed(name).version))
            components = {component["name"]: component for component in document["components"]}
            licensed = {path.parent.name for file, path in files.items() if "/licenses/" in file}
            self.assertLessEqual(set(components), licensed)
            self.assertTrue(any(file.endswith("/LICENSE") for file in files))
            hashes = {value["content"] for component in components.values() for value in component.get("hashes", [])}
            own = {path.name for path in files.values() if path.name.startswith(("libheddle", "_core"))}
            bundled = [path for path in files.values() if ".so" in path.name and path.name not in own]
            self.assertEqual({hashlib.sha256(path.read_bytes()).hexdigest() for path in bundled}, hashes)
            linked = {"heddle": {"nanobind"}, "heddle-compiler": {"liblld-19-dev", "libmlir-19-dev", "llvm-19-dev", "onnx"}}
            self.assertLessEqual(linked[name], set(components))

    def test_the_tag_is_that_of_manylinux(self):
        for name in ("heddle", "heddle-compiler"):
            self.assertRegex(installed(name).read_text("WHEEL"), r"Tag: (cp311-cp311|cp312-abi3|py3-none)-manylinux_2_36_x86_64")


if __name__ == "__main__":
    unittest.main()
