# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle reduce`: makes a model that fails, crashes the compiler or gives wrong results as small as possible, while it still does.

    from heddle import reduce
    print(reduce.reduce("model.onnx", "small.onnx", differs_from="onnxruntime"))

The package onnx is needed (`heddle[debug]`), and onnxruntime to compare with it.
"""
from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from . import _graphs, _model_inputs, _peers, _programs, _shrink
from ._compare import Tolerance, compare as compare_arrays
from ._errors import Error, make
from ._programs import Failed
from ._shrink import State
from .diff import dims_of

_TEXT_ELEMENTS = 64  # larger weights are left out of the text


class Check(Protocol):
    """What makes a model interesting. `uses_inputs`: whether values of inputs matter."""

    uses_inputs: bool
    timeout: float | None

    def outcome(self, model: Any, inputs: Mapping[str, Any]) -> str:
        """What happens with a model: what the smaller model has to have in common with the first one. Empty: nothing is wrong."""
        ...


class Fails:
    """Compiling fails or crashes, or, if it does not, running."""

    def __init__(self, subject: _peers.Heddle, only_crash: bool = False) -> None:
        self.subject, self.only_crash = subject, only_crash
        self.uses_inputs = True
        self.timeout: float | None = None

    def outcome(self, model: Any, inputs: Mapping[str, Any]) -> str:
        self.subject.timeout = self.timeout
        try:
            if self.uses_inputs:
                self.subject.evaluate(model, inputs)
            else:
                with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
                    _graphs.save(model, pathlib.Path(folder, "model.onnx"))
                    _programs.compile_model(pathlib.Path(folder, "model.onnx"), pathlib.Path(folder, "model.heddle"), self.subject.options, self.timeout)
        except Failed as failure:
            return failure.kind if failure.signal or not self.only_crash else ""
        return ""


class Differs:
    """Results depart from those of a peer."""

    def __init__(self, subject: _peers.Heddle, reference: _peers.Peer, tolerance: Tolerance) -> None:
        self.subject, self.reference, self.tolerance = subject, reference, tolerance
        self.uses_inputs = True
        self.timeout: float | None = None

    def outcome(self, model: Any, inputs: Mapping[str, Any]) -> str:
        self.subject.timeout = self.timeout
        try:
            expected = self.reference.evaluate(model, inputs)
            got = self.subject.evaluate(model, inputs)
        except Failed:
            return ""
        kinds = set()
        for name, value in expected.items():
            if name not in got or not _programs.is_tensor(value):
                continue
            found = compare_arrays(_programs.as_expected(got[name], value), value, self.tolerance)
            if found.departs:
                kinds.add(f"results differ in {re.sub(r' is .*', '', found.what)}" if found.what else "results differ")
        return min(kinds, default="")


class Command:
    """A command, in which {} stands for the model. Its outcome is its exit code or signal and, if it fails, the class of its first error line."""

    def __init__(self, command: str, pattern: str | None = None) -> None:
        self.command = shlex.split(command)
        if not self.command:
            raise make("INVALID_ARGUMENT", "heddle reduce: --check: the command is empty; for example --check 'heddle compile {} -o /dev/null'")
        if not any("{}" in one for one in self.command):
            self.command.append("{}")
        self.pattern = pattern
        self.uses_inputs = False
        self.timeout: float | None = None

    def outcome(self, model: Any, inputs: Mapping[str, Any]) -> str:
        with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
            path = pathlib.Path(folder, "model.onnx")
            _graphs.save(model, path)
            try:
                _programs.run_program("the command", [one.replace("{}", str(path)) for one in self.command], self.timeout)
            except Failed as failure:
                if self.pattern is not None:
                    return f"{failure.signal or failure.code}, with the text" if re.search(self.pattern, failure.text) else ""
                return f"exit code {failure.code}, {failure.kind.replace(folder, '')}"
        return "exit code 0"


@dataclasses.dataclass
class Result:
    """outcome: what both models have in common; nodes: of the first and of the last model; tries: how many models were looked at; complete: whether nothing
    more could be removed, rather than that the time was over; model, text, inputs: the files that were written, inputs only if their values matter"""

    outcome: str
    nodes: tuple[int, int]
    bytes: tuple[int, int]
    tries: int
    seconds: float
    complete: bool
    model: str
    text: str
    inputs: str = ""

    def __str__(self) -> str:
        lines = [f"still: {self.outcome}",
                 f"nodes  {self.nodes[0]} -> {self.nodes[1]}, {self.bytes[0]} -> {self.bytes[1]} bytes; {self.tries} models tried in {self.seconds:.1f} s"
                 + ("" if self.complete else "; the time was over, so more may be possible"),
                 f"files  {self.model}, {self.text}" + (f", {self.inputs}" if self.inputs else "")]
        return "\n".join(lines)


def _count(model: Any) -> int:
    return sum(len(graph.node) for graph in _graphs.graphs(model.graph))


class _Over(Exception):
    """The time is over."""


class _Reducer:
    def __init__(self, state: State, check: Check, wanted: str, end: float, say: Callable[[str], None]) -> None:
        self.state, self.check, self.wanted, self.end, self.say = state, check, wanted, end, say
        self.tries = 0
        self.seen: set[bytes] = set()
        self.is_valid = self._valid(state.model)
        self._learn()

    @staticmethod
    def _valid(model: Any) -> bool:
        try:
            _graphs.onnx("checker").check_model(model)
        except Exception:  # of several classes
            return False
        return True

    def _learn(self) -> None:
        """Types and values inside of the model, as far as they can be known."""
        state = self.state
        state.types = types = _graphs.inferred(state.model)
        state.arrays = {}
        wanted = [name for node in state.model.graph.node for name in node.output if name]
        kinds = {name: state.types.get(name) for name in wanted}
        wanted = [name for name, kind in kinds.items() if kind is None or kind.WhichOneof("value") == "tensor_type"]
        peers: list[Callable[[], _peers.Peer]] = [_peers.OnnxRuntime, _peers.Reference]
        for make_peer in peers:
            try:
                inputs, _ = _model_inputs.complete(state.model, state.inputs, {}, 0)
                found = make_peer().evaluate(_graphs.with_results(state.model, wanted, state.types), inputs)
            except (Failed, Error):
                continue
            state.arrays = {name: value for name, value in found.items() if hasattr(value, "dtype")}
            break
        # Behind an operator that nobody knows, values are taken to be like its first input; if they are not, the outcome changes.
        for node in state.model.graph.node:
            known = [types[name] for name in node.input if name in types]
            for name in node.output:
                if name and name not in types and name not in state.arrays and known:
                    types[name] = known[0]

    def accepts(self, candidate: State | None) -> bool:
        """Goes on with the candidate if its outcome is the wanted one."""
        if candidate is None:
            return False
        if time.monotonic() > self.end:
            raise _Over
        key = hashlib.sha256(candidate.model.SerializeToString(deterministic=True))
        for name in sorted(candidate.inputs):
            key.update(f"{name} {candidate.inputs[name].shape}".encode())
        if key.digest() in self.seen:
            return False
        self.seen.add(key.digest())
        if self.is_valid and not self._valid(candidate.model):
            return False
        if self.check.uses_inputs:
            try:
                candidate.inputs, _ = _model_inputs.complete(candidate.model, candidate.inputs, {}, 0)
            except Error:
                return False
        self.tries += 1
        try:
            if self.check.outcome(candidate.model, candidate.inputs) != self.wanted:
                return False
        except Error:  # such as a type that no input can have
            return False
        before = _count(self.state.model)
        candidate.types, candidate.arrays = self.state.types, self.state.arrays
        self.state = candidate
        if _count(candidate.model) != before:
            self.say(f"{_count(candidate.model)} nodes, {candidate.model.ByteSize()} bytes, {self.tries} tries")
        return True

    def accepts_any(self, candidates: Callable[[State], Iterator[State]]) -> bool:
        """Applies changes of a kind until none is accepted."""
        any_at_all, again = False, True
        while again:
            again = False
            for candidate in candidates(self.state):
                if self.accepts(candidate):
                    any_at_all = again = True
                    break
        return any_at_all

    def fewer_outputs(self) -> bool:
        names = [one.name for one in self.state.model.graph.output]
        if len(names) < 2:
            return False
        for name in names:
            if self.accepts(_shrink.with_outputs(self.state, [name])):
                return True
        return self._fewer(lambda: len(self.state.model.graph.output),
                           lambda gone: _shrink.with_outputs(self.state, [one.name for i, one in enumerate(self.state.model.graph.output) if i not in gone]), 1)

    def _fewer(self, count: Callable[[], int], without: Callable[[set[int]], State | None], least: int = 0) -> bool:
        """Removes ever smaller parts, the last ones first."""
        done = False
        size = max(count() // 2, 1)
        while True:
            at = count()
            while at > 0:
                at = min(at, count())
                begin = max(at - size, 0)
                if count() - (at - begin) >= least and self.accepts(without(set(range(begin, at)))):
                    done = True
                at = begin
            if size == 1:
                return done
            size = max(size // 2, 1)

    def fewer_nodes(self) -> bool:
        done = self._fewer(lambda: len(self.state.model.graph.node), lambda gone: _shrink.without(self.state, (), gone))
        for path in list(_shrink.graph_paths(self.state.model.graph))[1:]:
            done = self._fewer_in(path) or done
        return done

    def _fewer_in(self, path: tuple[int, ...]) -> bool:
        def count() -> int:
            try:
                return len(_shrink.graph_at(self.state.model.graph, path).node)
            except IndexError:  # the body is gone
                return 0

        return count() > 0 and self._fewer(count, lambda gone: _shrink.without(self.state, path, gone))

    def weights_to_inputs(self) -> bool:
        names = _shrink.weights_as_inputs(self.state)
        if not names:
            return False
        if self.accepts(_shrink.as_inputs(self.state, names)):
            return True
        return self._fewer(lambda: len(_shrink.weights_as_inputs(self.state)),
                           lambda gone: _shrink.as_inputs(self.state, [name for i, name in enumerate(_shrink.weights_as_inputs(self.state)) if i in gone]))

    def smaller_extents(self) -> bool:
        done = False
        for symbol in _shrink.symbols_of(self.state):
            done = self.accepts(_shrink.with_symbol(self.state, symbol, None)) or done
        if self.check.uses_inputs:
            for symbol in _shrink.symbols_of(self.state):
                done = any(self.accepts(_shrink.with_symbol(self.state, symbol, extent)) for extent in (1, 2)) or done
        for old in _shrink.extents_of(self.state):
            for new in (1, 2, 3, 4, old // 4, old // 2):
                if 0 < new < old and (self.accepts(_shrink.resized(self.state, old, new, True)) or self.accepts(_shrink.resized(self.state, old, new, False))):
                    done = True
                    break
        if done:
            self._learn()
        return done

    def run(self) -> bool:
        """True: nothing more can be removed."""
        try:
            self.accepts(_shrink.stripped(self.state))
            again = True
            while again:
                again = self.fewer_outputs()
                if self.accepts_any(_shrink.inlined_bodies):
                    again = True
                    self._learn()
                again = self.fewer_nodes() or again
                if len(self.state.model.graph.node) <= 400:
                    again = self.accepts_any(_shrink.bypasses) or again
                again = self.weights_to_inputs() or again
                again = self.smaller_extents() or again
                again = self.accepts_any(_shrink.without_attributes) or again
        except _Over:
            return False
        return True


def text_of(model: Any) -> str:
    """The model in ONNX's text format; large weights are only named."""
    short = _graphs.copied(model)
    left = [one for one in short.graph.initializer if _shrink.elements(one.dims) > _TEXT_ELEMENTS]
    _graphs.replace(short.graph.initializer, [one for one in short.graph.initializer if _shrink.elements(one.dims) <= _TEXT_ELEMENTS])
    names = {value: name for name, value in _graphs.onnx().TensorProto.DataType.items()}
    head = [f"# weights that are left out: {one.name} {names[one.data_type].lower()}{list(one.dims)}" for one in left]
    return "\n".join([*head, str(_graphs.onnx("printer").to_text(short)).rstrip(), ""])


