# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of compiled kernels in gdb and in perf's map file."""
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

from heddle_command import DIGITS, HeddleTestCase, TIMEOUT_S, environment, heddle_path


class DebugSymbols(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.module = self.compile(DIGITS)
        self.image = self.folder / "image.npy"
        np.save(self.image, np.zeros((1, 1, 8, 8), np.float32))
        self.command = [str(heddle_path()), "run", str(self.module), "--input", f"@{self.image}"]

    def test_gdb_stops_in_a_kernel_by_its_name(self):
        if os.environ.get("HEDDLE_SANITIZE"):
            self.skipTest("SKIP: sanitizers' run times and gdb do not share a process well")
        script = ["set breakpoint pending on", "set confirm off", "break k0_conv", "run", "info symbol $pc", "kill"]
        arguments = [part for line in script for part in ("-ex", line)]
        process = subprocess.run(
            ["gdb", "-q", "-batch", "-nx", *arguments, "--args", *self.command],
            text=True, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
            env={**environment(), "DEBUGINFOD_URLS": ""},
        )
        if "ptrace" in process.stderr:
            self.skipTest(f"SKIP: no process may be traced here: {process.stderr.strip()[-200:]}")
        self.assertRegex(process.stdout, r"k0_conv in section \.text", process.stdout + process.stderr)

    def test_a_perf_map_of_somebody_elses_is_left_alone(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[driver."heddle.cpu"]\nperf_map = true\n')
        # Where perf's maps are, whatever TMPDIR says: a file has names on one file system only.
        kept = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="heddle-test-", dir="/tmp"))) / "kept"
        for what, make in (("a pipe", 'mkfifo "$map"'), ("a link", f'ln -s {kept} "$map"'), ("a name of another file", f'ln {kept} "$map"')):
            kept.write_text("kept")
            script = f'map=/tmp/perf-$$.map; {make}; echo $$ >&2; exec "$@"'
            process = subprocess.run(["sh", "-c", script, "sh", *self.command, "--config", str(config)],
                                     text=True, capture_output=True, timeout=TIMEOUT_S, env=environment())
            pathlib.Path(f"/tmp/perf-{process.stderr.split()[0]}.map").unlink()
            self.assertEqual(process.returncode, 0, what + process.stderr)
            self.assertIn("writing /tmp/perf-<pid>.map failed", process.stderr)
            self.assertEqual(kept.read_text(), "kept")

    def test_perf_map_lists_every_kernel(self):
        config = self.folder / "heddle.toml"
        config.write_text('version = 1\n[driver."heddle.cpu"]\nperf_map = true\n')
        with subprocess.Popen([*self.command, "--config", str(config)], stdout=subprocess.PIPE, env=environment()) as process:
            process.communicate(timeout=TIMEOUT_S)
        map_file = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        self.addCleanup(map_file.unlink, missing_ok=True)
        self.assertEqual(process.returncode, 0)
        lines = map_file.read_text().splitlines()
        for line in lines:
            self.assertRegex(line, r"^[0-9a-f]+ [0-9a-f]+ \S+::\S+$")
        kernels = set(re.findall(r"kernel: (k\d+_\w+)", self.succeed("explain", "--full", self.module).stdout))
        self.assertTrue(kernels)
        self.assertLessEqual(kernels, {line.split("::")[-1] for line in lines})
