# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator that Heddle leaves to PyTorch, of a matrix that does not change."""
import torch

STAGE, BACKEND, OP, HINT = "compile", "heddle", "aten.linalg_inv_ex.default", "before the compiled function"
MATRIX = torch.eye(4) * 2 + 1
INVERSE = torch.linalg.inv(MATRIX)


def arguments():
    return (torch.linspace(-1, 2, 12).reshape(3, 4),)


def broken(x):
    y = x * 3
    inverse = torch.linalg.inv(MATRIX)  # breaks here
    return y @ inverse + 1


def mended(x):
    y = x * 3
    return y @ INVERSE + 1
