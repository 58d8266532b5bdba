# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A report for a terminal."""
from __future__ import annotations

import dataclasses
import json
import textwrap

from ._breaks_records import Backward, Break, Cost, Fallback, Graph, HostRead, Report

_OUTCOMES = {"split": "the function is two graphs", "rest skipped": "the rest of the function runs eagerly",
             "skipped": "the whole function runs eagerly", "error": "the program got an error"}


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def bytes_text(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


def count_text(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"


def cost_lines(cost: Cost, outcome: str) -> list[str]:
    """What a break costs, a fact in each line."""
    lines = []
    if cost.crossings:
        times = f", {time_text(cost.between_p50_us / 1e6)} of host time between the pieces (median)" if cost.between_p50_us is not None else ""
        lines.append(f"{count_text(cost.crossings, 'crossing')}, {count_text(cost.extra_graph_calls, 'extra call')} of graphs{times}")
    if cost.host_waits:
        lines.append(f"{count_text(cost.host_waits, 'value')} read by the host, which waited {time_text(cost.host_wait_seconds)} in total")
    if cost.bytes_crossed:
        lines.append(f"{bytes_text(cost.bytes_crossed)} written for the code after it; at most {bytes_text(cost.bytes_kept)} kept until the next piece")
    if cost.ops_before or cost.ops_after:
        if outcome == "skipped" or (outcome == "error" and not cost.ops_after):
            lines.append(f"{count_text(cost.ops_before, 'operator')} traced in vain")
        else:
            kernels = f" (kernels: {cost.kernels_before} and {cost.kernels_after})" if cost.kernels_before is not None and cost.kernels_after is not None else ""
            lines.append(f"not fused: {count_text(cost.ops_before, 'operator')} before with {cost.ops_after} after{kernels}")
    if cost.extra_launches:
        passes = f" and of {count_text(cost.extra_backward_calls, 'call')} of their backward passes" if cost.extra_backward_calls else ""
        lines.append(f"at most {count_text(cost.extra_launches, 'extra launch', 'extra launches')} of kernels: those of the graphs after it{passes}")
    return lines


def _entry(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent=f"   {label:9}", subsequent_indent=" " * 12, break_long_words=False) if text else []


def _break_lines(one: Break) -> list[str]:
    times = f", met {one.count} times" if one.count > 1 else ""
    lines = [f"{one.id}  {one.place}  {one.code}  {one.kind}".rstrip(), *_entry("line", one.place.text), *_entry("why", one.reason),
             *_entry("outcome", _OUTCOMES.get(one.outcome, one.outcome) + times + (f" ({'; '.join(one.wrapped_in)})" if one.wrapped_in else ""))]
    for i, fact in enumerate(cost_lines(one.cost, one.outcome)):
        lines += _entry("costs" if i == 0 else "", fact)
    lines += _entry("instead", one.instead)
    if not one.instead:
        for i, hint in enumerate(one.hints):
            lines += _entry("hint" if i == 0 else "", hint)
    if len(one.stack) > 1:
        for i, place in enumerate(one.stack):
            lines += _entry("stack" if i == 0 else "", f"{place}, in {place.function}")
    return lines


def fallbacks_of(report: Report) -> list[tuple[list[int], Fallback]]:
    """The fallbacks with the graphs in which they are. Those of one operator and line are one, whose count is that of all graphs."""
    found: dict[tuple[str, ...], tuple[list[int], Fallback]] = {}
    for graph in report.graphs:
        for one in graph.fallbacks:
            graphs, made = found.setdefault((one.op, str(one.place), one.reason, "backward" if one.backward else ""), ([], dataclasses.replace(one, count=0)))
            if graph.id not in graphs:
                graphs.append(graph.id)
            made.count += one.count
    return list(found.values())


def _fallback_lines(graphs: list[int], one: Fallback) -> list[str]:
    where = f"{'the backward pass of ' if one.backward else ''}graph{'s' if len(graphs) > 1 else ''} {', '.join(map(str, graphs))}"
    return [f"{one.place}  {one.op}, {count_text(one.count, 'node')} in {where}", *_entry("line", one.place.text), *_entry("why", one.reason),
            *_entry("instead", one.instead)]


def shown_guards(guards: list[str]) -> list[str]:
    """The first ones, and how many there are behind them."""
    return guards if len(guards) <= 4 else [*guards[:3], f"and {len(guards) - 3} more"]


def _counted(of: Graph | Backward) -> list[str]:
    return [f"{sum(of.phases.values()):.2f}", str(of.calls), "-" if of.launches is None else str(of.launches), str(of.observed),
            "-" if of.p50_us is None else f"{of.p50_us:.1f}", "-" if of.p99_us is None else f"{of.p99_us:.1f}"]


def _made(graph: Graph, backward: bool) -> list[str]:
    executables = sum(one.backward is backward for one in graph.executables)
    return [str(executables) if executables else "-", str(sum(one.count for one in graph.fallbacks if one.backward is backward))]


def _backward_row(graph: Graph, of: Backward) -> list[str]:
    wrote = f"wrote {bytes_text(of.bytes_written)}" if of.bytes_written else ""
    return [str(graph.id), graph.backend, "its backward pass", wrote, str(of.ops), "-" if of.kernels is None else str(of.kernels), *_made(graph, True), *_counted(of)]


def _graph_row(graph: Graph) -> list[str]:
    span = ("start" if graph.starts_after is None else f"break {graph.starts_after}") + " to " + ("end" if graph.ends_in is None else f"break {graph.ends_in}")
    return [str(graph.id), graph.backend, f"{graph.place.function}:{graph.place.line}", span, str(graph.ops),
            "-" if graph.kernels is None else str(graph.kernels), *_made(graph, False), *_counted(graph)]


GRAPH_COLUMNS = ["graph", "backend", "function", "from", "ops", "kernels", "executables", "fallbacks", "compile s", "calls", "launches", "observed", "p50 us", "p99 us"]


def graph_rows(report: Report) -> list[list[str]]:
    """A row for each graph, and one for its backward pass if that is known, in the order of GRAPH_COLUMNS."""
    return [row for graph in report.graphs for row in (_graph_row(graph), *([_backward_row(graph, graph.backward)] if graph.backward is not None else []))]


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    return ["  ".join(cell.ljust(width) if i in (1, 2, 3) else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in [columns, *rows]]


def head_of(report: Report) -> str:
    backends = ", ".join(sorted({graph.backend for graph in report.graphs})) or "no backend"
    return (f"{report.program + ': ' if report.program else ''}{count_text(len(report.breaks), 'break')}, {count_text(len(report.graphs), 'graph')} for {backends}, "
            f"{count_text(report.fallbacks, 'fallback')}, {count_text(len(report.recompilations), 'recompilation')}; PyTorch {report.made_by.get('torch', '')}, "
            f"{report.seconds:.1f} s, of which compiling {sum(report.phases.values()):.1f} s")


def observed_text(report: Report) -> str:
    """What the times of the report are of."""
    if not report.calls:
        return ""
    if report.observed >= report.calls:
        return f"observed: all {count_text(report.calls, 'call')} of graphs" if report.calls > 1 else "observed: the one call of a graph"
    return (f"observed: {report.observed:,} of {report.calls:,} calls of graphs. Numbers of calls are exact; times per call are those of the observed calls; "
            "sums of times, bytes and values read are scaled up from these")


def read_where(read: HostRead) -> str:
    """In which graph, or none."""
    return "outside of graphs" if read.graph is None else f"in {'the backward pass of ' if read.backward else ''}graph {read.graph}"


def json_of(report: Report) -> str:
    """The report as JSON, as report.schema.json describes it."""
    return json.dumps(report.as_dict(), indent=1) + "\n"


def text_of(report: Report) -> str:
    """The whole report."""
    lines = [head_of(report), *textwrap.wrap(observed_text(report), 150)]
    if report.breaks:
        lines += ["", "Breaks (stage 1: tracing Python)"]
        for one in report.breaks:
            lines += _break_lines(one)
    fallbacks = fallbacks_of(report)
    if fallbacks:
        lines += ["", "Fallbacks (stage 2: compiling graphs)"]
        for graphs, fallback in fallbacks:
            lines += _fallback_lines(graphs, fallback)
    if report.graphs:
        lines += ["", "Graphs", *_table(GRAPH_COLUMNS, graph_rows(report))]
        lines += [f"graph {graph.id}: {note}" for graph in report.graphs for note in graph.notes]
    if report.recompilations:
        lines += ["", "Recompilations"]
        for again in report.recompilations:
            lines.append(f"{again.compile_id}  {again.place}, {again.place.function}")
            for i, guard in enumerate(shown_guards(again.guards)):
                lines += _entry("guard" if i == 0 else "", guard)
            lines += _entry("instead", again.instead)
    if report.phases:
        lines += ["", *textwrap.wrap("Compiling: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.phases.items()), 150)]
    if report.host_reads:
        lines += ["", "Values that the host read of tensors"]
        for read in report.host_reads[:20]:
            lines.append(f"   {read.place}  {count_text(read.count, 'time')}, {time_text(read.seconds)}, {read_where(read)}  {read.place.text}".rstrip())
        if len(report.host_reads) > 20:
            lines.append(f"   and {len(report.host_reads) - 20} more places")
    if report.notes:
        lines += ["", *[f"note: {note}" for note in report.notes]]
    return "\n".join(lines)
