# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""grid_sample of volumes, and its gradients, as operators that the compiler has: sums over the elements that a place is between."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

aten = torch.ops.aten
_LINEAR, _NEAREST = 0, 1  # and cubic
_ZEROS, _BORDER = 0, 1  # and reflection
_CUBIC = -0.75


class _Tap(NamedTuple):
    """One of the elements along a dimension that a place is between, with its weight and the slope of that."""
    place: torch.Tensor
    weight: torch.Tensor | None
    slope: torch.Tensor | None


def _clipped(place: torch.Tensor, extent: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Also the slope."""
    return place.clamp(0, extent - 1), ((place > 0) & (place < extent - 1)).to(place.dtype)


def _reflected(place: torch.Tensor, extent: Any, align_corners: bool) -> tuple[torch.Tensor, torch.Tensor]:
    if align_corners and extent == 1:
        return torch.zeros_like(place), torch.zeros_like(place)
    low, span = (0.0, extent - 1) if align_corners else (-0.5, extent)
    place = place - low
    slope = torch.where(place < 0, -1.0, 1.0).to(place.dtype)
    place = place.abs()
    flips = (place / span).floor()
    rest, is_even = place - flips * span, flips % 2 == 0
    return torch.where(is_even, rest, span - rest) + low, torch.where(is_even, slope, -slope)


def _padded(place: torch.Tensor, extent: Any, padding: int, align_corners: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The place within the dimension, and the slope, if it is not 1."""
    if padding == _ZEROS:
        return place, None
    if padding == _BORDER:
        return _clipped(place, extent)
    place, slope = _reflected(place, extent, align_corners)
    place, inner = _clipped(place, extent)
    return place, slope * inner


def _cubic_weights(t: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of the four elements around a place that is t behind the second of them, with slopes."""
    a = _CUBIC
    found = []
    for far, d, sign in ((True, t + 1, 1), (False, t, 1), (False, 1 - t, -1), (True, 2 - t, -1)):
        if far:
            found.append((((a * d - 5 * a) * d + 8 * a) * d - 4 * a, sign * ((3 * a * d - 10 * a) * d + 8 * a)))
        else:
            found.append((((a + 2) * d - (a + 3)) * d * d + 1, sign * (3 * (a + 2) * d - 2 * (a + 3)) * d))
    return found


def _taps(c: torch.Tensor, extent: Any, mode: int, padding: int, align_corners: bool) -> list[_Tap]:
    """Along a dimension, of places that are -1 at its begin and 1 at its end."""
    place = (c + 1) * (extent - 1) * 0.5 if align_corners else ((c + 1) * extent - 1) * 0.5
    scale = (torch.ones_like(place) * (extent - 1 if align_corners else extent)) * 0.5
    if mode in (_LINEAR, _NEAREST):
        place, slope = _padded(place, extent, padding, align_corners)
        if mode == _NEAREST:
            return [_Tap(place.round(), None, None)]
        slope = scale if slope is None else slope * scale
        first = place.floor()
        return [_Tap(first, first + 1 - place, -slope), _Tap(first + 1, place - first, slope)]
    first = place.floor()
    return [_Tap(_padded(first - 1 + i, extent, padding, align_corners)[0], weight, slope * scale)
            for i, (weight, slope) in enumerate(_cubic_weights(place - first))]


def _product(values: Sequence[torch.Tensor | None], other: torch.Tensor) -> torch.Tensor:
    for one in values:
        other = other if one is None else other * one
    return other


class _Corner(NamedTuple):
    index: torch.Tensor  # [n, 1, places], of an element
    is_inside: torch.Tensor  # [n, 1, places]
    taps: tuple[_Tap, ...]  # the last dimension first, [n, 1, places]


def _corners(extents: Sequence[Any], grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> list[_Corner]:
    flat = grid.reshape(grid.shape[0], 1, -1, len(extents))
    found = []
    along = [_taps(flat[..., d], extents[-1 - d], mode, padding, align_corners) for d in range(len(extents))]
    for taps in itertools.product(*along):
        inside, index = torch.ones_like(flat[..., 0], dtype=torch.bool), torch.zeros_like(flat[..., 0], dtype=torch.int64)
        for tap, extent in reversed(list(zip(taps, reversed(extents)))):
            inside = inside & (tap.place >= 0) & (tap.place < extent)
            index = index * extent + torch.where((tap.place >= 0) & (tap.place < extent), tap.place, 0).to(torch.int64)
        found.append(_Corner(torch.where(inside, index, 0), inside, taps))
    return found


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def sampled(x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool) -> torch.Tensor:
    extents, flat = x.shape[2:], _wide(x).flatten(2)
    made = None
    for corner in _corners(extents, _wide(grid), mode, padding, align_corners):
        value = torch.where(corner.is_inside, flat.gather(2, corner.index.expand(-1, x.shape[1], -1)), 0)
        value = _product([tap.weight for tap in corner.taps], value)
        made = value if made is None else made + value
    assert made is not None
    return made.reshape([*x.shape[:2], *grid.shape[1:-1]]).to(x.dtype)


def sampled_backward(gradient: torch.Tensor, x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool,
                     output_mask: Sequence[bool]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    extents, flat, slopes = x.shape[2:], _wide(x).flatten(2), _wide(gradient).flatten(2)
    of_x = torch.zeros_like(flat)
    of_grid: list[Any] = [None] * len(extents)  # the last dimension first
    for corner in _corners(extents, _wide(grid), mode, padding, align_corners):
        index = corner.index.expand(-1, x.shape[1], -1)
        if output_mask[0]:
            part = torch.where(corner.is_inside, _product([tap.weight for tap in corner.taps], slopes), 0)
            of_x = of_x.scatter_add(2, index, part)
        if output_mask[1] and mode != _NEAREST:
            along = torch.where(corner.is_inside, (flat.gather(2, index) * slopes).sum(1, keepdim=True), 0)
            for d in range(len(extents)):
                part = _product([tap.slope if i == d else tap.weight for i, tap in enumerate(corner.taps)], along)
                of_grid[d] = part if of_grid[d] is None else of_grid[d] + part
    moved = torch.zeros_like(grid) if of_grid[0] is None else torch.stack([one[:, 0] for one in of_grid], -1).reshape(grid.shape).to(grid.dtype)
    return of_x.reshape(x.shape).to(x.dtype) if output_mask[0] else None, moved if output_mask[1] else None


TABLE: dict[Any, Callable[..., Any]] = {
    aten.grid_sampler_2d_backward.default: sampled_backward,
    aten.grid_sampler_3d.default: sampled,
    aten.grid_sampler_3d_backward.default: sampled_backward,
}
