# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nodes of an FX graph as the text that the compiler reads: MLIR in the generic form, an operation for each ATen operator (docs/pytorch.md)."""
from __future__ import annotations

import dataclasses
import math
import operator
import re
from typing import Any, Iterable, Mapping

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Mod, PythonMod, ToFloat, TruncToInt

from . import _random

TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "i1", torch.int8: "i8", torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i64", torch.uint8: "ui8", torch.uint16: "ui16", torch.uint32: "ui32", torch.uint64: "ui64",
}


class Unsupported(Exception):
    """What a node needs and the text, or the compiler, does not have."""


def _expression(expression: sympy.Expr) -> str:
    """An expression of symbols, as compiler/import/aten_program.h reads it."""
    if isinstance(expression, sympy.Integer):
        return str(int(expression)) if int(expression) >= 0 else f"(-{-int(expression)})"
    if isinstance(expression, sympy.Symbol):
        return str(expression)
    if isinstance(expression, sympy.Add):
        return "(" + " + ".join(_expression(one) for one in expression.args) + ")"
    if isinstance(expression, sympy.Mul):
        return "(" + " * ".join(_expression(one) for one in expression.args) + ")"
    if isinstance(expression, sympy.Pow) and isinstance(expression.exp, sympy.Integer) and 1 <= int(expression.exp) <= 8:
        return "(" + " * ".join([_expression(expression.base)] * int(expression.exp)) + ")"
    if isinstance(expression, (FloorDiv, CleanDiv, Mod, PythonMod)) and not (isinstance(expression.args[1], sympy.Integer) and expression.args[1] > 0):
        raise Unsupported(f"a shape has the expression {expression}, and Heddle's symbols are divided by positive numbers only")
    if isinstance(expression, (FloorDiv, CleanDiv)):
        return f"({_expression(expression.args[0])} floordiv {_expression(expression.args[1])})"
    if isinstance(expression, (Mod, PythonMod)):
        return f"({_expression(expression.args[0])} mod {_expression(expression.args[1])})"
    if isinstance(expression, TruncToInt) and isinstance(expression.args[0], sympy.Mul):  # a whole number times an extent, as a float
        factors = [one.args[0] if isinstance(one, ToFloat) else sympy.Integer(int(one)) if one.is_Float and float(one).is_integer() else None
                   for one in expression.args[0].args]
        if None not in factors:
            return _expression(sympy.Mul(*factors))
    raise Unsupported(f"a shape has the expression {expression}, which Heddle's symbols cannot state")


def number_of(value: Any) -> int | str:
    """A whole number, or the text of an expression of symbols."""
    if isinstance(value, torch.SymInt):
        expression = value.node.expr
        return int(expression) if isinstance(expression, sympy.Integer) else _expression(expression)
    return int(value)


def symbols_of(value: Any) -> set[str]:
    """Names of the symbols in the shape of a tensor, or in a number."""
    numbers = value.shape if isinstance(value, torch.Tensor) and value.layout == torch.strided else [value]
    return {str(symbol) for one in numbers if isinstance(one, (torch.SymInt, torch.SymFloat)) for symbol in one.node.expr.free_symbols}


def _quoted(text: str) -> str:
    return '"' + "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode()) for c in text) + '"'


def _float(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.17e} : f64"
    bits = {math.inf: "0x7FF0000000000000", -math.inf: "0xFFF0000000000000"}.get(value, "0x7FF8000000000000")
    return f"{bits} : f64"


def _numeric(value: int | str) -> str:
    return _quoted(value) if isinstance(value, str) else str(value)


def numbers(extents: Iterable[int | str]) -> str:
    return ", ".join(map(_numeric, extents))


def type_of(value: torch.Tensor | torch.SymFloat, order: list[int] | None = None) -> tuple[str, str | None]:
    """(type, attribute with the extents or None): of a tensor whose dimensions are in that order, or of a number."""
    if isinstance(value, torch.SymFloat):
        return "tensor<f64>", None
    if value.dtype not in TYPES:
        raise Unsupported(f"elements of {value.dtype} are not supported")
    if value.layout != torch.strided or value.is_quantized:
        raise Unsupported(f"tensors of layout {value.layout} are not supported" if not value.is_quantized else "quantized tensors are not supported")
    extents = [number_of(one) for one in value.shape]
    if order is not None:
        extents = [extents[i] for i in order]
    shape = "".join(f"{'?' if isinstance(one, str) else one}x" for one in extents)
    text = f"tensor<{shape}{TYPES[value.dtype]}>"
    return text, "[" + ", ".join(map(_numeric, extents)) + "]" if any(isinstance(one, str) for one in extents) else None


