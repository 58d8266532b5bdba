# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function that is marked not to be compiled."""
import torch

CODE, HINT = "GB0098", "torch.compiler.disable"


def arguments():
    return (torch.linspace(-1, 2, 12),)


@torch.compiler.disable
def shifted(y):
    return y + 1


def shifted_and_compiled(y):
    return y + 1


def broken(x):
    y = torch.tanh(x)
    y = shifted(y)  # breaks here
    return y * 2


def mended(x):
    y = torch.tanh(x)
    y = shifted_and_compiled(y)
    return y * 2
