# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs models that Heddle compiled.

    import heddle, numpy
    heddle.compile("digits.onnx", "digits.heddle")
    with heddle.open("digits.heddle") as digits:
        logits = digits(numpy.zeros((1, 1, 8, 8), "float32"))
    print(logits.numpy())

Functions take NumPy arrays, tensors of other libraries (DLPack) and heddle.Tensor, by position or by name, and return heddle.Tensor. docs/python.md
says when arrays are copied. Failures are exceptions below heddle.Error.
"""
from __future__ import annotations

from ._core import Call, Function, State, Tensor
from ._errors import (AbortedError, AlreadyExistsError, ArgumentTypeError, CancelledError, CompileError, DataLossError, DeadlineExceededError,
                      DeviceLostError, Error, FailedPreconditionError, InternalError, InvalidArgumentError, MissingFileError, NotFoundError,
                      OutOfRangeError, PermissionDeniedError, ResourceExhaustedError, UnauthenticatedError, UnavailableError, UnimplementedError,
                      UnknownError)
from ._module import Module, Runtime, open, shared_runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import _records
    from ._arrays import empty, strings
    from ._compile import compile, merge_adapter
    from ._records import Device, DeviceMemory
    from ._types import TensorType
else:  # what typing.get_type_hints finds
    from ._later import Later

    Any = object
    _records = Later("heddle._records")

__all__ = [
    "AbortedError", "AlreadyExistsError", "ArgumentTypeError", "Call", "CancelledError", "CompileError", "DataLossError", "DeadlineExceededError",
    "Device", "DeviceLostError", "DeviceMemory", "Error", "FailedPreconditionError", "Function", "InternalError", "InvalidArgumentError", "MissingFileError", "Module",
    "NotFoundError", "OutOfRangeError", "PermissionDeniedError", "ResourceExhaustedError", "Runtime", "State", "Tensor", "TensorType",
    "UnauthenticatedError", "UnavailableError", "UnimplementedError", "UnknownError", "compile", "devices", "empty", "merge_adapter", "open",
    "plugins", "strings", "tensor",
]

__version__ = "0.1.0"


def devices() -> list[_records.Device]:
    """Every device of this machine, as `heddle devices` lists them."""
    return shared_runtime().devices()


def tensor(array: Any, device: str = "cpu") -> Tensor:
    """A tensor with a copy of an array in host memory, for functions of all modules on that device, such as "cpu" or "cuda:0"."""
    return shared_runtime().tensor(array, device)


def plugins() -> list[dict[str, Any]]:
    """Every plugin that was found, with its state and the reason."""
    return shared_runtime().plugins()


_LATER = {"compile": "_compile", "merge_adapter": "_compile", "empty": "_arrays", "strings": "_arrays", "Device": "_records", "DeviceMemory": "_records", "TensorType": "_types"}  # these import more than a program needs that only runs models


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'heddle' has no attribute '{name}'")
    import importlib

    found = getattr(importlib.import_module("heddle." + _LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
