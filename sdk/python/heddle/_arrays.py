# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors as NumPy arrays and back. NumPy is imported when one of these functions is called."""
from __future__ import annotations

import operator
import sys
from _collections_abc import Sequence

from ._check import has
from ._errors import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy

    from ._core import Tensor
else:  # what typing.get_type_hints finds
    from ._core import Tensor
    from ._later import Later

    Any = object
    numpy = Later("numpy")

# Element types of the package ml_dtypes: NumPy stores them, but exports them by no protocol.
_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "float8_e4m3fnuz": "uint8", "float8_e5m2fnuz": "uint8",
         "float8_e8m0fnu": "uint8"}
# Elements of less than 8 bits, which ml_dtypes has in a byte each, and Heddle packed.
_PACKED = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
_COMPLEX = {"complex64": "float32", "complex128": "float64"}  # a last dimension of 2: the real and the imaginary part
_ALIGNMENT = 64


def bits_of(array: Any) -> tuple[Any, str] | None:
    """The bits of an array of ml_dtypes, strings or complex numbers, and the name of their type; None for any other object. heddle._core calls it."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, (numpy.ndarray, numpy.generic)) and array.dtype.name in _COMPLEX:
        whole = numpy.ascontiguousarray(array)
        parts = whole.reshape(*array.shape, 1).view(_COMPLEX[array.dtype.name])
        if whole is not array:  # nothing is written to a copy
            parts.flags.writeable = False
        return parts, _COMPLEX[array.dtype.name]
    if numpy is not None and isinstance(array, (numpy.ndarray, numpy.generic)) and array.dtype.kind in ("S", "U", "O"):
        text = _bytes_of(array)
        return None if text is None else (text, "uint8")
    name = getattr(getattr(array, "dtype", None), "name", None)
    if name not in _BITS or numpy is None or not isinstance(array, numpy.ndarray):
        return None
    return array.view(_BITS[name]), name


def _bytes_of(array: Any) -> Any:
    """Strings as calls take them: UTF-8 with zeros behind it, along one more dimension. None if the array has anything else."""
    import numpy

    try:
        if array.dtype.kind == "O":
            if not all(isinstance(one, str) for one in array.flat):
                return None
            array = numpy.array([one.encode() for one in array.flat] or [b""], "S")[:array.size].reshape(array.shape)
        elif array.dtype.kind == "U":
            array = numpy.char.encode(array, "utf-8")
    except UnicodeEncodeError as wrong:
        raise make("INVALID_ARGUMENT", f"heddle: reading an array of strings failed: one of them is no Unicode text: {wrong}; replace its surrogates") from None
    text = numpy.frombuffer(numpy.ascontiguousarray(array), "uint8").reshape(*array.shape, array.dtype.itemsize)
    text.flags.writeable = False  # it may be a copy
    return text


def strings(tensor: Any) -> numpy.ndarray[Any, Any]:
    """The strings that a model returned, as an array of NumPy's type of text; `tensor` has their bytes along its last dimension."""
    import numpy

    array = numpy.ascontiguousarray(tensor)
    if array.dtype != numpy.uint8 or array.ndim == 0:
        raise make("TYPE", f"heddle: making strings of a tensor failed: they are uint8 with at least one dimension, got {array.dtype} of rank {array.ndim}")
    width = array.shape[-1]
    if array.size == 0:
        return numpy.zeros(array.shape[:-1], "U1")
    try:
        return numpy.char.decode(array.view(f"S{width}").reshape(array.shape[:-1]), "utf-8")
    except UnicodeDecodeError as wrong:
        raise make("INVALID_ARGUMENT", f"heddle: making strings of a tensor failed: its bytes are not UTF-8: {wrong}") from None


