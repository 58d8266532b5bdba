# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.jax.jit: functions of JAX that Heddle compiles and runs.

    import heddle.jax

    @heddle.jax.jit
    def step(weights, x):
        return jax.grad(loss)(weights, x)

JAX traces the function, exports it as StableHLO, and Heddle compiles that for the device of the arguments. docs/stablehlo.md describes it. JAX is imported
when a function is made.
"""
from __future__ import annotations

import functools
import importlib
import inspect
import pathlib
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _compiled_texts, stablehlo
from ._core import Tensor
from ._errors import Error, make
from ._module import Module

__all__ = ["Function", "jit"]
_FAMILIES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}  # of Heddle, by the platforms of JAX
_KEYS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
_COMPLEX = {"complex64": "float32", "complex128": "float64"}


def _jax(name: str = "") -> Any:
    """The package jax, or a module of it. It is optional, so type checkers need not find it."""
    try:
        return importlib.import_module("jax" + ("." + name if name else ""))
    except ImportError as missing:
        raise make("NOT_FOUND", f"heddle: making a function of JAX failed: the Python package jax cannot be imported ({missing}); pip install jax") from missing


def _fail(name: str, cause: str, code: str = "UNIMPLEMENTED") -> Error:
    return make(code, f"heddle: calling the function of JAX '{name}' failed: {cause}")


def _folder() -> pathlib.Path:
    return _compiled_texts.folder_of("HEDDLE_JAX_CACHE", "jax")


class _Owners:
    """The tensors of Heddle whose memory arrays of JAX have, as long as these exist: such a tensor can be donated."""

    def __init__(self) -> None:
        self._tensors: dict[int, Tensor] = {}

    def note(self, array: Any, tensor: Tensor) -> None:
        key = id(array)
        self._tensors[key] = tensor
        weakref.finalize(array, self._tensors.pop, key, None).atexit = False

    def take(self, array: Any) -> Tensor | None:
        return self._tensors.pop(id(array), None)


_owners = _Owners()


class _Compiled:
    """A function for arguments of certain types."""

    def __init__(self, exported: Any, module: Module, device: str, donated: Sequence[bool], name: str) -> None:
        self._jax = _jax()
        self._module = module  # the function does not keep it
        self._function = self._module.function()
        self._name = name
        self._is_host = device.startswith("cpu")
        kept = list(exported.module_kept_var_idx)
        self._arguments: list[tuple[int, Any, str, bool]] = [(place, exported.in_avals[index], _kind(exported.in_avals[index]), donated[index])
                                                             for place, index in enumerate(kept)]
        self._indices = kept
        self._donated = [index for index, is_donated in enumerate(donated) if is_donated]
        self._results = [(aval, _kind(aval)) for aval in exported.out_avals]
        self._out_tree = exported.out_tree
        donations = self._function.donations
        self._names = [one.name for one in self._function.arguments]
        if len(self._names) != len(kept):
            raise _fail(name, f"the module has {len(self._names)} arguments, and the program {len(kept)}", "INTERNAL")
        self._aliases = [self._names[place] in donations for place in range(len(kept))]

    def __call__(self, leaves: list[Any]) -> Any:
        given: list[Any] = []
        donate: list[str] = []
        for (place, aval, kind, is_donated), index in zip(self._arguments, self._indices, strict=True):
            leaf = leaves[index]
            if is_donated and self._aliases[place] and isinstance(leaf, self._jax.Array) and (owned := _owners.take(leaf)) is not None:
                leaf.delete()
                given.append(owned)
                donate.append(self._names[place])
            else:
                given.append(self._argument(leaf, aval, kind))
        results: Any = self._function(*given, donate=donate) if donate else self._function(*given)
        for index in self._donated:  # also those whose memory no result takes
            if isinstance(leaves[index], self._jax.Array) and not leaves[index].is_deleted():
                leaves[index].delete()
        if not self._results:
            return self._out_tree.unflatten([])
        made = [results] if len(self._results) == 1 else list(results)
        return self._out_tree.unflatten([self._result(tensor, *one) for tensor, one in zip(made, self._results, strict=True)])

    def _argument(self, leaf: Any, aval: Any, kind: str) -> Any:
        if kind == "key":
            return self._jax.random.key_data(leaf)
        if not isinstance(leaf, self._jax.Array):
            import numpy as np

            leaf = np.ascontiguousarray(leaf, aval.dtype).reshape(aval.shape)
        elif self._is_host:
            leaf.block_until_ready()
        if kind == "complex":
            import numpy as np

            whole = np.ascontiguousarray(leaf)
            return whole.view(_COMPLEX[aval.dtype.name]).reshape(*aval.shape, 2)
        return leaf

    def _result(self, tensor: Tensor, aval: Any, kind: str) -> Any:
        if kind == "plain":
            array = self._jax.dlpack.from_dlpack(tensor)
            _owners.note(array, tensor)
            return array
        import numpy as np

        if kind == "key":
            return self._jax.random.wrap_key_data(self._jax.dlpack.from_dlpack(tensor), impl=_KEYS.get(aval.dtype.name) or aval.dtype._impl)
        if kind == "complex":
            return self._jax.numpy.asarray(np.asarray(tensor).view(aval.dtype).reshape(aval.shape))
        return np.zeros(aval.shape, aval.dtype)


def _kind(aval: Any) -> str:
    """"key" of random numbers, "complex", "nothing" for gradients of integers, else "plain"."""
    if not hasattr(aval.dtype, "kind"):
        return "key"
    return "complex" if aval.dtype.name in _COMPLEX else "nothing" if aval.dtype == _jax("dtypes").float0 else "plain"


def _as_tuple(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, (int, str)) else tuple(given)


class Function:
    """A function that Heddle compiles for the types of its arguments. Made by `jit`; several threads may call it."""

    def __init__(self, function: Callable[..., Any], static_argnums: Any, static_argnames: Any, donate_argnums: Any, donate_argnames: Any, device: str | None,
                 options: Sequence[str]) -> None:
        jax = _jax()
        functools.update_wrapper(self, function)
        self._name = str(getattr(function, "__name__", type(function).__name__))
        self._jitted = jax.jit(function, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
                               donate_argnames=donate_argnames)
        self._jax = jax
        self._tree = _jax("tree_util")
        self._static_nums, self._static_names = _numbers_and_names(function, _as_tuple(static_argnums), _as_tuple(static_argnames))
        self._donated_nums, self._donated_names = _numbers_and_names(function, _as_tuple(donate_argnums), _as_tuple(donate_argnames))
        self._device, self._options = device, tuple(options)
        self._compiled: dict[Any, _Compiled] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<heddle.jax.Function {self._name}, compiled {len(self._compiled)} times>"

    def cache_size(self) -> int:
        """For how many kinds of arguments it was compiled."""
        return len(self._compiled)

    def clear_cache(self) -> None:
        """Forgets what was compiled; the files on disk stay."""
        self._compiled.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        static = {i % len(args) for i in self._static_nums if -len(args) <= i < len(args)} if args else set()
        dynamic = tuple(one for i, one in enumerate(args) if i not in static)
        named = {name: one for name, one in kwargs.items() if name not in self._static_names}
        leaves, tree = self._tree.tree_flatten((dynamic, named))
        if any(isinstance(one, self._jax.core.Tracer) for one in leaves):
            return self._jitted(*args, **kwargs)  # a part of another function that JAX traces
        fixed = (tuple((i, args[i]) for i in sorted(static)), tuple(sorted((name, kwargs[name]) for name in kwargs if name in self._static_names)))
        kinds = tuple(map(self._kind_of, leaves))
        device = self._device or self._device_of(leaves)
        config = self._jax.config
        key = (tree, fixed, kinds, device, config.jax_enable_x64, config.jax_default_matmul_precision, config.jax_default_prng_impl)
        try:
            compiled = self._compiled.get(key)
        except TypeError as wrong:
            raise _fail(self._name, f"a static argument cannot be hashed: {wrong}; give one that can, such as a tuple instead of a list", "TYPE") from None
        if compiled is None:  # without a lock: JAX runs the function, which may call this again, or wait for a thread that does
            compiled = self._compiled.setdefault(key, self._compile(args, kwargs, dynamic, named, device))
        return compiled(leaves)

    def _kind_of(self, leaf: Any) -> Any:
        """What the program depends on."""
        if isinstance(leaf, self._jax.Array):
            if leaf.is_deleted():
                raise _fail(self._name, f"an argument of {leaf.dtype}{list(leaf.shape)} was deleted, or donated to an earlier call; use the result of that call",
                            "FAILED_PRECONDITION")
            return leaf.aval
        shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
        if shape is not None and dtype is not None:
            return tuple(shape), dtype
        if isinstance(leaf, (bool, int, float, complex)):
            return type(leaf)
        raise _fail(self._name, f"an argument is an object of class {type(leaf).__name__}; arguments are arrays and numbers, in trees that JAX knows, or static "
                                "(static_argnums, static_argnames)", "TYPE")

    def _device_of(self, leaves: Iterable[Any]) -> str:
        found = {device for leaf in leaves if isinstance(leaf, self._jax.Array) for device in leaf.devices()}
        if not found:
            return "cpu"
        if len(found) > 1:
            raise _fail(self._name, f"its arguments are on several devices, {', '.join(sorted(map(str, found)))}; put them on one with jax.device_put")
        device = found.pop()
        family = _FAMILIES.get(device.platform)
        if family is None:
            raise _fail(self._name, f"its arguments are on {device}, and Heddle runs functions of JAX on CPUs and on CUDA")
        return family if family == "cpu" else f"{family}:{device.local_hardware_id or 0}"

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: tuple[Any, ...], named: dict[str, Any], device: str) -> _Compiled:
        export = _jax("export")
        try:
            exported = export.export(self._jitted, platforms=["cpu"])(*args, **kwargs)  # StableHLO without calls of the libraries of a device
        except (ValueError, NotImplementedError) as wrong:
            if isinstance(wrong, ValueError) and "custom calls" not in str(wrong):
                raise
            raise _fail(self._name, f"JAX does not export it as StableHLO: {wrong}") from wrong
        text = stablehlo.convert(exported)
        module, _, _ = _compiled_texts.opened(lambda: _compiled_texts.compiled(text, device.split(":")[0], self._options, _folder()), device)
        return _Compiled(exported, module, device, self._donations(args, dynamic, named), self._name)

    def _donations(self, args: tuple[Any, ...], dynamic: tuple[Any, ...], named: dict[str, Any]) -> list[bool]:
        """For each leaf, whether it is donated."""
        chosen = {i % len(args) for i in self._donated_nums if -len(args) <= i < len(args)} if args else set()
        static = {i % len(args) for i in self._static_nums if -len(args) <= i < len(args)} if args else set()
        flags = [i in chosen for i in range(len(args)) if i not in static]
        count = self._tree.tree_leaves
        marked = tuple(flag for flag, one in zip(flags, dynamic, strict=True) for _ in count(one))
        return [*marked, *(name in self._donated_names for name in sorted(named) for _ in count(named[name]))]


def _numbers_and_names(function: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[int, ...], frozenset[str]]:
    """As jax.jit does it: if only one of both is given, the other follows from the signature."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return numbers, frozenset(names)
    positional = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    if numbers and not names:
        names = tuple(positional[i] for i in numbers if -len(positional) <= i < len(positional) and positional[i] in by_name)
    elif names and not numbers:
        numbers = tuple(i for i, name in enumerate(positional) if name in names)
    return numbers, frozenset(names)


