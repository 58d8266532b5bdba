# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes of an FX graph become modules of Heddle, which run in PyTorch, and in which order.

A node that Heddle supports is in the first piece in which all that it needs is known; nodes that run in PyTorch are before a piece, as early as they can,
so that those that need no result of a module, such as random numbers, divide nothing. Numbers of symbols (SymInts) are no nodes: they are computed from the
arguments wherever they are needed.
"""
from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

import sympy
import torch

from . import _text
from ._records import Fallback

# Views of an argument that cost nothing in PyTorch, and a copy in a module.
_VIEWS = {
    torch.ops.aten.view.default, torch.ops.aten.permute.default, torch.ops.aten.t.default, torch.ops.aten.transpose.int, torch.ops.aten.unsqueeze.default,
    torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims, torch.ops.aten.squeeze.default, torch.ops.aten.expand.default, torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
}


@dataclasses.dataclass
class Piece:
    """Nodes that are one module."""
    nodes: list[torch.fx.Node]
    inputs: list[torch.fx.Node] = dataclasses.field(default_factory=list)
    outputs: list[torch.fx.Node] = dataclasses.field(default_factory=list)
    updates: dict[torch.fx.Node, torch.fx.Node] = dataclasses.field(default_factory=dict)  # outputs that are written over an argument of the graph


@dataclasses.dataclass
class Plan:
    steps: list[Piece | torch.fx.Node]  # a node runs in PyTorch
    fallbacks: list[Fallback]


def is_number(node: Any) -> bool:
    """Whether a node's value is a number of symbols."""
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, int)) and not isinstance(node.meta["val"], bool)


def _is_about_numbers(node: torch.fx.Node) -> bool:
    """Whether it computes or checks numbers, which Python does for any backend."""
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)) or node.target is torch.ops.aten._assert_scalar.default


class Symbols:
    """How the symbols of a graph follow from its arguments."""

    def __init__(self, placeholders: list[torch.fx.Node]) -> None:
        self.sources: dict[str, tuple[int, int | None]] = {}  # the argument, and its dimension
        for i, node in enumerate(placeholders):
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.is_nested_int():  # the extent of a nested tensor's ragged dimension, which is no number
                continue
            if isinstance(value, torch.SymInt) and isinstance(value.node.expr, sympy.Symbol):
                self.sources.setdefault(str(value.node.expr), (i, None))
            elif isinstance(value, torch.Tensor):
                for d, extent in enumerate(value.shape):
                    if isinstance(extent, torch.SymInt) and isinstance(extent.node.expr, sympy.Symbol):
                        self.sources.setdefault(str(extent.node.expr), (i, d))

    def knows(self, value: Any) -> bool:
        return _text.symbols_of(value) <= self.sources.keys()


def _base_of(node: torch.fx.Node) -> torch.fx.Node:
    while node.op == "call_function" and node.target in _VIEWS:
        node = node.args[0]
    return node


def _is_view_of_argument(node: torch.fx.Node) -> bool:
    return _base_of(node).op in ("placeholder", "get_attr")


def _is_made_of_numbers(node: torch.fx.Node) -> bool:
    base = _base_of(node)
    return base.op == "call_function" and base.target is not operator.getitem and not any(map(_text.is_tensor, base.all_input_nodes))


def _views_of_results(output: torch.fx.Node, visible: int) -> list[torch.fx.Node]:
    """Nodes that make those of the first `visible` results that share memory with another one of them. PyTorch makes them last, of the memory of a result."""
    found: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for node in dict.fromkeys(one for one in output.args[0][:visible] if _text.is_tensor(one)):
        if (base := _text.memory_of(node)).op == "call_function":
            found.setdefault(base, []).append(node)
    chains: dict[torch.fx.Node, None] = {}
    for base, nodes in found.items():
        if len(nodes) < 2:
            continue
        for node in nodes:
            while node is not base:
                chains[node] = None
                node = node.args[0]
    return [node for node in output.graph.nodes if node in chains]


