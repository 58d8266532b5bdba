# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which values the forward pass keeps for the backward pass: those of PyTorch's minimal cut, but not what an attention computes between its products.

The cut takes products for too expensive to be computed again, so it keeps the probabilities of each attention: one number for each pair of a query and a
key. Here the nodes between the operands of the first product and the second product are marked before the cut is made. The backward pass then computes them
again from queries and keys, and in the forward pass nothing but the second product reads them, so the compiler makes one kernel of the attention.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.checkpoint import CheckpointPolicy

from . import _random

aten = torch.ops.aten

_PRODUCTS = {aten.mm.default, aten.bmm.default}
_VIEWS = {aten.view.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dim,
          aten.squeeze.dims, aten.squeeze.default, aten.alias.default, aten.detach.default}
# Beside what PyTorch itself calls pointwise.
_PASSED = _VIEWS | {aten._softmax.default, aten._to_copy.default, aten.full_like.default, aten.any.dim}
_SCALED = {aten.mul.Scalar, aten.div.Scalar, aten.mul.Tensor, aten.div.Tensor}

_IN_FORWARD = "must_be_in_forward"  # as PyTorch marks a node that the backward pass must not have


def _is_passed(node: torch.fx.Node) -> bool:
    """Whether the rows of an attention may pass through the node: it computes elements of them, one by one or in a softmax, and draws nothing."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return (target in _PASSED or torch.Tag.pointwise in target.tags) and not target._schema.is_mutable


def _size(node: torch.fx.Node) -> int:
    """Elements, for the sizes at which the graph is traced; 0 if they are not known."""
    value, count = node.meta.get("val"), 1
    if not isinstance(value, torch.Tensor):
        return 0
    for extent in value.shape:
        known = getattr(extent.node, "hint", None) if isinstance(extent, torch.SymInt) else extent
        count *= known if isinstance(known, int) else 0
    return count


def _bytes(node: torch.fx.Node) -> int:
    return _size(node) * node.meta["val"].element_size() if isinstance(node.meta.get("val"), torch.Tensor) else 0


def _ancestors(nodes: Iterable[Any]) -> set[torch.fx.Node]:
    found: set[torch.fx.Node] = set()
    stack = [one for one in nodes if isinstance(one, torch.fx.Node)]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.all_input_nodes)
    return found


def _second_products(softmax: torch.fx.Node, forward: set[torch.fx.Node]) -> dict[torch.fx.Node, int] | None:
    """The products that read the rows, with the number of the operand; None if something else reads them."""
    found: dict[torch.fx.Node, int] = {}
    seen: set[torch.fx.Node] = set()
    stack = [softmax]
    while stack:
        node = stack.pop()
        for user in node.users:
            if user.target in _PRODUCTS and user in forward and user.args[0] is not user.args[1]:
                found[user] = user.args.index(node)
            elif user.op == "output" or user in forward and not _is_passed(user):
                return None
            elif user in forward and user not in seen:
                seen.add(user)
                stack.append(user)
    return found


def _between(rows: Iterable[torch.fx.Node], size: int) -> tuple[list[torch.fx.Node], set[torch.fx.Node]]:
    """Products of that size from which the rows are computed, and what is computed of them on the way."""
    products: dict[torch.fx.Node, None] = {}
    seen: dict[torch.fx.Node, None] = {}
    stack = list(rows)
    while stack:
        node = stack.pop()
        if node.target in _PRODUCTS and _size(node) == size:
            products[node] = None
        elif _is_passed(node) and node not in seen:
            seen[node] = None
            stack.extend(node.all_input_nodes)
    between: set[torch.fx.Node] = set()
    stack = list(products)
    while stack:
        for user in stack.pop().users:
            if user in seen and user not in between:
                between.add(user)
                stack.append(user)
    return list(products), between


def _moved(operand: torch.fx.Node) -> list[torch.fx.Node]:
    """What brings the operand of a product in its place: views, copies and scales of something that is not larger."""
    found: list[torch.fx.Node] = []
    while operand.op == "call_function" and operand.meta.get("partitioner_tag") != _IN_FORWARD:
        target = operand.target
        source = operand.args[0] if operand.args else None
        is_scaled = target in _SCALED and len(operand.all_input_nodes) == 1
        if not isinstance(source, torch.fx.Node) or not (target in _VIEWS or target in (aten.clone.default, aten._to_copy.default) or is_scaled):
            break
        if _bytes(source) > _bytes(operand):
            break
        found.append(operand)
        operand = source
    return found


def _pays(softmax: torch.fx.Node, operands: list[torch.fx.Node]) -> bool:
    return _bytes(softmax) > sum(map(_bytes, operands))


def _attention(softmax: torch.fx.Node, forward: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes to be computed again, if the softmax is that of an attention that is worth it."""
    value = softmax.meta.get("val")
    if not isinstance(value, torch.Tensor) or softmax.args[1] not in (-1, value.ndim - 1):
        return []
    if not (second := _second_products(softmax, forward)):
        return []
    first, between = _between([one.args[number] for one, number in second.items()], _size(softmax))
    if len(first) != 1 or softmax not in between:
        return []
    operands = [*first[0].args[:2], *(one.args[1 - number] for one, number in second.items())]
    if not _pays(softmax, operands):
        return []
    found = [first[0], *between, *(node for one in operands for node in _moved(one))]
    return [] if any("recompute" in node.meta for node in found) else found


