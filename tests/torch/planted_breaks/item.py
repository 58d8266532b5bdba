# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tensor's value as a number of Python."""
import torch

CODE, HINT = "GB0124", "keep it a tensor"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    scale = y.abs().max().item()  # breaks here
    return y / scale


def mended(x):
    y = torch.tanh(x)
    scale = y.abs().max()
    return y / scale
