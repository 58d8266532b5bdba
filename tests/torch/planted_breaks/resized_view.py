# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A view whose size is changed in place."""
import torch

CODE, HINT = "GB0126", "slice"


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    view = y.view(3, 4)
    view.resize_(2, 4)  # breaks here
    return view * 2


def mended(x):
    y = torch.tanh(x)
    view = y.view(3, 4)[:2]
    return view * 2
