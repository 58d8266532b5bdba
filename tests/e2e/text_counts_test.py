# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts whose tokens are counted, against ONNX Runtime: StringNormalizer, Tokenizer and TfIdfVectorizer, one behind the other."""
import itertools
import json
import random
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from heddle_command import HeddleTestCase

LETTERS = list("abcABXYZ_09 ,.-\täÄéÉжЖß漢字🙂")
TEXTS = ["", "a", "the cat, the Cat", "Äpfel äpfel ÄPFEL", "b1_c-dé 漢字é", "éa É", " \t", "ab" * 40, "a b a b a b c", "жук Жук ЖУК", "🙂🙂 a🙂"]


def texts(seed, count, longest=30):
    chosen = random.Random(seed)
    return TEXTS + ["".join(chosen.choice(LETTERS) for _ in range(chosen.randrange(longest))) for _ in range(count)]


def tokens_of(lines, tokenizer, action):
    """As ONNX Runtime has them, a list for each line."""
    model = counting(tokenizer, action, None, ["n"])
    rows = session(model).run(None, {"x": np.array(lines, object)})[0].reshape(len(lines), -1)
    return [[token for token in row if token != tokenizer.get("pad_value", "#")] for row in rows]


def counting(tokenizer, action, vectorizer, shape, flatten=True):
    nodes = []
    if action:
        nodes.append(helper.make_node("StringNormalizer", ["x"], ["normal"], case_change_action=action, locale="C.UTF-8"))
    nodes.append(helper.make_node("Tokenizer", ["normal" if action else "x"], ["tokens"], domain="com.microsoft", mark=0, **{"mincharnum": 1, "pad_value": "#", **tokenizer}))
    outputs = [helper.make_tensor_value_info("tokens", TensorProto.STRING, None)]
    if vectorizer:
        if flatten:
            nodes.append(helper.make_node("Flatten", ["tokens"], ["flat"]))
        nodes.append(helper.make_node("TfIdfVectorizer", ["flat" if flatten else "tokens"], ["y"], **vectorizer))
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "texts", [helper.make_tensor_value_info("x", TensorProto.STRING, shape)], outputs)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def pool_of(rows, shortest, longest, seed, most=60):
    """Attributes for some n-grams of the rows, and for some that no row has."""
    chosen, pool, counts = random.Random(seed), [], []
    for length in range(1, longest + 1):
        counts.append(len(pool))
        grams = {tuple(row[i:i + length]) for row in rows for i in range(len(row) - length + 1)} | {("nowhere",) * length}
        grams = sorted(grams)
        for gram in chosen.sample(grams, min(len(grams), most)) if length >= shortest else []:
            pool += gram
    number = sum((end - begin) // length for length, begin, end in zip(range(1, longest + 1), counts, counts[1:] + [len(pool)]))
    indexes = list(range(number))
    chosen.shuffle(indexes)
    return dict(pool_strings=pool, ngram_counts=counts, ngram_indexes=indexes, min_gram_length=shortest, max_gram_length=longest, max_skip_count=0, mode="TF")


class Counts(HeddleTestCase):
    def check(self, model, lines, is_direct=True):
        path = self.folder / "texts.onnx"
        path.write_bytes(model.SerializeToString())
        module, peer = self.compile(path), session(model)
        report = json.loads(self.succeed("explain", "--format", "json", module).stdout)["compiler_report"]
        self.assertEqual("tx.ngrams" in json.dumps(report), is_direct)
        rank = len(model.graph.input[0].type.tensor_type.shape.dim)
        for rows in (lines, lines[3:4], [""], ["", ""]):
            rows = np.array(rows, object).reshape(-1, *[1] * (rank - 1))
            expected = peer.run(None, {"x": rows})[0]
            np.save(self.folder / "x.npy", np.char.encode(rows.astype("U"), "utf-8"))
            self.succeed("run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--output", f"y=@{self.folder / 'y.npy'}")
            np.testing.assert_allclose(np.load(self.folder / "y.npy"), expected, rtol=1e-6)

    def test_tokens_and_lengths(self):
        forms = [dict(tokenexp=r"\w+"), dict(tokenexp="."), dict(tokenexp="[a-zA-Z0-9_]{2,}"), dict(tokenexp=r"[^\s,]+", mincharnum=3), dict(separators=[" ", "[,-]"])]
        lines = texts(1, 40)
        for (i, form), (shortest, longest), action in itertools.product(enumerate(forms), ((1, 1), (1, 2), (2, 3)), (None, "LOWER", "UPPER")):
            if (i + longest + len(action or "")) % 2:
                continue
            with self.subTest(form, longest=longest, action=action):
                vectorizer = pool_of(tokens_of(lines, form, action), shortest, longest, i)
                self.check(counting(form, action, vectorizer, ["n"]), lines)

    def test_modes(self):
        lines, form = texts(2, 20), dict(tokenexp=r"\w+")
        vectorizer = pool_of(tokens_of(lines, form, "LOWER"), 1, 2, 5)
        weights = np.random.default_rng(1).random(len(vectorizer["ngram_indexes"])).astype("f4").tolist()
        for mode, more in (("IDF", {}), ("IDF", {"weights": weights}), ("TFIDF", {"weights": weights}), ("TFIDF", {})):
            with self.subTest(mode, weights=bool(more)):
                self.check(counting(form, "LOWER", vectorizer | {"mode": mode} | more, ["n"]), lines)

    def test_what_needs_a_tensor_of_tokens(self):
        """A pad that is counted, tokens that are skipped, texts in columns, and tokens that something else reads."""
        lines, form = texts(3, 20), dict(tokenexp=r"\w+")
        vectorizer = pool_of(tokens_of(lines, form, None), 1, 2, 7)
        padded = vectorizer | {"pool_strings": ["a", "a", "b"], "ngram_counts": [0, 1], "ngram_indexes": [1, 0]}
        self.check(counting(form | {"pad_value": "a"}, None, padded, ["n"]), lines, is_direct=False)
        self.check(counting(form, None, vectorizer | {"max_skip_count": 1}, ["n"]), lines, is_direct=False)
        self.check(counting(form, None, vectorizer, ["n", 1]), lines)
        self.check(counting(form, None, vectorizer, ["n"], flatten=False), lines)
        both = counting(form, None, vectorizer, ["n"])
        both.graph.output.append(helper.make_tensor_value_info("tokens", TensorProto.STRING, None))
        path = self.folder / "both.onnx"
        path.write_bytes(both.SerializeToString())
        np.save(self.folder / "x.npy", np.char.encode(np.array(lines).astype("U"), "utf-8"))
        self.succeed("run", self.compile(path), "--input", f"x=@{self.folder / 'x.npy'}", "--output", f"y=@{self.folder / 'y.npy'}")
        np.testing.assert_allclose(np.load(self.folder / "y.npy"), session(both).run(["y"], {"x": np.array(lines, object)})[0])

    def test_many_words(self):
        chosen = random.Random(9)
        words = sorted({"".join(chosen.choice("abcdefghijklmnoéж") for _ in range(chosen.randrange(1, 9))) for _ in range(20000)})
        lines = [" ".join(chosen.choice(words) for _ in range(30)) for _ in range(50)] + [word + "x" for word in words[:50]]
        vectorizer = dict(pool_strings=words, ngram_counts=[0], ngram_indexes=list(range(len(words))), min_gram_length=1, max_gram_length=1, max_skip_count=0, mode="TF")
        self.check(counting(dict(separators=[" "]), None, vectorizer, ["n"]), lines)

    def test_bytes_that_are_no_text(self):
        """Any bytes give counts, without access outside of the tables."""
        lines = texts(4, 20)
        model = counting(dict(tokenexp="."), "LOWER", pool_of(tokens_of(lines, dict(tokenexp="."), "LOWER"), 1, 3, 3), ["n"])
        path = self.folder / "texts.onnx"
        path.write_bytes(model.SerializeToString())
        module = self.compile(path)
        np.save(self.folder / "x.npy", np.random.default_rng(1).integers(0, 256, (64, 40), np.uint8))
        self.succeed("run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--output", f"y=@{self.folder / 'y.npy'}")
        counts = np.load(self.folder / "y.npy")
        self.assertTrue(np.all((counts >= 0) & (counts <= 40) & (counts == np.round(counts))))

    def test_what_is_wrong_is_said_of_its_node(self):
        lines = texts(5, 5)
        vectorizer = pool_of(tokens_of(lines, dict(tokenexp="."), None), 1, 1, 3)
        for tokenizer, more, words in ((dict(tokenexp="ab+"), {}, ("Tokenizer", "'ab+' is not supported")), (dict(tokenexp="."), {"mode": "X"}, ("TfIdfVectorizer", "mode 'X'")),
                                       (dict(tokenexp=".", mark=1), {}, ("Tokenizer", "mark 1"))):
            form = {key: value for key, value in tokenizer.items() if key != "mark"}
            model = counting(form, None, vectorizer | more, ["n"])
            for attribute in model.graph.node[0].attribute:
                if attribute.name == "mark":
                    attribute.i = tokenizer.get("mark", 0)
            path = self.folder / "wrong.onnx"
            path.write_bytes(model.SerializeToString())
            with self.subTest(words):
                result = self.fail_with((1, 2), "compile", path, "-o", self.folder / "wrong.heddle")
                for word in words:
                    self.assertIn(word, result.stderr)


if __name__ == "__main__":
    unittest.main()
