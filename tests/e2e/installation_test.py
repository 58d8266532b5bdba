# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `cmake --install` gives: the files that docs/installation.md lists, a folder that works where it is moved to, parts that work alone
or say what is missing, and something that CMake and pkg-config can build against."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np

from heddle_command import DIGITS, HeddleTestCase, REPOSITORY, TIMEOUT_S, environment

BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", REPOSITORY / "build" / "release"))
PAGE = REPOSITORY / "docs" / "installation.md"
SANITIZE = [f"-fsanitize={os.environ['HEDDLE_SANITIZE']}"] if os.environ.get("HEDDLE_SANITIZE") else []


def components():
    text = (BUILD / "CPackConfig.cmake").read_text()
    return re.search(r'^set\(CPACK_COMPONENTS_ALL "(.*)"\)$', text, re.MULTILINE).group(1).split(";")


def plugins():
    """The plugins of the build, each a component: cpu for heddle.cpu."""
    return sorted(path.name.split(".")[1] for path in (BUILD / "lib/heddle/plugins.d").glob("heddle.*.toml"))


def listed_files():
    """Component -> (package, regular expressions of its files), from the page's table."""
    rows = {}
    for name, package, files in re.findall(r"^\| (.*?`[\w]+`) \| `([\w-]+)` \| (`.*`) \|$", PAGE.read_text(), re.MULTILINE):
        for component in plugins() if "NAME" in name else [name.strip("`")]:
            own = package.replace("NAME", component.replace("_", "-"))
            patterns = re.findall(r"`([^`]+)`", files.replace("NAME", component))
            if component != "etc":
                patterns.append(f"share/doc/{own}/copyright")
            rows[component] = own, [re.escape(p).replace(r"\*\*", ".+").replace(r"\*", "[^/]*") for p in patterns]
    return rows


class InstallationCase(HeddleTestCase):
    def start(self, *command, extra_environment=None):
        return subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=TIMEOUT_S, cwd=self.folder,
                              stdin=subprocess.DEVNULL, env={**environment(), **(extra_environment or {})})

    def execute(self, *command, **options):
        process = self.start(*command, **options)
        self.assertEqual(process.returncode, 0, f"{command}\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
        return process.stdout

    def install(self, *parts):
        """Everything, or these components, in a folder that was moved since."""
        own = pathlib.Path(tempfile.mkdtemp(prefix="prefix-", dir=self.folder))
        there, here = own / "first", own / "moved"
        for part in parts or [None]:
            self.execute("cmake", "--install", BUILD, "--prefix", there, *(["--component", part] if part else []))
        there.rename(here)
        return here


class Components(InstallationCase):
    def installed(self, component=None):
        root = self.folder / (component or "all")
        self.execute("cmake", "--install", BUILD, "--prefix", "/prefix", *(["--component", component] if component else []),
                     extra_environment={"DESTDIR": str(root)})
        files = [path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()]
        return sorted("/" + str(path.relative_to(root)) for path in files)

    def test_each_has_the_files_that_the_page_lists(self):
        listed = listed_files()
        self.assertEqual(sorted(listed), sorted(components()))
        together = []
        for component, (_, patterns) in listed.items():
            files = [name.removeprefix("/prefix/") for name in self.installed(component)]
            unlisted = [name for name in files if not any(re.fullmatch(pattern, name) for pattern in patterns)]
            absent = [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in files)]
            self.assertEqual((unlisted, absent), ([], []), f"component {component}, and docs/installation.md")
            if component != "etc":
                together += files
        # Nothing is in two components, and nothing in none.
        self.assertEqual(sorted(together), [name.removeprefix("/prefix/") for name in self.installed()])

    def test_nothing_says_where_it_is(self):
        prefix = self.install()
        for path in [*prefix.rglob("*.cmake"), *prefix.rglob("*.pc"), *prefix.rglob("*.toml")]:
            self.assertNotRegex(path.read_text(), rf"(?<![\w.}}-])({re.escape(str(self.folder))}|{re.escape(str(REPOSITORY))})(?![\w.-])", str(path))
        for path in [*prefix.glob("bin/*"), *prefix.rglob("*.so*")]:
            dynamic = self.execute("readelf", "-d", path)
            folders = [folder for found in re.findall(r"runpath: \[(.*)\]", dynamic) for folder in found.split(":")]
            self.assertEqual([folder for folder in folders if not folder.startswith(("$ORIGIN", "/usr/lib/llvm-"))], [], str(path))
            if "plugins.d" in str(path):
                self.assertEqual(folders, [], str(path))


