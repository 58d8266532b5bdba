# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which products of f32 may be computed in TF32 on CUDA: those that PyTorch's settings allow, as eager mode and Inductor do."""
from __future__ import annotations

from collections.abc import Iterable

import torch

_CONVOLUTIONS = {torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default}


def allowed() -> tuple[bool, bool]:
    """For (matrix products, convolutions). By default, PyTorch allows it for convolutions alone."""
    return torch.backends.cuda.matmul.fp32_precision == "tf32", torch.backends.cudnn.conv.fp32_precision == "tf32"


def math_of(nodes: Iterable[torch.fx.Node], device: torch.device) -> str:
    """For --math of `heddle compile`; empty: as by default."""
    if device.type != "cuda":
        return ""
    products, convolutions = allowed()
    has_convolutions = any(node.target in _CONVOLUTIONS for node in nodes)
    if products and (convolutions or not has_convolutions):
        return "fast"
    return "fast-convolutions" if convolutions and has_convolutions else ""
