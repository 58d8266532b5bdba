# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Dynamo made of a function, on disk, for other processes: its code, its guards, and what AOTAutograd made of its graph.
HEDDLE_TORCH_KEEP_TRACES=0 turns it off.

An entry is used by the same program (_program.py), if everything that Dynamo has guards for is what it was (_facts.py), and what it has read without
one (_reads.py). Its guards are then built anew, all of them, of the values that are there, as Dynamo builds them after a trace, and are checked. So
they have the addresses of this process, and what changes later is found as ever.
"""
from __future__ import annotations

import builtins
import contextlib
import dataclasses
import enum
import functools
import gc
import hashlib
import importlib
import inspect
import os
import pathlib
import pickle
import re
import shutil
import sys
import time
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from . import _cache, _graph_cache, _program, _reads
from ._facts import Facts, Unknown, of_code, order_of_sets
from ._reads import Reads
from ._records import logger
from ._tracing import innermost, without_inductor
from .report import is_open

try:  # none of this is public; without it, every process traces
    from torch._dynamo import convert_frame, guards, package
    from torch._dynamo.output_graph import OutputGraph, OutputGraphCommon, get_builtins_dict
    from torch._dynamo.types import GuardedCode, wrap_guarded_code
    from torch._dynamo.utils import CleanupHook, CleanupManager, counters, dynamo_timed, get_metrics_context, orig_code_map
    from torch._dynamo.variables.base import VariableTracker
    from torch._dynamo.variables.builder import SourcelessBuilder
    from torch._functorch import config as functorch_config
    from torch._functorch._aot_autograd import autograd_cache
    from torch._functorch._aot_autograd.aot_autograd_result import deserialize_bundled_cache_entry
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    from torch.utils import _pytree as pytree
    from torch.utils._ordered_set import OrderedSet

    _Manager: Any = guards.CheckFunctionManager
    _IS_THERE = True
except (ImportError, AttributeError):
    _IS_THERE, _Manager = False, object

_MOST_OF_ONE = 8  # entries of a function in a program
_MOST_FOLDERS = 256  # functions in programs
_ADDRESSES = {"ID_MATCH", "FUNCTION_MATCH", "CLASS_MATCH", "MODULE_MATCH", "CLOSURE_MATCH", "BUILTIN_MATCH"}  # guards of one object
# Guards that compare with what the value was, beside those of addresses.
_OF_VALUES = {"BOOL_MATCH", "CONSTANT_MATCH", "EQUALS_MATCH", "NONE_MATCH", "RANGE_ITERATOR_MATCH", "TUPLE_ITERATOR_LEN", "COUNT_ITERATOR_MATCH"}
_OF_ONE_PROCESS = {"WEAKREF_ALIVE", "DICT_VERSION", "NN_MODULE"}
# Objects that Facts tells from each other, of which there is one of a kind, or whose likes do the same.
_NAMED = (bool, type(None), type(Ellipsis), types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
          type, types.ModuleType, types.CodeType, torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.dtype, torch.layout, torch.memory_format,
          enum.Enum)


@dataclasses.dataclass
class _Entry:
    """What is on disk."""
    identity: str
    facts: list[str]
    traced: list[tuple[str, str, str]]  # modules, names in them, and their code
    of_library: list[tuple[str, str, str]]  # globals of Python's own library, for which Dynamo has no guards: modules, names and what they are
    named: list[tuple[str, str, str]]  # classes and functions without guards: modules, names in them, and what they are
    asked: list[Any]  # of PyTorch's functions
    state: Any  # of the guards, without values
    shapes: Any  # code of guards for shapes
    imports: dict[str, str]  # globals that the code has, and modules that they are
    code: Any
    backend: str  # the global that is the compiled graph
    graph: bytes = b""  # what PyTorch's cache has of it


@dataclasses.dataclass
class _Recording:
    """A compilation that goes on, or of which the backward pass is to come."""
    path: pathlib.Path
    keys: list[str] = dataclasses.field(default_factory=list)  # of its graphs in PyTorch's cache
    graph: bytes | None = None
    entry: _Entry | None = None
    installed: dict[str, Any] = dataclasses.field(default_factory=dict)  # globals that Dynamo has made
    reason: str = "there are no guards"
    reads: Reads = dataclasses.field(default_factory=Reads)


_recordings: list[_Recording] = []
_pending: dict[str, _Recording] = {}


def is_wanted() -> bool:
    return os.environ.get("HEDDLE_TORCH_KEEP_TRACES", "") != "0"


def _key(bound: dict[str, Any]) -> str:
    """Of the function and of what Dynamo reads and has no guards for: the program, its settings, and what the machine has."""
    parts = [_graph_cache.identity(), _program.identity(), _program.machine(), _program.settings(), _reads.of_traced(bound["code"]), bound["globals"].get("__name__"), bound["one_graph"], [Facts().of(one.save_config_portable()) for one in (torch._dynamo.config, functorch_config)],
             _graph_cache.settings(), convert_frame.GlobalStateGuard().__getstate__(),
             sorted(of_code(one.cell_contents.__code__) for one in bound["closure"] or () if _is_function(one))]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _is_function(cell: types.CellType) -> bool:
    try:
        return isinstance(cell.cell_contents, types.FunctionType)
    except ValueError:
        return False


def _folder(bound: dict[str, Any]) -> pathlib.Path:
    return pathlib.Path(cache_dir(), "heddle-traces", _key(bound))


def _reason_against(bound: dict[str, Any]) -> str | None:
    """Of this process, before anything is traced."""
    from torch.nn.modules import module as of_modules

    hooks, filename = bound["hooks"], bound["code"].co_filename
    if bound["export"] or bound["package"] is not None or hooks.guard_export_fn is not None or hooks.guard_filter_fn is not None:
        return "options of torch.compile"
    if is_open():
        return "a report is open"
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        return "there are hooks for saved tensors"
    if torch._C._len_torch_function_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
        return "a mode of torch functions, or a transformation, is in effect"
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "torch.distributed is in use"
    every = [value for name, value in vars(of_modules).items() if name.startswith("_global_") and name.endswith("hooks")]
    if any(every) or convert_frame._bytecode_hooks:
        return "there are hooks for all modules or functions"
    if not os.path.exists(filename):
        return f"there is no file {filename}"
    return _graph_cache.others_may_write()


def _place_of(code: types.CodeType, files: dict[str | None, str]) -> tuple[str, str] | None:
    """The module, and the name of the function in it that is this code or contains it."""
    name = (code.co_qualname if sys.version_info >= (3, 11) else code.co_name).split(".<locals>")[0]
    module = files.get(code.co_filename)
    return (module, name) if module is not None and _reads.of_traced(code) in _reads.codes_at(module, name) else None


def _library_globals(code: types.CodeType, files: dict[str | None, str]) -> set[tuple[str, str]]:
    """Modules of Python's own library, and names in them that the code has."""
    filename = code.co_filename
    module = filename[len("<frozen "):-1] if filename.startswith("<frozen ") else files.get(filename)
    if module is None or module not in sys.modules or module.partition(".")[0] not in sys.stdlib_module_names:
        return set()
    return {(module, name) for name in _names(code) if name in vars(sys.modules[module])}


