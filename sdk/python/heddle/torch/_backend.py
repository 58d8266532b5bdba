# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend: AOTAutograd makes graphs of ATen operators of what Dynamo traced, and each becomes a function that calls modules of Heddle."""
from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Sequence

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from .. import CompileError
from . import _cache, _skipped, _text
from ._calls import Module, Slots, dense
from ._decompositions import attention_as_operators, decompositions
from ._plan import Piece, Plan, Symbols, make_plan
from ._records import Graph, logger, note
from .report import Executable, GraphNote, note_graph, place_of_node
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


def _restrided(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    if tuple(tensor.stride()) == tuple(strides):
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


class _Compiled:
    """A graph as a function of its arguments, in the order of its placeholders. They come in one list, which it empties."""

    def __init__(self, module: torch.fx.GraphModule, kind: str) -> None:
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
        refused: dict[str, str] = {}
        for attempt in range(_MOST_ATTEMPTS):
            plan = make_plan(graph, self._device, refused, self._symbols)
            try:
                self._steps = self._made(plan)
                break
            except _Refused as refusal:
                if attempt == _MOST_ATTEMPTS - 1 or not refusal.nodes.keys() - refused.keys():
                    raise refusal.error from None
                refused.update(refusal.nodes)
        self.record.fallbacks = plan.fallbacks
        self._over = self._last_uses()
        self._place_values()
        # A view with strides of its own reads memory, so what it reads has to lie as PyTorch would have it.
        self._keeps_strides = any(isinstance(step, torch.fx.Node) and "as_strided" in str(step.target) for step in plan.steps)
        if kind == "forward":
            self._report_strides()
        self.record.seconds = time.monotonic() - begin
        note(self.record)
        self._tell_report(plan)
        logger.info("%s graph: %d nodes, %d modules, %d in PyTorch, %.2f s", kind, self.record.nodes, len(self.record.modules), len(plan.fallbacks),
                    self.record.seconds)

    def _tell_report(self, plan: Plan) -> None:
        """What a report of graph breaks shows of this graph."""
        pieces = [step for step in plan.steps if not isinstance(step, torch.fx.Node)]
        traces = {node.name: node.stack_trace or "" for node in self._module.graph.nodes}
        note_graph(GraphNote(
            [Executable(os.path.basename(path), len(piece.nodes)) for path, piece in zip(self.record.modules, pieces)],
            [Missing(one.operator, one.reason, place_of_node(traces.get(one.node, ""))) for one in plan.fallbacks],
            phases={f"heddle, {self.record.kind}": self.record.seconds}))

    def _device_of(self) -> torch.device:
        devices = {value.device for node in self._module.graph.nodes for value in _tensors_in(node.meta.get("val")) if value.ndim > 0}
        device = next(iter(devices)) if len(devices) == 1 else torch.device("cpu")
        return torch.device("cuda", device.index or 0) if device.type == "cuda" else device

    def _made(self, plan: Plan) -> list[tuple[Any, ...]]:
        self.record.modules = []
        self._slots = Slots()
        for node in [*self._placeholders, *self._constants]:
            self._slots.add(node)
        steps: list[tuple[Any, ...]] = []
        for step in plan.steps:
            if isinstance(step, torch.fx.Node):
                self._slots.add(step)
                steps.append(("torch", step))
                continue
            made = self._made_piece(step)
            steps.append(("module", made, step.inputs, step.outputs))
        return steps

    def _made_piece(self, piece: Piece) -> Module:
        target = _text.TARGETS[self._device.type]
        writer = _text.Writer(piece.inputs, torch.__version__, piece.nodes)
        for node in piece.nodes:
            writer.add(node)
        updates = {piece.outputs.index(source): piece.inputs.index(argument) for source, argument in piece.updates.items()}
        for source, argument in piece.updates.items():
            if (order := writer.orders[piece.inputs.index(argument)]) is not None:
                writer.in_order(source, order)
        text = writer.text(piece.outputs)
        if folder := os.environ.get("HEDDLE_TORCH_TEXTS"):
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{self.record.kind}-{id(self):x}-{len(self.record.modules)}.mlir"), "w", encoding="utf-8") as file:
                file.write(text)
        try:
            path, is_new = _cache.compiled(text, target, tuple(f"--alias=a{argument}=r{result}" for result, argument in sorted(updates.items())))
        except CompileError as error:
            names = {node.name for node in piece.nodes}
            found = {name: reason for name, reason in _refusals(error).items() if name in names}
            # It says nothing about single nodes: then all of them run in PyTorch.
            raise _Refused(error, found or {name: f"the compiler failed: {str(error).strip()[-300:]}" for name in names}) from error
        self.record.modules.append(path)
        self.record.compiled += is_new
        return Module(path, self._device, writer, piece.inputs, piece.outputs, updates, self._slots)

    def _last_uses(self) -> list[list[torch.fx.Node]]:
        """For each step, what no later one needs."""
        later = set(self._output.all_input_nodes)
        uses: list[list[torch.fx.Node]] = []
        for step in reversed(self._steps):
            used = step[1].all_input_nodes + [step[1]] if step[0] == "torch" else step[2] + step[3]
            uses.append([node for node in dict.fromkeys(used) if node not in later])
            later.update(used)
        return uses[::-1]

    def _report_strides(self) -> None:
        """Tells AOTAutograd how the results lie, since the backward graph reads some of them: in row-major order, if a module computed them."""
        context = torch._guards.TracingContext.try_get()
        if context is None or context.output_strides is None:
            return
        made = set() if self._keeps_strides else {node for step in self._steps if step[0] == "module" for node in step[3]}
        for one in self._output.args[0]:
            shape = one.meta["val"].shape if isinstance(one, torch.fx.Node) and one in made else None
            context.output_strides.append(dense(shape) if shape is not None and all(isinstance(extent, int) for extent in shape) else None)

    def _place_values(self) -> None:
        """What a call needs to know of its values, by their slots."""
        made = {node for step in self._steps for node in ([step[1]] if step[0] == "torch" else step[3])}
        known = made.union(self._placeholders, self._constants)
        self._numbers = [(slot, node.meta["val"]) for node, slot in self._slots.of.items() if node not in known]
        self._after_arguments = [*self._constants.values(), *([None] * (self._slots.count - len(self._placeholders) - len(self._constants)))]
        # After the last step, all are dropped at once.
        self._dropped = [[self._slots.of[node] for node in over if node in self._slots.of] for over in self._over[:-1]] + [[]]
        self._results = [(self._slots.of.get(one), one) if isinstance(one, torch.fx.Node) else (None, one) for one in self._output.args[0]]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = arguments + self._after_arguments
        bindings = self._symbols.bindings(arguments)
        arguments.clear()  # boxed: what the caller does not keep is freed after its last use
        for slot, number in self._numbers:
            values[slot] = Symbols.value_of(number, bindings)
        slot_of = self._slots.of

        def value_of(node: torch.fx.Node) -> Any:
            slot = slot_of.get(node)
            return Symbols.value_of(node.meta["val"], bindings) if slot is None else values[slot]

        for step, dropped in zip(self._steps, self._dropped):
            if step[0] == "torch":
                node = step[1]
                values[slot_of[node]] = node.target(*torch.fx.map_arg(node.args, value_of), **torch.fx.map_arg(node.kwargs, value_of))
            else:
                _, module, _, outputs = step
                module(values, bindings)
                if self._keeps_strides:
                    for node in outputs:
                        if (result := values[slot_of[node]]) is not None:
                            values[slot_of[node]] = _restrided(result, [int(Symbols.value_of(one, bindings)) for one in node.meta["val"].stride()])
            for slot in dropped:
                values[slot] = None
        return [values[slot] if slot is not None else value_of(one) if isinstance(one, torch.fx.Node) else one for slot, one in self._results]


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


def _compiler(kind: str) -> Callable[..., Any]:
    def compile_graph(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        if kind == "backward":
            _take_strides(module.graph, example_inputs)
        compiled = _Compiled(module, kind)

        def call(arguments: list[Any]) -> list[Any]:
            return compiled(arguments)

        setattr(call, "_boxed_call", True)  # for AOTAutograd: the arguments come in one list
        return call

    return compile_graph


def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
    """For torch.compile(..., backend="heddle"). It takes no options."""
    if options:
        raise TypeError(f"heddle.torch: backend 'heddle' takes no options, got {', '.join(options)}")
    _skipped.install()
    compile_graphs = aot_autograd(fw_compiler=_compiler("forward"), bw_compiler=_compiler("backward"), inference_compiler=_compiler("inference"),
                                  decompositions=decompositions(), partition_fn=min_cut_rematerialization_partition,
                                  keep_inference_input_mutations=True)
    with attention_as_operators():
        return compile_graphs(module, example_inputs)


_skipped.install()
