# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts and times the calls of graphs, what crosses from one graph to the next one, and the host's reads of tensors."""
from __future__ import annotations

import statistics
import sys
import threading
import time
import weakref
from array import array
from collections.abc import Callable
from types import FrameType
from typing import Any

from . import _breaks_places
from ._breaks_records import HostRead
from ._pytorch import pytorch

_RING = 4096  # durations that are kept; a power of two
_FIRST, _EVERY = 4, 64  # the calls in which bytes are measured

Key = tuple[str, str, int]  # file, function and line of a break, as the function that goes on after it names them


class Local(threading.local):
    """What a thread does now.

    graph       the number of the graph that runs
    compiling   how many functions are being compiled, one inside of the other
    pending     by break: when the graph before it ended, how much had been compiled by then, and the tensors that it wrote
    """

    def __init__(self) -> None:
        self.graph: int | None = None
        self.compiling = 0
        self.pending: dict[Key, tuple[Crossing, int, int, list[tuple[Any, int]] | None]] = {}


class Ring:
    """The last durations, in nanoseconds."""

    def __init__(self) -> None:
        self.values = array("q", bytes(8 * _RING))
        self.count = 0

    def add(self, value: int) -> None:
        self.values[self.count & (_RING - 1)] = value
        self.count += 1

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
    except (RuntimeError, NotImplementedError):  # tensors without a storage, such as sparse ones
        pass
    return made


class Piece:
    """The calls of one graph.

    starts_after   the break after which it starts, if it does
    ends_in        the break that ends it, if one does, with what is measured there
    """

    def __init__(self, state: State, graph: int, starts_after: Key | None, ends_in: tuple[Key, Crossing] | None) -> None:
        self.state, self.graph, self.starts_after, self.ends_in = state, graph, starts_after, ends_in
        self.durations = Ring()
        self.total = 0

    def _enter(self) -> None:
        pending = self.state.local.pending.pop(self.starts_after, None)  # type: ignore[arg-type]
        if pending is None:
            return
        crossing, ended, compiles, written = pending
        crossing.continued += 1
        if compiles == self.state.compiles:
            between = time.perf_counter_ns() - ended
            crossing.between_total += between
            crossing.between.add(between)
        if written is not None:
            crossing.kept = max(crossing.kept, sum(size for one, size in written if one() is not None))

    def _leave(self, args: Any, results: Any) -> None:
        assert self.ends_in is not None
        key, crossing = self.ends_in
        count, written = self.durations.count, None
        if count <= _FIRST or count % _EVERY == 0:
            written = _written(args, results)
            crossing.measured += 1
            crossing.bytes += sum(size for _, size in written)
        self.state.local.pending[key] = (crossing, time.perf_counter_ns(), self.state.compiles, written)

    def observe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, the compiled graph, with its calls counted while the session is open."""
        state, local, graph, clock = self.state, self.state.local, self.graph, time.perf_counter_ns
        starts, ends, ring = self.starts_after is not None, self.ends_in is not None, self.durations
        values = ring.values

        def call(*args: Any) -> Any:
            if not state.open:
                return function(*args)
            if starts:
                self._enter()
            outer, local.graph = local.graph, graph
            start = clock()
            try:
                results = function(*args)
            finally:
                local.graph = outer
            spent = clock() - start
            values[ring.count & (_RING - 1)] = spent
            ring.count += 1
            self.total += spent
            if ends:
                self._leave(args, results)
            return results

        return call


class HostReads:
    """Counts reads of a tensor's value by the host, all of which go through one operator. Takes the place of that operator's kernels while it is
    installed."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.found: dict[tuple[str, int, str, int | None], list[int]] = {}
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
                self._library.impl("_local_scalar_dense", self._counting(torch.library.get_kernel("aten::_local_scalar_dense", key)), key, with_keyset=True)
        return ""

    def _counting(self, kernel: Any) -> Callable[..., Any]:
        local, found, clock, frame_of, is_users = self.state.local, self.found, time.perf_counter_ns, sys._getframe, _breaks_places.is_users_code
        of_code: dict[Any, bool] = {}

        # Calls no other function of Python: Dynamo, which may be active here, would try to compile it.
        def read(keys: Any, tensor: Any) -> Any:
            if local.compiling:
                return kernel.call_boxed(keys, tensor)
            start = clock()
            value = kernel.call_boxed(keys, tensor)
            spent = clock() - start
            first = frame_of(1)
            frame: FrameType | None = first
            while frame is not None:
                mine = of_code.get(frame.f_code)
                if mine is None:
                    mine = of_code[frame.f_code] = is_users(frame.f_code)
                if mine:
                    break
                frame = frame.f_back
            at = frame or first
            key = (at.f_code.co_filename, at.f_lineno, at.f_code.co_name, local.graph)
            counted = found.get(key)
            if counted is None:
                counted = found[key] = [0, 0]
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
        made = [HostRead(_breaks_places.place_of(file, line, function), count, spent / 1e9, graph)
                for (file, line, function, graph), (count, spent) in list(self.found.items())]
        return sorted(made, key=lambda one: (-one.count, one.place.file, one.place.line))
