# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend: AOTAutograd makes graphs of ATen operators of what Dynamo traced, and each becomes a function that calls modules of Heddle."""
from __future__ import annotations

import contextlib
import os
import re
import time
import zlib
from typing import Any, Callable, Sequence

import sympy
import torch
from torch._dynamo.backends.common import aot_autograd

from .. import CompileError
from . import _fused, _precision, _products, _random, _skipped, _text, _traces, _tracing
from ._breaks_hints import for_fallback
from ._calls import Interface, Module, dense
from ._decompositions import DECOMPOSITIONS, as_operators
from ._graph_cache import GraphCache, graph_cache, tell
from ._numbers import Number, as_number
from ._partition import partition
from ._plan import Piece, Plan, Symbols, donations, make_plan
from ._records import Graph
from ._steps import Operator, Slot, Steps
from .report import Executable, GraphNote, current_graph, observed_backward, of_backward, place_of_node
from .report import Fallback as Missing

_LISTED = re.compile(r"'((?:aten|prims)\.[\w.]+)' at '([^']+)': ((?:[^;]|; (?!'(?:aten|prims)\.|and \d+ more))*)")
_MOST_ATTEMPTS = 32


def _refusals(error: CompileError) -> dict[str, str]:
    """The nodes that the compiler does not take, from its message."""
    return {node: reason.strip() for _, node, reason in _LISTED.findall(str(error))}


class _Refused(Exception):
    """The compiler does not take these nodes."""

    def __init__(self, error: CompileError, nodes: dict[str, str]) -> None:
        super().__init__()
        self.error, self.nodes = error, nodes


_Step = tuple[Module | None, list[torch.fx.Node], list[torch.fx.Node], list[torch.fx.Node]]  # None: PyTorch runs its one node; inputs, outputs


class Slots:
    """Places for values in a list: those of an FX graph, and others that belong to no node."""

    def __init__(self) -> None:
        self.of: dict[torch.fx.Node, int] = {}
        self.count = 0

    def add(self, node: torch.fx.Node | None = None) -> int:
        if node is None or node not in self.of:
            if node is not None:
                self.of[node] = self.count
            self.count += 1
            return self.count - 1
        return self.of[node]


