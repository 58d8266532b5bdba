# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conditions on shapes under which a program of torch.export is right, as texts that the compiler checks in each call."""
from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from . import _text

_MOST_SHOWN = 4
_LARGEST = 2**40  # extents are not above it
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "floordiv", ast.Mod: "mod"}


class _NoText(Exception):
    """A condition that the compiler's expressions cannot state."""


def _expression(node: ast.expr, extents: Mapping[str, torch.Size]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return str(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"(-{_expression(node.operand, extents)})"
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, int) and node.right.value > 0):
            raise _NoText
        return f"({_expression(node.left, extents)} {_OPERATORS[type(node.op)]} {_expression(node.right, extents)})"
    # L['x'].size()[0], or a member of an argument: L['x']['key'].size()[0]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute) and node.value.func.attr == "size":
        at, dimension = node.value.func.value, getattr(node.slice, "value", None)
        keys: list[str] = []
        while isinstance(at, ast.Subscript):
            keys.insert(0, str(getattr(at.slice, "value", "")))
            at = at.value
        shape = extents.get("_".join(keys))
        if shape is not None and isinstance(dimension, int) and -len(shape) <= dimension < len(shape):
            return str(_text.number_of(shape[dimension]))
    raise _NoText


def _add(writer: _text.Writer, code: str, extents: Mapping[str, torch.Size]) -> None:
    tree: Any = ast.parse(code, mode="eval").body
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        raise _NoText
    left, right = (_expression(one, extents) for one in (tree.left, tree.comparators[0]))
    kind, who = type(tree.ops[0]), f"condition \"{code}\" of the exported program"
    if kind in (ast.Eq, ast.GtE, ast.Gt):
        writer.require(f"({left} - {right})", int(kind is ast.Gt), who)
    if kind in (ast.Eq, ast.LtE, ast.Lt):
        writer.require(f"({right} - {left})", int(kind is ast.Lt), who)
    if kind is ast.NotEq:
        writer.require(f"(({left} - {right}) * ({left} - {right}))", 1, who)
    if kind not in (ast.Eq, ast.NotEq, ast.GtE, ast.Gt, ast.LtE, ast.Lt):
        raise _NoText


def add(writer: _text.Writer, program: ExportedProgram, inputs: Mapping[torch.fx.Node, str]) -> None:
    """The ranges of the program's symbols, and the conditions that its tracing relied on. A warning names those that cannot be checked."""
    extents = {node.name: node.meta["val"].shape for node in inputs}
    known = {str(extent.node.expr) for shape in extents.values() for extent in shape if isinstance(extent, torch.SymInt)}
    for symbol, allowed in program.range_constraints.items():
        name = str(symbol)
        if name not in known:
            continue
        lower, upper = allowed.lower, allowed.upper
        who = f"the range of '{name}', {lower} to {upper if upper < _LARGEST else 'any'}, of the exported program"
        if lower > 0:
            writer.require(name, int(lower), who)
        if upper < _LARGEST:
            writer.require(f"({int(upper)} - {name})", 0, who)
    left = []
    for code in dict.fromkeys(getattr(program, "_guards_code", None) or ()):
        try:
            _add(writer, code, extents)
        except (_NoText, SyntaxError, _text.Unsupported):
            left.append(code)
    if left:
        shown = "; ".join(left[:_MOST_SHOWN]) + (f"; and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else "")
        warnings.warn(f"heddle.torch: the exported program is right only for shapes with {shown}, which the module does not check; give Dims with a range or a "
                      "factor instead of Dim.AUTO", stacklevel=4)
