# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes that make an ONNX model smaller. Each function yields or returns a changed copy and leaves the model as it is; whether the change is wanted is
for the caller to find out. Arrays of new inputs are part of the result, where they are known."""
from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from . import _graphs

_SMALL = 64  # elements: an integer tensor of so many may be a shape


@dataclasses.dataclass
class State:
    """A model, values of its inputs as far as they matter, and what is known about the values inside: types, and arrays of values outside of bodies."""

    model: Any
    inputs: dict[str, Any]
    types: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def tidy(state: State) -> State:
    """Without nodes, inputs and values that nothing reads."""
    graph = state.model.graph
    _graphs.keep_needed(graph)
    read = {name for node in graph.node for name in _graphs.reads(node)} | {one.name for one in graph.output}
    if any(one.name not in read for one in graph.input):
        _graphs.replace(graph.input, [one for one in graph.input if one.name in read])
    names = {one.name for one in graph.input}
    state.inputs = {name: value for name, value in state.inputs.items() if name in names}
    return state


def changed(state: State) -> State:
    return State(_graphs.copied(state.model), dict(state.inputs))


def stripped(state: State) -> State:
    """Without documentation, metadata, the extents of results, and types of values inside."""
    made = changed(state)
    model = made.model
    for field in ("doc_string", "domain", "producer_name", "producer_version", "model_version"):
        model.ClearField(field)
    for graph in _graphs.graphs(model.graph):
        graph.ClearField("doc_string")
        del graph.value_info[:]
        for node in graph.node:
            node.ClearField("doc_string")
            for field in ("metadata_props", "overload"):
                if field in node.DESCRIPTOR.fields_by_name:
                    node.ClearField(field)
    for one in model.graph.output:
        _forget_extents(one.type)
    return tidy(made)


def _forget_extents(kind: Any) -> None:
    """Keeps the rank, which a valid model has."""
    if kind.WhichOneof("value") == "tensor_type":
        for dim in kind.tensor_type.shape.dim:
            dim.Clear()


def with_outputs(state: State, names: Sequence[str]) -> State:
    made = changed(state)
    own = {one.name: one for one in made.model.graph.output}
    _graphs.replace(made.model.graph.output, [own.get(name) or _result(state, name) for name in names])
    return tidy(made)


def _result(state: State, name: str) -> Any:
    kind, array = state.types.get(name), state.arrays.get(name)
    if array is not None and (kind is None or kind.WhichOneof("value") == "tensor_type" and not kind.tensor_type.HasField("shape")):
        kind = _graphs.tensor_type(array)
    made = _graphs.value_info(name, kind)
    _forget_extents(made.type)
    return made


def _new_input(state: State, made: State, name: str) -> bool:
    """Makes a value an input of the model. False: its type is not known."""
    kind, array = state.types.get(name), state.arrays.get(name)
    if hasattr(array, "dtype"):
        if kind is None or not _has_shape(kind):
            kind = _graphs.tensor_type(array)
        made.inputs[name] = array
    if kind is None or kind.WhichOneof("value") == "tensor_type" and not _has_shape(kind):
        return False
    made.model.graph.input.append(_graphs.value_info(name, kind))
    return True


def _has_shape(kind: Any) -> bool:
    """Whether the shape is known, with a number or a name for each extent."""
    return bool(kind.WhichOneof("value") == "tensor_type" and kind.tensor_type.HasField("shape")
                and all(dim.WhichOneof("value") and dim.dim_param != "" or dim.WhichOneof("value") == "dim_value" for dim in kind.tensor_type.shape.dim))


def without(state: State, path: Sequence[int], nodes: Collection[int]) -> State | None:
    """Without nodes of the graph, or of a body (see graph_paths); what others read of them becomes an input. Without results of the model that they
    make; if there is no other, what they read becomes the result."""
    made = changed(state)
    graph = graph_at(made.model.graph, path)
    gone = [node for i, node in enumerate(graph.node) if i in nodes]
    kept = [node for i, node in enumerate(graph.node) if i not in nodes]
    lost = {name for node in gone for name in node.output if name}
    needed = list(dict.fromkeys(name for node in kept for name in _graphs.reads(node) if name in lost))
    if path:
        results = [one.name for one in graph.output if one.name in lost]
        needed = list(dict.fromkeys([*needed, *results]))
        if any(one.name in needed for other in _graphs.graphs(made.model.graph) if other is not graph for one in other.input):
            return None
    else:
        outputs = [one for one in graph.output if one.name not in lost]
        if not outputs:
            inside = {name for node in kept for name in node.output}
            outputs = [_result(state, name) for name in dict.fromkeys(name for node in gone for name in _graphs.reads(node)) if name in inside]
        if not outputs:
            return None
        _graphs.replace(graph.output, outputs)
    for name in needed:
        if not _new_input(state, made, name):
            return None
    if path:
        if all(node.op_type == "Identity" for node in gone) and len([one for one in graph.output if one.name in lost]) >= len(gone):
            return None  # others would take their place
        helper = _graphs.onnx("helper")
        for one in graph.output:
            if one.name in lost:  # a body gives only what it makes
                new = one.name + ".result"
                kept.append(helper.make_node("Identity", [one.name], [new], name=new))
                one.name = new
    _graphs.replace(graph.node, kept)
    return tidy(made)


def graph_paths(graph: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Of the graph and each body: index of the node, number of its body, and so on."""
    yield path
    for i, node in enumerate(graph.node):
        for j, body in enumerate(_graphs.bodies(node)):
            yield from graph_paths(body, (*path, i, j))


