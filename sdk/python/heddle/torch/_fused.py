# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Updates of optimizers that Dynamo does not trace, as functions that it does: `fused=True` of SGD, Adam and AdamW, which PyTorch excludes from traces, and
`foreach=True` of the functions adam and adamw without capturable=True, for which the trace fails. While Dynamo traces for this backend, they are in the place
of PyTorch's. They compute what PyTorch's fused kernels compute, with the same state.

What is replaced here is private to PyTorch. Where a name is missing, PyTorch runs its own kernels, and a warning says so (_skipped.py).
"""
from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.optim import adam as _of_adam
from torch.optim import sgd as _of_sgd

from ._records import logger
from ._tracing import innermost

Number = Union[float, Tensor]


def _same(function: Any) -> Any:
    """The function as another object, in the place of which nothing is traced."""
    found = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    found.__kwdefaults__ = function.__kwdefaults__
    return found


_adam: Any = inspect.unwrap(_of_adam.adam)
_disabled_adam: Any = torch._disable_dynamo(_adam)
_foreach_adam: Any = _same(_of_adam._multi_tensor_adam)


def _wide(tensors: list[Tensor]) -> list[Tensor]:
    """As PyTorch's kernels compute."""
    return [one.float() if one.dtype in (torch.bfloat16, torch.float16) else one for one in tensors]


def _write(to: list[Tensor], values: list[Tensor], skip: Optional[Tensor]) -> None:
    if skip is not None:
        values = [torch.where(skip.to(old.device), old, new.to(old.dtype)) for old, new in zip(to, values)]
    torch._foreach_copy_(to, values)


def _unscaled(grads: list[Tensor], grad_scale: Optional[Tensor], skip: Optional[Tensor]) -> list[Tensor]:
    """Gradients, which are then without the scale of a GradScaler, as PyTorch's kernels leave them."""
    values = _wide(grads)
    if grad_scale is not None:
        scale = grad_scale.reshape(())
        values = [one / scale.to(one.device) for one in values]
        _write(grads, values, skip)
    return values


def _correction(beta: Number, steps: list[Tensor]) -> list[Tensor]:
    """1 - beta ** step, in f32 without the loss of digits of that difference."""
    if isinstance(beta, Tensor):
        return [1 - beta ** step for step in steps]
    if beta == 0:
        return [torch.ones_like(step) for step in steps]
    return list(torch._foreach_neg(torch._foreach_expm1(torch._foreach_mul(steps, math.log(beta)))))


def _update_adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
                 state_steps: list[Tensor], grad_scale: Optional[Tensor], found_inf: Optional[Tensor], *, amsgrad: bool, beta1: Number, beta2: Number,
                 lr: Number, weight_decay: float, eps: float, maximize: bool, decoupled_weight_decay: bool) -> None:
    skip = None if found_inf is None else found_inf.reshape(()) == 1
    gradients = _unscaled(grads, grad_scale, skip)
    torch._foreach_add_(state_steps, 1)
    values = _wide(params)
    steps = [step.to(device=one.device, dtype=one.dtype) for step, one in zip(state_steps, values)]
    if maximize:
        gradients = list(torch._foreach_neg(gradients))
    if weight_decay != 0 and decoupled_weight_decay:
        values = list(torch._foreach_mul(values, 1 - lr * weight_decay))
    elif weight_decay != 0:
        gradients = list(torch._foreach_add(gradients, values, alpha=weight_decay))
    first = torch._foreach_lerp(_wide(exp_avgs), gradients, 1 - beta1)
    second = torch._foreach_mul(_wide(exp_avg_sqs), beta2)
    second = torch._foreach_add(second, torch._foreach_mul(torch._foreach_mul(gradients, gradients), 1 - beta2))
    if amsgrad:
        largest = torch._foreach_maximum(_wide(max_exp_avg_sqs), second)
        _write(max_exp_avg_sqs, largest, skip)
        roots = torch._foreach_sqrt(largest)
    else:
        roots = torch._foreach_sqrt(second)
    sizes = torch._foreach_mul(torch._foreach_reciprocal(_correction(beta1, steps)), lr)
    divisors = torch._foreach_add(torch._foreach_div(roots, torch._foreach_sqrt(_correction(beta2, steps))), eps)
    changes = torch._foreach_div(torch._foreach_mul(first, sizes), divisors)
    _write(exp_avgs, first, skip)
    _write(exp_avg_sqs, second, skip)
    _write(params, torch._foreach_sub(values, changes), skip)
    if found_inf is not None:
        torch._foreach_sub_(state_steps, [found_inf.reshape(()).to(step.device) for step in state_steps])


def fused_adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
               state_steps: list[Tensor], grad_scale: Optional[Tensor], found_inf: Optional[Tensor], *, amsgrad: bool, has_complex: bool, beta1: Number,
               beta2: Number, lr: Number, weight_decay: float, eps: float, maximize: bool, capturable: bool, differentiable: bool,
               decoupled_weight_decay: bool) -> None:
    """In the place of torch.optim.adam._fused_adam."""
    if differentiable:
        raise RuntimeError("Adam with fused=True does not support differentiable=True")
    if params:
        _update_adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, grad_scale, found_inf, amsgrad=amsgrad, beta1=beta1, beta2=beta2,
                     lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize, decoupled_weight_decay=decoupled_weight_decay)


