# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs samples of PyTorch's own operator tests (OpInfo, f32) with heddle.torch, those of an operator as one graph, and prints for each operator how many
gave what PyTorch computes, were in a graph of which nodes ran in PyTorch, or were wrong.

    python3 -B tests/torch/operators_measured.py [--operators a,b] [--samples N] [--core] [--out results.json]

It needs PyTorch and the package expecttest. --core keeps operators that have a Core ATen operator of their name. The exit code is 1 if a result was wrong or missing.
"""
import argparse
import collections
import json
import sys
import warnings

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from heddle.torch._backend import _Compiled
from heddle.torch._decompositions import decompositions

warnings.simplefilter("ignore")


def core_names():
    names = set()
    for namespace in (torch.ops.aten,):
        for packet in dir(namespace):
            for overload in getattr(getattr(namespace, packet), "overloads", list)():
                if torch.Tag.core in getattr(getattr(namespace, packet), overload).tags:
                    names.add(packet.lstrip("_"))
    return names


def function_of(op, sample):
    """(function of tensors that gives a list of tensors, these tensors)"""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, one in enumerate(flat) if isinstance(one, torch.Tensor)]

    def function(*given):
        full = list(flat)
        for i, one in zip(places, given):
            full[i] = one
        value, arguments, keywords = pytree.tree_unflatten(full, spec)
        return [one for one in pytree.tree_leaves(op(value, *arguments, **keywords)) if isinstance(one, torch.Tensor)]

    return function, [flat[i].detach() for i in places]


def traced(function, tensors):
    return make_fx(torch.func.functionalize(function, remove="mutations"), decomposition_table=decompositions(), tracing_mode="fake")(*tensors)


def run(op, samples):
    """[(verdict, reason)] of the samples, which are one graph."""
    verdicts, kept = {}, []
    for i, sample in enumerate(samples):
        function, tensors = function_of(op, sample)
        try:
            torch.manual_seed(0)
            expected = function(*tensors)
        except Exception as failure:
            verdicts[i] = ("no expectation", str(failure)[:100])
            continue
        try:
            graph = traced(function, tensors)
        except Exception as failure:
            verdicts[i] = ("not traced", str(failure).splitlines()[0][:100] if str(failure) else type(failure).__name__)
            continue
        if not any(node.op == "call_function" for node in graph.graph.nodes):
            verdicts[i] = ("nothing to do", "")
            continue
        kept.append((i, function, tensors, expected))
    if not kept:
        return [verdicts[i] for i in range(len(samples))]

    def all_of_them(*given):
        results, start = [], 0
        for _, function, tensors, _ in kept:
            results += function(*given[start:start + len(tensors)])
            start += len(tensors)
        return results

    given = [one for _, _, tensors, _ in kept for one in tensors]
    try:
        compiled = _Compiled(traced(all_of_them, given), "inference")
        results = iter(compiled(list(given)))
    except Exception as failure:
        for i, *_ in kept:
            verdicts[i] = ("failed", f"{type(failure).__name__}: {str(failure)[:400]}")
        return [verdicts[i] for i in range(len(samples))]
    left = sorted({f"{one.operator}: {one.reason[:200]}" for one in compiled.record.fallbacks})
    for i, _, _, expected in kept:
        verdicts[i] = ("in PyTorch", ", ".join(left)) if left else ("right", "")
        for theirs in expected:
            try:
                torch.testing.assert_close(next(results), theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
            except AssertionError as wrong:
                verdicts[i] = ("wrong", " ".join(str(wrong).split())[:300])
    return [verdicts[i] for i in range(len(samples))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    wanted = set(options.operators.split(",")) if options.operators else None
    core = core_names() if options.core else None
    table, totals, operators = {}, collections.Counter(), collections.Counter()
    for op in op_db:
        aten_name = (op.aten_name or op.name).split(".")[-1].lstrip("_")
        if op.name.startswith(("rand", "empty", "new_empty")):  # no two calls give the same
            continue
        if (wanted and op.name not in wanted) or torch.float32 not in op.dtypes or (core and aten_name not in core):
            continue
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", torch.float32))
        except Exception:
            continue
        step = max(len(samples) // options.samples, 1)
        verdicts, reasons = collections.Counter(), {}
        with torch.no_grad():
            for verdict, reason in run(op, samples[::step][:options.samples]):
                verdicts[verdict] += 1
                if reason:
                    reasons.setdefault(verdict, reason)
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        table[name] = {"verdicts": dict(verdicts), "reasons": reasons}
        totals.update(verdicts)
        for verdict in ("wrong", "failed", "in PyTorch", "right"):
            if verdicts[verdict]:
                operators[verdict] += 1
                break
        if set(verdicts) - {"right", "nothing to do"}:
            print(f"{name}: {dict(verdicts)} {reasons}", flush=True)
    print(f"samples: {dict(totals)}\noperators, by their worst sample: {dict(operators)}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
    return 1 if totals["wrong"] or totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
