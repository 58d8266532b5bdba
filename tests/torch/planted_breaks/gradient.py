# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A gradient with an operator that Heddle does not know, in the backward pass only."""
import torch

STAGE, BACKEND, OP, HINT, TRAINS = "compile", "heddle", "heddle_planted.softcap_gradient.default", "operators of PyTorch", True


@torch.library.custom_op("heddle_planted::softcap_gradient", mutates_args=())
def softcap_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient / torch.cosh(x) ** 2


@softcap_gradient.register_fake
def _(gradient, x):
    return torch.empty_like(x)


class Softcap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return softcap_gradient(gradient, x)  # breaks here


def arguments():
    return (torch.linspace(-1, 2, 12, requires_grad=True),)


def broken(x):
    return Softcap.apply(x * 3)


def mended(x):
    return torch.tanh(x * 3)
