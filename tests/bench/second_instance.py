# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loading a module a second time: in the same runtime, beside the first instance, and in later runtimes.

    second_instance.py resnet50.heddle bert.heddle [--device cuda:0] [--config 'param_io.derived_cache = "1GiB"'] [--library OTHER/libheddle.so]

For each module: medians of the time of the first and of the second instance, and of the device's bytes after each. Every round has a runtime of its own;
the first round, which fills the page cache and, with that key, the cache of derived values, is apart.
"""
import argparse
import json
import statistics
import time

import heddle_ctypes


def instance_of(module, device):
    begin = time.perf_counter()
    made = module.instance(device)
    took = (time.perf_counter() - begin) * 1e3
    report = json.loads(made.report("statistics"))
    bytes_used = sum(device["pool"]["requested"] for device in report["devices"]) + report["weights"]["bytes_mapped"]
    return made, took, bytes_used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--config", default="", help="TOML, separated by semicolons")
    parser.add_argument("--library", help="another libheddle.so")
    options = parser.parse_args()
    library = heddle_ctypes.Library(options.library)
    print("| module | first in all, ms | first, ms | second, ms | MB after the first | after both |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for path in options.modules:
        rounds = []
        for _ in range(options.rounds + 1):
            module = heddle_ctypes.Module(heddle_ctypes.Runtime("version = 1\n" + options.config.replace(";", "\n"), library), path)
            first, first_ms, bytes_of_one = instance_of(module, options.device)
            second, second_ms, bytes_of_two = instance_of(module, options.device)
            rounds.append((first_ms, second_ms, bytes_of_one / 1e6, bytes_of_two / 1e6))
            del first, second, module
        first, second, one, two = (statistics.median(column) for column in zip(*rounds[1:]))
        print(f"| {path.rsplit('/', 1)[-1]} | {rounds[0][0]:.1f} | {first:.1f} | {second:.1f} | {one:.1f} | {two:.1f} |", flush=True)


if __name__ == "__main__":
    main()
