# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Spares Dynamo work while it traces a function for this backend: searches of the whole heap for garbage, names of functions for a log that is off, and what
another thread can do. Dynamo's own work in Python is most of the time of a first call whose modules are on disk."""
from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from .. import _compiled_texts
from ._records import logger

# Objects until the garbage collector looks at the new ones. A trace of BERT base makes about 300,000, and PyTorch collects those of them that are garbage when
# it is done.
_MOST_NEW = 1_000_000

_undo: list[Callable[[], None]] = []
_has_read: list[bool] = []


def install() -> None:
    """Dynamo calls back when it begins and when it is done with a function, until torch._dynamo.reset()."""
    # As torch._dynamo.callback.on_compile_end, but the callback is also called if there is a failure. Dynamo must not trace callbacks: a function that calls
    # backward() compiles the backward pass while Dynamo looks at what it calls, and PyTorch holds a lock meanwhile that it would wait for.
    from torch._dynamo.callback import callback_handler

    if _end not in callback_handler.end_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


def _innermost(function: Any) -> Any:
    """The backend in Dynamo's wrappers of it."""
    for _ in range(8):
        inner = getattr(function, "_torchdynamo_orig_backend", None) or getattr(function, "compiler_fn", None)
        if inner is None:
            break
        function = inner
    return function


def code_of(frame: FrameType | None) -> CodeType | None:
    """The function that Dynamo compiles in this frame or a caller of it, if it is for this backend."""
    from ._backend import backend

    while frame is not None and not (frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals and "code" in frame.f_locals):
        frame = frame.f_back
    if frame is None or _innermost(frame.f_locals["compiler_fn"]) is not backend:
        return None
    code: CodeType = frame.f_locals["code"]
    return code


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _begin(_: Any) -> None:
    try:
        if not _undo and code_of(sys._getframe(1)) is not None:
            _collect_later()
            _do_not_name()
            _read_files()
    except Exception as wrong:  # Dynamo must not see it
        logger.debug("Dynamo traces as it does without heddle.torch: %s", wrong)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _end(_: Any) -> None:
    while _undo:
        _undo.pop()()


def _collect_later() -> None:
    before = gc.get_threshold()
    if 0 < before[0] < _MOST_NEW:
        gc.set_threshold(_MOST_NEW, *before[1:])
        _undo.append(lambda: gc.set_threshold(*before) if gc.get_threshold()[0] == _MOST_NEW else None)


def _do_not_name() -> None:
    """Dynamo finds the name of the function around each call of an operator, for which it splits the whole source file into tokens, and uses it for nothing
    but its logs."""
    from torch._dynamo import output_graph, symbolic_convert

    find = getattr(symbolic_convert, "get_funcname", None)
    logs = [getattr(module, name, None) for module in (output_graph, symbolic_convert) for name in ("trace_call_log", "trace_source_log")]
    if find is not None and not any(log is not None and log.isEnabledFor(logging.DEBUG) for log in logs):
        setattr(symbolic_convert, "get_funcname", lambda filename, line: None)
        _undo.append(lambda: setattr(symbolic_convert, "get_funcname", find))


def _read_files() -> None:
    """Keys of graphs (_graph_cache.py) have hashes of the compiler and of PyTorch's sources. Another thread can read these files until the keys are needed."""
    from torch._inductor import codecache

    def read() -> None:
        with contextlib.suppress(Exception):  # it is raised again where the key is needed
            _compiled_texts.identity()
            codecache.torch_key()

    if not _has_read and torch._functorch.config.enable_autograd_cache:
        _has_read.append(True)
        threading.Thread(target=read, name="heddle.torch", daemon=True).start()
