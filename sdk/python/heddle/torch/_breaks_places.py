# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which lines of a stack are the user's: all but those of PyTorch and torch_xla, of Python's library, of this package, and of generated code."""
from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import re
import sysconfig
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any

from ._breaks_records import Place

_TRACE_LINE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.*))?$', re.MULTILINE)


@functools.cache
def _folders() -> tuple[str, ...]:
    specs = [importlib.util.find_spec(name) for name in ("torch", "torch_xla")]
    found = [os.path.dirname(spec.origin) for spec in specs if spec is not None and spec.origin]
    return tuple(folder + os.sep for folder in (*found, os.path.dirname(os.path.abspath(__file__))) if folder)


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file is part of the user's program, which includes packages other than PyTorch."""
    if file.startswith("<"):  # <string> and <frozen ...>; cells of notebooks have the names of files
        return False
    return not os.path.abspath(file).startswith(_folders()) and not _is_pythons(file)


@functools.cache
def _is_pythons(file: str) -> bool:
    """Whether it is part of Python's library."""
    if file.startswith("<frozen "):
        return True
    path = os.path.abspath(file)
    return path.startswith(sysconfig.get_path("stdlib") + os.sep) and f"{os.sep}site-packages{os.sep}" not in path


def is_optimizers(file: str) -> bool:
    """Whether a file is one of torch.optim."""
    return re.search(r"[\\/]torch[\\/]optim[\\/]\w+\.py$", file) is not None


def is_ddps(file: str, text: str = "") -> bool:
    """Whether a file is that of PyTorch's DistributedDataParallel, or what Dynamo says of a break names one of its functions."""
    return re.search(r"[\\/]torch[\\/]nn[\\/]parallel[\\/]distributed\.py$", file) is not None or "module: torch.nn.parallel.distributed" in text


def is_pytorchs_own(code: CodeType, frame: FrameType | None) -> bool:
    """Whether a function that Dynamo does not trace is one of Python's library that PyTorch itself has called, such as one of `typing`: the program can write
    nothing in its place. `frame` is one of Dynamo's, while it is at that."""
    if not _is_pythons(code.co_filename):
        return False
    while frame is not None and not (frame.f_code.co_name == "__call__" and frame.f_code.co_filename.endswith(f"_dynamo{os.sep}convert_frame.py")):
        frame = frame.f_back
    package = os.path.dirname(os.path.abspath(__file__)) + os.sep
    while frame is not None and (frame.f_code.co_filename.endswith(f"_dynamo{os.sep}convert_frame.py") or frame.f_code.co_filename.startswith(package)):
        frame = frame.f_back
    while frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    # Dynamo itself has called it if it is what torch.compile was given.
    return frame is not None and frame.f_code.co_filename.startswith(_folders()) and f"{os.sep}_dynamo{os.sep}" not in frame.f_code.co_filename


def place_of(file: str, line: int, function: str = "") -> Place:
    return Place(file, line, function, linecache.getline(file, line).strip() if line else "")


def places_of(stack: Iterable[Any]) -> list[Place]:
    """Of a `traceback.StackSummary`."""
    return [place_of(one.filename, one.lineno or 0, one.name) for one in stack]


def innermost(places: list[Place]) -> Place:
    """The innermost line of the user; if there is none, the innermost one."""
    mine = [one for one in places if is_users(one.file)]
    return mine[-1] if mine else places[-1] if places else Place()


def of_trace(text: str) -> Place:
    """The innermost line of the user in a stack trace as text, such as FX nodes have in their metadata."""
    found = [place_of(one["file"], int(one["line"]), one["function"] or "") for one in _TRACE_LINE.finditer(text or "")]
    return innermost(found)


def is_users_code(code: CodeType) -> bool:
    """`is_users` of the file of a function."""
    return is_users(code.co_filename)
