# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions of heddle: one class per status code of libheddle, each also a built-in exception of that meaning."""
from __future__ import annotations


class Error(Exception):
    """A failure. `str()` says who failed at what, why, and what to do next.

    code          the name of the status, such as "NOT_FOUND"
    domain        of the native code: "errno", "cuda", or empty
    native_code   the error code of that domain, or 0; of an OSError also its `errno`
    payload       what is known beyond the text: "region", "region_name", "operator", "deadline"
    """

    code = "UNKNOWN"
    domain = ""
    native_code = 0
    payload: dict[str, str] = {}


class CancelledError(Error, RuntimeError):
    code = "CANCELLED"


class UnknownError(Error, RuntimeError):
    code = "UNKNOWN"


class InvalidArgumentError(Error, ValueError):
    code = "INVALID_ARGUMENT"


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of a class or an element type that cannot be used."""


class DeadlineExceededError(Error, TimeoutError):
    code = "DEADLINE_EXCEEDED"


class NotFoundError(Error, LookupError):
    code = "NOT_FOUND"


class MissingFileError(NotFoundError, FileNotFoundError):
    """A file that does not exist."""


class AlreadyExistsError(Error, FileExistsError):
    code = "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    code = "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    code = "FAILED_PRECONDITION"


class AbortedError(Error, RuntimeError):
    code = "ABORTED"


class OutOfRangeError(Error, IndexError):
    code = "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    code = "UNIMPLEMENTED"


class InternalError(Error, RuntimeError):
    code = "INTERNAL"


class UnavailableError(Error, RuntimeError):
    code = "UNAVAILABLE"


class DataLossError(Error, RuntimeError):
    code = "DATA_LOSS"


class UnauthenticatedError(Error, PermissionError):
    code = "UNAUTHENTICATED"


class DeviceLostError(Error, RuntimeError):
    code = "DEVICE_LOST"


class CompileError(Error, RuntimeError):
    """The compiler refused the model, or ended without a result.

    exit_code   of the compiler; negative: the signal that ended it
    output      the last lines that it printed
    """

    exit_code = 0
    output = ""


_CLASSES = {
    one.code: one
    for one in (
        CancelledError, UnknownError, InvalidArgumentError, DeadlineExceededError, NotFoundError, AlreadyExistsError, PermissionDeniedError,
        ResourceExhaustedError, FailedPreconditionError, AbortedError, OutOfRangeError, UnimplementedError, InternalError, UnavailableError,
        DataLossError, UnauthenticatedError, DeviceLostError)
}
_CLASSES["TYPE"] = ArgumentTypeError


def make(code: str, text: str, domain: str = "", native_code: int = 0, payload: dict[str, str] | None = None) -> Error:
    """The exception of a status. heddle._core calls it."""
    kind = _CLASSES.get(code, UnknownError)
    if kind is NotFoundError and domain == "errno" and native_code == 2:
        kind = MissingFileError
    error = kind(text)
    error.code = kind.code if code == "TYPE" else code
    error.domain = domain
    error.native_code = native_code
    error.payload = payload or {}
    if domain == "errno" and isinstance(error, OSError):
        error.errno = native_code
    return error
