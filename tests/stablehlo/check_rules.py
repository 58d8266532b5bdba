# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results compared by the rules of StableHLO's check dialect (stablehlo/tests/CheckOps.td), and by relative tolerances for what JAX computed."""
import numpy as np

MOST = np.iinfo(np.uint64).max


def is_float(dtype):
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def as_f64(array):
    return array.astype(np.float64) if array.dtype.itemsize >= 4 else array.astype(np.float32).astype(np.float64)


def ulps(got, wanted):
    """How many values of the type are between two floats; NaNs are equal, and infinities as far from other values as can be."""
    bits = np.dtype(f"u{got.dtype.itemsize}")
    ours, theirs = got.view(bits).astype(np.uint64), wanted.view(bits).astype(np.uint64)
    sign = np.uint64(1) << np.uint64(bits.itemsize * 8 - 1)
    a, b = ours & ~sign, theirs & ~sign
    same_sign = (ours & sign) == (theirs & sign)
    distance = np.where(same_sign, np.where(a > b, a - b, b - a), a + b)
    finite = np.isfinite(as_f64(got)) & np.isfinite(as_f64(wanted))
    alike = (ours == theirs) | (np.isnan(as_f64(got)) & np.isnan(as_f64(wanted)))
    return np.where(alike, 0, np.where(finite, distance, MOST))


def is_right(got, wanted, check):
    """Of each element, whether it passes the check."""
    kind = check["kind"]
    if kind == "ulps":
        found = ulps(got, wanted)
        return (found <= np.uint64(check["most"])) & (found >= np.uint64(check["least"]))
    if not is_float(got.dtype):
        return got == wanted
    ours, theirs = as_f64(got), as_f64(wanted)
    both_nan = np.isnan(ours) & np.isnan(theirs)
    with np.errstate(all="ignore"):
        if kind == "equal":
            return (ours == theirs) | both_nan
        if kind == "near":
            return (ours == theirs) | both_nan | (np.isfinite(ours) & np.isfinite(theirs) & (np.abs(ours - theirs) <= check["tolerance"]))
        return np.isclose(ours, theirs, rtol=check["rtol"], atol=check["atol"], equal_nan=True)


def difference(got, wanted, check):
    """(kind, text) of what is wrong, or None."""
    if got.shape != wanted.shape:
        return "shape", f"has shape {list(got.shape)} and not {list(wanted.shape)}"
    if got.dtype != wanted.dtype:
        return "type", f"is {got.dtype.name} and not {wanted.dtype.name}"
    right = is_right(got, wanted, check)
    if right.all():
        return None
    first = tuple(int(index) for index in np.argwhere(~right)[0])
    text = f"differs in {int((~right).sum())} of {right.size} elements, first at {list(first)}: {got[first]} and not {wanted[first]}"
    if check["kind"] == "ulps":
        found = ulps(got, wanted)
        worst = int(found.max())
        text += f", at most {'infinitely many' if worst == MOST else worst} ulps apart where {check['most']} are allowed"
    return "values", text


def verdict(results, case):
    """(kind, text) of the first result that is not right, or None."""
    if len(results) != len(case["expected"]):
        return "shape", f"{len(results)} results and not {len(case['expected'])}"
    for index, (got, wanted, check) in enumerate(zip(results, case["expected"], case["checks"])):
        if check["kind"] == "any":
            continue
        if "other" in check:  # another result
            wanted = np.asarray(results[check["other"]])
        if found := difference(np.asarray(got), wanted, check):
            return found[0], f"result {index} {found[1]}"
    return None
