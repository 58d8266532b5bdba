# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `heddle compile` leaves on disk: the same bytes each time, and nothing at all if it is stopped or out of space."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx

from heddle_command import DIGITS, HeddleTestCase, TIMEOUT_S, environment, heddle, heddle_path
import light  # found through heddle_command


class Determinism(HeddleTestCase):
    def test_digits_twice_from_two_folders_are_the_same_bytes(self):
        self.compare(DIGITS)

    def test_random_squeezenet_twice_from_two_folders_are_the_same_bytes(self):
        self.compare(light.randomized("squeezenet"))

    def compare(self, model):
        modules = []
        for name in ("one", "another"):
            folder = self.folder / name
            folder.mkdir()
            copy = folder / "model.onnx"
            shutil.copy(model, copy)
            self.succeed("compile", copy, "-o", folder / f"{name}.heddle", "--no-cache", cwd=folder)
            modules.append((folder / f"{name}.heddle").read_bytes())
        self.assertEqual(len(modules[0]), len(modules[1]))
        self.assertTrue(modules[0] == modules[1], "the two modules differ")


class Cache(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def taken(self, name, *arguments):
        """Compiles; how many entries of the cache were taken."""
        report = self.succeed("compile", DIGITS, "-o", self.folder / name, "--cache", self.cache, "--explain=json", *arguments).stdout
        return json.loads(report)["cache"]

    def same(self, *names):
        self.assertEqual(len({(self.folder / name).read_bytes() for name in names}), 1, "the modules differ")

    def test_what_was_made_before_is_taken_and_the_module_is_the_same(self):
        self.assertEqual(self.taken("cold")["entries_taken"], 0)
        entries = list(self.cache.iterdir())
        self.assertEqual(self.taken("warm")["entries_taken"], len(entries))
        self.succeed("compile", DIGITS, "-o", self.folder / "without", "--no-cache", "--threads", 1)
        self.same("cold", "warm", "without")
        # Another level has kernels of its own; another epilogue needs none but its own.
        self.assertEqual(self.taken("cuda", "--target", "cuda:sm_80")["entries_taken"], 0)
        self.assertGreater(self.taken("cuda-again", "--target", "cuda:sm_80")["entries_taken"], 0)
        self.same("cuda", "cuda-again")

    def test_damaged_entries_are_made_again(self):
        self.taken("cold")
        for i, entry in enumerate(sorted(self.cache.iterdir())):
            if i % 2:
                entry.write_bytes(entry.read_bytes()[:-1])
            else:
                entry.unlink()
        self.assertEqual(self.taken("again")["entries_taken"], 0)
        self.same("cold", "again")

    def test_a_folder_that_others_may_write_to_is_not_used(self):
        self.taken("cold")
        self.cache.chmod(0o777)
        result = self.taken("again")
        self.assertEqual(result["entries_taken"], 0)
        self.assertIn("others have access to it (mode 0777)", result["unused"])
        self.same("cold", "again")

    def test_no_cache_keeps_nothing(self):
        self.taken("without", "--no-cache")
        self.assertFalse(self.cache.exists())


class NothingIsLost(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.model, self.out = self.folder / "model.onnx", self.folder / "model.heddle"
        shutil.copy(DIGITS, self.model)
        (self.folder / "link.onnx").symlink_to("model.onnx")

    def test_the_model_is_not_written_over(self):
        for arguments in (["-o", self.model], ["-o", self.folder / "link.onnx"], ["-o", self.out, "--report", self.model],
                          ["-o", self.out, "--params-out", self.model]):
            with self.subTest(arguments=arguments):
                self.assertIn("would overwrite MODEL", self.fail_with(2, "compile", self.model, *arguments).stderr)
                self.assertEqual(self.model.read_bytes(), DIGITS.read_bytes())

    def test_two_outputs_are_two_files(self):
        for flag in ("--report", "--params-out", "--reproducer"):
            with self.subTest(flag=flag):
                self.assertIn(flag, self.fail_with(2, "compile", self.model, "-o", "m", flag, "./m", cwd=self.folder).stderr)
        self.fail_with(2, "compile", self.model, "-o", "m", "--dump-after", "heddle-form-dispatches", "--report", "m.mlir", cwd=self.folder)
        self.fail_with(2, "compile", self.model, "-o", "-", cwd=self.folder)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["link.onnx", "model.onnx"])

    def test_a_report_that_cannot_be_written_leaves_no_module(self):
        self.fail_with(1, "compile", self.model, "-o", self.out, "--report", self.folder / "absent" / "report.json")
        self.assertFalse(self.out.exists())

    def test_a_module_that_cannot_be_written_leaves_no_report(self):
        report = self.folder / "report.json"
        self.fail_with(1, "compile", self.model, "-o", self.folder / "absent" / "m.heddle", "--report", report)
        self.assertFalse(report.exists())

    def test_a_reproducer_is_the_imported_ir_of_a_compile_that_failed_later(self):
        reproducer = self.folder / "imported.mlir"
        failed = self.fail_with((1, 4), "compile", self.model, "-o", self.out, "--reproducer", reproducer, "--target", "cuda", "--ptxas", "/bin/false", "--donate", "image")
        self.assertIn(f"heddle compile --rerun {reproducer} repeats the failure", failed.stderr)
        head, ir = reproducer.read_text(encoding="utf-8").split("\n", 1)
        said = json.loads(head.removeprefix("// heddle reproducer "))
        self.assertEqual((said["contents"], said["step"], said["flags"]), ("ir", "code", ["--target=cuda", "--math=default", "--ptxas=/bin/false", "--no-cache"]))
        self.assertIn(said["failure"], failed.stderr)
        self.assertIn("func.func @main", ir)
        self.succeed("opt", reproducer, "--heddle-fold-casts")
        again = self.fail_with(failed.code, "compile", "--rerun", reproducer)
        self.assertIn(said["failure"].split("; the model is")[0], again.stderr.split("\n", 1)[1])
        reproducer.unlink()
        self.fail_with(1, "compile", self.folder / "absent.onnx", "-o", self.out, "--reproducer", reproducer)
        self.assertFalse(reproducer.exists())
        self.succeed("compile", self.model, "-o", self.out, "--reproducer", reproducer)
        self.assertFalse(reproducer.exists())

    def test_a_reproducer_of_a_crash(self):
        reproducer, crashes = self.folder / "crash.mlir", self.folder / "ptxas"
        crashes.write_text("#!/bin/sh\nkill -SEGV $PPID\n")
        crashes.chmod(0o755)
        failed = heddle("compile", self.model, "-o", self.out, "--reproducer", reproducer, "--target", "cuda", "--ptxas", crashes)
        self.assertEqual(failed.code, 128 + signal.SIGSEGV, str(failed))
        self.assertIn("failed at code: it was ended by signal 11", failed.stderr)
        self.assertFalse(self.out.exists())
        again = heddle("compile", f"--rerun={reproducer}", extra_environment={"TMPDIR": str(self.folder)})  # where the crash leaves the model
        self.assertEqual(again.code, -signal.SIGSEGV, str(again))
        self.assertIn("failed at code: it was ended by signal 11", again.stderr)

    def test_a_reproducer_of_a_failed_import_is_the_model(self):
        reproducer, model = self.folder / "import.txt", self.folder / "odd.onnx"
        graph = onnx.helper.make_graph([onnx.helper.make_node("Weave", ["x"], ["y"], domain="acme")], "odd", [onnx.helper.make_tensor_value_info("x", 1, [1, 2])],
                                       [onnx.helper.make_tensor_value_info("y", 1, [1, 2])])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("acme", 1)]), model)
        failed = self.fail_with(1, "compile", model, "-o", self.out, "--reproducer", reproducer, "--place", "op:Weave=@host")
        model.unlink()
        again = self.fail_with(1, "compile", "--rerun", reproducer, "-o", self.out)
        self.assertIn("Weave", again.stderr)
        self.assertEqual(failed.stderr.splitlines()[0].split("; the model is")[0], again.stderr.splitlines()[1].split("; the model is")[0])
        head, *lines = reproducer.read_text(encoding="utf-8").splitlines()
        self.assertIn("--place=op:Weave=@host", json.loads(head.removeprefix("// heddle reproducer "))["flags"])
        for damage, text in (([head.replace('"format":1', '"format":9'), *lines], "its format is 9"), ([head, lines[0][:-1], *lines[1:]], "it is damaged"), (lines, "does not begin with")):
            reproducer.write_text("\n".join(damage), encoding="utf-8")
            self.assertIn(text.replace("it is damaged", "is damaged"), self.fail_with(1, "compile", "--rerun", reproducer).stderr)
        self.fail_with(1, "compile", "--rerun", self.folder / "absent")
        self.fail_with(2, "compile", "--rerun", reproducer, self.model)

    def test_a_bad_path_fails_before_the_work(self):
        (self.folder / "file").write_text("kept")
        for arguments, wrong in ((["-o", self.folder / "absent" / "m.heddle"], "absent/m.heddle' failed: No such file or directory"),
                                 (["-o", self.folder / "file" / "m.heddle"], "file/m.heddle' failed: Not a directory"),
                                 (["-o", self.folder], "something that is not a regular file has this name"),
                                 (["-o", self.out, "--params-out", self.folder / "absent" / "p"], "absent/p' failed: No such file"),
                                 (["-o", self.out, "--params-out", "/dev/null"], "'/dev/null' failed: something that is not a regular")):
            with self.subTest(arguments=arguments):
                result = self.fail_with(1, "compile", self.model, *arguments, "--progress", "always")
                self.assertIn(wrong, result.stderr)
                self.assertNotIn("import", result.stderr)  # the first stage did not begin
                self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["file", "link.onnx", "model.onnx"])
        # What is there stays until the new file is complete.
        self.out.write_text("kept")
        (self.folder / "bad.onnx").write_bytes(b"no model")
        self.fail_with(1, "compile", self.folder / "bad.onnx", "-o", self.out)
        self.assertEqual(self.out.read_text(), "kept")

    def test_the_last_line_names_what_was_written(self):
        parameters = self.folder / "p.safetensors"
        line = r"wrote {} ([\d.]+) (B|KiB|MiB) in \d+\.\d s"
        result = self.succeed("compile", self.model, "-o", self.out)
        found = re.fullmatch(line.format(re.escape(str(self.out))), result.stderr.strip())
        self.assertTrue(found, result.stderr)
        unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[found[2]]
        self.assertAlmostEqual(float(found[1]), self.out.stat().st_size / unit, delta=0.06)
        self.assertEqual(result.stdout, "")
        result = self.succeed("compile", self.model, "-o", self.out, "--params-out", parameters)
        self.assertRegex(result.stderr, line.format(re.escape(str(self.out))) + "\n" + line.format(re.escape(str(parameters))))
        shown = self.succeed("compile", self.model, "-o", self.out, "--progress", "always", "--no-cache").stderr
        steps = re.findall(r"\x1b\[K(\w+), (\d) of 5 done, \d+\.\d s\s", shown)  # the import, the passes, code for two levels, writing
        self.assertEqual(steps, [("import", "0"), ("passes", "1"), ("code", "2"), ("code", "3"), ("code", "4"), ("write", "4"), ("write", "5")])
        self.assertRegex(shown, r"5 of 5 done, \d+\.\d s\s\x1b\[Kwrote ")

    def test_a_result_does_not_go_over_the_running_module(self):
        self.succeed("compile", self.model, "-o", self.out)
        before = self.out.read_bytes()
        (self.folder / "link.heddle").symlink_to("model.heddle")
        for name in ("model.heddle", "./model.heddle", "link.heddle"):
            with self.subTest(name=name):
                arguments = ["--input", "image=f32[1,1,8,8]=1", "--output", f"@{name}"]
                self.assertIn("the module", self.fail_with(2, "run", "model.heddle", *arguments, cwd=self.folder).stderr)
                self.assertEqual(self.out.read_bytes(), before)

    def test_an_expected_file_is_read_before_it_is_replaced(self):
        self.succeed("compile", self.model, "-o", self.out)
        scores, call = self.folder / "scores.npy", ["run", self.out, "--input", "image=f32[1,1,8,8]=1"]
        np.save(scores, np.zeros((1, 10), np.float32))
        self.fail_with(3, *call, "--expect", f"@{scores}", "--output", f"@{scores}")
        self.assertNotEqual(np.abs(np.load(scores)).max(), 0)
        self.succeed(*call, "--expect", f"@{scores}", "--output", f"@{scores}")


