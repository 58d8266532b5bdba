# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each exit code stands for: 0 success, 1 failure, 2 usage error, 3 numbers differ, 4 device or plugin unavailable."""
import json
import shlex
import shutil

import numpy as np

from heddle_command import DIGITS, REPOSITORY, HeddleTestCase, heddle


class ExitCodes(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.module = self.compile(DIGITS)
        self.image, self.logits = self.folder / "image.npy", self.folder / "logits.npy"
        np.save(self.image, np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 1, 8, 8))
        self.run_arguments = ["run", self.module, "--input", f"image=@{self.image}"]

    def test_0_when_all_is_well(self):
        self.succeed(*self.run_arguments, "--output", f"@{self.logits}")
        self.assertEqual(np.load(self.logits).shape, (2, 10))

    def test_1_when_the_work_fails(self):
        (self.folder / "empty.heddle").write_bytes(b"")
        self.fail_with(1, "run", self.folder / "empty.heddle")

    def test_2_for_an_unknown_flag(self):
        self.assertIn("--no-such-flag", self.fail_with(2, *self.run_arguments, "--no-such-flag").stderr)
        self.assertIn("--no-such-flag", self.fail_with(2, "compile", DIGITS, "--no-such-flag").stderr)

    def test_2_for_an_unknown_command(self):
        self.assertIn("weave", self.fail_with(2, "weave").stderr)

    def test_2_for_a_missing_argument(self):
        self.fail_with(2, "run")
        self.fail_with(2, "compile")

    def test_0_or_3_as_the_numbers_agree_or_differ(self):
        self.succeed(*self.run_arguments, "--output", f"@{self.logits}")
        self.succeed(*self.run_arguments, "--expect", f"@{self.logits}")
        off = np.load(self.logits)
        off[1, 4] += 1.0
        np.save(self.logits, off)
        result = heddle(*self.run_arguments, "--expect", f"@{self.logits}")
        self.assertEqual(result.code, 3, str(result))
        self.succeed(*self.run_arguments, "--expect", f"@{self.logits}", "--atol", "2", "--rtol", "0")

    def test_3_when_the_expected_shape_differs(self):
        np.save(self.logits, np.zeros((2, 9), np.float32))
        result = heddle(*self.run_arguments, "--expect", f"@{self.logits}")
        self.assertIn(result.code, (2, 3), str(result))

    def test_1_for_files_and_2_for_names_and_values(self):
        run = self.run_arguments[:2]
        missing, short = self.folder / "missing.npy", self.folder / "short.npy"
        np.save(short, np.zeros((2, 1, 8, 7), np.float32))
        for code, arguments, words in (
            (1, ["--input", f"image=@{missing}"], "missing.npy"),
            (1, ["--input", f"image=@{short}"], "f32[2,1,8,7]"),
            (1, ["--input", "image=f32[1,1,8,8]=0", "--expect", f"@{missing}"], "missing.npy"),
            (1, ["--input", "image=f32[1,1,8,8]=0", "--output", f"@{self.folder}/absent/s.npy"], "--output: creating '"),
            (2, ["--input", "image=f32[1,1,8,7]=0"], "f32[1,1,8,7]"),
            (2, ["--input", "nope=f32[1,1,8,8]=0"], "nope"),
            (2, ["--input", "image=f32[1,1,8,8]=0", "--function", "nope"], "nope"),
            (2, ["--input", "image=f32[1,1,8,8]=0", "--output", "nope=@s.npy"], "nope"),
            (2, ["--input", "image=f32[1,1,8,8]=0", "--expect", "f32[1,10]=1,2"], "--expect"),
            (2, ["--input", "image=f32[1,1,8,8]=0", "--device", "nope=cpu:0"], "nope"),
            (4, ["--input", "image=f32[1,1,8,8]=0", "--device", "nope"], "nope"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.fail_with(code, *run, *arguments).stderr)

    def test_a_wrong_input_shows_a_form_that_works(self):
        run = self.run_arguments[:2]
        form = "for example --input 'image=f32[1,1,8,8]=0'"
        for given in ((), ("image",), ("image=0",), ("0",), ("image=8x8=0",), ("image=f31[1,1,8,8]=0",), ("image=f32[1,1,8,8=0",), ("image=f32[batch,1,8,8]=0",), ("image=f32[1,1,8,7]=0",),
                      ("image=f32[1,1,8,8]=1,2",), ("image=f32[1,1,8,8]=x",), ("f64[8,8]=0",)):
            with self.subTest(given=given):
                arguments = [word for text in given for word in ("--input", text)]
                self.assertIn(form, self.fail_with(2, *run, *arguments).stderr)
                if given:
                    self.assertIn(form, self.fail_with(2, "bench", self.module, *arguments).stderr)
                    self.assertIn(form, self.fail_with(2, "profile", self.module, *arguments).stderr)
        self.succeed(*run, *shlex.split(form)[2:])
        self.succeed(*run, "--input", "image=1x1x8x8xf32=0")  # the older notation
        # Without the module there is no form, and the mistake in the command line is reported first.
        result = self.fail_with(2, "run", self.folder / "absent.heddle", "--input", "image=0")
        self.assertIn("'image=0': expected TYPE=VALUES", result.stderr)
        self.assertNotIn("for example", result.stderr)

    def test_2_for_targets_and_passes_that_there_are_not(self):
        out = self.folder / "out.heddle"
        for arguments in (["--target", "foo"], ["--target", "cpu:v9"], ["--target", "level_zero:spv9"], ["--target", "hip:gfx950"], ["--target", ""], ["--dump-after", "nope"]):
            with self.subTest(arguments=arguments):
                self.fail_with(2, "compile", DIGITS, "-o", out, *arguments)
                self.assertFalse(out.exists())

    def test_bench_names_only_devices_that_it_measured(self):
        bench = ["bench", self.module, "--iterations", "3"]
        self.fail_with(2, *bench, "--device", "cpu:0,nope")
        self.fail_with(4, *bench, "--device", "cpu:0", "--device", "nope")
        self.assertEqual(len(self.succeed(*bench, "--device", "cpu:0", "--device", "cpu:0", "--format", "jsonl").stdout.splitlines()), 2)

    def test_bench_gives_programs_plain_numbers(self):
        lines = self.succeed("bench", self.module, "--iterations", "3", "--percentile", "99", "--format", "csv").stdout.splitlines()
        names, values = (line.split(",") for line in lines)
        self.assertEqual(names, ["device", "median_ns", "p10_ns", "p90_ns", "p99_ns", "calls_per_second", "dispatches_per_call", "calls"])
        self.assertTrue(all(float(value) > 0 for value in values[1:]), lines)

    def test_bench_states_the_shapes_and_the_values_that_nobody_gave(self):
        few = ["bench", self.module, "--iterations", "3"]
        text = self.succeed(*few, "--dim", "batch=3", "--seed", "7").stdout
        self.assertTrue(text.startswith("inputs: image: f32[3,1,8,8] random; random values of seed 7\ndevice "), text)
        self.assertNotIn("to the first", text)
        text = self.succeed(*few, "--input", f"image=@{self.image}").stdout
        self.assertTrue(text.startswith("inputs: image: f32[2,1,8,8]\n"), text)
        for given, is_random in (([], True), (["--input", f"image=@{self.image}"], False)):
            report = json.loads(self.succeed(*few, *given, "--format", "json").stdout)
            self.assertEqual(report["inputs"][0]["random"], is_random)

    def test_bench_compares_devices_with_the_first(self):
        few = ["bench", self.module, "--iterations", "3", "--device", "cpu:0", "--device", "cpu:0"]
        first, second = json.loads(self.succeed(*few, "--format", "json").stdout)["results"]
        self.assertEqual(first["median_ratio"], 1)
        self.assertAlmostEqual(second["median_ratio"], second["median_ns"] / first["median_ns"])
        self.assertRegex(self.succeed(*few).stdout, r"device +median +to the first +p10 .*\ncpu:0 +\S+ \S+ +1 x ")

    def test_bench_compares_a_second_module_with_the_first(self):
        other = self.folder / "other.heddle"
        shutil.copy(self.module, other)
        few = ["bench", self.module, other, "--iterations", "3"]
        results = json.loads(self.succeed(*few, "--dim", "batch=2", "--format", "json").stdout)["results"]
        self.assertEqual([one["module"] for one in results], [str(self.module), str(other)])
        self.assertEqual([one["inputs"][0]["type"] for one in results], ["f32[2,1,8,8]"] * 2)
        self.assertAlmostEqual(results[1]["median_ratio"], results[1]["median_ns"] / results[0]["median_ns"])
        self.assertRegex(self.succeed(*few, "--input", f"image=@{self.image}").stdout,
                         rf"module +device +median +to the first .*\n{self.module} +cpu:0 +\S+ \S+ +1 x .*\n{other} +cpu:0 ")
        on_two = self.succeed(*few, "--device", "cpu:0", "--device", "cpu:0", "--format", "csv").stdout.splitlines()
        self.assertEqual([line.split(",")[0] for line in on_two], ["module", *[str(self.module)] * 2, *[str(other)] * 2])
        kernels = REPOSITORY / "tests" / "compat" / "kernels-0.1.heddle"
        self.assertIn(f"'{kernels}' is called with f32[64], and '{self.module}' with f32[1,1,8,8]; compare modules with the same inputs",
                      self.fail_with(2, "bench", self.module, kernels).stderr)
        self.fail_with(1, "bench", self.module, self.folder / "absent.heddle")

    def test_profile_ends_with_sums_by_kind(self):
        report = json.loads(self.succeed("profile", self.module, "--iterations", "3", "--format", "json").stdout)
        sums = {one["kind"]: one for one in report["kinds"]}
        self.assertEqual(set(sums), {"contraction", "pooling", "movement"})
        self.assertEqual((sums["contraction"]["count"], sums["pooling"]["count"]), (5, 2))
        self.assertAlmostEqual(sum(one["share"] for one in sums.values()), 1)
        self.assertAlmostEqual(sum(one["time_ns"] for one in sums.values()), report["regions_ns"])
        convolutions = [row["time_ns"] for row in report["regions"] if ".conv " in row["region"] or ".matmul " in row["region"]]
        self.assertAlmostEqual(sum(convolutions), sums["contraction"]["time_ns"])
        lines = self.succeed("profile", self.module).stdout.split("\n\n")[1].splitlines()
        self.assertRegex(lines[0], r"^kind +per call +share +count +GFLOP/s ")
        self.assertEqual({line.split()[0] for line in lines[1:]}, set(sums))

    def test_profile_says_what_regions_take(self):
        report = json.loads(self.succeed("profile", self.module, "--iterations", "3", "--format", "json").stdout)
        self.assertEqual(report["calls"], 3)
        self.assertTrue(report["regions"], report)
        self.assertTrue(all(row["time_ns"] > 0 and row["count"] > 0 for row in report["regions"]), report)
        self.assertLessEqual(report["regions_ns"], report["call_ns"])
        self.assertAlmostEqual(sum(row["share"] for row in report["regions"]), 1)
        self.assertIn("whole call, wall-clock time", self.succeed("profile", self.module).stdout)
        self.fail_with(2, "profile", self.module, "--dim", "nope=3")
        self.fail_with(4, "profile", self.module, "--device", "nope")

    def test_4_when_a_required_plugin_is_not_there(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[plugins]\nrequire = ["acme.absent"]\n')
        self.assertIn("acme.absent", self.fail_with(4, *self.run_arguments, "--config", config).stderr)

    def test_4_when_the_only_driver_is_disabled(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[plugins]\ndisable = ["heddle.cpu"]\n')
        self.assertIn("heddle.cpu", self.fail_with(4, *self.run_arguments, "--config", config).stderr)

    def test_results_are_on_stdout_and_are_json_when_asked(self):
        for command in (["devices"], ["plugins"]):
            with self.subTest(command=command):
                json.loads(self.succeed(*command, "--format", "json").stdout)
