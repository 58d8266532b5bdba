# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Printing a tensor."""
import torch

CODE, HINT = "GB0059", "after the compiled function returned"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    print("sum", y.sum())  # breaks here
    return y + 1, y.sum()


def mended(x):
    y = torch.tanh(x)
    return y + 1, y.sum()
