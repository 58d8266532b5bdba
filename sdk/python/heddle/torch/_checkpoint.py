# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints: what a training loop needs to go on, as one safetensors file that is written while it does."""
from __future__ import annotations

import collections
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import torch

from .._errors import Error, make
from . import _tensors

_KEY = "heddle.checkpoint"  # in the file's metadata
_VERSION = 1
_lock = threading.Lock()
_last: Future[str] | None = None  # the checkpoint that was begun last


def _fail(doing: str, path: str, cause: str, code: str = "INVALID_ARGUMENT") -> Error:
    return make(code, f"heddle.torch: {doing} checkpoint '{path}' failed: {cause}")


def _model_of(model: Any) -> Any:
    """The module itself, for names without that of the wrapper of torch.compile."""
    return getattr(model, "_orig_mod", model)


class _Tree:
    """Values that may have tensors in them as JSON, and these tensors by name. Scalars are themselves; everything else is a list that begins with its kind."""

    def __init__(self, refuse: Callable[[str, str], Error]) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._refuse = refuse

    def text_of(self, value: Any, name: str) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, torch.Tensor):
            if type(value) not in (torch.Tensor, torch.nn.Parameter):
                raise self._refuse(name, f"is a {type(value).__name__}; only plain tensors are saved, such as those of its full_tensor()")
            if name in self.tensors:
                raise self._refuse(name, "has the name of another tensor; rename it, or the object that it belongs to")
            _tensors.check(name, value)
            self.tensors[name] = value
            return ["tensor", name]
        prefix = name + "/" if name else ""
        if isinstance(value, Mapping):
            kind = "counter" if isinstance(value, collections.Counter) else "dict"
            for key in value:
                if not isinstance(key, (str, int)):
                    raise self._refuse(name, f"has a key of class {type(key).__name__}; keys are texts and whole numbers")
            return [kind, [[key, self.text_of(one, f"{prefix}{key}")] for key, one in value.items()]]
        if isinstance(value, (list, tuple)):
            return ["tuple" if isinstance(value, tuple) else "list", [self.text_of(one, f"{prefix}{i}") for i, one in enumerate(value)]]
        raise self._refuse(name, f"is a {type(value).__name__}; a checkpoint has tensors, numbers, texts and None, and lists, tuples and dictionaries of them")


