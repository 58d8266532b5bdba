# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of the domain ai.onnx.ml against ONNX Runtime, and hostile models of them.

Each case is a node on rows of four features. All cases are one model, whose number of rows is symbolic.
"""
import json
import math

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

NAN = math.nan
FEATURES = 4
CASES = {}


def case(label, operator, inputs="x", outputs=1, rtol=1e-5, expected=None, version=3, **attributes):
    """A node. `expected` gives the results where ONNX Runtime's are not those of the specification."""
    assert label not in CASES, label
    CASES[label] = (operator, [inputs] if isinstance(inputs, str) else inputs, outputs, rtol, expected, version, attributes)


def forest(seed, trees, depth, modes=("BRANCH_LEQ",), outputs=1, complete=True, kind="target", missing=False, all_outputs=False, positive=False,
           second_only=False):
    """Attributes of random trees: about `depth` levels, leaves with a weight for one of the outputs or for all of them."""
    chosen = np.random.default_rng(seed)
    nodes = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                                   "missing_value_tracks_true")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, level, count):
        own = count[0]
        count[0] += 1
        at = len(nodes["nodeids"])
        is_leaf = level == depth or (not complete and level > 0 and chosen.random() < 0.3)
        # values that rows have, so that equality occurs
        entry = (tree, own, int(chosen.integers(FEATURES)), float(np.round(chosen.standard_normal() * 2) / 2),
                 "LEAF" if is_leaf else str(chosen.choice(modes)), 0, 0, int(missing and chosen.random() < 0.5))
        for name, one in zip(nodes, entry):
            nodes[name].append(one)
        if is_leaf:
            for output in range(outputs) if all_outputs else [1 if second_only else tree % outputs]:
                weight = float(chosen.standard_normal())
                for name, one in zip(leaves, (tree, own, output, abs(weight) if positive else weight)):
                    leaves[name].append(one)
            return own
        nodes["truenodeids"][at] = grow(tree, level + 1, count)
        nodes["falsenodeids"][at] = grow(tree, level + 1, count)
        return own

    for tree in range(trees):
        grow(tree, 0, [0])
    if not missing:
        del nodes["missing_value_tracks_true"]
    attributes = {f"nodes_{name}": values for name, values in nodes.items()}
    attributes |= {f"{kind}_{name}": values for name, values in leaves.items()}
    if kind == "target":
        attributes["n_targets"] = outputs
    return attributes


ALL_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def regressor(label, *arguments, post="NONE", aggregate="SUM", base=None, inputs="x", **options):
    attributes = forest(*arguments, **options) | ({"base_values": base} if base else {})
    case(f"trees_{label}", "TreeEnsembleRegressor", inputs, post_transform=post, aggregate_function=aggregate, **attributes)


def classifier(label, *arguments, labels=3, post="NONE", base=None, expected=None, classes=None, inputs="x", **options):
    attributes = forest(*arguments, kind="class", outputs=classes or labels, **options) | ({"base_values": base} if base else {})
    case(f"classes_{label}", "TreeEnsembleClassifier", inputs, outputs=2, rtol=1e-4, expected=expected, post_transform=post,
         classlabels_int64s=[10 * i + 7 for i in range(labels)], **attributes)


regressor("complete", 1, 20, 5)
regressor("one", 2, 1, 3)
regressor("one_leaf", 3, 3, 0)
regressor("nine", 4, 9, 4, base=[0.25])
regressor("uneven", 5, 17, 9, complete=False)
regressor("deep", 6, 2, 18, complete=False)
regressor("missing", 7, 10, 4, missing=True, inputs="holes")
regressor("missing_uneven", 8, 10, 9, missing=True, complete=False, inputs="holes")
for mode in ALL_MODES:
    regressor(mode, 9, 10, 4, modes=(mode,), inputs="holes")