def jit(function: Callable[..., Any] | None = None, *, static_argnums: int | Sequence[int] | None = None, static_argnames: str | Iterable[str] | None = None,
        donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Iterable[str] | None = None, device: str | None = None,
        options: Sequence[str] = ()) -> Any:
    """A function that Heddle compiles and runs, as jax.jit makes one; also a decorator.

    function         takes and returns trees of arrays, and may use all of JAX for which Heddle has operators (docs/stablehlo.md)
    static_argnums, static_argnames   arguments that are known while it is traced, as for jax.jit; they can be hashed
    donate_argnums, donate_argnames   arguments that callers give up: using them later is an error. A result takes their memory if it has the same type, and the
                     array is a result of such a function; an array that JAX made is read, and then gone
    device           such as "cuda:0"; None: that of the arguments, or the CPU
    options          more arguments of `heddle compile`

    Arrays go in and out without a copy, except for small ones, complex ones, those of NumPy that are not contiguous, and those that are on another device.
    It is compiled once for each tree, shape and type of arguments, value of static ones, and device. Modules are kept in ~/.cache/heddle/jax
    ($HEDDLE_JAX_CACHE), so that another process compiles nothing. Inside of a function that JAX traces, such as jax.grad(f) of such a function f, JAX runs it.
    """
    if function is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
                                 donate_argnames=donate_argnames, device=device, options=options)
    if not callable(function):
        raise make("TYPE", f"heddle: making a function of JAX failed: a function is needed, got {type(function).__name__}")
    if isinstance(options, str):
        options = [options]
    return Function(function, static_argnums, static_argnames, donate_argnums, donate_argnames, device, options)
