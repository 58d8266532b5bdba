# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers of symbols: extents, strides and others that are known when a call's arguments are."""
from __future__ import annotations

import dataclasses
from typing import Any

import sympy
import torch


@dataclasses.dataclass(frozen=True)
class Number:
    """What a SymInt or a SymFloat of a graph says, without the graph's environment."""
    expression: sympy.Expr
    is_float: bool = False


def as_number(value: Any) -> int | Number:
    """Of a SymInt, a SymFloat or an int. A SymInt that is a constant becomes an int."""
    if isinstance(value, torch.SymFloat):
        return Number(value.node.expr, True)
    if not isinstance(value, torch.SymInt):
        return int(value)
    expression = value.node.expr
    return int(expression) if isinstance(expression, sympy.Integer) else Number(expression)


def value_of(number: int | Number, bindings: dict[str, int]) -> int | float:
    """In a call with these values of the symbols."""
    if not isinstance(number, Number):
        return number
    expression = number.expression
    if isinstance(expression, sympy.Symbol) and not number.is_float:
        return bindings[str(expression)]
    value = expression.xreplace({symbol: sympy.Integer(bindings[str(symbol)]) for symbol in expression.free_symbols})
    return float(value) if number.is_float else int(value)
