# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.compile and heddle.merge_adapter: programs as child processes, so that LLVM and failures stay outside of this one."""
from __future__ import annotations

import os
import pathlib
import re
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import warnings
from typing import Any, Callable, Iterable, Mapping, Sequence, Union, cast

from ._check import check_callable, flag_of, number_of, pairs_of, seconds_of, text_of, texts_of
from ._command import compiler_folder
from ._errors import CompileError, make
from ._module import Parameters, _ParameterFiles

PathLike = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, int, int], object]
_LINES = 30
_WARNING = "heddle compile: warning: "
_MERGE_WARNING = "heddle params merge: warning: "
_OPEN = re.compile(r"/(?:proc/self|dev)/fd/([0-9]{1,9})")
_CLEAR = b"\r\x1b[K"
_STEP = re.compile(r"(\S+), (\d+) of (\d+) done, [0-9.]+ s")


def find_compiler() -> str:
    """$HEDDLE_COMPILER, else heddle-compile of this package or of the package heddle-compiler, else that on PATH."""
    named = os.environ.get("HEDDLE_COMPILER")
    if named:
        if not os.access(named, os.X_OK):
            raise make("NOT_FOUND", f"heddle: compiling failed: HEDDLE_COMPILER is '{named}', which is no program; correct it, or unset it")
        return named
    for folder in (pathlib.Path(__file__).resolve().parent / "bin", compiler_folder()):
        if folder is not None and os.access(folder / "heddle-compile", os.X_OK):
            return str(folder / "heddle-compile")
    found = shutil.which("heddle-compile")
    if found is None:
        raise make("NOT_FOUND", "heddle: compiling failed: the program heddle-compile is neither in the package heddle-compiler nor on PATH; "
                                "pip install heddle[compiler], or set HEDDLE_COMPILER to its path")
    return found


