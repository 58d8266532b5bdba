# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts and times the calls of graphs, what crosses from one graph to the next one, and the host's reads of tensors."""
from __future__ import annotations

import itertools
import statistics
import sys
import threading
import time
import weakref
from array import array
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from . import _breaks_places
from ._breaks_records import HostRead
from ._pytorch import pytorch

_RING = 4096  # durations that are kept; a power of two
_LAST = _RING - 1
_FIRST, _EVERY = 4, 64  # the calls in which bytes are measured

Key = tuple[str, str, int]  # file, function and line of a break, as the function that goes on after it names them


class Thread:
    """What a thread does now.

    graph       the number of the graph that runs
    compiling   how many functions are being compiled, one inside of the other
    pending     by break: when the graph before it ended, how much had been compiled by then, and the tensors that it wrote
    """

    __slots__ = ("graph", "compiling", "pending")

    def __init__(self) -> None:
        self.graph: int | None = None
        self.compiling = 0
        self.pending: dict[Key, tuple[int, int, list[tuple[Any, int]] | None]] = {}


class Local(threading.local):
    """Has a `Thread` for each thread."""

    def __init__(self) -> None:
        self.thread = Thread()


class Ring:
    """The last durations, in nanoseconds: `count` were written, each at its number modulo _RING."""

    def __init__(self) -> None:
        self.values = array("q", bytes(8 * _RING))
        self.count = 0

    def percentile_us(self, share: float) -> float | None:
        kept = sorted(self.values[:min(self.count, _RING)])
        return kept[min(len(kept) - 1, int(share * len(kept)))] / 1e3 if kept else None

    def median_us(self) -> float | None:
        kept = self.values[:min(self.count, _RING)]
        return statistics.median(kept) / 1e3 if kept else None


class Crossing:
    """What was measured at one break."""

    def __init__(self) -> None:
        self.continued = 0
        self.between = Ring()
        self.between_total = 0
        self.measured = 0
        self.bytes = 0
        self.kept = 0


class State:
    """Shared by all graphs of a session. `compiles` counts compilations, so that times with one in them are left out."""

    def __init__(self) -> None:
        self.open = True
        self.compiles = 0
        self.local = Local()


def _storages(values: Any) -> set[int]:
    torch = pytorch()
    return {one.untyped_storage()._cdata for one in values if isinstance(one, torch.Tensor)}


def _written(args: Any, results: Any) -> list[tuple[Any, int]]:
    """The tensors that a graph made, each storage once, with their bytes. Results that are memory of arguments are not among them."""
    torch, made = pytorch(), []
    try:
        seen = _storages(args)
        for one in results if isinstance(results, (tuple, list)) else (results,):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()._cdata
                if storage not in seen:
                    seen.add(storage)
                    made.append((weakref.ref(one), one.numel() * one.element_size()))
    except (RuntimeError, NotImplementedError, TypeError):  # tensors without a storage, such as sparse ones
        pass
    return made


