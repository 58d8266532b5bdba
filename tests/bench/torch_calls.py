# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times what the host does for calls with many small tensors under torch.compile: the optimizer's step, and a small network's forward and backward pass.

    torch_calls.py [NAME ...] [--tensors 150] [--rounds 10] [--seconds 0.2] [--peers eager,inductor] [--device cpu]

The tensors are so small that the device has next to nothing to do. Of each contender: the time of a call, the time the calling thread computes in it, and
that divided by the tensors that a call passes: parameters and what belongs to them. Needs torch; gpt needs transformers, too.
"""
import argparse
import copy
import statistics
import sys
import time

import turns


def adamw(arguments):
    """(the tensors of a call, function from a backend to a step)."""
    import torch

    values = [torch.randn(8, generator=torch.Generator().manual_seed(i)).to(arguments.device) for i in range(2 * arguments.tensors)]

    def made(backend):
        parameters = [torch.nn.Parameter(value.clone()) for value in values[::2]]
        for parameter, gradient in zip(parameters, values[1::2]):
            parameter.grad = gradient.clone()
        optimizer = torch.optim.AdamW(parameters, lr=1e-4)
        step = torch.compile(optimizer.step, backend=backend) if backend else optimizer.step
        return step, lambda: sum(float(one.detach().double().sum()) for one in parameters)

    return 5 * arguments.tensors, made


def network(arguments, model, inputs, loss_of):
    import torch

    model = model.to(arguments.device)
    inputs = {key: value.to(arguments.device) for key, value in inputs.items()}

    def made(backend):
        own = copy.deepcopy(model)

        def forward():
            return loss_of(own(**inputs))

        if backend:
            forward = torch.compile(forward, backend=backend)

        def step():
            own.zero_grad(set_to_none=True)
            forward().backward()

        return step, lambda: sum(float(one.grad.double().abs().sum()) for one in own.parameters())

    return 3 * len(list(model.parameters())), made


def perceptron(arguments):
    import torch

    torch.manual_seed(0)
    layers = [layer for _ in range(arguments.tensors // 2) for layer in (torch.nn.Linear(8, 8), torch.nn.Tanh())]
    return network(arguments, torch.nn.Sequential(*layers), {"input": torch.randn(4, 8)}, lambda result: result.square().sum())


def gpt(arguments):
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=8, n_embd=32, n_head=2, vocab_size=64, bos_token_id=0, eos_token_id=0, n_positions=16, use_cache=False,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    ids = torch.randint(0, 64, (2, 8))
    return network(arguments, transformers.GPT2LMHeadModel(config).train(), {"input_ids": ids, "labels": ids}, lambda result: result.loss)


PROGRAMS = {"adamw": adamw, "perceptron": perceptron, "gpt": gpt}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--tensors", type=int, default=150, help="parameters of adamw and of the perceptron")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers", default="eager,inductor", help="what is timed beside Heddle; the ratio is that to the last one")
    arguments = parser.parse_args()
    import torch

    import heddle.torch

    torch.set_num_threads(turns.cores())
    peers, rows = [one for one in arguments.peers.split(",") if one], []
    backends = {"heddle": heddle.torch.backend, **{one: None if one == "eager" else one for one in peers}}

    def finished(step):
        step()
        if arguments.device != "cpu":
            torch.cuda.synchronize()

    for name in arguments.names or PROGRAMS:
        torch._dynamo.reset()
        tensors, made = PROGRAMS[name](arguments)
        contenders, computed = {}, {}

        def measured(key, step):
            before = time.thread_time()
            finished(step)
            computed[key].append(time.thread_time() - before)

        sums = []
        for key, backend in backends.items():
            step, checksum = made(backend)
            for _ in range(4):  # the third call with the same extents may be recorded
                finished(step)
            sums.append(checksum())
            computed[key] = []
            contenders[key] = lambda key=key, step=step: measured(key, step)
        times = turns.measure(contenders, arguments.rounds, arguments.seconds)
        for key, one in times.items():
            seconds = statistics.median(computed[key])
            rows.append([f"{name}, {key}", f"{statistics.median(one) * 1e3:.3f}", f"{seconds * 1e3:.3f}", f"{seconds / tensors * 1e6:.2f}",
                         f"{turns.ratio(times, key, peers[-1]):.2f}" if peers else "", f"{sums[list(times).index(key)]:.6g}"])
            print(*rows[-1], file=sys.stderr, flush=True)
        print(f"{name}: {tensors} tensors, {sum(len(graph.modules) for graph in heddle.torch.graphs())} modules, "
              f"{sum(len(graph.fallbacks) for graph in heddle.torch.graphs())} nodes in PyTorch", file=sys.stderr)
        heddle.torch.clear()
    headings = ["", "a call, ms", "the thread computes, ms", "for a tensor, µs", f"a call / {peers[-1]}'s" if peers else "", "sum"]
    print(f"{turns.machine()}\n\n{turns.table(headings, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
