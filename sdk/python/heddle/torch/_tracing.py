# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Spares PyTorch work while Dynamo traces a function for this backend: searches of the whole heap for garbage, texts and measurements for logs that are off,
the same things found again and again, modules that nothing here needs, and what another thread can do. Work in Python is most of the time of a first call
whose modules are on disk.

What is replaced here is private to PyTorch. Where a name is missing or is something else, that measure is left out.
"""
from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from .. import _compiled_texts
from ._records import logger

# Objects until the garbage collector looks at the new ones. A trace of BERT base makes about 300,000, and PyTorch collects those of them that are garbage when
# it is done.
_MOST_NEW = 1_000_000
_STACK = 1 << 16  # values on the stack of a function, 512 KiB. With 1 MiB, Python has room for all that Dynamo nests within its limit of recursion

_undo: list[Callable[[], None]] = []
_has_read: list[bool] = []


def install() -> None:
    """Dynamo calls back when it begins and when it is done with a function, until torch._dynamo.reset(), after which this is called again."""
    # As torch._dynamo.callback.on_compile_end, but the callback is also called if there is a failure. Dynamo must not trace callbacks: a function that calls
    # backward() compiles the backward pass while Dynamo looks at what it calls, and PyTorch holds a lock meanwhile that it would wait for.
    from torch._dynamo.callback import callback_handler

    if _end not in callback_handler.end_callbacks:
        callback_handler.register_start_callback(_begin)
        callback_handler.register_end_callback(_end)


def innermost(function: Any) -> Any:
    """The backend in Dynamo's wrappers of it."""
    for _ in range(8):
        inner = getattr(function, "_torchdynamo_orig_backend", None) or getattr(function, "compiler_fn", None)
        if inner is None:
            break
        function = inner
    return function


def code_of(frame: FrameType | None) -> CodeType | None:
    """The function that Dynamo compiles in this frame or a caller of it, if it is for this backend."""
    from ._backend import backend

    while frame is not None and not (frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals and "code" in frame.f_locals):
        frame = frame.f_back
    if frame is None or innermost(frame.f_locals["compiler_fn"]) is not backend:
        return None
    code: CodeType = frame.f_locals["code"]
    return code


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _begin(_: Any) -> None:
    try:
        if _undo or code_of(sys._getframe(1)) is None:
            return
    except Exception as wrong:  # Dynamo must not see it
        logger.debug("Dynamo traces as it does without heddle.torch: %s", wrong)
        return
    for measure in (_collect_later, _on_one_piece_of_stack, _do_not_name, _read_settings_quickly, _shorten_names_once, _do_not_import_distributed,
                    _do_not_flush_caches, _read_files):
        try:
            measure()
        except Exception as wrong:
            logger.debug("while Dynamo traces, %s is left out: %s", measure.__name__, wrong)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _end(_: Any) -> None:
    while _undo:
        _undo.pop()()


def _replace(holder: Any, name: str, value: Any) -> None:
    before = vars(holder)[name]
    setattr(holder, name, value)
    _undo.append(lambda: setattr(holder, name, before) if vars(holder).get(name) is value else None)


def _collect_later() -> None:
    before = gc.get_threshold()
    if 0 < before[0] < _MOST_NEW:
        gc.set_threshold(_MOST_NEW, *before[1:])
        _undo.append(lambda: _collect_as_before(before))


def _collect_as_before(before: tuple[int, int, int]) -> None:
    """PyTorch collects what is left of the trace now. With the old threshold, Python would look at all of it just before."""
    def collected(phase: str = "stop", _: Any = None) -> None:
        if phase == "stop":
            if gc.get_threshold()[0] == _MOST_NEW:
                gc.set_threshold(*before)
            if gc.callbacks[-1:] == [collected]:  # Python goes through the list now, and would skip what is behind it
                gc.callbacks.pop()

    if getattr(torch._dynamo.config, "run_gc_after_compile", False):
        gc.callbacks.append(collected)
    else:
        collected()


def _do_not_name() -> None:
    """Dynamo finds the name of the function around each call of an operator, for which it splits the whole source file into tokens, and uses it for nothing
    but its logs."""
    from torch._dynamo import output_graph, symbolic_convert

    logs = [getattr(module, name, None) for module in (output_graph, symbolic_convert) for name in ("trace_call_log", "trace_source_log")]
    if not any(log is not None and log.isEnabledFor(logging.DEBUG) for log in logs):
        _replace(symbolic_convert, "get_funcname", lambda filename, line: None)


def _read_settings_quickly() -> None:
    """Dynamo reads its settings for every instruction that it traces, 40,000 times for BERT base. Each time Python fails to find the name in the module,
    writes a message about that, and calls a function which looks at all that could decide. What cannot change is looked at once here."""
    from torch._dynamo import config
    from torch.utils import _config_module

    unset = _config_module._UNSET_SENTINEL
    plain: dict[str, tuple[Any, Callable[[], Any], Any]] = {}
    for name, entry in config._config.items():
        value = entry.default if entry.env_value_default is unset else entry.env_value_default
        if (isinstance(entry.user_override, contextvars.ContextVar) and entry.alias is None and entry.env_value_force is unset and entry.justknob is None
                and not entry.deprecated and isinstance(value, (bool, int, float, str, type(None)))):
            plain[name] = (entry, entry.user_override.get, value)

    def find(self: Any, name: str) -> Any:
        known = plain.get(name)
        if known is None or known[0].hide:
            return ModuleType.__getattribute__(self, name)  # if that fails, Python calls what the class has for it
        value = known[1]()
        return known[2] if value is unset else value

    of_class = type(config)
    if plain and "__getattribute__" not in vars(of_class):
        setattr(of_class, "__getattribute__", find)
        _undo.append(lambda: delattr(of_class, "__getattribute__"))


