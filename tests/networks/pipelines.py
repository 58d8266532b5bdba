# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines of scikit-learn of usual sizes, as skl2onnx converts them, with a symbolic number of rows, for beside_peers.py.

    pipelines.py FOLDER [NAME ...] [--list]

Writes FOLDER/NAME.sklearn.onnx, and NAME.sklearn.npz with calls of 1,000 rows and of one: inputs and ONNX Runtime's outputs, of which the first is
compared with what scikit-learn predicts. Needs scikit-learn, skl2onnx and onnxruntime, which tools/dev/setup --tests installs.
"""
import argparse
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import skl2onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.ensemble import (ExtraTreesClassifier, GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier,
                              RandomForestRegressor)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR
from skl2onnx.common.data_types import FloatTensorType, StringTensorType

FEATURES, ROWS = 32, 2000
CALLS = 1000, 1  # rows


def classes(count):
    return make_classification(ROWS, FEATURES, n_informative=16, n_redundant=4, n_classes=count, random_state=count)


def values(targets=1):
    x, y = make_regression(ROWS, FEATURES, n_informative=16, n_targets=targets, noise=1, random_state=targets)
    return x, y / np.abs(y).max()


def with_holes(data):
    x, y = data
    x = x.copy()
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    return x, y


def with_categories(data):
    """The last eight columns hold whole numbers."""
    x, y = data
    x = x.copy()
    x[:, -8:] = np.abs(np.round(x[:, -8:] * 2)).clip(0, 9)
    return x, y


def texts():
    """Of 10 to 60 words from 2,000, of which some are of a topic. Words are lower-case letters, so that each is a token."""
    random = np.random.default_rng(2)
    words = np.unique(["".join(random.choice(list("abcdefghijklmnopqrstuvwxyz"), random.integers(2, 11))) for _ in range(2100)])[:2000]
    topics = random.integers(0, 4, ROWS)
    lines = [" ".join(words[np.where(random.random(count := random.integers(10, 61)) < 0.2, random.integers(0, 500, count) * 4 + topic, random.integers(0, 2000, count))])
             for topic in topics]
    return np.array(lines, object)[:, None], topics


def named_categories():
    """Eight columns of 12 names each."""
    random = np.random.default_rng(3)
    kinds = random.integers(0, 12, (ROWS, 8))
    names = np.array([f"{color} {size}" for color in ("red", "green", "blue") for size in ("small", "medium", "large", "very large")], object)
    return names[kinds], (kinds[:, 0] + kinds[:, 1]) % 3


def columns():
    return ColumnTransformer([("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(range(FEATURES - 8))),
                              ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), list(range(FEATURES - 8, FEATURES)))])


PIPELINES = {
    "scaled_logistic": lambda: (make_pipeline(StandardScaler(), LogisticRegression()), classes(2)),
    "imputed_logistic": lambda: (make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler(), LogisticRegression()), with_holes(classes(10))),
    "components_and_logistic": lambda: (make_pipeline(StandardScaler(), PCA(16), LogisticRegression()), classes(10)),
    "categories_and_boosting": lambda: (make_pipeline(columns(), GradientBoostingClassifier(n_estimators=100, random_state=0)), with_categories(classes(3))),
    "forest": lambda: (make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)), classes(4)),
    "extra_trees": lambda: (make_pipeline(ExtraTreesClassifier(100, max_depth=12, random_state=0)), classes(5)),
    "support_vectors": lambda: (make_pipeline(StandardScaler(), SVC(random_state=0)), classes(3)),
    "support_vector_probabilities": lambda: (make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)), classes(3)),
    "network": lambda: (make_pipeline(Normalizer(), MLPClassifier((128, 64), max_iter=30, random_state=0)), classes(10)),
    "boosted_regression": lambda: (make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=200, max_depth=5, random_state=0)), values()),
    "forest_of_targets": lambda: (make_pipeline(SimpleImputer(), RandomForestRegressor(100, max_depth=10, random_state=0)), with_holes(values(3))),
    "support_vector_regression": lambda: (make_pipeline(StandardScaler(), SVR()), values()),
    "polynomial_ridge": lambda: (make_pipeline(PolynomialFeatures(2), Ridge()), values(2)),
    "words_weighed": lambda: (make_pipeline(TfidfVectorizer(token_pattern="[a-zA-Z0-9_]+"), LogisticRegression()), texts()),
    "words_counted": lambda: (make_pipeline(CountVectorizer(ngram_range=(1, 2), max_features=4000, token_pattern="[a-zA-Z0-9_]+"), MultinomialNB()), texts()),
    "letters_counted": lambda: (make_pipeline(CountVectorizer(analyzer="char"), LogisticRegression(max_iter=500)), texts()),
    "named_categories": lambda: (make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), LogisticRegression()), named_categories()),
    "ordinals_and_forest": lambda: (make_pipeline(OrdinalEncoder(), RandomForestClassifier(50, max_depth=8, random_state=0)), named_categories()),
}


def export(name, folder):
    pipeline, (x, y) = PIPELINES[name]()
    is_text = x.dtype == object
    x = x if is_text else x.astype(np.float32)
    rows_of = lambda count: x[:count, 0] if is_text and x.shape[1] == 1 else x[:count]  # vectorizers of scikit-learn take a list of texts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(rows_of(ROWS), y)
        is_classifier = hasattr(pipeline, "classes_")
        types = [("X", (StringTensorType if is_text else FloatTensorType)([None, x.shape[1]]))]
        model = skl2onnx.to_onnx(pipeline, initial_types=types, options={"zipmap": False} if is_classifier else None, target_opset={"": 18, "ai.onnx.ml": 3})
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":  # a locale that every system has
            node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))
    path, arrays = folder / f"{name}.sklearn.onnx", {}
    path.write_bytes(model.SerializeToString())
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for rows in CALLS:
        results = session.run(None, {"X": x[:rows]})
        predicted = pipeline.predict(rows_of(rows))
        wrong = np.mean(results[0] != predicted) if is_classifier else np.mean(~np.isclose(results[0].reshape(predicted.shape), predicted, rtol=1e-3, atol=1e-3))
        if wrong > 0:
            print(f"{name}, {rows} rows: ONNX Runtime and scikit-learn differ in {100 * wrong:.1f} % of the predictions", flush=True)
        arrays[f"rows={rows}:in:X"] = x[:rows].astype("U") if is_text else x[:rows]
        arrays |= {f"rows={rows}:out:{output}": result for output, result in zip(names, results, strict=True)}
    np.savez(path.with_suffix(".npz"), **arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--list", action="store_true", help="print the names of the pipelines")
    arguments = parser.parse_args()
    if arguments.list or not arguments.folder:
        print("\n".join(PIPELINES))
        return 0 if arguments.list else 2
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or PIPELINES:
        if name not in PIPELINES:
            parser.error(f"there is no pipeline '{name}'; --list prints them")
        export(name, arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
