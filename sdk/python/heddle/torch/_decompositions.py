# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How operators become those of compiler/import/aten_*.cpp: PyTorch's decompositions to Core ATen, and some more."""
from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import _attention, _composed, _optimizers, _sampling, _text

aten = torch.ops.aten

# Not among those to Core ATen, but made of operators that are.
_MORE = [
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit.no_stats, aten.native_batch_norm,
    aten.native_group_norm, aten.grid_sampler_2d, aten.upsample_bilinear2d, aten.upsample_nearest2d, aten.addcmul, aten.addcdiv, aten.linalg_vector_norm,
    aten._fused_rms_norm, aten.native_dropout_backward, aten.hardtanh, aten.logcumsumexp, aten._adaptive_avg_pool2d, aten.triu_indices,
]
# The compiler has these as they are, with fewer nodes.
_KEPT = [aten.embedding_dense_backward, aten.index_add, aten.index_copy, aten.var_mean, aten._softmax_backward_data, aten._log_softmax_backward_data, aten.threshold_backward]


# Their decomposition gives other values than what the backward pass of the operator reads. as_operators() avoids them.
_NOT_FOR_TRAINING = [aten._scaled_dot_product_flash_attention_for_cpu]


# PyTorch decomposes these before it looks at a table, and gives wrong values.
_WRONG_IN_PYTORCH = {aten.multi_margin_loss.default: _composed.multi_margin_loss,
                     aten.multilabel_margin_loss_forward.default: _composed.multilabel_margin_loss}


@contextlib.contextmanager
def as_operators() -> Iterator[None]:
    """While it is entered, scaled_dot_product_attention is traced as products and a softmax, and what PyTorch decomposes wrongly as it is right."""
    def exchange(kernels: Mapping[Any, Any]) -> dict[Any, Any]:
        before = {}
        for one, kernel in kernels.items():
            before[one] = one.py_kernels.get(DispatchKey.Autograd)
            if kernel is not None and before[one] is not None:
                one.py_kernels[DispatchKey.Autograd] = kernel
                one._dispatch_cache.clear()
        return before

    asserting, key = aten.one_hot.default, DispatchKey.CompositeImplicitAutograd
    is_missing = key not in asserting.py_kernels
    with sdpa_kernel(SDPBackend.MATH), _attention.composed():
        before = exchange(_WRONG_IN_PYTORCH)
        if is_missing:
            asserting.py_kernels[key] = _one_hot
            asserting._dispatch_cache.clear()
        try:
            yield
        finally:
            exchange(before)
            if is_missing:
                asserting.py_kernels.pop(key, None)
                asserting._dispatch_cache.clear()


def _one_hot(x: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """For PyTorch 2.11, which asserts nothing when it traces this, so that a class that there is not became zeros."""
    count = int(x.max()) + 1 if num_classes == -1 else num_classes
    torch._assert_async((x >= 0).all(), "Class values must be non-negative.")
    torch._assert_async((x < count).all(), "Class values must be smaller than num_classes.")
    return (x.unsqueeze(-1) == torch.arange(count, dtype=x.dtype, device=x.device)).long()


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


# Random operators that read nothing of their first argument but how it lies. They become those of memory that nothing was written to, so that PyTorch can
# run them before a module computes the argument.
_DRAWN_BY_LAYOUT = [aten.bernoulli.p, aten.exponential.default, aten.normal_functional.default, aten.rand_like.default, aten.randn_like.default,
                    aten.randint_like.default, aten.randint_like.low_dtype, aten.uniform.default]
_is_drawing = contextvars.ContextVar("heddle_is_drawing", default=False)


def _drawn(draw: Callable[..., Any], x: torch.Tensor, *arguments: Any, element: torch.dtype | None = None, **options: Any) -> Any:
    """What the random operator gives for a tensor that lies as x, with elements of x's type or of that one."""
    if _is_drawing.get() or not _text.has_no_gaps(x):
        return NotImplemented
    blank = aten.empty_strided(x.shape, x.stride(), dtype=element or x.dtype, device=x.device)
    token = _is_drawing.set(True)
    try:
        return draw(blank, *arguments, **options)
    finally:
        _is_drawing.reset(token)


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> Any:
    """The mask is that of eager mode: on a CPU bernoulli draws it in the order of memory, on other devices a kernel of its own does."""
    if train is False or p == 0 or 0 in [extent for extent in x.shape if isinstance(extent, int)]:  # of no elements, PyTorch has a mask of x's type
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    if x.device.type == "cpu":
        order = _text.memory_order(x) or list(range(x.ndim))
        mask = _drawn(aten.bernoulli.p, x.permute(order), 1 - p, element=torch.bool)
        mask = mask if mask is NotImplemented else mask.permute([order.index(d) for d in range(x.ndim)])
    elif (made := _drawn(aten.native_dropout.default, x, p, True)) is NotImplemented:
        return NotImplemented
    else:
        mask = made[1]
    return mask if mask is NotImplemented else (x * mask * (1 / (1 - p)), mask)


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
    table[aten.native_dropout.default] = _native_dropout
    table.update({draw: functools.partial(_drawn, draw) for draw in _DRAWN_BY_LAYOUT})
    table.update(_composed.TABLE)
    table.update(_sampling.TABLE)
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
