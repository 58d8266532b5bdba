# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of a graph of ATen operators with the values that go into them, and whether Heddle computes them right. Used by _minify.py."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from . import _records
from ._backend import _Compiled
from ._plan import Symbols, is_number
from ._text import results_of, symbols_of

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_LEAST = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}  # relative to the largest number of a result


@dataclasses.dataclass(frozen=True)
class Failure:
    """What is wrong with a part."""
    kind: str  # "wrong", "compile" or "call"
    text: str
    error: float = 0.0  # relative to the largest number of the result
    eager: float = 0.0  # the same, of PyTorch


@dataclasses.dataclass
class Part:
    """Nodes as a graph of their own, and values of its placeholders."""
    module: torch.fx.GraphModule
    inputs: list[Any]
    nodes: list[torch.fx.Node]  # of the whole graph


def copied(values: Iterable[Any]) -> list[Any]:
    return [one.detach().clone() if isinstance(one, torch.Tensor) else one for one in values]


def is_random(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


class Whole:
    """A graph, and the values of its nodes in PyTorch for some arguments."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], kind: str) -> None:
        self.module, self.kind = module, kind
        self.placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        interpreter = torch.fx.Interpreter(module, garbage_collect_values=False)
        with torch.no_grad():
            interpreter.run(*copied(inputs))
        self.values: dict[torch.fx.Node, Any] = dict(interpreter.env)
        for node in module.graph.nodes:
            if node.op == "get_attr":
                node.meta.setdefault("val", self.values[node])
        # Numbers of symbols are not computed by modules, and random numbers differ from run to run.
        self.nodes = [node for node in module.graph.nodes if node.op == "call_function" and not is_number(node) and not is_random(node)
                      and node.target is not operator.getitem and "val" in node.meta]
        self.output = next(node for node in module.graph.nodes if node.op == "output")
        self.symbols = Symbols(self.placeholders)

    def part(self, nodes: Iterable[torch.fx.Node], results: Iterable[torch.fx.Node] | None = None) -> Part | None:
        """These nodes with those of their results that others need, or with the named ones. None if they have no result that is a tensor."""
        chosen = set(nodes)
        order = [node for node in self.module.graph.nodes
                 if node in chosen or (node.target is operator.getitem and node.args[0] in chosen)]
        inside = set(order)
        outside = dict.fromkeys(one for node in order for one in node.all_input_nodes if one not in inside)
        names = {name for node in [*order, *outside] for value in results_of(node) if value is not None for name in symbols_of(value)}
        sources = {self.placeholders[self.symbols.sources[name][0]] for name in names if name in self.symbols.sources}
        outside.update(dict.fromkeys(node for node in self.placeholders if node in sources))
        if results is None:
            results = [node for node in order if any(user not in inside for user in node.users)]
        outputs = [node for node in results if isinstance(node.meta.get("val"), torch.Tensor)]
        if not outputs:
            return None
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in outside:
            made[node] = graph.placeholder(node.name)
            made[node].meta = {"val": node.meta["val"]}
        for node in order:
            made[node] = graph.node_copy(node, lambda one: made[one])
        graph.output([made[one] for one in outputs])
        return Part(torch.fx.GraphModule(torch.nn.Module(), graph), [self.values[one] for one in outside], [node for node in order if node in chosen])


def _in_f64(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    made = copy.deepcopy(module)

    def wide(value: Any) -> Any:
        return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value

    for node in made.graph.nodes:
        if node.op == "call_function":
            node.args = torch.fx.node.map_aggregate(node.args, wide)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, wide)
    made.recompile()
    return made


def _flat(results: Any) -> list[torch.Tensor]:
    return [one for one in (results if isinstance(results, (list, tuple)) else [results]) if isinstance(one, torch.Tensor)]


def _exact(part: Part, eager: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results in f64; those of PyTorch where some operator does not take f64."""
    try:
        given = [one.double() if isinstance(one, torch.Tensor) and one.dtype in _FLOATS else one for one in copied(part.inputs)]
        found = _flat(_in_f64(part.module)(*given))
        return found if len(found) == len(eager) else eager
    except Exception:  # of any operator
        return eager


def _error(got: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, relative to the largest number; infinite where only one of the two is a number."""
    if got.shape != exact.shape:
        return float("inf")
    if got.numel() == 0:
        return 0.0
    if not got.dtype.is_floating_point:
        return float((got != exact).to(torch.float64).mean())
    a, b = got.to(torch.float64), exact.to(torch.float64)
    same = (a == b) | (a.isnan() & b.isnan())
    if bool((~same & ~(a.isfinite() & b.isfinite())).any()):
        return float("inf")
    finite = b[b.isfinite()]
    scale = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-30)
    return float(torch.where(same, torch.zeros_like(a), (a - b).abs()).max()) / scale


@contextlib.contextmanager
def _unnoted() -> Iterator[None]:
    """Graphs that are compiled meanwhile are not among those of `graphs()`, and fallbacks are not warned of."""
    graphs, warned = list(_records._graphs), set(_records._warned)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            with _records._lock:
                _records._graphs[:] = graphs
                _records._warned.clear()
                _records._warned.update(warned)


def failure_of(part: Part, kind: str, tolerance: float | None) -> Failure | None:
    """What Heddle does wrong with the part; None if nothing."""
    with torch.no_grad(), _unnoted():
        eager = _flat(part.module(*copied(part.inputs)))
        try:
            compiled = _Compiled(part.module, kind)
        except Exception as wrong:  # of any kind: it is what is looked for
            return Failure("compile", f"{type(wrong).__name__}: {str(wrong).strip()[:2000]}")
        for one in compiled.record.fallbacks:
            if one.reason.startswith("the compiler failed"):
                return Failure("compile", one.reason)
        try:
            ours = _flat(compiled(copied(part.inputs)))
        except Exception as wrong:
            return Failure("call", f"{type(wrong).__name__}: {str(wrong).strip()[:2000]}")
        exact = _exact(part, eager)
        worst: Failure | None = None
        for i, (got, own, wanted) in enumerate(zip(ours, eager, exact, strict=True)):
            if got.dtype != own.dtype or got.shape != own.shape:
                return Failure("wrong", f"result {i} is {got.dtype}{list(got.shape)} instead of {own.dtype}{list(own.shape)}", float("inf"))
            error, theirs = _error(got, wanted), _error(own, wanted)
            least = tolerance if tolerance is not None else _LEAST.get(own.dtype, 0.0)
            if error > max(10 * theirs, least) and (worst is None or error > worst.error):
                worst = Failure("wrong", f"result {i} differs by {error:.3g} of its largest number from the result in f64, and PyTorch's by {theirs:.3g}", error, theirs)
        return worst
