# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle diff`: where a model first departs from ONNX Runtime, from another device, or from another module.

    from heddle import diff
    report = diff.compare("model.onnx", against="onnxruntime")
    print(report.departs, report)

The package onnx is needed (`heddle[debug]`), and onnxruntime to compare with it.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from . import _graphs, _model_inputs, _peers, _programs, _regions
from ._compare import Difference, Tolerance, compare as compare_arrays, text_of
from ._errors import Error, make
from ._programs import Failed

# Their numbers are each implementation's own.
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


@dataclasses.dataclass
class Value:
    """A value that was compared.

    name        in the ONNX graph; of modules, the name of the dump
    type        such as "f32[2,11,64]"
    region      the region, or regions, that compute it
    nodes       "NAME (OPERATOR)" of each node that they compute
    inputs      the values that these nodes read, with whether they were equal: "given" if both sides got the same bytes
    """

    name: str
    type: str
    region: str
    kind: str
    nodes: list[str]
    inputs: dict[str, str]
    difference: Difference

    def lines(self) -> list[str]:
        shown = self.nodes[:8] + ([f"and {len(self.nodes) - 8} more"] if len(self.nodes) > 8 else [])
        made = [f"region   {self.region}" + (f" ({self.kind})" if self.kind else "")]
        made += [("nodes    " if i == 0 else "         ") + node for i, node in enumerate(shown)]
        made += [("inputs   " if i == 0 else "         ") + f"{name}: {state}" for i, (name, state) in enumerate(self.inputs.items())]
        return [*made, f"value    {self.name}: {self.type}", f"differs  {text_of(self.difference)}"]


@dataclasses.dataclass
class Report:
    """What `compare` found.

    subject, reference    what was compared
    results    differences of the model's results, with nothing changed
    values     the values between regions that were compared, in the order of the graph
    given      whether each region read what the reference computed; else what the regions before it computed
    skipped    values that were not compared, with the reason
    folder     with the isolated region: region.onnx, inputs.npz, expected.npz; empty: none was written
    alone      what the isolated region does by itself
    """

    subject: str
    reference: str
    extents: dict[str, int] = dataclasses.field(default_factory=dict)
    results: dict[str, Difference] = dataclasses.field(default_factory=dict)
    values: list[Value] = dataclasses.field(default_factory=list)
    given: bool = True
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    folder: str = ""
    alone: str = ""

    @property
    def departing(self) -> list[Value]:
        return [value for value in self.values if value.difference.departs]

    @property
    def first(self) -> Value | None:
        """The first value that departs."""
        return next(iter(self.departing), None)

    @property
    def departs(self) -> bool:
        return bool(self.departing) or any(one.departs for one in self.results.values())

    def __str__(self) -> str:
        extents = "".join(f", {name}={extent}" for name, extent in self.extents.items())
        lines = [f"{self.subject} against {self.reference}{extents}"]
        lines += [f"result   {name}: {text_of(found)}" for name, found in self.results.items()]
        how = "each region with the reference's inputs" if self.given else "inputs of regions as the regions before computed them"
        if self.values:
            lines.append(f"between  {len(self.values)} values, {len(self.departing)} depart; {how}")
        if self.skipped:
            lines.append(f"skipped  {len(self.skipped)}: " + "; ".join(f"{name}: {why}" for name, why in list(self.skipped.items())[:3]))
        lines += [f"note     {note}" for note in self.notes]
        if self.first is not None:
            lines += ["", "The first that departs", *self.first.lines()]
        if self.folder:
            lines += [f"alone    {self.alone}", f"files    {self.folder}: region.onnx, inputs.npz, expected.npz"]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = dataclasses.asdict(self)
        found["departs"] = self.departs
        found["first"] = self.first.name if self.first is not None else None
        made: dict[str, Any] = json.loads(json.dumps(found, default=_plain))
        return made


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "dtype", None) is not None and value.dtype.kind in "biufc" else str(value)


def _type_text(value: Any) -> str:
    name = "string" if value.dtype.kind in "OUS" else _programs.NAMES.get(value.dtype.name, value.dtype.name)
    return f"{name}[{','.join(map(str, value.shape))}]"


