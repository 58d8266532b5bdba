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
from types import CodeType
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
    path = os.path.abspath(file)
    if path.startswith(_folders()):
        return False
    library = sysconfig.get_path("stdlib") + os.sep
    return not path.startswith(library) or f"{os.sep}site-packages{os.sep}" in path


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
