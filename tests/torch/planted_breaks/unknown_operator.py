# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator of the program's own, which the second compiler does not know."""
import torch

STAGE, BACKEND, OP, HINT = "compile", "inductor", "heddle_planted.softcap.default", "operators of PyTorch"


@torch.library.custom_op("heddle_planted::softcap", mutates_args=())
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    return cap * torch.tanh(x / cap)


@softcap.register_fake
def _(x, cap):
    return torch.empty_like(x)


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = x * 3
    y = softcap(y, 2.0)  # breaks here
    return y + 1


def mended(x):
    y = x * 3
    y = 2.0 * torch.tanh(y / 2.0)
    return y + 1
