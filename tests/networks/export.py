# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks with random weights as PyTorch exports them to ONNX, with symbolic dimensions, by its newer exporter (dynamo) and its older one.

    export.py FOLDER [NAME ...] [--full] [--list]

Writes FOLDER/NAME.onnx, and NAME.npz with calls of several sizes: inputs and PyTorch's outputs, for networks.py. If ONNX Runtime computes something else
from the file, as it does if the exporter made an error, the outputs are ONNX Runtime's, which is printed; so is a call that it cannot run, which is left
out. Names are NETWORK.dynamo and NETWORK.old,
with .full behind if --full is given, which makes networks of their usual size; a name without exporter stands for both. A network that cannot be exported
is an error at the end, after all others. Needs torch, transformers, diffusers, onnx, onnxscript and onnxruntime, which tools/dev/setup does not install.
"""
import argparse
import inspect
import logging
import pathlib
import sys
import time
import warnings

import forms
import images
import numpy as np
import sounds
import text
import torch
from network import Network, randomize

OLD_OPSET = 17
MODULES = images, text, sounds, forms


def networks():
    """Name to function."""
    found = {}
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and list(inspect.signature(function).parameters)[:1] == ["full"] and not name.endswith(("_model", "_config")):
                found[name] = function
    return found


def dimensions(network):
    """Symbols of each input for dynamo."""
    made = {}

    def dimension(symbol):
        name, _, more = symbol.partition("+")
        if name not in made:
            multiple, least = network.multiples.get(name, 1), min(sizes[name] for sizes in network.calls)
            made[name] = multiple * torch.export.Dim(f"{name}_{multiple}", min=least // multiple) if multiple > 1 else torch.export.Dim(name, min=least)
        return made[name] + int(more) if more else made[name]

    return [{axis: dimension(symbol) for axis, symbol in network.symbols[name].items()} for name in network.inputs]


def shapes_of(model, inputs, sizes):
    """As the parameters of forward have them: the inputs behind the named ones are those of *arguments."""
    parameters = inspect.signature(model.forward).parameters.values()
    named = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD][:len(inputs)]
    rest = sizes[len(named):]
    return (*sizes[:len(named)], tuple(rest)) if rest else tuple(sizes)


def convert(network: Network, exporter, path):
    given = network.inputs_of(network.calls[0], torch.Generator().manual_seed(7))
    named = {"input_names": network.inputs, "output_names": network.outputs}
    with torch.no_grad():
        if exporter == "dynamo":
            sizes = shapes_of(network.model, network.inputs, dimensions(network))
            torch.onnx.export(network.model, given, str(path), dynamo=True, verbose=False, dynamic_shapes=sizes, custom_translation_table=network.translations, **named)
        else:
            torch.onnx.export(network.model, given, str(path), dynamo=False, opset_version=OLD_OPSET, dynamic_axes=network.symbols, **named)


def as_runtime(session, names, given, results, tell):
    """The results, or those that ONNX Runtime computes from the file if they differ; None if it fails."""
    arrays = {name: value.numpy() for name, value in zip(names, given, strict=True)}
    try:
        got = session.run(None, {one.name: arrays[one.name] for one in session.get_inputs()})
    except Exception as error:  # of any kind
        tell(f"ONNX Runtime cannot run it, which is left out: {str(error)[:300]}")
        return None
    results = [value.numpy() for value in results]
    for mine, theirs in zip(got, results, strict=True):
        same = mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=1e-3, atol=1e-4 * max(1, np.abs(theirs).max(initial=0)))
        if not same:
            tell("ONNX Runtime computes other values than PyTorch; they are the expected ones")
            return got
    return results


def calls_of(network, path, tell):
    """Arrays of the calls, by "call:in:name" and "call:out:name"."""
    import onnxruntime

    arrays = {}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for number, sizes in enumerate(network.calls):
        given = network.inputs_of(sizes, torch.Generator().manual_seed(100 + number))
        with torch.no_grad():
            results = network.model(*given)
        label = ",".join(f"{name}={size}" for name, size in sizes.items())
        results = as_runtime(session, network.inputs, given, results, lambda text, label=label: tell(f"{label}: {text}"))
        if results is None:
            continue
        arrays |= {f"{label}:in:{name}": value.numpy() for name, value in zip(network.inputs, given, strict=True)}
        arrays |= {f"{label}:out:{name}": value for name, value in zip(network.outputs, results, strict=True)}
    return arrays


def export(function, name, exporter, full, folder):
    torch.manual_seed(1234)
    network = function(full)
    if exporter not in network.exporters:
        return False
    network.model.eval().float()
    randomize(network.model)
    path = folder / f"{name}.{exporter}{'.full' if full else ''}.onnx"
    convert(network, exporter, path)
    np.savez(path.with_suffix(".npz"), **calls_of(network, path, lambda text: print(f"{path.stem}, {text}", flush=True)))
    return True


def main():
    known = networks()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--full", action="store_true", help="of their usual size")
    parser.add_argument("--list", action="store_true", help="print the names of the networks")
    arguments = parser.parse_args()
    if arguments.list or not arguments.folder:
        print("\n".join(known))
        return 0 if arguments.list else 2
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = []
    for wanted in arguments.names or known:
        name, _, exporter = wanted.partition(".")
        if name not in known:
            parser.error(f"there is no network '{name}'; --list prints them")
        for one in [exporter] if exporter else ("dynamo", "old"):
            began = time.monotonic()
            try:
                if export(known[name], name, one, arguments.full, arguments.folder):
                    print(f"{name}.{one}: {time.monotonic() - began:.1f} s", flush=True)
            except Exception as error:  # of the exporter, of any kind
                failed.append(f"{name}.{one}")
                print(f"{name}.{one} failed: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr, flush=True)
    if failed:
        print(f"{len(failed)} could not be exported: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
