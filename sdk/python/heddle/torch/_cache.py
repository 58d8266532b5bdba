# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of graphs on disk, and other files there."""
from __future__ import annotations

import contextlib
import os
import pathlib
import time
import uuid

from .. import _compiled_texts


def folder() -> pathlib.Path:
    """$HEDDLE_TORCH_CACHE, else heddle/torch in $XDG_CACHE_HOME or ~/.cache."""
    return _compiled_texts.folder_of("HEDDLE_TORCH_CACHE", "torch")


def compiled(text: str, target: str, options: tuple[str, ...] = ()) -> tuple[str, bool]:
    """(path of the module, whether it was compiled now). Raises heddle.CompileError."""
    return _compiled_texts.compiled(text, target, options, folder())


def write(path: pathlib.Path, content: bytes) -> None:
    """All of it or nothing: the file gets its name when it is written. Removes what writes that failed, or were interrupted an hour ago, have left."""
    partial = path.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        with open(partial, "xb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    for old in path.parent.glob(".*.tmp"):
        with contextlib.suppress(OSError):  # another process has removed it
            if old.stat().st_mtime < time.time() - 3600:
                old.unlink()
