# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that ONNX's own evaluator has otherwise than ONNX says, or not for all that random graphs have."""
import itertools
import math

import numpy as np
import onnx.reference.ops.op_loop
from onnx.reference.op_run import OpRun


class Loop(onnx.reference.ops.op_loop.Loop):
    """ONNX's own has no step where no condition is given, and joins slices along the dimension that they have."""

    op_domain = ""

    def _run(self, most, condition, *states, context=None, body=None, attributes=None):
        stacked, goes_on, step = [[] for _ in range(self.K)], condition is None or bool(condition), 0
        while goes_on and (most is None or step < most):
            given = zip(self.body.input_names, [np.array(step, np.int64), np.array(True), *states])
            goes_on, *results = self._run_body({**(context or {}), **dict(given)}, attributes=attributes)
            states, step = results[:self.N], step + 1
            for slices, one in zip(stacked, results[self.N:], strict=True):
                slices.append(one)
        return (*states, *(np.stack(slices) for slices in stacked))


class Scan(OpRun):
    """ONNX's own has one direction."""

    op_domain = ""

    def need_context(self):
        return True

    def _run(self, *values, context=None, body=None, num_scan_inputs=None, scan_input_axes=None, scan_input_directions=None, scan_output_axes=None,
             scan_output_directions=None, attributes=None):
        states, sliced = values[:-num_scan_inputs], values[-num_scan_inputs:]
        sliced = [array[::-1] if reversed_ else array for array, reversed_ in zip(sliced, scan_input_directions or [0] * len(sliced), strict=True)]
        stacked = [[] for _ in self.body.output_names[len(states):]]
        for slices_in in zip(*sliced, strict=True):
            results = self._run_body({**(context or {}), **dict(zip(self.body.input_names, [*states, *slices_in], strict=True))}, attributes=attributes)
            states = results[:len(states)]
            for slices, one in zip(stacked, results[len(states):], strict=True):
                slices.append(one)
        directions = scan_output_directions or [0] * len(stacked)
        return (*states, *(np.stack(slices[::-1] if reversed_ else slices) for slices, reversed_ in zip(stacked, directions, strict=True)))


class Erf(OpRun):
    """ONNX's own rounds to f32."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)


class Gelu(OpRun):
    """ONNX's own has f32 inside."""

    op_domain = ""

    def _run(self, x, approximate=None):
        inner = np.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x ** 3)) if approximate == "tanh" else np.vectorize(math.erf, otypes=[np.float64])(x / 2 ** 0.5)
        return ((x * (1 + inner) / 2).astype(x.dtype),)


class GroupNormalization(OpRun):
    """ONNX's own has f32 inside."""

    op_domain = ""

    def _run(self, x, scale, bias, epsilon=None, num_groups=None, stash_type=None):
        groups = x.reshape(x.shape[0], num_groups, -1)
        groups = (groups - groups.mean(axis=2, keepdims=True)) / np.sqrt(groups.var(axis=2, keepdims=True) + float(epsilon))
        each = (-1, *[1] * (x.ndim - 2))
        return (groups.reshape(x.shape) * scale.reshape(each) + bias.reshape(each),)