class _Compiled:
    """A graph as a function of its arguments, in the order of its placeholders. They come in one list, which it empties."""

    def __init__(self, module: torch.fx.GraphModule, kind: str, of: int | None = None) -> None:
        """`of` is the graph's number in a report, if one was open when Dynamo handed it over."""
        begin = time.monotonic()
        self._module = module
        graph = module.graph
        self._placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self._output = next(node for node in graph.nodes if node.op == "output")
        self._symbols = Symbols(self._placeholders)
        self.record = Graph(kind, sum(node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) for node in graph.nodes))
        self._constants: dict[torch.fx.Node, Any] = {}  # tensors that Dynamo found in the program
        for node in graph.nodes:
            if node.op == "get_attr":
                value = module
                for part in node.target.split("."):
                    value = getattr(value, part)
                node.meta.setdefault("val", value)
                self._constants[node] = value
        self._device = self._device_of()
        self._visible = len(self._output.args[0]) if kind == "inference" else _visible_results() if kind == "forward" else 0
        self._given_up = _given_up(self._placeholders) if kind == "backward" else set()
        refused: dict[str, str] = {}
        for attempt in range(_MOST_ATTEMPTS):
            plan = make_plan(graph, self._device, refused, self._symbols, self._visible)
            try:
                made = self._made(plan)
                break
            except _Refused as refusal:
                if attempt == _MOST_ATTEMPTS - 1 or not refusal.nodes.keys() - refused.keys():
                    raise refusal.error from None
                refused.update(refusal.nodes)
        self.record.fallbacks = plan.fallbacks
        # An operator of PyTorch may depend on how its arguments lie: random numbers are drawn in the order of memory, and linalg.det factors the transposed
        # matrix if it is contiguous. A view with strides of its own reads memory, of which other values may be views.
        in_torch = [step for step in plan.steps if isinstance(step, torch.fx.Node)]
        self._keeps_strides = any("as_strided" in str(node.target) for node in in_torch)
        self._strided = {one for node in in_torch if node.target is not torch.ops.aten.copy_.default for one in node.all_input_nodes
                         if isinstance(one.meta.get("val"), torch.Tensor) and not _is_dense(one.meta["val"])}
        self.steps = self._placed(made)
        if kind == "forward":
            self._report_strides(made)
        traces = {node.name: node.stack_trace or "" for node in graph.nodes}
        self.of = of_backward(of, "heddle", filter(None, traces.values())) if kind == "backward" else of
        self.note = GraphNote(
            [Executable(os.path.basename(path), len(step[1])) for path, step in zip(self.record.modules, (one for one in made if one[0] is not None))],
            [Missing(one.operator, one.reason, place_of_node(traces.get(one.node, "")), 1, for_fallback(one.operator, one.reason)) for one in plan.fallbacks],
            backward=kind == "backward", ops=self.record.nodes)
        self.record.seconds = time.monotonic() - begin
        tell(self.record, self.note, self.steps, self.of)

    def _device_of(self) -> torch.device:
        """That of all tensors; the GPU where some are on a single one and others in the host's memory; otherwise the CPU."""
        cpu = torch.device("cpu")
        devices = {value.device for node in self._module.graph.nodes for value in _tensors_in(node.meta.get("val")) if value.ndim > 0}
        if any(one.type == "cuda" for one in devices):
            devices.discard(cpu)
        device = next(iter(devices)) if len(devices) == 1 else cpu
        return torch.device("cuda", device.index or 0) if device.type == "cuda" else device

    def _made(self, plan: Plan) -> list[_Step]:
        self.record.modules = []
        self.record.compiled = 0
        self._slots = Slots()
        self._ordered: set[torch.fx.Node] = set()  # results of modules that lie in the order of dimensions that eager mode gives them
        for node in [*self._placeholders, *self._constants]:
            self._slots.add(node)
        steps: list[_Step] = []
        donated = donations(plan, self._given_up, self._output)
        for i, step in enumerate(plan.steps):
            if isinstance(step, torch.fx.Node):
                self._slots.add(step)
                steps.append((None, [step], step.all_input_nodes, [step]))
            else:
                steps.append((self._made_piece(step, donated.get(i, set())), step.nodes, step.inputs, step.outputs))
        return steps

    def _made_piece(self, piece: Piece, donated: set[torch.fx.Node]) -> Module:
        begin = time.monotonic()
        target = _text.TARGETS[self._device.type]
        writer = _text.Writer(piece.inputs, torch.__version__, piece.nodes)
        for node in piece.nodes:
            _products.add(writer, node)
        updates = {piece.outputs.index(source): piece.inputs.index(argument) for source, argument in piece.updates.items()}
        for source, argument in piece.updates.items():
            if (order := writer.orders[piece.inputs.index(argument)]) is not None:
                writer.in_order(source, order)
        orders: list[list[int] | None] = [None] * len(piece.outputs)
        visible = [one for one in self._output.args[0][:self._visible] if _text.is_tensor(one)]
        seen = {*visible, *map(_text.memory_of, visible)}
        for i, node in enumerate(piece.outputs):
            if i not in updates and node in seen and (order := _text.memory_order(node.meta["val"])) is not None:
                writer.in_order(node, order)
                orders[i] = order
                self._ordered.add(node)
        text = writer.text(piece.outputs)
        if folder := os.environ.get("HEDDLE_TORCH_TEXTS"):
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{self.record.kind}-{id(self):x}-{len(self.record.modules)}.mlir"), "w", encoding="utf-8") as file:
                file.write(text)
        results: list[torch.Tensor] = [node.meta["val"] for node in piece.outputs]
        module = Module(Interface(
            zlib.compress(text.encode(), 1), target, self._device, [self._slots.add(node) for node in piece.inputs],
            [None if order is None else tuple(order) for order in writer.orders],
            [getattr(node.meta["val"], "dtype", None) for node in piece.inputs], [self._slots.add(node) for node in piece.outputs],
            [tuple(as_number(one.shape[d]) for d in order or range(one.ndim)) for one, order in zip(results, orders)], [one.dtype for one in results],
            [one.device for one in results], updates, writer.symbols, self._slots.add() if writer.symbols else -1,
            [None if order is None else tuple(order) for order in orders],
            [i for i, node in enumerate(piece.inputs) if node in donated and node.meta["val"].device == self._device],
            _precision.math_of(piece.nodes, self._device), self.record.kind != "inference"))
        self._spend({"texts": time.monotonic() - begin})
        try:
            path, is_new = module.open()
        except CompileError as error:
            names = {node.name for node in piece.nodes}
            found = {name: reason for name, reason in _refusals(error).items() if name in names}
            # It says nothing about single nodes: then all of them run in PyTorch.
            raise _Refused(error, found or {name: f"the compiler failed: {str(error).strip()[-300:]}" for name in names}) from error
        finally:
            self._spend(module.phases)
        self.record.modules.append(path)
        self.record.compiled += is_new
        return module

    def _spend(self, phases: dict[str, float]) -> None:
        for name, seconds in phases.items():
            self.record.phases[name] = self.record.phases.get(name, 0.0) + seconds

    def _dropped(self, made: list[_Step]) -> list[list[int]]:
        """For each step, the slots that no later one needs. After the last step, all are dropped at once."""
        later = set(self._output.all_input_nodes)
        dropped: list[list[int]] = []
        for _, _, inputs, outputs in reversed(made):
            used = dict.fromkeys([*inputs, *outputs])
            dropped.append([self._slots.of[node] for node in used if node not in later and node in self._slots.of])
            later.update(used)
        return [*dropped[:0:-1], []] if dropped else []

    def _report_strides(self, made: list[_Step]) -> None:
        """Tells AOTAutograd how the results lie, since the backward graph reads some of them: in row-major order, if a module computed them."""
        context = torch._guards.TracingContext.try_get()
        if context is None or context.output_strides is None:
            return
        if any(node.target is torch.ops.higher_order.with_effects for node in self._module.graph.nodes):
            return  # tokens of effects are results, which AOTAutograd does not count when it looks up what is kept
        dense_ones = set() if self._keeps_strides else {node for module, _, _, outputs in made if module is not None for node in outputs}
        dense_ones -= self._strided | self._ordered | {node for module, nodes, _, _ in made if module is None for node in nodes}
        for one in self._output.args[0]:
            shape = one.meta["val"].shape if isinstance(one, torch.fx.Node) and one in dense_ones else None
            context.output_strides.append(dense(shape) if shape is not None and all(isinstance(extent, int) for extent in shape) else None)

    def _placed(self, made: list[_Step]) -> Steps:
        """The steps with the slots of their values in place of nodes."""
        slots = self._slots.of

        def placed(one: Any) -> Any:
            if not isinstance(one, torch.fx.Node):
                return one
            return Slot(slots[one]) if one in slots else as_number(one.meta["val"])

        steps: list[Operator | Module] = []
        strides: dict[int, list[int | Number]] = {}
        for module, nodes, _, outputs in made:
            if module is None:
                node = nodes[0]
                function = _random.FUNCTIONS.get(node.target, node.target)
                steps.append(Operator(function, torch.fx.map_arg(node.args, placed), torch.fx.map_arg(node.kwargs, placed), slots[node]))
                continue
            steps.append(module)
            strides.update({slots[node]: list(map(as_number, node.meta["val"].stride())) for node in outputs if self._keeps_strides or node in self._strided})
        known = {node for _, _, _, outputs in made for node in outputs}.union(self._placeholders, self._constants)
        numbers = [(slot, as_number(node.meta["val"])) for node, slot in slots.items() if node not in known]
        return Steps(self._symbols.sources, len(self._placeholders), steps, self._dropped(made), list(self._constants.values()), self._slots.count, numbers,
                     [placed(one) for one in self._output.args[0]], strides)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        return self.steps(arguments)


