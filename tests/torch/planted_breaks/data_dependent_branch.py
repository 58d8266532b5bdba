# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A branch that depends on a tensor's value."""
import torch

CODE, HINT = "GB0170", "torch.where"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = x * 2
    if y.sum() > 0:  # breaks here
        return y + 1
    return y - 1


def mended(x):
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y - 1)
