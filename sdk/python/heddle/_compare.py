# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares arrays, and says where and by how much they differ."""
from __future__ import annotations

import dataclasses
from typing import Any

# Relative to the element and, a tenth of it, to the largest one. Integers and booleans have to be equal.
RTOL = {"float64": 1e-6, "float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
_RTOL_NARROW = 0.25  # floats of 8 bits


@dataclasses.dataclass
class Tolerance:
    """Values are equal if |got - expected| <= atol + rtol * |expected|. None: as the type needs it; atol: rtol / 10 of the largest finite expected value."""

    rtol: float | None = None
    atol: float | None = None


@dataclasses.dataclass
class Difference:
    """How two arrays differ.

    departs        whether some elements differ by more than the tolerance, or type or shape
    what           what differs, if it is not the elements
    count          of such elements
    index          of the greatest difference, among elements that depart if there are some
    got, expected  there
    absolute, relative, ulp    the greatest differences; ulp (of the type) is None for integers. NaN: no number is that difference
    """

    departs: bool
    elements: int = 0
    what: str = ""
    count: int = 0
    index: tuple[int, ...] = ()
    got: Any = None
    expected: Any = None
    absolute: float = 0.0
    relative: float = 0.0
    ulp: float | None = None


def _ordered(values: Any) -> Any:
    """Floats as integers, one apart if no float is between them."""
    import numpy as np

    bits = values.dtype.itemsize * 8
    whole = values.view(f"i{values.dtype.itemsize}").astype(object if bits == 64 else np.int64)
    least = -(1 << (bits - 1))
    return np.where(whole < 0, least - whole, whole)


def compare(got: Any, expected: Any, tolerance: Tolerance) -> Difference:
    """Two arrays. NaN equals NaN, and an infinity the same infinity."""
    import numpy as np

    got, expected = np.asarray(got), np.asarray(expected)
    if got.dtype != expected.dtype:
        return Difference(True, what=f"the type is {got.dtype.name} instead of {expected.dtype.name}")
    if got.shape != expected.shape and got.ndim == 1 and got.size == expected.size:
        got = got.reshape(expected.shape)  # of a type that is read as bytes
    if got.shape != expected.shape:
        return Difference(True, what=f"the shape is {list(got.shape)} instead of {list(expected.shape)}")
    if got.size == 0:
        return Difference(False)
    if got.dtype.kind in "OUS":
        unequal = got != expected
        where = tuple(int(i) for i in np.argwhere(unequal)[0]) if unequal.any() else ()
        return Difference(bool(unequal.any()), got.size, "", int(unequal.sum()), where, got[where] if where else None, expected[where] if where else None)
    is_float = got.dtype.name.startswith(("float", "bfloat", "complex"))
    if got.dtype.kind in "biu":
        left, right = got.astype(object) if got.dtype.itemsize == 8 else got.astype(np.int64), expected.astype(np.int64)
        away = np.abs(left.astype(np.float64) - right.astype(np.float64))
        if got.dtype.itemsize == 8:
            away = np.where((got != expected) & (away == 0), 1.0, away)
        relative = tolerance.rtol or 0.0
        limit = (tolerance.atol or 0.0) + relative * np.abs(right.astype(np.float64))
    else:
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        left, right = got.astype(wide), expected.astype(wide)
        with np.errstate(all="ignore"):
            away = np.abs(left - right)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        away = np.where(same, 0.0, away)
        size = np.abs(right)
        largest = float(size[np.isfinite(size)].max(initial=0.0))
        relative = tolerance.rtol if tolerance.rtol is not None else RTOL.get(got.dtype.name, _RTOL_NARROW if is_float else 0.0)
        limit = (tolerance.atol if tolerance.atol is not None else 0.1 * relative * largest) + relative * np.where(np.isfinite(size), size, 0.0)
    departing = ~(away <= limit)  # also where the difference is NaN
    with np.errstate(all="ignore"):
        shares = np.where(away > 0, away / np.abs(right).astype(np.float64), 0.0)
    ulp = None
    if is_float and got.dtype.kind != "c":
        steps = np.abs(_ordered(got) - _ordered(expected))
        finite = np.isfinite(left) & np.isfinite(right)
        ulp = float(max(steps[finite].max(initial=0), 0)) if finite.any() else 0.0
    if not (away != 0).any():
        return Difference(False, got.size, ulp=ulp)
    order = np.where(np.isnan(away), np.inf, away)
    if departing.any():
        order = np.where(departing, order, -1.0)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(order)), order.shape))
    plain = [np.where(np.isnan(one), -np.inf, one).max() for one in (away, shares)]
    return Difference(bool(departing.any()), got.size, "", int(departing.sum()), where, got[where], expected[where],
                      float(np.nan if np.isneginf(plain[0]) else plain[0]), float(np.nan if np.isneginf(plain[1]) else plain[1]), ulp)


def text_of(found: Difference) -> str:
    """One line about a difference."""
    if found.what:
        return found.what
    if not found.count and not found.index:
        return f"{found.elements} elements, all equal"
    place = f"[{','.join(map(str, found.index))}]" if found.index else "the only element"
    amount = "" if found.absolute != found.absolute else f"; largest differences: absolute {found.absolute:.3g}, relative {found.relative:.3g}"
    if found.ulp is not None and amount:
        amount += f", {found.ulp:.0f} ULP" if found.ulp < 1e6 else f", {found.ulp:.1e} ULP"
    head = f"{found.count} of {found.elements} elements depart" if found.departs else f"none of {found.elements} elements departs"
    return f"{head}; at {place}, it is {found.got!s} instead of {found.expected!s}{amount}"
