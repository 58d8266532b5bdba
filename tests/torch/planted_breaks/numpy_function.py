# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function of NumPy for which PyTorch has none."""
import numpy
import torch

CODE, HINT = "GB0294", "operators of PyTorch"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x).numpy()
    weights = numpy.interp(y, [-1.0, 1.0], [0.0, 1.0])  # breaks here
    return torch.from_numpy(weights).float() * 2


def mended(x):
    y = torch.tanh(x)
    weights = (y.clamp(-1, 1) + 1) / 2
    return weights.float() * 2
