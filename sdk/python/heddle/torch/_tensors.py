# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of PyTorch in files: safetensors, and bare bytes that a text refers to."""
from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import torch

from .._errors import make

_NAMES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL", torch.int8: "I8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
}
_ALIGNMENT = 64


def _write_elements(file: IO[bytes], name: str, tensor: torch.Tensor) -> None:
    """The row-major elements."""
    if tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor):
        raise make("INVALID_ARGUMENT", f"heddle.torch: writing tensor '{name}' failed: it has no values, since the model was made on the device meta; pass the "
                                       "model with its weights, or params_in")
    if tensor.dtype not in _NAMES or tensor.layout != torch.strided:
        raise make("UNIMPLEMENTED", f"heddle.torch: writing tensor '{name}' failed: elements of {tensor.dtype}, layout {tensor.layout}, are not supported")
    plain = tensor.detach().cpu().contiguous()
    size = plain.numel() * plain.element_size()
    if size:
        file.write(memoryview((ctypes.c_char * size).from_address(plain.data_ptr())))


def _in_order(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Large elements first, so that all are at multiples of their size."""
    return iter(sorted(tensors.items(), key=lambda one: (-one[1].element_size(), one[0])))


def save(tensors: Mapping[str, torch.Tensor], path: str) -> None:
    """A safetensors file. It has its name only when it is complete."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
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
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


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
