# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators on lists of tensors, and the steps of optimizers that are one operator, as operators on single tensors."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

aten = torch.ops.aten

# The operator on one tensor has the name without "_foreach_", unless it is here.
_LISTS = ["abs", "add", "addcdiv", "addcmul", "ceil", "clamp_max", "clamp_min", "copy", "cos", "div", "erf", "exp", "expm1", "floor", "lerp", "log", "log1p",
          "maximum", "minimum", "mul", "neg", "norm", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "sub", "tanh", "trunc"]
_NAMED = {("maximum", "Scalar"): "clamp_min", ("maximum", "ScalarList"): "clamp_min", ("minimum", "Scalar"): "clamp_max",
          ("minimum", "ScalarList"): "clamp_max", ("norm", "Scalar"): "linalg_vector_norm"}


def _is_list(argument: Any) -> bool:
    return str(argument.type) in ("List[Tensor]", "List[number]", "List[float]", "List[int]", "List[Optional[Tensor]]")


def _for_each(overload: Any, one: Any) -> Callable[..., list[torch.Tensor]]:
    """The operator on lists as calls of `one`, each with an element of every list, and with what is no list."""
    arguments = overload._schema.arguments
    scales = {argument.name for argument in arguments if argument.name in ("scalars", "value")}

    def made(*given: Any, **named: Any) -> list[torch.Tensor]:
        values = {argument.name: given[i] if i < len(given) else named.get(argument.name, argument.default_value) for i, argument in enumerate(arguments)}
        results = []
        for i in range(len(next(values[argument.name] for argument in arguments if _is_list(argument)))):
            positional, keywords = [], {}
            for argument in arguments:
                value = values[argument.name]
                if _is_list(argument) or argument.name == "scalars":  # scalars may be a tensor, with a number for each
                    value = value[i]
                if argument.name == "alpha" or argument.name in scales and one in (aten.addcdiv, aten.addcmul):
                    keywords["alpha" if argument.name == "alpha" else "value"] = value
                elif argument.name == "dtype":
                    keywords["dtype"] = value
                else:
                    positional.append(value)
            if isinstance(keywords.get("value"), torch.Tensor):
                part = aten.mul(positional[1], positional[2]) if one is aten.addcmul else aten.div(positional[1], positional[2])
                results.append(aten.add(positional[0], aten.mul(part, keywords["value"])))
            else:
                results.append(one(*positional, **keywords))
        return results

    return made


def _sgd(parameters: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], momenta: Sequence[torch.Tensor | None], *, weight_decay: float, momentum: float,
         lr: Any, dampening: float, nesterov: bool, maximize: bool, is_first_step: bool, grad_scale: torch.Tensor | None = None,
         found_inf: torch.Tensor | None = None) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    new: tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]] = ([], [], [])
    for i, old in enumerate(parameters):
        given = gradients[i] if grad_scale is None else gradients[i] / grad_scale
        gradient = -given if maximize else given
        if weight_decay != 0:
            gradient = gradient + weight_decay * old
        if momentum != 0:
            before = momenta[i]
            assert before is not None
            kept = gradient if is_first_step else momentum * before + (1 - dampening) * gradient
            gradient = gradient + momentum * kept if nesterov else kept
            new[2].append(_unless(found_inf, before, kept))
        new[0].append(_unless(found_inf, old, old - lr * gradient))
        new[1].append(_unless(found_inf, gradients[i], given))
    return new


def _unless(found_inf: torch.Tensor | None, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return new if found_inf is None else torch.where(found_inf == 1, old, new)


def _adam(decoupled: bool) -> Callable[..., Any]:
    def step(parameters: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], first: Sequence[torch.Tensor], second: Sequence[torch.Tensor],
             largest: Sequence[torch.Tensor], steps: Sequence[torch.Tensor], *, lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float,
             amsgrad: bool, maximize: bool, grad_scale: torch.Tensor | None = None, found_inf: torch.Tensor | None = None) -> Any:
        new: tuple[list[torch.Tensor], ...] = ([], [], [], [], [])
        for i, old in enumerate(parameters):
            given = gradients[i] if grad_scale is None else gradients[i] / grad_scale
            gradient = -given if maximize else given
            value = old
            if weight_decay != 0 and decoupled:
                value = value * (1 - lr * weight_decay)
            elif weight_decay != 0:
                gradient = gradient + weight_decay * value
            mean = first[i] + (1 - beta1) * (gradient - first[i])
            square = beta2 * second[i] + (1 - beta2) * gradient * gradient
            size = lr / (1 - beta1 ** steps[i])
            root = torch.sqrt(1 - beta2 ** steps[i])
            most = torch.maximum(largest[i], square) if amsgrad else square
            value = value - size * mean / (torch.sqrt(most) / root + eps)
            results = [_unless(found_inf, old, value), _unless(found_inf, gradients[i], given), _unless(found_inf, first[i], mean), _unless(found_inf, second[i], square)]
            for group, one in zip(new, results):
                group.append(one)
            if amsgrad:
                new[4].append(_unless(found_inf, largest[i], most))
        return new

    return step


def decompositions() -> dict[Any, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = {}
    for name in _LISTS:
        packet = getattr(aten, "_foreach_" + name, None)
        for overload in packet.overloads() if packet is not None else []:
            if overload != "out" and not overload.endswith("_out"):
                function = getattr(packet, overload)
                table[function] = _for_each(function, getattr(aten, _NAMED.get((name, overload), name)))
    for name, made in (("_fused_sgd", _sgd), ("_fused_adam", _adam(False)), ("_fused_adamw", _adam(True))):
        packet = getattr(aten, name)
        for overload in ("default", "tensor_lr"):
            table[getattr(packet, overload)] = made
    return table