class _ProgressFailed(Exception):
    """What the callback of the progress raised; not an error of the child process."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__()
        self.failure = failure


def _run(command: list[str], timeout: float | None, progress: Progress | None, descriptors: Sequence[int] = ()) -> tuple[int, str]:
    """(exit code, output). The child gets the descriptors. It is killed if the time is over or the callback fails."""
    if progress is None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, pass_fds=descriptors)
        return done.returncode, done.stdout.decode(errors="replace")
    end = None if timeout is None else time.monotonic() + timeout
    output = ""
    with subprocess.Popen([*command, "--progress", "always"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          pass_fds=descriptors) as child:
        try:
            assert child.stdout is not None
            descriptor, rest = child.stdout.fileno(), b""
            while True:
                left = None if end is None else max(end - time.monotonic(), 0)
                if not select.select([descriptor], [], [], left)[0]:
                    raise subprocess.TimeoutExpired(command, timeout or 0)
                read = os.read(descriptor, 65536)
                *parts, rest = (rest + read).split(_CLEAR)
                if not read or _STEP.fullmatch(rest.decode(errors="replace")):
                    parts.append(rest)
                    rest = b""
                for part in parts:
                    said = _STEP.fullmatch(part.decode(errors="replace"))
                    if said:
                        try:
                            progress(said[1], int(said[2]), int(said[3]))
                        except BaseException as failure:
                            raise _ProgressFailed(failure) from None
                    else:
                        output += part.decode(errors="replace")
                if not read:
                    break
            return child.wait(None if end is None else max(end - time.monotonic(), 0)), output
        except BaseException:
            child.kill()
            raise


def _descriptors(paths: Iterable[str]) -> list[int]:
    """The open ones among paths such as /dev/fd/3."""
    found: list[int] = []
    for path in paths:
        named = _OPEN.fullmatch(path)
        if named is None:
            continue
        try:
            os.fstat(int(named[1]))
        except OSError:
            continue  # the compiler reports it
        found.append(int(named[1]))
    return found


def _failure(command: list[str], code: int, output: str) -> CompileError:
    last = "\n".join(output.strip().splitlines()[-_LINES:])
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        error = CompileError(f"heddle: compiling failed: {command[0]} was ended by {name}; its last output:\n{last}")
        error.code = "INTERNAL"
    else:
        error = CompileError(last or f"heddle: compiling failed: {command[0]} ended with exit code {code} and no output")
        error.code = "INVALID_ARGUMENT"
    error.exit_code = code
    error.output = last
    return error


def _source(model: Any, folder: str) -> tuple[str, str]:
    """(path of the file that the compiler reads, path that the default output is beside). A file that does not exist yet is written in the folder."""
    from . import stablehlo
    if isinstance(model, (str, os.PathLike)):
        path = text_of(model, "compiling", "the path of the model")
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe can be read only once
                return path, path
            with open(path, "rb") as file:
                start = file.read(4096)
                if not (stablehlo.is_stablehlo(start) or path.endswith(".mlir")) or stablehlo.is_generic(start):
                    return path, path
                if path.endswith(".mlir") and stablehlo.is_another(start + file.read()):
                    return path, path
        except OSError:
            return path, path  # the compiler reports it
        content: Any = path
        name = pathlib.Path(path).stem
    elif stablehlo.is_exported(model):
        content, name, path = model, re.sub(r"\W+", "_", str(getattr(model, "fun_name", ""))) or "model", folder
    else:
        content = model.SerializeToString() if hasattr(model, "SerializeToString") else model
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise make("TYPE", f"heddle: compiling failed: a model is a path, bytes, an onnx.ModelProto or a jax.export.Exported, got an object of class "
                               f"{type(model).__name__}")
        name, path = "model", folder
        if not stablehlo.is_stablehlo(bytes(content[:4096])):
            source = os.path.join(folder, "model.onnx")
            with open(source, "wb") as file:
                file.write(cast(bytes, content))
            return source, source
    source = os.path.join(folder, name + ".mlir")
    with open(source, "w", encoding="utf-8") as text:
        text.write(stablehlo.convert(content))
    return source, path


def compile(model: Any, output: PathLike | None = None, *, target: str | Sequence[str] = "cpu",
            donate: str | Sequence[str] = (), alias: Mapping[str, str] | None = None, state: Mapping[str, str] | None = None,
            params_in: Parameters | None = None, param_names: Mapping[str, str] | None = None, params_in_hashes: bool = False,
            options: str | Sequence[str] = (), timeout: float | None = None, progress: Progress | None = None, reproducer: PathLike | None = None) -> str:
    """Compiles a model to a .heddle file and returns its path.

    model    the path of an ONNX file, its bytes, or an onnx.ModelProto; or StableHLO: a portable artifact or MLIR text, as a path or as bytes, or a
             jax.export.Exported. Except for MLIR text in generic form, jaxlib has to be installed for StableHLO (heddle.stablehlo)
    output   the file to write; None: beside the model, with the ending .heddle. Required for a model that is not a file
    target   "cpu", "cuda", "hip", "level_zero", "portable", or several of them
    donate   names of inputs that callers give up (`donate=` of a call), so that the function may overwrite them
    alias    for such inputs, the outputs that take their memory: {"state": "new_state"}
    state    inputs and outputs that are no part of the function: {"count": "new_count"}. Calls keep the output, and the next one reads it as the input
    params_in    files, such as safetensors or GGUF, as `heddle.open` takes them for `parameters`. Weights of the model that they have are left to them:
             their values are not needed to compile, and `heddle.open` needs these files
    param_names  for such weights, the names that differ in the file: {"onnx::MatMul_123": "encoder.weight:transposed"}; with the ending, the weight is
             the transposed matrix
    params_in_hashes  reads these weights, and records their hashes for `check_hashes` of `heddle.open`
    options  more arguments of `heddle compile`, such as "--math=fast" or ["--math", "fast"]
    timeout  in seconds
    progress called with the name of a stage ("import", "passes", "code", "write"), the number of steps that are done, which grows from 0 to that of all
             steps, and the latter. An exception that it raises ends the compilation and is raised here; after the last step, the file is written
    reproducer   a file that is written if compiling fails or crashes, with all that it takes to repeat that: heddle compile --rerun FILE
    """
    doing = "compiling"
    timeout = seconds_of(timeout, doing)
    check_callable(progress, doing, "progress", "a function of a stage and two numbers")
    compiler = find_compiler()
    if not isinstance(model, (str, os.PathLike)) and output is None:
        raise make("TYPE", "heddle: compiling failed: a model that is not a file needs an output; pass output='model.heddle'")
    with tempfile.TemporaryDirectory(prefix="heddle-") as folder, _ParameterFiles() as files:
        source, beside = _source(model, folder)
        written = text_of(output, doing, "output") if output is not None else os.fspath(pathlib.Path(beside).with_suffix(".heddle"))
        targets = ",".join(texts_of(target, doing, "target"))
        given = [f"--donate={name}" for name in texts_of(donate, doing, "donate")]
        given += [f"--alias={name}={result}" for name, result in pairs_of(alias, doing, "alias")]
        given += [f"--state={name}={result}" for name, result in pairs_of(state, doing, "state")]
        left = files.named(params_in, "params_in")
        for scope, _ in left:
            if "=" in scope:
                raise make("TYPE", f"heddle: compiling failed: scope '{scope}' of params_in has a '=', which ends a scope; choose another")
        given += [f"--params-in={scope}={path}" if scope else f"--params-in={path}" for scope, path in left]
        if flag_of(params_in_hashes, doing, "params_in_hashes") and left:
            given.append("--params-in-hashes")
        given += [f"--param-name={name}={in_file}" for name, in_file in pairs_of(param_names, doing, "param_names")]
        if reproducer is not None:
            given.append("--reproducer=" + text_of(reproducer, doing, "reproducer"))
        command = [compiler, source, "-o", written, "--target", targets, *given, *texts_of(options, doing, "options")]
        try:
            code, printed = _run(command, timeout, progress, _descriptors(path for _, path in left))
        except _ProgressFailed as wrapped:
            raise wrapped.failure from wrapped.failure.__cause__
        except subprocess.TimeoutExpired:
            raise make("DEADLINE_EXCEEDED", f"heddle: compiling '{source}' failed: it took more than {timeout} s and was ended") from None
        except OSError as wrong:
            raise make("UNAVAILABLE", f"heddle: compiling failed: {compiler} cannot be started: {wrong.strerror}", "errno", wrong.errno or 0) from wrong
    if code != 0:
        error = _failure(command, code, printed)
        files.reword(error)
        raise error
    for line in printed.splitlines():
        if line.startswith(_WARNING):
            warnings.warn(line.removeprefix(_WARNING), stacklevel=2)
    return written


def _find_params() -> str:
    """heddle-params of the directory of the compiler, else that on PATH."""
    folders = [folder for folder in (compiler_folder(),) if folder is not None]
    named = os.environ.get("HEDDLE_COMPILER")
    if named:
        folders.insert(0, pathlib.Path(named).parent)
    for folder in folders:
        if os.access(folder / "heddle-params", os.X_OK):
            return str(folder / "heddle-params")
    found = shutil.which("heddle-params")
    if found is None:
        raise make("NOT_FOUND", "heddle: merging failed: the program heddle-params is neither in the package heddle-compiler nor on PATH; "
                                "pip install heddle[compiler]")
    return found


def merge_adapter(base: PathLike, adapter: PathLike, output: PathLike, *, alpha: float | None = None, rename: Mapping[str, str] | None = None,
                  transpose: str | Sequence[str] | None = None, type: str | None = None, all: bool = False, timeout: float | None = None) -> str:
    """Adds a LoRA adapter to weights, as `heddle params merge` does. Writes those that it changes to a safetensors file, and returns its path:
    for `over` of `heddle.open`, or for `Module.refit`.

    base       the file of the weights, such as safetensors
    adapter    adapter_model.safetensors of PEFT, with adapter_config.json in the same directory
    output     the file to write, .safetensors
    alpha      lora_alpha of the training, instead of that of adapter_config.json
    rename     weights that have another name in `base`: {"fc.weight": "onnx::MatMul_12"}
    transpose  weights of `base` that are stored as [in, out], names or globs; []: none; None: as their shapes say
    type       "f32", "f16" or "bf16", the type of the floats that are written; None: as in `base`
    all        writes the other weights of `base`, too: a file for `parameters` of `heddle.open`
    timeout    in seconds
    """
    doing = "merging"
    timeout = seconds_of(timeout, doing)
    program = _find_params()
    given = [f"--rename={old}={new}" for old, new in pairs_of(rename, doing, "rename")]
    if transpose is not None:
        given += [f"--transpose={glob}" for glob in texts_of(transpose, doing, "transpose")] or ["--no-transpose"]
    if alpha is not None:
        given.append(f"--alpha={number_of(alpha, doing, 'alpha')!r}")
    if type is not None:
        given.append("--type=" + text_of(type, doing, "type", "a str"))
    if flag_of(all, doing, "all"):
        given.append("--all")
    named = ((base, "base"), (adapter, "adapter"), (output, "output"))
    weights, change, written = (os.path.join(os.curdir, text_of(path, doing, what)) for path, what in named)  # never taken for a flag
    try:
        code, printed = _run([program, "merge", weights, change, "-o", written, *given], timeout, None)
    except subprocess.TimeoutExpired:
        raise make("DEADLINE_EXCEEDED", f"heddle: merging '{adapter}' failed: it took more than {timeout} s and was ended") from None
    except OSError as wrong:
        raise make("UNAVAILABLE", f"heddle: merging failed: {program} cannot be started: {wrong.strerror}", "errno", wrong.errno or 0) from wrong
    if code != 0:
        last = "\n".join(printed.strip().splitlines()[-_LINES:])
        raise make("INVALID_ARGUMENT" if code > 0 else "INTERNAL", last or f"heddle: merging failed: {program} ended with exit code {code} and no output")
    for line in printed.splitlines():
        if line.startswith(_MERGE_WARNING):
            warnings.warn(line.removeprefix(_MERGE_WARNING), stacklevel=2)
    return os.fspath(output)
