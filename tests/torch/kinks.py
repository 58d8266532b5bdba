# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether gradients differ from those in f64 only since arguments of functions with a kink were rounded to its other side.

A ReLU's derivative is 0 or 1: where its argument is nearer to zero than f32 can tell, its sign is rounding's, and so is a large part of a gradient. Here
that is shown, or refuted, for a network and its inputs: the arguments of all such functions are computed in f64 and in f32. Candidates are those that
are at most NEAR times as far from a kink as the two differ anywhere in that call. `explain` looks for few candidates with which the network in f64, their
arguments moved to the other side, has the gradients in question. What it returns has been computed that way, for all gradients together.

The search adds one candidate after the other. What a candidate changes is, to first order, a vector over all parameters, the derivative of its argument
times a number; its product with what is left to be explained, for all candidates at once, is the change of the arguments if the parameters move that way,
and the vectors' lengths are estimated from moves in random ways. The best are tried, and one that leaves less is kept.

The functions are those of `POINTS`, maximum and minimum of two tensors, and two-dimensional max pooling, as modules, functions or methods.
"""
import collections.abc
import dataclasses

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

NEAR = 8  # times the largest difference between an argument in f32 and in f64 in the same call
PROBES = 8  # random moves, from which lengths are estimated
TRIES = 10  # of candidates, before nothing explains what is left
MOST = 40  # candidates on the other side


def value(arguments, named, position, name, default=None):
    return arguments[position] if len(arguments) > position else named.get(name, default)


def clamped(arguments, named):
    return [one for one in (value(arguments, named, 1, "min"), value(arguments, named, 2, "max")) if one is not None]


# Where an elementwise function of the first argument has its kinks, and the function that does not write to it.
POINTS = {"relu": (lambda arguments, named: [0], functional.relu), "relu6": (lambda arguments, named: [0, 6], functional.relu6),
          "leaky_relu": (lambda arguments, named: [0], functional.leaky_relu), "abs": (lambda arguments, named: [0], torch.abs),
          "hardtanh": (lambda arguments, named: [value(arguments, named, 1, "min_val", -1), value(arguments, named, 2, "max_val", 1)], functional.hardtanh),
          "hardsigmoid": (lambda arguments, named: [-3, 3], functional.hardsigmoid), "hardswish": (lambda arguments, named: [-3, 3], functional.hardswish),
          "clamp": (clamped, torch.clamp), "clip": (clamped, torch.clamp),
          "clamp_min": (lambda arguments, named: [value(arguments, named, 1, "min")], torch.clamp_min),
          "clamp_max": (lambda arguments, named: [value(arguments, named, 1, "max")], torch.clamp_max)}


@dataclasses.dataclass
class Call:
    """One call of a function with a kink. `argument` is what is near to it or not: for maximum and minimum, the difference of the two. Of each element
    of the flattened result, `margin` has the distance from the kink: argument[first] - argument[other] for a pool, else that of the argument's element.
    `slope` tells from indices and margins by how much the derivative for the margin differs on the other side."""
    name: str
    argument: torch.Tensor
    margin: torch.Tensor | None = None
    slope: collections.abc.Callable | None = None
    first: torch.Tensor | None = None
    other: torch.Tensor | None = None


def windows(given, arguments, named, shape):
    """The values in each window of a two-dimensional pool and their indices in the flattened input: two tensors of planes, members, windows."""
    def pair(position, name, default):
        found = value(arguments, named, position, name, default)
        return tuple(found) * (2 // len(found)) if isinstance(found, (tuple, list)) else (found, found)

    kernel = pair(1, "kernel_size", None)
    stride = pair(2, "stride", None)
    stride = kernel if stride in ((None, None), ()) else stride
    padding, dilation = pair(3, "padding", 0), pair(4, "dilation", 1)
    planes = given.reshape(-1, 1, *given.shape[-2:])
    indices = torch.arange(given.numel(), dtype=torch.float64, device=given.device).view_as(planes)  # exact, and unfolded as floats
    ends = [max(0, (shape[axis - 2] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1 - given.shape[axis - 2] - padding[axis]) for axis in (0, 1)]

    def unfolded(one, beside):
        padded = functional.pad(one, (padding[1], ends[1], padding[0], ends[0]), value=beside)
        return functional.unfold(padded, kernel, dilation, 0, stride)

    values, members = unfolded(planes, float("-inf")), unfolded(indices, 0.0)
    rows, columns = shape[-2:]
    across = (given.shape[-1] + padding[1] + ends[1] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    chosen = (torch.arange(rows, device=given.device)[:, None] * across + torch.arange(columns, device=given.device)).flatten()
    return values[..., chosen], members[..., chosen].long()


def is_number(one):
    return isinstance(one, (int, float))


def name_of(function):
    name = getattr(function, "__name__", "")
    name = name if name.startswith("__") else name.removesuffix("_")
    return {"__abs__": "abs", "absolute": "abs", "max_pool2d_with_indices": "max_pool2d"}.get(name, name)


def call_of(function, arguments, named, whole):
    """The call of a function with a kink, or None for one of another function. Only if `whole`, it has more than its name and argument."""
    name, given = name_of(function), arguments[0] if arguments else named.get("input")
    if not torch.is_tensor(given) or not given.is_floating_point() or not given.numel():
        return None
    given = given.detach()
    if name in POINTS:
        at = POINTS[name][0](arguments, named)
        if not at or not all(isinstance(one, (int, float)) for one in at):
            return None
        return elementwise(name, given, at, arguments, named) if whole else Call(name, given)
    second = value(arguments, named, 1, "other")
    if name in ("maximum", "minimum", "max", "min") and torch.is_tensor(second) and second.is_floating_point():
        sign, difference = -1 if name.startswith("max") else 1, given - second.detach()
        return Call(name, difference, difference.flatten(), lambda indices, margins: sign * margins.sign())
    if name == "max_pool2d" and given.dim() in (3, 4):
        return pooled(name, given, arguments, named) if whole else Call(name, given)
    return None


def elementwise(name, given, at, arguments, named):
    margins = torch.stack([given - one for one in at]).flatten(1)
    more = {key: one for key, one in named.items() if key not in ("inplace", "input")}
    given = given.clone()

    def slope(indices, margins):
        def derivative(one):
            with torch.enable_grad():
                one = one.clone().requires_grad_()
                return torch.autograd.grad(POINTS[name][1](one, *arguments[1:], **more).sum(), one)[0]

        near = given.flatten()[indices]
        return derivative(near - 2 * margins) - derivative(near)
    return Call(name, given, margins.gather(0, margins.abs().argmin(0, keepdim=True))[0], slope)


def pooled(name, given, arguments, named):
    shape = functional.max_pool2d(given, *arguments[1:], **{key: one for key, one in named.items() if key not in ("return_indices", "input")}).shape
    values, members = windows(given, arguments, named, shape)
    if values.shape[1] < 2:
        return None
    best = values.topk(2, dim=1)
    indices = members.gather(1, best.indices)
    return Call(name, given.clone(), (best.values[:, 1] - best.values[:, 0]).flatten(), lambda indices, margins: torch.ones_like(margins),
                indices[:, 1].flatten(), indices[:, 0].flatten())


class Calls(TorchFunctionMode):
    """Gives `seen` the number of each call of a function with a kink, the call, and its result. `moves` has pairs, by the call's number, of the index of
    an element of its first argument and what is added to it before."""

    def __init__(self, seen, moves=None, whole=False):
        super().__init__()
        self.seen, self.moves, self.whole, self.count = seen, moves or {}, whole, 0

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        call = call_of(function, arguments, named, self.whole)
        if call is None:
            return function(*arguments, **named)
        number, self.count = self.count, self.count + 1
        in_place = named.get("inplace") or function.__name__.endswith("_")
        if in_place:  # else this would be its result
            call.argument = call.argument.clone()
        if number in self.moves:
            given = arguments[0] if arguments else named["input"]
            move = torch.zeros_like(call.argument).flatten()
            for index, amount in self.moves[number]:
                move[index] += amount
            move = move.view(call.argument.shape)
            given = given.add_(move) if in_place else given + move
            arguments, named = ((given, *arguments[1:]), named) if arguments else (arguments, {**named, "input": given})
        result = function(*arguments, **named)
        self.seen(number, call, result)
        return result


@dataclasses.dataclass
class Side:
    """An argument that is on the other side of a kink: how far away from it, how far f32 was from f64 in this call, and the arguments' mean magnitude."""
    function: str
    distance: float
    error: float
    mean: float


