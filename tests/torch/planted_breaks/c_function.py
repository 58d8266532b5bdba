# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function of an extension in C, which Dynamo does not know."""
import binascii

import torch

CODE, HINT = "GB0007", "before the compiled function"
CHECKSUM = binascii.crc32(b"weights") % 7


def arguments():
    return (torch.linspace(-1, 2, 12),)


def broken(x):
    y = torch.tanh(x)
    return y + binascii.crc32(b"weights") % 7  # breaks here


def mended(x):
    y = torch.tanh(x)
    return y + CHECKSUM
