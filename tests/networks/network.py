# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What export.py exports: a module of PyTorch, the names of its inputs and outputs, their symbolic dimensions, and calls of several sizes."""
import collections.abc
import dataclasses

import torch


@dataclasses.dataclass
class Network:
    """`symbols` has the names of the symbolic dimensions of each input, by axis. `calls` are sizes of all symbols; the first is the one that is exported,
    so that its sizes are neither 1 nor equal. `inputs_of(sizes, generator)` makes the inputs of one call. Where only multiples of a number are possible, `multiples` has it."""
    model: torch.nn.Module
    inputs: list[str]
    outputs: list[str]
    symbols: dict[str, dict[int, str]]
    calls: list[dict[str, int]]
    inputs_of: collections.abc.Callable
    multiples: dict[str, int] = dataclasses.field(default_factory=dict)
    rtol: float = 1e-3
    exporters: tuple[str, ...] = ("dynamo", "old")
    translations: dict | None = None  # of operators of this network, for dynamo


class Positional(torch.nn.Module):
    """A model of transformers with its inputs in order, and a tuple of the outputs that are named."""

    def __init__(self, model, inputs, outputs, **fixed):
        super().__init__()
        self.model, self.inputs, self.outputs, self.fixed = model, inputs, outputs, fixed

    def forward(self, *arguments):
        result = self.model(**dict(zip(self.inputs, arguments, strict=True)), **self.fixed)
        return tuple(getattr(result, name) for name in self.outputs)


def tokens(vocabulary, batch, length, generator):
    return torch.randint(2, vocabulary, (batch, length), generator=generator)


def mask_of(batch, length):
    """1 for each token that counts; each row is padded at the end by another number of tokens."""
    mask = torch.ones((batch, length), dtype=torch.int64)
    for row in range(batch):
        mask[row, length - length * (row + 1) // (4 * batch):] = 0
    return mask


def randomize(model):
    """Biases, scales and statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn(buffer.shape, generator=generator))
            elif name.endswith("running_var"):
                buffer.mul_(0.5 + torch.rand(buffer.shape, generator=generator))