regressor("modes", 10, 20, 5, modes=ALL_MODES, inputs="holes")
regressor("modes_missing", 11, 20, 8, modes=ALL_MODES, complete=False, missing=True, inputs="holes")
regressor("targets_of_trees", 12, 12, 4, outputs=3, base=[1.0, 2.0, 3.0])
regressor("targets_of_leaves", 13, 12, 4, outputs=11, all_outputs=True)
regressor("targets_uneven", 14, 7, 7, outputs=3, all_outputs=True, complete=False)
regressor("some_targets", 15, 5, 3, outputs=3)
for aggregate in ("AVERAGE", "MIN", "MAX"):
    regressor(aggregate, 16, 9, 4, aggregate=aggregate, base=[0.5])
    regressor(f"{aggregate}_targets", 17, 9, 4, outputs=2, all_outputs=True, aggregate=aggregate, base=[0.5, -1.0])
for post in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
    regressor(post, 18, 6, 3, outputs=3, all_outputs=True, post=post)
regressor("LOGISTIC_of_one", 19, 6, 3, post="LOGISTIC")
regressor("doubles", 20, 10, 4, inputs="doubles")
case("trees_of_doubles", "TreeEnsembleRegressor", "doubles", **{
    ("nodes_values_as_tensor" if name == "nodes_values" else "target_weights_as_tensor" if name == "target_weights" else name):
    (numpy_helper.from_array(np.array(values)) if name in ("nodes_values", "target_weights") else values)
    for name, values in forest(22, 10, 4).items()})
for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
    classifier(f"three_{post}", 30, 12, 4, post=post)
    classifier(f"two_{post}", 32, 12, 4, labels=2, classes=1, post=post)
    classifier(f"two_positive_{post}", 33, 3, 2, labels=2, classes=1, post=post, positive=True, base=[0.1])
classifier("of_leaves", 34, 12, 4, all_outputs=True, positive=True, base=[0.1, 0.2, 0.3])
classifier("integers", 21, 12, 4, inputs="integers")
classifier("second", 35, 6, 3, labels=2, second_only=True)
classifier("second_positive", 36, 3, 3, labels=2, second_only=True, positive=True, post="SOFTMAX")


def largest(labels):
    return lambda results: [np.array(labels)[results[1].argmax(1)], results[1]]


# ONNX Runtime's labels of this form are 0 and 1, whatever the class labels are; ONNX's reference chooses the larger score.
classifier("both", 37, 6, 3, labels=2, all_outputs=True, expected=largest([7, 17]))

LINEAR = np.round(np.random.default_rng(40).standard_normal((3, FEATURES)), 2)
for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
    case(f"linear_{post}", "LinearClassifier", outputs=2, coefficients=LINEAR.ravel(), intercepts=[0.1, -0.2, 0.3], post_transform=post,
         classlabels_ints=[5, 3, 9])
    case(f"linear_one_{post}", "LinearClassifier", outputs=2, coefficients=LINEAR[0], intercepts=[0.1], post_transform=post, classlabels_ints=[4, 2])
    case(f"linear_targets_{post}", "LinearRegressor", coefficients=LINEAR.ravel(), intercepts=[0.1, -0.2, 0.3], targets=3, post_transform=post)
case("linear_integers", "LinearClassifier", "integers", outputs=2, coefficients=LINEAR.ravel(), intercepts=[0.1, -0.2, 0.3],
     classlabels_ints=[0, 1, 2])
