# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values of a tensor as a list."""
import torch

CODE, HINT = "GB0109", "keep it a tensor"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    first = y.tolist()[0]  # breaks here
    return y - first


def mended(x):
    y = torch.tanh(x)
    return y - y[0]
