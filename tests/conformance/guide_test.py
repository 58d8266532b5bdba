# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a plugin author has: docs/plugin-*.md show a driver, an allocator and an operator, sdk/template has more, new-driver and new-target lay one out. Each
is built against an installation of the component sdk, where no source of Heddle is, and passes the kit."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kit

GUIDE = "".join((kit.SOURCE / "docs" / f"plugin-{page}.md").read_text(encoding="utf-8") for page in ("guide", "allocators", "operators"))


def build(source, folder, prefix):
    """Configures and builds a project against an installed SDK, with warnings as errors."""
    flags = "-Wall -Wextra -Werror"
    if os.environ.get("HEDDLE_SANITIZE"):
        flags += f" -fsanitize={os.environ['HEDDLE_SANITIZE']}"
    for command in (["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release",
                     f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"],
                    ["cmake", "--build", str(folder), "-j", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


class OutOfTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        installed = tempfile.TemporaryDirectory(prefix="heddle-sdk-")
        cls.addClassCleanup(installed.cleanup)
        cls.prefix = installed.name
        subprocess.run(["cmake", "--install", str(kit.BUILD), "--component", "sdk", "--prefix", cls.prefix], check=True, capture_output=True)

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="heddle-guide-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def conforms(self, manifest, least):
        _, cases = kit.run(manifest)
        self.assertEqual({name: case["texts"] for name, case in cases.items() if case["outcome"] == "failed"}, {})
        self.assertGreaterEqual(kit.count(cases, "passed"), least)

    def test_what_the_guide_shows(self):
        text = GUIDE
        of_allocator = "com.acme.shelf.toml shelf.cpp CMakeLists.txt".split()
        of_operator = "com.acme.ops.toml ops.cpp CMakeLists.txt operators.toml model.py run.sh".split()
        blocks = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertEqual({name for name, _ in blocks}, {"com.acme.loom.toml", "CMakeLists.txt", "plugin.map", "loom.cpp", "kernels.toml", "portable.diff",
                                                        "gemm.cpp",
                                                        *(f"allocator/{name}" for name in of_allocator),
                                                        *(f"operator/{name}" for name in of_operator)})
        # What belongs to no file is a command line, the examples of skips.toml and of a manifest's [load], or an alternative, which are tried below.
        self.assertEqual(len(re.findall(r"^```\w", text, re.MULTILINE)) - len(blocks), 8)
        for part in ("allocator", "operator"):
            (self.folder / part).mkdir()
        for name, block in blocks:
            with open(self.folder / name, "a", encoding="utf-8") as file:
                file.write(block)
        build(self.folder, self.folder / "build", self.prefix)
        self.conforms(self.folder / "build" / "com.acme.loom.toml", 120)
        self.may_be_unloaded(text, self.folder / "build" / "com.acme.loom.toml")
        self.extracted_and_patched(dict(blocks))

        allocator = self.folder / "allocator"
        (allocator / "plugin.map").write_bytes((self.folder / "plugin.map").read_bytes())
        build(allocator, allocator / "build", self.prefix)
        self.conforms(allocator / "build" / "com.acme.shelf.toml", 30)

        operator = self.folder / "operator"
        (operator / "plugin.map").write_bytes((self.folder / "plugin.map").read_bytes())
        build(operator, operator / "build", self.prefix)
        self.conforms(operator / "build" / "com.acme.ops.toml", 27)
        if not (kit.BUILD / "bin" / "heddle-compile").exists():
            return
        changed = {**kit.environment(), "XDG_DATA_HOME": str(self.folder / "data"), "XDG_CACHE_HOME": str(self.folder / "cache"),
                   "PATH": f"{kit.BUILD / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        command = ["bash", "-euxc", (operator / "run.sh").read_text()]
        ran = subprocess.run(command, cwd=operator, env=changed, capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-3000:])
        self.assertIn("com.acme::Whiten/1", ran.stdout)
        self.assertIn("0 failed", ran.stdout)
        self.alternative(text, operator, changed)
        # Without the plugin nobody has it.
        (self.folder / "data/heddle/plugins.d/com.acme.ops.toml").unlink()
        again = subprocess.run(command[:2] + [command[2].splitlines()[-1]], cwd=operator, env=changed, capture_output=True, text=True, check=False,
                               timeout=600)
        self.assertEqual(again.returncode, 4, again.stderr)
        self.assertIn("com.acme::Whiten/1", again.stderr)

    def may_be_unloaded(self, text, manifest):
        """The driver with the guide's [load] in its manifest."""
        with open(manifest, "a", encoding="utf-8") as file:
            file.write("\n" + re.search(r"^```toml\n(\[load\].*?)^```$", text, re.MULTILINE | re.DOTALL).group(1))
        _, cases = kit.run(manifest, "--filter", "lifetime.unload")
        self.assertEqual({name: case["outcome"] for name, case in cases.items()}, {"lifetime.unload": "passed", "lifetime.unload_last": "passed"})

    def extracted_and_patched(self, blocks):
        """The page's command writes its files, and its patch makes a driver of them that runs models."""
        folder = self.folder / "extracted"
        folder.mkdir()
        command = re.search(r"^awk .*$", GUIDE, re.MULTILINE).group(0).split("$prefix")[0]
        subprocess.run(["bash", "-euc", f"{command} '{kit.SOURCE / 'docs' / 'plugin-guide.md'}' && patch -s < portable.diff"], cwd=folder, check=True)
        self.assertTrue({path.name for path in folder.iterdir()} >= {name for name in blocks if "/" not in name})
        build(folder, folder / "build", self.prefix)
        self.conforms(folder / "build" / "com.acme.loom.toml", 125)
        self.runs_the_digits(folder / "build", "interpreted")

    def runs_the_digits(self, plugins, runs_convolutions, target="portable", *arguments):
        """A whole model, with the results of the CPU driver; `explain --route` says what runs convolutions."""
        if not (kit.BUILD / "bin" / "heddle-compile").exists():
            return
        changed = {**kit.environment(), "HEDDLE_PLUGIN_PATH": str(plugins), "HEDDLE_SET": 'interpreted = "allow"'}
        heddle, module = kit.BUILD / "bin" / "heddle", self.folder / "digits.heddle"

        def execute(*command):
            ran = subprocess.run([heddle, *command], env=changed, capture_output=True, text=True, check=False, timeout=600, cwd=self.folder)
            self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-3000:])
            return ran.stdout + ran.stderr

        said = execute("compile", kit.SOURCE / "tests/models/digits/digits.onnx", "-o", module, "--target", f"{target},cpu", *arguments)
        inputs = ["--input", "image=f32[1,1,8,8]=0.5"]
        execute("run", module, "--device", "cpu:0", *inputs, "--output", "logits=@expected.npy")
        execute("run", module, "--device", "loom:0", *inputs, "--expect", "logits=@expected.npy", "--rtol", "1e-4")
        self.assertRegex(execute("explain", module, "--route", "--device", "loom:0"), rf"k0_conv +loom:0 +(-|contract \(convolution\)) +{runs_convolutions} ")
        return said

    def alternative(self, text, folder, environment):
        """The model's Sigmoid, declared as the guide does: a plugin may run it, and the rule is for it."""
        (folder / "sigmoid.toml").write_text(re.search(r"^```toml\n(\[\[operator\]\].*?)^```$", text, re.MULTILINE | re.DOTALL).group(1))
        (folder / "heddle.toml").write_text(re.search(r"^```toml\n(\[\[prefer\]\].*?)^```$", text, re.MULTILINE | re.DOTALL).group(1))
        commands = ("heddle compile model.onnx -o sigmoid.heddle --operators com.acme.ops.toml --operators sigmoid.toml\n"
                    "heddle config check heddle.toml\n"
                    "heddle run sigmoid.heddle --config heddle.toml --input x=@x.npy --expect y=@y.npy --rtol 1e-4\n"
                    "heddle explain sigmoid.heddle\n"
                    "heddle explain sigmoid.heddle --config heddle.toml\n")
        ran = subprocess.run(["bash", "-euxc", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600)
        self.assertEqual(ran.returncode, 0, ran.stdout[-3000:] + ran.stderr[-3000:])
        self.assertRegex(ran.stdout, r"may run instead of own kernels, .*: 1 ai.onnx::Sigmoid/13\n")
        self.assertRegex(ran.stdout, r"main\.\d\.Sigmoid +Sigmoid#2 +element-wise")
        self.assertIn("skipped library:com.acme.ops: ai.onnx::Sigmoid/13 is not offered by any plugin", ran.stdout)

    def test_the_example_of_skips(self):
        text = GUIDE
        skips = re.search(r"^```toml\n(\[skips\].*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
        (self.folder / "skips.toml").write_text(skips)
        _, cases = kit.run(kit.BUILD / "tests/template/driver/cpp/org.example.sample.toml", "--skips", str(self.folder / "skips.toml"), "--filter",
                           "transfer.copy")
        self.assertEqual(cases["transfer.copy_2d"]["outcome"], "skipped")

    def test_what_new_driver_lays_out(self):
        script = kit.SOURCE / "tools" / "dev" / "new-driver"
        for arguments in ([], ["loom"], ["heddle.loom.x", "f"], ["Com.Acme.Loom", "f"], ["com.acme.loom", str(self.folder)]):
            refused = subprocess.run([script, *arguments], capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual(refused.returncode, 2, arguments)
        driver = self.folder / "warp"
        subprocess.run([script, "com.acme.warp", str(driver)], check=True, capture_output=True)
        left = [path.name for path in driver.rglob("*") if path.is_file() and "sample" in path.read_text().lower()]
        self.assertEqual(left, [])
        build(driver, self.folder / "build", self.prefix)
        self.conforms(self.folder / "build" / "com.acme.warp.toml", 125)

    def test_the_way_from_an_empty_directory(self):
        """The guide's three steps: a driver, its own kernels with the guide's gemm.cpp, and a compiler target."""
        script = pathlib.Path(self.prefix) / "share/heddle/template"
        for arguments in ([], ["loom"], ["heddle.loom", "f"], ["com.acme.cpu", "f"], ["com.acme.loom", str(self.folder)]):
            refused = subprocess.run([script / "new-target", *arguments], capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual(refused.returncode, 2, arguments)
            self.assertTrue(refused.stderr.startswith("usage: new-target") or "exists" in refused.stderr, refused.stderr)
        driver, target = self.folder / "driver", self.folder / "target"
        subprocess.run([script / "new-driver", "acme.loom", str(driver)], check=True, capture_output=True)
        subprocess.run([script / "new-target", "acme.loom", str(target)], check=True, capture_output=True)
        left = [path.name for path in target.rglob("*") if path.is_file() and "sample" in path.read_text().lower()]
        self.assertEqual(left, [])
        (driver / "own_kernels.cpp").write_text(re.search(r"^```cpp file=gemm.cpp\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL).group(1))
        for source in (driver, target):
            build(source, source / "build", self.prefix)
        manifest = target / "build" / "acme.loom_target.toml"
        _, cases = kit.run(manifest, "--driver", str(driver / "build" / "acme.loom.toml"))
        self.assertEqual({name: case["texts"] for name, case in cases.items() if case["outcome"] == "failed"}, {})
        self.assertEqual({cases[name]["outcome"] for name in ("target.takes", "target.numbers")}, {"passed"})
        said = self.runs_the_digits(driver / "build", "loom.convolution", "loom", "--target-plugin", manifest, "--verify-target")
        if said:
            self.assertRegex(said, r"compared (\d+) of \1 kernels of target plugin 'acme.loom_target' 0.1.0 with portable code; 0 have other numbers")

    def test_the_other_templates(self):
        for template, manifest, least in (("driver/c", "org.example.sample_c.toml", 110), ("allocator/c", "org.example.system.toml", 25),
                                          ("allocator/cpp", "org.example.arena.toml", 25), ("library/cpp", "org.example.whiten.toml", 26),
                                          ("library/c", "org.example.scale.toml", 24)):
            folder = self.folder / template.replace("/", "_")
            build(pathlib.Path(self.prefix) / "share" / "heddle" / "template" / template, folder, self.prefix)
            self.conforms(folder / manifest, least)


if __name__ == "__main__":
    unittest.main()