def graph_at(graph: Any, path: Sequence[int]) -> Any:
    for i in range(0, len(path), 2):
        graph = _graphs.bodies(graph.node[path[i]])[path[i + 1]]
    return graph


def bypasses(state: State) -> Iterator[State]:
    """Each node is replaced by one of its inputs of the same type, shape included."""
    for i in range(len(state.model.graph.node) - 1, -1, -1):
        node = state.model.graph.node[i]
        results = [name for name in node.output if name]
        if len(results) != 1 or results[0] not in state.types:
            continue
        for name in dict.fromkeys(one for one in node.input if one):
            if name not in state.types or state.types[name] != state.types[results[0]]:
                continue
            made = changed(state)
            graph = made.model.graph
            was_result = any(one.name == results[0] for one in graph.output)
            inside = {one for other in graph.node for one in other.output}
            if was_result and (name not in inside or any(one.name == name for one in graph.output)):
                continue
            del graph.node[i]
            for other in graph.node:
                _graphs.rename_reads(other, {results[0]: name})
            for one in graph.output:
                one.name = name if one.name == results[0] else one.name
            yield tidy(made)


def weights_as_inputs(state: State, least: int = 17) -> list[str]:
    return [one.name for one in state.model.graph.initializer if elements(one.dims) >= least]


def as_inputs(state: State, names: Collection[str]) -> State:
    """Weights become inputs."""
    made = changed(state)
    helper, numpy_helper = _graphs.onnx("helper"), _graphs.onnx("numpy_helper")
    for one in made.model.graph.initializer:
        if one.name in names:
            made.inputs[one.name] = numpy_helper.to_array(one)
            made.model.graph.input.append(helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)))
    _graphs.replace(made.model.graph.initializer, [one for one in made.model.graph.initializer if one.name not in names])
    return made


def elements(dims: Sequence[int]) -> int:
    count = 1
    for one in dims:
        count *= one
    return count


def without_attributes(state: State) -> Iterator[State]:
    for path in list(graph_paths(state.model.graph)):
        for i, node in enumerate(graph_at(state.model.graph, path).node):
            for j in range(len(node.attribute) - 1, -1, -1):
                if node.attribute[j].HasField("g") or len(node.attribute[j].graphs) or node.op_type == "Constant":
                    continue
                made = changed(state)
                del graph_at(made.model.graph, path).node[i].attribute[j]
                yield made


def _renamed_body(body: Any, prefix: str, names: dict[str, str]) -> list[Any]:
    """Nodes of a body, with names of their own, which are added to `names`. Its inputs are in `names`."""
    helper = _graphs.onnx("helper")
    nodes = []
    for one in body.initializer:
        names[one.name] = prefix + one.name
        nodes.append(helper.make_node("Constant", [], [names[one.name]], name=names[one.name] + ".value", value=one))
    for node in body.node:
        _graphs.rename_reads(node, names)
        node.name = prefix + node.name
        for i, name in enumerate(node.output):
            if name:
                names[name] = node.output[i] = prefix + name
        nodes.append(node)
    return nodes


