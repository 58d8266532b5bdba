# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers in functions that torch.utils.checkpoint computes again: the backward pass draws those of the forward pass.

PyTorch writes such draws as operators of higher order. That of the forward graph gives the state of the generator before the draw, too, which is kept for the
backward graph, and that of the backward graph draws with this state, and then puts back the generator's own.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

_Graphs = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def operator_of(node: torch.fx.Node) -> Any:
    """The random operator of a node that keeps or takes a state; None for other nodes."""
    return node.args[0] if node.target is run_and_save_rng_state else node.args[1] if node.target is run_with_rng_state else None


def cut(joint: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> _Graphs:
    """PyTorch's minimal cut of a joint graph into that of the forward and that of the backward pass."""
    config: Any = torch._functorch.config
    # On CUDA, PyTorch otherwise gives the draws generators with seeds of their own, so that they are not those of eager mode.
    settings = config.patch(graphsafe_rng_functionalization=False) if hasattr(config, "graphsafe_rng_functionalization") else contextlib.nullcontext()
    with settings:
        forward, backward = min_cut_rematerialization_partition(joint, inputs, **options)
    for module in (forward, backward):
        for node in module.graph.nodes:
            if operator_of(node) is not None:
                _describe(node)
    return forward, backward


def _describe(node: torch.fx.Node) -> None:
    """Gives the node what PyTorch leaves out: of which line it is, and, if its results are no pair of state and numbers, what they are."""
    for user in node.users:
        if "stack_trace" not in node.meta and user.stack_trace:
            node.meta["stack_trace"] = user.stack_trace
    if node.target is run_with_rng_state and "val" not in node.meta:
        _, draw, *arguments = torch.fx.map_arg(node.args, lambda one: one.meta["val"])
        named = torch.fx.map_arg(node.kwargs, lambda one: one.meta["val"])
        mode = detect_fake_mode([*(one.meta.get("val") for one in node.all_input_nodes)])
        with mode or contextlib.nullcontext(), torch.no_grad():
            node.meta["val"] = draw(*arguments, **named)


def _device(arguments: Sequence[Any], named: Mapping[str, Any]) -> torch.device:
    found = named.get("device") or next((one.device for one in arguments if isinstance(one, torch.Tensor)), "cpu")
    return torch.device(found)


def _state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _draw_and_keep(draw: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[torch.Tensor, Any]:
    return _state(_device(arguments, named)), draw(*arguments, **named)


def _draw_with(state: torch.Tensor, draw: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    device = _device(arguments, named)
    before = _state(device)
    _set_state(device, state)
    try:
        return draw(*arguments, **named)
    finally:
        _set_state(device, before)


# For what PyTorch has, which reads the generator of the current GPU, whatever GPU the numbers are on.
FUNCTIONS: dict[Any, Callable[..., Any]] = {run_and_save_rng_state: _draw_and_keep, run_with_rng_state: _draw_with}
