# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of graphs on disk."""
from __future__ import annotations

import pathlib

from .. import _compiled_texts


def folder() -> pathlib.Path:
    """$HEDDLE_TORCH_CACHE, else heddle/torch in $XDG_CACHE_HOME or ~/.cache."""
    return _compiled_texts.folder_of("HEDDLE_TORCH_CACHE", "torch")


def compiled(text: str, target: str, options: tuple[str, ...] = ()) -> tuple[str, bool]:
    """(path of the module, whether it was compiled now). Raises heddle.CompileError."""
    return _compiled_texts.compiled(text, target, options, folder())
