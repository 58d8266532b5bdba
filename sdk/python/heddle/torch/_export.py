# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.export: programs of torch.export as .heddle files."""
from __future__ import annotations

import operator
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument
from torch.utils import _pytree as pytree

from .. import CompileError, compile as _compile
from .._errors import Error, make
from . import _attention, _backend, _conditions, _products, _tensors, _text
from ._decompositions import as_operators, decompositions
from .report import place_of_node

_DOING = "exporting"
_DROPPED = {torch.ops.aten._assert_scalar.default, torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten.sym_constrain_range.default,
            torch.ops.aten.sym_constrain_range_for_size.default}
_MUTATED = {OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, getattr(OutputKind, "PARAMETER_MUTATION", OutputKind.BUFFER_MUTATION)}
_ATTRIBUTE = re.compile(r'(loc\(|torch\.name = )?"((?:[^"\\]|\\.)*)"')
_LARGE = 64 * 1024  # the compiler leaves every weight above this size to a file that has it


def _fail(cause: str, code: str = "UNIMPLEMENTED") -> Error:
    return make(code, f"heddle.torch: {_DOING} failed: {cause}")


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    table: dict[Any, Callable[..., Any]] = dict(torch.export.default_decompositions())
    own = decompositions()
    table.update(own)
    for one in list(table):  # the compiler has these as they are
        if one not in own and one.namespace == "aten" and not torch._C._dispatch_has_kernel_for_dispatch_key(one.name(), "CompositeImplicitAutograd"):
            del table[one]
    table[torch.ops.aten.scaled_dot_product_attention.default] = _attention.plain
    with torch.no_grad(), as_operators():
        return program.run_decompositions(table)


class _Signature:
    """The inputs and results of a program, with the names that the module gives them."""

    def __init__(self, program: ExportedProgram, mutated: str | None) -> None:
        nodes = {node.name: node for node in program.graph.nodes}
        self.inputs: dict[torch.fx.Node, str] = {}  # tensors that callers give
        self.parameters: dict[torch.fx.Node, str] = {}  # tensors that the program has
        self.values: dict[str, torch.Tensor] = {}  # those of parameters, by name
        self.in_state_dict: set[str] = set()
        self.results: list[tuple[str, torch.fx.Node]] = []
        self.state: dict[str, str] = {}
        signature = program.graph_signature
        changed = {one.target: one for one in signature.output_specs if one.kind in _MUTATED}
        if changed and mutated is None:
            raise _fail(f"the program writes to {', '.join(map(repr, sorted(changed)))}; pass mutated='results' to get the new values as results, or "
                        "mutated='state' for buffers whose values calls keep for the next one", "INVALID_ARGUMENT")
        for spec in signature.input_specs:
            argument = spec.arg
            if isinstance(argument, ConstantArgument):
                continue  # the graph has its value
            if isinstance(argument, SymIntArgument) or not isinstance(argument, TensorArgument):
                node = nodes.get(argument.name)
                if node is not None and not node.users:
                    continue
                raise _fail(f"argument '{argument.name}' is a {type(argument).__name__.removesuffix('Argument')}, which changes between calls; only tensors are "
                            "arguments of modules. Give it a fixed value, or make it a tensor, or an extent of one")
            node = nodes[argument.name]
            if spec.kind == InputKind.USER_INPUT:
                self.inputs[node] = argument.name
                continue
            name = str(spec.target or argument.name)
            value = self._value(program, spec, name)
            if name in changed:
                self.inputs[node] = name
                if mutated == "state":
                    self._check_zero(name, value)
                    self.state[name] = "new_" + name
                continue
            self.parameters[node] = name
            self.values[name] = value
            if spec.kind == InputKind.PARAMETER or (spec.kind == InputKind.BUFFER and spec.persistent is not False):
                self.in_state_dict.add(name)
        self._find_results(program, nodes)

    @staticmethod
    def _value(program: ExportedProgram, spec: Any, name: str) -> torch.Tensor:
        in_constants = spec.kind == InputKind.CONSTANT_TENSOR or (spec.kind == InputKind.BUFFER and spec.persistent is False)
        value = program.constants.get(name) if in_constants else program.state_dict.get(name)
        if not isinstance(value, torch.Tensor):
            raise _fail(f"input '{name}' is a {spec.kind.name.lower()} of class {type(value).__name__}; only tensors are supported")
        return value

    @staticmethod
    def _check_zero(name: str, value: torch.Tensor) -> None:
        if bool((value != 0).any()):
            raise _fail(f"buffer '{name}' does not begin with zeros, as the state of a module does; pass mutated='results', and give its values to "
                        "each call", "INVALID_ARGUMENT")

    def _find_results(self, program: ExportedProgram, nodes: Mapping[str, torch.fx.Node]) -> None:
        specs = program.graph_signature.output_specs
        names = iter(_names_of_results(program, sum(spec.kind == OutputKind.USER_OUTPUT for spec in specs)))
        for spec in specs:
            name = next(names) if spec.kind == OutputKind.USER_OUTPUT else "new_" + str(spec.target) if spec.kind in _MUTATED else str(spec.kind.name).lower()
            if isinstance(spec.arg, ConstantArgument):
                continue
            if not isinstance(spec.arg, TensorArgument):
                raise _fail(f"result '{name}' is a {type(spec.arg).__name__.removesuffix('Argument')}; only tensors are results. Return a tensor, or leave it out")
            self.results.append((name, nodes[spec.arg.name]))
        if not self.results:
            raise _fail("the program has no tensor as a result", "INVALID_ARGUMENT")


