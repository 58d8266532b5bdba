# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts StableHLO to the text that the compiler reads: MLIR in its generic form.

    python3 -m heddle.stablehlo IN OUT        IN is a portable artifact (VHLO bytecode), other MLIR bytecode, or MLIR text; - is stdin or stdout

The package jaxlib reads IN: `pip install jaxlib`, or jax, which requires it. Which versions of StableHLO can be read depends on the version of jaxlib;
portable artifacts are readable from StableHLO 0.9 on. heddle.compile calls this module by itself.

What is changed: operations of CHLO, deprecated ones, and arithmetic with quantized types become those of StableHLO's specification, and arguments get
the names that JAX gave them. Values of constants are kept, all of them; more than 100 elements are written as hexadecimal digits.
"""
from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Any, Iterator

from ._errors import Error, make

BYTECODE = b"ML\xefR"
_SPACE_AND_ALIASES = re.compile(rb"(?:\s+|//[^\n]*\n|[#!][\w$.-]+ = [^\n]*\n)*")
# A range of columns, which the MLIR of the compiler does not know. Quotes inside of strings are escaped, so that this is a location wherever it is.
_RANGES = re.compile(r'(#loc\d* = loc\("(?:[^"\\]|\\.)*":\d+:\d+) to \d*:\d+\)')
# Bools of which MLIR writes a byte each since version 22; the MLIR of the compiler reads a bit each.
_BOOLS = re.compile(r'dense<"0x((?:0[01])+)">(?= : tensor<[0-9x]*xi1>)')
_NAMED = re.compile(r'loc\("((?:[^"\\]|\\.)*)"(?:\(|\))')
_DOING = "converting StableHLO"
_CHLO = "func.func(chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops)"
_REVERSED_SCANS = (1, 20, 0)
_OLD = {"stablehlo.broadcast", "stablehlo.einsum", "stablehlo.torch_index_select", "stablehlo.unary_einsum"}
_QUANTIZED = "func.func(stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-quant-to-math)"


def is_exported(model: object) -> bool:
    """Whether it is a jax.export.Exported. JAX is not imported for the answer."""
    return hasattr(model, "mlir_module_serialized") and hasattr(model, "in_avals")


def is_stablehlo(content: bytes) -> bool:
    """Whether the beginning of a file is that of MLIR bytecode or MLIR text, which no ONNX model has."""
    if content.startswith(BYTECODE):
        return True
    found = _SPACE_AND_ALIASES.match(content)
    rest = content[found.end() if found else 0:]
    return rest.startswith((b'"builtin.module"', b"module", b"func.func", b'"func.func"', b"vhlo."))


def is_another(content: bytes) -> bool:
    """Whether this is MLIR text in a dialect of the compiler: of no dialect that an exporter of StableHLO writes, as heddle-compile tells them apart."""
    return not content.startswith(BYTECODE) and not any(mark in content for mark in (b"stablehlo.", b"vhlo.", b"chlo.", b"mhlo.", b"jax."))


def is_generic(content: bytes) -> bool:
    """Whether this is MLIR text in generic form, which the compiler reads as it is."""
    found = _SPACE_AND_ALIASES.match(content)
    return content[found.end() if found else 0:].startswith((b'"builtin.module"', b'"func.func"'))


def _mlir(name: str) -> Any:
    """A module of jaxlib.mlir. It is optional, so type checkers need not find it."""
    try:
        return importlib.import_module("jaxlib.mlir." + name)
    except ImportError as missing:
        raise make("NOT_FOUND", f"heddle: {_DOING} failed: the Python package jaxlib, which reads it, cannot be imported ({missing}); "
                                "pip install jaxlib, or convert the file elsewhere with python3 -m heddle.stablehlo IN OUT") from missing


def _context() -> Any:
    ir, jax_dialects = _mlir("ir"), _mlir("_mlir_libs._jax_mlir_ext")
    chlo, stablehlo, _ = _mlir("dialects.chlo"), _mlir("dialects.stablehlo"), _mlir("dialects.func")  # func has classes of operations
    registry = ir.DialectRegistry()
    jax_dialects.register_dialects(registry)
    context = ir.Context()
    context.allow_unregistered_dialects = True  # the compiler says what it does not support
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    _mlir("dialects.sdy").register_dialect(context)  # notes on how values are divided among devices
    stablehlo.register_stablehlo_passes()
    # The dialect of quantized types has no registration of its own in jaxlib. Reading an artifact loads it.
    with context, ir.Location.unknown():
        empty = stablehlo.serialize_portable_artifact(ir.Module.parse("module {}"), stablehlo.get_current_version())
        stablehlo.deserialize_portable_artifact(context, empty)
    return context


def _parsed(content: bytes, context: Any, what: str) -> Any:
    ir, stablehlo = _mlir("ir"), _mlir("dialects.stablehlo")
    try:
        if content.startswith(BYTECODE):
            try:
                return stablehlo.deserialize_portable_artifact(context, content)
            except Exception as portable:
                if _version(content):
                    raise make("INVALID_ARGUMENT", f"heddle: {_DOING} failed: {what} is a portable artifact of StableHLO {_version(content)}, and this "
                                                   f"jaxlib does not read it (it has StableHLO {stablehlo.get_current_version()}): {portable}; "
                                                   "install another version of jaxlib") from portable
                return ir.Module.parse(content)
        return ir.Module.parse(content.decode())
    except UnicodeDecodeError as wrong:
        raise make("INVALID_ARGUMENT", f"heddle: {_DOING} failed: {what} is neither MLIR bytecode, which starts with 'ML\\xefR', nor text: "
                                       f"{wrong}") from None
    except ir.MLIRError as wrong:
        raise make("INVALID_ARGUMENT", f"heddle: {_DOING} failed: jaxlib does not read {what}: {wrong}") from wrong


def _version(content: bytes) -> str:
    """The version of StableHLO of a portable artifact, which is the producer of the bytecode; empty if it is none."""
    found = re.search(rb"^StableHLO_v([0-9.]+)", content[5:64])
    return found[1].decode() if found else ""


def _operations(operation: Any) -> Iterator[Any]:
    """An operation and all inside of it."""
    yield operation
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield from _operations(inner.operation)


def _has_quantized(operation: Any) -> bool:
    return any("!quant." in str(value.type) for value in [*operation.operands, *operation.results])


def _lower(module: Any, context: Any, what: str) -> None:
    """Replaces operations of CHLO and quantized arithmetic, and those that StableHLO keeps for old programs."""
    ir, passmanager, stablehlo = _mlir("ir"), _mlir("passmanager"), _mlir("dialects.stablehlo")
    found = list(_operations(module.operation))
    version = tuple(int(part) for part in stablehlo.get_current_version().split("."))
    for operation in found:
        if version < _REVERSED_SCANS and operation.name == "chlo.scan" and "is_reverse" in operation.attributes and operation.attributes["is_reverse"].value:
            raise make("UNIMPLEMENTED", f"heddle: {_DOING} failed: {what} has a chlo.scan with is_reverse, and the pass of this jaxlib goes forward (StableHLO "
                                        f"{stablehlo.get_current_version()}; right since {'.'.join(map(str, _REVERSED_SCANS))}); install a newer jaxlib")
    passes = []
    if any(_has_quantized(operation) for operation in found):
        passes.append(_QUANTIZED)  # makes operations of CHLO, too
    if passes or any(operation.name.startswith("chlo.") or operation.name in _OLD for operation in found):
        passes.append(_CHLO)
    for one in passes:
        try:
            passmanager.PassManager.parse(f"builtin.module({one})", context).run(module.operation)
        except ir.MLIRError as wrong:
            raise make("UNIMPLEMENTED", f"heddle: {_DOING} failed: StableHLO's own pass {one} did not succeed for {what}: {wrong}") from wrong


def _drop_shardings(module: Any) -> None:
    """Removes notes of the dialect sdy on how values are divided among devices: on one device they change nothing."""
    for operation in list(_operations(module.operation)):
        if operation.name in ("sdy.sharding_constraint", "sdy.reshard"):
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
    for one in [one for one in module.body.operations if one.operation.name == "sdy.mesh"]:
        one.operation.erase()


def _main(module: Any) -> Any:
    """The function that is called from outside: main, or the only public one."""
    functions = [one for one in module.body.operations if one.operation.name == "func.func"]
    named = [one for one in functions if one.name.value == "main"]
    public = [one for one in functions if "sym_visibility" not in one.attributes or one.attributes["sym_visibility"].value == "public"]
    return next(iter(named or public or functions), None)


def _name_of(argument: Any) -> str:
    """The name that JAX gave an argument as its location; empty if there is none."""
    found = _NAMED.match(str(argument.location))
    return re.sub(r"\\([\\\"])", r"\1", found[1]) if found else ""


def _passed_on(main: Any, functions: dict[str, Any]) -> dict[int, Any]:
    """For arguments of the main function that it passes to another one: the argument there. With symbolic dimensions, JAX's main only checks them."""
    found: dict[int, Any] = {}
    for operation in main.entry_block.operations:
        callee = functions.get(operation.attributes["callee"].value) if operation.operation.name == "func.call" else None
        if callee is None:
            continue
        places = {str(argument.get_name()): index for index, argument in enumerate(main.arguments)}
        for operand, there in zip(operation.operands, callee.arguments):
            if (index := places.get(str(operand.get_name()))) is not None:
                found.setdefault(index, there)
    return found


