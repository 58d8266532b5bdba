# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines of scikit-learn, converted by skl2onnx, against scikit-learn and ONNX Runtime. The number of rows is symbolic."""
import warnings

import numpy as np
import onnx
import onnxruntime
import skl2onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (ExtraTreesClassifier, GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier,
                              RandomForestRegressor)
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType

from heddle_command import HeddleTestCase

FEATURES = 8


def classes(count, **options):
    return make_classification(300, FEATURES, n_informative=6, n_redundant=1, n_classes=count, random_state=count, **options)


def values(targets=1):
    x, y = make_regression(300, FEATURES, n_targets=targets, noise=1, random_state=targets)
    return x, y / np.abs(y).max()


def with_holes(data):
    x, y = data
    x = x.copy()
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    return x, y


def with_categories(data):
    """The last two columns hold whole numbers."""
    x, y = data
    x = x.copy()
    x[:, -2:] = np.abs(np.round(x[:, -2:] * 1.5)).clip(0, 3)
    return x, y


columns = ColumnTransformer([("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(range(FEATURES - 2))),
                             ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [FEATURES - 2, FEATURES - 1])])
PIPELINES = {
    "scaled_logistic": (make_pipeline(StandardScaler(), LogisticRegression()), classes(2)),
    "imputed_logistic": (make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler(), LogisticRegression()), with_holes(classes(4))),
    "categories_and_boosting": (make_pipeline(columns, GradientBoostingClassifier(n_estimators=20, random_state=0)), with_categories(classes(3))),
    "forest_of_two_classes": (make_pipeline(MaxAbsScaler(), RandomForestClassifier(25, max_depth=6, random_state=0)), classes(2)),
    "extra_trees": (make_pipeline(ExtraTreesClassifier(20, random_state=0)), classes(5, n_clusters_per_class=1)),
    "support_vectors": (make_pipeline(StandardScaler(), SVC()), classes(3)),
    "probabilities_by_support_vectors": (make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)), classes(4, n_clusters_per_class=1)),
    "probabilities_of_two_classes": (make_pipeline(StandardScaler(), SVC(kernel="linear", probability=True, random_state=0)), classes(2)),
    "normalized_network": (make_pipeline(Normalizer(), MLPClassifier((16,), max_iter=80, random_state=0)), classes(3)),
    "boosted_regression": (make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=40, max_depth=5, random_state=0)), values()),
    "forest_of_targets": (make_pipeline(SimpleImputer(), RandomForestRegressor(15, random_state=0)), with_holes(values(3))),
    "support_vector_regression": (make_pipeline(StandardScaler(), SVR(kernel="poly", degree=2)), values()),
    "binarized_ridge": (make_pipeline(Binarizer(threshold=0.3), Ridge()), values(2)),
}


TEXTS = np.array(["The cat sat on the mat.", "a dog barked at the cat", "Stocks fell sharply today", "the market rose again!", "cats and dogs", "market news: stocks",
                  "Prices rose; stocks up", "my dog's mat", "", "a fox, a cat", "the bank's prices", "news of cats"], object)
KINDS = np.array([["red", "s"], ["blue", "m"], ["green", "l"], ["red", "xl"], ["blue", "l"], ["redder", "s"]] * 2, object)
TOPICS = np.array(["pets", "pets", "money", "money", "pets", "money", "money", "pets", "none", "pets", "money", "pets"])
PIPELINES |= {
    "texts": (make_pipeline(TfidfVectorizer(ngram_range=(1, 2), token_pattern="[a-zA-Z0-9_]+"), LogisticRegression()), (TEXTS, TOPICS)),
    "letters_and_bayes": (make_pipeline(CountVectorizer(analyzer="char"), MultinomialNB()), (TEXTS, TOPICS == "pets")),
    "categories_of_strings": (make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), RandomForestClassifier(4, random_state=0)), (KINDS, TOPICS)),
    "named_support_vectors": (make_pipeline(OrdinalEncoder(), SVC()), (KINDS, TOPICS)),
}


def sample(x):
    """The type that skl2onnx is told, for any number of rows."""
    return [("X", StringTensorType([None, *x.shape[1:]]))] if x.dtype == object else [("X", FloatTensorType([None, *x.shape[1:]]))]