class Interrupted(HeddleTestCase):
    def stop(self, model, number, delay_s):
        """Sends a signal to a compile after a while; returns whether it came before the end."""
        out = self.folder / f"out-{number}-{delay_s}"
        out.mkdir()
        process = subprocess.Popen(
            [str(heddle_path()), "compile", str(model), "-o", str(out / "model.heddle")], env=environment(),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=out, start_new_session=True,
        )
        time.sleep(delay_s)
        # To the group, as a terminal does: `heddle` may have started `heddle-compile`.
        if process.poll() is None:
            os.killpg(process.pid, number)
        _, error = process.communicate(timeout=TIMEOUT_S)
        if process.returncode == 0:
            return False
        self.assertIn(process.returncode, (128 + number, -number), error.decode(errors="replace"))
        deadline = time.monotonic() + 5
        while list(out.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(list(out.iterdir()), [], "an interrupted compile left something behind")
        return True

    def check(self, number):
        model = light.randomized("resnet50")
        stopped = [self.stop(model, number, delay_s) for delay_s in (0.02, 0.1, 0.3, 0.7, 1.5, 3.0)]
        self.assertTrue(any(stopped), "every compile was over before its signal came")

    def test_sigint_leaves_no_file(self):
        self.check(signal.SIGINT)

    def test_sigterm_leaves_no_file(self):
        self.check(signal.SIGTERM)


class OutOfSpace(HeddleTestCase):
    def test_file_size_limit_leaves_no_file(self):
        if os.environ.get("HEDDLE_SANITIZE") == "thread":
            self.skipTest("SKIP: ThreadSanitizer's own shadow memory is a file, and may not grow under the limit")
        model = light.randomized("squeezenet")
        for limit in (0, 1000, 100_000, 2_000_000):
            with self.subTest(limit=limit):
                out = self.folder / f"out-{limit}"
                out.mkdir()
                # SIGXFSZ stays ignored, as Python has it, so that the write itself fails.
                result = self.fail_with(
                    1, "compile", model, "-o", out / "model.heddle", restore_signals=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
                )
                self.assertEqual(list(out.iterdir()), [], str(result))
                # What fails first may be an intermediate file of the linker, in TMPDIR.
                self.assertRegex(result.stderr, r"(writing|failed to open) .*(model\.heddle|heddle-link)")

    def test_full_disk_leaves_no_file(self):
        out = self.folder / "small-disk"
        out.mkdir()
        script = (
            'mount -t tmpfs -o size=256k none "$1" || exit 77\n'
            '"$2" compile "$3" -o "$1/model.heddle"; echo "code $?"; ls -A "$1" | sed "s/^/left: /"\n'
        )
        process = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", out, heddle_path(), light.randomized("squeezenet")],
            text=True, capture_output=True, timeout=TIMEOUT_S, env=environment(),
        )
        if process.returncode == 77 or "unshare" in process.stderr:
            self.skipTest(f"SKIP: no mount namespace may be made here: {process.stderr.strip()}")
        self.assertIn("code 1", process.stdout, process.stderr)
        self.assertNotIn("left:", process.stdout, process.stdout)
        self.assertRegex(process.stderr, r"(?i)no space left")

    def test_output_folder_that_does_not_exist_is_named(self):
        missing = self.folder / "absent" / "model.heddle"
        self.assertIn("absent", self.fail_with((1, 2), "compile", DIGITS, "-o", missing).stderr)