case("linear_target", "LinearRegressor", coefficients=LINEAR[0], intercepts=[0.5])
case("linear_PROBIT", "LinearRegressor", "fractions", coefficients=[1.0, 0, 0, 0], intercepts=[0.0], post_transform="PROBIT", rtol=1e-2)
VECTORS = np.round(np.random.default_rng(41).standard_normal((6, FEATURES)), 2)
WEIGHTS = np.round(np.random.default_rng(42).standard_normal((2, 6)), 2)
for kernel, degree in (("LINEAR", 1.0), ("POLY", 3.0), ("RBF", 1.0), ("SIGMOID", 1.0)):
    parameters = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, degree]}
    case(f"svm_{kernel}", "SVMRegressor", rtol=1e-4, coefficients=WEIGHTS[0], rho=[0.2], n_supports=6, support_vectors=VECTORS.ravel(), **parameters)
    case(f"svc_{kernel}", "SVMClassifier", outputs=2, rtol=1e-4, coefficients=WEIGHTS.ravel(), rho=[0.2, -0.1, 0.3], vectors_per_class=[3, 1, 2],
         support_vectors=VECTORS.ravel(), classlabels_ints=[5, 3, 9], **parameters)
    case(f"svc_two_{kernel}", "SVMClassifier", outputs=2, rtol=1e-4, coefficients=WEIGHTS[0], rho=[0.2], vectors_per_class=[4, 2],
         support_vectors=VECTORS.ravel(), classlabels_ints=[5, 3], post_transform="LOGISTIC" if degree == 3 else "NONE", **parameters)
    case(f"svc_probabilities_{kernel}", "SVMClassifier", outputs=2, rtol=1e-4, coefficients=WEIGHTS.ravel(), rho=[0.2, -0.1, 0.3], vectors_per_class=[3, 1, 2],
         support_vectors=VECTORS.ravel(), classlabels_ints=[5, 3, 9], prob_a=[-1.5, -0.7, -2.0], prob_b=[0.1, -0.3, 0.2], **parameters)
    case(f"svc_two_probabilities_{kernel}", "SVMClassifier", outputs=2, rtol=1e-4, coefficients=WEIGHTS[0], rho=[0.2], vectors_per_class=[4, 2],
         support_vectors=VECTORS.ravel(), classlabels_ints=[5, 3], prob_a=[-1.5], prob_b=[0.1], **parameters)
PLAIN = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
case("svm_linear", "SVMRegressor", **PLAIN, coefficients=LINEAR[0], rho=[0.2])
case("svm_one_class", "SVMRegressor", **PLAIN, coefficients=LINEAR[0], rho=[0.2], one_class=1)
case("svc_linear", "SVMClassifier", outputs=2, **PLAIN, coefficients=LINEAR.ravel(), rho=[0.2], classlabels_ints=[5, 3, 9])
case("svc_linear_two", "SVMClassifier", outputs=2, **PLAIN, coefficients=LINEAR[:2].ravel(), rho=[0.2], classlabels_ints=[5, 3])
case("scaler", "Scaler", offset=[0.5, 1.0, -1.0, 0.0], scale=[2.0, 1.0, 0.5, 3.0])
case("scaler_one", "Scaler", "integers", offset=[0.5], scale=[2.0])
case("scaler_doubles", "Scaler", "doubles", offset=[0.5], scale=[2.0])
for norm in ("MAX", "L1", "L2"):
    case(f"normalizer_{norm}", "Normalizer", "sparse", norm=norm)
case("normalizer_integers", "Normalizer", "integers", norm="L2")
case("imputer", "Imputer", "holes", imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=NAN)
case("imputer_one", "Imputer", "sparse", imputed_value_floats=[7.5], replaced_value_float=0.0)
case("imputer_integers", "Imputer", "integers", imputed_value_int64s=[1, 2, 3, 4], replaced_value_int64=2)
case("binarizer", "Binarizer", threshold=0.5)
case("binarizer_default", "Binarizer", "sparse")
case("extractor", "ArrayFeatureExtractor", ["x", np.array([[2, 0, 2]])])
case("extractor_integers", "ArrayFeatureExtractor", ["integers", np.array([3])])
case("vectorizer", "FeatureVectorizer", ["x", "x"], inputdimensions=[4, 4])
case("vectorizer_sizes", "FeatureVectorizer", ["x", "sparse"], inputdimensions=[2, 6])
case("one_hot", "OneHotEncoder", "integers", cats_int64s=[0, 3, 1])
case("one_hot_floats", "OneHotEncoder", "sparse", cats_int64s=[0, -1])
case("labels_integers", "LabelEncoder", "integers", keys_int64s=[0, 1, 3], values_int64s=[5, -6, 7], default_int64=100)
case("labels_to_floats", "LabelEncoder", "integers", keys_int64s=[0, 1, 3], values_floats=[5.5, -6.0, 7.0])
case("labels_floats", "LabelEncoder", "holes", keys_floats=[0.5, NAN, 0.5, -1.0], values_int64s=[1, 2, 3, 4])
case("labels_nan", "LabelEncoder", "holes", version=4, keys_floats=[0.5, NAN, 0.5], values_floats=[1.0, 2.0, 3.0])
case("labels_tensors", "LabelEncoder", "doubles", version=4, keys_tensor=numpy_helper.from_array(np.array([0.5, 1.0])),
     values_tensor=numpy_helper.from_array(np.array([1.5, 2.5])), default_tensor=numpy_helper.from_array(np.array([-0.25])))


