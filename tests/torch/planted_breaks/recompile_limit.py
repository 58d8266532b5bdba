# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function that is compiled again for each value of an attribute, until PyTorch gives up."""
import torch

CODE, HINT, CALLS = "GB0039", "tensor", 12


class Step:
    number = 0
    name = ""


def arguments():
    return (torch.linspace(-1, 2, 12),)


STEP = Step()


def broken(x):  # breaks here
    return torch.tanh(x) * len(STEP.name)


def mended(x):
    return torch.tanh(x) * 2


def before_call(number):
    STEP.name = "x" * number
