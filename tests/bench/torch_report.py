# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.torch.report costs: a training step and inference of a network with and without a report, in turns.

Needs PyTorch and PYTHONPATH=build/release/python. The network breaks once, at `.item()`, which the report counts as well. Both sides are compiled
anew in each round: what was compiled while a report was open is observed for good.
"""
import argparse
import contextlib
import statistics
import time

import heddle.torch
import torch


class Network(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers[:len(self.layers) // 2]:
            x = torch.relu(layer(x))
        x = x / max(x.abs().max().item(), 1e-3)
        for layer in self.layers[len(self.layers) // 2:]:
            x = torch.relu(layer(x))
        return x


def seconds(backend, batch, width, layers, train, with_report, calls):
    """The time of compiling, and the median time of a call."""
    torch.compiler.reset()
    torch.manual_seed(0)
    network = Network(width, layers)
    compiled = torch.compile(network, backend=backend)
    x = torch.randn(batch, width)

    def call():
        if train:
            compiled(x).sum().backward()
            network.zero_grad()
        else:
            with torch.no_grad():
                compiled(x)

    with heddle.torch.report() if with_report else contextlib.nullcontext():
        start = time.perf_counter()
        call()
        compiling = time.perf_counter() - start
        for _ in range(10):
            call()
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return compiling, statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, batch, width, layers, train in (("inference", 32, 256, 6, False), ("training step", 32, 256, 6, True), ("small inference", 1, 16, 4, False)):
        sides = {False: [], True: []}
        for number in range(given.rounds):
            for with_report in ((False, True) if number % 2 == 0 else (True, False)):
                sides[with_report].append(seconds(given.backend, batch, width, layers, train, with_report, given.calls))
        off, on = (statistics.median(one for _, one in sides[side]) for side in (False, True))
        compile_off, compile_on = (statistics.median(one for one, _ in sides[side]) for side in (False, True))
        ratios = [on_one / off_one for (_, off_one), (_, on_one) in zip(sides[False], sides[True])]
        print(f"{name}, {given.backend}: {off * 1e6:.1f} us without, {on * 1e6:.1f} us with a report, {100 * (statistics.median(ratios) - 1):+.2f} % (median of {given.rounds} rounds); "
              f"compiling {compile_off:.2f} s and {compile_on:.2f} s")


if __name__ == "__main__":
    main()
