# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seeded random weights, of numpy alone, so that a machine without the onnx package can make those of a network.

A distribution is ("normal", mean, deviation) or ("uniform", low, high).
"""
import zlib

import numpy as np


def generator(seed, *names):
    return np.random.default_rng(seed_of(seed, *names))


def seed_of(seed, *names):
    return [seed, *(zlib.crc32(name.encode()) for name in names)]


def draw(distribution, shape, random):
    """An f32 array."""
    kind, first, second = distribution
    values = random.standard_normal(shape, dtype=np.float32)  # also where it is not used: the weights of networks are what they have been
    if kind == "uniform":
        return random.uniform(first, second, shape).astype(np.float32)
    values *= np.float32(second)
    if first:
        values += np.float32(first)
    return values


def write(recipe, path):
    """Writes a file of weights one after the other: [seed, distribution, shape] of each."""
    with open(path, "wb") as file:
        for seed, distribution, shape in recipe:
            file.write(draw(distribution, shape, np.random.default_rng(seed)).astype("<f4").tobytes())
