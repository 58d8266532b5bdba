# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module of any batch and sequence: what the first call of a shape costs, and what memory many shapes leave behind.

    any_shape.py MODULE.heddle [--shapes N] [--batch N] [--sequence N] [--vocabulary N]

The module takes token ids, masks and types of [batch, sequence] in i64, as those of export_networks.py with .dyn do. Shapes are random, each is called five times, right after a call
of the shape before it, so that threads are awake. Printed are the median and the worst of first call / median of the others, and the anonymous memory after each tenth of the shapes.
Plans of the last shapes are kept, with memory for their calls, so that the same few shapes are called before it is read.
"""
import argparse
import random
import statistics
import time

import numpy as np

import heddle_ctypes
from peak_memory import anonymous_kib


def timed_call(function, tensors):
    started = time.perf_counter()
    call, results = function.start(tensors)
    call.wait()
    taken = time.perf_counter() - started
    del call, results
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module")
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--calls", type=int, default=5, help="of each shape")
    parser.add_argument("--batch", type=int, default=8, help="at most")
    parser.add_argument("--sequence", type=int, default=256, help="at most")
    parser.add_argument("--vocabulary", type=int, default=256, help="ids are below it")
    arguments = parser.parse_args()
    settling = [(1 + turn % arguments.batch, arguments.sequence // 2) for turn in range(40)]
    function = heddle_ctypes.Runtime().open(arguments.module).instance("cpu:0").function()
    generator, ratios, memory, tensors = random.Random(5), [], [], None
    for turn in range(arguments.shapes):
        shape = generator.randint(1, arguments.batch), generator.randint(2, arguments.sequence)
        ids = np.random.default_rng(turn).integers(0, arguments.vocabulary, shape)
        given = [ids, np.ones(shape, np.int64), np.zeros(shape, np.int64)][:function.argument_count]
        before, tensors = tensors, [function.tensor(index, array) for index, array in enumerate(given)]
        if before:
            timed_call(function, before)
        times = [timed_call(function, tensors) for _ in range(arguments.calls)]
        if before and len(times) > 1:
            ratios.append(times[0] / statistics.median(times[1:]))
        if (turn + 1) % max(1, arguments.shapes // 10) == 0:
            for shape in settling:
                ids = np.zeros(shape, np.int64)
                timed_call(function, [function.tensor(index, ids) for index in range(function.argument_count)])
            memory.append(f"{anonymous_kib() / 1024:.1f}")
    if ratios:
        print(f"first call / median of the others: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, "
              f"{sum(ratio > 2 for ratio in ratios)} of {len(ratios)} shapes above 2")
    print(f"anonymous memory in MiB after each {max(1, arguments.shapes // 10)} shapes: {', '.join(memory)}")


if __name__ == "__main__":
    main()
