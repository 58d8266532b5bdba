# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.minify: the smallest graph of a model that Heddle computes wrong, or fails to compile, and a script that shows it."""
from __future__ import annotations

import base64
import dataclasses
import io
import operator
import os
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from .. import __version__
from .._errors import make
from . import _read_text
from ._decompositions import as_operators, decompositions
from ._partition import partition
from ._parts import Failure, Part, Whole, copied, failure_of
from .report import place_of_node

_INLINE = 256 * 1024  # bytes of inputs that are in the script itself
_SCRIPT = '''"""Written by heddle.torch.minify (heddle {version}, PyTorch {pytorch}): {what}

{first}
Exits with 1 if it is wrong, too, when it is run.
"""
import base64
import io
import sys
import zlib

import torch
from math import inf, nan
from torch import device

import heddle.torch


class Repro(torch.nn.Module):
{code}

{inputs}

if __name__ == "__main__":
    sys.exit(heddle.torch.reproduce(Repro(), inputs(), dynamic={dynamic}, kind={kind!r}, tolerance={tolerance}))
'''


@dataclasses.dataclass
class Minified:
    """The smallest graph that is wrong."""
    kind: str  # "wrong": numbers differ; "compile": compiling fails; "call": the call fails
    text: str  # how
    graph: torch.fx.GraphModule  # the smallest one, of ATen operators
    inputs: list[Any]  # values of its placeholders
    node: str  # the first of its nodes that is wrong
    operator: str  # that node's
    place: str  # the line of the model that it comes from; may be empty
    nodes: int  # of the graph
    nodes_before: int  # of the whole graph
    path: str  # the script
    is_repeated: bool  # whether the script's graph, which PyTorch traces anew, is wrong, too

    def __str__(self) -> str:
        place = f", {self.place}" if self.place else ""
        return (f"the first node that differs is {self.operator} at '{self.node}'{place}: {self.text}\n"
                f"{self.nodes} of {self.nodes_before} nodes are left; the script is {self.path}"
                + ("" if self.is_repeated else "; PyTorch traces its graph in another form, in which nothing is wrong"))