def memory_order(value: torch.Tensor | torch.SymFloat) -> list[int] | None:
    """The order of dimensions in which the tensor is contiguous, as far as its strides are in an order; None if that is its own."""
    if isinstance(value, torch.SymFloat):
        return None
    try:
        strides = [one.node.hint if isinstance(one, torch.SymInt) else int(one) for one in value.stride()]
        sizes = [one.node.hint if isinstance(one, torch.SymInt) else int(one) for one in value.shape]
    except Exception:  # an unbacked symbol has no hint
        return None
    if any(one is None for one in strides + sizes) or any(stride == 0 and size > 1 for stride, size in zip(strides, sizes)):
        return None
    order = sorted(range(len(strides)), key=lambda i: (-strides[i], -sizes[i], i))
    # Dimensions of 1 stay where they are if that is contiguous.
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size != 1 and stride != expected:
            return order if order != sorted(order) else None
        expected *= max(size, 1)
    return None


def has_no_gaps(value: torch.Tensor) -> bool:
    """Whether its elements, in some order of dimensions, are all of a piece of memory, for the sizes at which it is traced."""
    if value.layout != torch.strided or value.is_quantized:
        return False
    try:
        pairs = [[one.node.hint if isinstance(one, torch.SymInt) else int(one) for one in pair] for pair in zip(value.stride(), value.shape)]
    except Exception:  # an unbacked symbol has no hint
        return False
    expected = 1
    for stride, size in sorted(pair for pair in pairs if pair[1] != 1):
        if stride != expected:
            return False
        expected *= size
    return True


@dataclasses.dataclass
class Arguments:
    """The arguments of a node by the names of its schema."""
    tensors: list[tuple[str, torch.fx.Node]]
    attributes: list[tuple[str, str]]


def _scalar(value: Any) -> str | None:
    """The text of an attribute; None for something that is no number, bool or text."""
    if isinstance(value, torch.fx.Node):
        value = value.meta["val"]
    if isinstance(value, (torch.SymFloat, torch.SymBool)):
        raise Unsupported(f"its argument is a {type(value).__name__}, which depends on data or shapes")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, torch.SymInt)):
        number = number_of(value)
        if isinstance(number, int) and not -2**63 <= number < 2**63:
            raise Unsupported(f"its argument {number} does not fit 64 bits")
        return _numeric(number)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, complex):
        raise Unsupported("complex numbers are not supported")
    return None


def is_tensor(value: Any) -> bool:
    """Whether it is given as a tensor; floats that depend on shapes are tensors of rank 0."""
    return isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), (torch.Tensor, torch.SymFloat))


def arguments_of(node: torch.fx.Node) -> Arguments:
    """Throws Unsupported for what has no text."""
    found = Arguments([], [])
    schema = node.target._schema
    for i, argument in enumerate(schema.arguments):
        if i < len(node.args):
            value = node.args[i]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise Unsupported(f"its argument '{argument.name}' is missing")
        if value is None or isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            continue
        if str(argument.type) in ("Device", "Layout", "MemoryFormat", "Optional[Device]", "Optional[Layout]", "Optional[MemoryFormat]", "Generator",
                                  "Optional[Generator]") or argument.name == "pin_memory":
            continue  # defaults, as numbers
        if isinstance(value, torch.dtype):
            if value not in TYPES:
                raise Unsupported(f"elements of {value} are not supported")
            continue  # the result states it
        if is_tensor(value):
            found.tensors.append((argument.name, value))
            continue
        if isinstance(value, (list, tuple)):
            if any(is_tensor(one) for one in value):
                for j, one in enumerate(value):
                    if one is not None:
                        found.tensors.append((f"{argument.name}.{j}", one))
                continue
            texts = [text for text in map(_scalar, value) if text is not None]
            if len(texts) != len(value):
                raise Unsupported(f"its argument '{argument.name}' has an element that is no number")
            found.attributes.append((argument.name, "[" + ", ".join(texts) + "]"))
            continue
        text = _scalar(value)
        if text is None:
            if str(argument.type) in ("int", "Optional[int]") and argument.name in ("dtype", "layout", "memory_format"):
                continue
            raise Unsupported(f"its argument '{argument.name}' is a {type(value).__name__}")
        if argument.name == "dtype":
            continue
        found.attributes.append((argument.name, text))
    if "as_strided" in str(node.target):  # it reads memory
        if memory_of(node.args[0]).op != "call_function" and any(name == "storage_offset" for name, _ in found.attributes):
            raise Unsupported("its storage_offset counts from where the memory of an argument begins, which a module does not know")
        found.attributes.append(("self_strides", "[" + ", ".join(_numeric(number_of(one)) for one in node.args[0].meta["val"].stride()) + "]"))
    return found


