# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles and runs models with the programs `heddle-compile` and `heddle`, in child processes: a crash is an outcome like any other."""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from ._arrays import strings
from ._compile import find_compiler
from ._errors import make

# Element types of heddle by those of NumPy and of the package ml_dtypes, which onnx needs.
NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint64": "u64", "uint32": "u32",
    "uint16": "u16", "uint8": "u8", "bool": "bool", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
}
_OF_OTHERS = {short: name for name, short in NAMES.items() if name.startswith(("bfloat", "float8"))}
_LAST = 20


class Failed(Exception):
    """A program that did not succeed.

    step    "compiling" or "running"
    text    the last lines of what it said
    signal  the name of the signal that ended it, such as "SIGSEGV"; "timeout" if it took too long; empty: it ended by itself
    """

    def __init__(self, step: str, text: str, signal_name: str = "", code: int = 1) -> None:
        self.step, self.text, self.signal, self.code = step, text, signal_name, code
        super().__init__(f"{step} was ended by {signal_name}" + (f"; its last output:\n{text}" if text else "") if signal_name else text)

    @property
    def kind(self) -> str:
        """What stays the same if a model with this failure becomes smaller: the step, the signal, and the error without names and numbers."""
        return f"{self.step}: {self.signal or error_class(self.text)}"