# ------------------------------------------------------------------------------------------------------------------------------ of an ONNX model


class _OfModel:
    """Compares a model with what a peer makes of it."""

    def __init__(self, model: Any, subject: _peers.Heddle, reference: _peers.Peer, inputs: Mapping[str, Any], extents: Mapping[str, int],
                 tolerance: Tolerance, each_node: bool) -> None:
        self.model, self.subject, self.reference, self.inputs = model, subject, reference, inputs
        self.extents, self.tolerance = extents, tolerance
        self.report = Report(subject.name, reference.name, dict(extents))
        self.types = _graphs.inferred(model)
        with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
            self.got, shown = subject.evaluate_in(pathlib.Path(folder), model, inputs)
        self.groups = _regions.groups_of(model, shown, each_node)
        self.group_of = {node.name: i for i, group in enumerate(self.groups) for node in group.nodes}
        self.node_of = _graphs.producers(model.graph)
        self.between = self._comparable(_regions.boundary(model, self.groups))
        self.results = [one.name for one in model.graph.output]
        wanted = list(dict.fromkeys([*self.between, *self.results]))
        self.expected = reference.evaluate(_graphs.with_results(model, wanted, self.types), inputs)
        for name in self.results:
            if _programs.is_tensor(self.expected[name]) and name in self.got:
                self.report.results[name] = self._difference(self.got[name], name)
        for name in list(self.between):
            if not _programs.is_tensor(self.expected[name]):
                self.report.skipped[name] = "it is no tensor"
                self.between.remove(name)

    def _difference(self, value: Any, name: str) -> Difference:
        expected = self.expected[name]
        return compare_arrays(_programs.as_expected(value, expected), expected, self.tolerance)

    def _comparable(self, names: Sequence[str]) -> list[str]:
        kept = []
        for name in names:
            kind = self.types.get(name)
            if self.node_of[name].op_type in _RANDOM:
                self.report.skipped[name] = "it is random"
            elif kind is not None and kind.WhichOneof("value") != "tensor_type":
                self.report.skipped[name] = "it is no tensor"
            else:
                kept.append(name)
        return kept

    def _dims(self, name: str, symbolic: bool) -> list[int | str]:
        """Extents of a value that becomes an input: symbols of the model where it has them, or where an extent is that of just one symbol."""
        shape = self.expected[name].shape
        if not symbolic:
            return [int(extent) for extent in shape]
        kind = self.types.get(name)
        stated = list(kind.tensor_type.shape.dim) if kind is not None and kind.tensor_type.HasField("shape") else []
        of_extent: dict[int, list[str]] = {}
        for symbol, extent in self.extents.items():
            of_extent.setdefault(extent, []).append(symbol)
        dims: list[int | str] = []
        for i, extent in enumerate(shape):
            dim = stated[i] if len(stated) == len(shape) else None
            symbols = of_extent.get(int(extent), [])
            if dim is not None and dim.WhichOneof("value") == "dim_value":
                dims.append(int(extent))
            elif dim is not None and dim.dim_param in symbols:
                dims.append(str(dim.dim_param))
            else:
                dims.append(symbols[0] if len(symbols) == 1 and extent > 1 else int(extent))
        return dims

    def _cut_types(self, names: Sequence[str], symbolic: bool) -> dict[str, Any]:
        return {name: _graphs.tensor_type(self.expected[name], self._dims(name, symbolic)) for name in names}

    def _evaluate_cut(self, names: Sequence[str], symbolic: bool) -> dict[str, Any]:
        model, given = _graphs.cut(self.model, self.group_of, self._cut_types(names, symbolic), self.between)
        inputs = {**self.inputs, **{new: self.expected[value] for value, new in given.items()}}
        return self.subject.evaluate(model, inputs)

    def with_given_inputs(self) -> None:
        """Each region reads what the reference computed: in one model, which is cut at every value between regions."""
        floats = [name for name in self.between if self.expected[name].dtype.kind not in "biu"]
        failures = []
        for names, symbolic in ((self.between, True), (self.between, False), (floats, True), (floats, False)):
            try:
                self._fill(self._evaluate_cut(names, symbolic), given=set(names))
                if names is floats and len(floats) < len(self.between):
                    self.report.notes.append("integers between regions are as the regions computed them: the compiler has to know some of them")
                return
            except Failed as failure:
                failures.append(failure)
        self.report.notes.append(f"the model cannot be cut at all values at once, so each region is compiled by itself ({failures[0]})".splitlines()[0])
        self._one_by_one()

    def _one_by_one(self) -> None:
        got: dict[str, Any] = {}
        for i, group in enumerate(self.groups):
            names = [name for node in group.nodes for name in node.output if name in self.between]
            if not names:
                continue
            for symbolic in (True, False):
                try:
                    model, inputs = self.part(i, symbolic)
                    got.update(self.subject.evaluate(model, inputs))
                    break
                except Failed as failure:
                    why = f"alone, it fails: {failure}".splitlines()[0]
            else:
                self.report.skipped.update(dict.fromkeys(names, why))
        self._fill(got, given=set(self.between))

    def part(self, group: int, symbolic: bool) -> tuple[Any, dict[str, Any]]:
        """A model of one group, and its inputs."""
        names = [name for node in self.groups[group].nodes for name in node.output if name in self.between]
        model, given = _graphs.cut(self.model, self.group_of, self._cut_types([name for name in self.between if name not in names], symbolic), names)
        # Inputs have the names of the values that they stand for.
        back = {new: value for value, new in given.items()}
        made = {name for node in model.graph.node for name in node.output}
        back = {new: value for new, value in back.items() if value not in made}
        for one in model.graph.input:
            one.name = back.get(one.name, one.name)
        for node in model.graph.node:
            _graphs.rename_reads(node, back)
        values = {**self.inputs, **self.expected, **{new: self.expected[value] for value, new in given.items()}}
        return model, {one.name: values[one.name] for one in model.graph.input}

    def accumulated(self) -> None:
        """Regions read what the regions before them computed."""
        self.report.given = False
        self._fill(self.subject.evaluate(_graphs.with_results(self.model, self.between, self.types), self.inputs), given=set())

    def _fill(self, got: Mapping[str, Any], given: set[str]) -> None:
        found = {name: self._difference(got[name], name) for name in self.between if name in got}
        values = []
        for name, difference in found.items():
            group = self.groups[self.group_of[self.node_of[name].name]]
            own = {output for node in group.nodes for output in node.output}
            inputs: dict[str, str] = {}
            for read in dict.fromkeys(source for node in group.nodes for name in _graphs.reads(node) if name not in own for source in self._sources(name, found)):
                if read in own:
                    continue
                if read in given or read in self.inputs:
                    value = self.expected.get(read, self.inputs.get(read))
                    inputs[read] = f"{_type_text(value)}, given" if _programs.is_tensor(value) else "given"
                elif read in found:
                    state = "equal within the tolerance" if not found[read].departs else "departs"
                    inputs[read] = f"{_type_text(self.expected[read])}, {state}" + ("" if found[read].index else ", all bits equal")
            expected = self.expected[name]
            values.append(Value(name, _type_text(expected), group.label, group.kind, [f"{node.name} ({node.op_type})" for node in group.nodes], inputs, difference))
        self.report.values = values

    def _sources(self, name: str, known: Mapping[str, Any]) -> list[str]:
        """The compared values and inputs that a value is, or comes from through nodes without a kernel, such as reshapes."""
        found: list[str] = []
        waiting, seen = [name], {name}
        while waiting:
            one = waiting.pop(0)
            node = self.node_of.get(one)
            if one in known or one in self.inputs or node is None or node.name in self.group_of:
                found.append(one)
                continue
            new = [read for read in _graphs.reads(node) if read not in seen]
            seen.update(new)
            waiting += new
        return found

    def isolate(self, folder: pathlib.Path) -> None:
        """Writes the region of the first departing value, with its inputs, and says what it does alone."""
        import numpy as np

        first = self.report.first
        if first is None:
            return
        group = self.group_of[self.node_of[first.name].name]
        for symbolic in (True, False):
            model, inputs = self.part(group, symbolic)
            try:
                got = self.subject.evaluate(model, inputs)
                found = self._difference(got[first.name], first.name)
                self.report.alone = ("departs as well: " if found.departs else "does not depart: ") + text_of(found)
                break
            except Failed as failure:
                self.report.alone = f"it fails: {failure}".splitlines()[0]
        folder.mkdir(parents=True, exist_ok=True)
        _graphs.save(model, folder / "region.onnx")
        expected = {one.name: self.expected[one.name] for one in model.graph.output}
        for name, arrays in (("inputs.npz", inputs), ("expected.npz", expected)):
            partial = folder / f".{name}.part"
            with open(partial, "wb") as file:
                np.savez(file, **{key: _model_inputs.storable(value) for key, value in arrays.items()})
            os.replace(partial, folder / name)
        self.report.folder = str(folder)


