# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance kit passes on every plugin of the tree, with no case skipped and none absent but for the reasons listed here."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
from unittest import mock

import kit

PLUGINS = kit.BUILD / "lib" / "heddle" / "plugins.d"
TEMPLATES = kit.BUILD / "tests" / "template"
STREAMS = kit.BUILD / "tests" / "plugins.d" / "test.streams.toml"

# What a case may find absent in any plugin.
ANYWHERE = {
    "transfer.over_4_gib_at_once": "--large",  # large_test
    "param_io.over_4_gib": "--large",
    "param_io.mapped": "it maps no files",
    "blocks.values": "it decodes no blocks",
    "blocks.order": "it decodes no blocks",
    "blocks.refused": "it decodes no blocks",
    "concurrency.beside_another": "--beside",  # pairs_test
    "transfer.upload_captured": "do not state",
    "recording.not_offered": "the device records",
    "buffer.unmappable": "visible to the host",
    "operation.in_its_place": "it does not run operations for host/1",
    "operation.failure": "it does not run operations for host/1",
    "operation.same_as_kernel": "it does not run operations for host/1",
    **dict.fromkeys(("portable.products", "portable.convolutions", "portable.tails"), "it does not run portable code"),
    "dispatch.entry_counts": "does not state the arguments of its kernels",
}
if kit.SANITIZED:
    ANYWHERE["buffer.exhaustion"] = "more than 4 GiB"  # its address space cannot be bounded


