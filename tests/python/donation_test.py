# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that are given up: the same results with and without, in one memory, and the errors of what was given up."""
import unittest
import warnings

import heddle
import models
import numpy as np
from onnx import helper

RANDOM = np.random.default_rng(3)


def array(*shape):
    return RANDOM.standard_normal(shape, np.float32)


def step():
    """w1 = w - 0.1 * (x' (x w - y))"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Sub", ["p", "y"], ["e"]),
             helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["t", "e"], ["g"]),
             helper.make_node("Mul", ["g", "rate"], ["s"]), helper.make_node("Sub", ["w", "s"], ["w1"])]
    inputs = [models.value("x", ["n", 64]), models.value("y", ["n", 48]), models.value("w", [64, 48]), models.value("rate", [])]
    return models.model_of(nodes, inputs, [models.value("w1", [64, 48])])


def stepped(x, y, w, rate):
    return w - rate * (x.T @ (x @ w - y))


# Name, nodes, inputs, outputs, aliases: the outputs cannot all be computed in place.
OTHERS = [
    ("product", [("MatMul", ["a", "b"], ["c"])], {"a": [8, 8], "b": [8, 8]}, {"c": [8, 8]}, {"a": "c"}),
    ("read_after_it", [("Relu", ["a"], ["c"]), ("MatMul", ["a", "c"], ["d"])], {"a": [8, 8]}, {"c": [8, 8], "d": [8, 8]}, {"a": "c"}),
    ("swapped", [("Identity", ["a"], ["c"]), ("Identity", ["b"], ["d"])], {"a": [8], "b": [8]}, {"c": [8], "d": [8]}, {"a": "d", "b": "c"}),
    ("itself", [("Identity", ["a"], ["c"]), ("Exp", ["a"], ["d"])], {"a": [8]}, {"c": [8], "d": [8]}, {"a": "c"}),
    ("twice", [("Exp", ["a"], ["c"]), ("Identity", ["c"], ["d"])], {"a": [8]}, {"c": [8], "d": [8]}, {"a": "d"}),
    ("shifted", [("Slice", ["a", "one", "nine"], ["t"]), ("Slice", ["a", "zero", "one"], ["h"]), ("Concat", ["t", "h"], ["c"])],
     {"a": [8, 16]}, {"c": [8, 16]}, {"a": "c"}),
    ("both", [("Add", ["a", "b"], ["c"]), ("Sub", ["a", "b"], ["d"])], {"a": [8], "b": [8]}, {"c": [8], "d": [8]}, {"a": "c", "b": "d"}),
    # The new value of a, and others that are computed from the old one: in its region, in one of other extents, and in one that needs the new one too.
    ("old_in_place", [("Add", ["a", "a"], ["c"]), ("Mul", ["c", "a"], ["t"]), ("Mul", ["x", "t"], ["d"])], {"a": [1], "x": [64]},
     {"c": [1], "d": [64]}, {"a": "c"}),
    ("old_before", [("Add", ["a", "a"], ["c"]), ("Mul", ["x", "a"], ["d"])], {"a": [1], "x": [64]}, {"c": [1], "d": [64]}, {"a": "c"}),
    ("old_and_new", [("Add", ["a", "a"], ["c"]), ("Mul", ["x", "a"], ["t"]), ("Mul", ["t", "c"], ["d"])], {"a": [1], "x": [64]},
     {"c": [1], "d": [64]}, {"a": "c"}),
    ("old_elsewhere", [("Add", ["a", "x"], ["c"]), ("MatMul", ["a", "c"], ["t"]), ("Mul", ["t", "a"], ["d"])], {"a": [8, 8], "x": [8, 8]},
     {"c": [8, 8], "d": [8, 8]}, {"a": "c"}),
    ("exchanged", [("Neg", ["a"], ["c"]), ("Exp", ["b"], ["d"])], {"a": [8], "b": [8]}, {"c": [8], "d": [8]}, {"a": "d", "b": "c"}),
    ("transposed", [("Transpose", ["a"], ["t"]), ("Add", ["t", "b"], ["c"]), ("Sub", ["a", "b"], ["d"])], {"a": [8, 8], "b": [8, 8]},
     {"c": [8, 8], "d": [8, 8]}, {"a": "c", "b": "d"}),
    ("window", [("Concat", ["t", "x"], ["c"])], {"a": [4, 16], "x": [2, 16]}, {"c": [4, 16]}, {"a": "c"}),
]


def other(name, nodes, inputs, outputs):
    made = [helper.make_node(kind, given, results, **({"axis": 0} if kind == "Concat" else {})) for kind, given, results in nodes]
    if name == "window":  # drops the two oldest rows
        made.insert(0, helper.make_node("Slice", ["a", "two", "nine"], ["t"]))
    model = models.model_of(made, [models.value(key, shape) for key, shape in inputs.items()],
                            [models.value(key, shape) for key, shape in outputs.items()])
    for key, number in (("zero", 0), ("one", 1), ("two", 2), ("nine", 9)):
        model.graph.initializer.append(helper.make_tensor(key, 7, [1], [number]))
    return model


class Donation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = heddle.compile(step(), models.FOLDER / "step.heddle", alias={"w": "w1"})
        cls.module = heddle.open(cls.path)

    def pieces(self):
        return array(5, 64), array(5, 48), array(64, 48), np.float32(0.1)

    def test_python_code_of_an_argument_gets_no_array_of_a_donated_one(self):
        class Looking:
            def __init__(self, tensor):
                self.tensor, self.array, self.seen = tensor, array(7, 64), []

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, **named):
                self.seen.append(memoryview(self.tensor))
                return self.array.__dlpack__(**named)

        w = self.module.main.tensor("w", array(64, 48), copy=True)
        looking = Looking(w)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "it was donated to a call of 'main', which is about to begin"):
            self.module(looking, array(7, 48), w, np.float32(0.1), donate="w")
        self.assertEqual((looking.seen, w.shape), ([], (64, 48)))  # the call did not take it

    def test_the_signature_says_it(self):
        self.assertEqual(self.module.main.donations, {"w": "w1"})
        self.assertEqual(heddle.open(models.add(4)).main.donations, {})

    def test_borrowed_donated_and_in_place_are_the_same(self):
        x, y, w, rate = self.pieces()
        before, expected = w.copy(), stepped(x, y, w, rate)
        np.testing.assert_allclose(self.module(x, y, w, rate).numpy(), expected, 1e-4, 1e-4)
        np.testing.assert_array_equal(w, before)  # an array of NumPy is borrowed
        kept = self.module.main.tensor("w", w)
        np.testing.assert_allclose(self.module(x, y, kept, rate).numpy(), expected, 1e-4, 1e-4)
        np.testing.assert_array_equal(kept.numpy(), before)
        result = self.module(x, y, self.module.main.tensor("w", w, copy=True), rate, donate="w")
        np.testing.assert_allclose(result.numpy(), expected, 1e-4, 1e-4)
        updated = self.module.main.tensor("w", w, copy=True)
        self.assertIs(self.module(x, y, updated, rate, out=updated), updated)
        np.testing.assert_allclose(updated.numpy(), expected, 1e-4, 1e-4)

    def test_a_chain_uses_one_memory(self):
        x, y, w, rate = self.pieces()
        tensor, expected = self.module.main.tensor("w", w, copy=True), w
        address = np.asarray(tensor).ctypes.data
        requested = set()
        for i in range(20):
            tensor = self.module(x, y, tensor, rate, donate=["w"])
            expected = stepped(x, y, expected, rate)
            if i > 1:
                requested.add(self.module.statistics()["devices"][0]["pool"]["requested"])
        self.assertEqual(len(requested), 1)
        self.assertEqual(np.asarray(tensor).ctypes.data, address)
        np.testing.assert_allclose(tensor.numpy(), expected, 1e-2, 1e-2)
        calls = []
        for _ in range(10):
            calls.append(self.module.start(x, y, tensor, rate, donate="w"))
            tensor = calls[-1].result()
        self.assertEqual(np.asarray(tensor).ctypes.data, address)

    def test_a_donated_tensor_is_refused(self):
        x, y, w, rate = self.pieces()
        tensor = self.module.main.tensor("w", w, copy=True)
        self.module(x, y, tensor, rate, donate="w")
        for use in (tensor.numpy, lambda: self.module(x, y, tensor, rate), lambda: self.module(x, y, tensor, rate, donate="w"),
                    lambda: self.module(x, y, w, rate, out=tensor)):
            with self.assertRaisesRegex(heddle.FailedPreconditionError, r"a call of 'main' \(input 'w'\) took it"):
                use()
        self.assertEqual(tensor.shape, (64, 48))

    def test_what_cannot_be_donated(self):
        x, y, w, rate = self.pieces()
        tensor = self.module.main.tensor("w", w, copy=True)
        view = np.asarray(tensor)
        for donate, given, text in (("v", tensor, "donate names an argument"), (3, tensor, "donate names an argument"),
                                    ("w", w, "is an array, which stays yours"), ("w", tensor, "1 arrays use its memory")):
            with self.assertRaisesRegex((TypeError, heddle.FailedPreconditionError), text):
                self.module(x, y, given, rate, donate=donate)
        np.testing.assert_array_equal(view, w)
        del view
        self.module(x, y, tensor, rate, donate="w")
        lent = np.asarray(heddle.empty((64, 48)))
        lent.flags.writeable = False
        tensor = self.module.main.tensor("w", lent)
        self.assertTrue(tensor.read_only)
        with self.assertRaisesRegex(ValueError, "is read-only; donate a copy"):
            self.module(x, y, tensor, rate, donate="w")

    def test_an_array_under_a_donated_tensor_stays_as_it_is(self):
        """At any address, for the contents and for what later calls do."""
        x, y, w, rate = self.pieces()
        expected = stepped(x, y, w, rate)
        warned = "saved nothing: its 12288 bytes are copied, since the tensor has other users"
        place = np.empty(64 * 48 + 64, "f4")
        for offset in range(0, 64, 4):  # multiples of 64 bytes and others
            array = place[offset:offset + 64 * 48].reshape(64, 48)
            array[:] = w
            tensor = self.module.main.tensor("w", array)
            if np.asarray(tensor).ctypes.data == array.ctypes.data:
                with self.assertLogs("heddle", "WARNING") as caught:
                    result = self.module(x, y, tensor, rate, donate="w")
                self.assertIn(warned, caught.output[0])
            else:
                with self.assertNoLogs("heddle", "WARNING"):
                    result = self.module(x, y, tensor, rate, donate="w")
            np.testing.assert_allclose(result.numpy(), expected, 1e-4, 1e-4)
            np.testing.assert_array_equal(array, w)
            with self.assertRaisesRegex(heddle.FailedPreconditionError, "took it"):
                tensor.numpy()
            del result
            array[:] = 7
            for _ in range(4):
                self.module(x, y, w, rate)
            self.assertTrue((array == 7).all())

    def test_donating_what_is_only_read_is_logged(self):
        plain = heddle.open(models.add(1024))
        tensor = plain.main.tensor("x", np.ones(1024, "f4"), copy=True)
        with self.assertLogs("heddle", "WARNING") as caught:
            self.assertEqual(plain(tensor, np.ones(1024, "f4"), donate="x").numpy()[0], 2)
        self.assertIn("donating input 'x' of 'main' saved nothing: its 4096 bytes are not overwritten", caught.output[0])
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "took it"):
            tensor.numpy()

    def test_an_array_that_is_argument_and_result(self):
        x, y, w, rate = self.pieces()
        expected = stepped(x, y, w, rate)
        for start in range(0, 64, 4):
            place = np.empty(64 * 48 + 64, "f4")
            array = place[start:start + 64 * 48].reshape(64, 48)
            array[:] = w
            self.assertIs(self.module(x, y, array, rate, out=array), array)
            np.testing.assert_allclose(array, expected, 1e-4, 1e-4)
            # The tensor of an array, and the array.
            array[:] = w
            self.module(x, y, self.module.main.tensor("w", array), rate, out=array)
            np.testing.assert_allclose(array, expected, 1e-4, 1e-4)
            # The array of a tensor, and the tensor.
            tensor = self.module.main.tensor("w", w, copy=True)
            self.module(x, y, np.asarray(tensor), rate, out=tensor)
            np.testing.assert_allclose(tensor.numpy(), expected, 1e-4, 1e-4)
            # Memory that overlaps.
            array[:] = w
            moved = place[32 - start // 2:][:64 * 48].reshape(64, 48)
            self.module(x, y, array, rate, out=moved)
            np.testing.assert_allclose(moved, expected, 1e-4, 1e-4)

    def test_an_optimizer_is_few_dispatches_in_place(self):
        """Each parameter has a number of steps of its own, and a moment; the update reads both after they are written."""
        sizes, nodes, inputs, outputs, alias = (3, 70, 1, 4097, 3, 20000), [], {}, {}, {}
        for i, size in enumerate(sizes):
            nodes += [("Add", [f"n{i}", "one"], [f"m{i}"]), ("Pow", ["beta", f"m{i}"], [f"b{i}"]), ("Sub", ["one", f"b{i}"], [f"c{i}"]),
                      ("Mul", [f"g{i}", "rate"], [f"h{i}"]), ("Add", [f"e{i}", f"h{i}"], [f"f{i}"]), ("Div", [f"f{i}", f"c{i}"], [f"u{i}"]),
                      ("Sub", [f"p{i}", f"u{i}"], [f"q{i}"])]
            inputs |= {f"n{i}": [], f"e{i}": [size], f"p{i}": [size], f"g{i}": [size]}
            outputs |= {f"m{i}": [], f"f{i}": [size], f"q{i}": [size]}
            alias |= {f"n{i}": f"m{i}", f"e{i}": f"f{i}", f"p{i}": f"q{i}"}
        made = [helper.make_node(kind, given, results) for kind, given, results in nodes]
        model = models.model_of(made, [models.value(*one) for one in inputs.items()], [models.value(*one) for one in outputs.items()])
        for key, number in (("one", 1), ("beta", 0.9), ("rate", 0.1)):
            model.graph.initializer.append(helper.make_tensor(key, 1, [], [number]))
        module = heddle.open(heddle.compile(model, models.FOLDER / "optimizer.heddle", alias=alias))
        arrays = {key: np.abs(array(*shape)) for key, shape in inputs.items()}
        for i in range(len(sizes)):
            arrays[f"n{i}"] = np.array(i, np.float32)
        expected = {key: value.copy() for key, value in arrays.items()}
        for _ in range(3):
            module(**arrays, out=[arrays[{to: key for key, to in alias.items()}[name]] for name in outputs])
            for i in range(len(sizes)):
                expected[f"n{i}"] += np.float32(1)
                expected[f"e{i}"] += np.float32(0.1) * expected[f"g{i}"]
                expected[f"p{i}"] -= expected[f"e{i}"] / (1 - np.float32(0.9) ** expected[f"n{i}"])
            for key, value in expected.items():
                np.testing.assert_allclose(arrays[key], value, 1e-5, 1e-6, err_msg=key)
        statistics = module.statistics()  # of 3 calls: the numbers of all, the small parameters, the large one
        self.assertEqual((statistics["dispatches"], statistics["copies"]), (9, 0), statistics)

    def test_outputs_that_cannot_be_computed_in_place(self):
        for name, nodes, inputs, outputs, alias in OTHERS:
            with self.subTest(name):
                model = other(name, nodes, inputs, outputs)
                plain = heddle.open(heddle.compile(model, models.FOLDER / f"{name}.heddle"))
                aliased = heddle.open(heddle.compile(model, models.FOLDER / f"{name}_aliased.heddle", alias=alias))
                self.assertEqual(aliased.main.donations, alias)
                given = [array(*shape) for shape in inputs.values()]
                expected = plain(*given)
                expected = [expected] if len(outputs) == 1 else list(expected)
                for donate in ((), tuple(alias)):
                    tensors = [aliased.main.tensor(key, value, copy=True) for key, value in zip(inputs, given)]
                    found = aliased(*tensors, donate=donate)
                    for one, known in zip([found] if len(outputs) == 1 else found, expected):
                        np.testing.assert_array_equal(one.numpy(), known.numpy())
                    if not donate:
                        for tensor, value in zip(tensors, given):
                            np.testing.assert_array_equal(tensor.numpy(), value)
                # Arrays that are updated in place.
                arrays = {key: heddle.empty(value.shape) for key, value in zip(inputs, given)}
                for array_of, value in zip(arrays.values(), given):
                    array_of[:] = value
                of_result = {result: arrays[key] for key, result in alias.items()}
                out = [of_result.get(key) for key in outputs]
                found = aliased(**arrays, out=out[0] if len(outputs) == 1 else out)
                for one, known in zip([found] if len(outputs) == 1 else found, expected):
                    np.testing.assert_array_equal(np.asarray(one), known.numpy())

    def test_donating_finds_the_output(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            path = heddle.compile(step(), models.FOLDER / "found.heddle", donate="w")
        self.assertEqual(heddle.open(path).main.donations, {"w": "w1"})
        model = step()
        model.metadata_props.add(key="heddle.alias.w", value="w1")
        self.assertEqual(heddle.open(heddle.compile(model, models.FOLDER / "said.heddle")).main.donations, {"w": "w1"})
        path = heddle.compile(model, models.FOLDER / "twice.heddle", alias={"w": "w1"})  # the same
        self.assertEqual(heddle.open(path).main.donations, {"w": "w1"})
        for value, donations in (("true", {"w": "w1"}), ("1", {"w": "w1"}), ("", {"w": "w1"}), ("false", {}), ("0", {}), ("no", None)):
            model = step()
            model.metadata_props.add(key="heddle.donate.w", value=value)
            path = models.FOLDER / "valued.heddle"
            if donations is None:
                with self.assertRaisesRegex(heddle.CompileError, "metadata 'heddle.donate.w' failed: its value is 'no'; it has to be true, 1"):
                    heddle.compile(model, path)
                continue
            self.assertEqual(heddle.open(heddle.compile(model, path)).main.donations, donations, value)
        with self.assertWarnsRegex(UserWarning, r"donating input 'x' \(of dynamic size\) saves no memory during a call"):
            path = heddle.compile(step(), models.FOLDER / "useless.heddle", donate=["x"])
        self.assertEqual(heddle.open(path).main.donations, {})

    def test_mistakes_of_the_compilation(self):
        for given, text in (({"donate": "v"}, "the model has no input 'v'"), ({"alias": {"w": "w2"}}, "no output 'w2'; did you mean 'w1'"),
                            ({"options": ["--alias", "w"]}, "--alias 'w': expected INPUT=OUTPUT; --donate w"),
                            ({"alias": {"x": "w1"}}, r"the input is f32\[n,64\] and the output f32\[64,48\]")):
            with self.assertRaisesRegex(heddle.CompileError, text):
                heddle.compile(step(), models.FOLDER / "wrong.heddle", **given)
        self.assertFalse((models.FOLDER / "wrong.heddle").exists())


if __name__ == "__main__":
    unittest.main()
