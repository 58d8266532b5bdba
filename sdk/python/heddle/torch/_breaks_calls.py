# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the calls of graphs, and observes some of them: how long they take, and what crosses from one graph to the next one."""
from __future__ import annotations

import functools
import random
import statistics
import threading
import time
import weakref
from array import array
from collections.abc import Callable
from typing import Any

from ._breaks_pace import FIRST, Pace
from ._breaks_reads import BACKWARD, HostReads
from ._pytorch import pytorch

_RING = 4096  # durations that are kept; a power of two
_LAST = _RING - 1
_NEVER = 1 << 29  # calls, as an integer that Python adds to quickly
_MOST_ENTRIES = 32  # functions that one observation follows into each other
ELSEWHERE = -1

Key = tuple[str, str, int]  # file, function and line of a break, as the function that goes on after it names them


class Observation:
    """Of a call of a function, and of what the thread does until it calls another one: all graphs in between are observed, since the times between them
    are what breaks cost.

    deep      whether bytes are measured
    counts    whether the host's reads are counted
    cost      nanoseconds that the observation itself took
    spent     nanoseconds from its begin to the end of the last graph, without `cost`
    pending   by number of a break's key: when the graph before it ended, `cost` at that time, and in a deep observation the tensors that this graph wrote
    """

    __slots__ = ("root", "begun", "deep", "counts", "cost", "spent", "pending", "entries")

    def __init__(self, root: Piece, begun: int) -> None:
        self.root, self.begun = root, begun
        self.deep = self.counts = False
        self.cost = self.spent = self.entries = 0
        self.pending: dict[int, tuple[int, int, list[tuple[Any, int]]]] = {}

    def ends_before(self, entered: Piece) -> bool:
        """Whether it ends before this graph, which starts a function: unless the function is called between two graphs of one that is observed."""
        self.entries += 1
        return not self.pending or entered is self.root or not self.root.is_entry or self.entries >= _MOST_ENTRIES


class Thread:
    """What a thread does now.

    seen        the observation that goes on
    known       whether there was one in this thread
    graph       the number of the graph that runs, in observed calls
    when        2 * number of the graph in an observed call, 2 * number + 1 after it, ELSEWHERE before any
    compiling   how many functions are being compiled, one inside of the other
    reading     whether the host reads a tensor, so that reads of its elements are not counted one by one
    copied      a weak reference to the last tensor that the host copied from a device: reading that waits no more
    late        nanoseconds that it took to end the last observation, which are a part of what the next one costs
    """

    __slots__ = ("seen", "known", "graph", "when", "compiling", "reading", "copied", "late", "_state")

    def __init__(self, state: State) -> None:
        self.seen: Observation | None = None
        self.known = False
        self.graph: int | None = None
        self.when = ELSEWHERE
        self.compiling = self.late = 0
        self.reading = False
        self.copied: Callable[[], Any] = lambda: None
        self._state = state

    def __del__(self) -> None:
        if self.seen is not None:
            self._state.watch(-1)


class Local(threading.local):
    """Has a `Thread` for each thread."""

    def __init__(self, state: State) -> None:
        self.thread = Thread(state)


class Ring:
    """The last durations, in nanoseconds: `count` were written, each at its number modulo _RING; `total` is the sum of all."""

    __slots__ = ("values", "count", "total")

    def __init__(self) -> None:
        self.values = array("q", bytes(8 * _RING))
        self.count = self.total = 0

    def add(self, spent: int) -> None:
        self.values[self.count & _LAST] = spent
        self.count += 1
        self.total += spent

    def percentile_us(self, share: float) -> float | None:
        kept = sorted(self.values[:min(self.count, _RING)])
        return kept[min(len(kept) - 1, int(share * len(kept)))] / 1e3 if kept else None

    def median_us(self) -> float | None:
        kept = self.values[:min(self.count, _RING)]
        return statistics.median(kept) / 1e3 if kept else None


class Crossing:
    """What was measured at one break: in `observed` crossings, in those of them in which nothing was compiled, and in `measured` ones."""

    __slots__ = ("observed", "between", "measured", "bytes", "kept")

    def __init__(self) -> None:
        self.observed = 0
        self.between = Ring()
        self.measured = 0
        self.bytes = 0
        self.kept = 0


Watched = Callable[[Callable[..., Any], Any], Any]


