# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Watches Dynamo while a report is open: functions of PyTorch are replaced by ones that call them and note what they did.

What is replaced is put back by `remove`, so that nothing is left in PyTorch afterwards. A function that this version of PyTorch does not have is
named in the report's notes, with what is missing in the report.
"""
from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

from . import _breaks_hints, _breaks_inductor, _breaks_messages, _breaks_openxla, _breaks_places
from ._breaks_calls import Crossing, Key, Piece, State
from ._breaks_reads import BACKWARD
from ._breaks_records import Break, Graph, Place, Recompilation
from ._pytorch import pytorch

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<name>.*)_at_(?P<line>\d+)$")
# Backends of PyTorch that do not compile with Inductor, which therefore is not imported for them.
_WITHOUT_INDUCTOR = {"eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "pre_dispatch_eager", "heddle",
                     "openxla", "openxla_eval", "tvm", "cudagraphs"}
_OUTCOMES = ["split", "rest skipped", "skipped", "error"]  # by how much is lost
_PHASES = {"dynamo": "dynamo_cumulative_compile_time_us", "backend": "aot_autograd_cumulative_compile_time_us",
           "inductor": "inductor_cumulative_compile_time_us", "code": "inductor_code_gen_cumulative_compile_time_us",
           "backward": "backward_cumulative_compile_time_us"}


class Patches:
    """Attributes that were replaced, to be put back."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, around: Callable[[Any], Any]) -> None:
        """Puts `around(what is there)` in the place of an attribute. Raises AttributeError if there is none."""
        there = vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name, None)
        if there is None:
            raise AttributeError(f"{getattr(owner, '__name__', owner)} has no {name}")
        setattr(owner, name, around(there))
        self._saved.append((owner, name, there))

    def remove(self) -> None:
        while self._saved:
            owner, name, there = self._saved.pop()
            setattr(owner, name, there)


def backend_name(compiler: Any) -> str:
    """The name of a backend as `torch.compile` was given it."""
    seen = 0
    while seen < 8:
        for attribute in ("_compiler_name", "compiler_name"):
            name = getattr(compiler, attribute, None)
            if isinstance(name, str):
                return name
        inner = getattr(compiler, "_torchdynamo_orig_backend", None)
        owner = getattr(compiler, "__self__", None)
        if type(owner).__name__ == "DDPOptimizer":
            inner = getattr(owner, "backend_compile_fn", None)
        if inner is None:
            break
        compiler, seen = inner, seen + 1
    return str(getattr(compiler, "__name__", None) or type(compiler).__name__)


def _hooks_of_ddp() -> list[str]:
    """Names what DistributedDataParallel runs after a backward pass, if it is what calls the function that is compiled now."""
    ddp = getattr(getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None), "_active_ddp_module", None)
    if ddp is None:
        return []
    hooks = [getattr(hook, "__qualname__", type(hook).__name__) for hook, _ in getattr(ddp, "_comm_hooks", [])]
    return ["DistributedDataParallel's hooks run in PyTorch: after a backward pass, they add up gradients among processes" +
            (f", by the communication hook {', '.join(hooks)}" if hooks else "")]


def _calls(graph: Any) -> int:
    return sum(1 for node in graph.nodes if node.op in ("call_function", "call_method", "call_module"))


def key_of(file: str, function: str, line: int) -> Key:
    """Of a break in a function, which may itself be what goes on after an earlier break."""
    resumed = _RESUMED.match(function)
    while resumed is not None:
        function = resumed["name"]
        resumed = _RESUMED.match(function)
    return file, function, line


