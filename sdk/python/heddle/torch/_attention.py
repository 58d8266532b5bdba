# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scaled_dot_product_attention as two products and a softmax, in the form in which the compiler makes one kernel of them.

PyTorch's own form looks through all scores of a query for one that is not masked, and sets the probabilities to zero if there is none. Here the mask says so,
for all heads and layers that have it.
"""
from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import DispatchKey

from ._text import memory_order

aten = torch.ops.aten
_OPERATOR = aten.scaled_dot_product_attention.default
_KEY = DispatchKey.CompositeImplicitAutograd
_lock = threading.Lock()
_entered = 0


def _chosen(condition: torch.Tensor, no: float, element: torch.dtype) -> torch.Tensor:
    """0 where it is true."""
    return torch.where(condition, *(torch.scalar_tensor(one, dtype=element, device=condition.device) for one in (0.0, no)))


def plain(*arguments: Any, **options: Any) -> torch.Tensor:
    """PyTorch's own form, with a result in the layout of eager mode."""
    return _as_in_eager_mode(_OPERATOR._op_dk(_KEY, *arguments, **options))


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False) -> torch.Tensor:
    depth = query.shape[-1]
    if any(one.is_nested or one.layout != torch.strided for one in (query, key, value)) or not isinstance(depth, int) or depth == 0 or (
            is_causal and attn_mask is not None):
        return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    element = query.dtype
    if element in (torch.float16, torch.bfloat16):
        query, key, value = query.float(), key.float(), value.float()
    if enable_gqa:
        key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(depth) if scale is None else scale)
    hidden = None  # queries that see no key; their probabilities are finite until they are set to zero, or their gradients would not be zero
    if is_causal:
        rows, columns = (torch.arange(scores.shape[d], device=query.device) for d in (-2, -1))
        scores = scores + _chosen(rows.unsqueeze(-1) >= columns, -math.inf, scores.dtype)
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        hidden = (~attn_mask).all(-1, keepdim=True)
        scores = scores + _chosen(attn_mask | hidden, -math.inf, scores.dtype)
    elif attn_mask is not None:
        hidden = (attn_mask == -math.inf).all(-1, keepdim=True)
        scores = scores + attn_mask.masked_fill(hidden, 0.0)
    weights = scores.softmax(-1)
    if hidden is not None:
        weights = torch.where(hidden, torch.scalar_tensor(0.0, dtype=weights.dtype, device=weights.device), weights)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    return _as_in_eager_mode((weights @ value).to(element))


def _as_in_eager_mode(result: torch.Tensor) -> torch.Tensor:
    """The same values in the layout of the kernel that eager mode runs: whether `view` is possible, and whether `reshape` is a view, depends on it."""
    meta = torch.fx.traceback.get_current_meta()  # of the node that is traced: a call of this operator, or of a function that has it inside
    eager = meta.get("val", meta.get("example_value"))
    if not isinstance(eager, torch.Tensor) or eager.ndim != result.ndim or (order := memory_order(eager)) is None:
        return result
    return result.permute(order).contiguous().permute([order.index(d) for d in range(result.ndim)])


@contextlib.contextmanager
def composed() -> Iterator[None]:
    """While it is entered, the operator is traced as that function."""
    global _entered
    kernels: dict[Any, Any] = _OPERATOR.py_kernels

    def change(by: int) -> None:
        global _entered
        with _lock:
            _entered += by
            if _entered > 0:
                kernels[_KEY] = attention
            else:
                kernels.pop(_KEY, None)
            _OPERATOR._dispatch_cache.clear()

    change(1)
    try:
        yield
    finally:
        change(-1)