class Pages(InstallationCase):
    def test_links_lead_somewhere(self):
        """Every link of the installed pages, with its anchor, and every path below share/ that the pages for vendors name."""
        prefix = self.install()
        folder = prefix / "share/doc/heddle"
        pages = {page: page.read_text(encoding="utf-8") for page in folder.rglob("*.md")}
        self.assertGreater(len(pages), 100)
        anchors = {page: {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()).replace(" ", "-")
                          for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)} for page, text in pages.items()}
        lost = []
        for page, text in pages.items():
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                target, _, anchor = link.partition("#")
                there = (page.parent / target).resolve() if target else page
                if not link.startswith("http") and (there not in pages or (anchor and anchor not in anchors[there])):
                    lost.append(f"{page.relative_to(folder)}: {link}")
        self.assertEqual(lost, [])
        named = {path for name in ("plugin-guide", "plugin-targets", "plugin-allocators", "plugin-operators", "portable-code", "example-opencl")
                 for path in re.findall(r"[`/](?<!\.local/)(share/(?:heddle|doc)/[\w./-]+)", pages[folder / f"{name}.md"])}
        self.assertGreater(len(named), 10)
        self.assertEqual([path for path in sorted(named) if not (prefix / path).exists()], [])
        # Files that only a checkout has are called that.
        for name in ("plugin-guide", "plugin-targets", "plugin-allocators", "plugin-operators", "portable-code"):
            for line in re.findall(r".*`(?:sdk|tests|plugins|tools|core)/.*", pages[folder / f"{name}.md"]):
                self.assertTrue("checkout" in line or line.startswith("|") or "block_kernels" in line, f"{name}.md: {line}")


class Programs(InstallationCase):
    def test_everything_runs_where_it_was_moved_to(self):
        heddle = self.install() / "bin" / "heddle"
        self.execute(heddle, "compile", DIGITS, "-o", "digits.heddle")
        self.assertIn("logits=f32[1,10]=", self.execute(heddle, "run", "digits.heddle", "--input", "f32[1,1,8,8]=1"))
        self.assertIn("func.func @", self.execute(heddle, "import", DIGITS))
        self.assertIn("usage: heddle-import", self.execute(heddle, "help", "import"))
        self.assertIn("--heddle-fold-casts", self.execute(heddle, "help", "opt"))

    def test_the_runtime_and_a_driver_run_a_module_and_miss_the_compiler(self):
        self.execute(BUILD / "bin" / "heddle", "compile", DIGITS, "-o", "digits.heddle")
        for parts in (["runtime", "cpu"], ["runtime", "cpu", "pool"]):
            prefix = self.install(*parts)
            heddle = prefix / "bin" / "heddle"
            self.assertIn("logits=f32[1,10]=", self.execute(heddle, "run", "digits.heddle", "--input", "f32[1,1,8,8]=1"))
            shown = self.execute(prefix / "bin" / "heddle-plugins", "--why", "--format", "csv")
            self.assertIn(f"{prefix}/lib/heddle/plugins.d/heddle.cpu.toml", shown)
            for command, package in (("compile", "heddle-compiler"), ("page", "heddle-page"), ("params", "heddle-params"), ("profile", "heddle-profile"), ("import", "heddle-tools"), ("opt", "heddle-tools")):
                for arguments in ([command, "x"], ["help", command]):
                    refused = self.start(heddle, *arguments, extra_environment={"PATH": "/nowhere"})
                    self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                    self.assertEqual(refused.stderr, f"heddle: starting heddle-{command} failed: it is neither in the directory of heddle nor on PATH; "
                                                     f"install the package {package}\n")
                    self.assertIn(package, [own for own, _ in listed_files().values()])
            self.assertIn("(not installed; package heddle-compiler)", self.execute(heddle, "--help", extra_environment={"PATH": "/"}))

    def test_the_runtime_alone_says_what_brings_devices(self):
        heddle = self.install("runtime") / "bin" / "heddle"
        alone = {"HOME": str(self.folder), "XDG_DATA_HOME": ""}
        listed = self.start(heddle, "plugins", extra_environment=alone)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("no plugin was found; install a package such as heddle-cpu", listed.stderr)
        self.assertEqual(self.start(heddle, "devices", extra_environment=alone).returncode, 4)

    def test_commands_of_others_are_found_beside_it_then_on_the_path(self):
        heddle = self.install("runtime") / "bin" / "heddle"
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for place in (elsewhere, heddle.parent):
            program = place / "heddle-weave"
            program.write_text(f"#!/bin/sh\necho {place.name} $@\n")
            program.chmod(0o755)
            path = {"PATH": f"{elsewhere}:/usr/bin:/bin"}
            self.assertEqual(self.execute(heddle, "weave", "a", "b", extra_environment=path), f"{place.name} a b\n")
        # A link to the command is not the place where it is installed.
        (self.folder / "heddle").symlink_to(heddle)
        self.assertEqual(self.execute(self.folder / "heddle", "weave", extra_environment=path), "bin\n")


