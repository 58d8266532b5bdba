# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A type for which the second compiler generates no code."""
import torch

STAGE, BACKEND, OP, HINT = "compile", "inductor", "aten.mul.Tensor", "real and imaginary"


def arguments():
    return tuple(torch.linspace(-1, 2, 12) * i for i in range(1, 5))


def broken(a, b, c, d):
    x, y = torch.complex(a, b), torch.complex(c, d)
    z = x * y  # breaks here
    return z.real + 1, z.imag


def mended(a, b, c, d):
    return a * c - b * d + 1, a * d + b * c
