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

from .. import CompileError, open as _open
from . import _cache, _skipped, _text
from ._decompositions import attention_as_operators, decompositions
from ._plan import Piece, Plan, Symbols, make_plan
from ._records import Graph, logger, note
from .report import Executable, GraphNote, note_graph, place_of_node
from .report import Fallback as Missing

_LISTED = re.compile(r"'((?:aten|prims)\.[\w.]+)' at '([^']+)': ((?:[^;]|; (?!'(?:aten|prims)\.|and \d+ more))*)")
_MOST_ATTEMPTS = 32
_ALIGNMENT = 256  # of arguments on CUDA, in bytes (docs/interop.md)


class _Module:
    """A piece as a callable of its inputs."""

    def __init__(self, path: str, device: torch.device, writer: _text.Writer, outputs: list[torch.fx.Node], updates: dict[int, int]) -> None:
        self._module = _open(path, str(device))  # the function does not keep it
        self._function = self._module.function("main")
        self._device = device
        self._orders = writer.orders
        self._symbols = writer.symbols
        self._results = [(tuple(value.shape) if all(isinstance(one, int) for one in value.shape) else None, value)
                         for value in (node.meta["val"] for node in outputs)]
        self._updates = updates  # the input that each of these results is written over

    def __call__(self, tensors: list[torch.Tensor], bindings: dict[str, int]) -> list[torch.Tensor | None]:
        given = []
        for tensor, order in zip(tensors, self._orders):
            tensor = tensor.detach() if isinstance(tensor, torch.Tensor) else torch.tensor(tensor, dtype=torch.float64, device=self._device)
            if order is not None:
                tensor = tensor.permute(order)
            if tensor.is_cuda and tensor.data_ptr() % _ALIGNMENT:
                tensor = tensor.clone(memory_format=torch.contiguous_format)
            given.append(tensor if tensor.is_contiguous() else tensor.contiguous())
        if self._symbols:
            given.append(torch.empty([0, *(bindings[name] for name in self._symbols)], dtype=torch.bool, device=self._device))
        results = self._enqueued(given, bindings) if self._device.type == "cuda" else self._called(given)
        for i in self._updates.values():
            if given[i].data_ptr() != tensors[i].data_ptr():  # a copy without gaps
                order = self._orders[i]
                tensors[i].detach().copy_(given[i] if order is None else given[i].permute([order.index(d) for d in range(len(order))]))
        return [None if i in self._updates else one for i, one in enumerate(results)]

    def _called(self, given: list[torch.Tensor]) -> list[torch.Tensor]:
        if not self._updates:
            results: Any = self._function(*given)
        else:
            out = [given[self._updates[i]] if i in self._updates else None for i in range(len(self._results))]
            results = self._function(*given, out=out[0] if len(out) == 1 else out)
        return [one if i in self._updates else torch.from_dlpack(one) for i, one in enumerate([results] if len(self._results) == 1 else results)]

    def _enqueued(self, given: list[torch.Tensor], bindings: dict[str, int]) -> list[torch.Tensor]:
        """The results in PyTorch's memory, when the stream of PyTorch has come to them: the host does not wait."""
        out = []
        for i, (shape, value) in enumerate(self._results):
            if i in self._updates:
                out.append(given[self._updates[i]])
            else:
                extents = shape if shape is not None else [Symbols.value_of(one, bindings) for one in value.shape]
                out.append(torch.empty(extents, dtype=value.dtype, device=self._device))
        waits = not all(one.numel() for one in out)
        self._function(*given, out=out if len(out) > 1 else out[0], stream=torch.cuda.current_stream(self._device).cuda_stream, wait=waits)
        return [one if value.device == self._device else one.to(value.device) for one, (_, value) in zip(out, self._results)]


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
        # A view with strides of its own reads memory, so what it reads has to lie as PyTorch would have it.
        self._keeps_strides = any(isinstance(step, torch.fx.Node) and "as_strided" in str(step.target) for step in plan.steps)
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
        steps: list[tuple[Any, ...]] = []
        for step in plan.steps:
            if isinstance(step, torch.fx.Node):
                steps.append(("torch", step))
                continue
            made = self._made_piece(step)
            steps.append(("module", made, step.inputs, step.outputs))
        return steps

    def _made_piece(self, piece: Piece) -> _Module:
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
        return _Module(path, self._device, writer, piece.outputs, updates)

    def _last_uses(self) -> list[list[torch.fx.Node]]:
        """For each step, what no later one needs."""
        later = set(self._output.all_input_nodes)
        uses: list[list[torch.fx.Node]] = []
        for step in reversed(self._steps):
            used = step[1].all_input_nodes + [step[1]] if step[0] == "torch" else step[2] + step[3]
            uses.append([node for node in dict.fromkeys(used) if node not in later])
            later.update(used)
        return uses[::-1]

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values: dict[torch.fx.Node, Any] = dict(zip(self._placeholders, arguments))
        bindings = self._symbols.bindings(arguments)
        arguments.clear()  # boxed: what the caller does not keep is freed after its last use

        def value_of(node: torch.fx.Node) -> Any:
            if node in values:
                return values[node]
            return self._constants[node] if node.op == "get_attr" else Symbols.value_of(node.meta["val"], bindings)

        for step, over in zip(self._steps, self._over):
            if step[0] == "torch":
                node = step[1]
                values[node] = node.target(*torch.fx.map_arg(node.args, value_of), **torch.fx.map_arg(node.kwargs, value_of))
            else:
                _, module, inputs, outputs = step
                for node, result in zip(outputs, module([value_of(one) for one in inputs], bindings)):
                    if result is not None and self._keeps_strides:
                        result = _restrided(result, [int(Symbols.value_of(one, bindings)) for one in node.meta["val"].stride()])
                    values[node] = result
            for node in over:
                values.pop(node, None)
        return [value_of(one) if isinstance(one, torch.fx.Node) else one for one in self._output.args[0]]


def _tensors_in(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _compiler(kind: str) -> Callable[..., Any]:
    def compile_graph(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
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