def _fact_at(module: str, name: str) -> str:
    return Facts().of(vars(sys.modules[module]).get(name), 1)


def _facts_of(every: Iterable[Any], get: Callable[[Any], Any], sizes: Any) -> tuple[list[str], set[str]]:
    """What the values are that the guards are of, and the codes of functions among them."""
    facts = Facts()
    said = set()
    for guard in every:
        kind = guard.create_fn_name()
        if not guard.name:  # of the state of the process, or of shapes: the guard has what it needs
            continue
        try:
            value = get(guard)
        except Exception as wrong:  # a guard that something is not there
            said.add(f"{kind} {guard.name}: {type(wrong).__name__}")
            continue
        kinds = {kind, *(guard.guard_types or ())}
        if kinds & _OF_ONE_PROCESS or (kinds & _ADDRESSES and not isinstance(value, _NAMED)):
            raise Unknown(f"a guard {kind} of {guard.name}, a {type(value).__name__}")
        try:
            if hasattr(type(value), "__next__"):
                raise Unknown(f"a {type(value).__qualname__}, of which it is not known what is left")
            if kinds & (_OF_VALUES | _ADDRESSES):
                Facts().exact(value)
            fact = facts.of(value)
        except Unknown as wrong:
            raise Unknown(f"a guard {kind} of {guard.name}: {wrong}") from wrong
        shape: Any = ""
        if isinstance(value, torch.Tensor) and guard.originating_source not in sizes:
            shape = (tuple(value.shape), value.stride())
        elif isinstance(value, (set, frozenset)):  # Dynamo may have gone through it, in an order that differs between processes
            shape = [facts.of(one) for one in value]
        said.add(f"{kind} {guard.name}: {fact} {shape}")
    return sorted(said), facts.codes


