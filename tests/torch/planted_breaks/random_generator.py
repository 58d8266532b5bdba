# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A generator of random numbers."""
import torch

CODE, HINT = "GB0055", "outside"
GENERATOR = torch.Generator()
NOISE = torch.rand(12, generator=GENERATOR.manual_seed(3))


def arguments():
    GENERATOR.manual_seed(3)
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    return y + torch.rand(12, generator=GENERATOR)  # breaks here


def mended(x):
    y = torch.tanh(x)
    return y + NOISE
