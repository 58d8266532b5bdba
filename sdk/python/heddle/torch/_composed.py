# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators, most of them gradients, for which PyTorch has no decomposition, as operators that the compiler has. NotImplemented leaves one as it is."""
from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decompositions as _decompositions

aten = torch.ops.aten


def _computing(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# --------------------------------------------------------------------------------------------- pools and sizes

def _starts_and_ends(inputs: int, outputs: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the windows of an adaptive pool."""
    i = torch.arange(outputs, device=device)
    return (i * inputs).div(outputs, rounding_mode="floor"), ((i + 1) * inputs + outputs - 1).div(outputs, rounding_mode="floor")


def _averages(inputs: int, outputs: int, like: torch.Tensor) -> torch.Tensor:
    """An adaptive average pool along one dimension as a matrix, [outputs, inputs]."""
    starts, ends = (one[:, None] for one in _starts_and_ends(inputs, outputs, like.device))
    place = torch.arange(inputs, device=like.device)
    return ((place >= starts) & (place < ends)).to(like.dtype) / (ends - starts).to(like.dtype)


def _along_last(x: torch.Tensor, matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    """Each of the last dimensions multiplied by its matrix [to, from]."""
    if any(isinstance(one, int) and one == 0 for one in x.shape):
        return x.new_zeros([*x.shape[:-len(matrices)], *(one.shape[0] for one in matrices)])
    for i, matrix in enumerate(reversed(matrices)):
        x = (x.transpose(-1, -1 - i) @ matrix.t()).transpose(-1, -1 - i)
    return x


def _is_even(large: Sequence[Any], small: Sequence[Any]) -> bool:
    return all(not isinstance(a, int) or not isinstance(b, int) or b == 0 or a % b == 0 for a, b in zip(large, small))  # symbols, too, are left as they are


def _adaptive_average(spatial: int) -> Callable[..., Any]:
    def decomposed(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        inputs = x.shape[-spatial:]
        if _is_even(inputs, output_size):
            return NotImplemented
        wide = _computing(x)
        return _along_last(wide, [_averages(a, b, wide) for a, b in zip(inputs, output_size)]).to(x.dtype)

    return decomposed


def _adaptive_average_backward(spatial: int, has_even: bool) -> Callable[..., Any]:
    def decomposed(gradient: torch.Tensor, x: torch.Tensor) -> Any:
        inputs, outputs = x.shape[-spatial:], gradient.shape[-spatial:]
        if not all(isinstance(one, int) for one in (*inputs, *outputs)) or (has_even and _is_even(inputs, outputs)):
            return NotImplemented
        wide = _computing(gradient)
        return _along_last(wide, [_averages(a, b, wide).t() for a, b in zip(inputs, outputs)]).to(x.dtype)

    return decomposed


def _adaptive_max_pool(spatial: int) -> Callable[..., Any]:
    whole = {2: aten.max_pool2d_with_indices, 3: aten.max_pool3d_with_indices}[spatial]

    def decomposed(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        inputs = x.shape[-spatial:]
        if not all(isinstance(one, int) and one > 0 for one in (*inputs, *output_size)):
            return NotImplemented
        if _is_even(inputs, output_size):
            window = [a // b for a, b in zip(inputs, output_size)]
            return whole(x, window, window)
        # The last element of a window is repeated, so that all windows have one size.
        flat: Any = 0
        for d, (a, b) in enumerate(zip(inputs, output_size)):
            starts, ends = _starts_and_ends(a, b, x.device)
            size = max((i * a + a + b - 1) // b - i * a // b for i in range(b))
            places = torch.minimum(starts[:, None] + torch.arange(size, device=x.device), ends[:, None] - 1)
            shape = [1] * (2 * spatial)
            shape[d], shape[spatial + d] = b, size
            flat = flat * a + places.view(shape)
        flat = flat.flatten(spatial)  # [out, .., elements of a window]
        values, found = x.flatten(-spatial)[..., flat].max(-1)
        return values, flat.expand(*found.shape, flat.shape[-1]).gather(-1, found[..., None])[..., 0]

    return decomposed


def _adaptive_max_pool_backward(spatial: int) -> Callable[..., Any]:
    def decomposed(gradient: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        wide = _computing(gradient)
        made = wide.new_zeros(x.shape).flatten(-spatial).scatter_add(-1, indices.flatten(-spatial), wide.flatten(-spatial))
        return made.view(x.shape).to(x.dtype)

    return decomposed


def _resampling(inputs: int, outputs: int, align_corners: bool, factor: float | None, support: float, kernel: Callable[[torch.Tensor], torch.Tensor],
                like: torch.Tensor) -> torch.Tensor:
    """Resampling of one dimension with antialiasing as a matrix, [outputs, inputs]: the kernel is as wide as an output, and its weights sum up to 1."""
    if align_corners:
        scale = (inputs - 1) / (outputs - 1) if outputs > 1 else 0.0
    else:
        scale = 1 / factor if factor else inputs / outputs
    stretch = max(scale, 1.0)
    center = scale * (torch.arange(outputs, device=like.device, dtype=like.dtype)[:, None] + 0.5)
    first = (center - support * stretch + 0.5).trunc().clamp_min(0)
    last = (center + support * stretch + 0.5).trunc().clamp_max(inputs)
    place = torch.arange(inputs, device=like.device, dtype=like.dtype)
    weights = torch.where((place >= first) & (place < last), kernel((place - center + 0.5) / stretch), 0)
    return weights / weights.sum(1, keepdim=True)


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp_min(0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def _resample(support: float, kernel: Callable[[torch.Tensor], torch.Tensor], is_backward: bool) -> Callable[..., Any]:
    def matrices(inputs: Sequence[int], outputs: Sequence[int], align_corners: bool, factors: Sequence[float | None], like: torch.Tensor) -> Any:
        if not all(isinstance(one, int) for one in (*inputs, *outputs)):
            return None
        return [_resampling(a, b, align_corners, c, support, kernel, like) for a, b, c in zip(inputs, outputs, factors)]

    def decomposed(x: torch.Tensor, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Any:
        wide = _computing(x)
        made = matrices(x.shape[-2:], output_size, align_corners, (scales_h, scales_w), wide)
        return NotImplemented if made is None else _along_last(wide, made).to(x.dtype)

    def backward(gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None,
                 scales_w: float | None = None) -> Any:
        wide = _computing(gradient)
        if kernel is _cubic:  # PyTorch fails for symbols, so each size is traced by itself
            input_size, output_size = [input_size[0], input_size[1], *map(int, input_size[2:])], [*map(int, output_size)]
        made = matrices(input_size[-2:], output_size, align_corners, (scales_h, scales_w), wide)
        return NotImplemented if made is None else _along_last(wide, [one.t() for one in made]).to(gradient.dtype)

    return backward if is_backward else decomposed


def _max_unpool(spatial: int) -> Callable[..., Any]:
    """By scatter, which checks its indices as the operator does."""
    def decomposed(x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int], *window: Any) -> Any:
        count = math.prod(output_size)
        blank = x.new_zeros([*x.shape[:-spatial], count])
        made = blank.scatter(-1, indices.flatten(-spatial), x.flatten(-spatial))
        return made.view([*x.shape[:-spatial], *output_size])

    return decomposed


# ------------------------------------------------------------------------------------------- padding and views

def _replication_pad_backward(gradient: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    """What goes to the elements of an edge is added up, dimension by dimension."""
    made = _computing(gradient)
    for i in range(len(padding) // 2):
        axis, extent = x.ndim - 1 - i, x.shape[x.ndim - 1 - i]
        places = (torch.arange(made.shape[axis], device=x.device) - padding[2 * i]).clamp(0, extent - 1)
        shape = [*made.shape[:axis], extent, *made.shape[axis + 1:]]
        made = made.new_zeros(shape).index_add(axis, places, made)
    return made.to(gradient.dtype)


def _index_fill(x: torch.Tensor, dimension: int, index: torch.Tensor, value: Any) -> Any:
    """By index_put, in which a negative index counts from the end, too."""
    if x.ndim == 0:
        return NotImplemented
    value = value.to(x.dtype) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=x.dtype, device=x.device)
    return aten.index_put(x, [None] * (dimension % x.ndim) + [index], value)


def _put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    made: torch.Tensor = aten.index_put(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return made.reshape(x.shape)


def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """In PyTorch's decomposition, an index without dimensions has to be a number that is known."""
    return x.reshape(-1)[index.reshape(-1)].reshape(index.shape)


def _unfold(x: torch.Tensor, dimension: int, size: int, step: int) -> Any:
    if x.ndim == 0 or not isinstance(x.shape[dimension], int):
        return NotImplemented
    axis, count = dimension % x.ndim, (x.shape[dimension] - size) // step + 1
    places = torch.arange(count, device=x.device)[:, None] * step + torch.arange(size, device=x.device)
    return x.index_select(axis, places.flatten()).unflatten(axis, (count, size)).movedim(axis + 1, -1)


# ------------------------------------------------------------------------------------------------------ products

def _trilinear(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
               sumdim: Sequence[int], unroll_dim: int = 1) -> torch.Tensor:
    values = []
    for one, dimensions in ((a, expand1), (b, expand2), (c, expand3)):
        for d in sorted(dimensions):
            one = one.unsqueeze(d)
        values.append(one)
    return (values[0] * values[1] * values[2]).sum(list(sumdim))


def _distances(a: torch.Tensor, b: torch.Tensor, p: float, compute_mode: int | None) -> torch.Tensor:
    rows = max(a.shape[-2], b.shape[-2])
    if p == 2 and compute_mode != 2 and (compute_mode == 1 or (isinstance(rows, int) and rows > 25)):
        squares = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :] - 2 * (a @ b.mT)
        return squares.clamp_min(0).sqrt()
    return torch.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


def _slope(gradient: torch.Tensor, apart: torch.Tensor, distances: torch.Tensor, p: float) -> torch.Tensor:
    """The gradient by each component of the difference of two points, of which their distance is the norm."""
    gradient, distances = gradient[..., None], distances[..., None]
    if p == 0:
        return torch.zeros_like(apart)
    if p == 1:
        return gradient * apart.sign()
    if math.isinf(p):
        return gradient * apart.sign() * (apart.abs() == distances)
    return torch.where((distances == 0) | (apart == 0), 0, gradient * apart.sign() * (apart.abs() / distances) ** (p - 1))


def _distances_backward(gradient: torch.Tensor, a: torch.Tensor, b: torch.Tensor, p: float, distances: torch.Tensor) -> torch.Tensor:
    """By a."""
    return _slope(gradient, a[..., :, None, :] - b[..., None, :, :], distances, p).sum(-2)


def _distances_of_pairs(x: torch.Tensor, p: float = 2) -> Any:
    if not isinstance(x.shape[0], int):
        return NotImplemented
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device).unbind()
    return torch.linalg.vector_norm(x[i] - x[j], p, -1)