class _Guards(_Manager):  # type: ignore[misc]
    """Guards of a trace. Where PyTorch would pickle them with the values that they are of, it notes what these are."""
    facts: tuple[list[str], set[str]] | None = None
    wrong = ""
    every: list[Any] = []

    def serialize_guards(self, builder: Any, sorted_guards: list[Any], output_graph: Any) -> bytes:
        try:
            self.facts = _facts_of(sorted_guards, builder.get, output_graph.input_source_to_sizes_strides)
            self.every = sorted_guards
        except Exception as wrong:
            self.wrong = str(wrong)
        return b""


def _portable(create: Any) -> Any:
    """A guard's function without tensors, which it finds again."""
    if isinstance(create, functools.partial):
        if any(isinstance(one, torch.Tensor) for one in (*create.args, *create.keywords.values())):
            raise Unknown("a guard has a tensor")
        named = {name: None if isinstance(one, guards.TensorWeakRef) else one for name, one in create.keywords.items()}
        return functools.partial(create.func, *create.args, **named)
    return create


def _note_guards(recording: _Recording, output: Any, manager: _Guards) -> None:
    if manager.facts is None:
        raise Unknown(manager.wrong)
    if output.functorch_layers or output.torch_function_mode_stack:
        raise Unknown("a mode or a transformation is in effect")
    facts, codes = manager.facts
    plain = [dataclasses.replace(one, obj_weakref=None, guarded_class_weakref=None, stack=None, user_stack=None, _hash=None,
                                 create_fn=_portable(one.create_fn)) for one in manager.every]
    sizes = pytree.tree_map(guards.convert_int_to_concrete_values, output.input_source_to_sizes_strides)
    state = dataclasses.replace(output.dump_guards_state(), local_scope={}, global_scope={}, _guards=torch._guards.GuardsSet(OrderedSet(plain)),
                                input_source_to_sizes_strides=sizes)
    files = {getattr(one, "__file__", None): name for name, one in list(sys.modules.items())}
    traced: set[tuple[str, str, str]] = set()
    of_library: set[tuple[str, str]] = set()
    for code in output.tracing_context.traced_code:
        if {"environ", "getenv"} & set(code.co_names):
            raise Unknown(f"{code.co_name} reads the environment")
        place = _place_of(code, files)
        of_library |= _library_globals(code, files)
        if place is not None:
            traced.add((*place, _reads.of_traced(code)))
        elif (of_code(code) not in codes or order_of_sets(code)) and not code.co_filename.startswith("<frozen"):
            raise Unknown(f"no name is known for {code.co_name} in {code.co_filename}, line {code.co_firstlineno}")
    globals_of_library = [(module, name, _fact_at(module, name)) for module, name in sorted(of_library)]
    named = recording.reads.facts()
    recording.installed = {one.name: output.global_scope[one.name] for one in output.cleanups}
    recording.installed.pop(state.name_of_builtins_dict_key_in_fglobals, None)
    recording.entry = _Entry(_graph_cache.identity(), facts, sorted(traced), globals_of_library, named, recording.reads.asked, state, manager.shape_code_parts, dict(output.import_sources), None, "")


