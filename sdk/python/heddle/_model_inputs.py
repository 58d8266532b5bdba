# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of an ONNX model: from .npz files, or made up."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _graphs
from ._errors import make

_EXTENTS = (2, 3, 5, 7, 11, 13, 17)  # of symbols that nobody chose: different ones, so that they can be told apart
_WORDS = ("", "a", "b", "warp", "weft yarn", "糸")


def read(files: Sequence[str]) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    for path in files:
        try:
            with np.load(path, allow_pickle=False) as arrays:
                if not hasattr(arrays, "items"):
                    raise ValueError("it is a single array")
                found.update((name, texts_of(array) if array.dtype.kind in "US" else array) for name, array in arrays.items())
        except (OSError, ValueError) as wrong:
            raise make("INVALID_ARGUMENT", f"heddle: reading '{path}' failed: {wrong}; expected an .npz file with an array for each input") from wrong
    return found


def texts_of(array: Any) -> Any:
    """An array of NumPy's types of text as one of Python's strings, as ONNX Runtime takes it."""
    import numpy as np

    return np.char.decode(array, "utf-8").astype(object) if array.dtype.kind == "S" else array.astype(object)


def storable(array: Any) -> Any:
    """The array as .npz files have it without Python's objects: strings are UTF-8, as heddle run reads them."""
    import numpy as np

    array = np.asarray(array)
    if array.dtype.kind not in "OU":
        return array
    return np.array([str(one).encode() for one in array.flat] or [b""], "S")[:array.size].reshape(array.shape)


def symbols_of(model: Any) -> list[str]:
    """Names of symbolic extents of the inputs, in order."""
    dims = [dim.dim_param for one in model.graph.input for dim in one.type.tensor_type.shape.dim if dim.WhichOneof("value") == "dim_param"]
    return list(dict.fromkeys(dims))


def complete(model: Any, given: Mapping[str, Any], extents: Mapping[str, int], seed: int, uses: str = "--inputs") -> tuple[dict[str, Any], dict[str, int]]:
    """A value for each input of the model, and the extents of its symbols. Inputs that are not given are random: floats are normal, integers
    0 or 1, strings short words."""
    import numpy as np

    helper = _graphs.onnx("helper")
    names = [one.name for one in model.graph.input]
    for name in given:
        if name not in names:
            raise make("INVALID_ARGUMENT", f"heddle: {uses}: the model has no input '{name}'; it has {', '.join(names) or 'none'}")
    known = dict(extents)
    for one in model.graph.input:
        if one.name not in given:
            continue
        for dim, extent in zip(one.type.tensor_type.shape.dim, np.shape(given[one.name])):
            if dim.WhichOneof("value") == "dim_param":
                known.setdefault(dim.dim_param, extent)
    symbols = symbols_of(model)
    for name in extents:
        if name not in symbols:
            raise make("INVALID_ARGUMENT", f"heddle: --dim: '{name}' is no symbol of the model's inputs; they have {', '.join(symbols) or 'none'}")
    free = [extent for extent in _EXTENTS if extent not in known.values()]
    for symbol in symbols:
        if symbol not in known:
            known[symbol] = free.pop(0) if free else 2
    generator = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for one in model.graph.input:
        if one.name in given:
            values[one.name] = given[one.name]
            continue
        kind = one.type.tensor_type
        if one.type.WhichOneof("value") != "tensor_type":
            raise make("INVALID_ARGUMENT", f"heddle: input '{one.name}' is no tensor, and cannot be made up; pass it with {uses}")
        shape = [known[dim.dim_param] if dim.WhichOneof("value") == "dim_param" else dim.dim_value if dim.WhichOneof("value") else 2
                 for dim in kind.shape.dim]
        if kind.elem_type == _graphs.onnx().TensorProto.STRING:
            values[one.name] = np.array(generator.choice(_WORDS, shape), object)
            continue
        element = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if element.kind in "biu":
            values[one.name] = generator.integers(0, 2, shape).astype(element)
        elif element.kind == "c":
            values[one.name] = (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(element)
        else:
            values[one.name] = generator.standard_normal(shape).astype(element)
    return values, {symbol: known[symbol] for symbol in symbols}
