# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that take long to import, for annotations: typing.get_type_hints evaluates these."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Later:
    """A module that is imported when one of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        import importlib

        return getattr(importlib.import_module(self._name), attribute)