def _finish(recording: _Recording, code: types.CodeType) -> None:
    """When the compilation is done."""
    entry = recording.entry
    if entry is None:
        raise Unknown(recording.reason)
    if len(recording.keys) != 1:
        raise Unknown(f"it has {len(recording.keys)} graphs")
    names, of_guards = set(_names(code)), repr([(one.originating_source, one.create_fn) for one in entry.state.guards])
    for name, value in recording.installed.items():
        if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            entry.imports[name] = value.__name__
        elif name in names and name.startswith("__compiled_fn"):
            entry.backend = name
        elif name in names or name in of_guards:
            raise Unknown(f"the code or its guards have the global {name}")
    entry.code = package.SerializedCode.from_code_object(code)
    (key,) = recording.keys
    _pending[key] = recording
    if recording.graph is not None:
        _write(key, recording.graph)


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)


def _write(key: str, graph: bytes) -> None:
    """If there is a backward pass, when that was compiled."""
    recording = _pending.pop(key, None)
    if recording is None or recording.entry is None:
        return
    try:
        content = pickle.dumps(dataclasses.replace(recording.entry, graph=graph))
        os.makedirs(recording.path, exist_ok=True)
        for old in _candidates(recording.path)[_MOST_OF_ONE - 1:]:
            old.unlink(missing_ok=True)
        folders = _candidates(recording.path.parent)
        for old in folders[_MOST_FOLDERS:]:
            shutil.rmtree(old, ignore_errors=True)
        _cache.write(recording.path / _name(recording.entry), content)
        counters["heddle"]["trace_saved"] += 1
    except Exception as wrong:
        logger.info("what Dynamo made of a function is not kept for other processes: %s", wrong)


def _name(entry: _Entry) -> str:
    """Of its file. Processes that trace the same at the same time write one file, the last one's."""
    asked = [(getattr(function, "__name__", ""), repr(arguments), repr(named), gave) for function, arguments, named, gave in entry.asked]
    shapes = getattr(getattr(entry.shapes, "python_code_parts", None), "exprs", None)
    sizes = sorted(map(repr, entry.state.input_source_to_sizes_strides.items()))
    parts = [entry.identity, entry.facts, entry.traced, entry.of_library, entry.named, asked, shapes, sizes]
    of_processes = r"_\d+_[0-9a-f]{32}"  # ends of names of globals (_install_global)
    return hashlib.sha256(re.sub(of_processes, "", repr(parts)).encode(errors="surrogatepass")).hexdigest()


def _candidates(folder: pathlib.Path) -> list[pathlib.Path]:
    """Those first that were written or used last, without what is being written."""
    found: list[tuple[int, str]] = []
    with contextlib.suppress(FileNotFoundError):
        for one in os.scandir(folder):
            with contextlib.suppress(FileNotFoundError):  # another process has removed it
                if not one.name.startswith("."):
                    found.append((one.stat().st_mtime_ns, one.path))
    return [pathlib.Path(path) for _, path in sorted(found, reverse=True)]


def _found(folder: pathlib.Path, bound: dict[str, Any]) -> Any:
    for path in _candidates(folder):
        try:
            with open(path, "rb") as file:
                entry = pickle.load(file)
            with get_metrics_context(), dynamo_timed("_compile.compile_inner", phase_name="entire_frame_compile"):  # guards count what they do
                found = _used(entry, bound)
            with contextlib.suppress(OSError):
                for one in (path, folder):  # those that are used stay
                    os.utime(one)
            return found
        except Exception as wrong:
            logger.info("%s is not what Dynamo would make: %s", path, wrong)
    return None


