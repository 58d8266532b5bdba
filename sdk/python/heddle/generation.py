# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generating text step by step: the choice of the next token as a part of the compiled model, and the loop over its steps.

    from heddle import generation
    heddle.compile(generation.with_sampling(onnx.load("step.onnx")), "step.heddle")
    with heddle.open("step.heddle") as module, generation.Session(module, capacity=512) as session:
        for token in session.generate(prompt, 100, temperature=0.8, top_k=40):
            ...

A step has the inputs `tokens` i64 [batch, n], `past` i64 [batch] (how many tokens the caches have) and `mask` i64 [batch, window] (1 for each place of the caches that may
be attended to), and keeps its caches as state. docs/generation.md describes it.
"""
from __future__ import annotations

from ._errors import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    import numpy as np

    from ._core import Tensor
    from ._module import Module
else:
    Any = object

__all__ = ["Session", "with_sampling"]

_STEP = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class _Nodes:
    """Appends nodes and constants to a graph."""

    def __init__(self, graph: Any):
        from onnx import helper, numpy_helper

        self._graph, self._helper, self._to_tensor, self._count = graph, helper, numpy_helper.from_array, 0

    def constant(self, value: Any, dtype: str) -> str:
        import numpy as np

        self._count += 1
        self._graph.initializer.append(self._to_tensor(np.array(value, dtype), f"sampling/{self._count}"))
        return f"sampling/{self._count}"

    def __call__(self, operator: str, *inputs: str, result: str | None = None, **attributes: Any) -> str:
        self._count += 1
        name = result or f"sampling/{operator}_{self._count}"
        self._graph.node.append(self._helper.make_node(operator, inputs, [name], name=f"sampling/{operator}_{self._count}", **attributes))
        return name

    def uniform(self, position: str) -> str:
        """A number from 0 to 1, without 1, for each row: a function of the seed, the position and the row (G. L. Steele, D. Lea, C. H. Flood, Fast
        splittable pseudorandom number generators, 2014: the finalizer of SplitMix64)."""
        from onnx import TensorProto

        def number(value: int) -> str:
            return self.constant(value, "u8")

        def whole(value: str) -> str:
            return self("Cast", value, to=TensorProto.UINT64)

        def mixed(value: str, shift: int) -> str:
            return self("BitwiseXor", value, self("BitShift", value, number(shift), direction="RIGHT"))

        rows = self("Range", self.constant(0, "i8"), self("Squeeze", self("Shape", position)), self.constant(1, "i8"))
        z = self("Mul", whole("seed"), number(_STEP))
        for part in (position, rows):
            z = self("Mul", self("Add", z, self("Add", whole(part), number(1))), number(_STEP))
            for shift, factor in zip((30, 27), _MIX):
                z = self("Mul", mixed(z, shift), number(factor))
            z = mixed(z, 31)
        high = self("Cast", self("BitShift", z, number(40), direction="RIGHT"), to=TensorProto.FLOAT)
        return self("Mul", high, self.constant(2.0 ** -24, "f4"))


def with_sampling(model: Any, *, logits: str = "logits", most: int = 64, greedy: bool = False) -> Any:
    """The model of a step with the next token in place of the logits.

    model   an onnx.ModelProto of opset 18 or later, which is not changed; its output `logits` is f32 [batch, vocabulary]
    most    the number of likeliest tokens of which one is drawn; no larger `top_k` is possible
    greedy  the likeliest token; there are no inputs `temperature` and so on

    New inputs, each of one element: `temperature` f32 (0: the likeliest token), `top_k` i64 (0: `most`), `top_p` f32 (1: all) and `seed` i64. Results are `next` i64
    [batch, 1], which can be the `tokens` of the next step, and `longer_past` i64 [batch], which can be its `past`. The same seed, position and logits give the same
    token, on every device.
    """
    from onnx import ModelProto, TensorProto, helper

    copy = ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    position = next((index for index, output in enumerate(graph.output) if output.name == logits), None)
    if position is None:
        raise make("NOT_FOUND", f"heddle: adding sampling: the model has no output '{logits}'; its outputs are {', '.join(output.name for output in graph.output)}")
    opset = next((one.version for one in copy.opset_import if one.domain in ("", "ai.onnx")), 0)
    if opset < 18:
        raise make("INVALID_ARGUMENT", f"heddle: adding sampling: the model has opset {opset}, and 18 or later is needed; onnx.version_converter converts it")
    names = {one.name for one in graph.input}
    for name in ("tokens", "past"):
        if name not in names:
            raise make("NOT_FOUND", f"heddle: adding sampling: the model has no input '{name}'; its inputs are {', '.join(one.name for one in graph.input)}")
    dims = graph.output[position].type.tensor_type.shape.dim
    if len(dims) != 2 or not 0 < most or (dims[1].dim_value and dims[1].dim_value < most and not greedy):
        raise make("INVALID_ARGUMENT", f"heddle: adding sampling: '{logits}' needs the shape [batch, vocabulary] with a vocabulary of {most} (`most`) or more, "
                                       f"has [{', '.join(str(dim.dim_value or dim.dim_param or '?') for dim in dims)}]")
    batch = dims[0].dim_value or dims[0].dim_param or "batch"
    node = _Nodes(graph)

    def whole(*values: int) -> str:
        return node.constant(values, "i8")

    longer = node("Add", "past", node("Shape", "tokens", start=1, end=2), result="longer_past")
    if greedy:
        node("ArgMax", logits, axis=1, keepdims=1, result="next")
    else:
        count = f"sampling/{logits}/indices"
        values = f"sampling/{logits}/values"
        graph.node.append(helper.make_node("TopK", [logits, whole(most)], [values, count], name="sampling/TopK", axis=1))
        rank, axis, zero = node.constant(range(most), "i8"), whole(1), node.constant(0, "f4")
        limit = node("Where", node("LessOrEqual", "top_k", whole(0)), whole(most), "top_k")
        is_hot = node("Greater", "temperature", zero)
        warm = node("Where", is_hot, "temperature", node.constant(1, "f4"))
        scaled = node("Div", node("Sub", values, node("Slice", values, whole(0), whole(1), axis)), warm)
        weight = node("Where", node("Less", rank, limit), node("Exp", scaled), zero)
        total = node("ReduceSum", weight, axis, keepdims=1)
        before = node("CumSum", weight, node.constant(1, "i8"), exclusive=1)
        is_kept = node("And", node("Less", before, node("Mul", total, "top_p")), node("Less", rank, limit))
        is_kept = node("Or", is_kept, node("Equal", rank, whole(0)))
        up_to = node("CumSum", node("Where", is_kept, weight, zero), node.constant(1, "i8"))
        drawn = node("Mul", node("Slice", up_to, whole(most - 1), whole(most), axis), node("Unsqueeze", node.uniform(longer), axis))
        passed = node("ReduceSum", node("Cast", node("LessOrEqual", up_to, drawn), to=TensorProto.INT64), axis, keepdims=1)
        last = node("Sub", node("ReduceSum", node("Cast", is_kept, to=TensorProto.INT64), axis, keepdims=1), whole(1))
        choice = node("Where", is_hot, node("Min", passed, last), whole(0))
        node("GatherElements", count, choice, axis=1, result="next")
        for name, kind in (("temperature", TensorProto.FLOAT), ("top_k", TensorProto.INT64), ("top_p", TensorProto.FLOAT), ("seed", TensorProto.INT64)):
            graph.input.append(helper.make_tensor_value_info(name, kind, [1]))
    del graph.output[position]
    graph.output.extend([helper.make_tensor_value_info("next", TensorProto.INT64, [batch, 1]),
                         helper.make_tensor_value_info("longer_past", TensorProto.INT64, [batch])])
    return copy


class Session:
    """One text that is being written: a state of the module, and the number of tokens in it. Sessions of a module share its weights.

    module    whose function is a step `with_sampling`
    capacity  the places of its caches
    window    the places that are attended to are a multiple of this number: a step whose window is that of an earlier step takes less time to prepare
    fixed     further arguments of each step, by name
    """

    def __init__(self, module: Module, capacity: int, *, window: int = 64, batch: int = 1, **fixed: Any):
        if capacity < 1 or window < 1:
            raise make("INVALID_ARGUMENT", f"heddle: making a session: capacity and window are 1 or more, got {capacity} and {window}")
        self.module, self.capacity, self.past = module, capacity, 0
        self._window, self._batch, self._fixed = window, batch, fixed
        self._samples = "seed" in {argument.name for argument in module.main.arguments}
        self._masks: dict[int, Tensor] = {}
        self._place: Any = None  # the number of tokens, on the device
        self._state = module.state()

    def close(self) -> None:
        """Frees the caches."""
        self._state.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _mask(self, places: int) -> Tensor:
        import numpy as np

        size = min(-(-places // self._window) * self._window, self.capacity)
        if size not in self._masks:
            self._masks = {size: self.module.main.tensor("mask", np.ones((self._batch, size), "i8"), copy=True)}
        return self._masks[size]

    def rewind(self, past: int) -> None:
        """Forgets all tokens but the first ones."""
        if not 0 <= past <= self.past:
            raise make("INVALID_ARGUMENT", f"heddle: rewinding a session to {past} tokens: it has {self.past}")
        self.past, self._place = past, None

    def step(self, tokens: Any, **sampling: Any) -> Tensor:
        """Reads the tokens [batch, n] behind those of earlier steps, and returns the next one [batch, 1]."""
        import numpy as np

        if not hasattr(tokens, "shape"):
            tokens = np.array(tokens, "i8")
        if len(tokens.shape) != 2:
            raise make("INVALID_ARGUMENT", f"heddle: a step of a session: tokens have the shape [batch, n], got {list(tokens.shape)}")
        places = self.past + tokens.shape[1]
        if places > self.capacity:
            raise make("RESOURCE_EXHAUSTED", f"heddle: a step of a session: its caches have {self.capacity} places, and {places} are needed; compile the model with more")
        if self._place is None:
            self._place = np.full(self._batch, self.past, "i8")
        found: Any = self.module(tokens=tokens, past=self._place, mask=self._mask(places), state=self._state, **sampling, **self._fixed)
        self.past, self._place = places, found.longer_past
        following: Tensor = found.next
        return following

    def generate(self, prompt: Any, count: int, *, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yields up to `count` tokens that follow the prompt, a list of tokens; the token `stop` is the last. Of a batch, each yield is an array of one token for
        each row. The last token that is yielded is not read yet: it is the beginning of the next prompt."""
        import numpy as np

        sampling: dict[str, Any] = {}
        if self._samples:
            given = {"temperature": (temperature, "f4"), "top_k": (top_k, "i8"), "top_p": (top_p, "f4"), "seed": (seed, "i8")}
            sampling = {name: self.module.main.tensor(name, np.array([value], kind), copy=True) for name, (value, kind) in given.items()}
        elif temperature:
            raise make("FAILED_PRECONDITION", f"heddle: generating with temperature {temperature}: the module takes the likeliest token; compile it with_sampling(greedy=False)")
        tokens: Any = np.array(prompt, "i8")
        tokens = tokens[None].repeat(self._batch, 0) if tokens.ndim == 1 else tokens
        for _ in range(count):
            tokens = self.step(tokens, **sampling)
            if self._batch > 1:
                yield np.array(tokens)[:, 0]
                continue
            token = int(tokens.item())
            yield token
            if token == stop:
                return
