# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the host's reads of tensors: those of single values, all of which go through one operator, and those of whole tensors by some functions."""
from __future__ import annotations

import concurrent.futures.thread
import functools
import itertools
import multiprocessing.connection
import queue
import selectors
import socket
import subprocess
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from . import _breaks_places
from ._breaks_pace import SHARE, UNSEEN
from ._breaks_records import HostRead
from ._pytorch import pytorch

if TYPE_CHECKING:
    from ._breaks_calls import Piece, State

_ALLOWANCE = 10_000_000  # nanoseconds that counting may take before there is a time of which it could take a share
_CHECK = 256  # reads after which it is seen whether counting them takes too long
BACKWARD = 1 << 24  # more than there are graphs: the number of a graph's backward pass is this and that of the graph
_PASSED = 5_000  # nanoseconds that a read takes longer which is not counted while others are


# Where threads wait that do nothing else.
_WAITING = {module.__file__ for module in (concurrent.futures.thread, multiprocessing.connection, queue, selectors, socket, subprocess, threading)}


def _others_wait() -> bool:
    """Whether no other thread can be reading a tensor now: the interpreter's lock is held, and all others wait in Python's library."""
    if threading.active_count() == 1:
        return True
    mine = threading.get_ident()
    return all(number == mine or frame.f_code.co_filename in _WAITING for number, frame in sys._current_frames().items())


def _graph_of(number: int | None) -> tuple[int | None, int, bool]:
    """(graph, observed reads, whether in the backward pass) of a new record."""
    return (number, 0, False) if number is None or number < BACKWARD else (number - BACKWARD, 0, True)


