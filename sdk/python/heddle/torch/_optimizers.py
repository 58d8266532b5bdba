# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators on lists of tensors, which optimizers use, as operators on single tensors."""
from __future__ import annotations

from typing import Any, Callable

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


def decompositions() -> dict[Any, Callable[..., Any]]:
    table: dict[Any, Callable[..., Any]] = {}
    for name in _LISTS:
        packet = getattr(aten, "_foreach_" + name, None)
        for overload in packet.overloads() if packet is not None else []:
            if overload != "out" and not overload.endswith("_out"):
                function = getattr(packet, overload)
                table[function] = _for_each(function, getattr(aten, _NAMED.get((name, overload), name)))
    return table
