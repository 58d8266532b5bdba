# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins that other wheels install: the entry-point group `heddle.plugins`."""
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "heddle.plugins"
_found: list[str] | None = None


def _exist() -> bool:
    """Whether any installed distribution has entries of the group. To import importlib.metadata takes ten times as long as to look."""
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                names = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for name in names:
            try:
                with open(os.path.join(name, "entry_points.txt"), "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
            except OSError:
                continue
    return False


def _folder(entry: EntryPoint) -> str | None:
    """The directory of the package that an entry names. The package is not imported, unless its installation does not have it (an editable one)."""
    if entry.dist is not None:
        folder = str(entry.dist.locate_file(entry.value.replace(".", "/")))
        if os.path.isdir(folder):
            return folder
    import importlib.util

    try:
        spec = importlib.util.find_spec(entry.value)
    except Exception:  # that package fails to be imported
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if os.path.isdir(folder):
            return folder
    return None


def plugin_paths() -> list[str]:
    """The directories of manifests of all entries, in the order of their names. Those that do not exist are logged."""
    global _found
    if _found is None:
        found: list[str] = []
        if not _exist():
            _found = found
            return found
        from importlib import metadata

        for entry in sorted(metadata.entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
            folder = _folder(entry)
            if folder is None:
                import logging

                logging.getLogger("heddle").warning("heddle: the entry point '%s = %s' of group %s names a package whose directory does not exist; "
                                                    "its plugins are not available; install it again", entry.name, entry.value, GROUP)
            elif folder not in found:
                found.append(folder)
        _found = found  # whole: another thread may look
    return _found