# -------------------------------------------------------------------------------------------------------------------------------- of two modules


# (name of the region in dumps, its binding, whether the region wrote it)
_Binding = tuple[str, int, bool]


def _dumped(module: pathlib.Path, inputs: Sequence[str], device: str, folder: pathlib.Path, run_options: Sequence[str]) -> dict[_Binding, Any]:
    """What each region read and wrote, in the order of the call."""
    import numpy as np

    given = ["--device", device] if device else []
    _programs.run_program("running", [_programs.find_heddle(), "run", str(module), *inputs, *given, "--values", "0", "--dump", "*", "--dump-to", str(folder), *run_options], None)
    found: dict[_Binding, Any] = {}
    times: dict[str, list[str]] = {}  # the dispatches of each region: more than one in a loop
    for path in sorted(folder.iterdir()):
        parts = path.name.rsplit(".", 1)[0].split("-")
        if len(parts) < 5 or parts[-1] not in ("in", "out"):
            continue
        region, dispatch = "-".join(parts[2:-2]), "-".join(parts[:2])
        of_region = times.setdefault(region, [])
        if dispatch not in of_region:
            of_region.append(dispatch)
        number = of_region.index(dispatch)
        name = region + (f", time {number + 1}" if number else "")
        found[name, int(parts[-2]), parts[-1] == "out"] = np.load(path) if path.suffix == ".npy" else np.frombuffer(path.read_bytes(), np.uint8)
    return found


