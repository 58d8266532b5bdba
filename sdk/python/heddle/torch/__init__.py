# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Heddle for programs that use PyTorch. `import heddle` does not import it, nor PyTorch."""
from __future__ import annotations

from .report import report

__all__ = ["report"]