def is_view(node: torch.fx.Node) -> bool:
    """Whether its operator's results are views of its first argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    returns = node.target._schema.returns
    return bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write


def memory_of(node: torch.fx.Node) -> torch.fx.Node:
    """The node that the tensor is a view of in PyTorch, perhaps by several operators; itself if it is none."""
    while node.op == "call_function":
        if not is_view(node.args[0] if node.target is operator.getitem else node):
            break
        node = node.args[0]
    return node


def has_effects(node: torch.fx.Node) -> bool:
    """Whether it does something that is not in its results: it writes to an argument, or asserts."""
    return isinstance(node.target, torch._ops.OpOverload) and (node.target._schema.is_mutable or not node.target._schema.returns)


def results_of(node: torch.fx.Node) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


_OF_NUMBERS = {operator.truediv: "div", operator.mul: "mul", operator.add: "add", operator.sub: "sub"}
_AVERAGES = {torch.ops.aten.avg_pool1d.default, torch.ops.aten.avg_pool2d.default, torch.ops.aten.avg_pool3d.default}
TARGETS = {"cpu": "cpu", "cuda": "cuda"}  # of the compiler, by the type of a device


def operator_of(node: torch.fx.Node) -> str:
    """The name of what a node calls: for a wrapper of PyTorch around a custom operator or a Triton kernel, that one's."""
    name = str(node.target)
    if name.startswith("auto_functionalized") and node.args:
        return str(node.args[0])
    if (draw := _random.operator_of(node)) is not None:
        return str(draw)
    if name.startswith("triton_kernel_wrapper"):
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

        kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
        return "triton." + str(getattr(getattr(kernel, "fn", kernel), "__name__", "kernel"))
    return name


def _why_no_operator(node: torch.fx.Node) -> str:
    name = str(node.target)
    if name.startswith("auto_functionalized"):
        return "it is a custom operator, which writes to its arguments"
    if _random.operator_of(node) is not None:
        return "the backward pass draws its random numbers again"
    return "it is a Triton kernel" if name.startswith("triton_kernel_wrapper") else "it is no operator of ATen"


def check(node: torch.fx.Node, device: torch.device | None) -> None:
    """Throws Unsupported if the node cannot be in a text, or has values on another device, if one is given. Whether the compiler has the operator, it says
    itself."""
    if device is not None and device.type not in TARGETS:
        raise Unsupported(f"graphs on {device} are not supported")
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        raise Unsupported(_why_no_operator(node))
    if node.target.namespace not in ("aten", "prims"):
        raise Unsupported("it is a custom operator")
    if has_effects(node):
        raise Unsupported("it writes to an argument" if node.target._schema.is_mutable else "it has no result, but an effect, such as an assertion")
    arguments = arguments_of(node)
    values = [one.meta["val"] for _, one in arguments.tensors if not isinstance(one.meta["val"], torch.SymFloat)] + results_of(node)
    if node.target in _AVERAGES and not node.meta["val"].is_floating_point():
        raise Unsupported("averages of integers, which PyTorch divides in its own way, are not supported")
    for value in values:
        if value is None:
            continue
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"it has a value of class {type(value).__name__}")
        type_of(value)
        if device is not None and value.device != device and (value.ndim > 0 or value.device.type != "cpu"):
            graph = "has tensors on several devices" if value.device.type == "cuda" else f"on {device}"
            raise Unsupported(f"it is on {value.device}, and the graph {graph}")


