# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Old and new together: every host with every plugin, every application with every libheddle, every module with every host (docs/abi.md).

Versions are the archived minors, this build ("today"), and a next minor that is made up of the present headers with something behind the end of every
struct and table that may grow. Each cell is run in processes of its own; what was run and what came of it is printed as a table at the end.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import versions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import writable  # noqa: E402

DRIVERS = ("heddle.cpu", "org.example.sample", "org.example.sample_c")
ALLOCATORS = ("heddle.pool", "org.example.arena", "org.example.system")
LIBRARIES = ("org.example.scale", "org.example.whiten")
NO_LIBRARIES = ("0.1",)  # they came with 0.2
# Cases of the kit of 0.1 that set the second word behind the end of a struct that it knows: a plugin of a later minor may know that word, and be
# right to take it. Later kits set one that is far behind the end.
NOT_FOR_NEWER_PLUGINS = {"0.1": {"structs.larger", "dispatch.larger_entries", "allocator.structs"}}
# Bugs of archived plugins that a later kit found: {(version, plugin): cases}. What is archived stays as it is; hosts live with it.
BUGS_OF_THE_ARCHIVED = {("0.1", "org.example.sample_c"): {"param_io.short_read", "plugin.required_functions", "timeline.notify"},
                        ("0.1", "heddle.cpu"): {"lifetime.null"}}
# What the application does after it has an instance, by the words of the table.
STEPS = {"create": ("runtime", "module", "instance", "function", "type"), "buffer": ("buffer", "round trip"), "dispatch": ("call", "start", "statistics")}


def json_in(text):
    """The first object in what the application printed; the log may come before and behind it."""
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