class HostReads:
    """Takes the place of the operator's kernels while reads are to be counted: a kernel in Python takes microseconds in each read, whether or not it
    counts. Outside of observed calls, PyTorch's own kernels are there. PyTorch's table of kernels must not change while another thread uses it, so while
    there are several threads, our kernels stay; they go for good when reads that are not counted have taken too long by them."""

    def __init__(self, state: State) -> None:
        self.state = state
        # By the id of a function's code, whose hash would take microseconds: the code, and by the place in it how often, and nanoseconds.
        # A place is the number of an instruction, and when: see `Thread.when`.
        self.found: dict[int, tuple[CodeType, dict[tuple[int, int], list[int]]]] = {}
        self.notes: list[str] = []
        self._kernels: list[tuple[str, Callable[..., Any]]] = []
        self._replaced: list[tuple[Any, str, Any]] = []  # functions that read whole tensors: owners, names, and what was there
        self._library: Any = None
        self._held: list[Any] = []  # our kernels as PyTorch keeps them, so that they still exist when one of them ends counting
        self._gone = False
        self._switches: deque[int] = deque(maxlen=15)
        self._switch = self._passed = 0
        self._elsewhere = 0  # nanoseconds of counting where no call is observed
        self._opened = 0

    def install(self) -> str:
        """Returns why reads cannot be counted, or an empty text."""
        torch = pytorch()
        if not hasattr(torch.library, "get_kernel"):
            return "this PyTorch has no torch.library.get_kernel, so the host's reads of tensors are not counted"
        for key in ["CPU", *(["CUDA"] if torch.cuda.is_available() else [])]:
            keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
            call = functools.partial(torch.library.get_kernel("aten::_local_scalar_dense", key).call_boxed, keys)
            self._kernels.append((key, self._counting(call, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced, which PyTorch says once
            self._put()
        self._opened = self.state.clock()
        for owner, name, how in ((torch.Tensor, "tolist", self._unless_copied), (torch.Tensor, "numpy", self._unless_copied), (torch.Tensor, "cpu", self._from_device),
                                 (pytorch("_tensor_str"), "_str", None)):
            there = getattr(owner, name)
            counting = self._counting(there, 0)
            self._replaced.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, counting if how is None else how(there, counting))
        return ""

    def _unless_copied(self, there: Callable[..., Any], counting: Callable[..., Any]) -> Callable[..., Any]:
        """Of a function that reads a tensor, which counts unless the tensor was read when it was copied to the host."""
        local = self.state.local

        def read_all(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return (there if local.thread.copied() is tensor else counting)(tensor, *args, **kwargs)

        pytorch("_dynamo.eval_frame").skip_code(read_all.__code__)
        functools.update_wrapper(read_all, there)
        return read_all

    def _from_device(self, there: Callable[..., Any], counting: Callable[..., Any]) -> Callable[..., Any]:
        """Of a function that copies a tensor to the host, which reads nothing if it is there."""
        local, reference = self.state.local, weakref.ref

        def copy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if tensor.device.type == "cpu":
                return there(tensor, *args, **kwargs)
            copied = counting(tensor, *args, **kwargs)
            local.thread.copied = reference(copied)
            return copied

        pytorch("_dynamo.eval_frame").skip_code(copy.__code__)
        functools.update_wrapper(copy, there)
        return copy

    def remove(self) -> None:
        """For good."""
        self._gone = True
        if self._library is not None:
            self._library._destroy()
            self._library = None
        while self._replaced:
            owner, name, there = self._replaced.pop()
            if there is None:  # that of a base
                delattr(owner, name)
            else:
                setattr(owner, name, there)

    @property
    def counts(self) -> bool:
        return self._library is not None

    @property
    def switch(self) -> int:
        """Nanoseconds that it takes to begin counting and to end it."""
        return self._switch

    def want(self, counting: bool) -> bool:
        """Begins or ends counting, if that may be done now. Returns whether reads are counted."""
        if counting is not self.counts and not self._gone and self._kernels:
            if _others_wait():
                begin = self.state.clock()
                if counting:
                    self._put()
                else:
                    self._library._destroy()
                    self._library = None
                self._switches.append(self.state.clock() - begin)
                self._switch = 2 * sorted(self._switches)[len(self._switches) // 2]
            elif not counting and self._passed >= _CHECK and self._passed * _PASSED > SHARE * (self.state.clock() - self._opened):
                self._end("the host's reads of tensors are counted only until they took too long: with several threads, they cannot be counted now and then")
        return self.counts

    def _put(self) -> None:
        library = pytorch().library.Library("aten", "IMPL")
        for key, kernel in self._kernels:
            library.impl("_local_scalar_dense", kernel, key)
        self._library = library
        self._held = [pytorch().library.get_kernel("aten::_local_scalar_dense", key) for key, _ in self._kernels]

    def _end(self, note: str) -> None:
        self.remove()
        if note not in self.notes:
            self.notes.append(note)

    def _too_many(self, seen: Any, now: int) -> None:
        """Ends counting in an observed call, or where none is observed, if it takes more than its share."""
        if seen is None:
            if UNSEEN * self._elsewhere > SHARE * (now - self._opened) + _ALLOWANCE:
                self._note_more()
                if not self._gone and self.counts and _others_wait():
                    self._library._destroy()
                    self._library = None
        elif UNSEEN * seen.cost > SHARE * (now - seen.begun) + _ALLOWANCE:
            self._note_more()
            seen.counts = False
            self.want(False)

    def _note_more(self) -> None:
        note = "where the host reads very many values of tensors in a row, only the first ones are counted"
        if note not in self.notes:
            self.notes.append(note)

    def _counting(self, call: Callable[..., Any], passed: int) -> Callable[..., Any]:
        """`call`, with its calls counted. `passed`: 1 if one that is not counted takes longer by this."""
        # Dynamo may be active in a read, and would try to compile the functions of Python that it calls.
        disable = pytorch().compiler.disable
        is_users, too_many = disable(_breaks_places.is_users_code), disable(self._too_many)
        local, found, clock, frame_of = self.state.local, self.found, self.state.clock, sys._getframe
        of_code: dict[int, dict[tuple[int, int], list[int]] | None] = {}  # by the id of a code: its places, None if it is not the user's
        kept: list[CodeType] = []  # so that ids stay theirs
        number_of_reads = itertools.count(1).__next__

        def read(*args: Any, **kwargs: Any) -> Any:
            thread = local.thread
            seen = thread.seen
            if thread.compiling or thread.reading:
                return call(*args, **kwargs)
            if thread.known if seen is None else not seen.counts:
                self._passed += passed
                return call(*args, **kwargs)
            thread.reading = True
            begin = clock()
            try:
                value = call(*args, **kwargs)
            finally:
                thread.reading = False
            end = clock()
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
            at = (frame.f_lasti, thread.when)
            counted = places.get(at)
            if counted is None:
                counted = places[at] = [0, 0]
            counted[0] += 1
            counted[1] += end - begin
            now = clock()
            if seen is None:
                self._elsewhere += now - end
            else:
                seen.cost += now - end
            if not number_of_reads() % _CHECK:
                too_many(seen, now)
            return value

        pytorch("_dynamo.eval_frame").skip_code(read.__code__)
        return read

    def reads(self, piece_of: Callable[[int], Piece]) -> list[HostRead]:
        """All reads: those in observed calls, and after them, stand for those in and after all calls of the graph."""
        made: dict[tuple[str, int, int | None], HostRead] = {}  # by file, line and number of the graph or backward pass
        exact: dict[tuple[str, int, int | None], float] = {}
        counted = [(code, at, one) for code, places in list(self.found.values()) for at, one in list(places.items())]
        for code, (offset, when), (count, spent) in counted:
            graph = when // 2 if when >= 0 and when % 2 == 0 else None
            line = next(itertools.islice(code.co_positions(), offset // 2, None), (None,))[0] or code.co_firstlineno
            key = (code.co_filename, line, graph)
            one = made.setdefault(key, HostRead(_breaks_places.place_of(code.co_filename, line, code.co_name), 0, 0.0, *_graph_of(graph)))
            times = piece_of(when // 2).times(when % 2 == 0) if when >= 0 else 1.0
            exact[key] = exact.get(key, 0.0) + count * times
            one.observed += count
            one.seconds += spent * times / 1e9
        for key, one in made.items():
            one.count = round(exact[key])
        return sorted(made.values(), key=lambda one: (-one.count, one.place.file, one.place.line))