def runtime(model):
    """ONNX Runtime, with a locale that every system has."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":
            node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def encoded(strings):
    return np.char.encode(strings.astype("U"), "utf-8")


class Pipelines(HeddleTestCase):
    def check(self, name):
        pipeline, (x, y) = PIPELINES[name]
        is_text = x.dtype == object
        x = x if is_text else x.astype(np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipeline.fit(x, y)
            is_classifier = hasattr(pipeline, "classes_")
            options = {"zipmap": False} if is_classifier else None
            model = skl2onnx.to_onnx(pipeline, initial_types=sample(x), options=options, target_opset={"": 18, "ai.onnx.ml": 3})
        path = self.folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        module = self.compile(path)
        session = runtime(model)
        names = [output.name for output in session.get_outputs()]
        for rows in (1, len(x)):
            expected = session.run(None, {"X": x[:rows]})
            np.save(self.folder / "x.npy", encoded(x[:rows]) if is_text else x[:rows])
            arguments = ["--input", f"X=@{self.folder / 'x.npy'}"]
            for i, output in enumerate(names):
                arguments += ["--output", f"{output}=@{self.folder / f'out{i}.npy'}"]
            self.succeed("run", module, *arguments)
            got = [np.load(self.folder / f"out{i}.npy") for i in range(len(names))]
            for i, (one, other) in enumerate(zip(got, expected, strict=True)):
                if other.dtype == object:
                    one = got[i] = np.char.decode(one.view(f"S{one.shape[-1]}")[..., 0] if one.dtype == np.uint8 else one, "utf-8")
                    np.testing.assert_array_equal(one, other.astype("U"))
                    continue
                self.assertEqual(one.shape, other.shape)
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
            predicted = pipeline.predict(x[:rows])
            if is_classifier:
                np.testing.assert_array_equal(got[0], predicted)
            else:
                np.testing.assert_allclose(got[0].reshape(predicted.shape), predicted, rtol=1e-3, atol=1e-3)


class Maps(HeddleTestCase):
    """Inputs that are maps: two vectors, of the keys and of the values."""

    def call(self, module, map_of, result):
        arguments = []
        for name, array in (("keys", list(map_of)), ("values", list(map_of.values()))):
            np.save(self.folder / f"{name}.npy", encoded(np.array(array)) if isinstance(array[0], str) else np.array(array, np.int64 if name == "keys" else np.float32))
            arguments += ["--input", f"X.{name}=@{self.folder / name}.npy"]
        self.succeed("run", module, *arguments, "--output", f"{result}=@{self.folder / 'out.npy'}")
        return np.load(self.folder / "out.npy")

    def compiled(self, model):
        path = self.folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return self.compile(path), onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def test_a_pipeline_with_dict_vectorizer(self):
        rows = [{"red": 1.0, "größe": 2.5}, {"größe": 3.0, "blue": 1.0}, {"red": 1.0}, {"green": 1.0, "größe": -1.0}, {"blue": 2.0}]
        pipeline = make_pipeline(DictVectorizer(sparse=False), LogisticRegression()).fit(rows, [0, 1, 0, 2, 1])
        model = skl2onnx.convert_sklearn(pipeline, initial_types=[("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))],
                                         options={id(pipeline): {"zipmap": False}}, target_opset={"": 18, "ai.onnx.ml": 3})
        module, session = self.compiled(model)
        for row in (*rows, {"unknown": 7.0, "größe": 0.5, "reddish": 1.0}):
            expected = session.run(["probabilities"], {"X": row})[0]
            np.testing.assert_allclose(self.call(module, row, "probabilities"), expected, rtol=1e-5)
            np.testing.assert_allclose(expected, pipeline.predict_proba([row]), rtol=1e-4)

    def of_node(self, key, **attributes):
        helper = onnx.helper
        element = onnx.TensorProto.INT64 if attributes.get("cast_to") == "TO_INT64" else onnx.TensorProto.FLOAT
        kind = helper.make_map_type_proto(key, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
        operator = "CastMap" if "map_form" in attributes else "DictVectorizer"
        graph = helper.make_graph([helper.make_node(operator, ["X"], ["y"], name="reader", domain="ai.onnx.ml", **attributes)], "maps", [helper.make_value_info("X", kind)],
                                  [helper.make_tensor_value_info("y", element, [1, None])])
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)])

    def test_integers_as_keys(self):
        rows = ({3: 1.5, -7: 2.0, 40: 0.25}, {0: 9.0}, {40: -1.0, 3: 3.0, 5: 5.0, 0: 1.0})
        for attributes in (dict(int64_vocabulary=[-7, 40, 3]), dict(map_form="DENSE", cast_to="TO_FLOAT"), dict(map_form="SPARSE", max_map=6, cast_to="TO_INT64")):
            module, session = self.compiled(self.of_node(onnx.TensorProto.INT64, **attributes))
            for row in rows:
                if "max_map" in attributes and -7 in row:
                    self.assertIn("takes no negative indices", self.fail_with(1, "run", module, "--input", "X.keys=i64[1]=-7", "--input", "X.values=f32[1]=1").stderr)
                    continue
                np.testing.assert_array_equal(self.call(module, row, "y"), session.run(None, {"X": row})[0])

    def test_what_is_refused_names_the_reason(self):
        helper, kinds = onnx.helper, onnx.TensorProto
        cases = {"are not": self.of_node(kinds.STRING, int64_vocabulary=[1]), "a key twice": self.of_node(kinds.INT64, int64_vocabulary=[1, 1]),
                 "have to be INT64": self.of_node(kinds.STRING, map_form="DENSE")}
        tensor = helper.make_tensor_type_proto(kinds.FLOAT, [2])
        listed = helper.make_sequence_type_proto(tensor)
        for said, kind in (("output 'other' is a map", helper.make_map_type_proto(kinds.INT64, tensor)), ("it is a sequence of sequences", helper.make_sequence_type_proto(listed)),
                           ("it is a sequence of maps", helper.make_sequence_type_proto(helper.make_map_type_proto(kinds.INT64, tensor))),
                           ("it is a sparse tensor", helper.make_sparse_tensor_type_proto(kinds.FLOAT, [2]))):
            cases[said] = self.of_node(kinds.INT64, int64_vocabulary=[1])
            graph = cases[said].graph
            graph.input.append(helper.make_value_info("other", kind))
            graph.output.append(helper.make_value_info("other", kind))
        for said, model in cases.items():
            path = self.folder / "refused.onnx"
            path.write_bytes(model.SerializeToString())
            error = self.fail_with(1, "compile", path, "-o", self.folder / "refused.heddle").stderr
            self.assertIn(said, error)
            self.assertTrue("node 'reader'" in error or "'other'" in error, error)


for label in PIPELINES:
    setattr(Pipelines, f"test_{label}", lambda self, label=label: self.check(label))
