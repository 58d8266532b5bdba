# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What AOTAutograd and this backend made of a graph of Dynamo, on disk, for other processes: PyTorch's own cache keeps it.

PyTorch's key has the graph, what is known of its arguments, PyTorch's settings and its version. This adds what else the result depends on (`_tag`). Graphs
whose result depends on more than that can be told are not kept (`_reason_against`).
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import pickle
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch

from .. import _compiled_texts
from . import _precision, _text
from ._calls import Module
from ._records import Graph, logger, note
from ._steps import Operator, Steps
from ._tracing import without_inductor
from .report import GraphNote, current_graph, is_open, note_graph, observed_backward

try:  # none of this is public; without it, graphs are made anew in each process
    from torch._functorch._aot_autograd.aot_autograd_result import BundledOutputCodeLoadable  # noqa: F401 - takes what is not Inductor's since 2.10
    from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
    from torch._inductor.output_code import OutputCode
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    _IS_THERE = all(hasattr(*one) for one in ((torch.compiler.config, "cache_key_tag"), (torch._functorch.config, "bundled_autograd_cache")))
except (ImportError, AttributeError):
    _IS_THERE = False
    BypassAOTAutogradCache, OutputCode = Exception, object

_MOST_BYTES = 1 << 20  # of tensors that are in the graph itself


def tell(record: Graph, made: GraphNote, steps: Steps, of: int | None) -> None:
    """Puts it in the list of graphs, in the report that is open, and in the log. `of` is the graph's number in the report."""
    note(record)
    if is_open():
        phases = {**record.phases, "planning": max(0.0, record.seconds - sum(record.phases.values()))}
        counts = [step.dispatches() for step in steps.steps if isinstance(step, Module)]
        known = [count for count in counts if count is not None]
        note_graph(dataclasses.replace(
            made, phases={f"heddle {record.kind}: {name}": seconds for name, seconds in phases.items()},
            executables=[dataclasses.replace(one, kernels=count) for one, count in zip(made.executables, counts)],
            kernels=sum(known) if len(known) == len(counts) else None), of)
    logger.info("%s graph: %d nodes, %d modules, %d in PyTorch, %.2f s", record.kind, record.nodes, len(record.modules), len(record.fallbacks), record.seconds)


@functools.lru_cache(maxsize=1)
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def identity() -> str:
    """Of this backend and of the compiler."""
    return " ".join(("heddle", _compiled_texts.identity(), _sources()))


@dataclasses.dataclass
class CompiledGraph(OutputCode):  # type: ignore[misc]
    """A graph as AOTAutograd keeps it."""
    steps: Steps
    record: Graph
    made: GraphNote
    identity: str

    _boxed_call: bool = True  # the arguments come in one list. In __dict__, which wrappers copy

    def __post_init__(self) -> None:
        self._run: Callable[[Any], Any] = self.steps

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_run"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._run = self.steps

    def __call__(self, inputs: Any) -> Any:
        return self._run(inputs)

    def observe(self, of: int | None) -> None:
        """Has the calls of a backward pass counted, if a report is open; those of other graphs are counted where Dynamo calls them."""
        if self.record.kind == "backward":
            self._run = observed_backward(self.steps, of)

    def prepare_for_serialization(self) -> None:
        """Called for a copy that is then pickled."""
        try:
            pickle.dumps([step for step in self.steps.steps if isinstance(step, Operator)])
        except Exception as wrong:  # of an argument of any kind; PyTorch would warn of it
            raise BypassAOTAutogradCache(f"heddle.torch: {wrong}") from wrong
        if sum(one.numel() * one.element_size() for one in self.steps.constants) > _MOST_BYTES:
            raise BypassAOTAutogradCache("heddle.torch: the graph has large tensors")
        if any(one.reason.startswith("the compiler failed") for one in self.record.fallbacks):  # for want of memory, say: another process may succeed
            raise BypassAOTAutogradCache("heddle.torch: the compiler failed")

    def post_compile(self, *_: Any) -> None:
        """Called when it was read from disk. Modules that are no longer in the cache of modules are compiled again."""
        if self.identity != identity():
            raise RuntimeError("heddle.torch: the graph was made by another version of Heddle")
        begin = time.monotonic()
        modules = [step for step in self.steps.steps if isinstance(step, Module)]
        opened = [one.open() for one in modules]
        phases = {name: sum(one.phases.get(name, 0.0) for one in modules) for one in modules for name in one.phases}
        self.record = dataclasses.replace(self.record, modules=[path for path, _ in opened], compiled=sum(is_new for _, is_new in opened),
                                          seconds=time.monotonic() - begin, phases=phases)
        of = current_graph()
        tell(self.record, self.made, self.steps, of)
        self.observe(of)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


