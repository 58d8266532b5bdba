# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which nodes of an ONNX model became which regions of the compiled module, and which values are between them."""
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from . import _graphs

# Ops that the compiler shares among nodes, or that are only another view: a region that has nothing else of a node does not compute it.
_PASSIVE = {"tx.broadcast", "tx.constant", "tx.reshape", "tx.transpose", "tx.iota", "tx.parameter", "tx.slice", "tx.cast", "tx.dim"}


def is_passive(op: str) -> bool:
    return op in _PASSIVE


@dataclasses.dataclass
class Group:
    """Nodes that regions compute together, in the order of the graph. Several regions if a node is computed by more than one; none for nodes without
    a kernel of their own, such as a reshape before a result."""

    regions: list[str]
    kind: str
    nodes: list[Any]

    @property
    def label(self) -> str:
        if not self.regions:
            return "no region of its own"
        names = [name for name in self.regions if not name.startswith("$")] or self.regions  # $init: what is computed when the module is loaded
        return " + ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _top_nodes(graph: Any) -> dict[str, str]:
    """The node of the graph by the name of each node that is in it or inside of it."""
    found: dict[str, str] = {}
    for node in graph.node:
        for body in _graphs.bodies(node):
            for inner in _graphs.graphs(body):
                for one in inner.node:
                    found.setdefault(one.name, node.name)
    found.update((node.name, node.name) for node in graph.node)
    return found


def _top_node(name: str, known: dict[str, str]) -> str | None:
    """The compiler names what it makes of a node NODE/... or NODE#..."""
    while name:
        if name in known:
            return known[name]
        at = max(name.rfind("/"), name.rfind("#"))
        name = name[:at] if at > 0 else ""
    return None


def groups_of(model: Any, shown: dict[str, Any], each_node: bool = False) -> list[Group]:
    """Groups in the order of the graph. `shown` is the module's description. each_node: a group for each node that is in a region."""
    graph = model.graph
    known = _top_nodes(graph)
    nodes = {node.name: node for node in graph.node}
    active: dict[str, list[str]] = {}
    passive: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    regions = shown["compiler_report"]["regions"]
    for region in regions:
        name = region["region"]
        kinds[name] = region.get("kind", "")
        ops = [(one.get("node"), one.get("op")) for one in region.get("ops", [])] or [(region.get("node"), "")]
        for node, op in ops:
            top = _top_node(node, known) if node else None
            if top is not None:
                found = (passive if op in _PASSIVE else active).setdefault(top, [])
                if name not in found:
                    found.append(name)
    for node, names in passive.items():
        own = [name for name in names if not any(name in used for used in active.values())]  # regions that only move values
        if node not in active and (own or len(names) == 1):
            active[node] = own[:1] or names
    # Regions that share a node are one group.
    leader = {region["region"]: region["region"] for region in regions}

    def lead(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    if not each_node:
        for names in active.values():
            for name in names[1:]:
                leader[lead(name)] = lead(names[0])
    key_of = {node: (node if each_node else lead(names[0])) for node, names in active.items()}
    if not each_node:
        _absorb(graph, key_of)
    members: dict[str, list[Any]] = {}
    for node in graph.node:
        if node.name in key_of:
            members.setdefault(key_of[node.name], []).append(node)
    made = []
    for key, own_nodes in members.items():
        names = [name for node in own_nodes for name in active.get(node.name, [])]
        made.append(Group(list(dict.fromkeys(names)), kinds.get(names[0], "") if names else "", own_nodes))
    results = {one.name for one in graph.output}
    made += [Group([], "", [node]) for name, node in nodes.items()
             if name not in key_of and results.intersection(node.output) and node.op_type != "Constant"]
    order = {node.name: i for i, node in enumerate(graph.node)}
    return sorted(made, key=lambda group: order[group.nodes[-1].name])


def _absorb(graph: Any, key_of: dict[str, str]) -> None:
    """Gives nodes without a kernel, such as reshapes, to the group whose nodes are on both sides of them."""
    above: dict[str, set[str]] = {}  # by value: groups that it comes from through nodes without a kernel
    for node in graph.node:
        key = key_of.get(node.name)
        from_groups = {key} if key is not None else set().union(*(above.get(name, set()) for name in _graphs.reads(node)))
        for name in node.output:
            above[name] = from_groups
    below: dict[str, set[str]] = {one.name: {""} for one in graph.output}
    for node in reversed(graph.node):
        key = key_of.get(node.name)
        if key is None:
            readers = set().union(*(below.get(name, set()) for name in node.output))
            if len(readers) == 1 and readers <= set().union(*(above.get(name, set()) for name in _graphs.reads(node))):
                key = key_of[node.name] = next(iter(readers))
        for name in _graphs.reads(node):
            below.setdefault(name, set()).update({key} if key is not None else set().union(*(below.get(one, set()) for one in node.output)))


def boundary(model: Any, groups: Iterable[Group]) -> list[str]:
    """Values that a group makes and that other nodes or results read, in the order of the graph."""
    group_of = {node.name: i for i, group in enumerate(groups) for node in group.nodes}
    maker = {name: group_of.get(node.name) for name, node in _graphs.producers(model.graph).items()}
    needed = {one.name for one in model.graph.output if maker.get(one.name) is not None}
    for node in model.graph.node:
        own = group_of.get(node.name)
        needed.update(name for name in _graphs.reads(node) if maker.get(name) is not None and (own is None or maker[name] != own))
    return [name for node in model.graph.node for name in node.output if name in needed]