class LRN(OpRun):
    """ONNX's own goes through as many channels as there are images."""

    op_domain = ""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        sums = np.zeros_like(x)
        for channel in range(x.shape[1]):
            first, last = max(0, channel - (size - 1) // 2), channel + size // 2
            sums[:, channel] = (x[:, first:last + 1] ** 2).sum(axis=1)
        return (x / (bias + float(alpha) / size * sums) ** float(beta),)


class GlobalMaxPool(OpRun):
    """ONNX's own drops a dimension."""

    op_domain = ""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class ConvTranspose(OpRun):
    """ONNX's own mixes groups up, and takes images to be of two dimensions now and then."""

    op_domain = ""

    def _run(self, x, filters, bias=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None, output_shape=None, pads=None, strides=None):
        spatial = x.ndim - 2
        kernel, strides, pads = filters.shape[2:], strides or [1] * spatial, pads or [0] * 2 * spatial
        per_group = filters.shape[1]
        whole = np.zeros((x.shape[0], per_group * group, *[(extent - 1) * s + k for extent, s, k in zip(x.shape[2:], strides, kernel)]), x.dtype)
        for g, part in enumerate(np.split(x, group, axis=1)):
            own = filters[g * part.shape[1]:(g + 1) * part.shape[1]]
            for tap in np.ndindex(*kernel):
                places = tuple(slice(t, t + (extent - 1) * s + 1, s) for t, extent, s in zip(tap, x.shape[2:], strides))
                whole[(slice(None), slice(g * per_group, (g + 1) * per_group), *places)] += np.einsum("nc...,cf->nf...", part, own[(..., *tap)])
        cut = tuple(slice(low, extent - high) for low, high, extent in zip(pads, pads[spatial:], whole.shape[2:]))
        result = whole[(..., *cut)]
        return (result if bias is None else result + bias.reshape(-1, *[1] * spatial),)


def windows(x, kernel, strides, dilations, pads, outside):
    """The elements of each window, along a new first dimension."""
    spatial = x.ndim - 2
    strides, dilations, pads = strides or [1] * spatial, dilations or [1] * spatial, pads or [0] * 2 * spatial
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads, pads[spatial:])], constant_values=outside)
    counts = [(extent - (k - 1) * d - 1) // s + 1 for extent, k, s, d in zip(padded.shape[2:], kernel, strides, dilations)]
    places = (tuple(slice(t * d, t * d + (count - 1) * s + 1, s) for t, d, count, s in zip(tap, dilations, counts, strides)) for tap in itertools.product(*map(range, kernel)))
    return np.stack([padded[(..., *place)] for place in places])


class MaxPool(OpRun):
    """ONNX's own has no vectors of strides, and no i8."""

    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None, strides=None):
        least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        return (windows(x, kernel_shape, strides, dilations, pads, least).max(axis=0),)


class AveragePool(OpRun):
    """As MaxPool."""

    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, count_include_pad=None, dilations=None, kernel_shape=None, pads=None, strides=None):
        count = windows(np.ones_like(x), kernel_shape, strides, dilations, pads, count_include_pad).sum(axis=0)
        return (windows(x, kernel_shape, strides, dilations, pads, 0).sum(axis=0) / count,)


class GatherElements(OpRun):
    """ONNX's own has some indices only."""

    op_domain = ""

    def _run(self, x, indices, axis=None):
        part = x[tuple(slice(None) if d == axis % x.ndim else slice(extent) for d, extent in enumerate(indices.shape))]
        return (np.take_along_axis(part, indices % x.shape[axis], axis),)


def combination(reduction):
    """Of what a scatter has and what comes to the same place."""
    return {"none": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction or "none"]


class ScatterElements(OpRun):
    """ONNX's own takes few ranks."""

    op_domain = ""

    def _run(self, x, indices, updates, axis=None, reduction=None):
        combined = combination(reduction)
        result = x.copy()
        for element in np.ndindex(*indices.shape):
            place = list(element)
            place[axis or 0] = indices[element]
            result[tuple(place)] = combined(result[tuple(place)], updates[element])
        return (result,)


class ScatterND(OpRun):
    """ONNX's own has other places for the largest and the least."""

    op_domain = ""

    def _run(self, x, indices, updates, reduction=None):
        combined = combination(reduction)
        result = x.copy()
        for row in np.ndindex(*indices.shape[:-1]):
            place = tuple(indices[row])
            result[place] = combined(result[place], updates[row])
        return (result,)


class Mean(OpRun):
    """ONNX's own does not broadcast its first operand."""

    op_domain = ""

    def _run(self, *operands):
        return (np.asarray(sum(operands) / len(operands)),)


class Softsign(OpRun):
    """ONNX's own has no scalars."""

    op_domain = ""

    def _run(self, x):
        return (np.asarray(x / (1 + np.abs(x))),)


class Disturb(OpRun):
    """Its operand with an error of up to `by` of each element; no operator of ONNX."""

    op_domain = "heddle.random_graphs"
    random = None

    def _run(self, x, by=None):
        return (np.asarray(x * (1 + Disturb.random.uniform(-by, by, x.shape))),)


EVALUATORS = [Loop, Scan, Erf, Gelu, GroupNormalization, LRN, GlobalMaxPool, ConvTranspose, MaxPool, AveragePool, GatherElements, ScatterElements, ScatterND, Mean,
              Softsign]
