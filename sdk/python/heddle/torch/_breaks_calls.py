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
    pending     by number of a break's key: when the graph before it ended
    written     likewise the tensors that this graph wrote, in a call in which bytes are measured
    """

    __slots__ = ("graph", "compiling", "pending", "written")

    def __init__(self) -> None:
        self.graph: int | None = None
        self.compiling = 0
        self.pending: dict[int, int] = {}
        self.written: dict[int, list[tuple[Any, int]]] = {}


class Local(threading.local):
    """Has a `Thread` for each thread."""

    def __init__(self) -> None:
        self.thread = Thread()


class Ring:
    """The last durations, in nanoseconds: `count` were written, each at its number modulo _RING; `total` is the sum of all."""

    __slots__ = ("values", "count", "total")

    def __init__(self) -> None:
        self.values = array("q", bytes(8 * _RING))
        self.count = self.total = 0

    def percentile_us(self, share: float) -> float | None:
        kept = sorted(self.values[:min(self.count, _RING)])
        return kept[min(len(kept) - 1, int(share * len(kept)))] / 1e3 if kept else None

    def median_us(self) -> float | None:
        kept = self.values[:min(self.count, _RING)]
        return statistics.median(kept) / 1e3 if kept else None


class Crossing:
    """What was measured at one break."""

    __slots__ = ("continued", "between", "measured", "bytes", "kept")

    def __init__(self) -> None:
        self.continued = 0
        self.between = Ring()
        self.measured = 0
        self.bytes = 0
        self.kept = 0


class State:
    """Shared by all graphs of a session. `compiled` is when a compilation last began or ended, so that times with one in them are left out."""

    __slots__ = ("open", "compiled", "local", "_numbers")

    def __init__(self) -> None:
        self.open = True
        self.compiled = 0
        self.local = Local()
        self._numbers: dict[Key, int] = {}

    def number_of(self, key: Key) -> int:
        """A number for a break's key, which is looked up in less time."""
        return self._numbers.setdefault(key, len(self._numbers))

    def note_compiling(self) -> None:
        self.compiled = time.perf_counter_ns()


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

    def observe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, the compiled graph, with its calls counted while the session is open. It is one function, without what could wait until the report
        is asked for, since it is called as often as a graph."""
        state, local, graph, clock, ring = self.state, self.state.local, self.graph, time.perf_counter_ns, self.durations
        values = ring.values
        start_key, arrived = self.starts_after or (None, Crossing())
        end_key, left = self.ends_in or (None, Crossing())
        starts_after = state.number_of(start_key) if start_key is not None else None
        ends_in = state.number_of(end_key) if end_key is not None else None
        between = arrived.between
        between_values = between.values

        def call(*args: Any) -> Any:
            if not state.open:
                return function(*args)
            thread = local.thread
            start = clock()
            if starts_after is not None:
                ended = thread.pending.pop(starts_after, None)
                if ended is not None:
                    arrived.continued += 1
                    if ended > state.compiled:
                        spent = start - ended
                        number = between.count
                        between_values[number & _LAST] = spent
                        between.count = number + 1
                        between.total += spent
                    if thread.written:
                        written = thread.written.pop(starts_after, ())
                        arrived.kept = max(arrived.kept, sum([size for one, size in written if one() is not None]))
                        start = clock()
            outer = thread.graph
            thread.graph = graph
            try:
                results = function(*args)
            finally:
                thread.graph = outer
            end = clock()
            spent = end - start
            number = ring.count
            values[number & _LAST] = spent
            ring.count = number + 1
            ring.total += spent
            if ends_in is not None:
                if number < _FIRST or not number % _EVERY:
                    written = thread.written[ends_in] = _written(args, results)
                    left.measured += 1
                    left.bytes += sum([size for _, size in written])
                    end = clock()
                thread.pending[ends_in] = end
            return results

        return call


class HostReads:
    """Counts reads of a tensor's value by the host, all of which go through one operator. Takes the place of that operator's kernels while it is
    installed."""

    def __init__(self, state: State) -> None:
        self.state = state
        # By the id of a function's code, whose hash would take microseconds: the code, and by the place in it: the graph, how often, and nanoseconds.
        # A place is the number of an instruction, and (number, graph) if it was reached in a graph.
        self.found: dict[int, tuple[CodeType, dict[Any, list[Any]]]] = {}
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
        call_boxed = kernel.call_boxed
        of_code: dict[int, dict[Any, list[Any]] | None] = {}  # by the id of a code: its places, None if it is not the user's
        kept: list[CodeType] = []  # so that ids stay theirs

        # Calls no other function of Python once a place is known: Dynamo, which may be active here, would try to compile it.
        def read(tensor: Any) -> Any:
            thread = local.thread
            if thread.compiling:
                return call_boxed(keys, tensor)
            start = clock()
            value = call_boxed(keys, tensor)
            spent = clock() - start
            first = frame_of(1)
            frame: FrameType | None = first
            places = None
            while frame is not None:
                code = frame.f_code
                number = id(code)
                try:
                    places = of_code[number]
                except KeyError:
                    kept.append(code)
                    places = of_code[number] = found.setdefault(number, (code, {}))[1] if is_users(code) else None
                if places is not None:
                    break
                frame = frame.f_back
            if frame is None or places is None:
                frame, places = first, found.setdefault(id(first.f_code), (first.f_code, {}))[1]
            graph = thread.graph
            at = frame.f_lasti if graph is None else (frame.f_lasti, graph)
            counted = places.get(at)
            if counted is None:
                counted = places[at] = [graph, 0, 0]
            counted[1] += 1
            counted[2] += spent
            return value

        pytorch("_dynamo.eval_frame").skip_code(read.__code__)
        return read

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def reads(self) -> list[HostRead]:
        made: dict[tuple[str, int, int | None], HostRead] = {}
        counted = [(code, at, *one) for code, places in list(self.found.values()) for at, one in list(places.items())]
        for code, at, graph, count, spent in counted:
            offset = at if graph is None else at[0]
            line = next(itertools.islice(code.co_positions(), offset // 2, None), (None,))[0] or code.co_firstlineno
            one = made.setdefault((code.co_filename, line, graph), HostRead(_breaks_places.place_of(code.co_filename, line, code.co_name), 0, 0.0, graph))
            one.count += count
            one.seconds += spent / 1e9
        return sorted(made.values(), key=lambda one: (-one.count, one.place.file, one.place.line))
