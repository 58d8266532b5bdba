# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks that Dynamo cannot trace whole, for architectures.py: each has a break that users write, in the middle of layers that have gradients."""
import torch
from network import Network
from torch import nn
from torch.nn import functional as f


def block(width):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class EarlyExit(nn.Module):
    """Ends at the first layer that is sure enough: a branch that depends on data."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(block(width) for _ in range(4))
        self.head = nn.Linear(width, 5)

    def stage(self, x, i):
        x = x + self.layers[i](x)
        return x, f.softmax(self.head(x), -1).amax(-1).mean()

    def forward(self, x):
        for i in range(len(self.layers)):
            x, sure = self.stage(x, i)
            if sure > 0.3 + 0.1 * i:
                break
        return self.head(x)


class Rescaled(nn.Module):
    """Divides by a norm that it reads with item(), and prints it."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = block(width), block(width)

    def forward(self, x):
        x = x + self.first(x)
        norm = x.detach().norm().item()
        print(f"norm {norm:.2f}")
        return self.second(x / norm)


class Routed(nn.Module):
    """A mixture of experts, each of which gets the tokens that chose it: extents that depend on data."""

    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, 4)
        self.experts = nn.ModuleList(block(width) for _ in range(4))

    def route(self, tokens):
        return f.softmax(self.gate(tokens), -1).topk(2, -1)

    def by_expert(self, i, result, tokens, weights, chosen):
        token, rank = torch.where(chosen == i)
        return result.index_add(0, token, self.experts[i](tokens[token]) * weights[token, rank, None])

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.route(tokens)
        result = torch.zeros_like(tokens)
        for i in range(len(self.experts)):
            result = self.by_expert(i, result, tokens, weights, chosen)
        return result.reshape(x.shape)


class Generated(nn.Module):
    """Chooses the next token by the last one until it chooses the end, as a loop of generation does."""

    def __init__(self, width):
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(50, width), nn.GRUCell(width, width), nn.Linear(width, 50)

    def step(self, token, state):
        state = self.cell(self.embedding(token), state)
        return state, self.head(state)

    def forward(self, x):
        state, token, scores = x.mean(1), torch.ones(x.shape[0], dtype=torch.int64, device=x.device), []
        while len(scores) < 8:
            state, score = self.step(token, state)
            scores.append(score)
            token = scores[-1].argmax(-1)
            if int(token.max()) == 0:
                break
        return torch.stack(scores, 1)


class Straight(torch.autograd.Function):
    """Rounds, and passes the gradient through."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(4 * x) / 4

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Quantized(nn.Module):
    """An autograd function of the user's, and a hook that halves a gradient."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = block(width), block(width)

    def forward(self, x):
        x = x + self.first(x)
        if x.requires_grad:
            x.register_hook(lambda gradient: gradient / 2)
        torch._dynamo.graph_break()
        return self.second(x + 0.01 * Straight.apply(x))


class Counted(nn.Module):
    """Calls Python that Dynamo does not trace, with values of the network."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = block(width), block(width)
        self.seen = []

    @torch._dynamo.disable
    def note(self, x):
        self.seen.append(float(x.detach().mean()))
        return x * 2

    def forward(self, x):
        return self.second(self.note(x + self.first(x))) + sum(y.mean() for y in x.unbind(1))


def networks():
    def made(kind):
        def network(full):
            width = 512 if full else 32

            def inputs_of(sizes, generator):
                return [torch.randn(sizes["batch"], sizes["length"], width, generator=generator)]

            symbols = {"x": {0: "batch", 1: "length"}}
            calls = [{"batch": 2, "length": 96}, {"batch": 1, "length": 128}] if full else [{"batch": 3, "length": 7}, {"batch": 2, "length": 5}]
            return Network(kind(width), ["x"], ["y"], symbols, calls, inputs_of)

        return network

    return {"early_exit": made(EarlyExit), "rescaled": made(Rescaled), "routed": made(Routed), "generated": made(Generated), "quantized": made(Quantized),
            "counted": made(Counted)}
