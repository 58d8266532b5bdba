# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""State: functions that keep values between calls, and states of one module that are independent of each other."""
import gc
import threading
import unittest
import weakref

import heddle
import models
import numpy as np
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)
SIZE = 256
WEIGHTS = RANDOM.standard_normal((SIZE, SIZE), np.float32) / 16


def array(*shape):
    return RANDOM.standard_normal(shape, np.float32)


def recurrent():
    """h1 = tanh(h w + the sum of x's rows), y = x and below it h1: the state comes first in the model, and y has a computed extent."""
    nodes = [helper.make_node("MatMul", ["h", "w"], ["p"]), helper.make_node("ReduceSum", ["x", "zero"], ["r"], keepdims=1),
             helper.make_node("Add", ["p", "r"], ["q"]), helper.make_node("Tanh", ["q"], ["h1"]), helper.make_node("Concat", ["x", "h1"], ["y"], axis=0)]
    inputs = [models.value("h", [1, SIZE]), models.value("x", ["n", SIZE])]
    model = models.model_of(nodes, inputs, [models.value("h1", [1, SIZE]), models.value("y", ["m", SIZE])])
    model.graph.initializer.extend([numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.zeros(1, "i8"), "zero")])
    return model


def counter():
    """n1 = n + 1, count = n: the old value is returned."""
    nodes = [helper.make_node("Add", ["n", "one"], ["n1"]), helper.make_node("Identity", ["n"], ["count"])]
    model = models.model_of(nodes, [models.value("n", [1], TensorProto.INT64)],
                            [models.value("count", [1], TensorProto.INT64), models.value("n1", [1], TensorProto.INT64)])
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, "i8"), "one"))
    return model


# Name, nodes, states, other outputs. All values are 8 x 8, and x is the only other input.
CASES = [
    ("average", [("Mul", ["s", "half"], ["h"]), ("Add", ["h", "x"], ["s1"]), ("Identity", ["s1"], ["y"])], {"s": "s1"}, ["y"]),
    ("product", [("MatMul", ["s", "x"], ["p"]), ("Add", ["p", "x"], ["s1"]), ("Exp", ["s1"], ["y"])], {"s": "s1"}, ["y"]),
    ("read_later", [("Add", ["s", "x"], ["s1"]), ("MatMul", ["s", "s1"], ["y"])], {"s": "s1"}, ["y"]),
    ("swapped", [("Identity", ["a"], ["b1"]), ("Add", ["b", "x"], ["a1"]), ("Sub", ["a", "b"], ["y"])], {"a": "a1", "b": "b1"}, ["y"]),
    ("kept", [("Identity", ["s"], ["s1"]), ("Add", ["s", "x"], ["y"])], {"s": "s1"}, ["y"]),
    ("replaced", [("Identity", ["x"], ["s1"]), ("Sub", ["x", "s"], ["y"])], {"s": "s1"}, ["y"]),
    ("unread", [("Add", ["x", "x"], ["s1"]), ("Identity", ["s1"], ["y"])], {"s": "s1"}, ["y"]),
    ("both", [("Add", ["a", "x"], ["b1"]), ("Sub", ["x", "b"], ["a1"]), ("Add", ["a1", "b1"], ["y"])], {"a": "a1", "b": "b1"}, ["y"]),
    ("softmax", [("Softmax", ["s"], ["p"]), ("Add", ["p", "x"], ["s1"]), ("Identity", ["s"], ["y"])], {"s": "s1"}, ["y"]),
]


def case(nodes, states, outputs):
    model = models.model_of([helper.make_node(*node) for node in nodes], [models.value(name, [8, 8]) for name in (*states, "x")],
                            [models.value(name, [8, 8]) for name in (*states.values(), *outputs)])
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, "f4"), "half"))
    return model