class Plugins(unittest.TestCase):
    def conforms(self, plugin, *arguments, absent=None, least=100):
        # On a busy machine, or with ThreadSanitizer, a case of 5 s of work takes more than a minute.
        code, cases = kit.run(plugin, *arguments, *kit.PATIENT)
        failed = {name: case["texts"] for name, case in cases.items() if case["outcome"] == "failed"}
        self.assertEqual(failed, {})
        self.assertEqual(code, 0)
        self.assertEqual(kit.count(cases, "skipped"), 0)
        allowed = {**ANYWHERE, **(absent or {})}
        for name, case in cases.items():
            if case["outcome"] == "absent":
                self.assertIn(name, allowed, case["texts"])
                self.assertIn(allowed[name], case["texts"][0])
        self.assertGreaterEqual(kit.count(cases, "passed"), least)

    def test_the_cpu_driver(self):
        self.conforms(PLUGINS / "heddle.cpu.toml", absent={**NO_RECORDING, "failure.device_lost": "loses this device"})
        _, cases = kit.run(PLUGINS / "heddle.cpu.toml", "--filter", "operation.")
        self.assertEqual({case["outcome"] for case in cases.values()}, {"passed"})

    def test_the_cpu_driver_with_two_devices_that_share_cores(self):
        self.conforms(PLUGINS / "heddle.cpu.toml", "--option", "device_count=2", "--filter", "transfer.,device.,timeline.", least=30)

    def test_blocks(self):
        _, cases = kit.run(STREAMS, "--filter", "blocks.")
        self.assertEqual({name: case["outcome"] for name, case in cases.items()}, dict.fromkeys(("blocks.values", "blocks.order", "blocks.refused"), "passed"))

    def test_the_stream_driver_on_the_host(self):
        self.conforms(STREAMS, absent={"buffer.exhaustion": "more than 4 GiB"})
        self.conforms(STREAMS, "--option", "memory=64MiB", "--filter", "buffer.,failure.,dispatch.,recording.", least=30)

    def test_the_stream_driver_that_is_late(self):
        self.conforms(STREAMS, "--option", "seed=2", "--option", "memory=2GiB", "--option", "latency_us=2000", "--option", "device_count=3", "--option",
                      "aligned=true", "--option", "own_contexts=true", "--seed", "5", absent={"transfer.beyond_4_gib": "less than 4 GiB"})

    def test_the_stream_driver_without_graphs_on_one_stream_a_queue(self):
        self.conforms(STREAMS, "--option", "seed=3", "--option", "memory=2GiB", "--option", "has_graphs=false", "--option", "waits_by_event=true", "--option",
                      "spread=1", absent={"transfer.beyond_4_gib": "less than 4 GiB"})
        self.conforms(STREAMS, "--option", "graphs=false", "--filter", "recording.", absent=NO_RECORDING, least=1)

    def test_the_level_zero_driver_on_a_stand_in(self):
        stand_in = kit.BUILD / "tests/level_zero/libheddle_test_level_zero.so"
        driver = PLUGINS / "heddle.level_zero.toml"
        if not stand_in.exists() or not driver.exists():
            self.skipTest("SKIP: the driver for Level Zero or the stand-in for an Intel GPU is not built")
        settings = {"ZE_ENABLE_ALT_DRIVERS": str(stand_in), "ZE_ENABLE_VALIDATION_LAYER": "1", "ZE_ENABLE_PARAMETER_VALIDATION": "1",
                    "ZE_ENABLE_HANDLE_LIFETIME": "1", "POCL_CACHE_DIR": str(stand_in.parent / "pocl")}
        # A kernel of a GPU cannot fail without losing the device.
        left_out = {"failure.kernel": "have no 'fail'", "lifetime.signals": "cannot be distinguished",
                    **dict.fromkeys(("blocks.values", "blocks.order", "blocks.refused"), "no reason is expected: it has kernels for blocks")}
        with mock.patch.dict(os.environ, {**settings, "HEDDLE_ZE_SEED": "2", "HEDDLE_ZE_MEMORY": str(8 << 30)}):
            self.conforms(driver, "--beside", str(PLUGINS / "heddle.cpu.toml"), absent={**left_out, "buffer.exhaustion": "more than 4 GiB"})
        # With queues instead of immediate lists, two devices that do not reach each other, and access to all memory of the host without imports.
        with mock.patch.dict(os.environ, {**settings, "HEDDLE_ZE_SEED": "3", "HEDDLE_ZE_IMMEDIATE": "0", "HEDDLE_ZE_DEVICES": "2", "HEDDLE_ZE_PEERS": "0",
                                          "HEDDLE_ZE_PAGEABLE": "1", "HEDDLE_ZE_IMPORTS": "0"}):
            self.conforms(driver, "--seed", "5", absent={**left_out, "transfer.beyond_4_gib": "less than 4 GiB", "transfer.peer": "UNIMPLEMENTED",
                                                         "transfer.peer_order": "UNIMPLEMENTED"})

    def test_the_template_of_a_driver(self):
        template = TEMPLATES / "driver/cpp/org.example.sample.toml"
        self.conforms(template)
        # With its own kernels and without, and by copies.
        for arguments in ((), ("--option", "own_kernels=false"), ("--option", "host_access=false")):
            _, cases = kit.run(template, "--filter", "portable.", *arguments, *kit.PATIENT)
            self.assertEqual({name: case["outcome"] for name, case in cases.items()},
                             dict.fromkeys(("portable.products", "portable.convolutions", "portable.tails"), "passed"), cases)
        # Memory that the host cannot address.
        self.conforms(template, "--option", "host_access=false", "--filter",
                      "buffer.,transfer.,dispatch.,recording.,failure.,param_io.", absent={"buffer.exhaustion": "more than 4 GiB"}, least=50)

    def test_the_template_of_a_driver_in_c(self):
        left_out = {"device.link": "no links", "device.statistics": "no statistics", "buffer.import": "imports no", "buffer.import_failure": "imports no",
                    "buffer.import_views": "imports no", "buffer.dlpack": "imports no", "transfer.peer": "UNIMPLEMENTED",
                    "transfer.peer_order": "UNIMPLEMENTED", "param_io.write": "writes no files"}
        self.conforms(TEMPLATES / "driver/c/org.example.sample_c.toml", absent={**NO_RECORDING, **left_out})

    def test_the_template_of_an_allocator(self):
        self.conforms(TEMPLATES / "allocator/cpp/org.example.arena.toml", least=25)

    def test_the_template_of_an_allocator_in_c(self):
        self.conforms(TEMPLATES / "allocator/c/org.example.system.toml", absent={**NO_PROBE, "allocator.limit": "no option pool_limit"},
                      least=25)

    def test_the_template_of_a_library(self):
        self.conforms(TEMPLATES / "library/cpp/org.example.whiten.toml", least=27)

    def test_the_template_of_a_library_in_c(self):
        self.conforms(TEMPLATES / "library/c/org.example.scale.toml", absent=NO_PROBE, least=25)

    def test_the_library_of_the_tests(self):
        self.conforms(kit.BUILD / "tests/library/plugins.d/test.library.toml", least=27)

    def test_the_pool(self):
        self.conforms(PLUGINS / "heddle.pool.toml", least=30)
        self.conforms(PLUGINS / "heddle.pool.toml", "--option", "on_limit=spill", least=30)  # the kit's provider has one kind of memory

    def test_the_allocator_without_a_pool(self):
        self.conforms(PLUGINS / "heddle.system.toml", absent={"allocator.limit": "no option pool_limit"}, least=30)

    def test_the_arena_and_the_adaptors(self):
        for name in ("arena", "track", "log"):
            with self.subTest(name):
                self.conforms(PLUGINS / f"heddle.{name}.toml", absent={"allocator.limit": "no option pool_limit"}, least=30)
        self.conforms(PLUGINS / "heddle.limit.toml", least=30)

    def test_what_may_be_unloaded(self):
        names = ["lifetime.unload", "lifetime.unload_last"]
        plugins = [*sorted(TEMPLATES.glob("*/*/*.toml")), *(PLUGINS / f"heddle.{name}.toml" for name in ("cpu", "pool", "system", "arena", "limit", "track", "log"))]
        self.assertGreaterEqual(len(plugins), 13)
        for plugin in plugins:
            with self.subTest(plugin.name), tempfile.TemporaryDirectory(prefix="heddle-unload-") as folder:
                text = plugin.read_text()
                library = next(line.split('"')[1] for line in text.splitlines() if line.startswith("library = "))
                shutil.copy(plugin.parent / library, folder)
                if (plugin.parent / "conformance").is_dir():
                    shutil.copytree(plugin.parent / "conformance", f"{folder}/conformance")
                manifest = pathlib.Path(folder, plugin.name)
                manifest.write_text(text + "\n[load]\nunloadable = true\n")
                _, cases = kit.run(manifest, "--filter", "lifetime.unload")
                self.assertEqual({name: case["outcome"] for name, case in cases.items()}, dict.fromkeys(names, "passed"), cases)
                # Without the key there are no such cases.
                manifest.write_text(text)
                _, cases = kit.run(manifest, "--filter", "lifetime.")
                self.assertEqual([name for name in cases if name in names], [])


