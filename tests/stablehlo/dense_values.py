# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values of `dense<...> : tensor<...>` as arrays, from the attribute's text: also of types that NumPy lacks, such as bf16, and complex numbers."""
import re

import numpy as np

from case_files import dtype_of

TYPES = {"i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2",
         "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz", "f8E4M3B11FNUZ": "float8_e4m3b11fnuz", "f8E3M4": "float8_e3m4",
         "f8E4M3": "float8_e4m3", "f8E8M0FNU": "float8_e8m0fnu", "f4E2M1FN": "float4_e2m1fn", "f6E2M3FN": "float6_e2m3fn", "f6E3M2FN": "float6_e3m2fn",
         "complex<f32>": "complex64", "complex<f64>": "complex128",
         **{f"{sign}i{bits}": f"{'u' if sign == 'u' else ''}int{bits}" for sign in ("", "u", "s") for bits in (2, 4, 8, 16, 32, 64)}}
TYPE = re.compile(r"^tensor<((?:\d+x)*)(.+)>$")
TOKEN = re.compile(r"true|false|0x[0-9A-Fa-f]+|-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?)|[\[\](),]")


class NotReadable(Exception):
    pass


def array_type(text):
    """(shape, dtype) of a tensor type of static extents."""
    found = TYPE.match(text)
    if not found or found[2] not in TYPES:
        raise NotReadable(f"values of type {text} cannot be read")
    return tuple(int(extent) for extent in found[1].split("x") if extent), dtype_of(TYPES[found[2]])


def number(token, dtype):
    """One real value of the type. Hexadecimal digits are the bits of a float."""
    if token in ("true", "false"):
        return np.array(token == "true").astype(dtype)
    if dtype.kind in "iub" and dtype.name[:3] in ("int", "uin", "boo"):
        return np.array(int(token, 0)).astype(dtype)
    if token.startswith("0x"):
        return np.array(int(token, 16), f"u{dtype.itemsize}").view(dtype)
    return np.array(float(token)).astype(dtype)


def values(text):
    """The array of `dense<...> : type`."""
    body, separator, kind = text.partition(" : ") if not text.startswith('dense<"') else text.partition('"> : ')
    if not separator or not text.startswith("dense<"):
        raise NotReadable(f"'{text[:60]}' is not dense<...>")
    shape, dtype = array_type(kind)
    size = int(np.prod(shape))
    if size == 0:
        return np.zeros(shape, dtype)
    if text.startswith('dense<"0x'):
        raw = bytes.fromhex(body[len('dense<"0x'):])
        if dtype == np.bool_ and len(raw) == -(-size // 8) and size > 1:
            return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[:size].astype(bool).reshape(shape)
        found = np.frombuffer(raw, dtype)
        return (np.broadcast_to(found[0], shape) if found.size == 1 else found.reshape(shape)).copy()
    part = np.dtype(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype
    tokens = [token for token in TOKEN.findall(body[len("dense<"):].removesuffix(">")) if token not in "[](),"]
    found = np.array([number(token, part) for token in tokens], part).reshape(-1) if tokens else np.zeros(0, part)
    if dtype.kind == "c":
        found = found.view(dtype)
    return (np.broadcast_to(found[0], shape) if found.size == 1 else found.reshape(shape)).copy()

