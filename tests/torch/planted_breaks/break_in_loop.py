# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A break in a loop: the whole function runs eagerly."""
import torch

CODE, WRAPPED_IN, HINT = "GB0170", "graph break in loop", "torch.where"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    for _ in range(8):
        if x.max() > 0.1:  # breaks here
            x = x * 0.5
    return x


def mended(x):
    for _ in range(8):
        x = torch.where(x.max() > 0.1, x * 0.5, x)
    return x