def foreach_adam(params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], max_exp_avg_sqs: list[Tensor],
                 state_steps: list[Tensor], grad_scale: Optional[Tensor], found_inf: Optional[Tensor], *, amsgrad: bool, has_complex: bool, beta1: Number,
                 beta2: Number, lr: Number, weight_decay: float, eps: float, maximize: bool, capturable: bool, differentiable: bool,
                 decoupled_weight_decay: bool) -> None:
    """In the place of torch.optim.adam._multi_tensor_adam, which gives an operator its numbers in a tensor if steps are not captured. The operator has no
    result for tensors without values."""
    if not params or capturable or differentiable or has_complex or any(isinstance(one, Tensor) for one in (grad_scale, found_inf, lr, beta1, beta2)):
        _foreach_adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, grad_scale, found_inf, amsgrad=amsgrad, has_complex=has_complex,
                      beta1=beta1, beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize, capturable=capturable,
                      differentiable=differentiable, decoupled_weight_decay=decoupled_weight_decay)
    else:
        _update_adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, None, None, amsgrad=amsgrad, beta1=beta1, beta2=beta2, lr=lr,
                     weight_decay=weight_decay, eps=eps, maximize=maximize, decoupled_weight_decay=decoupled_weight_decay)


def adam_of_device_steps(*args: Any, **kwargs: Any) -> None:
    """In the place of what torch.optim.adam.adam is for steps on a GPU without capturable=True, which the functions above can take."""
    if kwargs.get("fused") or kwargs.get("foreach"):
        _adam(*args, **kwargs)
    else:
        _disabled_adam(*args, **kwargs)


def fused_sgd(params: list[Tensor], grads: list[Tensor], momentum_buffer_list: list[Optional[Tensor]], grad_scale: Optional[Tensor],
              found_inf: Optional[Tensor], *, weight_decay: float, momentum: float, lr: Number, dampening: float, nesterov: bool, maximize: bool,
              has_sparse_grad: bool) -> None:
    """In the place of torch.optim.sgd._fused_sgd. If the first step is skipped, the momentum is zero, where PyTorch leaves it undefined."""
    if not params:
        return
    if has_sparse_grad:
        raise RuntimeError("`_fused_sgd` does not support sparse gradients")
    skip = None if found_inf is None else found_inf.reshape(()) == 1
    gradients = _unscaled(grads, grad_scale, skip)
    values = _wide(params)
    if maximize:
        gradients = list(torch._foreach_neg(gradients))
    if weight_decay != 0:
        gradients = list(torch._foreach_add(gradients, values, alpha=weight_decay))
    if momentum != 0:
        buffers = []
        skips = [None if skip is None else skip.to(one.device) for one in values]
        for i, gradient in enumerate(gradients):
            buffer = momentum_buffer_list[i]
            if buffer is None:
                new = gradient.detach().clone()
                momentum_buffer_list[i] = (new if skips[i] is None else torch.where(skips[i], torch.zeros_like(new), new)).to(grads[i].dtype)
            else:
                old = buffer.float() if buffer.dtype in (torch.bfloat16, torch.float16) else buffer
                new = old * momentum + gradient * (1 - dampening)
                buffer.copy_(new if skips[i] is None else torch.where(skips[i], old, new))
            buffers.append(new)
        gradients = list(torch._foreach_add(gradients, buffers, alpha=momentum)) if nesterov else buffers
    _write(params, torch._foreach_sub(values, torch._foreach_mul(gradients, lr)), skip)


_replaced: dict[int, tuple[Any, Callable[..., Any]]] = {}  # by address, which the object keeps while it is here


def _replace(function: Any, by: Callable[..., Any]) -> None:
    from torch._dynamo.variables.builder import VariableBuilder

    table = VariableBuilder._id_dispatch()
    if id(function) in table:
        return

    def build(builder: Any, value: Any) -> Any:
        """In the place of what Dynamo makes of `function`."""
        from ._backend import backend

        table.pop(id(value), None)  # Dynamo makes what it makes without this, with its guards
        try:
            variable = builder._wrap(value)
        finally:
            table[id(value)] = build
        if innermost(builder.tx.output.compiler_fn) is not backend:
            return variable
        from torch._dynamo.variables.base import VariableTracker

        return VariableTracker.build(builder.tx, by)

    _replaced[id(function)] = (function, by)
    table[id(function)] = build


@functools.lru_cache(maxsize=1)
def install() -> None:
    """Once in a process. Functions of other backends are traced as before."""
    try:
        from torch._dynamo.eval_frame import TorchPatcher

        TorchPatcher.patch()  # as torch.compile does; it excludes functions from traces by replacing them
        around = inspect.getclosurevars(_of_adam.adam).nonlocals
        _replace(_of_adam._fused_adam, fused_adam)
        _replace(_of_sgd._fused_sgd, fused_sgd)
        _replace(_of_adam._multi_tensor_adam, foreach_adam)
        _replace(around["disabled_func"], adam_of_device_steps)
    except Exception as wrong:
        logger.debug("fused optimizers are PyTorch's: %s", wrong)
