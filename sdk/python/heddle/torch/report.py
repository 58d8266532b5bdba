# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where functions that `torch.compile` compiles break into several graphs, why, and what that costs.

    import heddle.torch
    with heddle.torch.report() as report:
        model = torch.compile(model)
        model(x)
    print(report)                       # or report.text(), .json(), .html(), .result()

Every backend is observed: "inductor", "aot_eager", "heddle" and others. Functions that were compiled before the report was opened are not in it,
but for backward passes of Heddle that are compiled later. While no report is open, PyTorch is as it was.

A backend says what it made of a graph by `note_graph`. docs/graph-breaks.md explains the report.
"""
from __future__ import annotations

import os
import pathlib
import platform
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._errors import make
from ._breaks_records import (Backward, Break, Cost, Executable, Fallback, Graph, HostRead, Place, Recompilation, Report)
from ._pytorch import pytorch

if TYPE_CHECKING:
    from ._breaks_calls import Piece
    from ._breaks_observer import Observer

__all__ = ["Backward", "Break", "Cost", "Executable", "Fallback", "Graph", "GraphNote", "HostRead", "Place", "Recompilation", "Report", "Session",
           "current_graph", "note_graph", "observed_backward", "report"]


@dataclass
class GraphNote:
    """What a backend made of a graph.

    executables    the modules or kernels into which the graph was cut, in order; one, if it was not cut
    fallbacks      operators that it does not compile, which run outside of its executables
    kernels        how many kernels were generated; None: unknown. Likewise library_calls
    phases         seconds by phase of the backend's work, such as {"import": 0.1, "compile": 2.0}; they are taken off the phase "backend"
    notes          what else a user should know, one sentence each
    backward       whether all of it is of the graph's backward pass
    ops            operators of the backward pass; those of a graph of Dynamo are counted
    """

    executables: list[Executable] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    kernels: int | None = None
    library_calls: int | None = None
    phases: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    backward: bool = False
    ops: int = 0


class _Number(int):
    """The number of a graph in one report; it means nothing in another one."""

    of: Callable[[], Session | None]


_open: Session | None = None


def is_open() -> bool:
    return _open is not None


def current_graph() -> int | None:
    """The number of the graph that Dynamo hands to a backend now, for a `note_graph` that comes later, such as when the backward pass is compiled.
    None: no report is open, or no graph is being compiled."""
    session = _open
    if session is None or session._observer is None or session._observer.building is None:
        return None
    number = _Number(session._observer.building.id)
    number.of = weakref.ref(session)
    return number


def _graph_of(session: Session, number: int | None) -> Graph | None:
    """The graph of this number, if it is one of this report; None: the graph that is being compiled."""
    seen = session._observer
    if seen is None:
        return None
    if number is None:
        return seen.building
    if not 0 <= number < len(seen.graphs) or (isinstance(number, _Number) and number.of() is not session):
        return None
    return seen.graphs[number]


def note_graph(note: GraphNote, graph: int | None = None) -> bool:
    """Adds what a backend made of a graph to the report that is open. What several calls say of one graph is added up.

    graph    what `current_graph()` gave while the backend was called; None: the graph that is being compiled

    Returns whether a report took it. Costs nothing worth mentioning while none is open. Any thread may call it.
    """
    session = _open
    if session is None or session._observer is None:
        return False
    found = _graph_of(session, graph)
    if found is None:
        return False
    if note.backward and found.backward is None:
        found.backward = Backward()
    passed = found.backward if note.backward and found.backward is not None else found
    passed.ops += note.ops if note.backward else 0
    found.executables += [replace(one, backward=True) for one in note.executables] if note.backward else note.executables
    found.fallbacks += [replace(one, backward=True) for one in note.fallbacks] if note.backward else note.fallbacks
    found.notes += note.notes
    for name in ("kernels", "library_calls"):
        more = getattr(note, name)
        if more is not None:
            setattr(passed, name, (getattr(passed, name) or 0) + more)
    inside = "backend" if session._observer.building is found else "backward"
    session._noted_phases += [(found, note.backward, inside, phase, seconds) for phase, seconds in note.phases.items()]
    return True


def of_backward(graph: int | None, backend: str, traces: Iterable[str]) -> int | None:
    """The number of the graph whose backward pass is being compiled: `graph`, or a new one if that is not in the report that is open, since Dynamo has
    traced it before. `traces` are stack traces of its nodes. None: no report is open."""
    session = _open
    if session is None or session._observer is None:
        return None
    found = _graph_of(session, graph)
    if found is None:
        found = session._observer.adopt(backend, next((place for place in map(place_of_node, traces) if place.file), Place()))
    return found.id


def observed_backward(function: Callable[..., Any], graph: int | None = None) -> Callable[..., Any]:
    """The compiled backward pass of a graph, as a function that does the same and whose calls are in the report that is open, or `function` if none is.

    graph    as of `note_graph`
    """
    session = _open
    found = None if session is None else _graph_of(session, graph)
    if session is None or session._observer is None or found is None:
        return function
    if found.backward is None:
        found.backward = Backward()
    return session._observer.backward_of(found).observe(function)


def place_of_node(trace: str) -> Place:
    """The user's line in a stack trace as text: `node.meta["stack_trace"]` of an FX node, or `node.stack_trace`. For the `place` of a Fallback."""
    from . import _breaks_places

    return _breaks_places.of_trace(trace)


