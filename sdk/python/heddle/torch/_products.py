# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of many matrices, as the compiler reads them: with all the dimensions that the matrices are counted by.

PyTorch traces a product of tensors of rank 4 as one of rank 3 between views. Then a view is between a product and the softmax of an attention, and the
compiler does not see that they belong together. So such a product is written with the tensors that are viewed. The rows of which an attention sees nothing
are set to zero after the second product, and not between the two.
"""
from __future__ import annotations

import dataclasses
from typing import Any

import torch

from . import _text

aten = torch.ops.aten
_Extents = list[int | str]
_VIEWS = {aten.view.default, aten._unsafe_view.default}
_COPIES = {aten.clone.default, aten.alias.default, aten.detach.default, aten.expand.default, aten.view.default, aten._unsafe_view.default}
_FILLED = {aten.scalar_tensor.default: 0, aten.full.default: 1, aten.full_like.default: 1}


@dataclasses.dataclass
class Operand:
    node: torch.fx.Node
    is_transposed: bool  # its last two dimensions change places

    def batch(self) -> _Extents:
        return _extents(self.node)[:-2]


@dataclasses.dataclass
class Product:
    first: Operand
    second: Operand
    rows: torch.fx.Node | None = None  # whether a row of the result is zero instead

    def extents(self, node: torch.fx.Node) -> _Extents:
        return [*self.first.batch(), *_extents(node)[1:]]


def _extents(node: torch.fx.Node) -> _Extents:
    return [_text.number_of(one) for one in node.meta["val"].shape]


def _copied(node: torch.fx.Node, text: _text.Writer) -> torch.fx.Node:
    """What it has the numbers and the shape of, as far back as the text has it."""
    while node.op == "call_function" and node.target in _COPIES and text.has(node.args[0]) and _extents(node.args[0]) == _extents(node):
        node = node.args[0]
    return node


def _divided(node: torch.fx.Node, text: _text.Writer) -> Operand | None:
    """What an operand of rank 3 is a view of, with more dimensions before the matrices."""
    node = _copied(node, text)
    is_transposed = node.target is aten.permute.default and list(node.args[1]) == [0, 2, 1] and text.has(node.args[0])
    if is_transposed:
        node = _copied(node.args[0], text)
    if node.op != "call_function" or node.target not in _VIEWS or not text.has(node.args[0]):
        return None
    viewed, own = _extents(node.args[0]), _extents(node)
    return Operand(_copied(node.args[0], text), is_transposed) if len(viewed) > 3 and viewed[-2:] == own[-2:] else None


def _is_zero(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.target in _FILLED and node.args[_FILLED[node.target]] == 0


def _whole(node: torch.fx.Node, text: _text.Writer) -> Product | None:
    """The product aten.bmm with all dimensions of its operands, if the text has these."""
    first, second = (_divided(one, text) for one in node.args)
    if first is None or second is None or first.batch() != second.batch():
        return None
    found = Product(first, second)
    select = first.node
    if select.target is aten.where.self and not first.is_transposed:
        rows, zero, values = select.args
        if _is_zero(zero) and _extents(rows)[-1:] == [1] and _extents(values) == _extents(select) and text.has(rows) and text.has(values):
            found.first, found.rows = Operand(_copied(values, text), False), rows
    return found


def add(writer: _text.Writer, node: torch.fx.Node) -> None:
    """Adds the node to the text."""
    product = _whole(node, writer) if node.target is aten.bmm.default else None
    if product is None:
        writer.add(node)
        return
    element = node.meta["val"].dtype
    operands = []
    for one in (product.first, product.second):
        value = writer.value(one.node)
        if one.is_transposed:
            extents = _extents(one.node)
            order = [*range(len(extents) - 2), len(extents) - 1, len(extents) - 2]
            value = writer.line("aten.permute.default", [("self", value)], [f"dims = {order}"], [extents[d] for d in order], element, node.name)
        operands.append(value)
    extents = product.extents(node)
    made = writer.line("aten.bmm.default", list(zip(("self", "mat2"), operands)), [], extents, element, node.name)
    if product.rows is not None:
        zero = writer.line("aten.full.default", [], ["size = []", "fill_value = 0"], [], element, node.name)
        chosen = [("condition", writer.value(product.rows)), ("self", zero), ("other", made)]
        made = writer.line("aten.where.self", chosen, [], extents, element, node.name)
    own = _extents(node)
    writer.set(node, writer.line("aten.view.default", [("self", made)], [f"size = [{_text.numbers(own)}]"], own, element, node.name))

