# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares samples of PyTorch's own operator tests (OpInfo) under torch.compile(backend="heddle") with eager mode: results, and gradients where an operator
has them. What differs is also run by PyTorch from the same graph, and from one without decompositions, which tells who is wrong.

    python3 -B tests/torch/operators_opinfo.py [--dtype float32] [--operators a,b.variant] [--samples N] [--no-gradients] [--dynamic] [--out results.json]

--out is written after each operator, and the operators that are in it already are not run again, so a run that was interrupted goes on where it was.
It needs PyTorch and the package expecttest. The exit code is 1 if a result was wrong, or if a compiled function failed.
"""
import argparse
import collections
import json
import multiprocessing
import os
import sys
import tempfile
import warnings

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

import heddle.torch
from heddle.torch._decompositions import DECOMPOSITIONS, as_operators


def without_seed(operator, *arguments, **keywords):
    """In the place of what sets the seed in samples of random operators, which Dynamo cannot trace. values() sets it."""
    return operator(*arguments, **keywords)


common_methods_invocations.wrapper_set_seed = without_seed
RIGHT, IN_PYTORCH, WRONG, FAILED, NOT_TRACED, NO_EXPECTATION = "right", "in PyTorch", "wrong", "failed", "not traced", "no expectation"
WORST = (WRONG, FAILED, NOT_TRACED, IN_PYTORCH, RIGHT, NO_EXPECTATION)
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-4, torch.float64: 1e-7}  # of the largest number of a result


def as_it_is(module, _):
    return module


def pytorch(decompositions):
    """The same graphs, run by PyTorch."""
    inner = aot_autograd(fw_compiler=as_it_is, bw_compiler=as_it_is, inference_compiler=as_it_is, decompositions=decompositions,
                         partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True)

    def backend(module, inputs):
        with as_operators():
            return inner(module, inputs)

    return backend


class Case:
    """A sample as a function of its tensors that gives a list of tensors."""

    def __init__(self, op, sample, gradients):
        self.op = op.op
        self.flat, self.spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.process = sample.output_process_fn_grad
        self.places = [i for i, one in enumerate(self.flat) if isinstance(one, torch.Tensor)]
        self.wants = [gradients and self.flat[i].requires_grad for i in self.places]

    def __call__(self, *given):
        full = list(self.flat)
        for i, one in zip(self.places, given):
            full[i] = one
        value, arguments, keywords = pytree.tree_unflatten(full, self.spec)
        made = self.process(self.op(value, *arguments, **keywords))
        return [one for one in pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]

    def tensors(self, dtype=None):
        def given(one, wants):
            one = one.detach().clone()
            if dtype is not None and one.is_floating_point():
                one = one.to(dtype)
            return one.requires_grad_(wants)

        return [given(self.flat[i], wants) for i, wants in zip(self.places, self.wants)]


def values(function, cases, dtype=None):
    """For each case its results, and the gradients of a sum of them with weights."""
    given = [case.tensors(dtype) for case in cases]
    torch.manual_seed(0)
    made = function([one for tensors in given for one in tensors])
    found = []
    for results, tensors in zip(made, given):
        torch.manual_seed(1)
        wanted = [one for one in tensors if one.requires_grad]
        sources = [one for one in results if one.requires_grad]
        weights = [torch.rand(one.shape, dtype=torch.float64).to(one.dtype) for one in sources]
        slopes = torch.autograd.grad(sources, wanted, weights, allow_unused=True) if wanted and sources else []
        found.append(([one.detach() for one in results], list(slopes)))
    return found


def together(cases):
    def function(given):
        made, start = [], 0
        for case in cases:
            made.append(case(*given[start:start + len(case.places)]))
            start += len(case.places)
        return made

    return function


def compiled(cases, backend, dynamic):
    torch._dynamo.reset()
    heddle.torch.clear()
    return torch.compile(together(cases), backend=backend, fullgraph=True, dynamic=dynamic)


def distance(one, other):
    """The largest difference, in parts of the largest number of the other."""
    one, other = one.double(), other.double()
    same = (one == other) | (one.isnan() & other.isnan())
    apart = torch.where(same, 0, (one - other).abs()).nan_to_num(torch.inf, torch.inf)
    largest = other[other.isfinite()].abs().max().item() if other.isfinite().any() else 0.0
    return (apart.max().item() if apart.numel() else 0.0) / max(largest, 1e-3)


def difference(case, ours, eager):
    """What is wrong with ours, or None. What is no farther from the results in f64 than eager mode is right."""
    for kind, mine, theirs in zip(("result", "gradient"), ours, eager):
        if len(mine) != len(theirs):
            return f"{len(mine)} {kind}s, and {len(theirs)} in eager mode"
        for i, (a, b) in enumerate(zip(mine, theirs)):
            if a is None or b is None:
                if (a is None or not a.any()) and (b is None or not b.any()):
                    continue
                return f"{kind} {i} is {'none' if a is None else 'there'}, and in eager mode it is not so"
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"{kind} {i} is {a.dtype} {tuple(a.shape)}, and {b.dtype} {tuple(b.shape)} in eager mode"
            if not a.dtype.is_floating_point:
                if not torch.equal(a, b) and not a.dtype.is_complex:
                    return f"{kind} {i} differs in {int((a != b).sum())} of {a.numel()} elements"
                if a.dtype.is_complex and not torch.allclose(a, b, 1e-4, 1e-4, equal_nan=True):
                    return f"{kind} {i} differs"
                continue
            apart = distance(a, b)
            if apart > TOLERANCE[a.dtype]:
                try:
                    exact = values(lambda given: [case(*given)], [case], torch.float64)[0][kind == "gradient"][i]
                    mine_off, theirs_off = distance(a, exact), distance(b, exact)
                    if mine_off <= max(2 * theirs_off, TOLERANCE[a.dtype]):
                        continue
                    more = f"; from f64, {mine_off:.3g}, and eager mode {theirs_off:.3g}"
                except Exception as wrong:
                    more = f"; no f64: {type(wrong).__name__}"
                return f"{kind} {i} differs by {apart:.3g}{more}"
    return None


def reason_of(failure):
    return f"{type(failure).__name__}: {' '.join(str(failure).split())[:120]}"


def is_of_pytorch(cases, backend, dynamic):
    """Whether PyTorch fails, too, with its own backend."""
    try:
        values(compiled(cases, backend, dynamic), cases)
    except Exception:
        return True
    return False


def who(case, eager, dynamic):
    for name, table in (("PyTorch without decompositions", {}), ("decompositions", DECOMPOSITIONS)):
        try:
            if difference(case, values(compiled([case], pytorch(table), dynamic), [case])[0], eager):
                return name
        except Exception as failure:
            return f"{name} ({reason_of(failure)[:80]})"
    return "heddle"


def run(cases, eager, dynamic):
    """[(verdict, reason)] of the cases, which are one graph."""
    try:
        found = values(compiled(cases, heddle.torch.backend, dynamic), cases)
    except Exception as failure:
        if len(cases) > 1:
            return [run([case], [one], dynamic)[0] for case, one in zip(cases, eager)]
        return [(NOT_TRACED if is_of_pytorch(cases, pytorch({}), dynamic) else FAILED, reason_of(failure))]
    left = sorted({f"{one.operator}: {one.reason[:200]}" for graph in heddle.torch.graphs() for one in graph.fallbacks})
    verdicts = [(IN_PYTORCH, ", ".join(left)) if left else (RIGHT, "") for _ in cases]
    for i, (case, ours, theirs) in enumerate(zip(cases, found, eager)):
        if (wrong := difference(case, ours, theirs)) and len(cases) > 1:  # as one graph, others draw random numbers before it
            verdicts[i] = run([case], [theirs], dynamic)[0]
        elif wrong:
            verdicts[i] = (WRONG, f"{wrong}, by {who(case, theirs, dynamic)}: {describe(case)}"[:600])
    return verdicts


def describe(case):
    value, arguments, keywords = pytree.tree_unflatten(
        [f"{str(one.dtype)[6:]}{list(one.shape)}" if isinstance(one, torch.Tensor) else one for one in case.flat], case.spec)
    return f"{value} {arguments} {keywords}"


def measure(op, dtype, options):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    gradients = not options.no_gradients and dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    step = max(len(samples) // options.samples, 1)
    cases, eager, verdicts = [], [], []
    for sample in samples[::step][:options.samples]:
        try:
            case = Case(op, sample, gradients)
            first, second = (values(lambda given: [case(*given)], [case])[0] for _ in range(2))
            if difference(case, first, second) or not first[0]:
                verdicts.append((NO_EXPECTATION, "two calls differ, or there is no result"))
                continue
            cases.append(case)
            eager.append(first)
        except Exception as failure:
            verdicts.append((NO_EXPECTATION, reason_of(failure)))
    verdicts += run(cases, eager, options.dynamic) if cases else []
    return verdicts


def measured(op, dtype, options, queue):
    os.environ["HEDDLE_TORCH_KEEP_TRACES"] = "0"
    try:
        queue.put(measure(op, dtype, options))
    except Exception as failure:
        queue.put([(NO_EXPECTATION, reason_of(failure))])


def in_process(op, dtype, options):
    """An operator that ends the process, or takes too long, is one that failed."""
    queue = multiprocessing.get_context("fork").SimpleQueue()
    process = multiprocessing.get_context("fork").Process(target=measured, args=(op, dtype, options, queue))
    process.start()
    process.join(options.seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return [(FAILED, f"it takes more than {options.seconds} seconds")]
    return queue.get() if process.exitcode == 0 and not queue.empty() else [(FAILED, f"the process ended with {process.exitcode}")]


def settings(options):
    return {"dtype": options.dtype, "samples": options.samples, "gradients": not options.no_gradients, "dynamic": bool(options.dynamic)}


def before(options):
    """What an interrupted run has written."""
    if not options.out or not os.path.exists(options.out):
        return {}
    with open(options.out, encoding="utf-8") as file:
        found = json.load(file)
    operators = found.pop("operators", {}) if isinstance(found, dict) else {}
    if found != settings(options):
        sys.exit(f"operators_opinfo: {options.out} is of a run with {found}, and this one has {settings(options)}; give --out another name")
    return operators


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--operators")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--dynamic", action="store_true", default=None)
    parser.add_argument("--out")
    options = parser.parse_args()
    wanted = set(options.operators.split(",")) if options.operators else None
    dtype = getattr(torch, options.dtype)
    table = before(options)
    torch.compile(torch.sin, backend=pytorch({}))(torch.ones(2))  # imports what each of the processes would import otherwise
    for at, op in enumerate(common_methods_invocations.op_db):
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if (wanted and not wanted & {op.name, name}) or dtype not in op.supported_dtypes("cpu") or op.name.startswith(("empty", "new_empty")):
            continue
        if name in table:
            continue
        found = in_process(op, dtype, options)
        print(f"{at + 1} of {len(common_methods_invocations.op_db)}: {name}", end="\033[K\r", file=sys.stderr, flush=True)
        verdicts = collections.Counter(verdict for verdict, _ in found)
        reasons = {verdict: [reason for one, reason in found if one == verdict and reason][:3] for verdict in verdicts}
        table[name] = {"verdicts": dict(verdicts), "reasons": reasons}
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(settings(options) | {"operators": table}, file, indent=1)
        if set(verdicts) - {RIGHT}:
            print(f"{name}: {dict(verdicts)} { {one: reason for one, reason in reasons.items() if reason} }", flush=True)
    totals, operators = collections.Counter(), collections.Counter()
    for one in table.values():
        totals.update(one["verdicts"])
        operators[next((verdict for verdict in WORST if verdict in one["verdicts"]), NO_EXPECTATION)] += 1
    print(f"samples: {dict(totals)}\noperators, by their worst sample: {dict(operators)}")
    return 1 if totals[WRONG] or totals[FAILED] else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="heddle-opinfo-") as folder:
        os.environ.setdefault("HEDDLE_TORCH_CACHE", folder)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "graphs"))
        sys.exit(main())
