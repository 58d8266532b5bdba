# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of PyTorch in files: safetensors, and bare bytes that a text refers to."""
from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import torch

from .._errors import make

_NAMES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
}
_TYPES = {name: one for one, name in _NAMES.items()}
_ALIGNMENT = 64


def check(name: str, tensor: torch.Tensor) -> None:
    """Raises what a tensor that cannot be written is refused with."""
    if tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor):
        raise make("INVALID_ARGUMENT", f"heddle.torch: writing tensor '{name}' failed: it has no values, since the model was made on the device meta; pass the "
                                       "model with its weights, or params_in")
    if tensor.dtype not in _NAMES or tensor.layout != torch.strided:
        raise make("UNIMPLEMENTED", f"heddle.torch: writing tensor '{name}' failed: elements of {tensor.dtype}, layout {tensor.layout}, are not supported")


def _write_elements(file: IO[bytes], name: str, tensor: torch.Tensor) -> None:
    """The row-major elements."""
    check(name, tensor)
    plain = tensor.detach().cpu().contiguous()
    size = plain.numel() * plain.element_size()
    if size:
        file.write(memoryview((ctypes.c_char * size).from_address(plain.data_ptr())))


def _in_order(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Large elements first, so that all are at multiples of their size."""
    return iter(sorted(tensors.items(), key=lambda one: (-one[1].element_size(), one[0])))


def save(tensors: Mapping[str, torch.Tensor], path: str, metadata: Mapping[str, str] | None = None, *, durable: bool = False) -> None:
    """A safetensors file. It has its name only when it is complete; `durable`: and on the disk."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    offset = 0
    for name, tensor in _in_order(tensors):
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES.get(tensor.dtype, str(tensor.dtype)), "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name, tensor in _in_order(tensors):
                _write_elements(file, name, tensor)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
        if durable:
            folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def load(path: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """(tensors by name, metadata) of a safetensors file. The tensors are private copies of the file's pages, which are read when they are used."""
    def fail(cause: str, code: str = "DATA_LOSS") -> Exception:
        return make(code, f"heddle.torch: reading '{path}' failed: {cause}")

    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b""
    except OSError as wrong:
        raise make("NOT_FOUND" if isinstance(wrong, FileNotFoundError) else "UNAVAILABLE", f"heddle.torch: reading '{path}' failed: {wrong.strerror}", "errno",
                   wrong.errno or 0) from None
    begin = 8 + int.from_bytes(data[:8], "little")
    if size < 8 or begin > size:
        raise fail("it is no safetensors file, or not complete: it ends before its header does")
    try:
        header = json.loads(bytes(data[8:begin]))
        metadata = header.pop("__metadata__", {})
        entries = {name: (one["dtype"], [int(extent) for extent in one["shape"]], *map(int, one["data_offsets"])) for name, one in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise fail("it is no safetensors file: its header is not the JSON of one") from None
    tensors: dict[str, torch.Tensor] = {}
    for name, (kind, shape, first, last) in entries.items():
        dtype = _TYPES.get(kind)
        if dtype is None:
            raise fail(f"tensor '{name}' has elements of type {kind!a:.20}, which are not supported", "UNIMPLEMENTED")
        count = math.prod(shape)
        if min(shape, default=0) < 0 or first < 0 or last - first != count * dtype.itemsize or last > size - begin:
            raise fail(f"tensor '{name}' of {kind} {shape} is said to be in the bytes {first} to {last} of {size - begin}; the file is damaged or not complete")
        tensors[name] = torch.frombuffer(data, dtype=dtype, count=count, offset=begin + first).reshape(shape) if count else torch.empty(shape, dtype=dtype)
    return tensors, metadata


def write(tensors: Mapping[str, torch.Tensor], path: str) -> dict[str, tuple[str, int, int]]:
    """Bare bytes; (name of the file, offset, bytes) by the names of the tensors."""
    found: dict[str, tuple[str, int, int]] = {}
    with open(path, "wb") as file:
        for name, tensor in _in_order(tensors):
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            begin = file.tell()
            _write_elements(file, name, tensor)
            found[name] = (os.path.basename(path), begin, file.tell() - begin)
    return found
