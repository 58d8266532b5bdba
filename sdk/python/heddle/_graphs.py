# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX graphs that `heddle diff` and `heddle reduce` make of a model: with more results, cut at values, and parts of it."""
from __future__ import annotations

import copy
import importlib
import os
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._errors import make

# onnx.ModelProto and so on; the package is imported only here, and is optional.
Model = Any
Graph = Any
Node = Any

_LARGEST = 1_900_000_000  # bytes of one protobuf file; above, weights go to a file of their own


def onnx(name: str = "") -> Any:
    """The package onnx, or a module of it."""
    try:
        return importlib.import_module("onnx" + ("." + name if name else ""))
    except ImportError as wrong:
        raise make("NOT_FOUND", "heddle: reading a model failed: the Python package onnx is not installed; pip install heddle[debug]") from wrong


def load(path: str | os.PathLike[str]) -> Model:
    """A model with the values of its weights, calls of its functions inlined, and a name for each node that no other has."""
    package = onnx()
    if not os.path.isfile(path):
        raise make("NOT_FOUND", f"heddle: reading '{os.fspath(path)}' failed: there is no such file; check the path", "errno", 2)
    try:
        model = package.load(os.fspath(path))
    except Exception as wrong:  # of protobuf, or of a file of weights
        raise make("INVALID_ARGUMENT", f"heddle: reading '{os.fspath(path)}' as an ONNX model failed: {str(wrong) or type(wrong).__name__}") from wrong
    return prepared(model)


def prepared(model: Model) -> Model:
    """See load(). The model itself may be changed."""
    if len(model.functions):
        model = onnx("inliner").inline_local_functions(model)
    stored = {one.name for one in model.graph.initializer} | {one.values.name for one in model.graph.sparse_initializer}
    kept = [one for one in model.graph.input if one.name not in stored]
    if len(kept) < len(model.graph.input):  # before IR version 4, every initializer was an input, too
        replace(model.graph.input, kept)
        model.ir_version = max(model.ir_version, 4)
    name_nodes(model.graph, {node.name for graph in graphs(model.graph) for node in graph.node})
    return model


def name_nodes(graph: Graph, used: set[str]) -> None:
    seen: set[str] = set()
    for node in graph.node:
        if not node.name or node.name in seen:
            number, stem = 0, node.name or node.op_type
            while f"{stem}_{number}" in used:
                number += 1
            node.name = f"{stem}_{number}"
            used.add(node.name)
        seen.add(node.name)
        for body in bodies(node):
            name_nodes(body, used)


def replace(field: Any, content: Iterable[Any]) -> None:
    """Sets a repeated field."""
    kept = [copied(one) for one in content]
    del field[:]
    field.extend(kept)


def copied(message: Any) -> Any:
    return copy.deepcopy(message)


def bodies(node: Node) -> list[Graph]:
    """Graphs in attributes, of If, Loop and Scan."""
    return [graph for attribute in node.attribute for graph in ([attribute.g] if attribute.HasField("g") else list(attribute.graphs))]