def mark(graph: torch.fx.Graph, num_fwd_outputs: int) -> None:
    """Marks the nodes of attentions that the backward pass computes again. Those of torch.utils.checkpoint stay as they are."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    softmaxes = [node for node in graph.nodes if node.target is aten._softmax.default]
    if not softmaxes:
        return
    forward = _ancestors(torch.utils._pytree.tree_leaves(output.args)[:num_fwd_outputs])
    for softmax in softmaxes:
        if softmax in forward:
            for node in _attention(softmax, forward):
                node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE


def _written(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Arguments that the forward pass writes to, in the graph or when it is over."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    found = {node.args[0] for node in graph.nodes if node.target is aten.copy_.default}
    primals = [node for node in arguments if not node.name.startswith("tangents")]
    metadata: Any = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    inputs = getattr(metadata, "input_info", None) or []
    if len(inputs) == len(primals):
        found.update(node for node, one in zip(primals, inputs) if one.mutates_data)
    return [node for node in arguments if node in found]


def keep_old_values(graph: torch.fx.Graph) -> None:
    """Nodes read an argument that is written to through a copy that only the forward pass makes. In the graph they come before the write, but the backward
    pass, for which the argument might be kept, and which might compute these nodes again, has the new values there."""
    last = next(node for node in reversed(graph.nodes) if node.op == "placeholder")
    for argument in _written(graph):
        readers = {one for one in argument.users if isinstance(one.meta.get("val"), torch.Tensor) and not (
            one.target is aten.copy_.default and one.args[0] is argument)}
        if not readers:
            continue
        with graph.inserting_after(last):
            copy = graph.call_function(aten.clone.default, (argument,))
        copy.meta.update(val=argument.meta["val"].clone(), recompute=CheckpointPolicy.MUST_SAVE, partitioner_tag=_IN_FORWARD)
        argument.replace_all_uses_with(copy, delete_user_cb=lambda user, readers=readers: user in readers)


def partition(joint_module: torch.fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int,
              **options: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """For aot_autograd: the graphs of the forward and of the backward pass."""
    graph = joint_module.graph
    keep_old_values(graph)
    mark(graph, num_fwd_outputs)
    # A view that is kept is a result of its own, and memory of its own beside what it views, while reading through it costs the backward pass nothing. It
    # is as AOTAutograd sees fit where a view reads memory by strides, which those of what is kept need not be.
    reads_memory = any("as_strided" in str(node.target) for node in graph.nodes)
    with contextlib.nullcontext() if reads_memory else torch._functorch.config.patch(recompute_views=True):
        return _random.cut(joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)