class Session:
    """A report that is being made. Use it in a `with` statement, or call `close()`. There can be one at a time in a process.

    Its reports can be read while it is open, too.
    """

    def __init__(self, program: str = "", caches: bool = False) -> None:
        self._program, self._caches = program, caches
        self._observer: Observer | None = None
        self._noted_phases: list[tuple[Graph, bool, str, str, float]] = []  # whether of the backward pass, and the phase of PyTorch that it is a part of
        self._started = self._seconds = 0.0
        self._closed = False

    def __enter__(self) -> Session:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> Session:
        """Begins to observe. Raises FailedPreconditionError if a report is open, or was closed, and NotFoundError if PyTorch is not installed."""
        global _open
        if _open is not None or self._closed:
            what = "this report was closed; make another one" if self._closed else "another report is open in this process; close it first"
            raise make("FAILED_PRECONDITION", f"opening a report of graph breaks failed: {what}")
        try:
            pytorch()
        except ImportError as missing:
            raise make("NOT_FOUND", f"opening a report of graph breaks failed: PyTorch is not installed; {sys.executable} -m pip install torch") from missing
        from ._breaks_observer import Observer

        observer = Observer(self._caches)
        observer.install()
        self._observer, self._started, _open = observer, time.perf_counter(), self
        return self

    def close(self) -> None:
        """Ends observing, and puts back what was replaced in PyTorch. Closing again does nothing."""
        global _open
        if _open is not self or self._observer is None:
            return
        self._seconds = time.perf_counter() - self._started
        _open, self._closed = None, True
        self._observer.remove()

    def result(self) -> Report:
        """What was found until now. The result does not change later."""
        from .. import __version__

        made = Report({"heddle": __version__, "torch": str(pytorch().__version__), "python": platform.python_version()}, program=self._program)
        if self._observer is None:
            return made
        made.seconds = self._seconds if self._closed else time.perf_counter() - self._started
        _fill(made, self._observer, self._noted_phases)
        copied = Report.from_dict(made.as_dict())
        return copied

    def text(self) -> str:
        """The report for a terminal."""
        from . import _breaks_text

        return _breaks_text.text_of(self.result())

    def json(self) -> str:
        """The report as JSON, as report.schema.json of this package describes it."""
        from . import _breaks_text

        return _breaks_text.json_of(self.result())

    def html(self) -> str:
        """The report as a page that needs no other file."""
        from . import _breaks_page

        return _breaks_page.page_of(self.result())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the report to a file: JSON, a page or text, by the end of its name: .json, .html, or any other."""
        save(self.result(), path)

    def __str__(self) -> str:
        return self.text()


def report(program: str = "", caches: bool = False) -> Session:
    """A report of what happens in a `with` statement.

    program  a name for the report's head
    caches   whether Inductor may take graphs from its caches on disk. Then, it does not lower them, and their fallbacks are not in the report
    """
    return Session(program, caches)


def save(made: Report, path: str | os.PathLike[str]) -> None:
    """Writes a report: JSON, a page or text, by the end of the file's name: .json, .html, or any other."""
    from . import _breaks_page, _breaks_text

    name = os.fspath(path)
    if name.endswith(".json"):
        text = _breaks_text.json_of(made)
    elif name.endswith((".html", ".htm")):
        text = _breaks_page.page_of(made)
    else:
        text = _breaks_text.text_of(made) + "\n"
    pathlib.Path(name).write_text(text, encoding="utf-8")