class ParametersBeside(HeddleTestCase):
    """--params-out: two files, both new or both as they were."""

    def test_a_module_that_cannot_be_written_leaves_the_old_parameters(self):
        parameters = self.folder / "weights.safetensors"
        parameters.write_bytes(b"old")
        self.fail_with((1, 2), "compile", light.randomized("squeezenet"), "-o", self.folder / "absent" / "model.heddle",
                       "--params-out", parameters)
        self.assertEqual(parameters.read_bytes(), b"old")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["weights.safetensors"])

    def test_one_place_for_both_is_refused(self):
        (self.folder / "inner").mkdir()
        module = self.folder / "model.heddle"
        for same in (module, self.folder / "inner" / ".." / "model.heddle"):
            with self.subTest(same=same):
                error = self.fail_with((1, 2), "compile", DIGITS, "-o", module, "--params-out", same).stderr
                self.assertIn("model.heddle", error)
                self.assertFalse(module.exists())


class TextsBeside(HeddleTestCase):
    """--report, --dump-to: complete or not there, and no module without the report that was asked for."""

    def test_a_report_without_a_folder_is_refused_before_the_work(self):
        for flags in (("--report", self.folder / "absent" / "r.json"),
                      ("--dump-after", "heddle-pack-weights", "--dump-to", self.folder / "absent" / "d.mlir")):
            with self.subTest(flags=flags):
                error = self.fail_with((1, 2), "compile", DIGITS, "-o", self.folder / "model.heddle", *flags).stderr
                self.assertIn("absent", error)
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_report_goes_to_a_file_or_a_pipe(self):
        module, report = self.folder / "model.heddle", self.folder / "report.json"
        self.succeed("compile", DIGITS, "-o", module, "--report", report)
        piped = self.succeed("compile", DIGITS, "-o", module, "--report", "/dev/stdout").stdout
        # Redirected to a file, /dev/stdout is a link to it, which stays one.
        link, redirected = self.folder / "stdout", self.folder / "redirected"
        link.symlink_to("/proc/self/fd/1")
        redirected.write_text("[1]\n")
        with open(redirected, "a") as file:
            subprocess.run([str(heddle_path()), "compile", str(DIGITS), "-o", str(module), "--report", str(link)], stdout=file, check=True)
        self.assertTrue(link.is_symlink())
        first, rest = redirected.read_text().split("\n", 1)
        self.assertEqual(first, "[1]")
        for text in (report.read_text(), piped, rest):
            self.assertIn("kernels", json.loads(text))

    def test_a_failure_names_the_model(self):
        model = self.folder / "odd.mlir"
        model.write_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = tx.neg %x : tensor<3xf32>\n  return %0 : tensor<3xf32>\n}\n")
        self.assertIn("odd.mlir", self.fail_with(1, "compile", model, "-o", self.folder / "m.heddle").stderr)