def _used(entry: _Entry, bound: dict[str, Any]) -> Any:
    if entry.identity != _graph_cache.identity():
        raise Unknown("it was made by another version of Heddle")
    for module, name, digest in entry.traced:
        if digest not in _reads.codes_at(importlib.import_module(module).__name__, name):
            raise Unknown(f"{module}.{name} is another function")
    for module, name, said in entry.of_library:
        importlib.import_module(module)
        if _fact_at(module, name) != said:
            raise Unknown(f"{module}.{name} is something else")
    _reads.check(entry.asked)
    _reads.check_named(entry.named)
    scope = bound["globals"]
    named = {alias: importlib.import_module(module) for alias, module in entry.imports.items()}
    if entry.state.name_of_builtins_dict_key_in_fglobals is not None:
        named[entry.state.name_of_builtins_dict_key_in_fglobals] = get_builtins_dict(scope)
    for alias, value in named.items():  # they stay: several functions of this process may be of the entry
        if scope.setdefault(alias, value) is not value:
            raise Unknown(f"there is another {alias}")
    state = dataclasses.replace(entry.state, local_scope=dict(bound["locals"]), global_scope=scope)
    scopes, names = {"L": state.local_scope, "G": scope, "__builtins__": vars(builtins)}, guards._get_closure_vars()
    seen: dict[Any, Any] = {}
    facts, _ = _facts_of(state.guards, lambda guard: guard.originating_source.get_value(scopes, names, seen), state.input_source_to_sizes_strides)
    if facts != entry.facts:
        raise Unknown(f"these are not there: {', '.join(sorted(set(entry.facts) - set(facts)))[:600]}")
    manager = guards.CheckFunctionManager(bound["code"], OutputGraphCommon(state), bound["cache_entries"], bound["hooks"].guard_fail_fn, None,
                                          shape_code_parts=entry.shapes)
    with without_inductor():
        compiled = deserialize_bundled_cache_entry(pickle.loads(entry.graph))
    backend = f"{entry.backend}_{uuid.uuid4().hex}"
    code = _renamed(package.SerializedCode.to_code_object(entry.code), entry.backend, backend)
    hook = CleanupHook.create(scope, backend, torch._dynamo.disable(compiled, reason="do not trace Dynamo-compiled graph"))
    CleanupManager.instance[code] = [hook]
    orig_code_map[code] = bound["code"]
    convert_frame.output_codes.add(code)
    return wrap_guarded_code(GuardedCode(code, manager.guard_manager, bound["compile_id"], f"Torch-Compiled Region: {bound['compile_id']}"))


