# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of ONNX's backend tests: a model, inputs and outputs; read from the data of the Python package onnx, or from a folder that onnx_cases.py
wrote, which needs no onnx. A value is an array (of dtype object for strings), a list for a sequence, or None for an optional without a value."""
import json
import pathlib
import re

import numpy as np

SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator")
RTOL, ATOL = 1e-3, 1e-7  # of ONNX's backend test, unless the case has its own
EXPANDED = re.compile(r"_expanded(_ver\d+)?$")


def data_folder():
    import onnx
    return pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"


def case_folders(data):
    """Name to folder. Names are unique within a suite; a name that two suites have gets the suite in front."""
    found = {}
    for suite in SUITES:
        for model in sorted((data / suite).glob("*/model.onnx")):
            name = model.parent.name.removeprefix("test_")
            found[name if name not in found else f"{suite}/{name}"] = model.parent
    return found


def value_of(path, type_proto):
    import onnx
    from onnx import numpy_helper
    data = path.read_bytes()
    kind = type_proto.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        optional = onnx.OptionalProto.FromString(data)
        return numpy_helper.to_optional(optional) if optional.elem_type else None
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def read_case(folder):
    """{model, inputs, outputs, rtol, atol} of a folder of the package."""
    import onnx
    model = onnx.load(folder / "model.onnx")
    settings = json.loads((folder / "data.json").read_text()) if (folder / "data.json").exists() else {}
    values = folder / "test_data_set_0"
    initialized = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in initialized]
    if len(list(values.glob("input_*.pb"))) == len(model.graph.input):
        given = list(model.graph.input)
    inputs = [value_of(values / f"input_{index}.pb", value.type) for index, value in enumerate(given)]
    outputs = [value_of(values / f"output_{index}.pb", value.type) for index, value in enumerate(model.graph.output)]
    kept = [index for index, value in enumerate(given) if value.name not in initialized]
    return {"model": model, "inputs": [inputs[index] for index in kept], "outputs": outputs, "rtol": settings.get("rtol", RTOL),
            "atol": settings.get("atol", ATOL), "names": [value.name for value in model.graph.output],
            "specializations": [text for value, one in [(given[index], inputs[index]) for index in kept] for text in stated(value, one, is_input=True)] +
                               [text for value, one in zip(model.graph.output, outputs) for text in stated(value, one, is_input=False)]}


def stated(value, case_value, is_input):
    """What has to be stated of an input or an output that is no tensor, as heddle compile --specialize takes it: how many elements it has, or that it has no
    value; and the ranks of an input's elements if the model does not have them. Extents stay open."""
    of = value.type
    if of.WhichOneof("value") == "optional_type":
        of = of.optional_type.elem_type
        if case_value is None or of.WhichOneof("value") != "sequence_type":
            return [f"{value.name}={'absent' if case_value is None else 'present'}"]
    if of.WhichOneof("value") != "sequence_type":
        return []
    texts = [f"{value.name}={len(case_value)}"]
    if is_input and not of.sequence_type.elem_type.tensor_type.HasField("shape"):
        texts += [f"{value.name}[{index}]=[{','.join('?' * np.ndim(one))}]" for index, one in enumerate(case_value)]
    return texts


def tensors(values):
    """The arrays of values, of which an absent optional has none and a sequence has as many as elements."""
    return [array for value in values for array in (value if isinstance(value, (list, tuple)) else [] if value is None else [value])]


def with_structure(names, expected, results):
    """The values of outputs from a function's results by their names: those of a sequence y are y[0], y[1] and so on. An output without results is what
    it is expected to be if that is an empty sequence or an optional without a value, which the compiler checked, and else missing."""
    values = []
    for name, other in zip(names, expected):
        if name in results:
            values.append(results.pop(name))
            continue
        value = []
        while f"{name}[{len(value)}]" in results:
            value.append(results.pop(f"{name}[{len(value)}]"))
        values.append(value if value or other is not None else None)
    if results:
        raise ValueError(f"results {', '.join(results)} belong to no output")
    return values


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from graphs_of(inner)


def node_names(model):
    """Node to operator, by the names that the compiler's report uses."""
    return {node.name or f"{node.op_type}#{index}": node.op_type for index, node in enumerate(model.graph.node)}


def operator_of(node):
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def operators_of_cases(folders):
    """Name of a case to the operator that it tests: that of its only node; of the case of which it is the function's body; or the rarest one of all
    cases."""
    import onnx
    nodes, counts = {}, {}
    for name, folder in folders.items():
        nodes[name] = {operator_of(node) for graph in graphs_of(onnx.load(folder / "model.onnx").graph) for node in graph.node}
        for operator in nodes[name]:
            counts[operator] = counts.get(operator, 0) + 1
    found = {}
    for name in sorted(nodes, key=lambda name: bool(EXPANDED.search(name))):
        of_body = found.get(EXPANDED.sub("", name)) if EXPANDED.search(name) else None
        found[name] = of_body or min(nodes[name], key=lambda operator: (counts[operator], operator), default="none")
    return found


def flat(value):
    """(description for JSON, arrays) of a value."""
    if value is None:
        return None, []
    if isinstance(value, (list, tuple)):
        parts = [flat(one) for one in value]
        return [part[0] for part in parts], [array for part in parts for array in part[1]]
    value = np.asarray(value)
    if value.dtype == object or value.dtype.kind in "US":
        return {"strings": [str(one) for one in value.reshape(-1)], "shape": value.shape}, []
    bits = value if value.dtype.kind in "biufc" else value.view(f"u{value.dtype.itemsize}")  # of ml_dtypes
    return {"dtype": value.dtype.name}, [bits]


def restored(description, arrays):
    if description is None:
        return None
    if isinstance(description, list):
        return [restored(one, arrays) for one in description]
    if "strings" in description:
        return np.array(description["strings"], object).reshape(description["shape"])
    array = next(arrays)
    if array.dtype.name == description["dtype"]:
        return array
    import ml_dtypes
    return array.view(getattr(ml_dtypes, description["dtype"]))


def write_values(case, path):
    """Inputs, outputs and tolerances, for read_values."""
    inputs, outputs = flat(case["inputs"]), flat(case["outputs"])
    header = {"inputs": inputs[0], "outputs": outputs[0], **{key: case[key] for key in ("rtol", "atol", "names", "specializations")}}
    np.savez_compressed(path, header=np.array(json.dumps(header)), **{str(index): array for index, array in enumerate(inputs[1] + outputs[1])})


def read_values(path):
    with np.load(path) as file:
        header = json.loads(str(file["header"]))
        arrays = iter([file[str(index)] for index in range(len(file.files) - 1)])
    inputs = restored(header["inputs"], arrays)
    return {**header, "inputs": inputs, "outputs": restored(header["outputs"], arrays)}
