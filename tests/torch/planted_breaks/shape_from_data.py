# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A shape that depends on data, which the host has to read."""
import torch

CODE, HINT = "GB0036", "torch.where"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    positive = y[y > 0]  # breaks here
    return positive.sum() / positive.shape[0]


def mended(x):
    y = torch.tanh(x)
    positive = torch.where(y > 0, y, 0)
    return positive.sum() / (y > 0).sum()