def _renamed(code: types.CodeType, name: str, new: str) -> types.CodeType:
    constants = tuple(_renamed(one, name, new) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    return code.replace(co_names=tuple(new if one == name else one for one in code.co_names), co_consts=constants)


def _compiled(inner: Callable[..., Any], signature: inspect.Signature, *args: Any, **kwargs: Any) -> Any:
    """In the place of convert_frame._compile."""
    from ._backend import backend

    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    bound = given.arguments
    if not is_wanted() or innermost(bound["compiler_fn"]) is not backend:
        return inner(*args, **kwargs)
    recording = None
    try:
        reason = _reason_against(bound)
        if reason is None:
            folder = _folder(bound)
            threshold = gc.get_threshold()
            gc.set_threshold(1_000_000, *threshold[1:])
            begin = time.monotonic()
            try:
                found = _found(folder, bound) if len(bound["cache_entries"]) < _MOST_OF_ONE else None
            finally:
                gc.set_threshold(*threshold)
            if found is not None:
                counters["heddle"]["trace_found"] += 1
                logger.info("what Dynamo made of %s was on disk, %.2f s", bound["code"].co_name, time.monotonic() - begin)
                return found
            recording = _Recording(folder)
        else:
            logger.info("what Dynamo makes of %s is not kept for other processes: %s", bound["code"].co_name, reason)
    except Exception as wrong:  # it is traced then
        logger.info("what Dynamo makes of %s is not kept for other processes: %s", bound["code"].co_name, wrong)
    if recording is None:
        return inner(*args, **kwargs)
    _recordings.append(recording)
    try:
        result = inner(*args, **kwargs)
    finally:
        _recordings.remove(recording)
    try:
        if result.guarded_code is not None:
            _finish(recording, result.guarded_code.code)
    except Exception as wrong:
        logger.info("what Dynamo makes of %s is not kept for other processes: %s", bound["code"].co_name, wrong)
    return result


def _build_guards(inner: Callable[..., Any], self: Any, code: types.CodeType, hooks: Any = None, save: bool = False, cache_entries: Any = None,
                  **more: Any) -> Any:
    """In the place of DynamoOutput.build_guards."""
    if save or not _recordings or more:
        return inner(self, code, hooks, save, cache_entries, **more)
    recording, output = _recordings[-1], self.tracer_output.output_graph
    try:
        manager = _Guards(code, output, cache_entries, hooks.guard_fail_fn if hooks else None, None, save_guards=True)
    except Exception:  # the same without notes
        return inner(self, code, hooks, save, cache_entries)
    try:
        _note_guards(recording, output, manager)
    except Exception as wrong:
        recording.reason = str(wrong)
    manager.facts, manager.every = None, []
    return manager


def _install_global(inner: Callable[..., str], self: Any, prefix: str, value: Any) -> str:
    """In the place of OutputGraph.install_global and install_global_by_id, whose names another process may give to something else."""
    if not _recordings:
        return inner(self, prefix, value)
    name = f"{prefix}_{id(value)}_{vars(self).setdefault('_heddle', uuid.uuid4().hex)}"
    if name not in self.installed_globals:
        self.install_global_unsafe(name, value)
    return name


def _note_sourceless(inner: Callable[..., Any], translator: Any, value: Any) -> Any:
    """In the place of SourcelessBuilder.create."""
    if _recordings and not isinstance(value, VariableTracker):
        _recordings[-1].reads.note(value, sys._getframe(1))
    return inner(translator, value)


def _note_key(inner: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """In the place of autograd_cache.autograd_cache_key."""
    result = inner(*args, **kwargs)
    if _recordings:
        _recordings[-1].keys.append(result[0])
    return result


def _note_read(inner: Callable[..., Any], key: str, *args: Any, **kwargs: Any) -> Any:
    """In the place of AOTAutogradCache._lookup."""
    result = inner(key, *args, **kwargs)
    if _recordings and result is not None:
        _recordings[-1].graph = result[1]
    return result


def _note_written(inner: Callable[..., Any], key: str, content: bytes) -> None:
    """In the place of AOTAutogradCache._write_to_local_cache."""
    inner(key, content)
    if _recordings and key in _recordings[-1].keys:
        _recordings[-1].graph = content
    _write(key, content)


@functools.lru_cache(maxsize=1)
def is_possible() -> bool:
    """Whether this version of PyTorch has what is replaced here, with these arguments. 2.13 and 2.15 have; 2.11 has not. It is looked at before anything is replaced."""
    if not _IS_THERE:
        return False
    of_compile = {"code", "globals", "locals", "closure", "compiler_fn", "one_graph", "hooks", "cache_entries", "export", "package", "compile_id"}
    wanted = ((convert_frame._compile, of_compile),
              (convert_frame.DynamoOutput.build_guards, {"code", "hooks", "save", "cache_entries"}), (SourcelessBuilder.create, {"tx", "value"}),
              (_Manager.__init__, {"shape_code_parts", "save_guards"}))
    return all(names <= set(inspect.signature(function).parameters) for function, names in wanted)


def install() -> None:
    if not is_possible() or not is_wanted() or hasattr(convert_frame._compile, "_heddle"):
        return
    compiled = functools.partial(_compiled, convert_frame._compile, inspect.signature(convert_frame._compile))
    setattr(compiled, "_heddle", True)
    setattr(convert_frame, "_compile", compiled)
    build = convert_frame.DynamoOutput.build_guards
    setattr(convert_frame.DynamoOutput, "build_guards", lambda self, *args, **kwargs: _build_guards(build, self, *args, **kwargs))
    for method in ("install_global", "install_global_by_id"):
        inner = getattr(OutputGraph, method)
        setattr(OutputGraph, method, functools.partialmethod(functools.partial(_install_global, inner)))
    setattr(SourcelessBuilder, "create", staticmethod(functools.partial(_note_sourceless, SourcelessBuilder.create)))
    setattr(autograd_cache, "autograd_cache_key", functools.partial(_note_key, autograd_cache.autograd_cache_key))
    cache = autograd_cache.AOTAutogradCache
    setattr(cache, "_lookup", staticmethod(functools.partial(_note_read, cache._lookup)))
    setattr(cache, "_write_to_local_cache", staticmethod(functools.partial(_note_written, cache._write_to_local_cache)))
