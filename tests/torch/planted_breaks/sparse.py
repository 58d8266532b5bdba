# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A sparse tensor."""
import torch

CODE, HINT = "GB0015", "dense"
MASK = torch.eye(4)
SPARSE = MASK.to_sparse()


def arguments():
    return (torch.linspace(-1, 2, 16).reshape(4, 4),)


def broken(x):
    y = torch.tanh(x)
    return torch.sparse.mm(SPARSE, y)  # breaks here


def mended(x):
    y = torch.tanh(x)
    return MASK @ y