def _paths(exported: Any) -> list[str]:
    """A name for each argument of an exported function: its position or keyword, and the path inside of it."""
    try:
        tree_util = importlib.import_module("jax.tree_util")
        paths = [path for path, _ in
                 tree_util.tree_flatten_with_path(tree_util.tree_unflatten(exported.in_tree, list(range(len(exported.in_avals)))))[0]]
    except Exception:  # a tree of classes that JAX does not know here
        return [""] * len(exported.in_avals)
    names = []
    for path in paths:  # the first key is 0, of positional arguments, or 1, of keyword arguments
        text = "".join(tree_util.keystr((key,)) for key in path[1:])
        text = re.sub(r"^\['([^']*)'\]", r"\1", text)
        names.append(re.sub(r"^\[(\d+)\]", r"arg\1", text))
    return names


def _name_arguments(module: Any, exported: Any) -> None:
    """Attributes of the arguments: jax.arg_info; and, of an exported function, heddle.dimensions: the symbols of dimensions, empty for known ones."""
    ir = _mlir("ir")
    main = _main(module)
    if main is None or main.is_external:
        return
    functions = {one.name.value: one for one in module.body.operations if one.operation.name == "func.func"}
    passed = _passed_on(main, functions)
    names = [_name_of(argument) or (_name_of(passed[index]) if index in passed else "") for index, argument in enumerate(main.arguments)]
    dimensions: list[list[str]] = [[] for _ in names]
    if exported is not None:
        kept = list(exported.module_kept_var_idx)
        first = len(names) - len(kept)  # an index of the platform comes before them
        if first >= 0:
            paths = _paths(exported)
            for place, index in enumerate(kept, first):
                names[place] = names[place] or paths[index]
                dimensions[place] = [str(extent) if str(extent).isidentifier() else "" for extent in exported.in_avals[index].shape]
    attributes = []
    for index, old in enumerate(main.arg_attrs):
        given = {one.name: one.attr for one in old}
        if names[index] and names.count(names[index]) == 1:
            given["jax.arg_info"] = ir.StringAttr.get(names[index])
        if any(dimensions[index]):
            given["heddle.dimensions"] = ir.ArrayAttr.get([ir.StringAttr.get(one) for one in dimensions[index]])
        attributes.append(ir.DictAttr.get(given))
    if attributes:
        main.arg_attrs = ir.ArrayAttr.get(attributes)


