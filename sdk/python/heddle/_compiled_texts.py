# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of texts on disk, by the hash of the text and of the compiler, so that other processes find them."""
from __future__ import annotations

import errno
import functools
import hashlib
import os
import pathlib
import tempfile
import warnings
from collections.abc import Callable

from . import __version__
from ._compile import compile as _compile
from ._compile import find_compiler
from ._errors import CompileError, DataLossError, InvalidArgumentError
from ._module import Module
from ._module import open as _open


def folder_of(variable: str, name: str) -> pathlib.Path:
    """That of the environment variable, else heddle/name in $XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get(variable)
    if named:
        return pathlib.Path(named)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heddle" / name


@functools.lru_cache(maxsize=4)
def _hash(files: tuple[tuple[str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, _, _ in files:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _compiler_hash() -> str:
    """Of the program and of its library, which is beside it or in ../lib."""
    program = pathlib.Path(find_compiler()).resolve()
    libraries = {one.resolve() for folder in (program.parent, program.parent.parent / "lib") for one in folder.glob("libheddle_compiler.so*")}
    files = [program, *sorted(libraries)]  # each once, though links name it several times
    return _hash(tuple((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files))


def identity() -> str:
    """Of what compiles: the same text with the same options becomes the same module. Raises heddle.Error if there is no compiler."""
    return f"{__version__} {_compiler_hash()}"


def _key(text: str, target: str, options: tuple[str, ...]) -> str:
    parts = [__version__, _compiler_hash(), target, *options, text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _of_this_process() -> tempfile.TemporaryDirectory[str]:
    """For modules that cannot be written elsewhere, until the process ends."""
    return tempfile.TemporaryDirectory(prefix="heddle-")


_unwritable: set[pathlib.Path] = set()  # folders that a warning has named
_OF_DISKS = tuple(os.strerror(one) for one in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG))


def compiled(text: str, target: str, options: tuple[str, ...], where: pathlib.Path) -> tuple[str, bool]:
    """(path of the module in the folder, whether it was compiled now). If nothing can be written there, it is in a folder of this process, and a warning
    says so once. Raises heddle.CompileError."""
    name = _key(text, target, options) + ".heddle"
    if os.path.exists(where / name):
        return str(where / name), False
    if where in _unwritable and os.path.exists(own := os.path.join(_of_this_process().name, name)):
        return own, False
    try:
        return _compiled_now(text, target, options, where / name), True
    except OSError as wrong:
        reason = str(wrong)
    except CompileError as wrong:
        reason = str(wrong).strip().splitlines()[0]
        if not any(one in reason for one in _OF_DISKS):
            raise
    if where not in _unwritable:
        _unwritable.add(where)
        warnings.warn(f"heddle: writing modules to '{where}' failed, so other processes will not find them: {reason}; make room or set another folder",
                      stacklevel=2)
    return _compiled_now(text, target, options, pathlib.Path(_of_this_process().name, name)), True


def _compiled_now(text: str, target: str, options: tuple[str, ...], path: pathlib.Path) -> str:
    where = path.parent
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="graph-", dir=where) as scratch:
        source = os.path.join(scratch, "graph.mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        made = os.path.join(scratch, "graph.heddle")
        _compile(source, made, target=target, options=options)
        os.replace(made, path)  # of several processes, the last one's stays
    return str(path)


def opened(make: Callable[[], tuple[str, bool]], device: str) -> tuple[Module, str, bool]:
    """The module of what `compiled` returns, and that. A file of another process that is damaged is made again."""
    path, is_new = make()
    try:
        return _open(path, device), path, is_new
    except (DataLossError, InvalidArgumentError):
        if is_new:
            raise
        pathlib.Path(path).unlink(missing_ok=True)
    path, is_new = make()
    return _open(path, device), path, is_new