def ensemble(post=0, aggregate=1, modes=(0, 4, 6), members=(1.0, 2.0, NAN), missing=None):
    """Two trees of TreeEnsemble, one with a shared leaf."""
    tensor = numpy_helper.from_array
    more = {"membership_values": tensor(np.array(members, np.float32))} if 6 in modes else {}
    if missing:
        more["nodes_missing_value_tracks_true"] = missing
    return dict(tree_roots=[0, 2], nodes_modes=tensor(np.array(modes, np.uint8)), nodes_featureids=[0, 1, 2],
                nodes_splits=tensor(np.array([0.5, 1.0, 0.0], np.float32)), nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1],
                nodes_falsenodeids=[1, 3, 0], nodes_falseleafs=[1, 1, 1], leaf_targetids=[0, 1, 0, 1],
                leaf_weights=tensor(np.array([1.5, -2.0, 0.5, 4.0], np.float32)), n_targets=2, post_transform=post, aggregate_function=aggregate,
                **more)


case("ensemble", "TreeEnsemble", "integral", version=5, **ensemble())
case("ensemble_modes", "TreeEnsemble", "integral", version=5, **ensemble(modes=(3, 5, 1)))
case("ensemble_members", "TreeEnsemble", "integral", version=5, **ensemble(modes=(6, 0, 6), members=(1.0, NAN, 0.0, 2.0, -1.0, NAN)))
case("ensemble_missing", "TreeEnsemble", "holes", version=5, **ensemble(modes=(0, 2, 4), missing=[1, 0, 1]))


def softmax_of_logits(results):
    """ONNX Runtime takes 1 for LOGISTIC; it is SOFTMAX."""
    scores = np.log(results[0]) - np.log1p(-results[0])
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    return [exponentials / exponentials.sum(1, keepdims=True)]


case("ensemble_softmax", "TreeEnsemble", "integral", version=5, rtol=1e-4, expected=softmax_of_logits, **ensemble(post=1))
for number, aggregate in ((0, "average"), (2, "minimum"), (3, "maximum")):
    case(f"ensemble_{aggregate}", "TreeEnsemble", "integral", version=5, **ensemble(aggregate=number))

TYPES = {"doubles": TensorProto.DOUBLE, "integers": TensorProto.INT64}
INPUTS = ("x", "holes", "doubles", "integers", "fractions", "sparse", "integral")


def inputs_of(rows):
    """Arrays of so many rows: halves, so that elements equal thresholds; with NaN; doubles; 0 to 3; 0 to 1; many zeros; whole numbers."""
    chosen = np.random.default_rng(rows)
    shape = (rows, FEATURES)
    halves = (np.round(chosen.standard_normal(shape) * 2) / 2).astype(np.float32)
    sparse = halves * (chosen.random(shape) < 0.4)
    return {"x": halves, "holes": np.where(chosen.random(shape) < 0.3, np.float32(NAN), halves), "doubles": halves.astype(np.float64),
            "integers": chosen.integers(0, 4, shape), "fractions": (0.01 + 0.98 * chosen.random(shape)).astype(np.float32),
            "sparse": sparse.astype(np.float32), "integral": np.round(halves * 2)}