def _value_of(text: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(text, list):
        return text
    kind, content = text
    if kind == "tensor":
        return tensors[content]
    if kind in ("dict", "counter"):
        found = {key: _value_of(one, tensors) for key, one in content}
        return collections.Counter(found) if kind == "counter" else found
    return {"list": list, "tuple": tuple}[kind](_value_of(one, tensors) for one in content)


def _generators(model: Any) -> dict[str, torch.Tensor]:
    """The states of PyTorch's generators of random numbers: the host's, and those of the devices of the model."""
    devices = {one.device for one in (*model.parameters(), *model.buffers()) if one.device.type == "cuda"}
    return {"cpu": torch.get_rng_state(), **{f"cuda:{one.index}": torch.cuda.get_rng_state(one) for one in devices}}


def _copies(tensors: Mapping[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[Any]]:
    """Tensors of the host with the values of now, and events after which they have them."""
    copies: dict[str, torch.Tensor] = {}
    devices: set[torch.device] = set()
    for name, tensor in tensors.items():
        pinned = tensor.device.type == "cuda"
        copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned).copy_(tensor.detach(), non_blocking=pinned)
        if pinned:
            devices.add(tensor.device)
    return copies, [torch.cuda.current_stream(one).record_event() for one in devices]


def save_checkpoint(path: str | os.PathLike[str], model: torch.nn.Module, **more: Any) -> Future[str]:
    """Writes what training needs to go on to a safetensors file, and returns before it is written.

    path    the file. It has this name only when it is complete; one that was there before is replaced then
    model   its parameters and buffers have the names of its state_dict in the file, so `heddle.open` and others take the file as weights
    more    objects with a state_dict, such as optimizer=, scheduler=, scaler=; and values to get back, such as step=: numbers, texts, tensors, and
            lists, tuples and dictionaries of them

    The states of PyTorch's generators of random numbers are in the file, too. All of it is as of this call, whatever becomes of the tensors afterwards: they
    are copied to memory of the host (on CUDA in the order of the current stream, without waiting for it), which is freed when the file is written. A
    checkpoint that is still being written is waited for first, so that there is one copy at a time.

    Returns a future: `result()` waits, and returns the path or raises what went wrong, of which a warning tells as well. A process that ends writes the
    file first; one that is killed leaves the previous file, and the incomplete one beside it, as PATH.PID.partial.
    """
    global _last
    place = os.path.abspath(os.fspath(path))
    saving = "writing"

    def refuse(name: str, cause: str) -> Error:
        return _fail(saving, place, f"'{name}' {cause}", "UNIMPLEMENTED")

    if not isinstance(model, torch.nn.Module):
        raise _fail(saving, place, f"the model is a torch.nn.Module, got {type(model).__name__}", "TYPE")
    if not os.path.isdir(os.path.dirname(place)):
        raise _fail(saving, place, f"the folder '{os.path.dirname(place)}' does not exist; make it first", "NOT_FOUND")
    model = _model_of(model)
    tree = _Tree(refuse)
    made: dict[str, Any] = {"version": _VERSION, "model": tree.text_of(model.state_dict(), ""), "objects": {}, "values": {}}
    for name, one in more.items():
        state = getattr(one, "state_dict", None)
        made["objects" if callable(state) else "values"][name] = tree.text_of(state() if callable(state) else one, name)
    made["generators"] = tree.text_of(_generators(model), "generators")
    metadata = {_KEY: json.dumps(made, separators=(",", ":"))}
    future: Future[str] = Future()
    with _lock:
        before, _last = _last, future
    try:
        if before is not None:
            before.exception()  # waits for it
        copies, events = _copies(tree.tensors)
    except BaseException as wrong:
        future.set_exception(wrong)
        raise

    def write() -> None:
        try:
            for event in events:
                event.synchronize()
            _tensors.save(copies, place, metadata, durable=True)
        except BaseException as wrong:  # of the file system or of a device
            cause = f"{wrong.strerror}; free space, or choose another folder" if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
            error = _fail(saving, place, cause, "UNAVAILABLE")
            error.__cause__ = wrong
            copies.clear()
            future.set_exception(error)
            warnings.warn(str(error), stacklevel=1)
        else:
            copies.clear()
            future.set_result(place)

    threading.Thread(target=write, name="heddle-checkpoint").start()
    return future


def load_checkpoint(path: str | os.PathLike[str], model: torch.nn.Module | None = None, **more: Any) -> dict[str, Any]:
    """Takes a file of `save_checkpoint` back, and returns the values of it, such as {"step": 1000}.

    model   gets its parameters and buffers, in the tensors that it has. Names, shapes and element types have to be the same, which is checked before
            anything is changed. None: only values are wanted
    more    objects that were saved under these names, which get their state by load_state_dict, after the model. What is not named here is left out

    With a model, PyTorch's generators of random numbers are set as well, those of CUDA devices that are there.
    """
    place = os.path.abspath(os.fspath(path))
    loading = "reading"
    tensors, metadata = _tensors.load(place)
    try:
        made = json.loads(metadata[_KEY])
        version = made["version"]
    except (KeyError, TypeError, ValueError):
        raise _fail(loading, place, "it is a safetensors file of weights, and none that save_checkpoint wrote; use safetensors.torch.load_file and "
                                    "load_state_dict") from None
    if version != _VERSION:
        raise _fail(loading, place, f"it is of version {version!a:.20}, and this Heddle reads version {_VERSION}", "UNIMPLEMENTED")
    try:
        state = _value_of(made["model"], tensors)
        objects = {name: _value_of(one, tensors) for name, one in made["objects"].items()}
        values: dict[str, Any] = {name: _value_of(one, tensors) for name, one in made["values"].items()}
        generators = _value_of(made["generators"], tensors)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise _fail(loading, place, f"its description of the tensors is damaged ({type(wrong).__name__}: {wrong})", "DATA_LOSS") from None
    missing = [name for name in more if name not in objects]
    if missing:
        raise _fail(loading, place, f"it has no object '{missing[0]}', but " + (", ".join(map(repr, objects)) or "none"), "NOT_FOUND")
    if model is not None:
        model = _model_of(model)
        _check(place, loading, model.state_dict(), state)
        model.load_state_dict(state)
    for name, one in more.items():
        one.load_state_dict(_own(objects[name]))
    if model is not None:
        for name, one in generators.items():
            if name == "cpu":
                torch.set_rng_state(one.clone())
            elif torch.cuda.is_available() and torch.device(name).index < torch.cuda.device_count():
                torch.cuda.set_rng_state(one.clone(), name)
    owned: dict[str, Any] = _own(values)
    return owned


def _own(value: Any) -> Any:
    """The same with tensors that are no part of the file."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, collections.Counter):
        return value
    if isinstance(value, dict):
        return {key: _own(one) for key, one in value.items()}
    return type(value)(_own(one) for one in value) if isinstance(value, (list, tuple)) else value


def _check(place: str, loading: str, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    problems = []
    for name in wanted.keys() | found.keys():
        a, b = wanted.get(name), found.get(name)
        if name not in found:
            problems.append(f"'{name}' is not in the file")
        elif name not in wanted:
            problems.append(f"'{name}' is not in the model")
        elif isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and (a.shape, a.dtype) != (b.shape, b.dtype):
            problems.append(f"'{name}' is {b.dtype}{list(b.shape)} in the file and {a.dtype}{list(a.shape)} in the model")
    if problems:
        problems.sort()
        rest = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise _fail(loading, place, f"it is of another model: {'; '.join(problems[:5])}{rest}. Nothing was changed")