def _distances_of_pairs_backward(gradient: torch.Tensor, x: torch.Tensor, p: float, distances: torch.Tensor) -> Any:
    if not isinstance(x.shape[0], int):
        return NotImplemented
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device).unbind()
    slope = _slope(gradient, x[i] - x[j], distances, p)
    return torch.zeros_like(x).index_add(0, i, slope).index_add(0, j, -slope)


# --------------------------------------------------------------------------------------------------- embeddings

_is_within_rows = contextvars.ContextVar("heddle_is_within_rows", default=False)
_SUM, _MEAN = 0, 1  # modes of embedding_bag; the third, max, is left to PyTorch


def _per_row(values: torch.Tensor, indices: torch.Tensor, padding_idx: int) -> torch.Tensor:
    """[n, width], with zeros for padding."""
    return values if padding_idx < 0 else values.masked_fill((indices == padding_idx)[:, None], 0)


def _embedding_dense_backward(gradient: torch.Tensor, indices: torch.Tensor, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    if not scale_grad_by_freq:
        if _is_within_rows.get():
            return NotImplemented
        token = _is_within_rows.set(True)
        try:  # PyTorch leaves out indices that are no rows. The compiler leaves out those behind the last row, and others count from the end
            return aten.embedding_dense_backward(gradient, torch.where(indices < 0, num_weights, indices), num_weights, padding_idx, False)
        finally:
            _is_within_rows.reset(token)
    flat, wide = indices.flatten(), _computing(gradient)
    rows = _per_row(wide.reshape(-1, wide.shape[-1]), flat, padding_idx)
    rows = rows / rows.new_zeros([num_weights]).index_add(0, flat, torch.ones_like(flat, dtype=rows.dtype))[flat][:, None]
    return rows.new_zeros([num_weights, rows.shape[1]]).index_add(0, flat, rows).to(gradient.dtype)


def _embedding_bag(weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scale_grad_by_freq: bool = False, mode: int = _SUM,
                   sparse: bool = False, per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
                   padding_idx: int = -1) -> Any:
    if mode not in (_SUM, _MEAN) or sparse:
        return NotImplemented
    count = indices.shape[0]
    starts = offsets[:-1] if include_last_offset else offsets
    # A bag more at each start of one. Without a bag that starts at 0, an index is negative, which index_add refuses.
    bag = offsets.new_zeros([count + 1]).index_add(0, starts, torch.ones_like(starts)).cumsum(0)[:count] - 1
    rows = _computing(weight[indices])
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    counted = torch.ones_like(indices) if padding_idx < 0 else (indices != padding_idx).to(indices.dtype)
    sizes = offsets.new_zeros([starts.shape[0]]).index_add(0, bag, counted.to(offsets.dtype))
    made = rows.new_zeros([starts.shape[0], weight.shape[1]]).index_add(0, bag, _per_row(rows, indices, padding_idx))
    if mode == _MEAN:
        made = made / sizes.clamp_min(1)[:, None]
    return made.to(weight.dtype), bag, sizes, sizes.new_empty([0])


def _embedding_bag_backward(gradient: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor, bag_size: torch.Tensor,
                            maximum_indices: torch.Tensor, num_weights: Any, scale_grad_by_freq: bool, mode: int, sparse: bool,
                            per_sample_weights: torch.Tensor | None, padding_idx: int = -1) -> Any:
    if mode not in (_SUM, _MEAN) or sparse or scale_grad_by_freq:
        return NotImplemented
    wide = _computing(gradient)
    rows = (wide / bag_size.clamp_min(1)[:, None] if mode == _MEAN else wide)[offset2bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    rows = _per_row(rows, indices, padding_idx)
    return rows.new_zeros([num_weights, rows.shape[1]]).index_add(0, indices, rows).to(gradient.dtype)


def _embedding_bag_per_sample_weights_backward(gradient: torch.Tensor, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor,
                                               offset2bag: torch.Tensor, mode: int, padding_idx: int = -1) -> Any:
    if mode != _SUM:
        return NotImplemented
    return _per_row(gradient[offset2bag] * weight[indices], indices, padding_idx).sum(1)


# ------------------------------------------------------------------------------------------------------- losses

def multilabel_margin_loss(x: torch.Tensor, target: torch.Tensor, reduction: int) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's own decomposition also counts what is behind the first -1, as class 0."""
    wide, of = torch.atleast_2d(_computing(x)), torch.atleast_2d(target)
    is_class = (of == -1).cumsum(-1) == 0
    classes = torch.arange(wide.shape[-1], device=x.device)
    is_target = ((of[..., None] == classes) & is_class[..., None]).any(-2)
    apart = 1 - wide.gather(-1, torch.where(of == -1, 0, of))[..., None] + wide[:, None, :]
    counts = is_class[..., None] & ~is_target[:, None, :] & (apart > 0)
    each = torch.where(counts, apart, 0).sum((-1, -2)) / wide.shape[-1]
    if reduction != 0:
        each = each.mean() if reduction == 1 else each.sum()
    return each.reshape([] if x.ndim < 2 else each.shape).to(x.dtype), is_target.to(x.dtype).reshape(target.shape)


def multi_margin_loss(x: torch.Tensor, target: torch.Tensor, p: Any = 1, margin: Any = 1, weight: torch.Tensor | None = None,
                      reduction: int = 1) -> torch.Tensor:
    """PyTorch's own decomposition gives a dimension more for a single sample without a reduction."""
    made: torch.Tensor = _decompositions.multi_margin_loss(x, target, p, margin, weight, reduction)
    return made.reshape([]) if target.ndim == 0 else made


# ---------------------------------------------------------------------------------------------------- attention

def _attention(query: torch.Tensor, embed_dim: int, heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor,
               proj_bias: torch.Tensor, mask: torch.Tensor | None, mask_type: int | None) -> torch.Tensor:
    """Self-attention, batch first. Where the mask is not 0, nothing is looked at; by its type it is [length, length], [batch, length] or
    [batch, heads, length, length]."""
    batch, length = query.shape[0], query.shape[1]
    q, k, v = (one.reshape(batch, length, heads, embed_dim // heads).transpose(1, 2)
               for one in torch.nn.functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1))
    scores = q @ k.mT / math.sqrt(embed_dim // heads)
    if mask is not None:
        scores = scores.masked_fill((mask[:, None, None, :] if mask_type == 1 else mask) != 0, -math.inf)
    weights = aten._softmax(scores, -1, False)
    return torch.nn.functional.linear((weights @ v).transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias)


def _encoder_layer(src: torch.Tensor, embed_dim: int, num_heads: int, qkv_weight: torch.Tensor, qkv_bias: torch.Tensor, proj_weight: torch.Tensor,
                   proj_bias: torch.Tensor, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: torch.Tensor, norm_bias_1: torch.Tensor,
                   norm_weight_2: torch.Tensor, norm_bias_2: torch.Tensor, ffn_weight_1: torch.Tensor, ffn_bias_1: torch.Tensor,
                   ffn_weight_2: torch.Tensor, ffn_bias_2: torch.Tensor, mask: torch.Tensor | None = None, mask_type: int | None = None) -> Any:
    """The fast path of nn.TransformerEncoderLayer."""
    if src.is_nested or src.ndim != 3:
        return NotImplemented
    linear = torch.nn.functional.linear

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = aten.native_layer_norm(x, [embed_dim], weight, bias, eps)[0]
        return made

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        inner = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(aten.gelu(inner) if use_gelu else inner.relu(), ffn_weight_2, ffn_bias_2)

    def attend(x: torch.Tensor) -> torch.Tensor:
        return _attention(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


def _multi_head_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, embed_dim: int, num_head: int, qkv_weight: torch.Tensor,
                          qkv_bias: torch.Tensor, proj_weight: torch.Tensor, proj_bias: torch.Tensor, mask: torch.Tensor | None = None,
                          need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None) -> Any:
    """The fast path of nn.MultiheadAttention, without weights as a result."""
    if need_weights or query is not key or key is not value or query.is_nested or query.ndim != 3:
        return NotImplemented
    return _attention(query, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), query.new_empty([0])


TABLE: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool2d_backward.default: _adaptive_average_backward(2, has_even=True),
    aten._adaptive_avg_pool3d.default: _adaptive_average(3),
    aten._adaptive_avg_pool3d_backward.default: _adaptive_average_backward(3, has_even=False),
    aten._cdist_backward.default: _distances_backward,
    aten._cdist_forward.default: _distances,
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_backward.default: _embedding_bag_backward,
    aten._embedding_bag_forward_only.default: _embedding_bag,
    aten._embedding_bag_per_sample_weights_backward.default: _embedding_bag_per_sample_weights_backward,
    aten._native_multi_head_attention.default: _multi_head_attention,
    aten._pdist_backward.default: _distances_of_pairs_backward,
    aten._pdist_forward.default: _distances_of_pairs,
    aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    aten._trilinear.default: _trilinear,
    aten._upsample_bicubic2d_aa.default: _resample(2.0, _cubic, is_backward=False),
    aten._upsample_bicubic2d_aa_backward.default: _resample(2.0, _cubic, is_backward=True),
    aten._upsample_bilinear2d_aa.default: _resample(1.0, _triangle, is_backward=False),
    aten._upsample_bilinear2d_aa_backward.default: _resample(1.0, _triangle, is_backward=True),
    aten.adaptive_max_pool2d.default: _adaptive_max_pool(2),
    aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool_backward(2),
    aten.adaptive_max_pool3d.default: _adaptive_max_pool(3),
    aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool_backward(3),
    aten.embedding_dense_backward.default: _embedding_dense_backward,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.max_unpool2d.default: _max_unpool(2),
    aten.max_unpool3d.default: _max_unpool(3),
    aten.multi_margin_loss.default: multi_margin_loss,
    aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
    aten.put.default: _put,
    aten.replication_pad1d_backward.default: _replication_pad_backward,
    aten.replication_pad2d_backward.default: _replication_pad_backward,
    aten.replication_pad3d_backward.default: _replication_pad_backward,
    aten.take.default: _take,
    aten.unfold.default: _unfold,
}