def text_of(sides):
    """For example: 2 arguments of relu on the other side (at most 3.1e-08 from the kink; f32 errs by up to 2.0e-07 there; mean 4.4e-01)."""
    functions = ", ".join(sorted({one.function for one in sides}))
    farthest = max(sides, key=lambda one: one.distance)
    return (f"{len(sides)} arguments of {functions} on the other side (at most {farthest.distance:.1e} from the kink; f32 errs by up to "
            f"{farthest.error:.1e} there; mean {farthest.mean:.1e})")


class Kinks:
    """Of `exact`, a network in f64 for the inputs `doubled`, with the same network and inputs in f32. `gradients_of` gives the gradients of all of exact's
    parameters that require some, None for those that are not used, in a call without arguments."""

    def __init__(self, exact, doubled, single, inputs, gradients_of):
        self.exact, self.doubled, self.gradients_of = exact, doubled, gradients_of
        self.parameters = [one for one in exact.parameters() if one.requires_grad]
        calls, candidates = {}, {}
        with torch.no_grad(), Calls(lambda number, call, result: calls.__setitem__(number, call), whole=True):
            exact(*doubled)

        def compare(number, call, result):
            there = calls.get(number)
            if there is None or there.name != call.name or there.argument.shape != call.argument.shape:
                raise ValueError(f"kinks: call {number} is of {call.name} in f32 and of {there and there.name} in f64: the network must do the same in both")
            usual = there.argument.abs() < 1e30  # leaves out masks
            if not bool(usual.any()):
                return
            error = float((call.argument.double() - there.argument).abs()[usual].max())
            near = ((there.margin.abs() <= NEAR * error) & (there.margin != 0)).nonzero().flatten()
            if len(near):
                candidates[number] = (there, near, there.margin[near], error, float(there.argument.abs()[usual].mean()))

        with torch.no_grad(), Calls(compare):
            single(*inputs)
        self.candidates, self.start, self.squares, self.untouched = candidates, None, None, None
        self.slopes = self.joined({number: call.slope(near, margins) for number, (call, near, margins, _, _) in candidates.items()})
        for call, *_ in candidates.values():  # large, and no longer needed
            call.argument = call.slope = call.margin = None

    def __len__(self):
        return sum(len(near) for _, near, *_ in self.candidates.values())

    def joined(self, found):
        """One number for each candidate, from a tensor for each call."""
        return torch.cat([found[number] for number in self.candidates]) if self.candidates else torch.zeros(0, dtype=torch.float64)

    def located(self, index):
        """The call of a candidate, and its place among the call's."""
        for number, (_, near, *_) in self.candidates.items():
            if index < len(near):
                return number, index
            index -= len(near)
        raise IndexError(index)

    def sides(self, chosen):
        for one in chosen:
            number, place = self.located(one)
            call, _, margins, error, mean = self.candidates[number]
            yield Side(call.name, abs(float(margins[place])), error, mean)

    def with_sides(self, chosen):
        """The gradients with these candidates on the other side, and for each candidate the gradient of its function's result."""
        moves, factors = {}, {number: torch.zeros_like(margins) for number, (_, _, margins, _, _) in self.candidates.items()}
        for one in chosen:
            number, place = self.located(one)
            call, near, margins, *_ = self.candidates[number]
            index = near[place] if call.first is None else call.first[near[place]]
            moves.setdefault(number, []).append((index, -2 * margins[place]))

        def seen(number, call, result):
            result = result[0] if isinstance(result, tuple) else result
            if number in self.candidates and result.requires_grad:
                near = self.candidates[number][1]
                result.register_hook(lambda gradient: factors.__setitem__(number, gradient.detach().flatten()[near]))

        with Calls(seen, moves):
            gradients = self.gradients_of()
        return gradients, self.joined(factors)

    def arguments(self, direction=None, step=0.0):
        """Of all candidates, how far their argument is from the kink, with the parameters moved by `step` in a direction, if there is one."""
        found, old = {}, [one.data for one in self.parameters]

        def seen(number, call, result):
            if number in self.candidates:
                there, near, *_ = self.candidates[number]
                flat = call.argument.flatten()
                found[number] = flat[near] if there.first is None else flat[there.first[near]] - flat[there.other[near]]

        try:
            for one, move in zip(self.parameters, direction or [], strict=False):
                if move is not None:
                    one.data = one.data.add(move, alpha=step)
            with torch.no_grad(), Calls(seen):
                self.exact(*self.doubled)
        finally:
            for one, data in zip(self.parameters, old, strict=True):
                one.data = data
        return self.joined(found)

    def derivatives(self, direction):
        """Of the candidates' arguments, for the parameters in this direction: by a difference, which f64 is precise enough for."""
        sizes = [(float(parameter.detach().abs().max()) or 1.0, float(one.abs().max()))
                 for one, parameter in zip(direction, self.parameters, strict=True) if one is not None]
        step = 1e-7 * min(size / most for size, most in sizes if most)
        return (self.arguments(direction, step) - self.start) / step

    def squares_of(self, weights):
        """Of the lengths of the candidates' vectors for a gradient of 1, each parameter with its weight."""
        generator = torch.Generator(self.slopes.device).manual_seed(5)
        squares = torch.zeros_like(self.slopes)
        for _ in range(PROBES):
            squares += self.derivatives([weight if weight is None else weight * torch.randn(one.shape, generator=generator, dtype=one.dtype, device=one.device)
                                         for weight, one in zip(weights, self.parameters, strict=True)]) ** 2 / PROBES
        return squares

    def explain(self, got, within, scales):
        """The sides with which the gradients in f64 are `got` by `within` (of got and the gradients in f64; true or false), and those gradients; or None.
        `scales` has for each gradient the number that it is to be compared with, the same in all calls."""
        if not len(self):
            return None
        weights = [None if one is None else 1 / scale for one, scale in zip(got, scales, strict=True)]
        chosen, self.untouched = [], self.untouched or self.with_sides([])
        gradients, factors = self.untouched
        while not within(got, gradients):
            if len(chosen) == MOST:
                return None
            if self.start is None:
                self.start = self.arguments()
                self.squares = self.squares_of(weights)
            left = [None if one is None else one.double() - there for one, there in zip(got, gradients, strict=True)]
            length = self.length(left, weights)
            changes = self.slopes * factors
            products = changes * self.derivatives([None if one is None else one * weight ** 2 for one, weight in zip(left, weights, strict=True)])
            lengths = changes ** 2 * self.squares
            scores = torch.where((products > 0) & (lengths > 0), products ** 2 / lengths.clamp_min(1e-300), 0.0)
            scores[chosen] = 0
            for one in scores.argsort(descending=True)[:TRIES].tolist():
                if not float(scores[one]):
                    return None
                tried, its_factors = self.with_sides([*chosen, one])
                if self.length([None if a is None else a.double() - b for a, b in zip(got, tried, strict=True)], weights) < length:
                    chosen, gradients, factors = [*chosen, one], tried, its_factors
                    break
            else:
                return None
        return list(self.sides(chosen)), gradients

    @staticmethod
    def length(left, weights):
        return sum(float((one * weight).square().sum()) for one, weight in zip(left, weights, strict=True) if one is not None) ** 0.5