def _of_modules(module: pathlib.Path, other: pathlib.Path, devices: tuple[str, str], inputs: Sequence[str], tolerance: Tolerance, run_options: Sequence[str]) -> Report:
    on = tuple(f" on {device}" if device else "" for device in devices)
    report = Report(f"{module}{on[0]}", f"{other}{on[1]}", given=False)
    with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
        sides = []
        for i, (path, device) in enumerate(((module, devices[0]), (other, devices[1]))):
            target = pathlib.Path(folder, str(i))
            target.mkdir()
            sides.append(_dumped(path, inputs, device, target, run_options))
    got, expected = sides
    shown = _programs.description(module)
    regions = {_file_name(f"{region['region']} {region.get('node', '')}"): region for region in shown["compiler_report"]["regions"]}
    states: dict[str, dict[str, str]] = {}
    for (name, binding, written), value in got.items():
        label = f"{name}, binding {binding}"
        wanted = expected.get((name, binding, written))
        if wanted is None:
            if written:
                report.skipped[label] = "only one module has this region"
            continue
        if wanted.shape != value.shape or wanted.dtype != value.dtype:
            if written:
                report.skipped[label] = f"{_type_text(value)} and {_type_text(wanted)} cannot be compared"
            continue
        found = compare_arrays(value, wanted, tolerance)
        if not written:
            state = "departs" if found.departs else "equal within the tolerance" if found.index else "all bits equal"
            states.setdefault(name, {})[f"binding {binding}"] = f"{_type_text(value)}, {state}"
            continue
        region = regions.get(name.split(", time ")[0], {})
        nodes = [f"{one['node']} ({one.get('operator', '?')})" for one in region.get("ops", []) if one.get("node") and not _regions.is_passive(one["op"])]
        report.values.append(Value(label, _type_text(value), region.get("region", name), region.get("kind", ""), list(dict.fromkeys(nodes)) or [region.get("node") or name],
                                   states.setdefault(name, {}), found))
    for name, binding, written in expected:
        if written and (name, binding, written) not in got:
            report.skipped[f"{name}, binding {binding}"] = "only one module has this region"
    if not report.values:
        raise make("INVALID_ARGUMENT", f"heddle: comparing failed: '{module}' and '{other}' have no region of the same name and type; compare the models, with --against")
    return report


