# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of --large: more than 4 GiB in one transfer, and in one extent of a file. 12 GiB of memory, at most."""
import unittest

import kit

NEEDED_GIB = 14
CASES = ("transfer.over_4_gib_at_once", "param_io.over_4_gib")


def available_gib():
    with open("/proc/meminfo", encoding="ascii") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return sizes["MemAvailable"] >> 20


@unittest.skipIf(kit.SANITIZED, "sanitizers need memory of their own for each byte")
class Large(unittest.TestCase):
    def passes(self, plugin, *arguments):
        if available_gib() < NEEDED_GIB:
            self.skipTest(f"{available_gib()} GiB of memory are available; {NEEDED_GIB} are needed")
        _, cases = kit.run(plugin, "--large", "--time-limit", "300", "--jobs", "1", "--filter", ",".join(CASES), *arguments)
        self.assertEqual({name: (case["outcome"], case["texts"]) for name, case in cases.items()}, dict.fromkeys(CASES, ("passed", [])))

    def test_the_cpu_driver(self):
        self.passes(kit.BUILD / "lib/heddle/plugins.d/heddle.cpu.toml")

    def test_the_stream_driver_on_the_host(self):
        self.passes(kit.BUILD / "tests/plugins.d/test.streams.toml")


if __name__ == "__main__":
    unittest.main()
