# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A class that is defined in the function."""
import torch

CODE, HINT = "GB8977", "outside"
CODE_OF_2_11 = "GB0007"


class Outside:
    factor = 2


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)

    class Inside:  # breaks here
        factor = 2

    return y * Inside.factor


def mended(x):
    y = torch.tanh(x)
    return y * Outside.factor
