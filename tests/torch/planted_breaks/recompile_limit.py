# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function that is compiled again for each value of an attribute, until PyTorch gives up."""
import torch

CODE, HINT, CALLS = "GB0039", "as tensors", 12


class Step:
    name = ""
    length = torch.tensor(0)


def arguments():
    return (torch.linspace(-1, 2, 12),)


STEP = Step()


def broken(x):  # breaks here
    return torch.tanh(x) * len(STEP.name)


def mended(x):
    return torch.tanh(x) * STEP.length


def before_call(number):
    STEP.name, STEP.length = "x" * number, torch.tensor(number)
