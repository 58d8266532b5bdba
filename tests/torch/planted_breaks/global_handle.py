# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A side effect on a global: the handle of a hook."""
import torch

CODE, HINT = "GB0100", "before the compiled function"
HANDLES = {}
HANDLE = None


def arguments():
    return (torch.linspace(-1, 2, 12, requires_grad=True),)


def broken(x):
    global HANDLE
    HANDLE = x.register_hook(torch.neg)  # breaks here
    return torch.tanh(x) + 1


def mended(x):
    return torch.tanh(x) + 1