def _packed(bools: re.Match[str]) -> str:
    """Bits from the lowest of each byte on."""
    bits = bools[1][1::2]
    data = bytes(int(bits[start:start + 8][::-1], 2) for start in range(0, len(bits), 8))
    return f'dense<"0x{data.hex().upper()}">'


def _read(source: Any) -> tuple[bytes, str]:
    """(contents, what to call it in messages)"""
    if is_exported(source):
        return bytes(source.mlir_module_serialized), "the exported function " + repr(getattr(source, "fun_name", ""))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), f"an object of {len(source)} bytes"
    if not isinstance(source, (str, os.PathLike)):
        raise make("TYPE", f"heddle: {_DOING} failed: the source is a path, bytes or a jax.export.Exported, got an object of class "
                           f"{type(source).__name__}")
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            return file.read(), f"'{path}'"
    except OSError as wrong:
        raise make("NOT_FOUND" if isinstance(wrong, FileNotFoundError) else "UNAVAILABLE",
                   f"heddle: {_DOING} failed: '{path}' cannot be read: {wrong.strerror}", "errno", wrong.errno or 0) from wrong


def convert(source: Any) -> str:
    """The text that the compiler reads.

    source   the path of a portable artifact, of MLIR bytecode or of MLIR text; its contents as bytes; or a jax.export.Exported
    """
    content, what = _read(source)
    if not is_exported(source) and is_generic(content):
        return content.decode()
    context = _context()
    ir = _mlir("ir")
    with context, ir.Location.unknown():
        module = _parsed(content, context, what)
        del content
        _drop_shardings(module)
        _lower(module, context, what)
        _name_arguments(module, source if is_exported(source) else None)
        text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return _BOOLS.sub(_packed, _RANGES.sub(r"\1)", str(text)))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    source, written = arguments
    try:
        text = convert(sys.stdin.buffer.read() if source == "-" else source)
    except Error as wrong:
        print(wrong, file=sys.stderr)
        return 1
    if written == "-":
        sys.stdout.write(text)
        return 0
    try:
        with open(written, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as wrong:
        print(f"heddle: {_DOING} failed: '{written}' cannot be written: {wrong.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
