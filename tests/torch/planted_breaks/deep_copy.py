# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A deep copy of a module."""
import copy

import torch

CODE, HINT = "GB4198", "before the compiled function"
CODE_OF_2_11 = "GB0179"
torch.manual_seed(0)
LAYER = torch.nn.Linear(12, 12)
COPIED = copy.deepcopy(LAYER)


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    layer = copy.deepcopy(LAYER)  # breaks here
    return layer(y)


def mended(x):
    y = torch.tanh(x)
    return COPIED(y)
