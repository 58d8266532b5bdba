# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler with a planted fault: a program that changes the model, or crashes, and then is heddle-compile."""
import os
import pathlib
import stat
import sys
import tempfile
from unittest import mock

from heddle._compile import find_compiler
from heddle._programs import find_heddle

_PROGRAM = """#!{python}
import os, signal, sys
at = next((i for i, one in enumerate(sys.argv) if one.endswith(".onnx") and i), None)
if at is not None:
    model = open(sys.argv[at], "rb").read()
    if {crash!r} and {crash!r} in model:
        print("about to crash", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if {old!r} and {old!r} in model:
        sys.argv[at] += ".changed.onnx"
        open(sys.argv[at], "wb").write(model.replace({old!r}, {new!r}))
os.execv({compiler!r}, [{compiler!r}, *sys.argv[1:]])
"""


def node(operator, name=None):
    """The bytes of a node in a model file: its operator, after its name."""
    name = b"" if name is None else b"\x1a" + bytes([len(name)]) + name.encode()
    return name + b"\x22" + bytes([len(operator)]) + operator.encode()


def planted(case, old=b"", new=b"", crash=b""):
    """Until the test ends, `heddle.compile` is a compiler that takes `old` in a model for `new`, of the same length, and crashes where `crash` is in it."""
    assert len(old) == len(new)
    made = tempfile.TemporaryDirectory(prefix="heddle-test-")
    case.addCleanup(made.cleanup)
    folder = pathlib.Path(made.name)
    compiler = find_compiler()
    (folder / "heddle").symlink_to(os.path.realpath(find_heddle()))
    program = folder / "heddle-compile"
    program.write_text(_PROGRAM.format(python=sys.executable, compiler=compiler, old=old, new=new, crash=crash))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    patch = mock.patch.dict(os.environ, {"HEDDLE_COMPILER": str(program)})
    patch.start()
    case.addCleanup(patch.stop)