class Writer:
    """The text of some nodes of a graph, which are a function of the inputs.

    With names, the inputs have these, and are contiguous in their own order. Those in `data` are parameters: (file beside the text, offset, bytes).
    """

    def __init__(self, inputs: Iterable[torch.fx.Node], version: str, nodes: Iterable[torch.fx.Node] = (),
                 names: Mapping[torch.fx.Node, str] | None = None, data: Mapping[torch.fx.Node, tuple[str, int, int]] | None = None) -> None:
        self._names: dict[torch.fx.Node, list[str]] = {}
        self._types: dict[torch.fx.Node, list[str]] = {}
        self._lines: list[str] = []
        self._arguments: list[str] = []
        self._attributes: list[str] = []
        self._requires: list[str] = []
        self._version = version
        self._count = 0
        self.orders: list[list[int] | None] = []  # the dimensions of each input are given in this order
        for i, node in enumerate(inputs):
            value = node.meta["val"]
            order = memory_order(value) if names is None else None
            self.orders.append(order)
            given, extents = type_of(value, order)
            self._arguments.append(f"%a{i}: {given}")
            attribute = "{torch.name = " + _quoted(f"a{i}" if names is None else names[node]) + (f", torch.extents = {extents}" if extents else "")
            if data and node in data:
                file, offset, length = data[node]
                attribute += f", torch.data = {{location = {_quoted(file)}, offset = {offset}, length = {length}}}"
            self._attributes.append(attribute + "}")
            self._names[node], self._types[node] = [f"%a{i}"], [given]
            if order is not None:
                back = [order.index(d) for d in range(len(order))]
                own, stated = type_of(value)
                text = f'"aten.permute.default"(%a{i}) {{operands = ["self"], dims = [{", ".join(str(d) for d in back)}]'
                text += (f", extents = [{stated}]" if stated else "") + f"}} : ({given}) -> {own} loc({_quoted(node.name)})"
                self._lines.append(f"%p{i} = {text}")
                self._names[node], self._types[node] = [f"%p{i}"], [own]

        # Symbols that are no dimension of an input are dimensions of one more input, which has no elements.
        needed = {name for node in nodes for one in [node, *node.all_input_nodes] for value in results_of(one) for name in symbols_of(value)}
        declared = {str(extent.node.expr) for node in self._names for extent in getattr(node.meta["val"], "shape", ()) if isinstance(extent, torch.SymInt)}
        self.symbols = sorted(needed - declared)
        if self.symbols:
            given = "tensor<0x" + "?x" * len(self.symbols) + "i1>"
            self._arguments.append(f"%s: {given}")
            self._attributes.append('{torch.name = "symbols", torch.extents = [0, ' + ", ".join(map(_quoted, self.symbols)) + "]}")

    def add(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem:
            of, index = node.args
            self._names[node], self._types[node] = [self._names[of][index]], [self._types[of][index]]
            return
        arguments = arguments_of(node)
        parts = ["operands = [" + ", ".join(_quoted(name) for name, _ in arguments.tensors) + "]"]
        parts += [f"{name} = {text}" for name, text in arguments.attributes]
        types, extents = [], []
        for value in results_of(node):
            one, stated = type_of(value) if value is not None else ("tensor<0xf32>", None)
            types.append(one)
            extents.append(stated or "[" + ", ".join(str(n) for n in (value.shape if value is not None else [0])) + "]")
        if any("?" in one for one in types):
            parts.append("extents = [" + ", ".join(extents) + "]")
        name = f"%n{self._count}"
        self._count += 1
        operands = ", ".join(self._names[one][0] for _, one in arguments.tensors)
        operand_types = ", ".join(self._types[one][0] for _, one in arguments.tensors)
        left = name if len(types) == 1 else f"{name}:{len(types)}"
        given = f"({', '.join(types)})" if len(types) != 1 else types[0]
        self._lines.append(f'{left} = "{node.target}"({operands}) {{{", ".join(parts)}}} : ({operand_types}) -> {given} loc({_quoted(node.name)})')
        self._names[node] = [name] if len(types) == 1 else [f"{name}#{i}" for i in range(len(types))]
        self._types[node] = types

    def has(self, node: torch.fx.Node) -> bool:
        return node in self._names

    def value(self, node: torch.fx.Node) -> tuple[str, str]:
        """The name and the type of the node's result."""
        return self._names[node][0], self._types[node][0]

    def set(self, node: torch.fx.Node, value: tuple[str, str]) -> None:
        self._names[node], self._types[node] = [value[0]], [value[1]]

    def line(self, operator: str, operands: list[tuple[str, tuple[str, str]]], attributes: list[str], extents: list[int | str], element: torch.dtype,
             where: str) -> tuple[str, str]:
        """An operation that is no node of the graph, with one result; its name and type."""
        name = f"%n{self._count}"
        self._count += 1
        given = "tensor<" + "".join("?x" if isinstance(one, str) else f"{one}x" for one in extents) + f"{TYPES[element]}>"
        parts = ["operands = [" + ", ".join(_quoted(one) for one, _ in operands) + "]", *attributes]
        if "?" in given:
            parts.append(f"extents = [[{numbers(extents)}]]")
        self._lines.append(f'{name} = "{operator}"({", ".join(value[0] for _, value in operands)}) {{{", ".join(parts)}}} : '
                           f'({", ".join(value[1] for _, value in operands)}) -> {given} loc({_quoted(where)})')
        return name, given

    def in_order(self, node: torch.fx.Node, order: list[int]) -> None:
        """The value is a result with its dimensions in this order."""
        given, stated = type_of(node.meta["val"], order)
        line = f'%o{len(self._lines)} = "aten.permute.default"({self._names[node][0]}) {{operands = ["self"], dims = [{", ".join(map(str, order))}]'
        self._lines.append(f'{line}{f", extents = [{stated}]" if stated else ""}}} : ({self._types[node][0]}) -> {given} loc({_quoted(node.name)})')
        self._names[node], self._types[node] = [line.split(" ", 1)[0]], [given]

    def add_refused(self, node: torch.fx.Node) -> None:
        """An operator that no compiler has, in place of one that has no text, with its results. Raises Unsupported if they have none either."""
        stated = [type_of(value) for value in results_of(node) if isinstance(value, torch.Tensor)]
        name = f"%n{self._count}"
        self._count += 1
        types = [one for one, _ in stated]
        extents = ", ".join(one or "[" + ", ".join(re.findall(r"(\d+)x", kind)) + "]" for kind, one in stated)
        left = "" if not types else f"{name} = " if len(types) == 1 else f"{name}:{len(types)} = "
        given = f"({', '.join(types)})" if len(types) != 1 else types[0]
        self._lines.append(f'{left}"heddle.refused"() {{operands = [], extents = [{extents}]}} : () -> {given} loc({_quoted(node.name)})')
        self._names[node] = [name] if len(types) == 1 else [f"{name}#{i}" for i in range(len(types))]
        self._types[node] = types

    def refuse(self) -> None:
        """An operator that the compiler does not have, so that it makes no module and tells what else it does not have."""
        self._lines.append('%refused = "heddle.refused"() {operands = [], extents = [[]]} : () -> tensor<f32> loc("refused")')

    def add_number(self, node: torch.fx.Node) -> None:
        """A float that depends on shapes, as a tensor of rank 0."""
        if getattr(node.target, "__name__", "") == "sym_float":
            self._names[node], self._types[node] = [self._number(node.args[0])], ["tensor<f64>"]
            return
        name = _OF_NUMBERS.get(node.target)
        if name is None:
            raise Unsupported(f"its argument '{node.name}' is a float that depends on shapes by {operator_of(node)}, which is not supported")
        left, right = (self._number(one) for one in node.args)
        alpha = ", alpha = 1" if name in ("add", "sub") else ""
        self._names[node], self._types[node] = [f"%n{self._count}"], ["tensor<f64>"]
        self._lines.append(f'%n{self._count} = "aten.{name}.Tensor"({left}, {right}) {{operands = ["self", "other"]{alpha}, extents = [[]]}} : '
                           f"(tensor<f64>, tensor<f64>) -> tensor<f64> loc({_quoted(node.name)})")
        self._count += 1

    def _number(self, value: Any) -> str:
        if isinstance(value, torch.fx.Node) and value in self._names:
            return self._names[value][0]
        text = _scalar(value)
        self._lines.append(f'%n{self._count} = "aten.full.default"() {{operands = [], size = [], fill_value = {text}, extents = [[]]}} : () -> tensor<f64>')
        self._count += 1
        return f"%n{self._count - 1}"

    def require(self, value: str, least: int, who: str) -> None:
        """Calls in which this expression of symbols is below `least` are refused; `who` names the condition."""
        self._requires.append(f"{{value = {_quoted(value)}, least = {least}, who = {_quoted(who)}}}")

    def text(self, outputs: list[torch.fx.Node], names: list[str] | None = None) -> str:
        types = [self._types[one][0] for one in outputs]
        arguments = ", ".join(one.split(": ", 1)[1] for one in self._arguments)
        results = ", ".join("{torch.name = " + _quoted(name) + "}" for name in names or [f"r{i}" for i in range(len(outputs))])
        lines = "\n    ".join(self._lines)
        requires = f", torch.requires = [{', '.join(self._requires)}]" if self._requires else ""
        return (f'"builtin.module"() ({{\n  "func.func"() <{{arg_attrs = [{", ".join(self._attributes)}], res_attrs = [{results}], '
                f'function_type = ({arguments}) -> ({", ".join(types)}), sym_name = "main"}}> ({{\n  ^bb0({", ".join(self._arguments)}):\n    {lines}\n'
                f'    "func.return"({", ".join(self._names[one][0] for one in outputs)}) : ({", ".join(types)}) -> ()\n'
                f'  }}) : () -> ()\n}}) {{torch.graph = {_quoted(self._version)}{requires}}} : () -> ()\n')