def _captured(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], training: bool, dynamic: bool | None) -> list[Whole]:
    """The graphs that the backend would get, with values."""
    found: list[Whole] = []

    def capture(kind: str) -> Callable[..., Any]:
        def take(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            def call(arguments: list[Any]) -> Any:
                if not any(one.module is module for one in found):
                    found.append(Whole(module, arguments, kind))
                return torch.fx.Interpreter(module).run(*arguments)

            setattr(call, "_boxed_call", True)
            return call

        return take

    def backend(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        compile_graphs = aot_autograd(fw_compiler=capture("forward"), bw_compiler=capture("backward"), inference_compiler=capture("inference"),
                                      decompositions=decompositions(), partition_fn=partition)
        with as_operators():
            return compile_graphs(module, example_inputs)

    torch._dynamo.reset()
    function = torch.compile(model, backend=backend, dynamic=dynamic)
    with torch.set_grad_enabled(training):
        results = torch.utils._pytree.tree_leaves(function(*args, **kwargs))
        if training:
            # In a random direction: the sum of a softmax has no gradient.
            chosen = [one for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
            generator = torch.Generator().manual_seed(0)
            if chosen:
                torch.autograd.backward(chosen, [torch.randn(one.shape, generator=generator).to(one.device, one.dtype) for one in chosen])
    torch._dynamo.reset()
    return found


class _Search:
    """Makes a failing part smaller as long as it fails in the same way."""

    def __init__(self, whole: Whole, failure: Failure, tolerance: float | None, say: Callable[[str], object]) -> None:
        self._whole, self._tolerance, self._say = whole, tolerance, say
        self.failure = failure
        self.tries = 0

    def _fails(self, part: Part | None) -> Failure | None:
        if part is None or not part.nodes:
            return None
        self.tries += 1
        found = failure_of(part, self._whole.kind, self._tolerance)
        return found if found is not None and found.kind == self.failure.kind else None

    def run(self) -> Part:
        nodes = self._halved(self._whole.nodes)
        nodes = self._without_chunks(nodes)
        part = self._whole.part(nodes)
        assert part is not None
        return self._with_one_result(part)

    def _halved(self, nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """Consecutive nodes, with what the others give as inputs: the half that fails, and its half, as long as one of both does."""
        while len(nodes) > 1:
            middle = len(nodes) // 2
            for half in (nodes[:middle], nodes[middle:]):
                failure = self._fails(self._whole.part(half))
                if failure is not None:
                    self.failure, nodes = failure, half
                    self._say(f"{len(nodes)} nodes")
                    break
            else:
                break
        return nodes

    def _without_chunks(self, nodes: list[torch.fx.Node]) -> list[torch.fx.Node]:
        """Leaves out nodes: half of them, a quarter, down to single ones."""
        size = max(len(nodes) // 2, 1)
        while len(nodes) > 1:
            is_smaller = False
            for start in range(0, len(nodes), size):
                fewer = nodes[:start] + nodes[start + size:]
                failure = self._fails(self._whole.part(fewer)) if fewer else None
                if failure is not None:
                    self.failure, nodes, is_smaller = failure, fewer, True
                    self._say(f"{len(nodes)} nodes")
                    break
            if not is_smaller:
                if size == 1:
                    break
                size = max(size // 2, 1)
        return nodes

    def _with_one_result(self, part: Part) -> Part:
        chosen = set(part.nodes)
        for node in self._whole.module.graph.nodes:
            if node in chosen or (node.target is operator.getitem and node.args[0] in chosen):
                one = self._whole.part(part.nodes, [node])
                failure = self._fails(one)
                if one is not None and failure is not None:
                    self.failure = failure
                    return one
        return part

    def first(self, part: Part) -> torch.fx.Node:
        """The first node of the part that is wrong if the part ends there."""
        for i, node in enumerate(part.nodes[:-1]):
            if self._fails(self._whole.part(part.nodes[:i + 1], [node])) is not None:
                return node
        return part.nodes[-1]


def _dynamic_of(part: Part) -> list[list[int]]:
    """For each input the dimensions that are symbols; [-1] for a number."""
    found = []
    for node in part.module.graph.nodes:
        if node.op == "placeholder":
            value = node.meta["val"]
            extents = value.shape if isinstance(value, torch.Tensor) else [value]
            dims = [d for d, extent in enumerate(extents) if isinstance(extent, torch.SymInt)]
            found.append(dims if isinstance(value, torch.Tensor) else [-1] if dims else [])
    return found


def _script(part: Part, dynamic: list[list[int]], kind: str, failure: Failure, first: str, tolerance: float | None, path: str) -> str:
    code = part.module.graph.python_code("self").src.replace("\t", "    ")
    content = io.BytesIO()
    torch.save([one.detach().cpu().contiguous() if isinstance(one, torch.Tensor) else one for one in part.inputs], content)
    if len(content.getvalue()) <= _INLINE:
        text = textwrap.fill(base64.b64encode(zlib.compress(content.getvalue())).decode(), 140)
        inputs = f'_INPUTS = """\n{text}\n"""\n\n\ndef inputs():\n    return torch.load(io.BytesIO(zlib.decompress(base64.b64decode(_INPUTS))), weights_only=True)\n'
    else:
        beside = os.path.splitext(path)[0] + ".inputs.pt"
        with open(beside, "wb") as file:
            file.write(content.getvalue())
        inputs = (f"def inputs():\n    import os\n\n    return torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), {os.path.basename(beside)!r}), "
                  "weights_only=True)\n")
    what = {"wrong": "numbers that Heddle computes wrong", "compile": "a graph that Heddle fails to compile", "call": "a graph whose call fails"}[failure.kind]
    first = textwrap.fill(f"{first}: {failure.text}".replace("\\", "/").replace('"""', "'''"), 140)
    return _SCRIPT.format(version=__version__, pytorch=torch.__version__, what=what, first=first, code=textwrap.indent(code.strip("\n"), "    "), inputs=inputs,
                          dynamic=dynamic, kind=kind, tolerance=tolerance)


def _traced(module: Callable[..., Any], inputs: Sequence[Any], dynamic: Sequence[Sequence[int]]) -> Part:
    """The function as a graph, with symbols for these dimensions."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = []
    for one, dims in zip(inputs, dynamic, strict=True):
        if isinstance(one, torch.Tensor):
            sizes = [DimDynamic.DYNAMIC if d in dims else DimDynamic.STATIC for d in range(one.ndim)]
            fakes.append(mode.from_tensor(one, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes)))
        else:
            fakes.append(one)
    with torch.no_grad():
        graph = make_fx(module, tracing_mode="real")(*fakes)
    for node, one in zip((node for node in graph.graph.nodes if node.op == "placeholder"), fakes, strict=True):
        node.meta.setdefault("val", one)
    return Part(graph, list(inputs), [node for node in graph.graph.nodes if node.op == "call_function"])


def reproduce(module: Callable[..., Any], inputs: Sequence[Any], *, dynamic: Sequence[Sequence[int]] | None = None, kind: str = "inference",
              tolerance: float | None = None) -> int:
    """What a script of `minify` does: compiles a function of ATen operators as one graph, compares it with PyTorch, and prints what is wrong. 1 if
    something is, else 0. `dynamic` has the dimensions of each input that are symbols."""
    part = _traced(module, inputs, dynamic or [[] for _ in inputs])
    failure = failure_of(part, kind, tolerance)
    print(f"{failure.kind}: {failure.text}" if failure is not None else "nothing is wrong")
    return 0 if failure is None else 1


def minify(model: Callable[..., Any] | str | os.PathLike[str], args: Sequence[Any] = (), path: Any = "reproducer.py", *, kwargs: Mapping[str, Any] | None = None,
           training: bool = False, dynamic: bool | None = None, tolerance: float | None = None, progress: Callable[[str], object] | None = None) -> Minified | None:
    """Looks for what Heddle computes wrong, or fails to compile, in a model under torch.compile. None if there is nothing.

    Each graph that the backend would get is computed by Heddle, by PyTorch, and by PyTorch in f64. The first one that is wrong is made smaller: half of its
    nodes, with PyTorch's values in place of the others, down to single nodes, as long as it is wrong in the same way. All values of a graph are in memory at
    once. Random numbers are taken as they were drawn, and are not checked.

    model      a module or a function; or the path of a text that HEDDLE_TORCH_TEXTS wrote
    args       its arguments; for a text tensors, one for each argument of @main
    path       the script to write. It has the smallest graph and its inputs, runs by itself, and exits with 1 if it is wrong
    training   also the backward pass, for a random direction of the results
    dynamic    as torch.compile takes it
    tolerance  how wrong a result may be, relative to its largest number; None: 1e-4 for f32, 1e-2 for f16, 5e-2 for bf16, 1e-9 for f64. What is less than ten
               times as far from the result in f64 as PyTorch's is right in any case
    progress   called with a line for each step
    """
    if not callable(model) and not isinstance(model, (str, os.PathLike)):
        raise make("TYPE", f"heddle.torch: minifying failed: the model is a function, a module or the path of a text, got {type(model).__name__}")
    say = progress or (lambda line: None)
    if isinstance(model, (str, os.PathLike)):
        function = _read_text.read(model)
        part = _traced(function, args, function.dynamic)
        wholes = [Whole(part.module, args, "inference")]
    else:
        wholes = _captured(model, args, kwargs or {}, training, dynamic)
    if not wholes:
        raise make("INVALID_ARGUMENT", "heddle.torch: minifying failed: torch.compile made no graph of the model; heddle.torch.report() tells why")
    for number, whole in enumerate(wholes):
        everything = whole.part(whole.nodes)
        if everything is None:
            continue
        failure = failure_of(everything, whole.kind, tolerance)
        say(f"{whole.kind} graph {number}, {len(whole.nodes)} nodes: {failure.text if failure is not None else 'right'}")
        if failure is not None:
            return _reduced(whole, failure, tolerance, os.fspath(path), say)
    return None


def _reduced(whole: Whole, failure: Failure, tolerance: float | None, path: str, say: Callable[[str], object]) -> Minified:
    search = _Search(whole, failure, tolerance, say)
    part = search.run()
    node = search.first(part) if failure.kind == "wrong" else part.nodes[-1]
    place = place_of_node(node.meta.get("stack_trace") or "")
    where = f"{place.file}:{place.line}" if place.file else ""
    first = f"the first node that differs is {node.target} at '{node.name}'" + (f", {where}" if where else "")
    dynamic = _dynamic_of(part)
    with open(path, "w", encoding="utf-8") as file:
        file.write(_script(part, dynamic, whole.kind, search.failure, first, tolerance, path))
    try:
        again = failure_of(_traced(part.module, copied(part.inputs), dynamic), whole.kind, tolerance)
    except Exception:  # a graph that cannot be traced again; the script then says so
        again = None
    return Minified(search.failure.kind, search.failure.text, part.module, part.inputs, node.name, str(node.target), where, len(part.nodes), len(whole.nodes), path,
                    again is not None and again.kind == failure.kind)