def _write(path: pathlib.Path, write: Callable[[Any], object]) -> None:
    descriptor, partial = tempfile.mkstemp(prefix="." + path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        pathlib.Path(partial).unlink(missing_ok=True)
        raise


def reduce(model: str | os.PathLike[str], output: str | os.PathLike[str], *, check: str | None = None, text: str | None = None, crash: bool = False,
           differs_from: str | None = None, device: str = "", inputs: Mapping[str, Any] | None = None, dims: Mapping[str, int] | None = None, seed: int = 0,
           rtol: float | None = None, atol: float | None = None, options: Sequence[str] = (), against_options: Sequence[str] = (),
           run_options: Sequence[str] = (), time_limit: float = 600, progress: Callable[[str], None] | None = None) -> Result:
    """Makes a model smaller while what is wrong with it stays. Without `check` and `differs_from`, that is how compiling or running it fails.

    model         an ONNX file
    output        the file to write; a text form goes beside it (.txt), and inputs (.npz) if their values matter
    check         a command, in which {} stands for the model: its exit code, or signal, and the class of its error stay
    text          with `check`: instead of the class, a regular expression that its stderr has to have
    crash         only what a signal ends, or takes too long, counts as a failure
    differs_from  "onnxruntime", "onnx" or a device: the results depart from those there, by `rtol` and `atol` as in heddle.diff
    time_limit    in seconds; then the smallest model so far is written

    Other parameters are those of heddle.diff.compare. FAILED_PRECONDITION if nothing is wrong with the model.
    """
    loaded = _graphs.load(model)
    target = pathlib.Path(output)
    if not target.parent.is_dir():
        raise make("INVALID_ARGUMENT", f"heddle reduce: --output: '{target}': there is no directory '{target.parent}'")
    if target.exists() and os.path.samefile(model, target):
        raise make("INVALID_ARGUMENT", f"heddle reduce: --output: '{target}' is the model itself; choose another file")
    subject = _peers.Heddle(device, options, run_options)
    begin = time.monotonic()
    chosen: Check
    if check is not None:
        chosen = Command(check, text)
    elif differs_from is not None:
        chosen = Differs(subject, _peers.peer(differs_from, against_options, run_options), Tolerance(rtol, atol))
    else:
        chosen = Fails(subject, crash)
    say = progress or (lambda text: None)
    values: Mapping[str, Any] = {}
    wanted = ""
    if isinstance(chosen, Fails):  # what does not compile needs no inputs
        chosen.uses_inputs = False
        wanted = chosen.outcome(loaded, values)
        chosen.uses_inputs = not wanted
    if not wanted:
        if check is None or inputs:
            values, _ = _model_inputs.complete(loaded, inputs or {}, dims or {}, seed)
        wanted = chosen.outcome(loaded, values)
    if not wanted:
        what = "its results are those of " + differs_from if differs_from is not None else "it compiles and runs" + (", or fails without a crash" if crash else "")
        raise make("FAILED_PRECONDITION", f"heddle: reducing '{os.fspath(model)}' failed: nothing is wrong with it: {what if check is None else 'the command ends without the text'}; "
                                          "change the inputs, the options or the check")
    # A model that makes the compiler run for ever is not what is looked for, unless it is.
    chosen.timeout = 10 + 4 * (time.monotonic() - begin)
    if isinstance(chosen, Fails) and chosen.outcome(loaded, values) != wanted or isinstance(chosen, Command) and chosen.outcome(loaded, values) != wanted:
        raise make("FAILED_PRECONDITION", f"heddle: reducing '{os.fspath(model)}' failed: the outcome is another one each time; it was: {wanted}")
    say(f"{_count(loaded)} nodes, {loaded.ByteSize()} bytes; it has to stay: {wanted}")
    reducer = _Reducer(State(loaded, dict(values)), chosen, wanted, begin + time_limit, say)
    complete = reducer.run()
    state = reducer.state
    result = Result(wanted, (_count(loaded), _count(state.model)), (loaded.ByteSize(), state.model.ByteSize()), reducer.tries, time.monotonic() - begin, complete,
                    str(target), str(target.with_suffix(".txt")))
    if chosen.uses_inputs:
        import numpy as np

        result.inputs = str(target.with_suffix(".npz"))
        arrays = {one.name: _model_inputs.storable(state.inputs[one.name]) for one in state.model.graph.input}
        _write(pathlib.Path(result.inputs), lambda file: np.savez(file, **arrays))
    _write(pathlib.Path(result.text), lambda file: file.write(text_of(state.model).encode()))
    _graphs.save(state.model, target)
    return result


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "heddle reduce", usage="heddle reduce [OPTIONS] MODEL -o FILE", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Makes a model that fails, crashes the compiler or gives wrong results as small as possible, while it still does.",
        epilog="Without --check and --differs-from, it has to go on failing in the same way when it is compiled, or run.\n"
               "Exit codes: 0 success, 1 failure, also if nothing is wrong with the model, 2 usage error, 4 device or plugin unavailable.")
    made.add_argument("model", metavar="MODEL", help="an .onnx file")
    made.add_argument("--output", "-o", metavar="FILE", required=True, help="the .onnx file to write; a text form (.txt) and inputs (.npz) go beside it")
    made.add_argument("--check", metavar="COMMAND", help="in which {} stands for the model; its exit code or signal, and its first error line without names and "
                      "numbers, stay the same")
    made.add_argument("--text", metavar="REGEX", help="with --check: what its stderr has to contain, instead")
    made.add_argument("--crash", action="store_true", help="only being ended by a signal, or taking too long, is a failure")
    made.add_argument("--differs-from", metavar="PEER", help="the results go on departing from those of onnxruntime, onnx (its reference implementation) or a device")
    made.add_argument("--device", metavar="ALIAS", default="", help="device of the model (default: the first that has code)")
    made.add_argument("--inputs", metavar="FILE", action="append", default=[], help="an .npz file with an array for each input; may be repeated. Others are made up")
    made.add_argument("--seed", metavar="N", type=int, default=0, help="for inputs that are made up: floats are normal, integers 0 or 1 (0)")
    made.add_argument("--dim", metavar="NAME=N", action="append", default=[], help="extent of a symbolic dimension; may be repeated (default: 2, 3, 5, ...)")
    made.add_argument("--rtol", metavar="NUMBER", type=float, help="as of heddle diff")
    made.add_argument("--atol", metavar="NUMBER", type=float, help="as of heddle diff")
    made.add_argument("--option", metavar="FLAG", action="append", default=[], help="flag for heddle compile, such as --option=--math=fast; may be repeated")
    made.add_argument("--against-option", metavar="FLAG", action="append", default=[], help="the same for a PEER that is a device; may be repeated")
    made.add_argument("--run-option", metavar="FLAG", action="append", default=[], help="flag for heddle run, such as --run-option=--config=heddle.toml; may be repeated")
    made.add_argument("--time", metavar="SECONDS", type=float, default=600, help="write the smallest model so far after this time (600)")
    made.add_argument("--quiet", action="store_true", help="show no progress on stderr")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns its exit code."""
    made = parser()
    given = made.parse_args(arguments)
    if given.check is not None and (given.differs_from is not None or given.crash):
        made.error("--check is given with --differs-from or --crash; choose one")
    if given.crash and given.differs_from is not None:
        made.error("--crash is given with --differs-from; choose one")
    if given.text is not None and given.check is None:
        made.error("--text is for --check, which is missing")

    def say(text: str) -> None:
        if not given.quiet:
            print(f"heddle reduce: {text}", file=sys.stderr, flush=True)

    try:
        print(reduce(given.model, given.output, check=given.check, text=given.text, crash=given.crash, differs_from=given.differs_from, device=given.device,
                     inputs=_model_inputs.read(given.inputs), dims=dims_of(given.dim), seed=given.seed, rtol=given.rtol, atol=given.atol, options=given.option,
                     against_options=given.against_option, run_options=given.run_option, time_limit=given.time, progress=say))
    except Failed as failure:
        print(f"heddle reduce: {failure}", file=sys.stderr)
        return 1
    except Error as wrong:
        print(str(wrong), file=sys.stderr)
        return 2 if wrong.code == "INVALID_ARGUMENT" and "--" in str(wrong) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
