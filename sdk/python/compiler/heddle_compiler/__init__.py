# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of the compiler of heddle. `heddle.compile` and `heddle compile` start them; nothing here is loaded into the process."""
from __future__ import annotations

import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def _start(name: str) -> None:
    program = FOLDER / name
    if not os.access(program, os.X_OK):
        sys.exit(f"{name}: starting failed: {program} is not there; install the package heddle-compiler again")
    os.execv(program, [name, *sys.argv[1:]])


def compile() -> None:
    _start("heddle-compile")


def page() -> None:
    _start("heddle-page")


def params() -> None:
    _start("heddle-params")


def profile() -> None:
    _start("heddle-profile")


def tune() -> None:
    _start("heddle-tune")