class BuildingAgainstIt(InstallationCase):
    def configure(self, text, prefix, *arguments):
        source = self.folder / "project"
        source.mkdir(exist_ok=True)
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(user C CXX)\n" + text)
        flags = " ".join(SANITIZE)
        return self.start("cmake", "-S", source, "-B", self.folder / "out", "--fresh", f"-DCMAKE_PREFIX_PATH={prefix}",
                          f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}", *arguments)

    def test_a_program_and_a_plugin_with_cmake(self):
        prefix = self.install()
        for example in ("read_digit.c", "run_module.cpp"):
            shutil.copy(prefix / "share/doc/heddle/examples" / example, self.folder)
        (self.folder / "plugin.cpp").write_text(
            '#include "heddle/sdk/file.h"\n'
            'extern "C" heddle_status_t* look(const heddle_host_t* host, heddle::sdk::File* out) {\n'
            '  return heddle::sdk::open_file(host, "acme", 0, HEDDLE_FILE_READ, {"x", 1}, out);\n'
            "}\n")
        configured = self.configure(
            "find_package(Heddle 0.1 REQUIRED COMPONENTS sdk compiler)\n"
            "add_executable(read_digit ../read_digit.c)\n"
            "target_link_libraries(read_digit PRIVATE Heddle::heddle)\n"
            "add_executable(run_module ../run_module.cpp)\n"
            "target_link_libraries(run_module PRIVATE Heddle::heddle)\n"
            "target_compile_features(run_module PRIVATE cxx_std_20)\n"
            "add_library(plugin MODULE ../plugin.cpp)\n"
            "target_link_libraries(plugin PRIVATE Heddle::sdk_cpp)\n"
            f"target_link_options(plugin PRIVATE {'' if SANITIZE else '-Wl,-z,defs'})\n"
            "add_executable(compiler ../read_digit.c)\n"
            "target_link_libraries(compiler PRIVATE -Wl,--no-as-needed Heddle::compiler Heddle::heddle)\n", prefix)
        self.assertEqual(configured.returncode, 0, configured.stdout + configured.stderr)
        self.execute("cmake", "--build", self.folder / "out")
        self.execute(prefix / "bin" / "heddle", "compile", DIGITS, "-o", "digits.heddle")
        self.assertEqual(self.execute("out/read_digit", "digits.heddle"), "the digit is a 1\n")
        self.assertEqual(self.execute("out/compiler", "digits.heddle"), "the digit is a 1\n")
        self.run_module("out/run_module")
        self.assertNotIn("libheddle.so", self.execute("readelf", "-d", "out/libplugin.so"))

    def test_a_program_and_a_plugin_with_pkg_config(self):
        prefix = self.install("runtime", "sdk")
        self.execute(BUILD / "bin" / "heddle", "compile", DIGITS, "-o", "digits.heddle")
        where = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        # The runtime finds its plugins beside libheddle; here they come from the build.
        plugins_there = {"HEDDLE_PLUGIN_PATH": str(BUILD / "lib/heddle/plugins.d")}
        # The lines of docs/installation.md as they are printed, then with all warnings.
        page = PAGE.read_text(encoding="utf-8")
        for compiler, source, program, run in (("cc", "run_module.c", "run_from_c", self.run_module_c),
                                               ("c++", "run_module.cpp", "run_from_cpp", self.run_module)):
            line = re.search(rf"^{re.escape(compiler)} .*\b{re.escape(source)} .*$", page, re.MULTILINE).group(0)
            shutil.copy(prefix / "share/doc/heddle/examples" / source, self.folder)
            for more in ("",) * (not SANITIZE) + (f" -Wall -Wextra -pedantic -Werror {' '.join(SANITIZE)}",):
                self.execute("bash", "-euc", line + more, extra_environment=where)
                run(f"./{program}", plugins_there)
        # The same on the templates of plugins.
        page = page.replace("\\\n", " ")
        for compiler, template, sources in (("c++", "cpp", "plugin.cpp device.cpp code.cpp own_kernels.cpp"), ("cc", "c", "driver.c work.c")):
            line = re.search(rf"^{re.escape(compiler)} .*libplugin\.so$", page, re.MULTILINE).group(0)
            line = line.replace("driver.c work.c", sources).replace("plugin.cpp", sources)
            if SANITIZE:  # the sanitizers' functions are the program's
                line = line.replace("-Wl,-z,defs,-z,now", " ".join(SANITIZE))
            here = self.folder / template
            shutil.copytree(prefix / "share/heddle/template/driver" / template, here)
            self.execute("bash", "-euc", f"cd '{here}'\n{line}", extra_environment=where)
            shown = self.execute("nm", "-D", "--defined-only", here / "libplugin.so").split()
            self.assertEqual([name for name in shown if name.startswith("heddle_")], ["heddle_plugin_entry_0"])
            self.assertLess(len(shown), 4, shown)
        plugins = self.execute("pkg-config", "--variable=pluginsdir", "heddle-sdk", extra_environment=where).strip()
        self.assertEqual((pathlib.Path(plugins)).resolve(), (prefix / "lib/heddle/plugins.d").resolve())

    def run_module_c(self, program, more):
        """The example in C against `heddle run`, and its errors."""
        image = np.random.default_rng(5).random((2, 1, 8, 8), np.float32)
        np.save(self.folder / "image.npy", image)
        np.save(self.folder / "wide.npy", np.zeros((2, 1, 8, 9), np.float32))
        np.save(self.folder / "doubles.npy", np.zeros((2, 1, 8, 8)))
        np.save(self.folder / "columns.npy", np.asfortranarray(np.zeros((2, 3), np.float32)))
        (self.folder / "short.npy").write_bytes((self.folder / "image.npy").read_bytes()[:100])
        printed = self.execute(program, "digits.heddle", "image.npy", extra_environment=more)
        self.assertRegex(printed, r"^logits = \[2,10\]: ")
        self.execute(BUILD / "bin" / "heddle", "run", "digits.heddle", "--input", "image=@image.npy", "--output", "@expected.npy")
        np.testing.assert_array_equal(np.array(printed.split()[3:], np.float32), np.load(self.folder / "expected.npy").ravel())
        for arguments, said in (([], "HD-F-01"), (["wide.npy"], "dimension 3 is 9 and must be 8"), (["doubles.npy"], "are not f32"),
                                (["columns.npy"], "ascontiguousarray"), (["short.npy"], "header is incomplete"),
                                (["digits.heddle"], r"not a \.npy file"), (["nowhere.npy"], "could not be read"),
                                (["image.npy", "image.npy"], "argument 1")):
            refused = self.start(program, "digits.heddle", *arguments, extra_environment=more)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertRegex(refused.stderr, said)
        self.assertEqual(self.start(program, extra_environment=more).returncode, 2)

    def run_module(self, program, more=None):
        """The example in C++ against `heddle run`, and its errors."""
        image = np.random.default_rng(5).random((2, 1, 8, 8), np.float32)
        np.save(self.folder / "image.npy", image)
        np.save(self.folder / "wide.npy", np.zeros((2, 1, 8, 9), np.float32))
        np.save(self.folder / "columns.npy", np.asfortranarray(np.zeros((2, 3))))
        (self.folder / "short.npy").write_bytes((self.folder / "image.npy").read_bytes()[:100])
        self.assertEqual(self.execute(program, "digits.heddle", extra_environment=more),
                         "argument image: f32[batch,1,8,8]\n  dimension 0: batch, chosen by the caller\nresult logits: f32[batch,10]\n")
        printed = self.execute(program, "digits.heddle", "image.npy", extra_environment=more)
        self.assertRegex(printed, r"^logits = f32\[2,10\]: ")
        self.execute(BUILD / "bin" / "heddle", "run", "digits.heddle", "--input", "image=@image.npy", "--output", "@expected.npy")
        np.testing.assert_allclose([float(word) for word in printed.split()[3:]], np.load(self.folder / "expected.npy").ravel(), 1e-4)
        for arguments, said in ((["wide.npy"], r"INVALID_ARGUMENT: heddle: .*dimension 3 is 9 and must be 8"),
                                (["columns.npy"], r"reading columns\.npy failed: .*ascontiguousarray"), (["short.npy"], "header is incomplete"),
                                (["digits.heddle"], r"not a \.npy file"), (["nowhere.npy"], "could not be read"),
                                (["image.npy", "image.npy"], "OUT_OF_RANGE: .*argument 1")):
            refused = self.start(program, "digits.heddle", *arguments, extra_environment=more)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""))
            self.assertRegex(refused.stderr, said)
        self.assertEqual(self.start(program, extra_environment=more).returncode, 2)

    def test_the_programs_in_the_comments_of_headers(self):
        prefix = self.install()
        self.execute(prefix / "bin" / "heddle", "compile", DIGITS, "-o", "digits.heddle")
        for compiler, header, comment, check in (("cc -std=c11", "runtime.h", r" \* ", "if (scores[0] == scores[1]) return 1;"),
                                                 ("c++ -std=c++20", "heddle.hpp", "// ", "if (scores.size() != 10) return 1;")):
            text = (prefix / "include/heddle" / header).read_text(encoding="utf-8").split("minimal program")[1]
            body = re.search(rf"^(?:{comment}  \S.*\n)+", text, re.MULTILINE).group(0)
            self.assertGreater(body.count("\n"), 7)
            body = re.sub(rf"^{comment}", "", body, flags=re.MULTILINE)
            source = self.folder / f"program{'.c' if header == 'runtime.h' else '.cpp'}"
            source.write_text(f"#include <heddle/{header}>\nint main() {{\n{body}  {check}\n}}\n")
            self.execute(*compiler.split(), "-Wall", "-Wextra", *SANITIZE, source, "-I", prefix / "include", "-L", prefix / "lib", "-lheddle",
                         f"-Wl,-rpath,{prefix / 'lib'}", "-o", "program")
            if not SANITIZE or header == "heddle.hpp":  # the program in C does not release what it made
                self.execute("./program")

    def test_new_driver_of_an_installation(self):
        prefix = self.install("sdk", "conformance")
        self.execute(prefix / "share/heddle/template/new-driver", "com.acme.weft", self.folder / "weft")
        (self.folder / "out").mkdir()
        self.execute("cmake", "-S", self.folder / "weft", "-B", self.folder / "out", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                     f"-DCMAKE_CXX_FLAGS={' '.join(SANITIZE)}")
        self.execute("cmake", "--build", self.folder / "out")
        self.execute("cmake", "--install", self.folder / "out", "--prefix", self.folder / "there")
        self.assertEqual({path.name for path in (self.folder / "there/lib/heddle/plugins.d").iterdir()},
                         {"com.acme.weft.toml", "libweft_driver.so"})
        manifest = self.folder / "out/com.acme.weft.toml"
        self.assertRegex(self.execute(prefix / "bin/heddle-conformance", "--plugin", manifest, "--jobs", "2"),
                         r"(?m)^com\.acme\.weft: [1-9]\d+ passed, 0 failed, 0 skipped")

    def test_the_sdk_alone_is_enough_for_plugins(self):
        prefix = self.install("sdk")
        text = "find_package(Heddle REQUIRED COMPONENTS sdk)\nif(TARGET Heddle::heddle OR NOT TARGET Heddle::sdk_cpp)\nmessage(FATAL_ERROR x)\nendif()\n"
        configured = self.configure(text, prefix)
        self.assertEqual(configured.returncode, 0, configured.stderr)

    def test_a_component_that_is_not_there_is_named_with_its_package(self):
        prefix = self.install("sdk", "runtime")
        refused = self.configure("find_package(Heddle REQUIRED COMPONENTS sdk compiler acme)\n", prefix)
        self.assertNotEqual(refused.returncode, 0)
        text = re.sub(r"\s+", " ", refused.stderr)
        self.assertIn(f"component 'compiler' is not installed in {prefix}; install the package heddle-compiler", text)
        self.assertIn("component 'acme'", text)
        optional = self.configure("find_package(Heddle REQUIRED COMPONENTS sdk OPTIONAL_COMPONENTS compiler)\n"
                                  "message(STATUS \"${Heddle_sdk_FOUND}-${Heddle_compiler_FOUND}-\")\n", prefix)
        self.assertEqual(optional.returncode, 0, optional.stderr)
        self.assertIn("TRUE--", optional.stdout)
        newer = self.configure("find_package(Heddle 0.2 REQUIRED)\n", prefix)
        self.assertNotEqual(newer.returncode, 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
