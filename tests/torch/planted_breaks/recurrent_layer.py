# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer of torch.nn that Dynamo does not trace."""
import torch

CODE, HINT = "GB0014", "allow_rnn"
CODE_SINCE_2_15 = "GB0148"
torch.manual_seed(0)
LAYER = torch.nn.GRU(3, 4)


def arguments():
    return (torch.linspace(-1, 2, 12).reshape(2, 2, 3),)


def broken(x):
    y = torch.tanh(x)
    z, _ = LAYER(y)  # breaks here
    return z * 2


def mended(x):
    y = torch.tanh(x)
    z, _ = LAYER(y)
    return z * 2


CONFIG = {"allow_rnn": True}
