# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.generation: steps of a small Llama against the same in NumPy, without a cache."""
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import heddle
import language_model
import models
import numpy as np
from heddle import generation
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

SHAPE = language_model.Shape(capacity=96)
WEIGHTS = language_model.weights(SHAPE)
PROMPT = [int(token) for token in np.random.default_rng(0).integers(0, SHAPE.vocabulary, 9)]
MOST = 16


def uniform(seed, position, row=0):
    """generation._Nodes.uniform"""
    mask = 2 ** 64 - 1
    z = seed * 0x9E3779B97F4A7C15 & mask
    for part in (position, row):
        z = (z + part + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        z ^= z >> 31
    return (z >> 40) * 2.0 ** -24


def drawn(logits, u, temperature, top_k, top_p):
    """The token, and how far the number is from one that draws another."""
    order = np.argsort(-logits, kind="stable")[:MOST]
    weights = np.exp((logits[order] - logits[order[0]]) / temperature)
    weights[top_k or MOST:] = 0
    before = np.cumsum(weights) - weights
    weights[1:][before[1:] >= top_p * weights.sum()] = 0
    up_to = np.cumsum(weights) / weights.sum()
    return int(order[min((up_to <= u).sum(), np.count_nonzero(weights) - 1)]), float(np.abs(up_to - u).min())


def likeliest(prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(language_model.logits(SHAPE, WEIGHTS, np.array(tokens))[-1].argmax()))
    return tokens[len(prompt):]


class Generation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        model = language_model.step_model(SHAPE, WEIGHTS)
        cls.path = heddle.compile(generation.with_sampling(model, most=MOST), models.FOLDER / "step.heddle")
        cls.module = heddle.open(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.module.close()

    def session(self, **options):
        return generation.Session(self.module, SHAPE.capacity, window=32, **options)

    def test_greedy(self):
        expected = likeliest(PROMPT, 60)
        for parts in ([9], [4, 5], [1] * 9):  # the prompt in one step, or in several
            with self.subTest(parts=parts), self.session() as session:
                begin = 0
                for size in parts[:-1]:
                    session.step([PROMPT[begin:begin + size]], temperature=np.zeros(1, "f4"), top_k=np.zeros(1, "i8"), top_p=np.ones(1, "f4"), seed=np.zeros(1, "i8"))
                    begin += size
                self.assertEqual(list(session.generate(PROMPT[begin:], 60)), expected)

    def test_sampled(self):
        for temperature, top_k, top_p in ((1.0, 0, 1.0), (0.7, 5, 1.0), (1.5, 0, 0.5), (0.3, 3, 0.8), (1.0, 1, 1.0), (1.0, 0, 0.0)):
            with self.subTest(temperature=temperature, top_k=top_k, top_p=top_p), self.session() as session:
                tokens = list(PROMPT)
                for token in session.generate(PROMPT, 12, temperature=temperature, top_k=top_k, top_p=top_p, seed=77):
                    logits = language_model.logits(SHAPE, WEIGHTS, np.array(tokens))[-1]
                    expected, distance = drawn(logits, uniform(77, len(tokens)), temperature, top_k, top_p)
                    if distance > 1e-4:
                        self.assertEqual(token, expected, f"after {len(tokens)} tokens")
                    tokens.append(token)

    def test_seeds_draw_all_tokens_by_their_share(self):
        logits = language_model.logits(SHAPE, WEIGHTS, np.array(PROMPT))[-1]
        order = np.argsort(-logits)[:4]
        shares = np.exp(logits[order] - logits[order].max())
        shares /= shares.sum()
        counts = dict.fromkeys(order.tolist(), 0)
        with self.session() as session:
            for seed in range(400):
                counts[next(session.generate(PROMPT, 1, temperature=1, top_k=4, seed=seed))] += 1
                session.rewind(0)
        for token, share in zip(order.tolist(), shares):
            self.assertLess(abs(counts[token] - 400 * share), 4.5 * math.sqrt(400 * share * (1 - share)) + 1)

    def test_sessions_of_one_module_take_turns(self):
        prompts = [PROMPT, PROMPT[:3], [7], list(reversed(PROMPT))]
        sessions = [self.session() for _ in prompts]
        found = [[] for _ in prompts]
        for tokens in zip(*(session.generate(prompt, 10) for session, prompt in zip(sessions, prompts))):
            for mine, token in zip(found, tokens):
                mine.append(token)
        for session in sessions:
            session.close()
        self.assertEqual(found, [likeliest(prompt, 10) for prompt in prompts])

    def test_rewound(self):
        with self.session() as session:
            first = list(session.generate(PROMPT, 20))
            session.rewind(len(PROMPT) - 1)
            self.assertEqual(list(session.generate(PROMPT[-1:], 20)), first)
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "it has 28"):
                session.rewind(29)

    def test_memory_is_flat(self):
        with self.session() as session:
            requested = []
            for _ in session.generate(PROMPT, SHAPE.capacity - len(PROMPT)):
                requested.append(self.module.memory()[0].requested)
        self.assertLessEqual(len(set(requested[1:31] + requested[40:])), 3)  # one for each window

    def test_caches_are_written_in_place(self):
        commands = self.module.report()["functions"][0]["programs"][0]["commands"]
        written = []
        for command in commands:
            globals_of = [(binding["index"], binding["access"]) for binding in command.get("bindings", []) if binding["value"] == "global"]
            for index in {index for index, access in globals_of if access != "read"}:
                self.assertEqual(command["command"], "dispatch")
                self.assertIn((index, "read"), globals_of)
                written.append(index)
        self.assertEqual(len(set(written)), 2 * SHAPE.layers)

    def test_scatters_update_state_in_place(self):
        start, random = np.zeros((5, 6), "f4"), np.random.default_rng(8)
        for operator, attributes, of_indices, of_updates in (("ScatterND", {}, [2, 1], [2, 6]), ("ScatterElements", {"axis": 1}, [5, 3], [5, 3]),
                                                             ("ScatterElements", {"axis": 0, "reduction": "add"}, [2, 6], [2, 6])):
            with self.subTest(operator=operator, **attributes):
                nodes = [helper.make_node(operator, ["s", "at", "x"], ["s1"], **attributes), helper.make_node("Neg", ["s1"], ["y"])]
                model = models.model_of(nodes, [models.value("s", start.shape), models.value("at", of_indices, TensorProto.INT64), models.value("x", of_updates)],
                                        [models.value("s1", start.shape), models.value("y", start.shape)])
                model.opset_import[0].version = 18
                reference, expected = ReferenceEvaluator(model), start
                with heddle.open(heddle.compile(model, models.FOLDER / "scatter.heddle", state={"s": "s1"})) as module:
                    for _ in range(3):
                        at = random.integers(0, of_indices[0] if attributes.get("axis") == 1 else 5, of_indices)
                        x = random.standard_normal(of_updates, np.float32)
                        expected, y = reference.run(None, {"s": expected, "at": at, "x": x})
                        np.testing.assert_allclose(module(at, x).numpy(), y, 1e-6)
                    commands = module.report()["functions"][0]["programs"][0]["commands"]
                self.assertEqual([command["command"] for command in commands].count("copy"), 0)

    def test_full_caches(self):
        with self.session() as session:
            self.assertEqual(len(list(session.generate(PROMPT, SHAPE.capacity - len(PROMPT) + 1))), SHAPE.capacity - len(PROMPT) + 1)
            with self.assertRaisesRegex(heddle.ResourceExhaustedError, "have 96 places, and 97 are needed"):
                list(session.generate([1], 1))
        with heddle.open(self.path) as module:  # and without the check of the session
            given = {"temperature": np.zeros(1, "f4"), "top_k": np.zeros(1, "i8"), "top_p": np.ones(1, "f4"), "seed": np.zeros(1, "i8")}
            with self.assertRaisesRegex(heddle.OutOfRangeError, "index 96 is outside"):
                module(tokens=np.zeros((1, 2), "i8"), past=np.full(1, SHAPE.capacity - 1), mask=np.ones((1, SHAPE.capacity), "i8"), **given)

    def test_greedy_of_several_rows(self):
        shape = language_model.Shape(capacity=96, batch=3)
        model = generation.with_sampling(language_model.step_model(shape, WEIGHTS), greedy=True)
        rows = [PROMPT[:5], PROMPT[1:6], PROMPT[4:9]]
        with heddle.open(heddle.compile(model, models.FOLDER / "rows.heddle")) as module, generation.Session(module, 96, batch=3) as session:
            found = np.array(list(session.generate(rows, 8))).T.tolist()
            self.assertEqual(found, [likeliest(row, 8) for row in rows])
            with self.assertRaisesRegex(heddle.FailedPreconditionError, "takes the likeliest token"):
                next(session.generate(rows, 1, temperature=1))

    def test_mistakes(self):
        model = language_model.step_model(SHAPE, WEIGHTS)
        with self.assertRaisesRegex(heddle.NotFoundError, "no output 'scores'; its outputs are logits, longer_keys_0"):
            generation.with_sampling(model, logits="scores")
        with self.assertRaisesRegex(heddle.InvalidArgumentError, r"vocabulary of 300 .* has \[1, 256\]"):
            generation.with_sampling(model, most=300)
        model.graph.input[1].name = "position"
        with self.assertRaisesRegex(heddle.NotFoundError, "no input 'past'; its inputs are tokens, position"):
            generation.with_sampling(model)
        with self.session() as session, self.assertRaisesRegex(heddle.InvalidArgumentError, r"\[batch, n\], got \[9\]"):
            session.step(PROMPT)

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_examples_write_the_same_text(self):
        source = pathlib.Path(os.environ.get("HEDDLE_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
        example, library, step = source / "sdk" / "examples", pathlib.Path(heddle.__file__).resolve().parents[2] / "lib", models.FOLDER / "text.heddle"
        beginning, count, folder = "The runtime ", 40, models.FOLDER / "examples"
        folder.mkdir()

        def run(*command):
            done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        python = run(sys.executable, "-B", example / "generate.py", beginning, "--count", count, "--temperature", 0)
        run(sys.executable, "-B", example / "generate.py", "--save", step)
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", example / "generate.c", "-I", source / "sdk" / "include", "-L", library, "-lheddle",
            f"-Wl,-rpath,{library}", "-o", models.FOLDER / "generate")
        self.assertEqual(run(models.FOLDER / "generate", step, 512, beginning, count, 0).strip(), python.strip())
        self.assertRegex(python, r"^The runtime [a-z]+ [a-z]+ ")


if __name__ == "__main__":
    unittest.main()
