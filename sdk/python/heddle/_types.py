# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The type of an argument or a result. A module of its own, since `typing` takes a third of the time of `import heddle`."""
from __future__ import annotations

from typing import NamedTuple


class TensorType(NamedTuple):
    """The type of an argument or a result. An extent is a number, the name of its symbol, or None if the function computes it."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
