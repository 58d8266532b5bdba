# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Heddle as a backend of torch.compile, and reports of graph breaks for any backend.

    import torch
    model = torch.compile(model, backend="heddle")

What Dynamo traces becomes modules of Heddle, for inference and for training; what Heddle does not support runs in PyTorch, is named in a warning, and is
counted in `graphs()`. `export` writes a .heddle file that runs without PyTorch, and `minify` finds wrong numbers. docs/pytorch.md describes them, and docs/graph-breaks.md `report()`.
PyTorch is imported when something of this package needs it.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .report import report

if TYPE_CHECKING:
    from ._backend import backend
    from ._checkpoint import load_checkpoint, save_checkpoint
    from ._export import export
    from ._minify import Minified, minify, reproduce
    from ._records import Fallback, Graph, clear, graphs

__all__ = ["Fallback", "Graph", "Minified", "backend", "clear", "export", "graphs", "load_checkpoint", "minify", "report", "reproduce",
           "save_checkpoint"]
_MODULES = {"backend": "_backend", "export": "_export", "Fallback": "_records", "Graph": "_records", "clear": "_records", "graphs": "_records",
            "Minified": "_minify", "minify": "_minify", "reproduce": "_minify", "load_checkpoint": "_checkpoint", "save_checkpoint": "_checkpoint"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("." + _MODULES[name], __name__), name)