def model_of(cases, version):
    nodes, constants, outputs = [], [], []
    for label, (operator, inputs, count, _, _, _, attributes) in cases.items():
        names = []
        for i, given in enumerate(inputs):
            names.append(given if isinstance(given, str) else f"{label}.{i}")
            if not isinstance(given, str):
                constants.append(numpy_helper.from_array(given, names[-1]))
        results = [f"{label}.out{i}" for i in range(count)]
        nodes.append(helper.make_node(operator, names, results, name=label, domain="ai.onnx.ml", **attributes))
        outputs += results
    used = [name for name in INPUTS if any(name in node.input for node in nodes)]
    inputs = [helper.make_tensor_value_info(name, TYPES.get(name, TensorProto.FLOAT), ["rows", FEATURES]) for name in used]
    graph = helper.make_graph(nodes, "learning", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs], constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, ir_version=9, opset_imports=imports), used


class LearningOperators(HeddleTestCase):
    def check(self, version):
        cases = {label: one for label, one in CASES.items() if one[5] == version}
        model, used = model_of(cases, version)
        path = self.folder / f"learning{version}.onnx"
        path.write_bytes(model.SerializeToString())
        module = self.compile(path)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        for rows in (1, 3, 41):
            inputs = {name: array for name, array in inputs_of(rows).items() if name in used}
            expected = dict(zip(names, session.run(None, inputs), strict=True))
            arguments = []
            for name, array in inputs.items():
                np.save(self.folder / f"{name}.npy", array)
                arguments += ["--input", f"{name}=@{self.folder / name}.npy"]
            for name in names:
                arguments += ["--output", f"{name}=@{self.folder / name}.npy"]
            self.succeed("run", module, *arguments)
            for label, (_, _, count, rtol, replaced, _, _) in cases.items():
                with self.subTest(label, rows=rows):
                    wanted = [expected[f"{label}.out{i}"] for i in range(count)]
                    if replaced:
                        wanted = replaced(wanted)
                    for i in range(count):
                        self.compare(np.load(self.folder / f"{label}.out{i}.npy"), wanted[i], rtol)

    def compare(self, got, expected, rtol):
        self.assertEqual((got.shape, got.dtype), (expected.shape, expected.dtype))
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=max(1e-5, rtol / 10))

    def test_trees_and_models(self):
        self.check(3)

    def test_label_encoder(self):
        self.check(4)

    def test_tree_ensemble(self):
        self.check(5)

    def test_trees_are_one_region(self):
        model, _ = model_of({"one": CASES["trees_complete"]}, 3)
        path = self.folder / "one.onnx"
        path.write_bytes(model.SerializeToString())
        explained = json.loads(self.succeed("explain", self.compile(path), "--format", "json").stdout)
        self.assertIn("walks", json.dumps(explained))

    # ------------------------------------------------------------------------------------------------------- hostile

    def refused(self, said, operator="TreeEnsembleRegressor", version=3, code=1, **attributes):
        one = (operator, ["x"], 1, 0, None, version, attributes)
        model, _ = model_of({"wrong": one}, version)
        path = self.folder / "wrong.onnx"
        path.write_bytes(model.SerializeToString())
        result = self.fail_with(code, "compile", path, "-o", self.folder / "wrong.heddle")
        self.assertIn("node 'wrong'", result.stderr)
        self.assertIn(said, result.stderr)

    def test_hostile_trees(self):
        good = forest(1, 2, 2)

        def wrong(said, **changed):
            with self.subTest(said):
                self.refused(said, **{**good, **changed})

        def with_one(name, at, one):
            values = list(good[name])
            values[at] = one
            return {name: values}

        wrong("is below itself", **with_one("nodes_truenodeids", 1, 0))
        wrong("is below itself", **with_one("nodes_falsenodeids", 1, 1))
        wrong("which does not exist", **with_one("nodes_truenodeids", 0, 99))
        wrong("which does not exist", **with_one("nodes_falsenodeids", 0, -5))
        wrong("attribute 'nodes_values' has 3 elements", nodes_values=[0.0, 1.0, 2.0])
        wrong("attribute 'nodes_modes' has 1 elements", nodes_modes=["LEAF"])
        wrong("none of BRANCH_LEQ", **with_one("nodes_modes", 0, "BRANCH_MAYBE"))
        wrong("is defined twice", **with_one("nodes_nodeids", 1, 0))
        wrong("tests feature 4", **with_one("nodes_featureids", 0, 4))
        wrong("tests feature -1", **with_one("nodes_featureids", 0, -1))
        wrong("a leaf is for target 7", **with_one("target_ids", 0, 7))
        wrong("a weight is for node 77 of tree 0", **with_one("target_nodeids", 0, 77))
        wrong("n_targets is 0", n_targets=0)
        wrong("n_targets is", n_targets=2**62)
        wrong("base_values", base_values=[1.0, 2.0])
        wrong("aggregate_function 'ALL'", aggregate_function="ALL")
        wrong("post_transform 'ALL'", post_transform="ALL")
        with self.subTest("no nodes"):
            self.refused("attribute 'nodes_treeids' must be a list of integers", n_targets=1)
        with self.subTest("a chain"):  # each node's true branch is the next node
            count = 300_000
            chain = dict(nodes_treeids=[0] * count, nodes_nodeids=list(range(count)), nodes_featureids=[0] * count, nodes_values=[0.0] * count,
                         nodes_modes=["BRANCH_LEQ"] * (count - 1) + ["LEAF"], nodes_truenodeids=[*range(1, count), 0],
                         nodes_falsenodeids=[*range(1, count), 0], target_treeids=[0], target_nodeids=[count - 1], target_ids=[0],
                         target_weights=[1.0], n_targets=1)
            chain["nodes_falsenodeids"][count - 2] = 0
            self.refused("is below itself", **chain)

    def test_hostile_ensembles(self):
        good = ensemble()
        for said, changed in (
            ("the root 9", {"tree_roots": [0, 9]}),
            ("names leaf 4", {"nodes_truenodeids": [1, 4, 2]}),
            ("names node 3", {"nodes_truenodeids": [3, 0, 2]}),
            ("is below itself", {"nodes_truenodeids": [0, 0, 2]}),
            ("no set for node", {"membership_values": numpy_helper.from_array(np.array([1.0], np.float32))}),
            ("has mode 9", {"nodes_modes": numpy_helper.from_array(np.array([0, 9, 6], np.uint8))}),
            ("'leaf_weights' has 1 elements", {"leaf_weights": numpy_helper.from_array(np.array([1.0], np.float32))}),
            ("post_transform is 5", {"post_transform": 5}),
        ):
            with self.subTest(said):
                self.refused(said, operator="TreeEnsemble", version=5, **{**good, **changed})

    def test_labels_of_strings(self):
        """Keys, values or both are strings; some are empty, longer than all keys, or begin with a key."""
        words = np.array([["abc", "", "ab"], ["abcdefghij", "äb", "b"]])
        numbers, doubles = np.array([3, 1, -2, 3]), np.array([0.5, NAN, 2.0], np.float32)
        kinds = {"S": TensorProto.STRING, "U": TensorProto.STRING, "i": TensorProto.INT64, "f": TensorProto.FLOAT}
        nodes, inputs, outputs = [], {"words": words, "numbers": numbers, "doubles": doubles}, []
        for i, (given, version, attributes) in enumerate((
            ("words", 2, {"keys_strings": ["ab", "b", "äb", "ab"], "values_int64s": [7, 8, 9, 10], "default_int64": 42}),
            ("words", 2, {"keys_strings": ["abc", ""], "values_floats": [1.5, 2.5], "default_float": -3.0}),
            ("words", 2, {"keys_strings": ["abc", "ab"], "values_strings": ["x", "longer than its key"], "default_string": "none"}),
            ("words", 4, {"keys_tensor": numpy_helper.from_array(np.array(["b", "abcdefghij"], object)), "values_tensor": numpy_helper.from_array(np.array([5, 6])),
                          "default_tensor": numpy_helper.from_array(np.array([-1]))}),
            ("numbers", 2, {"keys_int64s": [1, 3], "values_strings": ["one", "drei"]}),
            ("doubles", 4, {"keys_floats": [NAN, 0.5], "values_strings": ["nan", "half"], "default_string": ""}),
            ("words", 2, {"cats_strings": ["ab", "b", "äb"], "cats_int64s": [7, 8, 9], "default_int64": 42}),
            ("numbers", 2, {"cats_strings": ["one", "drei", "-2"], "cats_int64s": [1, 3, -2]}),
        )):
            operator = "CategoryMapper" if "cats_strings" in attributes else "LabelEncoder"
            output = "S" if "values_strings" in attributes or (given == "numbers" and operator == "CategoryMapper") else "f" if "values_floats" in attributes else "i"
            nodes.append((version, helper.make_node(operator, [given], [f"y{i}"], domain="ai.onnx.ml", **attributes)))
            outputs.append(helper.make_tensor_value_info(f"y{i}", kinds[output], None))
        for version in (2, 4):
            chosen = [(node, output) for (one, node), output in zip(nodes, outputs) if one == version]
            given = sorted({node.input[0] for node, _ in chosen})
            shapes = {"words": ["N", 3], "numbers": ["M"], "doubles": ["K"]}
            graph = helper.make_graph([node for node, _ in chosen], "labels", [helper.make_tensor_value_info(name, kinds[inputs[name].dtype.kind], shapes[name]) for name in given],
                                      [output for _, output in chosen])
            model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]).SerializeToString()
            wanted = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {name: inputs[name] for name in given})
            path = self.folder / f"labels{version}.onnx"
            path.write_bytes(model)
            arguments = []
            for name in given:
                array = inputs[name]
                np.save(self.folder / f"{name}.npy", np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array)
                arguments += ["--input", f"{name}=@{self.folder / name}.npy"]
            results = [self.folder / f"{output.name}.npy" for _, output in chosen]
            for result in results:
                arguments += ["--output", f"@{result}"]
            self.succeed("run", self.compile(path), *arguments)
            for result, expected in zip(results, wanted, strict=True):
                got = np.load(result)
                if expected.dtype == object:
                    got = got if got.dtype.kind == "S" else np.ascontiguousarray(got).view(f"S{got.shape[-1]}")[..., 0]
                    self.assertEqual(np.char.decode(got, "utf-8").tolist(), expected.tolist())
                else:
                    np.testing.assert_array_equal(got, expected)

    def test_hostile_models(self):
        vectors = {"vectors_per_class": [1, 1], "support_vectors": [1.0] * 8, "classlabels_ints": [1, 2], "rho": [0.0]}
        for said, operator, attributes in (
            ("not rows for 3", "LinearRegressor", {"coefficients": [1.0], "targets": 3}),
            ("3 targets and 1 intercepts", "LinearRegressor", {"coefficients": [1.0] * 12, "targets": 3, "intercepts": [1.0]}),
            ("features", "LinearRegressor", {"coefficients": [1.0] * 5}),
            ("2 labels and 3 intercepts", "LinearClassifier", {"coefficients": [1.0] * 12, "intercepts": [0.0] * 3, "classlabels_ints": [1, 2]}),
            ("3 coefficients", "SVMClassifier", {**vectors, "coefficients": [1.0] * 3}),
            ("vectors_per_class", "SVMClassifier", {**vectors, "coefficients": [1.0] * 2, "vectors_per_class": [3, -1]}),
            ("prob_a has 1 elements and prob_b 2", "SVMClassifier", {**vectors, "coefficients": [1.0] * 2, "prob_a": [1.0], "prob_b": [1.0] * 2}),
            ("post_transform SOFTMAX of probabilities", "SVMClassifier", {**vectors, "coefficients": [1.0] * 2, "prob_a": [1.0], "prob_b": [1.0],
                                                                          "post_transform": "SOFTMAX"}),
            ("kernel_type", "SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "support_vectors": [1.0] * 4,
                                             "kernel_type": "OWN"}),
            ("its keys have another type than its input", "LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}),
            ("2 keys and 1 values", "LabelEncoder", {"keys_floats": [1.0, 2.0], "values_int64s": [1]}),
            ("norm 'L3'", "Normalizer", {"norm": "L3"}),
            ("is for each feature", "Scaler", {"offset": [1.0, 2.0]}),
            ("1 inputs and 2 inputdimensions", "FeatureVectorizer", {"inputdimensions": [1, 2]}),
        ):
            with self.subTest(operator, said=said):
                self.refused(said, operator=operator, **attributes)

