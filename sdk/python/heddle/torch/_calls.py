# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of modules with tensors of PyTorch.

A step of training passes hundreds of them, so the usual ones go to the extension as they are, in one list, by DLPack's C functions (_core._ExchangeCall).
It says which need something else first: a copy in row-major order, on the device, at an aligned address. What it does not take even then, and PyTorch
without these functions goes the way of any array.
"""
from __future__ import annotations

import atexit
import dataclasses
import sys
import time
import warnings
import zlib
from typing import Any, Callable, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import _compiled_texts, _core
from . import _cache
from ._numbers import Number, value_of

_ALIGNMENT = {"cpu": 64, "cuda": 256}  # of arguments, in bytes (docs/interop.md)
_MOST_SIZES = 64  # tuples of symbols whose extents are kept
_CLASSES = (torch.Tensor, torch.nn.Parameter)


def _allocator(device: torch.device) -> Callable[..., torch.Tensor] | None:
    """A function of extents, strides and element type; None: the module allocates its results.

    It allocates on the current device.
    """
    if device.type != "cuda":
        return None
    fast = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cuda", None)  # what Inductor uses
    return fast or (lambda extents, strides, dtype: torch.empty_strided(extents, strides, dtype=dtype, device="cuda"))


def _is_free(tensor: torch.Tensor) -> bool:
    """Whether no other tensor has its memory, and only its Python object refers to it. A view, retain_graph=True or a hook that keeps it does."""
    return bool(tensor._use_count() == 1 and torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) == 2)  # the tensor, and untyped_storage() here


@atexit.register
def _print_late_failures() -> None:
    """What calls have found since the last one, at the end of the process."""
    while True:
        try:
            return _core._ExchangeCall.settle_late_calls()
        except Exception as failure:
            sys.excepthook(type(failure), failure, failure.__traceback__)


def _is_number_in_host_memory(value: Any) -> bool:
    return type(value) in _CLASSES and value.ndim == 0 and value.device.type == "cpu"


def dense(extents: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor in row-major order, as PyTorch counts them."""
    strides, stride = [], 1
    for extent in reversed(extents):
        strides.append(stride)
        stride *= max(extent, 1)
    return tuple(reversed(strides))


@dataclasses.dataclass
class Interface:
    """What there is to know of a module but its file: the text that it is compiled of, and what it reads and writes in a list of values."""
    text: bytes  # compressed by zlib
    target: str
    device: torch.device
    inputs: list[int]  # slots
    orders: list[tuple[int, ...] | None]  # in which the dimensions of each input are given
    input_types: list[torch.dtype | None]  # None: a number
    outputs: list[int]
    shapes: list[tuple[int | Number, ...]]  # of the results
    types: list[torch.dtype]
    devices: list[torch.device]
    updates: dict[int, int]  # the input that each of these results is written over
    symbols: list[str]  # that are no extents of inputs
    carrier: int  # the slot of one more input, which has these symbols as extents; -1: there is none
    result_orders: list[tuple[int, ...] | None]  # in which the dimensions of each result come, and those of its shape are
    donated: list[int]  # inputs that nothing reads after the call
    math: str  # --math of heddle compile; empty: as by default
    checks_late: bool  # on a GPU, an index outside of its dimension is raised by a later call, of any module: this one does not wait for the GPU

    def compiled(self) -> tuple[str, bool]:
        """(path of the module's file, whether it was compiled now). Raises heddle.CompileError."""
        aliases = tuple(f"--alias=a{argument}=r{result}" for result, argument in sorted(self.updates.items()))
        donations = tuple(f"--donate=a{argument}" for argument in self.donated)
        math = (f"--math={self.math}",) if self.math else ()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "donating input")  # which saves nothing
            return _cache.compiled(zlib.decompress(self.text).decode(), self.target, aliases + donations + math)