def _scaled(total: float, observed: int, all_of_them: int) -> float:
    """The total of all of them, from that of those that were observed."""
    return total * max(1.0, all_of_them / observed) if observed else 0.0


def _timed(of: Graph | Backward, piece: Piece) -> None:
    """The calls of a graph or of a backward pass, and what they took."""
    of.calls, of.observed = piece.calls, piece.durations.count
    of.seconds = _scaled(piece.durations.total / 1e9, of.observed, of.calls)
    of.p50_us, of.p99_us = piece.durations.median_us(), piece.durations.percentile_us(0.99)


def _launches(of: Graph | Backward) -> int | None:
    return None if of.kernels is None else of.calls * (of.kernels + (of.library_calls or 0))


def _fill_phases(made: Report, noted: Iterable[tuple[Graph, bool, str, str, float]]) -> None:
    """Seconds that backends say are taken off those of PyTorch that they are a part of."""
    for observed, of_backward, inside, phase, seconds in noted:
        graph = made.graphs[observed.id]
        mine = graph.backward.phases if of_backward and graph.backward is not None else graph.phases
        for phases in (mine, made.phases):
            phases[phase] = phases.get(phase, 0.0) + seconds
        for phases in (graph.phases, made.phases):
            if phase != inside and inside in phases:
                phases[inside] = max(0.0, phases[inside] - seconds)
    for graph in made.graphs:
        if graph.backward is not None and "backward" in graph.phases:
            graph.backward.phases["backward"] = graph.phases.pop("backward")


def _fill(made: Report, seen: Observer, noted: Iterable[tuple[Graph, bool, str, str, float]]) -> None:
    """Everything that was observed, and what follows from it."""
    import copy

    made.frames, made.skipped_frames, made.notes = seen.frames, seen.skipped_frames, [*seen.notes, *seen.host.notes]
    made.breaks, made.graphs = copy.deepcopy(seen.breaks), copy.deepcopy(seen.graphs)
    made.recompilations, made.host_reads, made.phases = list(seen.recompilations), seen.host.reads(seen.piece_of), dict(seen.phases)
    _fill_phases(made, noted)
    for graph, piece in zip(made.graphs, seen.pieces):
        _timed(graph, piece)
        graph.launches = _launches(graph)
        behind, passed = seen.backwards.get(graph.id), graph.backward
        if passed is not None and behind is not None:
            _timed(passed, behind)
            passed.launches, passed.measured = _launches(passed), behind.wrote.measured
            passed.bytes_written = round(_scaled(behind.wrote.bytes, passed.measured, passed.calls))
    for one, crossing in zip(made.breaks, seen.crossings):
        cost = one.cost
        before, after = [made.graphs[i] for i in one.before], [made.graphs[i] for i in one.after]
        cost.crossings = sum(graph.calls for graph in before)
        cost.extra_graph_calls = sum(graph.calls for graph in after) if before else 0
        cost.observed_crossings, cost.between_p50_us = crossing.between.count, crossing.between.median_us()
        cost.between_seconds = _scaled(crossing.between.total / 1e9, crossing.observed, cost.extra_graph_calls)
        cost.measured_crossings, cost.bytes_kept = crossing.measured, crossing.kept
        cost.bytes_crossed = round(crossing.bytes * cost.crossings / crossing.measured) if crossing.measured else 0
        if before:
            cost.ops_before = max(graph.ops for graph in before)
        cost.ops_after = max((graph.ops for graph in after), default=0)
        known = [graph.kernels for graph in before if graph.kernels is not None]
        cost.kernels_before = max(known) if known else None
        known = [graph.kernels for graph in after if graph.kernels is not None]
        cost.kernels_after = max(known) if known else None
        cost.extra_backward_calls = sum(graph.backward.calls for graph in after if graph.backward is not None) if before else 0
        passes = [one for graph in after for one in (graph, graph.backward) if one is not None]
        launches = [one.launches for one in passes if one.launches is not None]
        cost.extra_launches = sum(launches) if before and launches and len(launches) == len(passes) else None
        reads = [read for read in made.host_reads if read.graph is None and (read.place.file, read.place.line) == (one.place.file, one.place.line)]
        first = next((other for other in made.breaks if (other.place.file, other.place.line) == (one.place.file, one.place.line)), one)
        if first is one:  # several breaks of one line share its reads
            cost.host_waits, cost.host_wait_seconds = sum(read.count for read in reads), sum(read.seconds for read in reads)
