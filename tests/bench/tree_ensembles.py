# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ensembles of decision trees: Heddle beside ONNX Runtime, in turns, in one process.

The usual case is 1,000 trees of depth 8. Each ensemble is one module, whose number of rows is symbolic. Random ones are complete; --trained ones are
scikit-learn's gradient boosting, whose trees are not complete. Prints a Markdown table: milliseconds of a call with all cores and with one, and the
ratio (below 1 is faster). Results are compared with ONNX Runtime's before they are timed.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper

import heddle_ctypes
import peers
import turns


def random_forest(trees, depth, features, targets):
    """Complete trees; a tree has leaves for one of the targets, as in gradient boosting."""
    chosen = np.random.default_rng(0)
    inner, leaves = 2**depth - 1, 2**depth
    size = inner + leaves
    numbers = np.arange(size)
    is_leaf = numbers >= inner
    attributes = {
        "nodes_treeids": np.repeat(np.arange(trees), size), "nodes_nodeids": np.tile(numbers, trees),
        "nodes_featureids": chosen.integers(0, features, trees * size),
        "nodes_values": chosen.standard_normal(trees * size).astype(np.float32) * 0.7,
        "nodes_modes": np.tile(np.where(is_leaf, "LEAF", "BRANCH_LEQ"), trees),
        "nodes_truenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 1), trees),
        "nodes_falsenodeids": np.tile(np.where(is_leaf, 0, 2 * numbers + 2), trees),
        "target_treeids": np.repeat(np.arange(trees), leaves), "target_nodeids": np.tile(numbers[inner:], trees),
        "target_ids": np.repeat(np.arange(trees) % targets, leaves), "target_weights": chosen.standard_normal(trees * leaves).astype(np.float32),
    }
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets,
                            **{name: values.tolist() for name, values in attributes.items()})
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", features])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", targets])])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)])


def trained(trees, depth, features):
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType
    from sklearn.ensemble import GradientBoostingRegressor
    chosen = np.random.default_rng(0)
    x = chosen.standard_normal((2000, features))
    model = GradientBoostingRegressor(n_estimators=trees, max_depth=depth, max_features=min(features, 5), subsample=0.7)
    model.fit(x, np.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * chosen.standard_normal(len(x)))
    return skl2onnx.to_onnx(model, initial_types=[("x", FloatTensorType([None, features]))], target_opset={"": 17, "ai.onnx.ml": 3})


def bench(model, folder, features, arguments):
    path, module = pathlib.Path(folder, "trees.onnx"), pathlib.Path(folder, "trees.heddle")
    path.write_bytes(model.SerializeToString())
    compile_s = peers.compile_network(str(heddle_ctypes.command_path()), path, module)
    opened = heddle_ctypes.Runtime(heddle_ctypes.one_core_config()).open(module)
    for rows in arguments.rows:
        x = np.random.default_rng(rows).standard_normal((rows, features)).astype(np.float32)
        inputs, (expected,) = peers.expected_of(path, x)
        contenders = {}
        for which, threads, device in (("all", turns.cores(), "cpu"), ("one", 1, "one")):
            contenders[f"Heddle {which}"], results = opened.instance(device).function().prepare(x)
            if not peers.agree(results[0].numpy(), expected):
                raise RuntimeError(f"{rows} rows, {which} cores: the result differs from ONNX Runtime's")
            contenders[f"ONNX Runtime {which}"] = peers.onnx_runtime_call(path, inputs, threads)
        medians = turns.measure(contenders, arguments.rounds, arguments.seconds)
        row = [f"{rows:,}", f"{compile_s:.2f}", f"{module.stat().st_size / 1e6:.1f}"]
        for which in ("all", "one"):
            pair = [f"Heddle {which}", f"ONNX Runtime {which}"]
            row += [f"{np.median(medians[one]) * 1e3:.3f}" for one in pair] + [f"{turns.ratio(medians, *pair):.2f}"]
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--targets", type=int, default=1, help="of random trees")
    parser.add_argument("--trained", action="store_true", help="gradient boosting on 2,000 rows instead of random trees; needs skl2onnx")
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 10_000])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each contender in each round")
    arguments = parser.parse_args()
    if arguments.trained:
        model = trained(arguments.trees, arguments.depth, arguments.features)
    else:
        model = random_forest(arguments.trees, arguments.depth, arguments.features, arguments.targets)
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        rows = list(bench(model, folder, arguments.features, arguments))
    kind = "trained" if arguments.trained else "random, complete"
    print(f"{turns.machine()}; {peers.versions()}; {arguments.trees:,} {kind} trees of depth {arguments.depth}, {arguments.features} features; "
          f"{arguments.rounds} rounds in turns, medians\n")
    headings = ["rows", "compile s", "file MB"]
    for which in (f"{turns.cores()} cores", "1 core"):
        headings += [f"{one} ms, {which}" for one in ("Heddle", "ONNX Runtime")] + ["ratio"]
    print(turns.table(headings, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
