# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What changed between two reports. Breaks and fallbacks are the same if kind, file's name, function and text of the line are: numbers of lines
move with every edit."""
from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from ._breaks_records import Break, Fallback, Report
from ._breaks_text import count_text


@dataclass
class Change:
    """How a newer report differs from an older one.

    new, gone                      breaks of only one of them
    new_fallbacks, gone_fallbacks  likewise, with the number of nodes
    calls, seconds                 of all graphs, older and newer; likewise backward_calls and backward_seconds of backward passes, and launches of both
    """

    new: list[Break] = field(default_factory=list)
    gone: list[Break] = field(default_factory=list)
    new_fallbacks: list[Fallback] = field(default_factory=list)
    gone_fallbacks: list[Fallback] = field(default_factory=list)
    graphs: tuple[int, int] = (0, 0)
    recompilations: tuple[int, int] = (0, 0)
    compile_seconds: tuple[float, float] = (0.0, 0.0)
    calls: tuple[int, int] = (0, 0)
    seconds: tuple[float, float] = (0.0, 0.0)
    backends: tuple[str, str] = ("", "")
    backward_calls: tuple[int, int] = (0, 0)
    backward_seconds: tuple[float, float] = (0.0, 0.0)
    launches: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        def line(sign: str, one: Break) -> str:
            return f"{sign} {one.place}: {one.code or one.kind}  {one.kind if one.code else ''}".rstrip() + (f"\n      {one.place.text}" if one.place.text else "")

        lines = [f"breaks: {len(self.new)} new, {len(self.gone)} gone", *[line("+", one) for one in self.new], *[line("-", one) for one in self.gone]]
        lines.append(f"fallbacks: {sum(one.count for one in self.new_fallbacks)} new, {sum(one.count for one in self.gone_fallbacks)} gone")
        lines += [f"{sign} {one.place}: {one.op}, {count_text(one.count, 'node')}{' of a backward pass' if one.backward else ''}" for sign, some in (("+", self.new_fallbacks), ("-", self.gone_fallbacks)) for one in some]
        if self.backends[0] != self.backends[1]:
            lines.append(f"backends: {self.backends[0]} -> {self.backends[1]}")
        for name, (old, new) in (("graphs", self.graphs), ("recompilations", self.recompilations), ("calls of graphs", self.calls),
                                ("calls of backward passes", self.backward_calls), ("launches of kernels, where known", self.launches)):
            lines.append(f"{name}: {old} -> {new}")
        for name, (before, after) in (("seconds of compiling", self.compile_seconds), ("seconds in graphs", self.seconds), ("seconds in backward passes", self.backward_seconds)):
            lines.append(f"{name}: {before:.3f} -> {after:.3f}")
        return "\n".join(lines)


def _key(one: Break) -> tuple[str, ...]:
    return one.kind, os.path.basename(one.place.file), one.place.function, one.place.text


def _fallback_key(one: Fallback) -> tuple[str, ...]:
    return one.op, os.path.basename(one.place.file), one.place.function, one.place.text, "backward" if one.backward else ""


def _only(some: Report, other: Report) -> list[Break]:
    left = Counter(_key(one) for one in other.breaks)
    made = []
    for one in some.breaks:
        if left[_key(one)] > 0:
            left[_key(one)] -= 1
        else:
            made.append(one)
    return made


def _more_fallbacks(some: Report, other: Report) -> list[Fallback]:
    def counts(report: Report) -> Counter[tuple[str, ...]]:
        made: Counter[tuple[str, ...]] = Counter()
        for graph in report.graphs:
            for one in graph.fallbacks:
                made[_fallback_key(one)] += one.count
        return made

    more = counts(some) - counts(other)
    made = []
    for graph in some.graphs:
        for one in graph.fallbacks:
            count = more.pop(_fallback_key(one), 0)
            if count > 0:
                made.append(Fallback(one.op, one.reason, one.place, count, one.instead, one.backward))
    return made


def compare(old: Report, new: Report) -> Change:
    """What is in `new` that is not in `old`, and the reverse."""
    def backends(report: Report) -> str:
        return ", ".join(sorted({graph.backend for graph in report.graphs})) or "none"

    return Change(_only(new, old), _only(old, new), _more_fallbacks(new, old), _more_fallbacks(old, new), (len(old.graphs), len(new.graphs)),
                  (len(old.recompilations), len(new.recompilations)), (sum(old.phases.values()), sum(new.phases.values())),
                  (sum(graph.calls for graph in old.graphs), sum(graph.calls for graph in new.graphs)),
                  (sum(graph.seconds for graph in old.graphs), sum(graph.seconds for graph in new.graphs)), (backends(old), backends(new)),
                  (old.backward_calls, new.backward_calls), (old.backward_seconds, new.backward_seconds), (old.launches, new.launches))
