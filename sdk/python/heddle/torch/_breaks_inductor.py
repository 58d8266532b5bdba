# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Inductor makes of a graph: operators that it leaves to PyTorch's kernels, and how many kernels it generates."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _breaks_hints, _breaks_places
from ._breaks_records import Fallback, Graph
from ._pytorch import pytorch

if TYPE_CHECKING:
    from ._breaks_observer import Patches


def _reason(op: Any, node: Any) -> str:
    torch = pytorch()
    dtypes = {getattr(value, "dtype", None) for one in [node, *getattr(node, "all_input_nodes", [])]
              for value in (one.meta.get("val") if isinstance(one.meta.get("val"), (tuple, list)) else [one.meta.get("val")])}
    for dtype in sorted((one for one in dtypes if one is not None), key=str):
        if dtype.is_complex:
            return f"Inductor generates no code for {str(dtype).removeprefix('torch.')}"
    if isinstance(op, torch._ops.OpOverload) and op.namespace not in ("aten", "prims"):
        return "Inductor does not know the operator: it is registered by " + str(op.namespace)
    return "Inductor generates no code for the operator, or not for these arguments"


class Watch:
    """Notes fallbacks for the graph that is being compiled; `building` returns it. The caches of graphs are passed over unless `caches` is true, since a
    graph that comes from them is not lowered."""

    def __init__(self, patches: Patches, notes: list[str], caches: bool, building: Callable[[], Graph | None]) -> None:
        self._restore: list[Any] = []
        self._metrics: Any = None
        self.building = building
        try:
            self._metrics, ir = pytorch("_inductor.metrics"), pytorch("_inductor.ir")
            patches.replace(ir.FallbackKernel, "create", self._around)
            patches.replace(ir.ExternKernelOut, "__init__", self._around_library)
            if not caches:
                for patch in (pytorch("_inductor.config").patch(fx_graph_cache=False), pytorch("_functorch.config").patch(enable_autograd_cache=False)):
                    patch.__enter__()
                    self._restore.append(patch)
        except (ImportError, AttributeError) as missing:
            notes.append(f"fallbacks of Inductor are not observed: this PyTorch is unlike 2.13 ({missing})")

    def remove(self) -> None:
        while self._restore:
            self._restore.pop().__exit__(None, None, None)

    def kernels(self) -> int:
        """Generated until now."""
        return int(getattr(self._metrics, "generated_kernel_count", 0))

    def _around(self, there: Any) -> Any:
        inner = there.__func__

        @functools.wraps(inner)
        def create(cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
            made = inner(cls, kernel, *args, **kwargs)
            self._fell_back(kernel)
            return made

        return classmethod(create)

    def _around_library(self, there: Any) -> Any:
        @functools.wraps(there)
        def init(kernel: Any, *args: Any, **kwargs: Any) -> None:
            there(kernel, *args, **kwargs)
            graph = self.building()
            if graph is not None:
                graph.library_calls = (graph.library_calls or 0) + 1

        return init

    def _fell_back(self, kernel: Any) -> None:
        graph = self.building()
        if graph is None:
            return
        node = getattr(pytorch("_inductor.virtualized").V.graph, "current_node", None)
        name = str(kernel)
        place = _breaks_places.of_trace(node.meta.get("stack_trace", "") if node is not None else "")
        for one in graph.fallbacks:
            if one.op == name and one.place == place:
                one.count += 1
                return
        reason = _reason(kernel, node) if node is not None else ""
        graph.fallbacks.append(Fallback(name, reason, place, 1, _breaks_hints.for_fallback(name, reason)))