def _names_of_results(program: ExportedProgram, count: int) -> list[str]:
    """Keys of dictionaries and of dataclasses; "result" for a single one, "result0" and so on for members of a tuple."""
    names = []
    try:
        tree = pytree.tree_unflatten([0] * program.call_spec.out_spec.num_leaves, program.call_spec.out_spec)
        for path, _ in pytree.tree_flatten_with_path(tree)[0]:
            keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
            names.append(".".join(keys) if keys and not keys[0].isdigit() else "result" + ".".join(keys))
    except Exception:  # a class of PyTorch's users may have no paths, or refuse these values
        names = []
    if len(names) != count:
        names = [f"result{i}" for i in range(count)]
    return ["result"] if names == ["result0"] else names


def _symbol_names(program: ExportedProgram, shapes: Any, inputs: Mapping[torch.fx.Node, str]) -> dict[str, str]:
    """Symbols of Dynamo, and the names of the Dims that the caller gave to the same dimensions."""
    found: dict[str, str] = {}
    if not isinstance(shapes, (dict, tuple, list)):
        return found
    nodes = list(inputs)
    pairs = [(node, shapes.get(name)) for node, name in inputs.items()] if isinstance(shapes, dict) else list(zip(nodes, shapes))
    for node, spec in pairs:
        dims = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, (tuple, list)) else ()
        extents = node.meta["val"].shape
        for d, dim in dims:
            name = getattr(dim, "__name__", None)
            if not isinstance(d, int) or not isinstance(name, str) or not name.isidentifier() or d >= len(extents):
                continue
            extent = extents[d]
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol and name not in found.values():
                found.setdefault(str(extent.node.expr), name)
    return found


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with symbols of other names."""
    if not names:
        return text
    symbols = re.compile(r"\b(?:" + "|".join(map(re.escape, names)) + r")\b")
    return _ATTRIBUTE.sub(lambda found: found[0] if found[1] else '"' + symbols.sub(lambda one: names[one[0]], found[2]) + '"', text)


class _Graph:
    """The text of a program, and what it has none for."""

    def __init__(self, program: ExportedProgram, signature: _Signature, data: Mapping[str, tuple[str, int, int]]) -> None:
        self._signature = signature
        self._refused: dict[str, tuple[torch.fx.Node, str]] = {}
        self._nodes = {node.name: node for node in program.graph.nodes}
        names = {**signature.inputs, **signature.parameters}
        calls = [node for node in program.graph.nodes if node.op == "call_function" and node.target not in _DROPPED]
        calls = [node for node in calls if not isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, int, float, bool))]
        self._writer = _text.Writer(names, torch.__version__, (), names, {node: data[name] for node, name in signature.parameters.items()})
        _conditions.add(self._writer, program, signature.inputs)
        known = {str(extent.node.expr) for node in signature.inputs for extent in node.meta["val"].shape if isinstance(extent, torch.SymInt)}
        lost: set[torch.fx.Node] = set()  # nodes without a text, and what depends on them
        unknown_numbers: dict[torch.fx.Node, str] = {}
        for node in calls:
            if any(one in lost for one in node.all_input_nodes):
                lost.add(node)
                continue
            if isinstance(node.meta.get("val"), torch.SymFloat):
                try:
                    self._writer.add_number(node)
                except _text.Unsupported as failure:
                    unknown_numbers[node] = str(failure)
                continue
            numbers = [one for one in node.all_input_nodes if one in unknown_numbers]
            if numbers:
                self._refused[node.name] = (node, unknown_numbers[numbers[0]])
                lost.add(node)
                continue
            values = [value for one in [node, *node.all_input_nodes] for value in _text.results_of(one)]
            unknown = sorted({name for value in values for name in _text.symbols_of(value)} - known)
            if unknown:
                reason = "its shapes depend on data" if unknown[0].startswith("u") else f"no extent of an input is its symbol {unknown[0]} by itself"
                self._refused[node.name] = (node, reason)
                lost.add(node)
                continue
            try:
                if node.target is not operator.getitem:
                    _text.check(node, None)
                _products.add(self._writer, node)
            except _text.Unsupported as failure:
                self._refused[node.name] = (node, str(failure))
                try:
                    self._writer.add_refused(node)
                except _text.Unsupported:
                    lost.add(node)
        self._results = [(name, node) for name, node in signature.results if node not in lost]
        if self._refused:
            self._writer.refuse()

    def text(self) -> str:
        return self._writer.text([node for _, node in self._results], [name for name, _ in self._results])

    def refusal(self, error: CompileError) -> Error:
        """The error that lists all operators that are not there, with their places; the compiler's, if it is about something else."""
        for name, reason in _backend._refusals(error).items():
            if name in self._nodes:
                self._refused.setdefault(name, (self._nodes[name], reason))
        if not self._refused:
            return error
        lines = []
        for node, reason in self._refused.values():
            place = place_of_node(node.meta.get("stack_trace") or "")
            lines.append(f"  {node.target} at '{node.name}'" + (f", {place.file}:{place.line}" if place.file else "") + f": {reason}")
        count = len(lines)
        what = "an operator is not supported" if count == 1 else f"{count} operators are not supported"
        return _fail(f"{what}:\n" + "\n".join(lines) + "\nRewrite these lines, or run the model with torch.compile, which leaves such operators to PyTorch")


