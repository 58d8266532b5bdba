# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results compared as ONNX's backend test does: shape, element type, and values within rtol and atol. Floats of less than 32 bits are compared as f32."""
import re

import numpy as np

# The outputs of these cases are random numbers of NumPy's generator, whose sequence ONNX does not specify. Shape and type are compared, and whether
# the values are possible ones.
RANDOM = re.compile(r"^(bernoulli|training_dropout(?!_zero_ratio))")


def is_number(dtype):
    return dtype.kind in "biufc" and dtype.itemsize >= (1 if dtype.kind in "biu" else 4)


def as_numbers(array):
    return array if is_number(array.dtype) else array.astype(np.float32)


def difference(got, wanted, rtol, atol):
    """(kind, text) of a difference, or None."""
    if isinstance(wanted, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(wanted):
            return "type", f"is {type(got).__name__} and not a sequence of {len(wanted)}"
        for index, (one, other) in enumerate(zip(got, wanted)):
            if found := difference(one, other, rtol, atol):
                return found[0], f"element {index} {found[1]}"
        return None
    if wanted is None or got is None:
        return None if got is wanted else ("type", "only one of result and expectation has a value")
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return "shape", f"has shape {list(got.shape)} and not {list(wanted.shape)}"
    if wanted.dtype == object or wanted.dtype.kind in "US":
        return None if np.array_equal(got.astype(str), wanted.astype(str)) else ("values", "has other strings")
    if got.dtype != wanted.dtype:
        return "type", f"is {got.dtype.name} and not {wanted.dtype.name}"
    ours, theirs = as_numbers(got), as_numbers(wanted)
    with np.errstate(all="ignore"):
        close = np.isclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    first = tuple(int(index) for index in np.argwhere(~close)[0])
    return "values", f"differs in {int((~close).sum())} of {close.size} elements, first at {list(first)}: {ours[first]} and not {theirs[first]}"


def impossible(got, wanted, inputs):
    """(kind, text) if the results of a random operator are not of its distribution's support, or have another type."""
    for index, (one, other) in enumerate(zip(got, wanted)):
        if one.shape != other.shape:
            return "shape", f"output {index} has shape {list(one.shape)} and not {list(other.shape)}"
        if one.dtype != other.dtype:
            return "type", f"output {index} is {one.dtype.name} and not {other.dtype.name}"
    values = as_numbers(got[0]).astype(np.float64)
    if np.array_equal(np.unique(wanted[0]), [0, 1]) or wanted[0].dtype == np.bool_:  # Bernoulli
        return None if np.isin(values, (0, 1)).all() else ("values", "output 0 has values that are neither 0 nor 1")
    ratio = float(inputs[1]) if len(inputs) > 1 else 0.5
    possible = np.isclose(values, 0) | np.isclose(values, inputs[0] / (1 - ratio), rtol=1e-3)
    return None if possible.all() else ("values", "output 0 has values that are neither 0 nor the scaled input")


def verdict(name, got, case):
    """(kind, text) of what is wrong with the results of a case, or None."""
    wanted = case["outputs"]
    if len(got) != len(wanted):
        return "shape", f"{len(got)} outputs and not {len(wanted)}"
    if RANDOM.match(name.rpartition("/")[2]):
        return impossible(got, wanted, case["inputs"])
    for index, (one, other) in enumerate(zip(got, wanted)):
        if found := difference(one, other, case["rtol"], case["atol"]):
            return found[0], f"output {index} {found[1]}"
    return None
