# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.torch.report costs: a training step and inference of a network, and of a tiny one, without a report, with one, and after it was closed.

Needs PyTorch and PYTHONPATH=build/release/python; OMP_NUM_THREADS=1 leaves other programs' threads alone. The network breaks once, at `.item()`, which
the report counts as well. In each round, it is compiled twice, before a report is opened and while it is open, and calls of both take turns in blocks,
first while the report is open and then after it was closed. Processor time is steady where other programs run, too. Two compilations of one network
differ by some percent in where their memory lies, so "in turns with itself" is the second one while its graphs are observed, against blocks in which the
functions that the backend made take their place.
"""
import argparse
import logging
import statistics
import time
import types

import heddle.torch
import torch

BLOCKS = 10


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


def compiled(backend, batch, width, layers, train):
    """A call of a network that is compiled of a code object of its own, since PyTorch tries all compilations of one in each call."""
    forward = Network.forward
    kind = type("Network", (Network,), {"forward": types.FunctionType(forward.__code__.replace(), forward.__globals__, "forward")})
    torch.manual_seed(0)
    network = kind(width, layers)
    function = torch.compile(network, backend=heddle.torch.backend if backend == "heddle" else backend)
    x = torch.randn(batch, width)

    def call():
        if train:
            function(x).sum().backward()
            network.zero_grad()
        else:
            with torch.no_grad():
                function(x)

    return call


def spent(call, calls):
    """Microseconds of the processor and of the clock that a call takes."""
    start, used = time.perf_counter(), time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - used) / calls * 1e6, (time.perf_counter() - start) / calls * 1e6


class Unobserved:
    """The same calls without what the report puts around graphs."""

    def __init__(self, report, call):
        self.observer, self.call = report._observer, call
        handles = [piece._handle() for piece in self.observer.pieces]
        self.handles = [(handle, handle.func, handle.func.__wrapped__) for handle in handles if handle is not None and hasattr(handle.func, "__wrapped__")]

    def put(self, which):
        for handle, *functions in self.handles:
            handle.__setstate__((functions[which], (), {}, handle.__dict__))
        self.observer.state.finish(self.observer.state.local.thread)
        self.observer.host.want(False)

    def __call__(self):
        self.call()


def turns(without, observed, calls):
    """Of blocks of calls that take turns: what a call takes in blocks without a report, and the ratios of the other ones to these."""
    offs, ratios = [], []
    for number in range(BLOCKS):
        made = {}
        for one in ((without, observed) if number % 2 == 0 else (observed, without)):
            if isinstance(without, Unobserved):
                without.put(1 if one is without else 0)
            one()  # caches of the processor
            made[one] = spent(one, calls)
        offs.append(made[without])
        ratios.append([on / off for on, off in zip(made[observed], made[without])])
    return [statistics.median(one[i] for one in offs) for i in range(2)], [statistics.median(one[i] for one in ratios) for i in range(2)]


def measured(kind, backend, block):
    torch.compiler.reset()
    without = compiled(backend, *kind)
    for _ in range(3):
        without()
    with heddle.torch.report() as report:
        observed = compiled(backend, *kind)
        for _ in range(30):  # among which are the first ones, all of which are observed
            observed()
        calls = max(3, int(block / spent(without, 20)[1] * 1e6))
        off, opened = turns(without, observed, calls)
        unobserved = Unobserved(report, observed)
        itself = turns(unobserved, observed, calls)[1]
        unobserved.put(0)
        totals = report.result().as_dict()["totals"]
    closed = turns(without, observed, calls)[1]
    return off, opened, itself, closed, totals


KINDS = {"inference": (64, 512, 8, False), "training step": (64, 512, 8, True), "inference of a tiny network": (1, 16, 4, False)}


def shown(ratios):
    """Percent above 1: the median of the rounds, and the quarters around it."""
    percent = sorted(100 * (one - 1) for one in ratios)
    return f"{statistics.median(percent):+.2f} % ({percent[len(percent) // 4]:+.2f} to {percent[-1 - len(percent) // 4]:+.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default=["aot_eager", "heddle"], nargs="*")
    parser.add_argument("--kind", default=list(KINDS), nargs="*", choices=list(KINDS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--block", type=float, default=0.1, metavar="SECONDS", help="that the calls of a block take")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch._logging.set_logs(dynamo=logging.ERROR)  # that it breaks
    for backend in given.backend:
        for kind in given.kind:
            rounds = [measured(KINDS[kind], backend, given.block) for _ in range(given.rounds)]
            off = statistics.median(one[0][0] for one in rounds)
            opened, itself, closed = ([one[i][0] for one in rounds] for i in (1, 2, 3))
            observed, calls = (sum(one[4][name] for one in rounds) for name in ("observed_calls", "graph_calls"))
            print(f"{kind}, {backend}, {given.rounds} reports: {off:.1f} us of the processor a call without a report; while one is open {shown(opened)}, "
                  f"in turns with itself {shown(itself)}, of which the first report {shown(itself[:1])}, later ones {shown(itself[1:] or itself)}; "
                  f"after it was closed {shown(closed)}; by the clock while open, in turns with itself {shown(one[2][1] for one in rounds)}; "
                  f"observed {observed} of {calls} calls of graphs", flush=True)


if __name__ == "__main__":
    main()