class Piece:
    """The calls of one graph.

    starts_after   the break after which it starts, if it does
    ends_in        the break that ends it, if one does
    """

    def __init__(self, state: State, graph: int, starts_after: tuple[Key, Crossing] | None, ends_in: tuple[Key, Crossing] | None) -> None:
        self.state, self.graph, self.starts_after, self.ends_in = state, graph, starts_after, ends_in
        self.durations = Ring()
        self.total = 0

    def observe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, the compiled graph, with its calls counted while the session is open. It is one function, since it is called as often as a graph."""
        state, local, graph, clock, ring = self.state, self.state.local, self.graph, time.perf_counter_ns, self.durations
        values = ring.values
        start_key, arrived = self.starts_after or (None, Crossing())
        end_key, left = self.ends_in or (None, Crossing())
        between, between_values = arrived.between, arrived.between.values

        def call(*args: Any) -> Any:
            if not state.open:
                return function(*args)
            thread = local.thread
            start = clock()
            if start_key is not None:
                pending = thread.pending.pop(start_key, None)
                if pending is not None:
                    ended, compiles, written = pending
                    arrived.continued += 1
                    if compiles == state.compiles:
                        between_values[between.count & _LAST] = start - ended
                        between.count += 1
                        arrived.between_total += start - ended
                    if written is not None:
                        arrived.kept = max(arrived.kept, sum(size for one, size in written if one() is not None))
                    start = clock()
            outer, thread.graph = thread.graph, graph
            try:
                results = function(*args)
            finally:
                thread.graph = outer
            end = clock()
            count = ring.count
            values[count & _LAST] = end - start
            ring.count = count + 1
            self.total += end - start
            if end_key is not None:
                written = None
                if count < _FIRST or count % _EVERY == 0:
                    written = _written(args, results)
                    left.measured += 1
                    left.bytes += sum(size for _, size in written)
                    end = clock()
                thread.pending[end_key] = (end, state.compiles, written)
            return results

        return call


class HostReads:
    """Counts reads of a tensor's value by the host, all of which go through one operator. Takes the place of that operator's kernels while it is
    installed."""

    def __init__(self, state: State) -> None:
        self.state = state
        # By the id of a function's code, the place in it, and the graph: how often, nanoseconds, and the code, whose hash would take microseconds.
        self.found: dict[tuple[int, int, int | None], list[Any]] = {}
        self._library: Any = None

    def install(self) -> str:
        """Returns why reads cannot be counted, or an empty text."""
        import warnings

        torch = pytorch()
        if not hasattr(torch.library, "get_kernel"):
            return "this PyTorch has no torch.library.get_kernel, so the host's reads of tensors are not counted"
        pytorch("_dynamo.eval_frame").skip_code(_breaks_places.is_users_code.__code__)
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced
            for key in ["CPU", *(["CUDA"] if torch.cuda.is_available() else [])]:
                keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
                self._library.impl("_local_scalar_dense", self._counting(torch.library.get_kernel("aten::_local_scalar_dense", key), keys), key)
        return ""

    def _counting(self, kernel: Any, keys: Any) -> Callable[..., Any]:
        local, found, clock, frame_of, is_users = self.state.local, self.found, time.perf_counter_ns, sys._getframe, _breaks_places.is_users_code
        of_code: dict[int, tuple[bool, CodeType]] = {}

        # Calls no other function of Python: Dynamo, which may be active here, would try to compile it.
        def read(tensor: Any) -> Any:
            thread = local.thread
            if thread.compiling:
                return kernel.call_boxed(keys, tensor)
            start = clock()
            value = kernel.call_boxed(keys, tensor)
            spent = clock() - start
            first = frame_of(1)
            frame: FrameType | None = first
            while frame is not None:
                code = frame.f_code
                mine = of_code.get(id(code))
                if mine is None:
                    mine = of_code[id(code)] = (is_users(code), code)
                if mine[0]:
                    break
                frame = frame.f_back
            at = frame or first
            key = (id(at.f_code), at.f_lasti, thread.graph)
            counted = found.get(key)
            if counted is None:
                counted = found[key] = [0, 0, at.f_code]
            counted[0] += 1
            counted[1] += spent
            return value

        pytorch("_dynamo.eval_frame").skip_code(read.__code__)
        return read

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def reads(self) -> list[HostRead]:
        made: dict[tuple[str, int, int | None], HostRead] = {}
        for (_, offset, graph), (count, spent, code) in list(self.found.items()):
            line = next(itertools.islice(code.co_positions(), offset // 2, None), (None,))[0] or code.co_firstlineno
            one = made.setdefault((code.co_filename, line, graph), HostRead(_breaks_places.place_of(code.co_filename, line, code.co_name), 0, 0.0, graph))
            one.count += count
            one.seconds += spent / 1e9
        return sorted(made.values(), key=lambda one: (-one.count, one.place.file, one.place.line))
