# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.torch.report costs: a training step and inference of a network, and of a tiny one, without a report, with one, and after it was closed.

Needs PyTorch and PYTHONPATH=build/release/python; OMP_NUM_THREADS=1 leaves other programs' threads alone. The network breaks once, at `.item()`, which
the report counts as well. All sides are compiled anew in each round, and take turns. Processor time is steady where other programs run, too.
"""
import argparse
import contextlib
import logging
import statistics
import time

import heddle.torch
import torch

PARTS = 10  # a side's processor time is the median of so many parts of its calls


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


def measured(call, calls):
    """Microseconds of the processor and of the clock that a call takes: the median of parts, in a process that may do other things now and then."""
    processor, wall = [], []
    for _ in range(PARTS):
        start, used = time.perf_counter(), time.process_time()
        for _ in range(calls // PARTS):
            call()
        processor.append((time.process_time() - used) / (calls // PARTS) * 1e6)
        wall.append((time.perf_counter() - start) / (calls // PARTS) * 1e6)
    return statistics.mean(processor), statistics.median(wall)


def sides(backend, batch, width, layers, train, with_report, calls, warm):
    """What a call takes, and after the report was closed, if there was one; and how many calls of graphs were observed, of how many."""
    torch.compiler.reset()
    torch.manual_seed(0)
    network = Network(width, layers)
    compiled = torch.compile(network, backend=heddle.torch.backend if backend == "heddle" else backend)
    x = torch.randn(batch, width)

    def call():
        if train:
            compiled(x).sum().backward()
            network.zero_grad()
        else:
            with torch.no_grad():
                compiled(x)

    with heddle.torch.report() if with_report else contextlib.nullcontext() as report:
        for _ in range(warm):
            call()
        made = [measured(call, calls)]
    if not with_report:
        return made[0], None, None
    totals = report.result().as_dict()["totals"]
    return made[0], measured(call, calls), (totals["observed_calls"], totals["graph_calls"])


KINDS = {"inference": (64, 512, 8, False), "training step": (64, 512, 8, True), "inference of a tiny network": (1, 16, 4, False)}


def more(pairs, which):
    """By how many percent the second of each pair is above the first; the median of the pairs, and the quarters around it."""
    ratios = sorted(100 * (on[which] / off[which] - 1) for off, on in pairs)
    return statistics.median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default=["aot_eager", "heddle"], nargs="*")
    parser.add_argument("--kind", default=list(KINDS), nargs="*", choices=list(KINDS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=1000, help="in each round and of each side; a tenth of them of the larger networks")
    parser.add_argument("--warm", type=int, default=30, help="calls before these, among which are the first ones, all of which are observed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=logging.ERROR)  # that it breaks
    for backend in given.backend:
        for kind in given.kind:
            batch, width, layers, train = KINDS[kind]
            calls = given.calls if width < 100 else max(PARTS, given.calls // 10)
            rounds = []
            for number in range(given.rounds):
                made = {}
                for with_report in ((False, True) if number % 2 == 0 else (True, False)):
                    made[with_report] = sides(backend, batch, width, layers, train, with_report, calls, given.warm)
                rounds.append((made[False][0], *made[True]))
            first, *later = [100 * (one[1][0] / one[0][0] - 1) for one in rounds]
            off = statistics.median(one[0][0] for one in rounds)
            for name, side in (("with a report", 1), ("after it was closed", 2)):
                pairs = [(one[0], one[side]) for one in rounds]
                print(f"{kind}, {backend}, {given.rounds} rounds, {name}: {off:.1f} us of the processor a call without, "
                      f"{statistics.median(one[side][0] for one in rounds):.1f} us, {more(pairs, 0)[0]:+.2f} % (quarters {more(pairs, 0)[1]:+.2f} to {more(pairs, 0)[2]:+.2f}); "
                      f"by the clock {more(pairs, 1)[0]:+.2f} %", flush=True)
            print(f"    in the first report of the process {first:+.2f} %, in later ones {statistics.median(later) if later else first:+.2f} %; "
                  f"observed {statistics.median(one[3][0] for one in rounds):.0f} of {rounds[0][3][1]} calls of graphs", flush=True)


if __name__ == "__main__":
    main()