class State(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = heddle.compile(recurrent(), models.FOLDER / "recurrent.heddle", state={"h": "h1"})
        cls.counter = heddle.compile(counter(), models.FOLDER / "counter.heddle", state={"n": "n1"})

    def test_calls_accumulate(self):
        with heddle.open(self.path) as module:
            self.assertEqual([value.name for value in module.main.arguments], ["x"])
            self.assertEqual([value.name for value in module.main.results], ["y"])
            self.assertEqual(module.main.donations, {})
            kept = [(value["name"], value["size_bytes"]) for value in module.report()["globals"] if value["kind"] == "state"]
            self.assertEqual(kept, [("h", 4 * SIZE)])
            h = np.zeros((1, SIZE), "f4")
            for rows in (3, 1, 5):
                x = array(rows, SIZE)
                h = np.tanh(h @ WEIGHTS + x.sum(0, keepdims=True))
                np.testing.assert_allclose(module(x).numpy(), np.concatenate([x, h]), 1e-4, 1e-4)

    def test_states_are_independent(self):
        with heddle.open(self.counter) as module, module.state() as a, module.state() as b:
            counts = [module(state=state).item() for state in (None, a, a, b, a, None, b)]
            self.assertEqual(counts, [0, 0, 1, 0, 2, 1, 1])
            self.assertEqual([module.start(state=a).result().item() for _ in range(3)], [3, 4, 5])
            calls = [module.main.start(state=b) for _ in range(20)]  # in the order in which they were started
            self.assertEqual([call.result().item() for call in calls], list(range(2, 22)))

    def test_threads_with_states_of_their_own(self):
        with heddle.open(self.counter) as module:
            seen = {}

            def run(key):
                with module.state() as state:
                    seen[key] = [module(state=state).item() for _ in range(200)]

            threads = [threading.Thread(target=run, args=(key,)) for key in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(seen, {key: list(range(200)) for key in range(4)})

    def test_weights_are_in_memory_once(self):
        with heddle.open(self.path) as module:
            x = array(2, SIZE)
            module(x)
            before = module.memory()[0].requested
            states = [module.state() for _ in range(64)]
            self.assertEqual(module.memory()[0].requested - before, 64 * 4 * SIZE)
            results = [module(x, state=state).numpy() for state in states]
            for result in results:
                np.testing.assert_array_equal(result, results[0])
            for state in states:
                state.close()
            del result, results
            self.assertEqual(module.memory()[0].requested, before)

    def test_the_same_as_a_function_without_state(self):
        for name, nodes, states, outputs in CASES:
            with self.subTest(name):
                model = case(nodes, states, outputs)
                plain = heddle.open(heddle.compile(model, models.FOLDER / f"{name}_plain.heddle"))
                module = heddle.open(heddle.compile(model, models.FOLDER / f"{name}.heddle", state=states))
                values = {key: np.zeros((8, 8), "f4") for key in states}
                for _ in range(4):
                    x = array(8, 8) / 4
                    expected = plain(x=x, **values)
                    np.testing.assert_allclose(module(x).numpy(), expected.y.numpy(), 1e-5, 1e-5)
                    values = {key: getattr(expected, result).numpy().copy() for key, result in states.items()}

    def test_another_slot_reads_the_state(self):
        nodes = [helper.make_node("MatMul", ["s", "x"], ["y"], name="there"), helper.make_node("Add", ["s", "x"], ["s1"], name="here")]
        model = models.model_of(nodes, [models.value("x", [8, 8]), models.value("s", [8, 8])], [models.value("s1", [8, 8]), models.value("y", [8, 8])])
        path = models.FOLDER / "slots.heddle"
        with heddle.open(heddle.compile(model, path, state={"s": "s1"}, options=["--place", "there=@other"]), {"@other": "cpu"}) as module:
            kept = np.zeros((8, 8), "f4")
            for _ in range(3):
                x = array(8, 8)
                np.testing.assert_allclose(module(x).numpy(), kept @ x, 1e-4, 1e-4)
                kept = kept + x
        with self.assertRaisesRegex(heddle.CompileError, "place both on one slot, or remove --state"):
            heddle.compile(model, models.FOLDER / "refused.heddle", state={"s": "s1"}, options=["--place", "output:s1=@other"])

    def test_the_model_names_its_state(self):
        model = counter()
        helper.set_model_props(model, {"heddle.state.n": "n1"})
        with heddle.open(heddle.compile(model, models.FOLDER / "named.heddle")) as module:
            self.assertEqual([module().item() for _ in range(3)], [0, 1, 2])

    def test_wrong_states_are_refused(self):
        with heddle.open(self.counter) as module, heddle.open(self.counter) as other:
            with other.state() as foreign, self.assertRaisesRegex(heddle.InvalidArgumentError, "the state is one of another module"):
                module(state=foreign)
            state = module.state()
            state.close()
            state.close()
            self.assertTrue(state.closed)
            with self.assertRaisesRegex(heddle.FailedPreconditionError, r"the state is closed; make another one with module.state\(\)"):
                module(state=state)
            with self.assertRaisesRegex(heddle.FailedPreconditionError, "the state is closed"):
                module.start(state=state)
            with self.assertRaisesRegex(TypeError, "state is a heddle.State, which module.state.. makes, got 1"):
                module(state=1)
            self.assertEqual(module().item(), 0)
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "the module is closed"):
            module.state()

    def test_a_dropped_state_frees_its_memory(self):
        with heddle.open(self.counter) as module:
            module()
            state = module.state()
            dropped, before = weakref.ref(state), module.memory()[0].requested
            call = module.start(state=state)
            del state
            self.assertEqual(call.result().item(), 0)
            del call
            gc.collect()
            self.assertIsNone(dropped())
            self.assertEqual(before - module.memory()[0].requested, 8)

    def test_a_wrong_result_array_changes_nothing(self):
        with heddle.open(self.counter) as module:
            for wrong in (np.empty(2, "i8"), np.empty((1, 1), "i8"), np.empty(1, "i4")):
                with self.assertRaisesRegex(heddle.InvalidArgumentError, r"result 'count' is i64\[1\], got an? \w+ of .* to write it to"):
                    module(out=wrong)
            self.assertEqual(module().item(), 0)

    def test_what_cannot_be_state(self):
        add = models.model_of([helper.make_node("Add", ["x", "y"], ["z"])], [models.value("x", ["n"]), models.value("y", ["n"])],
                              [models.value("z", ["n"])])
        for state, text in (({"x": "z"}, r"state 'x=z' is not possible: the input is f32\[n\], and the extents of a state have to be static"),
                            ({"q": "z"}, "the model has no input 'q'"), ({"x": "q"}, "the model has no output 'q'")):
            with self.assertRaisesRegex(heddle.CompileError, text):
                heddle.compile(add, models.FOLDER / "refused.heddle", state=state)
        with self.assertRaisesRegex(heddle.CompileError, r"the input is f32\[1,256\] and the output f32\[.*,256\]"):
            heddle.compile(recurrent(), models.FOLDER / "refused.heddle", state={"h": "y"})
        with self.assertRaisesRegex(heddle.CompileError, "output '[^']*' takes the memory of this input already"):
            heddle.compile(counter(), models.FOLDER / "refused.heddle", state={"n": "n1"}, alias={"n": "count"})
        self.assertFalse((models.FOLDER / "refused.heddle").exists())


if __name__ == "__main__":
    unittest.main()
