# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nine `light` networks of the onnx package, as they are and with seeded random weights.

As published, nearly every weight of these networks is 0.02 (a ConstantOfShape node), which hides
mistakes and invites folding. `randomized` therefore writes a second version of each: every weight an
initializer with He-scaled random values, and the last Softmax removed. Used by the end-to-end tests
and the benchmarks; knows nothing of Heddle.

    light.py ops [MODEL.onnx ...]   operators, attributes and opsets that the networks use
    light.py random [NAME ...]      writes the random versions into the cache, prints their paths
    light.py check [NAME ...]       runs both versions in ONNX Runtime and compares what is recorded
"""
import argparse
import collections
import os
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from random_weights import draw, generator

NAMES = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50",
    "shufflenet", "squeezenet", "vgg19", "zfnet512",
)
WEIGHT_SEED = 3
INPUT_SEED = 5
# Part of the cached files' names: raise it when what `randomized` writes changes.
REVISION = 1


def published_path(name):
    """The network's file inside the installed onnx package."""
    return pathlib.Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx"


def cache_folder():
    """Where generated files go: $HEDDLE_MODEL_CACHE, or `models` in the build folder."""
    default = pathlib.Path(os.environ.get("HEDDLE_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build" / "release")) / "models"
    return pathlib.Path(os.environ.get("HEDDLE_MODEL_CACHE", default))


def real_inputs(graph):
    """Graph inputs that are not initializers (IR version 3 lists both), as value infos."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def input_of(graph):
    """(name, shape) of the network's only input, an f32 image batch."""
    (value,) = real_inputs(graph)
    assert value.type.tensor_type.elem_type == TensorProto.FLOAT
    return value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def recorded(name):
    """(input name, input, expected outputs): the pair that onnx's own backend tests compare.

    The input is not stored: onnx defines it as element index / element count.
    """
    path = published_path(name)
    input_name, shape = input_of(onnx.load(path).graph)
    count = int(np.prod(shape))
    image = (np.arange(count).reshape(shape) / count).astype(np.float32)
    tensor = onnx.load_tensor(path.with_name(f"light_{name}_output_0.pb"))
    return input_name, image, numpy_helper.to_array(tensor)


def random_input(name):
    """A seeded random image batch, f32 [1, 3, 224, 224], normally distributed as normalized photos are."""
    _, shape = input_of(onnx.load(published_path(name)).graph)
    return generator(INPUT_SEED, name).standard_normal(shape, dtype=np.float32)


def randomized(name, folder=None):
    """Path of the network's random version, written on first use (VGG-19's has 575 MB)."""
    folder = pathlib.Path(folder) if folder else cache_folder()
    path = folder / f"light_{name}_random_r{REVISION}.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    data = with_weights(name, lambda weight, distribution, shape: numpy_helper.from_array(
        draw(distribution, shape, generator(WEIGHT_SEED, name, weight)), weight)).SerializeToString(deterministic=True)
    temporary = path.with_suffix(f".{os.getpid()}.part")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _roles(graph):
    """For every value name, what kind of weight it would be: (operator, input position) of its use.

    Reshape and Unsqueeze of a weight are looked through.
    """
    roles = {}
    for node in reversed(graph.node):
        for position, name in enumerate(node.input):
            if node.op_type in ("Reshape", "Unsqueeze") and position == 0:
                roles[name] = roles.get(node.output[0])
            else:
                roles[name] = (node.op_type, position)
    return roles


def _distribution(role, shape):
    if role == ("Conv", 1):  # fan-in: channels per group times window
        return "normal", 0, float(np.sqrt(2.0 / np.prod(shape[1:])))
    if role == ("Gemm", 1):  # always [..., out, in] here (transB=1)
        return "normal", 0, float(np.sqrt(2.0 / shape[-1]))
    if role == ("BatchNormalization", 4):
        return "uniform", 0.5, 1.5
    if role in (("BatchNormalization", 1), ("Mul", 0), ("Mul", 1)):
        return "normal", 1, 0.1
    return "normal", 0, 0.1


def with_weights(network, weight, check=True):
    """The network with an initializer for each of its weights: weight(name, distribution, shape), a TensorProto. Those in other files cannot be checked."""
    model = onnx.load(published_path(network))
    graph = model.graph
    roles = _roles(graph)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    used = {name for node in graph.node for name in node.input}

    def fresh(name, shape):
        return weight(name, _distribution(roles[name], shape), tuple(shape))

    weights, nodes = [], []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in constants:
            weights.append(fresh(node.output[0], tuple(int(size) for size in constants[node.input[0]])))
            used.discard(node.input[0])
        else:
            nodes.append(node)
    for name, value in constants.items():
        if name not in used:
            continue
        weights.append(fresh(name, value.shape) if value.dtype == np.float32 else numpy_helper.from_array(value, name))

    (output,) = graph.output
    if nodes[-1].op_type == "Softmax":
        assert nodes[-1].output[0] == output.name
        output.name = nodes.pop().input[0]
    kept = real_inputs(graph)
    result = helper.make_model(
        helper.make_graph(nodes, f"{graph.name}_random", kept, [output], weights),
        # Opset as published; IR version 8, where initializers are constants and may be folded by anyone.
        producer_name="heddle tests/models/light.py", ir_version=8, opset_imports=list(model.opset_import),
    )
    if check:
        onnx.checker.check_model(result)
    return result


def _attribute_text(attribute):
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        value = f"tensor{list(value.dims)}"
    return f"{attribute.name}={value.decode() if isinstance(value, bytes) else value}"


def print_operators(path):
    """One line for each combination of operator, attributes and operand counts in a model."""
    model = onnx.load(path, load_external_data=False)
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    print(f"{pathlib.Path(path).name}: IR version {model.ir_version}, opset {opsets}")
    for value in real_inputs(model.graph):
        dims = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        print(f"    input {value.name} {dims}")
    lines = collections.Counter()
    for node in model.graph.node:
        attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
        operands = f"{sum(map(bool, node.input))}->{len(node.output)}"
        lines[(node.op_type, operands, ", ".join(map(_attribute_text, attributes)))] += 1
    for (operator, operands, attributes), count in sorted(lines.items()):
        print(f"  {count:5d} {operator:20s} {operands:5s} {attributes}")


def _check(name):
    import onnxruntime

    def run(path, image):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return session.run(None, {session.get_inputs()[0].name: image})[0]

    _, image, expected = recorded(name)
    recorded_error = float(np.abs(run(published_path(name), image) - expected).max())
    result = run(randomized(name), random_input(name))
    assert np.isfinite(result).all(), f"{name}: the random version gives values that are not finite"
    print(
        f"{name:14s} recorded: |difference| <= {recorded_error:.2g} of max {np.abs(expected).max():.3g}; "
        f"random: {result.shape}, mean {result.mean():.3g}, deviation {result.std():.3g}, max {np.abs(result).max():.3g}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("ops", "random", "check"))
    parser.add_argument("names", nargs="*", help="networks (or files, for ops); default: all nine")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        if arguments.action == "ops":
            print_operators(published_path(name) if name in NAMES else name)
        elif arguments.action == "random":
            print(randomized(name))
        else:
            _check(name)


if __name__ == "__main__":
    main()
