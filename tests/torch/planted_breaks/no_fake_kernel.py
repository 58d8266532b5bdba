# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator that does not say which shape its result has."""
import torch

CODE, HINT = "GB4315", "register_fake"


@torch.library.custom_op("heddle_planted::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@torch.library.custom_op("heddle_planted::halved_with_shape", mutates_args=())
def halved_with_shape(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halved_with_shape.register_fake
def _(x):
    return torch.empty_like(x)


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    y = halved(y)  # breaks here
    return y * 2


def mended(x):
    y = torch.tanh(x)
    y = halved_with_shape(y)
    return y * 2