class Versions:
    """Made once for all tests of this file."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="heddle-matrix-")
        self.folder = pathlib.Path(self.temporary.name)
        self.archived = versions.unpack(self.folder)
        self.all = dict(self.archived)
        self.all["today"] = versions.copy_build(self.folder / "today")
        self.all["next"] = self.folder / "next"
        self.next_minor, self.grown = versions.make_next(self.folder, versions.BUILD / "tests" / "next_minor", self.all["next"])
        self.flat = {name: versions.flatten(path, self.folder / "flat" / name) for name, path in self.all.items()}
        self.module = self.folder / "kernels-today.heddle"
        self.operations = self.folder / "operations-today.heddle"
        image = versions.BUILD / "tools" / "conformance" / "kernels_x86_64.image"
        for path, what in ((self.module, "kernels"), (self.operations, "operations")):
            versions.run([versions.BUILD / "tests" / "compat_kernels_module", path, what, image])
        self.rows = []

    def environment(self, host):
        """No plugins but those that a cell names, and that libheddle."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        empty = self.folder / "home"
        empty.mkdir(exist_ok=True)
        return {**kept, "HOME": str(empty), "XDG_CACHE_HOME": str(self.folder / "cache"), "LD_LIBRARY_PATH": str(self.all[host] / "lib")}

    def application(self, version, host, *arguments):
        done = subprocess.run([str(self.all[version] / "bin" / "application"), *[str(word) for word in arguments]], capture_output=True, text=True,
                              check=False, timeout=120, env=self.environment(host))
        return done.returncode, done.stdout + done.stderr

    def row(self, table, *cells):
        self.rows.append((table, cells))

    def print_tables(self):
        for table in dict.fromkeys(name for name, _ in self.rows):
            cells = [row for name, row in self.rows if name == table]
            widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
            print(f"\n{table}")
            for row in cells:
                print("  " + " | ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


@unittest.skipIf(os.environ.get("HEDDLE_SANITIZE"), "SKIP: archived binaries cannot be loaded beside a sanitizer's run time")
class MatrixTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not hasattr(MatrixTest, "made"):
            MatrixTest.made = Versions()

    def succeeds(self, outcome):
        code, text = outcome
        self.assertEqual(code, 0, text[-2000:])
        return text


def tearDownModule():
    if hasattr(MatrixTest, "made"):
        MatrixTest.made.print_tables()
        MatrixTest.made.temporary.cleanup()


def config_of(driver, allocator=None):
    text = f'[device.d]\ndriver = "{driver}"\nselect = {{ ordinal = 0 }}\n'
    return text + (f'[device.d.allocator]\nplugin = "{allocator}"\n' if allocator else "")


class Plugins(MatrixTest):
    """libheddle of each version with the plugins of each."""

    def look(self, host, version, plugin):
        """What the host says of the plugin: a report with its state, and its devices."""
        text = self.succeeds(self.made.application(host, host, "report", self.made.flat[version], "plugins"))
        found = {each["id"]: each for each in json_in(text)["plugins"]}
        self.assertEqual(found[plugin]["state"], "available", found[plugin]["reason"])
        self.assertTrue(found[plugin]["library"].startswith(str(self.made.flat[version])), found[plugin]["library"])
        return found[plugin]

    def steps(self, host, version, device, config, module=None):
        code, text = self.made.application(host, host, "run", self.made.flat[version], device, module or self.made.module, config)
        done = [line.removesuffix(": ok") for line in text.splitlines() if line.endswith(": ok")]
        self.assertEqual(code, 0, text[-2000:])
        for names in STEPS.values():
            for name in names:
                self.assertIn(name, done, text[-2000:])
        return json_in(text[text.index("statistics are "):])

    def test_every_driver_works_in_every_host(self):
        for host in self.made.all:
            for version, folder in self.made.flat.items():
                for driver in DRIVERS:
                    with self.subTest(host=host, plugins=version, driver=driver):
                        result = "FAILED"
                        try:
                            self.assertGreaterEqual(self.look(host, version, driver)["devices"], 1)
                            text = self.succeeds(self.made.application(host, host, "report", folder, "devices"))
                            self.assertIn(driver, {device["driver"] for device in json_in(text)["devices"]})
                            counts = self.steps(host, version, f"{driver}:0", "")
                            self.assertEqual(counts["dispatches"], 5)
                            result = "ok"
                        finally:
                            self.made.row("libheddle x driver", host, version, driver, "probe, devices, create, buffer there and back, dispatch", result)

    def test_every_allocator_works_in_every_host(self):
        for host in self.made.all:
            for version, folder in self.made.flat.items():
                for allocator in ALLOCATORS:
                    with self.subTest(host=host, plugins=version, allocator=allocator):
                        result = "FAILED"
                        try:
                            self.look(host, version, allocator)
                            counts = self.steps(host, version, "d", config_of("org.example.sample", allocator))
                            pool = counts["devices"][0]["pool"]
                            self.assertEqual(pool["allocator"], allocator)
                            self.assertGreater(pool["allocations"], 0)
                            result = "ok"
                        finally:
                            self.made.row("libheddle x allocator", host, version, allocator, "probe, create, a module on org.example.sample", result)

    def test_every_library_works_in_every_host(self):
        """An operation of the template in C between two commands of heddle.cpu; the kit's cells have the whole of both."""
        for host in self.made.all:
            for version in self.made.flat:
                if version in NO_LIBRARIES:
                    continue
                with self.subTest(host=host, plugins=version):
                    result = "FAILED"
                    try:
                        if host in NO_LIBRARIES:
                            code, text = self.made.application(host, host, "run", self.made.flat[version], "heddle.cpu:0", self.made.operations, "")
                            self.assertEqual(code, 1, text)
                            said = re.search(r"module: (UNIMPLEMENTED: .*its format version is 0.2, this library reads .*)", text)
                            self.assertTrue(said, text)
                            result = "refused: the module is of format 0.2"
                            continue
                        for library in LIBRARIES:
                            self.look(host, version, library)
                        counts = self.steps(host, version, "heddle.cpu:0", "", self.made.operations)
                        self.assertEqual(counts["operations"], ["org.example::Scale/1 from org.example.scale"])
                        result = "ok"
                    finally:
                        self.made.row("libheddle x library", host, version, " ".join(LIBRARIES), "probe, an operation among commands", result)


class Applications(MatrixTest):
    """An application that was built against one version, run with the libheddle of another."""

    def test_every_application_runs_with_every_libheddle(self):
        for application in self.made.all:
            for host in self.made.all:
                with self.subTest(application=application, host=host):
                    result = "FAILED"
                    try:
                        text = self.succeeds(
                            self.made.application(application, host, "run", self.made.flat["today"], "heddle.cpu:0", self.made.module, ""))
                        self.assertIn("start: ok", text)
                        result = "ok"
                    finally:
                        self.made.row("application x libheddle", application, host, "module, instance, tensors, calls, report", result)

    def test_option_structs_with_an_unknown_end(self):
        for host in [*self.made.archived, "today"]:
            with self.subTest(host=host):
                result = "FAILED"
                try:
                    text = self.succeeds(
                        self.made.application("next", host, "tails", self.made.flat["today"], "heddle.cpu:0", self.made.module, ""))
                    for name in ("heddle_runtime_params", "heddle_module_params", "heddle_instance_params", "heddle_call_params"):
                        self.assertIn(f"{name} with a tail of zeros: ok", text)
                        self.assertIn(f"{name} with a tail: ok", text)
                    result = "ok: zeros are accepted, a value is INVALID_ARGUMENT and names the byte"
                finally:
                    self.made.row("application x libheddle", "next", host, "option structs with a longer end", result)


class Kits(MatrixTest):
    """heddle-conformance of each version, a host of its own, on the plugins of each."""

    def test_every_kit_passes_every_plugin(self):
        for kit in self.made.all:
            for version, folder in self.made.all.items():
                for manifest in sorted((folder / "plugins").rglob("*.toml")):
                    if manifest.parent.name == "conformance" or (kit in NO_LIBRARIES and manifest.stem in LIBRARIES):
                        continue
                    with self.subTest(kit=kit, plugins=version, plugin=manifest.stem):
                        result = "FAILED"
                        try:
                            unfit = NOT_FOR_NEWER_PLUGINS.get(kit, set()) if version != kit else set()
                            result = self.conforms(kit, manifest, unfit, BUGS_OF_THE_ARCHIVED.get((version, manifest.stem), set()))
                        finally:
                            self.made.row("heddle-conformance x plugin", kit, version, manifest.stem, "the whole kit", result)

    def conforms(self, kit, manifest, unfit, bugs):
        done = subprocess.run([str(self.made.all[kit] / "bin" / "heddle-conformance"), "--plugin", str(manifest), "--json", "--jobs", "4"],
                              capture_output=True, text=True, check=False, timeout=600, env=self.made.environment("today"))
        self.assertIn(done.returncode, (0, 1), done.stderr[-2000:])
        report = json.loads(done.stdout)
        failed = {case["name"]: case["texts"] for case in report["cases"] if case["outcome"] == "failed"}
        left_out = sorted(name for name in failed if name in unfit and any("INVALID_ARGUMENT was expected" in text for text in failed[name]))
        self.assertEqual({name: texts for name, texts in failed.items() if name not in left_out and name not in bugs}, {})
        self.assertGreaterEqual(report["passed"], 25)
        said = [f"ok: {report['passed']} passed, {report['absent']} absent"]
        said += [f"not for a newer plugin: {', '.join(left_out)}"] if left_out else []
        said += [f"bugs of the archived one: {', '.join(sorted(bugs & set(failed)))}"] if bugs & set(failed) else []
        return "; ".join(said)


class Modules(MatrixTest):
    """Modules of each format version on each host."""

    def test_every_module_runs_on_every_host(self):
        modules = {path.stem: path for path in sorted(versions.HERE.glob("kernels-*.heddle"))}
        self.assertIn("kernels-0.1", modules)
        modules["kernels of today"] = self.made.module
        for host in self.made.all:
            for name, path in modules.items():
                for driver in DRIVERS:
                    with self.subTest(host=host, module=name, driver=driver):
                        result = "FAILED"
                        try:
                            text = self.succeeds(self.made.application(host, host, "run", self.made.flat[host], f"{driver}:0", path, ""))
                            self.assertIn("start: ok", text)
                            result = "ok"
                        finally:
                            self.made.row("module x libheddle", name, host, driver, "open, load code and parameters, call", result)

    def test_a_module_of_a_later_format_is_refused_by_both_numbers(self):
        """The header of today's module, with the minor behind the newest that is read today, and with the next major format version."""
        content = self.made.module.read_bytes()
        layout = (pathlib.Path(os.environ["HEDDLE_SOURCE"]) / "sdk" / "module" / "layout.h").read_text(encoding="utf-8")
        newest = int(re.search(r"kFormatMinor = (\d+);", layout)[1])
        major, minor = int.from_bytes(content[8:10], "little"), int.from_bytes(content[10:12], "little")
        for place, version, changed in ((10, newest + 1, f"{major}.{newest + 1}"), (8, major + 1, f"{major + 1}.{minor}")):
            later = bytearray(content)
            later[place] = version
            path = self.made.folder / f"later-{changed}.heddle"
            path.write_bytes(later)
            for host in self.made.all:
                with self.subTest(host=host, format=changed):
                    code, text = self.made.application(host, host, "run", self.made.flat[host], "heddle.cpu:0", path, "")
                    self.assertEqual(code, 1, text)
                    said = re.search(r"module: UNIMPLEMENTED: .*its format version is (\S+), this library reads (\S+) to (\S+);.*", text)
                    self.assertTrue(said, text)
                    self.assertEqual(said[1], changed)
                    self.made.row("module x libheddle", f"of format {changed}", host, "heddle.cpu", "open", f"refused: reads {said[2]} to {said[3]}")


class Refusals(MatrixTest):
    """Ranges that do not meet: in the manifest, and only in the library."""

    def setUp(self):
        self.refused = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="refused-", dir=self.made.folder)))

    def say(self, host, plugin):
        code, text = self.made.application(host, host, "report", self.refused, "plugins")
        self.assertEqual(code, 0, text)
        found = {each["id"]: each for each in json_in(text)["plugins"]}[plugin]
        self.assertEqual(found["state"], "incompatible", found)
        code, text = self.made.application(host, host, "run", self.refused, f"{plugin}:0", self.made.module, "")
        self.assertEqual(code, 1, text)
        self.assertIn(found["reason"], text)
        return found["reason"]

    @property
    def hosts(self):
        return {host: f"0.1 to {host}" for host in self.made.archived} | {"today": f"0.1 to 0.{self.made.next_minor - 1}"}

    def install(self, plugin, library, abi):
        source = self.made.flat["today"] / f"{plugin}.toml"
        text = re.sub(r"^abi = .*$", f"abi = {json.dumps(abi)}", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (self.refused / source.name).write_text(text, encoding="utf-8")
        name = re.search(r'^library = "(.*)"', text, re.MULTILINE)[1]
        writable.copy(library or self.made.flat["today"] / name, self.refused / name)

    def expect(self, host, what, reason, *parts):
        for part in (f"this libheddle with {self.hosts[host]}", *parts, "[HD-E-02]"):
            self.assertIn(part, reason)
        self.made.row("ranges that do not meet", host, what, reason)

    def test_the_manifest_says_so(self):
        late = f"0.{self.made.next_minor}"
        for host in self.hosts:
            with self.subTest(host=host, plugin="newer"):
                self.install("org.example.sample_c", None, [late, late])
                self.expect(host, f"manifest {late} to {late}", self.say(host, "org.example.sample_c"),
                            f"org.example.sample_c 0.1.0 works with ABI {late} to {late}", "install a newer libheddle")
            with self.subTest(host=host, plugin="older"):
                self.install("org.example.sample_c", None, ["0.0", "0.0"])
                self.expect(host, "manifest 0.0 to 0.0", self.say(host, "org.example.sample_c"), "works with ABI 0.0 to 0.0",
                            "install a newer version of the plugin")

    def test_the_library_says_so(self):
        """The template in C of the next minor, which can do without no part of it; its manifest says something else."""
        late = f"0.{self.made.next_minor}"
        library = self.made.folder / "needs-next.so"
        headers = versions.BUILD / "tests" / "next_minor" / "source"
        template = headers / "sdk" / "template" / "driver" / "c"
        needs = self.made.folder / "needs-next"
        writable.copytree(template, needs)
        source = (needs / "driver.c").read_text(encoding="utf-8")
        self.assertIn("HEDDLE_ABI_MIN_MINOR", source)
        (needs / "driver.c").write_text(source.replace("HEDDLE_ABI_MIN_MINOR", "HEDDLE_ABI_MINOR"), encoding="utf-8")
        versions.run(["cc", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{headers / 'sdk' / 'include'}", needs / "driver.c",
                      needs / "work.c", f"-Wl,--version-script={needs / 'plugin.map'}", "-lpthread", "-lm", "-o", library])
        for host in self.hosts:
            with self.subTest(host=host):
                self.install("org.example.sample_c", library, ["0.1", late])
                self.expect(host, f"library {late} to {late}", self.say(host, "org.example.sample_c"), f"works with ABI {late} to {late}",
                            "install a newer libheddle")


class NextMinor(MatrixTest):
    def test_everything_that_may_grow_has_grown(self):
        """The made-up minor leaves nothing out that has a struct_size."""
        said = set()
        for header in (versions.SOURCE / "sdk" / "include").rglob("*.h"):
            text = header.read_text(encoding="utf-8")
            said |= set(re.findall(r"struct (\w+) \{[^\n]*\n\s*uint32_t struct_size;", text))
        self.assertEqual(said - set(self.made.grown), versions.next_minor.FROZEN)


if __name__ == "__main__":
    unittest.main()
