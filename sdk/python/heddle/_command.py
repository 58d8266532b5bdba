# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `heddle` of the package: starts the program of that name inside of it."""
from __future__ import annotations

import os
import pathlib
import sys

from heddle._plugins import plugin_paths


def compiler_folder() -> pathlib.Path | None:
    """The programs of the package heddle-compiler; None if it is not installed. It is not imported."""
    beside = pathlib.Path(__file__).resolve().parent.parent / "heddle_compiler"
    if not beside.is_dir():
        import importlib.util

        spec = importlib.util.find_spec("heddle_compiler")
        if spec is None or spec.origin is None:
            return None
        beside = pathlib.Path(spec.origin).resolve().parent
    return beside / "bin"


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "heddle"
    if not os.access(program, os.X_OK):
        sys.exit(f"heddle: starting failed: {program} is not there; install the package again")
    # Where the program looks for other commands, such as heddle-compile, and heddle-diff beside the script that runs this.
    folders = [str(folder) for folder in (compiler_folder(), pathlib.Path(sys.argv[0]).resolve().parent) if folder is not None]
    # Plugins of other wheels come before those that the environment names, as they do for heddle.open.
    plugins = plugin_paths()
    unnamed = [folder for folder in plugins if os.pathsep in folder]
    if unnamed:
        print(f"heddle: plugins in {unnamed[0]} are not found, since a directory with '{os.pathsep}' in its name cannot be in HEDDLE_PLUGIN_PATH",
              file=sys.stderr)
    named = [*(folder for folder in plugins if folder not in unnamed), os.environ.get("HEDDLE_PLUGIN_PATH", "")]
    if plugins:
        os.environ["HEDDLE_PLUGIN_PATH"] = os.pathsep.join(filter(None, named))
    os.environ["PATH"] = os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), *folders]))
    os.execv(program, ["heddle", *sys.argv[1:]])
