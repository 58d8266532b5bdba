# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A backward pass in the compiled function."""
import torch

CODE, HINT = "GB0123", "after the compiled function"


def arguments():
    return (torch.linspace(-1, 2, 12, requires_grad=True),)


def broken(x):
    loss = torch.tanh(x).sum()
    loss.backward()  # breaks here
    return loss.detach() * 2


def mended(x):
    loss = torch.tanh(x).sum()
    return loss * 2
