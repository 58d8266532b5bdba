# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of graphs, as _text.py writes them, as functions that PyTorch computes."""
from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from .._errors import Error, make
from ._text import TYPES

_DTYPES = {text: dtype for dtype, text in TYPES.items()}
_LINE = re.compile(r'^\s*(?:%(?P<result>\w+)(?::(?P<count>\d+))? = )?"(?P<operator>[\w.]+)"\((?P<operands>[^)]*)\) (?:\{(?P<attributes>.*)\} )?: '
                   r'\((?P<taken>.*?)\) -> (?P<given>.*?)(?: loc\((?P<place>.*)\))?$')
_ARGUMENTS = re.compile(r"^\s*\^bb0\((?P<arguments>.*)\):$")
_ELEMENT = re.compile(r"tensor<(?:[0-9?]+x)*(\w+)>")
_TOKEN = re.compile(r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<bits>0x[0-9A-Fa-f]+)(?: : f64)?|(?P<number>-?[0-9][0-9.]*(?:e[+-][0-9]+)?)(?: : f64)?|'
                    r"(?P<word>[A-Za-z_][\w.]*)|(?P<mark>[\[\]{}=,]))")
_BITS = {"0X7FF0000000000000": float("inf"), "0XFFF0000000000000": float("-inf")}
_EXPRESSION: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
                                                      ast.Mod: operator.mod}


def _wrong(cause: str) -> Error:
    return make("INVALID_ARGUMENT", f"heddle.torch: reading the text of a graph failed: {cause}; give a file that HEDDLE_TORCH_TEXTS wrote")


class _Attributes:
    """Reads {name = value, ...}: numbers, texts, bools, lists and dictionaries."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def _next(self) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise _wrong(f"an attribute is not known: {self._text[self._at:self._at + 40]!r}")
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _peek(self) -> str:
        return self._text[self._at:].lstrip()[:1]

    def pairs(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._peek() not in ("", "}"):
            name = self._next()[1].strip('"')
            if self._next()[1] != "=":
                raise _wrong(f"attribute '{name}' has no value")
            found[name] = self.value()
            if self._peek() == ",":
                self._next()
        return found

    def value(self) -> Any:
        kind, text = self._next()
        if kind == "text":
            return re.sub(r"\\([0-9A-F]{2})", lambda one: chr(int(one[1], 16)), text[1:-1])
        if kind == "bits":
            return _BITS.get(text.upper(), float("nan"))
        if kind == "number":
            return float(text) if "." in text or "e" in text else int(text)
        if text in ("true", "false"):
            return text == "true"
        if text == "{":
            pairs = self.pairs()
            self._next()
            return pairs
        if text != "[":
            raise _wrong(f"an attribute has the value {text!r}")
        values = []
        while self._peek() != "]":
            values.append(self.value())
            if self._peek() == ",":
                self._next()
        self._next()
        return values


def _computed(text: str, symbols: Mapping[str, Any]) -> Any:
    """The value of an expression of symbols."""
    def of(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in symbols:
            return symbols[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -of(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _EXPRESSION:
            return _EXPRESSION[type(node.op)](of(node.left), of(node.right))
        raise _wrong(f"'{text}' is no expression of known symbols")

    return of(ast.parse(text.replace(" floordiv ", " // ").replace(" mod ", " % "), mode="eval").body)


class Function:
    """A graph as a function of its arguments, in their order. `dynamic` has the dimensions of each that are symbols."""

    def __init__(self, text: str) -> None:
        self._lines: list[re.Match[str]] = []
        self._results: list[str] = []
        self._arguments: list[str] = []
        attributes: list[dict[str, Any]] = []
        for line in text.splitlines():
            if line.lstrip().startswith('"func.func"'):
                begin = line.index("arg_attrs = ") + len("arg_attrs = ")
                attributes = _Attributes(line[begin:]).value()
            elif found := _ARGUMENTS.match(line):
                self._arguments = re.findall(r"%(\w+): ", found["arguments"])
            elif found := _LINE.match(line):
                if found["operator"] == "func.return":
                    self._results = self._operands(found)
                else:
                    self._lines.append(found)
        if not self._results or len(attributes) != len(self._arguments):
            raise _wrong("it has no function @main with a return, or not an attribute for each argument")
        self._extents = [one.get("torch.extents") or [] for one in attributes]
        self.dynamic = [[d for d, extent in enumerate(extents) if isinstance(extent, str)] for extents in self._extents]

    @staticmethod
    def _operands(line: re.Match[str]) -> list[str]:
        return [one.strip().removeprefix("%") for one in line["operands"].split(",") if one.strip()]

    def __call__(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        if len(arguments) != len(self._arguments):
            raise _wrong(f"it has {len(self._arguments)} arguments, got {len(arguments)}")
        values: dict[str, Any] = dict(zip(self._arguments, arguments))
        symbols = {extent: tensor.shape[d] for extents, tensor in zip(self._extents, arguments) for d, extent in enumerate(extents)
                   if isinstance(extent, str) and extent.isidentifier()}
        for line in self._lines:
            attributes = _Attributes(line["attributes"] or "").pairs()
            given = dict(zip(attributes.pop("operands", []), (values[name] for name in self._operands(line)), strict=True))
            attributes.pop("extents", None)
            results = self._called(line, given, {name: self._number(value, symbols) for name, value in attributes.items()})
            name = line["result"]
            if line["count"] is None:
                values[name] = results
            else:
                values.update({f"{name}#{i}": one for i, one in enumerate(results)})
        return [values[name] for name in self._results]

    @staticmethod
    def _number(value: Any, symbols: Mapping[str, Any]) -> Any:
        if isinstance(value, list):
            return [Function._number(one, symbols) for one in value]
        is_expression = isinstance(value, str) and any(re.search(rf"\b{name}\b", value) for name in symbols)
        return _computed(value, symbols) if is_expression else value

    @staticmethod
    def _called(line: re.Match[str], tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        namespace, packet, overload = line["operator"].split(".")
        if line["operator"] == "aten.bmm.default" and tensors["self"].ndim > 3:  # _products.py
            return torch.matmul(tensors["self"], tensors["mat2"])
        try:
            target = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        except AttributeError:
            raise _wrong(f"this PyTorch has no operator {line['operator']}") from None
        elements: Sequence[str] = _ELEMENT.findall(line["given"])
        named: dict[str, Any] = {}
        for argument in target._schema.arguments:
            name = argument.name
            members = {int(key.rsplit(".", 1)[1]): value for key, value in tensors.items() if key.rsplit(".", 1)[0] == name and "." in key}
            if name in tensors:
                named[name] = tensors[name]
            elif members:
                named[name] = [members.get(i) for i in range(max(members) + 1)]
            elif name in attributes:
                named[name] = attributes[name]
            elif name == "dtype" and elements:
                named[name] = _DTYPES[elements[0]]
            elif not argument.has_default_value():
                named[name] = None
        return target(**named)


def read(path: Any) -> Function:
    """The graph in the file."""
    try:
        with open(path, encoding="utf-8") as file:
            return Function(file.read())
    except OSError as wrong:
        raise make("NOT_FOUND" if isinstance(wrong, FileNotFoundError) else "UNAVAILABLE",
                   f"heddle.torch: reading the text of a graph failed: '{path}' cannot be read: {wrong.strerror}", "errno", wrong.errno or 0) from wrong
