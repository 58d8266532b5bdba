# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A generator that is compiled itself."""
import torch

CODE, HINT = "GB0003", "returns a list"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):  # breaks here
    for power in range(3):
        yield x ** power


def mended(x):
    return [x ** power for power in range(3)]