def export(model: Any, args: Sequence[Any] | None, path: Any, *, kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Any = None,
           parameters: Any = None, params_in: Any = None, mutated: str | None = None, target: str | Sequence[str] = "cpu",
           donate: str | Sequence[str] = (), alias: Mapping[str, str] | None = None, options: str | Sequence[str] = (), **more: Any) -> str:
    """Compiles a model of PyTorch to a .heddle file that runs without PyTorch, and returns its path.

    model           a torch.nn.Module, which torch.export.export traces with the other arguments; or a torch.export.ExportedProgram
    args            example arguments of the model; None for a program
    path            the file to write
    kwargs          example arguments by name
    dynamic_shapes  as torch.export.export takes them. The symbols of the module have the names of the Dims
    parameters      a safetensors file to write with the parameters and persistent buffers, by their names in the state_dict; `heddle.open` then needs it
                    (`parameters=`). None: they are in the module
    params_in       files that have them already, as heddle.compile takes them; `heddle.open` then needs these
    mutated         what becomes of buffers and arguments that the model writes to. None: it is an error. "results": a buffer is an argument of its name,
                    and the new values are results, such as "new_cache". "state": likewise, but calls keep buffers for the next one (heddle.State); they have
                    to begin with zeros
    target, donate, alias, options   as heddle.compile takes them; so are params_in_hashes, param_names, timeout, progress and reproducer

    Inputs have the names of the model's arguments, results those of the keys of a dictionary or dataclass, else "result", or "result0" and so on.
    Numbers and None among the arguments have the values of the examples. Operators that are not supported are all listed in one UnimplementedError.
    """
    if mutated not in (None, "results", "state"):
        raise make("INVALID_ARGUMENT", f"heddle.torch: {_DOING} failed: mutated is None, 'results' or 'state', got {mutated!a:.80}")
    if parameters is not None and params_in is not None:
        raise make("INVALID_ARGUMENT", f"heddle.torch: {_DOING} failed: it takes parameters, a file to write, or params_in, files that exist, got both")
    if isinstance(model, ExportedProgram):
        if args or kwargs or dynamic_shapes is not None:
            raise make("INVALID_ARGUMENT", f"heddle.torch: {_DOING} failed: a program of torch.export has its arguments and shapes already; pass None")
        program = model
    elif isinstance(model, torch.nn.Module):
        program = torch.export.export(model, tuple(args or ()), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    else:
        raise make("TYPE", f"heddle.torch: {_DOING} failed: the model is a torch.nn.Module or a torch.export.ExportedProgram, got {type(model).__name__}")
    program = _decomposed(program)
    signature = _Signature(program, mutated)
    values = signature.values
    outside: set[str] = set()
    if parameters is not None:
        saved = {name: values[name] for name in values if name in signature.in_state_dict}
        _tensors.save(saved, os.fspath(parameters))
        params_in = os.fspath(parameters)
        outside = {name for name, value in saved.items() if value.numel() * value.element_size() > _LARGE}
    state = {**signature.state, **(more.pop("state", None) or {})}
    with tempfile.TemporaryDirectory(prefix="heddle-export-", dir=os.path.dirname(os.path.abspath(os.fspath(path)))) as folder:
        data = _tensors.write({name: value for name, value in values.items() if name not in outside}, os.path.join(folder, "weights.bin"))
        data.update({name: ("weights.bin", 0, values[name].numel() * values[name].element_size()) for name in outside})
        graph = _Graph(program, signature, data)
        source = os.path.join(folder, "graph.mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(_renamed(graph.text(), _symbol_names(program, dynamic_shapes, signature.inputs)))
        try:
            return _compile(source, path, target=target, donate=donate, alias=alias, state=state or None, params_in=params_in, options=options, **more)
        except CompileError as error:
            raise graph.refusal(error) from None