def _file_name(region: str) -> str:
    """As the runtime names dumps."""
    return "".join(one if one.isalnum() or one in "._" else "_" for one in region.strip())


# ------------------------------------------------------------------------------------------------------------------------------------ the command


def compare(model: str | os.PathLike[str], *, against: str = "onnxruntime", device: str = "", inputs: Mapping[str, Any] | None = None,
            dims: Mapping[str, int] | None = None, seed: int = 0, rtol: float | None = None, atol: float | None = None, accumulate: bool = False,
            each_node: bool = False, folder: str | os.PathLike[str] | None = None, options: Sequence[str] = (), against_options: Sequence[str] = (),
            run_options: Sequence[str] = ()) -> Report:
    """Compares a model with a reference, value by value between the compiler's regions.

    model      an ONNX file
    against    "onnxruntime", "onnx" (its reference implementation), or a device, such as "cuda:0"
    device     that the model runs on; "": the first that there is
    inputs     arrays by name; those that are missing are made up, with `seed` and with `dims` of symbols
    rtol, atol a value departs if |value - expected| > atol + rtol * |expected|. None: 1e-3 for f32, 1e-2 for f16, 5e-2 for bf16, 1e-6 for f64, and a
               tenth of it of the largest expected value; integers have to be equal
    accumulate regions read what the regions before them computed, instead of what the reference did
    each_node  compares also values inside of regions, for which nodes are compiled one by one
    folder     where the region of the first departing value is written; None: nowhere
    options, against_options   of `heddle compile`, for both sides if the other one is a device too
    run_options    of `heddle run`, such as ["--config", "heddle.toml"]
    """
    loaded = _graphs.load(model)
    subject = _peers.Heddle(device, options, run_options)
    reference = _peers.peer(against, against_options, run_options)
    values, extents = _model_inputs.complete(loaded, inputs or {}, dims or {}, seed)
    work = _OfModel(loaded, subject, reference, values, extents, Tolerance(rtol, atol), each_node)
    if accumulate:
        work.accumulated()
    else:
        work.with_given_inputs()
        if work.report.first is None and work.report.departs:
            work.report.notes.append("no region departs if it reads the reference's values, and the results do: small differences add up, or the fault is "
                                     "between regions or needs what is not cut")
            work.accumulated()
    if folder is not None:
        work.isolate(pathlib.Path(folder))
    return work.report


