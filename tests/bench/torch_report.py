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
    """The time of compiling, the median time of a call, and the processor time of a call, which is steady where other programs run, too."""
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
        times, processor = [], time.process_time()
        for _ in range(calls):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        processor = (time.process_time() - processor) / calls
    return compiling, statistics.median(times), processor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="aot_eager")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, batch, width, layers, train in (("inference", 64, 512, 8, False), ("training step", 64, 512, 8, True), ("inference of a tiny network", 1, 16, 4, False)):
        sides = {False: [], True: []}
        for number in range(given.rounds):
            for with_report in ((False, True) if number % 2 == 0 else (True, False)):
                sides[with_report].append(seconds(given.backend, batch, width, layers, train, with_report, given.calls))
        compiling, wall, processor = (tuple(statistics.median(one[i] for one in sides[side]) for side in (False, True)) for i in range(3))
        more = [100 * (statistics.median(on[i] / off[i] for off, on in zip(sides[False], sides[True])) - 1) for i in range(3)]
        print(f"{name}, {given.backend}, {given.rounds} rounds: without and with a report {wall[0] * 1e6:.1f} and {wall[1] * 1e6:.1f} us a call ({more[1]:+.2f} %), "
              f"processor time {processor[0] * 1e6:.1f} and {processor[1] * 1e6:.1f} us ({more[2]:+.2f} %), compiling {compiling[0]:.2f} and {compiling[1]:.2f} s", flush=True)


if __name__ == "__main__":
    main()