class Observer:
    """Notes what Dynamo and its backends do, from `install` to `remove`. The lists grow only while a lock of Dynamo is held, which compiles one
    function at a time."""

    def __init__(self, caches: bool) -> None:
        self.caches = caches
        self.state = State()
        self.host = self.state.host
        self.notes: list[str] = []
        self.frames = self.skipped_frames = 0
        self.breaks: list[Break] = []
        self.crossings: list[Crossing] = []
        self.break_keys: list[list[Key]] = []  # a line can be reached in several functions
        self.graphs: list[Graph] = []
        self.pieces: list[Piece] = []
        self.backwards: dict[int, Piece] = {}  # by number of the graph
        self.recompilations: list[Recompilation] = []
        self.phases: dict[str, float] = {}
        self.building: Graph | None = None
        self._patches = Patches()
        self._inductor: _breaks_inductor.Watch | None = None
        self._openxla = False  # whether openxla is watched
        self._known: dict[tuple[Any, ...], int] = {}
        self._of_compile: dict[str, int] = {}  # the break that was seen last, by compilation
        self._seen: list[Any] = []  # exceptions of breaks that were noted, while their compilation goes on
        self._unfiled: dict[str, dict[str, float]] = {}

    # ------------------------------------------------------------------------------------------------------------------- putting in and taking out

    def install(self) -> None:
        try:
            for module, owner, name, around, what in (
                    ("symbolic_convert", "InstructionTranslatorBase", "log_graph_break", self._around_break, "breaks that end no graph and are no errors"),
                    ("convert_frame", "ConvertFrameAssert", "__call__", self._around_frame, "frames that are skipped"),
                    ("output_graph", "OutputGraph", "call_user_compiler", self._around_backend, "graphs"),
                    ("convert_frame", "", "get_and_maybe_log_recompilation_reasons", self._around_recompilation, "recompilations"),
                    ("metrics_context", "MetricsContext", "__exit__", self._around_metrics, "times of compiling")):
                try:
                    holder = pytorch("_dynamo." + module)
                    self._patches.replace(getattr(holder, owner) if owner else holder, name, around)
                except (ImportError, AttributeError) as missing:
                    self.notes.append(f"{what} are not observed: this PyTorch is unlike 2.13 ({missing})")
            why_not = self.host.install()
            if why_not:
                self.notes.append(why_not)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        for piece in (*self.pieces, *self.backwards.values()):
            piece.close()
        self._patches.remove()
        self.host.remove()
        if self._inductor is not None:
            self._inductor.remove()

    # ----------------------------------------------------------------------------------------------------------------------------------- breaks

    def _around_break(self, inner: Any) -> Any:
        @functools.wraps(inner)
        def log_graph_break(translator: Any, *args: Any, **kwargs: Any) -> Any:
            wrong = kwargs.get("exc") or next((one for one in args if isinstance(one, BaseException)), None) or sys.exc_info()[1]
            if wrong is None or not getattr(wrong, "logged", False):
                self._note(self._break_of_translator, translator, wrong, str(kwargs.get("reason") or next((one for one in args if isinstance(one, str)), "")))
            return inner(translator, *args, **kwargs)

        return log_graph_break

    def _note(self, function: Callable[..., Any], *args: Any) -> Any:
        """A fault of this file must not end a compilation: it becomes a note."""
        try:
            return function(*args)
        except Exception as wrong:
            note = f"something was not observed: {type(wrong).__name__}: {wrong}"
            if note not in self.notes:
                self.notes.append(note)
            return None

    def _break_of_translator(self, translator: Any, wrong: BaseException | None, reason: str) -> None:
        root = translator.output.root_tx
        stack = list(getattr(wrong, "real_stack", None) or [])
        places = _breaks_places.places_of(stack)
        if not places:
            places = [_breaks_places.place_of(translator.f_code.co_filename, translator.lineno, translator.f_code.co_name)]
        outcome = "split"
        if "Skipping the function and falling back to eager" in reason:
            outcome = "skipped"
        elif "then skipping the rest of the function" in reason:
            outcome = "rest skipped"
        if getattr(wrong, "skip_frame", False):
            outcome = "skipped"
        text = getattr(wrong, "msg", None) or str(wrong or reason)
        key = key_of(root.f_code.co_filename, root.f_code.co_name, root.lineno)
        made = self._add_break(text, wrong, places, outcome, key, str(translator.output.dynamo_compile_id))
        if outcome == "skipped":
            made.cost.ops_before = max(made.cost.ops_before, _calls(translator.output.graph))
        self._seen.append(wrong)

    def _add_break(self, text: str, wrong: BaseException | None, places: list[Place], outcome: str, key: Key, compile_id: str) -> Break:
        message, wrapped = _breaks_messages.read(text)
        if not message.code and wrong is not None and not hasattr(wrong, "gb_type"):
            message.kind = type(wrong).__name__
        places = [Place(one.file, one.line, key_of(one.file, one.function, one.line)[1], one.text) for one in places]
        place = _breaks_places.innermost(places)
        known = (place.file, place.line, message.kind)
        number = self._known.get(known)
        if number is None:
            number = self._known[known] = len(self.breaks)
            self.breaks.append(Break(number, message.code, message.kind, message.reason, message.context, message.hints,
                                     _breaks_hints.for_break(message.code, message.kind, message.reason, message.context, places[-1].file), message.link, place, places, outcome, wrapped))
            self.crossings.append(Crossing())
            self.break_keys.append([key])
        else:
            one = self.breaks[number]
            if self._of_compile.get(compile_id) != number or not compile_id:  # else, Dynamo tried the same function again
                one.count += 1
            if _OUTCOMES.index(outcome) > _OUTCOMES.index(one.outcome):
                one.outcome, one.wrapped_in = outcome, wrapped
            if key not in self.break_keys[number]:
                self.break_keys[number].append(key)
        self._of_compile[compile_id] = number
        return self.breaks[number]

    def _around_frame(self, inner: Any) -> Any:
        @functools.wraps(inner)
        def convert(assertion: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
            self.frames += 1
            self.state.note_compiling()
            thread = self.state.local.thread
            thread.compiling += 1
            result = None
            try:
                result = inner(assertion, frame, *args, **kwargs)
            except Exception as wrong:
                self._note(self._frame_failed, assertion, frame.f_code, wrong)
                raise
            finally:
                thread.compiling -= 1
                self.state.note_compiling()
                self._seen.clear()
                if getattr(result, "guarded_code", None) is None:
                    self.skipped_frames += 1
            return result

        return convert

    def _frame_failed(self, assertion: Any, code: Any, wrong: Exception) -> None:
        exc = pytorch("_dynamo.exc")
        fullgraph = bool(getattr(assertion, "_one_graph", False))
        if any(one is wrong for one in self._seen) or (not fullgraph and _breaks_places.is_pytorchs_own(code, sys._getframe(1))):
            return
        if not isinstance(wrong, (exc.Unsupported, exc.UserError)):
            if not isinstance(wrong, exc.TorchDynamoException) or isinstance(wrong, exc.SkipFrame):
                return
            fullgraph = True  # the program gets the error
        places = _breaks_places.places_of(getattr(wrong, "real_stack", None) or []) or [
            _breaks_places.place_of(code.co_filename, code.co_firstlineno, code.co_name)]
        self._add_break(getattr(wrong, "msg", None) or str(wrong), wrong, places, "error" if fullgraph else "skipped",
                        key_of(code.co_filename, code.co_name, places[0].line), str(getattr(wrong, "compile_id", "")))

    # ----------------------------------------------------------------------------------------------------------------------------------- graphs

    def _around_backend(self, inner: Any) -> Any:
        @functools.wraps(inner)
        def call_user_compiler(output: Any, gm: Any, example_inputs: Any) -> Any:
            graph = self._note(self._graph_of, output, gm)
            if graph is None:
                return inner(output, gm, example_inputs)
            outer, self.building = self.building, graph
            try:
                if self._inductor is None and graph.backend not in _WITHOUT_INDUCTOR:
                    self._inductor = _breaks_inductor.Watch(self._patches, self.notes, self.caches, lambda: self.building)
                if graph.backend.startswith("openxla") and not self._openxla:
                    self._openxla = True
                    _breaks_openxla.watch(self._patches, self.notes, self._running)
                kernels = self._inductor.kernels() if self._inductor is not None else 0
                compiled = inner(output, gm, example_inputs)
                if self._inductor is not None and graph.backend == "inductor":
                    graph.kernels = self._inductor.kernels() - kernels
            finally:
                self.building = outer
            return self._note(self._observed, graph, output, compiled) or compiled

        return call_user_compiler

    def adopt(self, backend: str, place: Place) -> Graph:
        """A graph that was compiled before, whose backward pass is compiled now."""
        graph = Graph(len(self.graphs), backend, place, notes=["it was compiled before the report was opened: only what becomes of its backward pass is known"])
        self.graphs.append(graph)
        self.pieces.append(Piece(self.state, graph.id, None, None, True))
        return graph

    def backward_of(self, graph: Graph) -> Piece:
        """For the calls of a graph's backward pass."""
        if graph.id in self.backwards:  # it is compiled again
            self.backwards[graph.id].close()
        made = self.backwards[graph.id] = Piece(self.state, BACKWARD + graph.id, None, None, True)
        return made

    def piece_of(self, number: int) -> Piece:
        return self.backwards[number - BACKWARD] if number >= BACKWARD else self.pieces[number]

    def _running(self) -> Graph | None:
        number = self.state.local.thread.graph
        return None if number is None else self.graphs[number - BACKWARD if number >= BACKWARD else number]

    def _graph_of(self, output: Any, gm: Any) -> Graph:
        root = output.root_tx
        compile_id = str(output.dynamo_compile_id)
        graph = Graph(len(self.graphs), backend_name(output.compiler_fn), compile_id=compile_id, ops=_calls(gm.graph))
        code = root.f_code
        file, function, line = key_of(code.co_filename, code.co_name, code.co_firstlineno)
        resumed = _RESUMED.match(code.co_name)
        graph.place = _breaks_places.place_of(file, int(resumed["line"]) if resumed is not None else line, function)
        if resumed is not None:
            after = (file, function, int(resumed["line"]))
            graph.starts_after = next((i for i in reversed(range(len(self.breaks))) if after in self.break_keys[i]), None)
        graph.notes += _hooks_of_ddp()
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and getattr(reason, "graph_break", False):
            graph.ends_in = self._of_compile.get(compile_id)
            if graph.ends_in is None:
                places = _breaks_places.places_of(reason.user_stack)
                key = key_of(file, code.co_name, root.lineno)
                graph.ends_in = self._add_break(str(reason.reason), None, places or [graph.place], "split", key, compile_id).id
            self.breaks[graph.ends_in].before.append(graph.id)
        if graph.starts_after is not None:
            self.breaks[graph.starts_after].after.append(graph.id)
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                graph.inputs += 1
                graph.dynamic = graph.dynamic or any(not isinstance(extent, int) for extent in getattr(node.meta.get("example_value"), "shape", ()))
            elif node.op == "output":
                graph.outputs = len(node.args[0]) if isinstance(node.args[0], (tuple, list)) else 1
        self.graphs.append(graph)
        ends = (key_of(code.co_filename, code.co_name, root.lineno), self.crossings[graph.ends_in]) if graph.ends_in is not None else None
        starts = (key_of(file, function, int(resumed["line"])), self.crossings[graph.starts_after]) if resumed is not None and graph.starts_after is not None else None
        is_entry = graph.starts_after is None or not self.breaks[graph.starts_after].before
        self.pieces.append(Piece(self.state, graph.id, starts, ends, is_entry))
        return graph

    def _observed(self, graph: Graph, output: Any, compiled: Any) -> Any:
        lazy_class = pytorch("fx._lazy_graph_module")._LazyGraphModule
        if getattr(output, "package", None) is not None:
            graph.notes.append("its calls are not counted: it is compiled for a package")
            return compiled
        # Dynamo wraps what it is given in `disable`, which takes off such a wrapper of the backend. Hidden behind `call`, it would run in every call, too.
        compiled = pytorch("_dynamo.eval_frame").innermost_fn(compiled)
        lazy = compiled if isinstance(compiled, lazy_class) else getattr(compiled, "__self__", None)
        if isinstance(lazy, lazy_class):  # Dynamo would see that itself, if it got `compiled`
            lazy_class.force_recompile(lazy)
            compiled = compiled if compiled is lazy else lazy.forward
        return self.pieces[graph.id].observe(compiled)

    # ------------------------------------------------------------------------------------------------------------- recompilations, times of compiling

    def _around_recompilation(self, inner: Any) -> Any:
        @functools.wraps(inner)
        def reasons_of(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
            reasons = inner(cache_entries, frame, *args, **kwargs)
            self._note(self._recompiled, frame.f_code, reasons)
            return reasons

        return reasons_of

    def _recompiled(self, code: Any, reasons: Any) -> None:
        file, function, line = key_of(code.co_filename, code.co_name, code.co_firstlineno)
        guards = list(dict.fromkeys(_breaks_messages.guard(str(reason)) for reason in reasons))
        compile_id = str(pytorch("_guards").CompileContext.current_compile_id() or "")
        instead = _breaks_hints.for_guard(guards[0]) if guards else ""
        self.recompilations.append(Recompilation(_breaks_places.place_of(file, line, function), compile_id, guards, instead))

    def _around_metrics(self, inner: Any) -> Any:
        @functools.wraps(inner)
        def leave(context: Any, *args: Any) -> Any:
            if context._level == 1:
                self._note(self._measured, context._metrics)
            return inner(context, *args)

        return leave

    def _measured(self, metrics: dict[str, Any]) -> None:
        spent = {name: float(metrics.get(column) or 0) / 1e6 for name, column in _PHASES.items()}
        compile_id = str(metrics.get("compile_id") or pytorch("_guards").CompileContext.current_compile_id() or "")
        graphs = [graph for graph in self.graphs if graph.compile_id == compile_id]
        inductor = spent["inductor"] > 0
        phases = {"trace": max(0.0, spent["dynamo"] - spent["backend"]),
                  "autograd" if inductor else "backend": max(0.0, spent["backend"] - spent["inductor"]),
                  "backend" if inductor else "": max(0.0, spent["inductor"] - spent["code"]),
                  "code generation": spent["code"],
                  "backward": spent["backward"]}
        for name, seconds in phases.items():
            if name and seconds > 0:
                self.phases[name] = self.phases.get(name, 0.0) + seconds
                if graphs:
                    graphs[-1].phases[name] = graphs[-1].phases.get(name, 0.0) + seconds
        skipped = metrics.get("cudagraph_skip_reason")
        if skipped and graphs:
            graphs[-1].notes.append("no CUDA graph: " + " ".join(str(skipped).split()))
