# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies that may be changed, also of what is read-only, as the sources may be."""
import pathlib
import shutil
import stat


def copy(source, target):
    made = pathlib.Path(shutil.copy(source, target))
    made.chmod(made.stat().st_mode | stat.S_IWUSR)
    return made


def copytree(source, target, **options):
    made = pathlib.Path(shutil.copytree(source, target, **options))
    for path in [made, *made.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return made