def _given_up(placeholders: Sequence[torch.fx.Node]) -> set[torch.fx.Node]:
    """The arguments of a backward graph that the forward graph has computed for it alone.

    PyTorch refuses retain_graph=True for a graph of which it knows such arguments, since other backends overwrite them in any case. Modules do so only if
    nothing else refers to the memory in that call (_calls.py), so PyTorch is told that there are none.
    """
    metadata: Any = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    found = getattr(metadata, "bw_donated_idxs", None)
    if not found:
        return set()
    metadata.bw_donated_idxs = []
    return {placeholders[i] for i in found if i < len(placeholders)}


def _visible_results() -> int:
    """How many of the first results of a forward graph are the program's; the others are kept for the backward pass."""
    context = torch._guards.TracingContext.try_get()
    return getattr(getattr(context, "fw_metadata", None), "num_forward_returns", 0)


def _is_dense(value: torch.Tensor) -> bool:
    """Whether it is known to be contiguous in row-major order."""
    if value.layout != torch.strided:
        return True
    expected = sympy.Integer(1)
    for extent, stride in zip(reversed(value.shape), reversed(value.stride())):
        size, step = (one.node.expr if isinstance(one, torch.SymInt) else sympy.Integer(one) for one in (extent, stride))
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _tensors_in(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _take_strides(graph: torch.fx.Graph, example_inputs: Sequence[Any]) -> None:
    """How the inputs lie that the forward graph has computed (_report_strides); the graph was traced with the strides that PyTorch would have given them."""
    if any("as_strided" in str(node.target) for node in graph.nodes):  # it reads memory by these
        return
    for node, example in zip((node for node in graph.nodes if node.op == "placeholder"), example_inputs):
        if isinstance(example, torch.Tensor) and isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].shape == example.shape:
            node.meta["val"] = example


