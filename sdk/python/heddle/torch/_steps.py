# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph as a list of steps, each a module of Heddle or an operator of PyTorch, over a list of values.

Nothing here refers to the graph that it was made of, so it can be pickled (_graph_cache.py).
"""
from __future__ import annotations

import dataclasses
import functools
import math
import operator
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ._calls import Module
from ._numbers import Number, value_of

_MODULES = {"_operator": operator, "math": math}


@dataclasses.dataclass(frozen=True)
class Slot:
    """The place of a value among the arguments of an operator."""
    index: int


@dataclasses.dataclass
class Operator:
    """A step that PyTorch runs. Arguments may have members of the types Slot and Number, also within lists, tuples, dictionaries and slices.

    It can be pickled if the function is one of torch.ops, or of the modules operator and math.
    """
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: int  # its slot

    def __getstate__(self) -> tuple[Any, ...]:
        function = self.function
        if isinstance(function, torch._ops.OpOverload):
            name = str(function)  # such as "aten.rand.default"
        elif getattr(function, "__module__", None) in ("_operator", "math"):
            name = f"{function.__module__}.{function.__name__}"
        else:
            raise pickle.PicklingError(f"{function} has no name in other processes")
        return name, self.arguments, self.named, self.result

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        name, self.arguments, self.named, self.result = state
        where, _, rest = name.partition(".")
        self.function = functools.reduce(getattr, name.split("."), torch.ops) if where not in _MODULES else getattr(_MODULES[where], rest)

    def run(self, values: list[Any], bindings: dict[str, int]) -> None:
        def given(one: Any) -> Any:
            return values[one.index] if isinstance(one, Slot) else value_of(one, bindings) if isinstance(one, Number) else one

        values[self.result] = self.function(*torch.fx.node.map_aggregate(self.arguments, given), **torch.fx.node.map_aggregate(self.named, given))


@dataclasses.dataclass
class Steps:
    """A function of the arguments of a graph, which come in one list that it empties."""
    sources: dict[str, tuple[int, int | None]]  # the argument and its dimension that give each symbol; None: the argument is the number
    arguments: int
    steps: list[Operator | Module]
    dropped: list[list[int]]  # the slots that nothing needs after each step
    constants: list[torch.Tensor]  # in the slots after the arguments
    slots: int
    numbers: list[tuple[int, int | Number]]  # slots that hold numbers of symbols
    results: list[Any]  # a Slot, a Number or the value itself
    strides: dict[int, list[int | Number]]  # of results of modules, where a later step depends on them

    def bindings(self, arguments: Sequence[Any]) -> dict[str, int]:
        """The symbols' values in a call."""
        return {name: int(arguments[i] if d is None else arguments[i].shape[d]) for name, (i, d) in self.sources.items()}

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if forward_ad._current_level >= 0:
            _refuse_tangents(arguments)
        bindings = self.bindings(arguments)
        values = arguments + self.constants
        values += [None] * (self.slots - len(values))
        arguments.clear()  # boxed: what the caller does not keep is freed after its last use
        for slot, number in self.numbers:
            values[slot] = value_of(number, bindings)
        for step, dropped in zip(self.steps, self.dropped):
            step.run(values, bindings)
            if self.strides and isinstance(step, Module):
                for slot in step.outputs:
                    if slot in self.strides and (result := values[slot]) is not None:
                        values[slot] = _restrided(result, [int(value_of(one, bindings)) for one in self.strides[slot]])
            for slot in dropped:
                values[slot] = None
        return [values[one.index] if isinstance(one, Slot) else value_of(one, bindings) if isinstance(one, Number) else one for one in self.results]


def _refuse_tangents(arguments: Sequence[Any]) -> None:
    if any(isinstance(one, torch.Tensor) and forward_ad.unpack_dual(one).tangent is not None for one in arguments):
        raise RuntimeError("heddle.torch: an argument has a tangent of torch.autograd.forward_ad, which results of a compiled function would lose; "
                           "call torch.func.jvp in the compiled function, or the function as it is")


def _restrided(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if tuple(tensor.stride()) == tuple(strides):
        return tensor
    if any(stride == 0 and extent > 1 for extent, stride in zip(tensor.shape, strides)):  # an expanded tensor: one element for all along the dimension
        one = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
        return _restrided(one, [stride or one.stride(d) for d, stride in enumerate(strides)]).expand(tensor.shape)
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