def inlined_bodies(state: State) -> Iterator[State]:
    """An If is replaced by one of its branches, a Loop by a single step of it."""
    helper = _graphs.onnx("helper")
    numpy_helper = _graphs.onnx("numpy_helper")
    for path in list(graph_paths(state.model.graph)):
        for i, node in enumerate(graph_at(state.model.graph, path).node):
            if node.op_type not in ("If", "Loop") or node.domain not in ("", "ai.onnx"):
                continue
            for j in range(len(_graphs.bodies(node))):
                made = changed(state)
                graph = graph_at(made.model.graph, path)
                own = graph.node[i]
                body = _graphs.bodies(own)[j]
                prefix = own.name + "/"
                names: dict[str, str] = {}
                before: list[Any] = []
                if own.op_type == "Loop":
                    import numpy as np

                    start = [(prefix + "step", np.array(0, np.int64)), (prefix + "goes_on", np.array(True))]
                    before = [helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(value, name)) for name, value in start]
                    before.append(helper.make_node("Constant", [], [prefix + "axis"], name=prefix + "axis", value=numpy_helper.from_array(np.array([0], np.int64), "axis")))
                    given = [start[0][0], start[1][0], *own.input[2:]]
                    names.update({one.name: name for one, name in zip(body.input, given)})
                nodes = before + _renamed_body(body, prefix, names)
                results = list(body.output)[1:] if own.op_type == "Loop" else list(body.output)
                carried = len(own.input) - 2 if own.op_type == "Loop" else len(results)
                for number, (one, name) in enumerate(zip(results, own.output)):
                    if name and number < carried:
                        nodes.append(helper.make_node("Identity", [names.get(one.name, one.name)], [name], name=f"{prefix}result{number}"))
                    elif name:
                        nodes.append(helper.make_node("Unsqueeze", [names.get(one.name, one.name), prefix + "axis"], [name], name=f"{prefix}result{number}"))
                _graphs.replace(graph.node, [*list(graph.node)[:i], *nodes, *list(graph.node)[i + 1:]])
                yield tidy(made)


def extents_of(state: State) -> list[int]:
    """Extents of weights and inputs above 1, the greatest first."""
    found: set[int] = set()
    for graph in _graphs.graphs(state.model.graph):
        for one in graph.initializer:
            found.update(one.dims)
        for one in graph.input:
            found.update(dim.dim_value for dim in one.type.tensor_type.shape.dim)
    return sorted((extent for extent in found if extent > 1), reverse=True)


def symbols_of(state: State) -> list[str]:
    return list(dict.fromkeys(dim.dim_param for one in state.model.graph.input for dim in one.type.tensor_type.shape.dim if dim.dim_param))


def resized(state: State, old: int, new: int, multiples: bool) -> State:
    """Each extent `old` of weights and inputs becomes `new`, also where small integer constants, such as shapes, have that value. With multiples, also
    each extent that is a multiple of `old`."""
    numpy_helper = _graphs.onnx("numpy_helper")
    made = changed(state)

    def size(extent: int) -> int:
        if extent == old or multiples and extent > old and extent % old == 0:
            return extent // old * new
        return extent

    def shrink(tensor: Any) -> None:
        array = numpy_helper.to_array(tensor)
        cut = array[tuple(slice(0, size(extent)) for extent in array.shape)]
        if cut.dtype.kind in "iu" and cut.size <= _SMALL and cut.dtype.itemsize >= 4:
            cut = cut.copy()
            flat = cut.reshape(-1)
            for i, value in enumerate(flat.tolist()):
                flat[i] = size(value)
        if cut.shape != array.shape or (cut != array).any():
            tensor.CopyFrom(numpy_helper.from_array(cut, tensor.name))

    for graph in _graphs.graphs(made.model.graph):
        for one in graph.initializer:
            shrink(one)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    shrink(attribute.t)
        for one in graph.input:
            for dim in one.type.tensor_type.shape.dim:
                if dim.WhichOneof("value") == "dim_value":
                    dim.dim_value = size(dim.dim_value)
    for one in made.model.graph.input:
        array = made.inputs.get(one.name)
        if array is not None:
            static = [dim.WhichOneof("value") == "dim_value" for dim in one.type.tensor_type.shape.dim]
            made.inputs[one.name] = array[tuple(slice(0, size(extent)) if is_static else slice(None) for extent, is_static in zip(array.shape, static, strict=True))]
    return made


def with_symbol(state: State, symbol: str, extent: int | None) -> State | None:
    """Inputs are cut to that extent of a symbol. None: the symbol becomes the number that it is in the inputs."""
    made = changed(state)
    for one in made.model.graph.input:
        for axis, dim in enumerate(one.type.tensor_type.shape.dim):
            if dim.dim_param != symbol:
                continue
            array = made.inputs.get(one.name)
            if extent is not None and array is not None:
                made.inputs[one.name] = array.take(range(min(extent, array.shape[axis])), axis)
            elif extent is None:
                if array is None:
                    return None
                dim.dim_value = array.shape[axis]
    return made