def _compiler(kind: str, cache: GraphCache | None, of: int | None) -> Callable[..., Any]:
    def compiled(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> _Compiled:
        if kind == "backward":
            _take_strides(module.graph, example_inputs)
        return _Compiled(module, kind, of)

    def compile_graph(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        found = compiled(module, example_inputs)

        def call(arguments: list[Any]) -> list[Any]:
            return found(arguments)

        made = observed_backward(call, found.of) if kind == "backward" else call
        setattr(made, "_boxed_call", True)  # for AOTAutograd: the arguments come in one list
        return made

    return compile_graph if cache is None else cache.compiler(compiled)


def install() -> None:
    """Dynamo calls back, also after torch._dynamo.reset()."""
    from torch._dynamo.callback import callback_handler

    _fused.install()
    _skipped.install()
    _tracing.install()
    _traces.install()
    clear = callback_handler.clear
    if hasattr(clear, "_heddle"):
        return

    def cleared() -> None:
        try:
            clear()
        finally:
            install()

    setattr(cleared, "_heddle", True)
    setattr(callback_handler, "clear", cleared)


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
    """For torch.compile(..., backend="heddle"). It takes no options."""
    if options:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise TypeError(f"heddle.torch: backend 'heddle' takes no options, got {given}; leave out mode= and options= of torch.compile, "
                        "which are settings of Inductor")
    install()
    cache, of = graph_cache(module), current_graph()  # the backward pass may be compiled when Dynamo has long been done
    compile_graphs = aot_autograd(fw_compiler=_compiler("forward", cache, of), bw_compiler=_compiler("backward", cache, of),
                                  inference_compiler=_compiler("inference", cache, of), decompositions=DECOMPOSITIONS,
                                  partition_fn=partition, keep_inference_input_mutations=True)
    with as_operators(), cache or contextlib.nullcontext():
        return compile_graphs(module, example_inputs)


backend.__name__ = "heddle"  # as reports and PyTorch's messages name it, however torch.compile was given it
install()
