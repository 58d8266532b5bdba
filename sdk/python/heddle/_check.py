# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What callers pass in spite of the annotations: errors that name the argument, what was expected, and what came."""
from __future__ import annotations

from ._errors import Error, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def class_of(given: object) -> str:
    return str(type(given).__name__)


def is_a(given: object, kind: type) -> bool:
    return isinstance(given, kind)


def has(given: object, method: str) -> bool:
    return hasattr(type(given), method)


def wrong(doing: str, what: str, expected: str, given: object, hint: str = "") -> Error:
    return make("TYPE", f"heddle: {doing} failed: {what} is {expected}, got {class_of(given)}{hint}")


def text_of(given: Any, doing: str, what: str, expected: str = "a str or an os.PathLike of one",
            of_bytes: str = "os.fsdecode makes a path of bytes") -> str:
    """A string, or a path as one."""
    text: Any = given.__fspath__() if has(given, "__fspath__") else given
    if not isinstance(text, str):
        raise wrong(doing, what, expected, given, "; " + of_bytes if isinstance(text, bytes) else "")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise make("INVALID_ARGUMENT", f"heddle: {doing} failed: {what} is {text!a}, which is not UTF-8; rename it") from None
    if "\0" in text:
        raise make("INVALID_ARGUMENT", f"heddle: {doing} failed: {what} is {text!a}, which has a zero byte; leave it out")
    return text


def texts_of(given: Any, doing: str, what: str) -> list[str]:
    """One string or path, or several."""
    if is_a(given, str) or has(given, "__fspath__"):
        return [text_of(given, doing, what)]
    try:
        several = None if has(given, "items") else list(given)
    except TypeError:
        several = None
    if several is None:
        raise wrong(doing, what, "a str, or several in a list", given)
    return [text_of(one, doing, f"an element of {what}") for one in several]


def pairs_of(given: Any, doing: str, what: str) -> list[tuple[str, str]]:
    """Names and names, of a dictionary."""
    if given is None:
        return []
    if not has(given, "items"):
        raise wrong(doing, what, "a dictionary of names", given)
    return [(text_of(key, doing, f"a name in {what}", "a str"), text_of(value, doing, f"a value of {what}", "a str")) for key, value in given.items()]


def flag_of(given: Any, doing: str, what: str) -> bool:
    """True or False, of Python or of NumPy."""
    if not is_a(given, bool) and type(given).__name__ not in ("bool", "bool_"):
        raise wrong(doing, what, "True or False", given)
    return bool(given)


def number_of(given: Any, doing: str, what: str) -> float:
    try:
        number = float(given) if has(given, "__float__") or has(given, "__index__") else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise make("TYPE", f"heddle: {doing} failed: {what} is a number, got {given!a:.80}")
    return number


def check_callable(given: object, doing: str, what: str, expected: str) -> None:
    if given is not None and not callable(given):
        raise wrong(doing, what, expected, given)


def seconds_of(given: Any, doing: str) -> float | None:
    if given is None:
        return None
    try:
        seconds = float(given) if has(given, "__float__") or has(given, "__index__") else None
    except (TypeError, ValueError, OverflowError):
        seconds = None
    if seconds is None or seconds != seconds:
        raise make("TYPE" if seconds is None else "INVALID_ARGUMENT", f"heddle: {doing} failed: timeout is a number of seconds or None, got {given!a:.80}")
    seconds = max(seconds, 0.0)
    if seconds >= 1e9:
        return None  # for ever
    return int(seconds) if seconds.is_integer() else seconds
