# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance kit passes on every plugin of the tree, with no case skipped and none absent but for the reasons listed here."""
import pathlib
import subprocess
import tempfile
import unittest


import kit

PLUGINS = kit.BUILD / "lib" / "heddle" / "plugins.d"
TEMPLATES = kit.BUILD / "tests" / "template"

# What a case may find absent in any plugin.
ANYWHERE = {
    "transfer.over_4_gib_at_once": "--large",
    "concurrency.beside_another": "--beside",
    "buffer.exhaustion": "more than 4 GiB",
    "transfer.upload_captured": "does not say",
    "recording.not_offered": "the device records",
    "buffer.unmappable": "visible to the host",
    "timeline.no_block": "too soon",
    "operation.in_its_place": "it runs no operations for host/1",
    "operation.failure": "it runs no operations for host/1",
}


class Plugins(unittest.TestCase):
    def conforms(self, plugin, *arguments, absent=None, least=100):
        code, cases = kit.run(plugin, *arguments)
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

    def test_the_fake_gpu(self):
        self.conforms(kit.BUILD / "tests/plugins.d/test.fake_gpu.toml", "--option", "loss_code=4242")

    def test_the_fake_gpu_that_is_small_and_late(self):
        self.conforms(kit.BUILD / "tests/plugins.d/test.fake_gpu.toml", "--option", "memory=64MiB", "--option", "latency_us=2000", "--option",
                      "device_count=3", "--option", "aligned=true", "--seed", "5",
                      absent={"transfer.beyond_4_gib": "less than 4 GiB", "param_io.bounded_staging": "too small",
                              "failure.device_lost": "loses this device"})

    def test_the_template_of_a_driver(self):
        self.conforms(TEMPLATES / "driver/cpp/org.example.sample.toml")

    def test_the_template_of_a_driver_in_c(self):
        left_out = {"device.link": "no links", "device.statistics": "no statistics", "buffer.import": "imports no", "buffer.import_failure": "imports no",
                    "buffer.import_views": "imports no", "transfer.peer": "UNIMPLEMENTED", "param_io.write": "writes no files",
                    "timeline.notify": "does not notify"}
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

    def test_the_allocator_without_a_pool(self):
        self.conforms(PLUGINS / "heddle.system.toml", absent={"allocator.limit": "no option pool_limit"}, least=30)

    def test_the_arena_and_the_adaptors(self):
        for name in ("arena", "limit", "track", "log"):
            with self.subTest(name):
                self.conforms(PLUGINS / f"heddle.{name}.toml", absent={"allocator.limit": "no option pool_limit"}, least=30)

    def test_pairs_in_both_orders(self):
        cpu, fake = PLUGINS / "libheddle_cpu.so", kit.BUILD / "tests/plugins.d/libheddle_fake_gpu.so"
        pool = PLUGINS / "libheddle_pool.so"
        for one, other in ((cpu, fake), (fake, cpu), (cpu, pool), (pool, cpu), (pool, fake), (fake, pool)):
            code, cases = kit.run(one, "--beside", str(other), "--filter", "beside_another")
            self.assertEqual((code, cases["concurrency.beside_another"]["outcome"]), (0, "passed"), cases)


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
            for text in ('[skips]\n"transfer.fill" = ""\n', '[skips]\n"transfer.fil" = "there is no such case"\n', "[skips\n", "x = 1\n"):
                skips.write_text(text)
                self.assertEqual(self.kit("--plugin", plugin, "--skips", str(skips)).returncode, 2, text)

    def test_other_seeds_pass_too(self):
        plugin = TEMPLATES / "driver/cpp/org.example.sample.toml"
        for seed in ("1", "2", "77"):
            code, cases = kit.run(plugin, "--seed", seed, "--filter", "transfer,param_io,buffer")
            self.assertEqual(code, 0, [case for case in cases.values() if case["outcome"] == "failed"])


if __name__ == "__main__":
    unittest.main()
