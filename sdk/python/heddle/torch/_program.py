# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which program this process is: its files, its arguments and environment, and the machine. What Dynamo made of a function in another process is
only used if that was the same program (_traces.py), since Dynamo reads more than it has guards for.

A module is its file's name, size and time of last change. The files were read when the modules were imported, so one that was changed, or put in its
place, since the process began says nothing about its module.
"""
from __future__ import annotations

import contextlib
import functools
import hashlib
import locale
import os
import platform
import sys
import time
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _precision
from ._facts import Unknown

# Packages of which compiling itself imports modules, so which of them are there differs between a process that traced and one that did not.
_OF_COMPILING = frozenset((*sys.stdlib_module_names, "_distutils_hack", "_remote_module_non_scriptable", "cuda", "filelock", "fsspec", "functorch",
                           "heddle", "jinja2", "markupsafe", "mpmath", "networkx", "numpy", "nvidia", "optree", "packaging", "pkg_resources",
                           "psutil", "setuptools", "sympy", "torch", "torchgen", "triton", "typing_extensions"))
# Variables of the environment that only name the host, or describe the terminal and the session. The name of the host is no part of the program, either.
# What a program made of them is found as the contents of its files are, by guards, facts and reads (_traces.py).
NO_INPUTS = frozenset((
    "HOST", "HOSTNAME",
    "ALACRITTY_SOCKET", "ALACRITTY_WINDOW_ID", "COLORTERM", "COLUMNS", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_STARTUP_ID", "GNOME_TERMINAL_SCREEN",
    "GNOME_TERMINAL_SERVICE", "INVOCATION_ID", "ITERM_SESSION_ID", "JOURNAL_STREAM", "KITTY_PID", "KITTY_WINDOW_ID", "KONSOLE_DBUS_SESSION",
    "KONSOLE_DBUS_WINDOW", "LESSCLOSE", "LESSOPEN", "LINES", "LS_COLORS", "MANAGERPID", "MEMORY_PRESSURE_WATCH", "OLDPWD", "PS1", "PS2",
    "SESSION_MANAGER", "SHLVL", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "STY", "SYSTEMD_EXEC_PID", "TERM",
    "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "WEZTERM_PANE", "WEZTERM_UNIX_SOCKET", "WINDOW", "WINDOWID",
    "WT_SESSION", "XAUTHORITY", "XDG_ACTIVATION_TOKEN", "XDG_SESSION_ID", "XDG_VTNR", "_"))
_YEAR = 366 * 24 * 3600


def identity() -> str:
    """A digest of the program, at this moment. Raises Unknown if it cannot be told."""
    parts = [_at_first(), sys.argv, sys.orig_argv, _current_folder(), locale.setlocale(locale.LC_ALL), time.tzname,
             sorted((name, value) for name, value in os.environ.items() if name not in NO_INPUTS), _main(),
             _modules(name for name in list(sys.modules) if not _is_of_compiling(name))]
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=1)
def _at_first() -> str:
    """What stays, and the packages that compiling uses, as far as they are imported before anything is looked for."""
    version = torch.version
    parts = [sys.version, sys.executable, sys.flags, platform.system(), platform.release(),
             platform.version(), platform.machine(), os.cpu_count(), _processor(), torch.__version__, version.git_version, version.cuda,
             version.hip, torch.__config__.show(), _modules(name for name in list(sys.modules) if _is_of_compiling(name))]
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


def machine() -> list[Any]:
    """Of devices, as far as this process has asked for them."""
    parts: list[Any] = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0, torch.get_num_threads(), torch.get_num_interop_threads(),
                        torch.backends.cpu.get_cpu_capability(), torch.cuda.is_available()]
    if torch.cuda.is_available():
        parts += [torch.cuda.device_count(), torch._C._cuda_getDriverVersion()]
        if torch.cuda.is_initialized():
            parts += [str(torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]
    return parts


def _read(read: Callable[[], Any]) -> Any:
    """None for allow_tf32 and the like once fp32_precision was set as well, since PyTorch refuses to say it then."""
    try:
        return read()
    except RuntimeError:
        return None


def settings() -> list[Any]:
    """PyTorch's, as far as Python can read them and they are not among those that Dynamo guards or that keys of graphs have."""
    parts: list[Any] = []
    for name in sorted(one for one in list(sys.modules) if one == "torch.backends" or one.startswith("torch.backends.")):
        kind = type(sys.modules[name])
        properties = sorted(key for key, one in vars(kind).items() if isinstance(one, torch.backends.ContextProp))
        parts += [(name, key, _read(functools.partial(getattr, sys.modules[name], key))) for key in properties]
    matmul, state = torch.backends.cuda.matmul, torch._C
    parts += [(key, getattr(torch.backends.cuda, f"{key}_sdp_enabled")()) for key in ("flash", "mem_efficient", "math", "cudnn")]
    parts += [(key, _read(functools.partial(getattr, matmul, key))) for key in ("allow_tf32", "allow_fp16_reduced_precision_reduction",
                                                                                "allow_fp16_accumulation", "allow_bf16_reduced_precision_reduction")]
    parts += [_precision.allowed(), _read(torch.get_float32_matmul_precision), torch.backends.mha.get_fastpath_enabled(), torch.backends.opt_einsum.enabled,
              torch.backends.opt_einsum.strategy, state._get_nnpack_enabled(), str(state._get_qengine()), torch.is_warn_always_enabled(),
              torch.utils.deterministic.fill_uninitialized_memory, state._get_tracing_state() is not None, sys.getrecursionlimit(),
              sorted((key, one) for key, one in vars(torch.__future__).items() if isinstance(one, bool)),
              sys.modules["numpy"].geterr() if "numpy" in sys.modules else None]
    return parts


