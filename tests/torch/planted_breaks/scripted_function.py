# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function of TorchScript."""
import torch

CODE, HINT = "GB4695", "torch.jit"
CODE_OF_2_11 = "GB0357"


def doubled(y):
    return y * 2


SCRIPTED = torch.jit.freeze(torch.jit.script(torch.nn.Tanh().eval()))


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = x + 1
    y = SCRIPTED(y)  # breaks here
    return y * 2


def mended(x):
    y = x + 1
    y = torch.tanh(y)
    return y * 2
