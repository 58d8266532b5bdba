# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The log of the runtime as records of `logging`: the logger is "heddle.", followed by the part of libheddle or the plugin's id."""
from __future__ import annotations

import logging
import threading

TRACE = 5
_LEVELS = (TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


def write(level: int, component: str, message: str) -> None:
    """Called by the extension for each line."""
    name = component if component.startswith("heddle.") else f"heddle.{component}"
    logging.getLogger(name).log(_LEVELS[min(level, len(_LEVELS) - 1)], "%s", message)


def start(work: Callable[[], object]) -> None:
    """Called by the extension for lines that no other thread is about to deliver."""
    threading.Thread(target=work, name="heddle.log", daemon=True).start()
