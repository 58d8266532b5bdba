# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs samples of PyTorch's own operator tests (OpInfo, f32) with heddle.torch, and prints for each operator how many gave what PyTorch computes, ran in
PyTorch in part, or were wrong.

    python3 -B tests/torch/operators_measured.py [--operators a,b] [--samples N] [--core] [--out results.json]

It needs PyTorch. --core keeps operators that have a Core ATen
operator of their name. The exit code is 1 if a result was wrong.
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


def run(op, sample):
    """(verdict, reason)"""
    flat, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, one in enumerate(flat) if isinstance(one, torch.Tensor)]
    tensors = [flat[i].detach() for i in places]

    def function(*given):
        full = list(flat)
        for i, one in zip(places, given):
            full[i] = one
        value, arguments, keywords = pytree.tree_unflatten(full, spec)
        return [one for one in pytree.tree_leaves(op(value, *arguments, **keywords)) if isinstance(one, torch.Tensor)]

    with torch.no_grad():
        expected = function(*tensors)
        try:
            graph = make_fx(torch.func.functionalize(function, remove="mutations_and_views"), decomposition_table=decompositions(), tracing_mode="fake")(*tensors)
        except Exception as failure:
            return "not traced", str(failure).splitlines()[0][:100]
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        if not calls:
            return "nothing to do", ""
        try:
            compiled = _Compiled(graph, "inference")
            results = compiled(list(tensors))
        except Exception as failure:
            return "failed", f"{type(failure).__name__}: {str(failure)[:300]}"
        for ours, theirs in zip(results, expected):
            try:
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
            except AssertionError as wrong:
                return "wrong", " ".join(str(wrong).split())[:300]
        left = compiled.record.fallbacks
        return ("in PyTorch", ", ".join(sorted({f"{one.operator}: {one.reason}" for one in left}))[:300]) if left else ("right", "")


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
        if (wanted and op.name not in wanted) or torch.float32 not in op.dtypes or (core and aten_name not in core):
            continue
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", torch.float32))
        except Exception:
            continue
        step = max(len(samples) // options.samples, 1)
        verdicts, reasons = collections.Counter(), {}
        for sample in samples[::step][:options.samples]:
            torch.manual_seed(0)
            try:
                verdict, reason = run(op, sample)
            except Exception as failure:
                verdict, reason = "no expectation", str(failure)[:100]
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
