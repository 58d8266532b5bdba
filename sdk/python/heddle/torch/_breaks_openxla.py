# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch_xla leaves to PyTorch's kernels of a graph of the backend "openxla". It compiles a graph in the graph's first call."""
from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _breaks_hints, _breaks_places
from ._breaks_records import Fallback, Graph, Place

if TYPE_CHECKING:
    from ._breaks_observer import Patches

_REASON = "torch_xla does not lower the operator, and runs it outside of its graphs"


def watch(patches: Patches, notes: list[str], running: Callable[[], Graph | None]) -> None:
    """Notes fallbacks for the graph that runs, which `running` returns. Does nothing if torch_xla is not loaded."""
    if "torch_xla" not in sys.modules:
        return
    try:
        collector = importlib.import_module("torch_xla._dynamo.dynamo_bridge").UnsupportedNodesCollector
        patches.replace(collector, "get_unsupported_nodes", lambda there: _around(there, running))
    except (ImportError, AttributeError) as missing:
        notes.append(f"fallbacks of openxla are not observed: this torch_xla is unlike 2.9 ({missing})")


def _around(there: Callable[..., Any], running: Callable[[], Graph | None]) -> Callable[..., Any]:
    @functools.wraps(there)
    def get_unsupported_nodes(collector: Any) -> Any:
        found = there(collector)
        graph = running()
        if graph is not None:
            for node in found:
                if node.op in ("call_function", "call_method") and node.target is not operator.getitem:
                    _note(graph, str(node.target), _breaks_places.of_trace(node.meta.get("stack_trace") or ""))
        return found

    return get_unsupported_nodes


def _note(graph: Graph, op: str, place: Place) -> None:
    for one in graph.fallbacks:
        if one.op == op and one.place == place:
            one.count += 1
            return
    graph.fallbacks.append(Fallback(op, _REASON, place, 1, _breaks_hints.for_fallback(op, _REASON)))
