# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a report of graph breaks contains, as dataclasses, and from and to JSON. `report.schema.json` describes the same.

Times are in seconds, and sizes in bytes, unless a name says otherwise. Nothing here imports PyTorch.
"""
from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from .._errors import InvalidArgumentError, make

VERSION = 1


@dataclass
class Place:
    """A line of source.

    text    the line itself, empty if the file cannot be read
    """

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "unknown place"


@dataclass
class Cost:
    """What a break costs, measured in the run that the report covers. A piece is a graph between two breaks.

    crossings            how often execution left a graph at this break
    extra_graph_calls    how often it went on in another graph; without the break, one call fewer each time
    observed_crossings   those of them of which the time between the pieces was taken; `between_seconds` is scaled up from these
    between_seconds      host time from the end of a piece to the start of the next one, in total, without crossings in which something was compiled
    between_p50_us       the median of that time, in microseconds
    host_waits           values that the host read of tensors at this line (`.item()`, `bool(tensor)`, printing), each of which waits for the device
    host_wait_seconds    the time that these reads took
    bytes_crossed        bytes of the tensors that pieces wrote to memory for the code after the break, in total
    bytes_kept           the most bytes of such tensors that still existed when the next piece started
    measured_crossings   the crossings in which bytes were measured; `bytes_crossed` is scaled up from these
    ops_before           operators of the graph before the break; of a skipped frame, those that were traced and then ran eagerly
    ops_after            operators of the graphs after the break, with which those before it cannot be fused
    kernels_before       kernels that the backend made of the graph before, where it says so; likewise kernels_after
    extra_launches       launches of kernels by the graphs after the break, and by their backward passes: the most that there are for want of fusing
    extra_backward_calls calls of the backward passes of the graphs after the break
    """

    crossings: int = 0
    extra_graph_calls: int = 0
    observed_crossings: int = 0
    between_seconds: float = 0.0
    between_p50_us: float | None = None
    host_waits: int = 0
    host_wait_seconds: float = 0.0
    bytes_crossed: int = 0
    bytes_kept: int = 0
    measured_crossings: int = 0
    ops_before: int = 0
    ops_after: int = 0
    kernels_before: int | None = None
    kernels_after: int | None = None
    extra_launches: int | None = None
    extra_backward_calls: int = 0


@dataclass
class Break:
    """A place where Dynamo stopped tracing.

    code         PyTorch's code of this kind, such as "GB0170"; empty if it has none
    kind         PyTorch's name of the kind
    reason       why, in PyTorch's words
    context      what Dynamo met, for who reports a bug
    hints        PyTorch's hints
    instead      what to write instead
    place        the innermost line that belongs neither to PyTorch nor to Python
    stack        the places from the frame that was compiled to where tracing stopped
    outcome      "split": the function became two graphs; "rest skipped": one graph, and the rest of the function runs eagerly; "skipped": the whole
                 function runs eagerly; "error": the program got the error, as with fullgraph=True
    wrapped_in   kinds of breaks that Dynamo reports instead of this one, such as "graph break in loop"
    count        how often tracing stopped here; a function is traced again when it is compiled again
    before       numbers of the graphs that end here
    after        numbers of the graphs that start here
    """

    id: int
    code: str = ""
    kind: str = ""
    reason: str = ""
    context: str = ""
    hints: list[str] = field(default_factory=list)
    instead: str = ""
    link: str = ""
    place: Place = field(default_factory=Place)
    stack: list[Place] = field(default_factory=list)
    outcome: str = "split"
    wrapped_in: list[str] = field(default_factory=list)
    count: int = 1
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)


@dataclass
class Executable:
    """A piece of a graph that the backend compiled: a kernel, a module, or a partition.

    name      the backend's name of it
    ops       the operators in it, 0 if the backend does not say
    kernels   the kernels that a call of it launches; None if the backend does not say
    backward  whether it is of the graph's backward pass
    """

    name: str
    ops: int = 0
    kernels: int | None = None
    backward: bool = False


@dataclass
class Fallback:
    """An operator of a graph for which the backend made no code, so that PyTorch's own kernel, or the eager interpreter, runs it.

    op        the operator, such as "aten.index_put.default"
    reason    why
    place     the line of source that it comes from
    count     how many nodes of the graph
    instead   what to write instead, empty if the report knows nothing
    backward  whether it is in the graph's backward pass; its place is then the line whose gradient is computed
    """

    op: str
    reason: str = ""
    place: Place = field(default_factory=Place)
    count: int = 1
    instead: str = ""
    backward: bool = False


@dataclass
class HostRead:
    """A place where the host reads values of a tensor, and therefore waits for the device.

    graph     the number of the graph in which it is; None: outside of graphs
    observed  the reads that were seen. `count` and `seconds` are scaled up from these, by the calls of the graph in which, or after which, they were
    backward  whether it is in the backward pass of the graph
    """

    place: Place
    count: int = 0
    seconds: float = 0.0
    graph: int | None = None
    observed: int = 0
    backward: bool = False


@dataclass
class Backward:
    """The backward pass of a graph, of which its backend has told the report (`note_graph` with backward=True).

    ops           operators in it
    phases        seconds of compiling by phase; PyTorch's own, if it is compiled apart from the graph, is "backward"
    calls         how often it was called, observed, p50_us, p99_us, seconds: as those of a graph; 0 if its backend does not have them counted
    kernels       kernels that the backend generated for it, if it says so
    launches      of kernels in all calls: `calls` times `kernels` and `library_calls`
    bytes_written the bytes of its results, in all calls, scaled up from `measured` calls
    """

    ops: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    observed: int = 0
    p50_us: float | None = None
    p99_us: float | None = None
    seconds: float = 0.0
    kernels: int | None = None
    library_calls: int | None = None
    launches: int | None = None
    bytes_written: int = 0
    measured: int = 0


@dataclass
class Graph:
    """A graph of Dynamo, and what its backend made of it.

    place          the function that was traced; of a graph that starts after a break, the line of that break
    compile_id     PyTorch's number, such as "0/0"
    starts_after   the number of the break after which it starts; None: at the start of the function
    ends_in        the number of the break that ends it; None: the function's end
    ops            operators in it
    dynamic        whether an extent of an input is symbolic
    phases         seconds of compiling by phase: trace, guards and other work of Dynamo; autograd; backend, and with Inductor its code generation
    calls          how often it was called while the report was open
    observed       the calls of which the time was taken
    p50_us         the median time of an observed call on the host, in microseconds, of the last 4096 of them; likewise p99_us
    seconds        the time of all calls, scaled up from those that were observed. The backward pass is not in it
    kernels        kernels that a call launches, if the backend says so: with Inductor, those that it generated for forward; with Heddle, its dispatches
    library_calls  calls of matrix products and convolutions of a library, if the backend says so
    launches       of kernels in all calls: `calls` times `kernels` and `library_calls`. Operators that fell back are not in it
    executables    also those of the backward pass, as fallbacks
    notes          what else the backend says, such as why CUDA graphs are not used
    backward       the backward pass, if the backend tells of it
    """

    id: int
    backend: str = ""
    place: Place = field(default_factory=Place)
    compile_id: str = ""
    starts_after: int | None = None
    ends_in: int | None = None
    ops: int = 0
    inputs: int = 0
    outputs: int = 0
    dynamic: bool = False
    phases: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    observed: int = 0
    p50_us: float | None = None
    p99_us: float | None = None
    seconds: float = 0.0
    kernels: int | None = None
    library_calls: int | None = None
    executables: list[Executable] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    launches: int | None = None
    backward: Backward | None = None


@dataclass
class Recompilation:
    """A function that was compiled again since its arguments, or what it reads, changed.

    guards   the guards that failed, the newest compilation first
    instead  what avoids it, empty if the report knows nothing
    """

    place: Place
    compile_id: str = ""
    guards: list[str] = field(default_factory=list)
    instead: str = ""


@dataclass
class Report:
    """What a run did with its compiled functions.

    seconds          from opening the report to closing it
    phases           seconds of compiling by phase, in total, with what belongs to no graph, such as compiling the backward pass
    host_reads       every place where the host read values of tensors while no function was being compiled
    frames           frames that were handed to Dynamo
    skipped_frames   those without a graph, since they have no operators, or because of a break
    notes            what could not be observed
    """

    made_by: dict[str, str] = field(default_factory=dict)
    version: int = VERSION
    program: str = ""
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    frames: int = 0
    skipped_frames: int = 0
    breaks: list[Break] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    recompilations: list[Recompilation] = field(default_factory=list)
    host_reads: list[HostRead] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def fallbacks(self) -> int:
        """Nodes of all graphs that fell back."""
        return sum(one.count for graph in self.graphs for one in graph.fallbacks)

    @property
    def calls(self) -> int:
        """Of all graphs."""
        return sum(graph.calls for graph in self.graphs)

    @property
    def backward_calls(self) -> int:
        """Of the backward passes of all graphs."""
        return sum(graph.backward.calls for graph in self.graphs if graph.backward is not None)

    @property
    def backward_seconds(self) -> float:
        """In the calls of backward passes."""
        return sum(graph.backward.seconds for graph in self.graphs if graph.backward is not None)

    @property
    def launches(self) -> int:
        """Of kernels, by the graphs and backward passes of which they are known."""
        return sum(one.launches or 0 for graph in self.graphs for one in (graph, graph.backward) if one is not None)

    @property
    def observed(self) -> int:
        """The calls of graphs that were observed: times are of these, and sums are scaled up from them."""
        return sum(graph.observed for graph in self.graphs)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        made = dataclasses.asdict(self)
        made["totals"] = {"breaks": len(self.breaks), "graphs": len(self.graphs), "fallbacks": self.fallbacks,
                          "recompilations": len(self.recompilations), "graph_calls": self.calls, "observed_calls": self.observed,
                          "backward_calls": self.backward_calls}
        return made

    @classmethod
    def from_dict(cls, read: Any) -> Report:
        """The report that `as_dict` wrote. Raises InvalidArgumentError if `read` is no such report."""
        if not isinstance(read, dict) or read.get("version") != VERSION:
            found = read.get("version") if isinstance(read, dict) else None
            raise make("INVALID_ARGUMENT", f"reading a report of graph breaks failed: its version is {found!r}, and this package reads {VERSION}; make the report again")
        try:
            made = _read(cls, _with_observed({name: value for name, value in read.items() if name != "totals"}))
        except (TypeError, ValueError, KeyError, AttributeError) as wrong:
            raise make("INVALID_ARGUMENT", f"reading a report of graph breaks failed: {wrong}; make the report again") from wrong
        assert isinstance(made, Report)
        return made


def _with_observed(read: dict[str, Any]) -> dict[str, Any]:
    """A report of before calls were sampled: all of them were observed."""
    def all_of(some: Any, name: str, source: str) -> Any:
        return [{name: one[source], **one} if isinstance(one, dict) and source in one else one for one in some] if isinstance(some, list) else some

    made = {**read, **{part: all_of(read[part], "observed", source) for part, source in (("graphs", "calls"), ("host_reads", "count")) if part in read}}
    if isinstance(read.get("breaks"), list):
        made["breaks"] = [{**one, "cost": all_of([one["cost"]], "observed_crossings", "extra_graph_calls")[0]} if isinstance(one, dict) and "cost" in one else one
                          for one in read["breaks"]]
    return made


def _read(kind: Any, value: Any) -> Any:
    """`value`, which JSON gave, as the type of a field."""
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        types_of = typing.get_type_hints(kind)
        return kind(**{name: _read(types_of[name], one) for name, one in value.items()})  # type: ignore[operator]
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _read(next(one for one in typing.get_args(kind) if one is not type(None)), value)
    if origin is list:
        return [_read(typing.get_args(kind)[0], one) for one in value]
    if origin is dict:
        return {str(name): _read(typing.get_args(kind)[1], one) for name, one in value.items()}
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{value!r} is not of the type {kind.__name__}")
    return value


__all__ = ["Backward", "Break", "Cost", "Executable", "Fallback", "Graph", "HostRead", "InvalidArgumentError", "Place", "Recompilation", "Report", "VERSION"]