def compare_modules(module: str | os.PathLike[str], other: str | os.PathLike[str], *, device: str = "", other_device: str = "", inputs: Sequence[str] = (),
                    rtol: float | None = None, atol: float | None = None, run_options: Sequence[str] = ()) -> Report:
    """Compares what the regions of two modules write that were compiled of the same model, or those of one module on two devices. Only regions of the
    same name and type are compared. `inputs` are values for --input of `heddle run`; the package heddle-validation is needed."""
    return _of_modules(pathlib.Path(module), pathlib.Path(other), (device, other_device), [f"--input={one}" for one in inputs], Tolerance(rtol, atol), run_options)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "heddle diff", usage="heddle diff [OPTIONS] MODEL", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compares a model with ONNX Runtime, another device or another module, region by region, and names the first that departs.",
        epilog="Exit codes: 0 equal within the tolerance, 3 something departs, 1 failure, 2 usage error, 4 device or plugin unavailable.")
    made.add_argument("model", metavar="MODEL", help="an .onnx file, or a .heddle file to compare with another one or on another device")
    made.add_argument("--against", metavar="PEER", default=None,
                      help="onnxruntime (default for .onnx), onnx (its reference implementation), a device such as cpu or cuda:0, or, for a .heddle file, another "
                           ".heddle file of the same model, or a device")
    made.add_argument("--device", metavar="ALIAS", default="", help="device of MODEL (default: the first that has code)")
    made.add_argument("--inputs", metavar="FILE", action="append", default=[], help="an .npz file with an array for each input; may be repeated. Others are made up")
    made.add_argument("--seed", metavar="N", type=int, default=0, help="for inputs that are made up: floats are normal, integers 0 or 1 (0)")
    made.add_argument("--dim", metavar="NAME=N", action="append", default=[], help="extent of a symbolic dimension; may be repeated (default: 2, 3, 5, ...)")
    made.add_argument("--rtol", metavar="NUMBER", type=float, help="allowed difference relative to the expected value (default: 1e-3 for f32, 1e-2 for f16, "
                      "5e-2 for bf16, 1e-6 for f64, 0 for integers)")
    made.add_argument("--atol", metavar="NUMBER", type=float, help="allowed absolute difference (default: rtol / 10 of the largest expected value; 0 for integers)")
    made.add_argument("--accumulate", action="store_true", help="regions read what the regions before them computed, not what the reference did")
    made.add_argument("--nodes", action="store_true", help="compare after each node, which is then compiled without its neighbors")
    made.add_argument("--output", "-o", metavar="DIRECTORY", help="where the first region that departs is written, with its inputs (default: MODEL.diff)")
    made.add_argument("--option", metavar="FLAG", action="append", default=[], help="flag for heddle compile, such as --option=--math=fast; may be repeated")
    made.add_argument("--against-option", metavar="FLAG", action="append", default=[], help="the same for a PEER that is a device; may be repeated")
    made.add_argument("--run-option", metavar="FLAG", action="append", default=[], help="flag for heddle run, such as --run-option=--config=heddle.toml; may be repeated")
    made.add_argument("--format", choices=("text", "json"), default="text", help="format of the report on stdout (text)")
    return made


def dims_of(texts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise make("INVALID_ARGUMENT", f"heddle: --dim '{text}': expected NAME=N, such as batch=4")
        found[name] = int(number)
    return found


def _run(given: argparse.Namespace) -> Report:
    if given.model.endswith(".heddle"):
        against = given.against or ""
        if not against:
            raise make("INVALID_ARGUMENT", "heddle diff: --against is missing: another .heddle file of the same model, or a device; compare the .onnx file with "
                                           "ONNX Runtime")
        inputs = [f"@{path}" for path in given.inputs]
        other, device = (against, given.device) if against.endswith(".heddle") else (given.model, against)
        return compare_modules(given.model, other, device=given.device, other_device=device, inputs=inputs, rtol=given.rtol, atol=given.atol, run_options=given.run_option)
    folder = given.output or os.path.splitext(os.path.basename(given.model))[0] + ".diff"
    return compare(given.model, against=given.against or "onnxruntime", device=given.device, inputs=_model_inputs.read(given.inputs), dims=dims_of(given.dim),
                   seed=given.seed, rtol=given.rtol, atol=given.atol, accumulate=given.accumulate, each_node=given.nodes, folder=folder, options=given.option,
                   against_options=given.against_option, run_options=given.run_option)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code."""
    given = parser().parse_args(arguments)
    try:
        report = _run(given)
    except Failed as failure:
        print(f"heddle diff: {failure}", file=sys.stderr)
        return failure.code if failure.code in (2, 4) else 1
    except Error as wrong:
        print(f"heddle diff: {wrong}".replace("heddle diff: heddle diff:", "heddle diff:"), file=sys.stderr)
        return 2 if wrong.code == "INVALID_ARGUMENT" and "--" in str(wrong) else 1
    if given.format == "json":
        print(json.dumps(report.as_dict(), indent=1))
    else:
        print(report)
        if report.folder:
            folder = shlex.quote(report.folder)
            results = " ".join(f"--expect {shlex.quote(f'@{report.folder}/expected.npz:{name}')}" for name in _graphs_results(report.folder))
            print(f"rerun    heddle compile {folder}/region.onnx -o region.heddle && heddle run region.heddle --input @{folder}/inputs.npz {results} --rtol 1e-3 --atol 1e-4")
    return 3 if report.departs else 0


def _graphs_results(folder: str) -> list[str]:
    return [str(one.name) for one in _graphs.onnx().load(os.path.join(folder, "region.onnx"), load_external_data=False).graph.output]


if __name__ == "__main__":
    sys.exit(main())
