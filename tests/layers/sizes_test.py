# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the runtime stays small: libheddle, the CPU driver, the allocators and the tools, stripped, in 2.5 MB."""
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["HEDDLE_BUILD"])
LIMIT_BYTES = 2_500_000
RUNTIME = (
    "lib/libheddle.so",
    "lib/heddle/plugins.d/libheddle_cpu.so",
    "lib/heddle/plugins.d/libheddle_pool.so",
    "lib/heddle/plugins.d/libheddle_arena.so",
    "lib/heddle/plugins.d/libheddle_system.so",
    "lib/heddle/plugins.d/libheddle_limit.so",
    "lib/heddle/plugins.d/libheddle_track.so",
    "lib/heddle/plugins.d/libheddle_log.so",
    "bin/heddle",
    "bin/heddle-probe",
)


def cache_value(name):
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


class Sizes(unittest.TestCase):
    def test_the_runtime_fits_in_its_budget(self):
        if cache_value("CMAKE_BUILD_TYPE") != "Release" or cache_value("HEDDLE_SANITIZE"):
            self.skipTest("sizes are those of a release build")
        total = 0
        with tempfile.TemporaryDirectory() as folder:
            for name in RUNTIME:
                path = (BUILD / name).resolve()
                self.assertTrue(path.is_file(), f"{name} is not built")
                stripped = pathlib.Path(folder, path.name)
                subprocess.run(["strip", "--strip-all", "-o", stripped, path], check=True)
                size = stripped.stat().st_size
                print(f"{size:>10} {name}")
                total += size
        print(f"{total:>10} in all, of {LIMIT_BYTES}")
        self.assertLessEqual(total, LIMIT_BYTES)


if __name__ == "__main__":
    unittest.main()