def error_class(text: str) -> str:
    """The first line that is an error, without numbers, types, and what is in quotes or, unless it is the operator, in parentheses."""
    lines = [line for line in text.splitlines() if line.strip() and "warning:" not in line] or [""]
    line = lines[0].split("; the model is ")[0]
    line = re.sub(r"(?<!\w)'[^']*'|\"[^\"]*\"|`[^`]*`", "'...'", line)
    line = re.sub(r" \((?!operator)[^()]*\)", "", line)
    line = re.sub(r"\b(?:bf|f|i|u|c|si|ui)\d+\w*\b(?:\[[^\]]*\])?|tensor<[^>]*>|\[[^\]]*\]|<[^>]*>", "T", line)
    return re.sub(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", "N", line)[:400]


def find_heddle() -> str:
    """The program heddle: of this package, beside the compiler, or on PATH."""
    folders = [pathlib.Path(__file__).resolve().parent / "bin"]
    if os.environ.get("HEDDLE_COMPILER"):
        folders.insert(0, pathlib.Path(os.environ["HEDDLE_COMPILER"]).resolve().parent)
    for folder in folders:
        if os.access(folder / "heddle", os.X_OK) and (folder / "heddle").is_file():
            return str(folder / "heddle")
    beside = pathlib.Path(find_compiler()).resolve().parent / "heddle"
    if os.access(beside, os.X_OK) and beside.is_file():
        return str(beside)
    found = shutil.which("heddle")
    if found is None:
        raise make("NOT_FOUND", "heddle: running failed: the program heddle is neither in this package, nor beside the compiler, nor on PATH; install heddle")
    return found


def run_program(step: str, command: Sequence[str], timeout: float | None) -> str:
    """stdout; raises Failed."""
    try:
        done = subprocess.run(list(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(step, f"it took longer than {timeout:g} s", "timeout", -1) from None
    except OSError as wrong:
        raise make("UNAVAILABLE", f"heddle: {step} failed: {command[0]} cannot be started: {wrong.strerror}", "errno", wrong.errno or 0) from wrong
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    text = "\n".join(done.stderr.decode(errors="replace").strip().splitlines()[:_LAST])
    name = ""
    # 128 + N is what shells make of a signal.
    number = -done.returncode if done.returncode < 0 else done.returncode - 128 if done.returncode > 128 else 0
    if number:
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    raise Failed(step, text or f"exit code {done.returncode}", name, done.returncode)


def compile_model(model: pathlib.Path, module: pathlib.Path, options: Sequence[str] = (), timeout: float | None = None) -> None:
    """Compiles a model. `options` are those of `heddle compile`."""
    run_program("compiling", [find_compiler(), str(model), "-o", str(module), "--progress", "never", *options], timeout)


def description(module: pathlib.Path) -> dict[str, Any]:
    """What `heddle explain --format json` shows."""
    shown: dict[str, Any] = json.loads(run_program("reading", [find_heddle(), "explain", str(module), "--format", "json"], 600))
    return shown


def function_of(shown: dict[str, Any]) -> dict[str, Any]:
    """The module's only function, or main."""
    found: dict[str, Any] = next((one for one in shown["functions"] if one["name"] == "main"), shown["functions"][0])
    return found


def written(value: Any, path: pathlib.Path) -> str:
    """Writes an array for --input: as .npy, or as its bytes, with the type, if NumPy's format has no such type. Strings become bytes."""
    import numpy as np

    value = np.asarray(value)
    if value.dtype.kind in "OUS":
        value = as_bytes(value)
    name = value.dtype.name if value.dtype.kind == "c" else NAMES.get(value.dtype.name)
    if name is None:
        raise make("UNIMPLEMENTED", f"heddle: running failed: no input can have the type {value.dtype.name}")
    if name not in _OF_OTHERS:
        np.save(path.with_suffix(".npy"), np.ascontiguousarray(value).reshape(value.shape))
        return f"@{path.with_suffix('.npy')}"
    path.with_suffix(".bin").write_bytes(value.tobytes())
    return f"{name}[{','.join(map(str, value.shape))}]=@{path.with_suffix('.bin')}"


def as_bytes(value: Any) -> Any:
    """Strings as heddle takes them: UTF-8 with zeros behind it, along one more dimension."""
    import numpy as np

    coded = [one if isinstance(one, bytes) else str(one).encode() for one in value.reshape(-1)]
    width = max(map(len, coded), default=0)
    return np.frombuffer(b"".join(one.ljust(width, b"\0") for one in coded), np.uint8).reshape(*value.shape, width)


def is_tensor(value: Any) -> bool:
    """Whether it is an array that heddle has an equivalent of: of numbers, or of strings."""
    return hasattr(value, "dtype") and (value.dtype.name in NAMES or value.dtype.kind in "cOUS")


def as_expected(value: Any, expected: Any) -> Any:
    """A result of a module as the array that another implementation has: strings of bytes, complex numbers of pairs of floats, and, of a type that is
    read as bytes, with its shape. What does not fit stays as it is."""
    import numpy as np

    if expected.dtype.kind in "OUS" and value.dtype == np.uint8 and value.ndim == expected.ndim + 1:
        return strings(value).astype(object)
    if expected.dtype.kind == "c" and value.ndim == expected.ndim + 1 and value.shape[-1] == 2 and value.dtype.itemsize * 2 == expected.dtype.itemsize:
        return np.ascontiguousarray(value).view(expected.dtype)[..., 0]
    if value.ndim == 1 and value.shape != expected.shape and value.dtype.name in ("bfloat16", "uint8") and value.size == expected.size:
        return value.reshape(expected.shape)
    return value


def run_module(module: pathlib.Path, inputs: Sequence[Any], folder: pathlib.Path, device: str = "", options: Sequence[str] = (),
               timeout: float | None = None, shown: dict[str, Any] | None = None) -> list[Any]:
    """Calls the module's function with arrays, by position, and returns its results. Files go to `folder`. One whose type NumPy's format does not
    have is flat. `shown` is the module's description, if the caller has it."""
    import numpy as np

    results = function_of(shown or description(module))["results"]
    lines = [f"--input={written(value, folder / f'input{i}')}" for i, value in enumerate(inputs)]
    paths = [folder / f"result{i}{'.bin' if result['element_type'] in _OF_OTHERS else '.npy'}" for i, result in enumerate(results)]
    lines += [f"--output=@{path}" for path in paths]
    flags = folder / "arguments.txt"
    flags.write_text("\n".join(lines) + "\n")
    given = ["--device", device] if device else []
    run_program("running", [find_heddle(), "run", str(module), "--flagfile", str(flags), *given, *options], timeout)
    values: list[Any] = []
    for path, result in zip(paths, results, strict=True):
        if path.suffix == ".npy":
            values.append(np.load(path))
        else:
            values.append(np.frombuffer(path.read_bytes(), np.dtype(_OF_OTHERS[result["element_type"]])))
    return values
