# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `heddle` of the package: starts the program of that name inside of it."""
from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "heddle"
    if not os.access(program, os.X_OK):
        sys.exit(f"heddle: starting failed: {program} is not there; install the package again")
    os.execv(program, ["heddle", *sys.argv[1:]])
