# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The log of the runtime as records of `logging`: the logger is "heddle.", followed by the part of libheddle or the plugin's id."""
from __future__ import annotations

import logging

TRACE = 5
_LEVELS = (TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def write(level: int, component: str, message: str) -> None:
    """Called by the extension for each line."""
    name = component if component.startswith("heddle.") else f"heddle.{component}"
    logging.getLogger(name).log(_LEVELS[min(level, len(_LEVELS) - 1)], "%s", message)