NO_RECORDING = {f"recording.{name}": "does not record" for name in ("new_bindings", "captures", "dispatches", "read_only", "checked")}
NO_PROBE = {"plugin.probe": "no probe", "plugin.probe_leaves_nothing": "no probe"}


class CommandLine(unittest.TestCase):
    def kit(self, *arguments):
        return subprocess.run([str(kit.KIT), *arguments], capture_output=True, text=True, check=False, timeout=120, env=kit.environment())

    def test_usage_errors_are_2(self):
        for arguments in ((), ("--plugin", "/no/such/file.so"), ("--plugin",), ("--what",), ("--plugin", str(kit.KIT), "--seed", "x")):
            done = self.kit(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("usage: heddle-conformance", done.stderr)

    def test_list_names_each_case_and_what_must_hold(self):
        lines = self.kit("--list").stdout.splitlines()
        self.assertGreater(len(lines), 140)
        self.assertEqual(len({line.split()[0] for line in lines}), len(lines))
        self.assertTrue(all(len(line.split()) > 3 for line in lines))

    def test_what_is_no_plugin_fails_every_case_and_says_why(self):
        done = self.kit("--plugin", str(kit.BUILD / "lib" / "libheddle.so"), "--filter", "entry")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exports no heddle_plugin_entry_0", done.stdout)

    def test_skips_are_said_aloud_and_need_a_reason(self):
        plugin = str(TEMPLATES / "driver/cpp/org.example.sample.toml")
        with tempfile.TemporaryDirectory() as folder:
            skips = pathlib.Path(folder, "skips.toml")
            skips.write_text('[skips]\n"transfer.fill" = "the fill engine is not there yet, issue 12"\n')
            done = self.kit("--plugin", plugin, "--skips", str(skips), "--filter", "transfer.fill")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("skipped  transfer.fill ", done.stdout)
            self.assertIn("the fill engine is not there yet", done.stdout)
            self.assertIn("1 skipped by skips.toml", done.stdout)
            for text, said in (('[skips]\n"transfer.fill" = ""\n', "a reason has at least 10"),
                               ('[skips]\n"transfer.fil" = "no"\n', "there is no case 'transfer.fil'; did you mean 'transfer.fill'?"),
                               ('[skips]\ntransfer.fill = "the fill engine is not there yet"\n', 'quote the name: "transfer.fill"'),
                               ('[skips]\n"lifetime.exit" = "it crashes at exit, issue 13"\n', "'lifetime.exit' cannot be skipped"),
                               ("[skips\n", "skips.toml:1"), ("x = 1\n", "no table [skips]")):
                skips.write_text(text)
                done = self.kit("--plugin", plugin, "--skips", str(skips))
                self.assertEqual((done.returncode, done.stdout), (2, ""), text)
                self.assertIn(said, done.stderr)

    def test_kernels_that_the_device_does_not_take(self):
        plugin = str(TEMPLATES / "driver/cpp/org.example.sample.toml")
        good = (TEMPLATES / "driver/cpp/conformance/kernels.toml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            kernels = pathlib.Path(folder, "kernels.toml")
            for text, said in ((good.replace("sample-stack/1", "acme-lom/1"), "format 'acme-lom/1' is not among the device's: sample-stack/1"),
                               (good.replace("generic", "mark-9"), "variant_rank returns 0 for target 'mark-9'"),
                               (good.replace("elements_per_workgroup = 1", "elements_per_workgroup = 0"), "elements_per_workgroup is 0; 1 to 2147483647"),
                               (good.replace("kernels = 1", "kernels = 2"), "kernels = 2; this kit reads format 1"),
                               (good.replace("target", "taget"), "unknown key 'taget'; did you mean 'target'?"),
                               (good.replace("format", "#"), "format is missing"), ('format = "a/1"\nfile = "gone"\n', "there is no file gone")):
                kernels.write_text(text)
                done = self.kit("--plugin", plugin, "--kernels", str(kernels))
                self.assertEqual((done.returncode, done.stdout), (2, ""), text)
                self.assertIn(said, done.stderr)

    def test_a_driver_without_some_of_the_kernels(self):
        plugin = str(TEMPLATES / "driver/cpp/org.example.sample.toml")
        good = (TEMPLATES / "driver/cpp/conformance/kernels.toml").read_text()
        add = good[:good.index("kernel count")] + '"""\n'
        with tempfile.TemporaryDirectory() as folder:
            kernels = pathlib.Path(folder, "kernels.toml")
            kernels.write_text(add + 'entries = ["add"]\n')
            _, cases = kit.run(plugin, "--kernels", str(kernels), "--filter", "dispatch.")
            self.assertEqual({name: case["texts"] for name, case in cases.items() if case["outcome"] == "failed"}, {
                "dispatch.kernels": [f"the kernels in sample-stack/1 lack count, chain, and the cases that dispatch these are absent: a device needs "
                                     f"at least add, count and chain; add them to {kernels}"]})
            for name in ("dispatch.listed_entries", "dispatch.code_may_go"):
                self.assertEqual(cases[name]["texts"], ["the kernels in sample-stack/1 have no 'chain', which this case dispatches"])
            self.assertEqual(cases["dispatch.bindings_and_constants"]["outcome"], "passed")
            self.assertEqual(kit.run(plugin, "--kernels", str(kernels), "--filter", "dispatch.", "--no-kernels")[0], 0)
            kernels.write_text(add)
            _, cases = kit.run(plugin, "--kernels", str(kernels), "--filter", "dispatch.kernels")
            self.assertIn(f"the kit asked for the kernels add, count, chain, fail, lose; `entries` lists those that the code has, in {kernels}",
                          cases["dispatch.kernels"]["texts"][0])
            kernels.write_text(add + "entries = []\n")
            self.assertIn("entries is empty", self.kit("--plugin", plugin, "--kernels", str(kernels)).stderr)

    def test_an_absent_case_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([str(kit.KIT), "--plugin", str(TEMPLATES / "driver/cpp/org.example.sample.toml"), "--filter", "param_io.mapped"],
                                  capture_output=True, text=True, timeout=300, env={**kit.environment(), "TMPDIR": folder}, check=False)
            self.assertIn("it maps no files", done.stdout)
            self.assertEqual(os.listdir(folder), [])

    def test_a_driver_whose_kernels_the_kit_cannot_run_does_not_conform(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("org.example.sample.toml", "libsample.so"):
                for file in (TEMPLATES / "driver/cpp").glob("*.so" if name.endswith(".so") else name):
                    shutil.copy(file, folder)
            plugin = str(pathlib.Path(folder, "org.example.sample.toml"))
            done = self.kit("--plugin", plugin, "--jobs", "4", "--filter", "dispatch.")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout.splitlines()[-1], "NOT CONFORMING: the kernels of the kit did not all run")
            self.assertIn("its formats are sample-stack/1", done.stdout)
            done = self.kit("--plugin", plugin, "--jobs", "4", "--filter", "dispatch.", "--no-kernels")
            self.assertEqual((done.returncode, "NOT CONFORMING" in done.stdout), (0, False))

    def test_mistakes_of_the_command_line(self):
        plugin = str(TEMPLATES / "driver/cpp/org.example.sample.toml")
        cpu = str(PLUGINS / "heddle.cpu.toml")
        with tempfile.TemporaryDirectory() as folder:
            lost = pathlib.Path(folder, "com.acme.lost.toml")
            lost.write_text(pathlib.Path(cpu).read_text().replace("libheddle_cpu.so", "gone.so"))
            for arguments, said in ((("--plugin", plugin, "--filter", "nosuch"), "no case's name contains 'nosuch'"),
                                    (("--plugin", plugin, "--filter", "allocator."), "applies to plugins of this kind"),
                                    (("--plugin", plugin, "--jobs", "0"), "--jobs 0: 1 to 256 was expected"),
                                    (("--plugin", folder), "is a directory; name the manifest in it"),
                                    (("--plugin", str(lost)), "gone.so; `library` is relative to the manifest's directory"),
                                    (("--plugin", cpu, "--option", "device_count=0"), "1 to 256 was expected"),
                                    (("--plugin", cpu, "--option", "device_cout=2"), "declares no option 'device_cout'; it declares device_count"),
                                    (("--plugin", cpu, "--beside", "/nowhere.so"), "there is no file /nowhere.so")):
                done = self.kit(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
                self.assertIn(said, done.stderr)

    def test_help_is_no_mistake(self):
        for command in ([str(kit.KIT), "--help"], [str(kit.BUILD / "bin/heddle"), "conformance", "--help"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("usage: heddle-conformance --plugin FILE", done.stdout)

    def test_another_plugin_may_be_named_by_its_manifest(self):
        code, cases = kit.run(PLUGINS / "heddle.cpu.toml", "--beside", str(PLUGINS / "heddle.pool.toml"), "--filter", "beside_another")
        self.assertEqual((code, cases["concurrency.beside_another"]["outcome"]), (0, "passed"), cases)

    def test_one_queue_proves_nothing_across_queues(self):
        os.environ["ODD_DRIVER"] = "one_queue"
        names = ("timeline.across_queues", "concurrency.submitting", "dispatch.submissions_chain")
        _, cases = kit.run(kit.BUILD / "tests/odd_driver/test.odd_driver.toml", "--filter", ",".join(names))
        del os.environ["ODD_DRIVER"]
        for name in names:
            self.assertEqual((cases[name]["outcome"], cases[name]["texts"]), ("absent", ["the device has one queue"]))

    def test_a_crash_says_inside_which_call(self):
        os.environ["ODD_DRIVER"] = "crashes"
        _, cases = kit.run(kit.BUILD / "tests/odd_driver/test.odd_driver.toml", "--filter", "transfer.sizes_and_offsets")
        del os.environ["ODD_DRIVER"]
        self.assertIn("inside heddle.transfer/1 upload", " ".join(cases["transfer.sizes_and_offsets"]["texts"]))

    def test_other_seeds_pass_too(self):
        plugin = TEMPLATES / "driver/cpp/org.example.sample.toml"
        for seed in ("1", "2", "77"):
            code, cases = kit.run(plugin, "--seed", seed, "--filter", "transfer,param_io,buffer")
            self.assertEqual(code, 0, [case for case in cases.values() if case["outcome"] == "failed"])


if __name__ == "__main__":
    unittest.main()