def _counting() -> tuple[Callable[[int], None], Callable[[Callable[..., Any], Watched], tuple[Callable[..., Any], Callable[[int], int]]]]:
    """Two functions of a session, which share a variable: looking up an attribute in each call of a graph would take longer."""
    watching, lock = 0, threading.Lock()

    def watch(change: int) -> None:
        nonlocal watching
        with lock:
            watching += change

    def counted(function: Callable[..., Any], watched: Watched) -> tuple[Callable[..., Any], Callable[[int], int]]:
        left = 1

        def call(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left > 0 and not watching:
                return function(*args)
            return watched(function, args)

        def add(calls: int) -> int:
            nonlocal left
            left += calls
            return left

        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call, add

    return watch, counted


class State:
    """Shared by all graphs of a session.

    compiled   when a compilation last began or ended, so that times with one in them are left out
    watch      adds to the number of threads in which a call is being observed
    counted    makes a graph's function one that counts its calls
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns, draw: Callable[[], float] | None = None) -> None:
        self.clock = clock
        self.draw = draw or random.Random(0).random  # not the program's numbers
        self.compiled = 0
        self.watch, self.counted = _counting()
        self.local = Local(self)
        self.host = HostReads(self)
        self._numbers: dict[Key, int] = {}

    def number_of(self, key: Key) -> int:
        """A number for a break's key, which is looked up in less time."""
        return self._numbers.setdefault(key, len(self._numbers))

    def note_compiling(self) -> None:
        self.compiled = self.clock()

    def begin(self, thread: Thread, root: Piece, now: int) -> Observation:
        thread.seen, thread.known = Observation(root, now), True
        self.watch(1)
        return thread.seen

    def finish(self, thread: Thread) -> None:
        seen = thread.seen
        if seen is not None:
            thread.seen = None
            self.watch(-1)
            if seen.begun > self.compiled and seen.spent > 0:
                seen.root.pace.note(seen.cost, seen.spent, seen.deep)


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
    is_entry       whether no graph runs before it in its function
    wrote          bytes of the results, of a backward pass
    left           adds to the number of calls until the next one that is observed, and returns it. All calls are those that were added but are not left,
                   which is exact with several threads as well: each of them changes these numbers only by adding, which the interpreter does not interrupt
    entered        observed calls in which reads were counted; `followed`: likewise after which
    """

    def __init__(self, state: State, graph: int, starts_after: tuple[Key, Crossing] | None, ends_in: tuple[Key, Crossing] | None, is_entry: bool) -> None:
        self.state, self.graph, self.is_entry = state, graph, is_entry
        self._starts: int | None = None if starts_after is None else state.number_of(starts_after[0])
        self._arrives = None if starts_after is None else starts_after[1]
        self._ends: int | None = None if ends_in is None else state.number_of(ends_in[0])
        self._leaves = None if ends_in is None else ends_in[1]
        self.wrote = Crossing()
        self.durations = Ring()
        self.pace = Pace(state.draw)
        self.left: Callable[[int], int] = lambda calls: 1
        self._added = 1
        self.entered = self.followed = 0
        self._closed: int | None = None
        self._handle: Callable[[], Any] = lambda: None

    @property
    def calls(self) -> int:
        return self._added - self.left(0) if self._closed is None else self._closed

    def times(self, inside: bool) -> float:
        """How many calls of the graph one stands for in which, or after which, reads were counted."""
        counted = self.entered if inside else self.followed
        return max(1.0, self.calls / counted) if counted else 1.0

    def observe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, the compiled graph, with its calls counted while the session is open. In a call that is not observed, this takes one call of a
        function of Python; when the session is closed, one of C."""
        call, self.left = self.state.counted(function, self._watched)
        handle = functools.partial(call)
        handle.__name__ = getattr(function, "__name__", "compiled_graph")  # type: ignore[attr-defined] # which Dynamo looks up in each call
        self._handle = weakref.ref(handle)
        return handle

    def close(self) -> None:
        """Ends counting: from now on, what Dynamo calls is the function itself."""
        self._closed, self.left = self.calls, lambda calls: 1
        handle = self._handle()
        if handle is not None:
            handle.__setstate__((handle.func.__wrapped__, (), {}, handle.__dict__))

    def _renew(self) -> bool:
        """Chooses the next call that is observed. Returns whether this one is observed deeply."""
        gap, deep = self.pace.next(self.state.host.switch)
        if not self.is_entry and self.pace.chosen >= FIRST:
            gap = _NEVER  # it is observed with the graph before it
        self._added += gap
        self.left(gap)
        return deep

    def _watched(self, function: Callable[..., Any], args: Any) -> Any:
        """A call that is observed, or that is made while another one is."""
        state, clock = self.state, self.state.clock
        begin = clock()
        thread = state.local.thread
        seen, due, deep = thread.seen, self.left(0) <= 0, False
        arrived = seen.pending.pop(self._starts, None) if seen is not None and self._starts is not None else None
        if due:
            deep = self._renew()
        if seen is not None and arrived is None and self.is_entry and seen.ends_before(self):
            state.finish(thread)
            seen = None
            if not due:
                thread.late += clock() - begin
                state.host.want(False)
        if seen is None:
            if not due:
                return function(*args)
            cost, thread.late = thread.late + clock() - begin, 0
            counts = state.host.want(deep)  # whose time is in `host.switch`
            begin = clock()
            seen = state.begin(thread, self, begin - cost)
            seen.cost, seen.deep, seen.counts = cost, deep, counts
        if arrived is not None and self._arrives is not None:
            ended, cost, written = arrived
            self._arrived(self._arrives, ended, begin - ended - (seen.cost - cost), written)
        outer, when = thread.graph, thread.when
        thread.graph, thread.when = self.graph, 2 * self.graph
        self.entered += seen.counts
        start = clock()
        cost = seen.cost = seen.cost + start - begin
        try:
            results = function(*args)
        finally:
            thread.graph, thread.when = outer, 2 * self.graph + 1 if outer is None else when
        end = clock()
        seen.spent = end - seen.begun - seen.cost
        self.durations.add(end - start - (seen.cost - cost))
        self.followed += seen.counts
        if self._ends is not None and self._leaves is not None:
            written = _written(args, results) if seen.deep else []
            if seen.deep:
                self._leaves.measured += 1
                self._leaves.bytes += sum([size for _, size in written])
            final = clock()
            seen.cost += final - end
            seen.pending[self._ends] = final, seen.cost, written
        else:
            if seen.deep and self.graph >= BACKWARD:
                self.wrote.measured += 1
                self.wrote.bytes += sum([size for _, size in _written(args, results)])
            seen.cost += clock() - end
        return results

    def _arrived(self, crossing: Crossing, ended: int, spent: int, written: list[tuple[Any, int]]) -> None:
        crossing.observed += 1
        if ended > self.state.compiled:
            crossing.between.add(spent)
        if written:
            crossing.kept = max(crossing.kept, sum([size for one, size in written if one() is not None]))
