# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How operators become those of compiler/import/aten_*.cpp: PyTorch's decompositions to Core ATen, and some more."""
from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import _optimizers

aten = torch.ops.aten

# Not among those to Core ATen, but made of operators that are.
_MORE = [
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit.no_stats, aten.native_batch_norm,
    aten.native_group_norm, aten.grid_sampler_2d, aten.upsample_bilinear2d, aten.upsample_nearest2d, aten.addcmul, aten.addcdiv, aten.linalg_vector_norm,
    aten._fused_rms_norm, aten.native_dropout_backward, aten.hardtanh, aten.logcumsumexp, aten._adaptive_avg_pool2d,
]
# The compiler has these as they are, with fewer nodes.
_KEPT = [aten.embedding_dense_backward, aten.var_mean, aten._softmax_backward_data, aten._log_softmax_backward_data, aten.threshold_backward]


# Their decomposition gives other values than what the backward pass of the operator reads. attention_as_operators() avoids them.
_NOT_FOR_TRAINING = [aten._scaled_dot_product_flash_attention_for_cpu]


def attention_as_operators() -> Any:
    """While it is entered, scaled_dot_product_attention is traced as products and a softmax."""
    return sdpa_kernel(SDPBackend.MATH)


def _weight_norm_backward(gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients by v and g of v * (g / |v|), with a norm for each element of dimension `dim`, which is the first or the last one."""
    others = [i for i in range(v.ndim) if i != dim]
    g, norms = g.to(norms.dtype), norms.reshape(g.shape)
    along = (gradient * v).to(norms.dtype).sum(others, keepdim=True)
    of_v = (g / norms) * (gradient.to(norms.dtype) - v.to(norms.dtype) * (along / (norms * norms)))
    return of_v.to(v.dtype), (along / norms).to(v.dtype)


def _new_empty_strided(self: torch.Tensor, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                       pin_memory: Any = None) -> torch.Tensor:
    made: torch.Tensor = aten.empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device)
    return made


def _diagonal_scatter(self: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    steps = torch.arange(src.shape[-1], device=self.device)
    places = [steps + max(-offset, 0), steps + max(offset, 0)]
    made: torch.Tensor = aten.index_put(self.movedim((dim1, dim2), (0, 1)), places, src.movedim(-1, 0))
    return made.movedim((0, 1), (dim1, dim2))


@functools.lru_cache(maxsize=1)
def decompositions() -> dict[Any, Callable[..., Any]]:
    table = dict(core_aten_decompositions())
    for one in _MORE:
        table.update(get_decompositions([one]))
    for packet in _KEPT + _NOT_FOR_TRAINING:
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    table[aten._weight_norm_interface_backward.default] = _weight_norm_backward
    table[aten.new_empty_strided.default] = _new_empty_strided
    table[aten.diagonal_scatter.default] = _diagonal_scatter
    table.update(_optimizers.decompositions())
    return table


class _Decompositions(Mapping[Any, Callable[..., Any]]):
    """The table, made when it is needed: graphs that are read from disk need none."""

    def __getitem__(self, operator: Any) -> Callable[..., Any]:
        return decompositions()[operator]

    def __iter__(self) -> Iterator[Any]:
        return iter(decompositions())

    def __len__(self) -> int:
        return len(decompositions())


DECOMPOSITIONS = _Decompositions()