def dtype_of(name: str) -> Any:
    """NumPy's type of that name, from ml_dtypes if NumPy itself has none."""
    import numpy

    if name not in _BITS and name not in _PACKED:
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise make("UNIMPLEMENTED", f"heddle: making a NumPy array of {name} failed: NumPy has no such type; pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, name))


def _dtype_of(given: Any) -> Any:
    import numpy

    try:
        return dtype_of(given) if isinstance(given, str) else numpy.dtype(given)
    except (TypeError, ValueError, AttributeError) as wrong:
        raise make("TYPE", f"heddle: making an array failed: dtype is one of NumPy or its name, got {given!a:.80}: {wrong}") from None


def as_numpy(tensor: Tensor) -> numpy.ndarray[Any, Any]:
    """The tensor as an array: over its memory if that is the host's, else a copy."""
    import numpy

    name = tensor.dtype
    if name in _PACKED:
        raise make("UNIMPLEMENTED", f"heddle: making a NumPy array of {name} failed: packed types are not implemented; let the model return {'float16' if name.startswith('float') else 'int8'}")
    if not tensor.is_host:
        out = numpy.empty(tensor.shape, dtype_of(name))
        tensor._read_into(out.reshape(-1).view("uint8"))
        return out
    if name not in _BITS:
        return numpy.asarray(memoryview(tensor))
    return numpy.frombuffer(tensor._bytes(), dtype_of(name)).reshape(tensor.shape)  # type: ignore[call-overload, no-any-return]


def array_of(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
    """Tensor.__array__."""
    kind = None if dtype is None else _dtype_of(dtype)
    if copy is not None and type(copy).__name__ not in ("bool", "bool_"):
        raise make("TYPE", f"heddle: making an array of a tensor failed: copy is None, True or False, got {copy!a:.80}")
    out = as_numpy(tensor)
    if copy is not None and not copy and (not tensor.is_host or (kind is not None and kind != out.dtype)):
        raise make("INVALID_ARGUMENT",
                   "heddle: making an array of a tensor without a copy failed: its memory is not the host's, or another dtype is asked for")
    if kind is not None:
        out = out.astype(kind, copy=False)
    return out.copy() if copy else out


def item_of(tensor: Tensor) -> Any:
    """Tensor.item."""
    array = as_numpy(tensor)
    if array.size != 1:
        raise make("INVALID_ARGUMENT", f"heddle: making a number of a tensor failed: it has {array.size} elements; use tolist()")
    return array.item()


def _extents_of(shape: Any) -> tuple[int, ...]:
    try:
        if isinstance(shape, (bool, bytes, bytearray, memoryview)) or has(shape, "items"):
            raise TypeError
        try:
            return (operator.index(shape),)
        except TypeError:
            return tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise make("TYPE", f"heddle: making an array failed: shape is a number or several, got {shape!a:.80}") from None


def empty(shape: int | Sequence[int], dtype: Any = "float32") -> numpy.ndarray[Any, Any]:
    """A NumPy array that calls use without a copy: its address is a multiple of 64 bytes. Its contents are undefined."""
    import numpy

    kind = _dtype_of(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise make("TYPE", f"heddle: making an array failed: dtype is a number, got {kind}")
    extents = _extents_of(shape)
    size = kind.itemsize
    if len(extents) > 16:
        raise make("INVALID_ARGUMENT", f"heddle: making an array failed: a tensor has at most 16 dimensions, got {len(extents)}")
    for extent in extents:
        if extent < 0:
            raise make("INVALID_ARGUMENT", f"heddle: making an array failed: an extent is 0 or more, got {shape!a:.80}")
        size *= extent
    try:
        place = numpy.empty(size + _ALIGNMENT, "uint8")
    except (MemoryError, ValueError, OverflowError) as failure:
        code = "RESOURCE_EXHAUSTED" if isinstance(failure, MemoryError) else "INVALID_ARGUMENT"
        raise make(code, f"heddle: making an array of {size} bytes failed: {failure}") from None
    start = -place.ctypes.data % _ALIGNMENT
    out: numpy.ndarray[Any, Any] = place[start:start + size].view(kind).reshape(extents)
    return out