_until_end = contextlib.ExitStack()  # settings of the compilation that goes on


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _end(_: Any) -> None:
    _until_end.close()


_END = torch.compiler.disable(_end)  # Dynamo must not trace it (_skipped.py)


def _bundle_until_end() -> None:
    """Backward passes are compiled, and written to disk thereafter, when the first one is run: this setting then has to be what it was when the forward pass
    was compiled. Dynamo calls back at the end, also of a failure."""
    from torch._dynamo.callback import callback_handler

    if getattr(callback_handler, "_CompilationCallbackHandler__pending_callbacks_counter", 0) > 0 and not torch._functorch.config.bundled_autograd_cache:
        if _END not in callback_handler.end_callbacks:
            callback_handler.register_end_callback(_END)
        _until_end.enter_context(torch._functorch.config.patch(bundled_autograd_cache=True))


class GraphCache:
    """PyTorch's cache, for one graph. It is in use while it is entered."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> None:
        self._entered.enter_context(torch.compiler.config.patch(cache_key_tag=self._tag))
        self._entered.enter_context(torch._functorch.config.patch(bundled_autograd_cache=True))
        self._entered.enter_context(without_inductor())

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._entered.close()

    def compiler(self, function: Callable[..., Any]) -> Any:
        """For aot_autograd: a function that makes an entry of a graph."""
        def compile_graph(module: torch.fx.GraphModule, example_inputs: Any) -> CompiledGraph:
            made = function(module, example_inputs)
            _bundle_until_end()
            compiled = CompiledGraph(made.steps, made.record, made.note, identity())
            compiled.observe(made.of)
            return compiled

        return SerializableAOTDispatchCompiler(CompiledGraph, compile_graph)


def graph_cache(module: torch.fx.GraphModule) -> GraphCache | None:
    """For a graph of Dynamo; None if what becomes of it is not kept."""
    if not _IS_THERE:
        return None
    try:
        reason = _reason_against(module)
        if reason is None:
            return GraphCache(_tag(module))
    except Exception as wrong:  # of what is not public, or there is no compiler, which is an error where it is needed
        reason = str(wrong)
    logger.info("what becomes of this graph is not kept for other processes: %s", reason)
    return None


def _graphs_of(module: torch.fx.GraphModule) -> Iterator[torch.fx.GraphModule]:
    for one in module.modules():
        if isinstance(one, torch.fx.GraphModule):
            yield one


def others_may_write() -> str | None:
    """That other users than root may write to PyTorch's folder: unpickling runs code."""
    folder = os.stat(cache_dir())
    return f"other users may write {cache_dir()}" if folder.st_uid not in (0, os.getuid()) or folder.st_mode & 0o002 else None


def _reason_against(module: torch.fx.GraphModule) -> str | None:
    if os.environ.get("HEDDLE_TORCH_TEXTS"):
        return "HEDDLE_TORCH_TEXTS asks for texts"
    if (reason := others_may_write()) is not None:
        return reason
    for one in _graphs_of(module):
        kept = {id(tensor) for tensor in (*one.parameters(), *one.buffers())}
        for node in one.graph.nodes:
            target = node.target
            if node.op == "get_attr":  # the key has shapes only; parameters and buffers are arguments of what is made of the graph
                value = functools.reduce(getattr, target.split("."), one)
                if isinstance(value, torch.Tensor) and id(value) not in kept:
                    return f"the graph has the tensor {target}"
            # What another library says of its operator, gradients among it, may change while the graph does not.
            if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
                name = target._qualified_op_name if isinstance(target, torch._ops.OpOverloadPacket) else target.name()
                if name.split("::")[0] not in ("aten", "prims"):
                    return f"{name} is an operator of another library"
            elif isinstance(target, torch._ops.HigherOrderOperator):
                return f"it has {target.name()}"
    return None


def settings() -> list[str]:
    """Settings that PyTorch's key does not have."""
    return [str(torch.get_default_dtype()), str(torch.get_default_device()), str(torch.is_inference_mode_enabled()), str(torch._C._get_mkldnn_enabled()),
            str(torch._C._get_cudnn_enabled()), str(_precision.allowed()), torch.compiler.config.cache_key_tag]


def _tag(module: torch.fx.GraphModule) -> str:
    """What the result depends on that PyTorch's key does not have."""
    parts = [identity(), *settings()]
    # Lines of the user's program, which a report shows.
    parts += [node.stack_trace or "" for one in _graphs_of(module) for node in one.graph.nodes]
    # The layout of attentions' results, which depends on PyTorch's choice of a kernel.
    parts += [str(_text.memory_order(node.meta["example_value"])) for one in _graphs_of(module) for node in one.graph.nodes
              if getattr(node.target, "__name__", "") == "scaled_dot_product_attention" and isinstance(node.meta.get("example_value"), torch.Tensor)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