class Module:
    """A piece of a graph as a function that takes its inputs from a list of values, and leaves its results there.

    It has to be opened before it is run. Pickled, it is its interface, and is not open.
    """

    def __init__(self, interface: Interface) -> None:
        self.interface = interface
        self.phases: dict[str, float] = {}  # seconds that opening it took

    def __getstate__(self) -> Interface:
        return self.interface

    def __setstate__(self, interface: Interface) -> None:
        self.__init__(interface)  # type: ignore[misc]

    @property
    def outputs(self) -> list[int]:
        return self.interface.outputs

    def open(self) -> tuple[str, bool]:
        """What Interface.compiled returns, which is called first."""
        made = self.interface
        self.phases.clear()
        begin = time.monotonic()
        try:
            self._module, path, is_new = _compiled_texts.opened(self._timed, str(made.device))  # the function does not keep it
        finally:
            self.phases["loading"] = time.monotonic() - begin - sum(self.phases.values())
        self._function = self._module.function("main")
        self._device, self._symbols, self._outputs, self._updates, self._carrier = made.device, made.symbols, made.outputs, made.updates, made.carrier
        self._inputs, self._orders, self._types = list(made.inputs), list(made.orders), list(made.input_types)
        self._elsewhere = [i for i, device in enumerate(made.devices) if device != made.device and i not in made.updates]
        self._permuted = [(slot, [order.index(d) for d in range(len(order))]) for slot, order in zip(made.outputs, made.result_orders) if order is not None]
        self._empty = [slot for i, slot in enumerate(made.outputs) if i not in made.updates and 0 in made.shapes[i]]
        self._is_static = not made.symbols and all(isinstance(extent, int) for shape in made.shapes for extent in shape)
        self._made: dict[tuple[int, ...], tuple[list[Any], torch.Tensor | None]] = {}
        self._allocate = _allocator(made.device)
        self._made_always = self._allocations({}) if self._is_static else None
        if made.symbols:
            self._inputs.append(made.carrier)
            self._orders.append(None)
            self._types.append(torch.bool)
        self._direct = self._prepared()
        return path, is_new

    def _timed(self) -> tuple[str, bool]:
        """Interface.compiled, with the time that the compiler took, or finding the module on disk."""
        begin, is_new = time.monotonic(), True
        try:
            path, is_new = self.interface.compiled()
        finally:
            name = "compiler" if is_new else "modules on disk"
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - begin
        return path, is_new

    def dispatches(self) -> int | None:
        """How many kernels a call of the module launches; None if the module does not say."""
        found = [one for one in self._module.report()["functions"] if one["name"] == "main"]
        programs = [one for one in found[0]["programs"] if self._device.type in one["families"]] if found else []
        if not programs or "commands" not in programs[0]:
            return None
        return len([one for one in programs[0]["commands"] if one["command"] == "dispatch"])

    def _prepared(self) -> _core._ExchangeCall | None:
        exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
        if exchange is None:
            return None
        results = [(slot, self._updates.get(i)) for i, slot in enumerate(self._outputs)]
        try:
            return _core._ExchangeCall(self._function, exchange, _CLASSES, torch.Tensor.is_neg, self._allocate, _ALIGNMENT[self._device.type],
                                       list(zip(self._inputs, self._orders)), results, self.interface.donated, _is_free, self._taken,
                                       self.interface.checks_late)
        except NotImplementedError:  # another version of DLPack's functions
            return None

    def _taken(self, tensor: torch.Tensor, argument: int, result: int) -> torch.Tensor:
        """A result that was written to the memory of a donated argument."""
        if (order := self._orders[argument]) is not None:
            tensor = tensor.permute(order)
        strides = dense(tensor.shape)
        tensor = tensor.detach() if tensor.stride() == strides else tensor.as_strided(tensor.shape, strides)  # that of a dimension of 1 may be any
        return tensor if tensor.dtype == self.interface.types[result] else tensor.view(self.interface.types[result])

    def _allocations(self, bindings: dict[str, int]) -> list[Any]:
        """The arguments of the allocator for each result."""
        if self._allocate is None:
            return [None] * len(self._outputs)
        shapes = [tuple(int(value_of(extent, bindings)) for extent in shape) for shape in self.interface.shapes]
        return [(shape, dense(shape), dtype) for shape, dtype in zip(shapes, self.interface.types)]

    def _sized(self, values: list[Any], bindings: dict[str, int]) -> list[Any]:
        """The same for these symbols, whose carrier becomes a value."""
        key = tuple(bindings.values())
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _MOST_SIZES:
                self._made.clear()
            carrier = torch.empty([0, *(bindings[name] for name in self._symbols)], dtype=torch.bool, device=self._device) if self._symbols else None
            found = self._made[key] = (self._allocations(bindings), carrier)
        if self._symbols:
            values[self._carrier] = found[1]
        return found[0]

    def run(self, values: list[Any], bindings: dict[str, int]) -> None:
        made = self._made_always
        if made is None:
            made = self._sized(values, bindings)
        if self._device.type == "cuda" and torch.cuda.current_device() != self._device.index:
            with torch.cuda.device(self._device):
                self._call(values, made)
        else:
            self._call(values, made)
        for slot, back in self._permuted:
            values[slot] = values[slot].permute(back)
        for slot in self._empty:  # `out=` of an operator may resize what has no elements; memory that DLPack hands over cannot be resized
            values[slot] = torch.empty_like(values[slot])
        for i in self._elsewhere:
            values[self._outputs[i]] = values[self._outputs[i]].to(self.interface.devices[i])

    def _call(self, values: list[Any], made: list[Any]) -> None:
        unready = self._direct(values, made) if self._direct is not None else tuple(range(len(self._inputs)))
        if unready is None:
            return
        given = [values[slot] for slot in self._inputs]
        if self._device.type == "cuda":
            self._send_numbers(given, [i for i in unready if i not in self._updates.values() and _is_number_in_host_memory(given[i])])
        for i in unready:
            given[i] = self._ready(given[i], self._orders[i], self._types[i])
        if self._direct is None or self._direct(values, made, given) is not None:
            self._call_with_arrays(values, made, given)
        for i in self._updates.values():
            before = values[self._inputs[i]]
            if i in unready and before.data_ptr() != given[i].data_ptr():
                before.detach().copy_(given[i])

    def _send_numbers(self, given: list[Any], which: list[int]) -> None:
        """Puts tensors on the GPU in the place of these. All of one type are one copy, for which the host does not wait."""
        for dtype in {given[i].dtype for i in which}:
            these = [i for i in which if given[i].dtype == dtype]
            rows = torch.empty((len(these), _ALIGNMENT["cuda"] // dtype.itemsize), dtype=dtype, device="cpu", pin_memory=True)
            with torch.no_grad():
                torch.stack([given[i] for i in these], out=rows[:, 0])
            for i, number in zip(these, rows.to(self._device, non_blocking=True)[:, 0].unbind()):
                given[i] = number

    def _ready(self, tensor: Any, order: tuple[int, ...] | None, kind: torch.dtype | None) -> torch.Tensor:
        """The same values in memory that a module takes, if there are such."""
        if not isinstance(tensor, torch.Tensor):
            return torch.tensor(tensor, dtype=torch.float64, device=self._device)
        if type(tensor) not in _CLASSES:  # PyTorch watches the first call with a mode that refuses operators on classes that it does not know
            with _disable_current_modes():
                tensor = tensor.as_subclass(torch.Tensor)
        tensor = tensor.detach()
        if tensor.layout != torch.strided:
            return tensor
        tensor = tensor.resolve_neg()
        if tensor.ndim == 0 and kind is not None:
            tensor = tensor.to(kind)  # PyTorch 2.14 traces random numbers of Python in f32, and gives them in f64
        if tensor.device.type == "cpu" and self._device.type == "cuda":
            tensor = tensor.to(self._device)
        if order is not None:
            tensor = tensor.permute(order)
        tensor = tensor.contiguous()
        if tensor.data_ptr() % _ALIGNMENT[self._device.type]:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return tensor if order is None else tensor.permute([order.index(d) for d in range(len(order))])

    def _call_with_arrays(self, values: list[Any], made: list[Any], given: list[torch.Tensor]) -> None:
        given = [one.detach() if order is None else one.detach().permute(order) for one, order in zip(given, self._orders)]
        out: list[torch.Tensor | None] = []
        for i, how in enumerate(made):
            out.append(given[self._updates[i]] if i in self._updates else self._allocate(*how) if self._allocate is not None else None)
        options: dict[str, Any] = {}
        if any(one is not None for one in out):
            options["out"] = out if len(out) > 1 else out[0]
        if self._device.type == "cuda":
            stream = torch.cuda.current_stream(self._device).cuda_stream
            options.update(stream=stream, wait=not all(one is not None and one.numel() for one in out))
        results: Any = self._function(*given, **options)
        for i, one in enumerate([results] if len(out) == 1 else results):
            if i not in self._updates:
                wanted = out[i]
                values[self._outputs[i]] = torch.from_dlpack(one) if wanted is None else wanted
