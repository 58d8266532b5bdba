# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a network under torch.compile(backend="heddle") for many steps, and prints what memory and the loss did. Fails unless memory is what it was after
the second step, its peak is that of the plan, and the loss differs from eager mode's as if sums were reordered.

    long_training.py --steps 10000 [--device cpu] [--network perceptron]

training_test.py takes the same arguments. Networks: perceptron (16, 256, 5), and gpt_small of tests/bench/torch_training.py with 2 x 64 tokens, for which
transformers is needed.
"""
import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as f

import heddle
import heddle.torch

COMPARED = 200  # steps whose loss is compared
LARGEST_PEAK = 1.02  # of the plan


@dataclasses.dataclass
class Network:
    make: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[torch.Tensor, torch.Tensor]]
    loss: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
    axes: dict[str, tuple[str | None, ...]]  # by patterns of parameters' names: those of their dimensions whose order does not matter
    inputs: str | None = None  # the axis of the second dimension of a batch


def perceptron(width=256):
    return Network(
        lambda: nn.Sequential(nn.Linear(16, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 5)),
        lambda generator: (torch.randn(8, 16, generator=generator), torch.randint(5, (8,), generator=generator)),
        lambda model, x, y: f.cross_entropy(model(x), y),
        {"0.weight": ("hidden", "inputs"), "3.weight": (None, "hidden"), "0.bias": ("hidden",), "1.*": ("hidden",)}, "inputs")


def gpt_small():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
    from torch_training import models

    def make():
        return models(argparse.Namespace(batch=2, length=64, image=64))["gpt_small"]()[0]

    def batch(generator):
        ids = torch.randint(8192, (2, 64), generator=generator)
        return ids, ids

    return Network(make, batch, lambda model, x, y: model(input_ids=x, labels=y).loss, {
        "*.wte.weight": (None, "model"), "*.wpe.weight": (None, "model"), "*.ln_*": ("model",), "*.c_attn.weight": ("model", None),
        "*.attn.c_proj.weight": (None, "model"), "*.c_proj.bias": ("model",), "*.c_fc.weight": ("model", "hidden"), "*.c_fc.bias": ("hidden",),
        "*.mlp.c_proj.weight": ("hidden", "model")})


NETWORKS = {"perceptron": perceptron, "gpt_small": gpt_small}


def made(network, device):
    torch.manual_seed(1)
    return network.make().train().to(device)


def batches(network, count):
    generator = torch.Generator().manual_seed(2)
    for _ in range(count):
        yield network.batch(generator)


def make_optimizer(model):
    return torch.optim.AdamW(model.parameters(), 1e-4)


def pool(device="cpu"):
    """The memory that modules of this process share on the device, from the report of any of them."""
    path = heddle.torch.graphs()[0].modules[0]
    with heddle.open(path, device) as module:
        return next(one for one in module.memory() if one.device.startswith(torch.device(device).type))


def memory(device):
    """What Heddle's pool has there, and PyTorch's, by its own count: that of blocks, and of what was asked for; of a CPU, what the process has."""
    if device == "cuda":
        torch.cuda.synchronize()
    ours = pool("cuda:0" if device == "cuda" else device)
    found = {"requested": ours.requested, "reserved": ours.reserved, "peak_requested": ours.peak_requested}
    if device == "cpu":
        with open("/proc/self/statm", encoding="ascii") as file:
            return {**found, "resident": int(file.read().split()[1]) * resource.getpagesize()}
    free, total = torch.cuda.mem_get_info()
    return {**found, "allocated by PyTorch": torch.cuda.memory_allocated(), "reserved by PyTorch": torch.cuda.memory_reserved(),
            "most allocated by PyTorch": torch.cuda.max_memory_allocated(),
            "most requested of PyTorch": torch.cuda.memory_stats()["requested_bytes.all.peak"], "used of the device": total - free}


def planned(device, state):
    """The bytes that the modules of a training step need, by `heddle explain --memory`: what each of them keeps from call to call, and the results of the
    forward and the backward pass, which are there at once. On a GPU, PyTorch allocates these, and is also counted for the parameters and the state."""
    program = os.path.join(os.environ["HEDDLE_BIN"], "heddle")
    found = {"modules": 0, "results of the forward and the backward pass": 0}
    for graph in heddle.torch.graphs():
        for path in graph.modules:
            report = json.loads(subprocess.check_output([program, "explain", "--memory", "--format", "json", path]))
            plan = next(one for one in report["memory"][0]["programs"] if one["families"] == [device])
            call = plan["calls"][0]["places"][0]
            found["modules"] += plan["places"][0]["weights"] + call["arena"]
            if graph.kind in ("forward", "backward"):
                found["results of the forward and the backward pass"] += call["results"]
    if device != "cpu":
        found["parameters, the state of the optimizer and a batch"] = state
    return found


def trained(network, steps, device, names):
    """(losses, what memory was after the steps that have names, bytes of the parameters, the optimizer's state and a batch, seconds of a step)"""
    model = made(network, device)
    optimizer = make_optimizer(model)
    loss_of = torch.compile(lambda x, y: network.loss(model, x, y), backend=heddle.torch.backend)
    update = torch.compile(optimizer.step, backend=heddle.torch.backend)
    losses, found, begin = [], {}, 0.0
    for step, (x, y) in enumerate(batches(network, steps), 1):
        x, y = x.to(device), y.to(device)
        loss = loss_of(x, y)
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if step in names:
            found[names[step]] = memory(device)
        begin = time.monotonic() if step == 2 else begin
    seconds = (time.monotonic() - begin) / max(1, steps - 2)
    kept = [*model.parameters(), *model.buffers(), x, *([] if x is y else [y]), *(one for state in optimizer.state.values() for one in state.values())]
    return losses, found, sum(one.nbytes for one in kept if torch.is_tensor(one) and one.device.type == device), seconds


def reference(network, count, device, seed=None, dtype=torch.float32, backend=None):
    """Losses of eager mode. With a seed, sums are reordered: the rows of batches, and inputs and hidden units where the network says that it can be done.
    `backend` runs the graph of the optimizer's step: under torch.compile, PyTorch's optimizers compute with their count of steps in f32, in eager mode in
    f64."""
    torch._dynamo.reset()
    generator, orders = torch.Generator().manual_seed(seed or 0), {}

    def order(size, axis=None):
        if seed is None:
            return torch.arange(size)
        if axis is None:
            return torch.randperm(size, generator=generator)
        return orders.setdefault(axis, torch.randperm(size, generator=generator))

    model = made(network, device).to(dtype)
    for name, parameter in model.named_parameters():
        axes = next((axes for pattern, axes in network.axes.items() if fnmatch.fnmatch(name, pattern)), ())
        for dimension, axis in enumerate(axes):
            if axis is not None:
                parameter.data = parameter.data.index_select(dimension, order(parameter.shape[dimension], axis).to(device))
    optimizer = make_optimizer(model)
    update = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
    losses = []
    for x, y in batches(network, count):
        rows = order(len(y))
        x, y = x[rows], y[rows]
        if network.inputs:
            x = x[:, order(x.shape[1], network.inputs)]
        loss = network.loss(model, (x.to(dtype) if x.is_floating_point() else x).to(device), y.to(device))
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def difference(a, b):
    return max(abs(one - other) for one, other in zip(a, b))


def losses_beside(ours, network, count, device):
    def run(**options):
        return reference(network, count, device, **options)

    eager, same = run(), run(backend="aot_eager")
    runs = [eager, *(run(seed=seed) for seed in range(1, 9))]
    exact = run(dtype=torch.float64)
    return {
        "Heddle and eager mode": difference(ours, eager),
        "Heddle and eager mode, the graph of the optimizer's step in both": difference(ours, same),
        "eager mode with and without the graph of the optimizer's step": difference(same, eager),
        "two runs of eager mode with reordered sums": max(difference(a, b) for i, a in enumerate(runs) for b in runs[:i]),
        "Heddle and f64": difference(ours, exact),
        "eager mode and f64": difference(eager, exact)}


def long_run(steps, device, name):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    network = NETWORKS[name]()
    losses, found, state, seconds = trained(network, steps, device, {2: "second", steps: "last"})
    graphs = heddle.torch.graphs()
    found["nodes in PyTorch"] = f"{sum(len(one.fallbacks) for one in graphs)} of {sum(one.nodes for one in graphs)}"
    found["milliseconds of a step, after the second"] = round(seconds * 1e3, 3)
    found["plan"] = plan = planned(device, state)
    last = found["last"]
    found["peak / plan"] = (last["peak_requested"] + last.get("most requested of PyTorch", 0)) / sum(plan.values())
    if device != "cpu":
        found["peak / plan of Heddle's pool"] = last["peak_requested"] / plan["modules"]
    constant = ("requested", "reserved", *(("allocated by PyTorch", "reserved by PyTorch") if device != "cpu" else ()))
    found["constant"] = {key: found["second"][key] == last[key] for key in constant}
    print(json.dumps(found, indent=1), flush=True)
    count = min(steps, COMPARED)
    told = losses_beside(losses[:count], network, count, device)
    print(json.dumps({f"loss of step 1; {count}; {steps}": [losses[0], losses[count - 1], losses[-1]], f"largest difference of the loss in {count} steps": told},
                     indent=1))
    rounding = torch.finfo(torch.float32).eps * max(losses[:count])
    return all(found["constant"].values()) and found["peak / plan"] <= LARGEST_PEAK and \
        told["Heddle and eager mode, the graph of the optimizer's step in both"] <= told["two runs of eager mode with reordered sums"] + rounding


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, required=True, help="3 or more")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--network", choices=NETWORKS, default="perceptron")
    arguments = parser.parse_args()
    if arguments.steps < 3:
        parser.error(f"--steps {arguments.steps}: memory after the last step is compared with that after the second one; give 3 or more")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no CUDA device; leave the option out to train on the CPU")
    return 0 if long_run(arguments.steps, arguments.device, arguments.network) else 1


if __name__ == "__main__":
    sys.exit(main())