def graphs(graph: Graph) -> Iterator[Graph]:
    """The graph and all that are inside of it."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from graphs(body)


def reads(node: Node) -> list[str]:
    """Values that the node reads, also inside of its graphs, without those that are made there."""
    found = [name for name in node.input if name]
    for body in bodies(node):
        found += outer_values(body)
    return list(dict.fromkeys(found))


def outer_values(graph: Graph) -> list[str]:
    """Values that a body takes from outside."""
    inside = {one.name for one in graph.input} | {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    found = []
    for node in graph.node:
        found += [name for name in reads(node) if name not in inside]
        inside.update(node.output)
    return found + [one.name for one in graph.output if one.name not in inside]


def rename_reads(node: Node, names: Mapping[str, str]) -> None:
    """Replaces values that the node reads, also inside of its graphs."""
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name)
    for body in bodies(node):
        inside = {one.name for one in body.input} | {one.name for one in body.initializer} | {name for one in body.node for name in one.output}
        outside = {old: new for old, new in names.items() if old not in inside}
        for one in body.node:
            rename_reads(one, outside)
        for result in body.output:
            result.name = outside.get(result.name, result.name)


def producers(graph: Graph) -> dict[str, Node]:
    return {name: node for node in graph.node for name in node.output if name}


def stored_values(graph: Graph) -> dict[str, Any]:
    return {one.name: one for one in graph.initializer}


def keep_needed(graph: Graph, outputs: Collection[str] | None = None) -> None:
    """Removes nodes and initializers that no output needs, also from bodies. Inputs stay."""
    for node in graph.node:
        for body in bodies(node):
            keep_needed(body)
    needed = set(outputs if outputs is not None else [one.name for one in graph.output])
    kept = []
    for node in reversed(graph.node):
        if any(name in needed for name in node.output if name):
            kept.append(node)
            needed.update(reads(node))
    if len(kept) < len(graph.node):
        replace(graph.node, reversed(kept))
    if any(one.name not in needed for one in graph.initializer):
        replace(graph.initializer, [one for one in graph.initializer if one.name in needed])
    if any(one.values.name not in needed for one in graph.sparse_initializer):
        replace(graph.sparse_initializer, [one for one in graph.sparse_initializer if one.values.name in needed])


def inferred(model: Model) -> dict[str, Any]:
    """TypeProto by value, also in bodies, as far as shape inference finds it."""
    types: dict[str, Any] = {}
    try:
        # Large weights do not decide about shapes, and the inference copies the model.
        small = copied(model)
        for graph in graphs(small.graph):
            for one in graph.initializer:
                if one.ByteSize() > 4096:
                    shape, kind, name = list(one.dims), one.data_type, one.name
                    one.Clear()
                    one.name, one.data_type = name, kind
                    one.dims.extend(shape)
                    one.data_location = 1  # its values are elsewhere
        found = onnx("shape_inference").infer_shapes(small, data_prop=True)
    except Exception:  # a model that onnx finds wrong may still be one that the compiler takes
        found = model
    for graph in graphs(found.graph):
        for value in [*graph.value_info, *graph.input, *graph.output]:
            if value.type.WhichOneof("value"):
                types.setdefault(value.name, value.type)
    return types


def tensor_type(array: Any, dims: Sequence[int | str] | None = None) -> Any:
    """TypeProto of an array, with other names of its extents."""
    helper = onnx("helper")
    if array.dtype.kind in "OUS":
        return helper.make_tensor_type_proto(onnx().TensorProto.STRING, list(dims if dims is not None else array.shape))
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), list(dims if dims is not None else array.shape))


def value_info(name: str, kind: Any) -> Any:
    made = onnx().ValueInfoProto(name=name)
    if kind is not None:
        made.type.CopyFrom(kind)
    return made


def with_results(model: Model, names: Sequence[str], types: Mapping[str, Any]) -> Model:
    """The model with exactly these results."""
    made = copied(model)
    own = {one.name: one for one in model.graph.output}
    replace(made.graph.output, [own.get(name) or value_info(name, types.get(name)) for name in names])
    keep_needed(made.graph)
    return made


def fresh_name(stem: str, used: Collection[str]) -> str:
    name, number = stem, 0
    while name in used:
        number += 1
        name = f"{stem}.{number}"
    return name


def cut(model: Model, groups: Mapping[str, int], types: Mapping[str, Any], results: Sequence[str]) -> tuple[Model, dict[str, str]]:
    """The model with `results`, in which each value of `types` is read from a new input, except by nodes of the group that makes it. `groups` is by
    node. Returns also the names of the new inputs, by value."""
    made = copied(model)
    used = {name for graph in graphs(made.graph) for node in graph.node for name in [*node.input, *node.output]}
    names = {value: fresh_name(value + ":given", used) for value in types}
    maker = {value: groups.get(node.name) for value, node in producers(made.graph).items()}
    for node in made.graph.node:
        own = groups.get(node.name)
        foreign = {value: new for value, new in names.items() if own is None or maker[value] != own}
        rename_reads(node, {value: foreign[value] for value in reads(node) if value in foreign})
    made.graph.input.extend(value_info(names[value], kind) for value, kind in types.items())
    own_results = {one.name: one for one in model.graph.output}
    replace(made.graph.output, [own_results.get(name) or value_info(name, types.get(name)) for name in results])
    keep_needed(made.graph)
    read = {name for node in made.graph.node for name in reads(node)}
    replace(made.graph.input, [one for one in made.graph.input if one.name in read])
    return made, {value: new for value, new in names.items() if new in read}


def save(model: Model, path: pathlib.Path) -> None:
    """Writes a model, which appears when it is complete. Weights of a model that is too large for one file are beside it."""
    package = onnx()
    descriptor, partial = tempfile.mkstemp(prefix="." + path.name, suffix=".part", dir=path.parent)
    os.close(descriptor)
    try:
        if model.ByteSize() > _LARGEST:
            package.save(copied(model), partial, save_as_external_data=True, all_tensors_to_one_file=True, location=path.name + ".data", size_threshold=4096)
        else:
            with open(partial, "wb") as file:
                file.write(model.SerializeToString(deterministic=True))
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        pathlib.Path(partial).unlink(missing_ok=True)
        raise