def _is_update(node: torch.fx.Node) -> bool:
    """Whether it writes a value over an argument: the last nodes of a graph, so that it can be done where the value is computed."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder" and isinstance(node.args[1], torch.fx.Node)


def _is_last_write(node: torch.fx.Node) -> bool:
    """Whether it changes an argument otherwise, such as `x.data = y`: also one of the last nodes, so what reads the argument comes before it."""
    return (node.op == "call_function" and _text.has_effects(node) and node.target._schema.is_mutable and not node.users
            and bool(node.all_input_nodes) and node.args[0] is node.all_input_nodes[0] and node.args[0].op == "placeholder")


def _in_host_memory(calls: list[torch.fx.Node], in_module: set[torch.fx.Node], device: torch.device) -> set[torch.fx.Node]:
    """Single numbers in the host's memory that follow from such numbers alone, in a graph on another device."""
    if device.type == "cpu":
        return set()

    def is_there(node: torch.fx.Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and value.ndim == 0 and value.device.type == "cpu"

    found: set[torch.fx.Node] = set()
    for node in calls:
        known = (one in found or one.op in ("placeholder", "get_attr") and is_there(one) for one in node.all_input_nodes)
        if node in in_module and is_there(node) and all(known):
            found.add(node)
    return found


def _has_order(node: torch.fx.Node) -> bool:
    """Whether it has to stay behind the earlier nodes of this kind: it draws random numbers, or may do so."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is not operator.getitem
    return node.target.namespace not in ("aten", "prims") or torch.Tag.nondeterministic_seeded in node.target.tags


def make_plan(graph: torch.fx.Graph, device: torch.device, refused: dict[str, str], symbols: Symbols, visible: int = 0) -> Plan:
    """refused: the names of operators and nodes that the compiler does not take, and why. visible: how many of the first results the program sees."""
    calls = [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]
    output = next(node for node in graph.nodes if node.op == "output")
    fallbacks: list[Fallback] = []
    in_module: set[torch.fx.Node] = set()
    numbers: set[torch.fx.Node] = set()
    for node in calls:
        if is_number(node) and symbols.knows(node.meta["val"]):
            numbers.add(node)
            continue
        if _is_update(node):
            continue
        if node.target is operator.getitem:
            if node.args[0] in in_module:
                in_module.add(node)
            continue
        try:
            reason = refused.get(str(node.target)) or refused.get(node.name)
            if reason:
                if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                    reason = "random numbers are drawn in PyTorch, so that they are those of eager mode"
                raise _text.Unsupported(reason)
            _text.check(node, device)
            values = [one.meta["val"] for one in [node, *node.all_input_nodes] if "val" in one.meta]
            flat = [one for value in values for one in (value if isinstance(value, (list, tuple)) else [value])]
            if not all(one is None or symbols.knows(one) for one in flat):
                raise _text.Unsupported("its shapes depend on data")
            in_module.add(node)
        except _text.Unsupported as failure:
            if not _is_about_numbers(node):
                fallbacks.append(Fallback(_text.operator_of(node), node.name, str(failure)))

    # Symbols of a piece have to be in the shapes of its inputs, as a dimension that is one symbol. What has no such input runs in PyTorch.
    level: dict[torch.fx.Node, int] = {}
    in_order = 0
    # What is made of numbers only, for nodes in PyTorch, is made there, and so are views of it. The backward graph may need it, too.
    for node in reversed(calls):
        if _is_made_of_numbers(node) and node.users.keys() - {output} and not any(user in in_module or _is_update(user) for user in node.users):
            in_module.discard(node)
    for node in calls:
        if node in numbers:
            continue
        is_in_torch = node not in in_module
        least = in_order if is_in_torch and _has_order(node) else 0
        for one in node.all_input_nodes:
            if one in level:
                least = max(least, level[one] + (is_in_torch and one in in_module))
        level[node] = least
        if is_in_torch and _has_order(node):
            in_order = least

    last_views = _views_of_results(output, visible)
    wanted = [one for one in dict.fromkeys([*output.all_input_nodes, *(_text.memory_of(one) for one in last_views)]) if one in level and one not in last_views]
    views = {one for one in wanted if one in in_module and _is_view_of_argument(one)}
    updates = [node for node in calls if _is_update(node)]
    writes = [node for node in calls if node in level and not _is_update(node) and _is_last_write(node)]
    in_torch = [node for node in calls if node in level and node not in in_module and not _is_update(node) and node not in writes]
    used_by_torch = {one for node in [*in_torch, *writes] for one in node.all_input_nodes}
    # Views of arguments that leave the modules are made in PyTorch, each with what it is a view of.
    outside: set[torch.fx.Node] = set()
    for node in [*views, *(one for one in used_by_torch if one in in_module and _is_view_of_argument(one))]:
        while node.op == "call_function":
            outside.add(node)
            node = node.args[0]
    # So are numbers in the host's memory that it needs there: a copy of what a GPU computed would wait for all that the GPU has to do.
    numbers_on_host = _in_host_memory(calls, in_module, device)
    stack = [node for node in numbers_on_host if node in used_by_torch or node in wanted or any(map(_is_update, node.users))]
    while stack:
        node = stack.pop()
        outside.add(node)
        stack.extend(one for one in node.all_input_nodes if one in numbers_on_host and one not in outside)
    # So are those of which PyTorch reads the memory.
    for node in in_torch:
        if "as_strided" in str(node.target) and _text.memory_of(node.args[0]).op != "call_function":
            node = node.args[0]
            while node.op == "call_function":
                outside.add(node)
                node = node.args[0]

    steps: list[Piece | torch.fx.Node] = [node for node in calls if node in outside]
    last = max(level.values(), default=-1)
    for i in range(last + 1):
        steps.extend(node for node in in_torch if level[node] == i)
        nodes = [node for node in calls if node in in_module and level.get(node) == i]
        piece = _piece(nodes, in_module, outside, set(wanted), level)
        if piece.outputs:
            steps.append(piece)
    viewed = {_text.memory_of(node) for node in [*outside, *in_torch, *last_views]}  # what is written over one of them is seen by its views
    kept = viewed.union(wanted, *(node.all_input_nodes for node in writes))
    writes += [node for node in updates if not _is_made_in_place(node, steps, kept)]
    return Plan(steps + last_views + [node for node in calls if node in writes], fallbacks)


def _is_made_in_place(update: torch.fx.Node, steps: list[Piece | torch.fx.Node], kept: set[torch.fx.Node]) -> bool:
    """Whether the piece that computes the value can write it over the argument, which it is then told. Others are copied at the end."""
    argument, source = update.args[0], update.args[1]
    old, new = argument.meta["val"], source.meta["val"]
    places = [i for i, step in enumerate(steps) if isinstance(step, Piece) and source in step.outputs]
    if not places or update.users or source in kept or argument in kept:
        return False
    is_named = all(isinstance(one, int) or isinstance(one.node.expr, (sympy.Integer, sympy.Symbol)) for one in old.shape)
    if old.dtype != new.dtype or old.device != new.device or not is_named or list(map(_text.number_of, old.shape)) != list(map(_text.number_of, new.shape)):
        return False
    piece = steps[places[0]]
    if sum(user.target is update.target for user in source.users) > 1 or argument in piece.updates.values():
        return False
    for step in steps[places[0] + 1:]:
        used = step.inputs if isinstance(step, Piece) else step.all_input_nodes
        if source in used or argument in used:
            return False
    piece.updates[source] = argument
    if argument not in piece.inputs:
        piece.inputs.append(argument)
    return True


def _piece(nodes: list[torch.fx.Node], in_module: set[torch.fx.Node], outside: set[torch.fx.Node], wanted: set[torch.fx.Node],
           level: dict[torch.fx.Node, int]) -> Piece:
    inside = set(nodes)
    outputs = [node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor) and node not in outside and
               (node in wanted or any(user not in inside and user in level for user in node.users))]
    # What the outputs need.
    needed: set[torch.fx.Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in needed or node not in inside:
            continue
        needed.add(node)
        stack.extend(node.all_input_nodes)
    kept = [node for node in nodes if node in needed]
    inputs: dict[torch.fx.Node, None] = {}
    for node in kept:
        for one in node.all_input_nodes:
            if one not in needed and _text.is_tensor(one):
                inputs[one] = None
    return Piece(kept, list(inputs), outputs)


def _is_large(value: torch.Tensor) -> bool:
    extents = [extent for extent in value.shape if isinstance(extent, int)]
    return bool(len(extents) < value.ndim or math.prod(extents) * value.element_size() >= 4096)


def donations(plan: Plan, given_up: set[torch.fx.Node], output: torch.fx.Node) -> dict[int, set[torch.fx.Node]]:
    """For each piece, by its place in the plan, the inputs whose memory is of no use after it: results of other pieces, and of the arguments those given up.

    An operator of PyTorch may keep what it reads, or return a view of it, so what it reads is not among them. Nor are small ones: whether a tensor is free
    is asked in each call.
    """
    last: dict[torch.fx.Node, int] = {}
    for i, step in enumerate(plan.steps):
        last.update(dict.fromkeys(step.inputs if isinstance(step, Piece) else step.all_input_nodes, i))
    kept = {one for step in plan.steps if not isinstance(step, Piece) for one in step.all_input_nodes}.union(output.all_input_nodes)
    free = given_up.union(one for step in plan.steps if isinstance(step, Piece) for one in step.outputs if one not in step.updates) - kept
    return {i: {one for one in step.inputs if one in free and last[one] == i and one not in step.updates.values() and _is_large(one.meta["val"])}
            for i, step in enumerate(plan.steps) if isinstance(step, Piece)}