def _shorten_names_once() -> None:
    """The comment of each guard has the name of a file without PyTorch's folder."""
    from torch.utils import _traceback

    _replace(_traceback, "shorten_filename", functools.lru_cache(maxsize=None)(_traceback.shorten_filename))


def _do_not_import_distributed() -> None:
    """For each function of the program, Dynamo imports a module of torch.distributed to see whether it is one that this module makes. The import adds
    operators, and to say where, PyTorch searches all modules of the process for the one of a line, with all links of their paths."""
    from torch._dynamo.variables.higher_order_ops import LocalMapWrappedHigherOrderVariable as Variable

    inner = Variable.should_wrap_in_hop

    def should_wrap_in_hop(value: Any) -> bool:
        return "torch.distributed.tensor.experimental._func_map" in sys.modules and inner(value)  # else nobody can have one

    _replace(Variable, "should_wrap_in_hop", staticmethod(should_wrap_in_hop))


def _on_one_piece_of_stack() -> None:
    """Python's stack of frames is in pieces of 16 KiB. It gives a piece back when the first function in it returns: one that calls others at the end of a piece
    has memory mapped, cleared and unmapped for every call. A function that needs more than a piece, as this one says it does, gets a larger one, with more than
    it needs. The functions that it calls are in the rest of that."""
    from torch._dynamo import convert_frame

    def around(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return inner(*args, **kwargs)

        setattr(call, "__code__", call.__code__.replace(co_stacksize=_STACK))
        return call

    for holder, name in ((convert_frame, "compile_frame"), (convert_frame.DynamoOutput, "build_guards")):
        _replace(holder, name, around(getattr(holder, name)))


def _do_not_flush_caches() -> None:
    """PyTorch measures, for its metrics, how long guards take after 32 MB of other memory were written."""
    from torch._dynamo import guards

    def profile_guard_manager(root: Any, values: dict[str, Any], _: int) -> float:
        begin = time.perf_counter()
        root.check(values)
        return (time.perf_counter() - begin) * 1e6

    if not guards.guards_log.isEnabledFor(logging.DEBUG):
        _replace(guards, "profile_guard_manager", profile_guard_manager)


def _read_files() -> None:
    """Keys of graphs (_graph_cache.py) have hashes of the compiler and of PyTorch's sources. Another thread can read these files until the keys are needed."""
    from torch._inductor import codecache

    def read() -> None:
        with contextlib.suppress(Exception):  # it is raised again where the key is needed
            _compiled_texts.identity()
            codecache.torch_key()

    if not _has_read and torch._functorch.config.enable_autograd_cache:
        _has_read.append(True)
        threading.Thread(target=read, name="heddle.torch", daemon=True).start()


class _StandIn(ModuleType):
    """In the place of a module that is not imported yet, of which these functions are needed. Whoever needs more of it gets it from the module itself."""

    def __init__(self, name: str, **functions: Callable[..., Any]) -> None:
        super().__init__(name)
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of the machinery that imports modules
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.leave()
        return getattr(importlib.import_module(self.__name__), name)

    def leave(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextlib.contextmanager
def without_inductor() -> Iterator[None]:
    """AOTAutograd and the key of its cache import what Inductor generates code with, which takes longer than the rest of reading a graph: for a log that is
    off, for kernels of Triton in a graph, for passes that were added to generators, and, since 2.15, to say in the key that no class of choices is set.
    None of that is used here."""
    from torch._inductor import codecache, config

    def transitive_closure(kernel: Any) -> Any:
        wrapper.leave()
        return getattr(importlib.import_module(wrapper.__name__), function)(kernel)

    function = "user_defined_triton_kernel_transitive_closure_source_code"
    wrapper = _StandIn("torch._inductor.codegen.wrapper", **{function: transitive_closure})
    debug = _StandIn("torch._inductor.debug", enable_aot_logging=contextlib.nullcontext)
    used = [one for one in (wrapper, debug) if one.__name__ not in sys.modules and (one is wrapper or os.environ.get("TORCH_COMPILE_DEBUG", "0") != "1")]
    replaced: list[tuple[dict[str, Any], str, Any]] = [(vars(codecache), "init_backend_registration", lambda: None)]
    if "torch._inductor.choices" not in sys.modules and getattr(config, "inductor_choices_class", "") is None:  # None is what the key says then
        replaced.append((vars(config), "_cache_config_serializer", lambda _: None))
    before = [(variables, name, variables[name]) for variables, name, _ in replaced if name in variables]
    for variables, name, by in replaced:
        if name in variables:
            variables[name] = by
    sys.modules.update({one.__name__: one for one in used})
    try:
        yield
    finally:
        for one in used:
            one.leave()
        for variables, name, value in before:
            variables[name] = value