def _is_of_compiling(name: str) -> bool:
    return name.partition(".")[0] in _OF_COMPILING and name != "__main__"


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as wrong:
        raise Unknown(f"there is no current directory: {wrong}") from wrong


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """Of the first one: its name and what it has."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return "".join(line for line in file.read(8192).split("\n\n")[0].splitlines(True) if "MHz" not in line and "bogomips" not in line.lower())
    except OSError:
        return platform.processor()


def _main() -> str:
    """Code of a file, a module or `python -c`, which is in sys.orig_argv."""
    main = sys.modules.get("__main__")
    if main is None or sys.flags.interactive or hasattr(sys, "ps1"):
        raise Unknown("what an interactive program has run is not known")
    if vars(main).get("__file__") is None and "-c" not in sys.orig_argv:
        raise Unknown("the main program has no file")
    return str(vars(main).get("__file__"))


def _modules(names: Iterable[str]) -> list[tuple[str, Any]]:
    return [(name, _stamp(sys.modules[name])) for name in sorted(names) if name in sys.modules]


_stamps: dict[int, tuple[types.ModuleType, Any]] = {}  # by the module's address; the module is kept


def _stamp(module: types.ModuleType) -> Any:
    """The file of a module. One without a file, which is made by code that has one, is known by its name."""
    known = _stamps.get(id(module))
    if known is None:
        variables = vars(module) if hasattr(module, "__dict__") else {}
        spec = variables.get("__spec__")
        file = variables.get("__file__") or (getattr(spec, "origin", None) if getattr(spec, "has_location", False) else None)
        stamp = _stamp_of(file) if isinstance(file, str) and (spec is not None or os.path.isabs(file)) else type(module).__qualname__
        known = _stamps[id(module)] = (module, stamp)
    return known[1]


def _stamp_of(file: str) -> tuple[str, int, Any]:
    try:
        found = os.stat(file)
        if max(found.st_mtime, found.st_ctime) > _BEGAN:  # what takes the place of a file may have an older time of change
            raise Unknown(f"{file} was changed after this process began")
        changed: Any = found.st_mtime_ns
        if found.st_mtime < 11 * _YEAR:  # tools for reproducible images give all files one time, at the beginning of time
            with open(file, "rb") as content:
                changed = hashlib.sha256(content.read()).hexdigest()
        return file, found.st_size, changed
    except OSError as wrong:  # in an archive, say
        raise Unknown(f"the file of a module cannot be looked at: {wrong}") from wrong


def _began() -> float:
    """When this process did, in seconds, not later than that: the kernel counts in hundredths. A process that was forked has the modules of another one,
    and began with that. Without /proc, it is now."""
    began = time.time()
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        boot = began - time.clock_gettime(time.CLOCK_BOOTTIME)
        process, own = "self", None
        while process != "0":
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            memory = fields[25], fields[45]  # addresses of the stack and of the arguments, which a process that was forked has in common with its parent
            if own is not None and memory != own:
                break
            began = min(began, boot + int(fields[19]) / os.sysconf("SC_CLK_TCK"))
            if memory[0] in ("0", "1"):  # the kernel does not tell them
                break
            process, own = fields[1], memory
    return began


_BEGAN = _began()
