# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A line of a log."""
import logging

import torch

CODE, HINT = "GB0291", "after the compiled function"
LOG = logging.getLogger("planted")


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    LOG.info("computed")  # breaks here
    return y * 2


def mended(x):
    y = torch.tanh(x)
    return y * 2
