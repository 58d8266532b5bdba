# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Importing this makes the Python package heddle importable, from a wheel in the folder `wheels` of the pack if there is one, and the files of tests/python."""
import os
import pathlib
import sys
import tempfile
import zipfile

os.environ.setdefault("HEDDLE_COMPILER", os.path.join(os.environ.get("HEDDLE_BIN", ""), "heddle-compile"))
_folder = tempfile.TemporaryDirectory(prefix="heddle-wheel-")
for _wheel in sorted(pathlib.Path(os.environ.get("HEDDLE_BUILD", "."), "wheels").glob("heddle-*-abi3-*.whl")):
    with zipfile.ZipFile(_wheel) as _archive:
        for _entry in _archive.infolist():
            _path = pathlib.Path(_archive.extract(_entry, _folder.name))
            if _path.is_file():
                _path.chmod(_entry.external_attr >> 16 & 0o777 or 0o644)
    sys.path.insert(0, _folder.name)
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
