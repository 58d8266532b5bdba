# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of the graphs that Dynamo handed over."""
from __future__ import annotations

import dataclasses
import logging
import threading
import warnings
from types import CodeType

logger = logging.getLogger("heddle.torch")


@dataclasses.dataclass(frozen=True)
class Fallback:
    """A node that runs in PyTorch."""
    operator: str  # such as "aten.nonzero.default"
    node: str
    reason: str


@dataclasses.dataclass
class Graph:
    """A graph: a forward pass, the forward or the backward pass of a training step."""
    kind: str  # "inference", "forward" or "backward"
    nodes: int = 0  # calls of operators
    modules: list[str] = dataclasses.field(default_factory=list)  # paths of the .heddle files
    fallbacks: list[Fallback] = dataclasses.field(default_factory=list)
    compiled: int = 0  # modules that were not in the cache
    seconds: float = 0.0  # for all of it, compiling included
    phases: dict[str, float] = dataclasses.field(default_factory=dict)  # parts of these seconds; the rest is choosing what runs where


_graphs: list[Graph] = []
_warned: set[str] = set()
breaks_warned: set[tuple[CodeType | None, str, str]] = set()  # functions, places and reasons of graph breaks that warnings have named
_lock = threading.RLock()  # a finalizer or a handler of the log may come here in the middle


def graphs() -> list[Graph]:
    """Every graph since the process began, or since `clear`, in the order in which they were compiled."""
    with _lock:
        return list(_graphs)


def clear() -> None:
    """Forgets the graphs that were compiled, and which operators and graph breaks warnings have named."""
    with _lock:
        _graphs.clear()
        _warned.clear()
        breaks_warned.clear()


def note(graph: Graph) -> None:
    with _lock:
        _graphs.append(graph)
        new = [one for one in {one.operator: one for one in graph.fallbacks}.values() if one.operator not in _warned]
        _warned.update(one.operator for one in new)
    for one in new:
        count = sum(other.operator == one.operator for other in graph.fallbacks)
        where = f"node {one.node}" if count == 1 else f"{count} nodes, first {one.node}"
        warnings.warn(f"heddle.torch: {one.operator} runs in PyTorch ({where} of the {graph.kind} graph): {one.reason}", stacklevel=2)
