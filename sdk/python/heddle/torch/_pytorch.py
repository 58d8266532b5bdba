# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch, imported when something of it is needed, and not known to type checkers, since it is an optional package."""
from __future__ import annotations

import importlib
from typing import Any


def pytorch(name: str = "") -> Any:
    """The package torch, or a module of it, such as "_dynamo.exc". Raises ImportError if there is none."""
    return importlib.import_module("torch" + ("." + name if name else ""))
