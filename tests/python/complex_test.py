# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of complex numbers in ONNX models: every operator whose schema has them, compared with NumPy, and NumPy's complex types as arguments."""
import unittest

import heddle
import models
import numpy as np
from onnx import TensorProto, helper, numpy_helper

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
KINDS = {np.complex64: TensorProto.COMPLEX64, np.complex128: TensorProto.COMPLEX128}


def numbers(kind, seed, *shape):
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(kind)


def module_of(nodes, inputs, outputs, initializers=(), opset=20, **options):
    graph = helper.make_graph(nodes, "model", [models.value(*one) for one in inputs], [models.value(*one) for one in outputs], initializers)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])
    return heddle.open(heddle.compile(model, models.FOLDER / "complex.heddle", **options))


def whole(number, *values):
    return helper.make_tensor(number, INT64, [len(values)], values)


def space_to_depth(x, block):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // block, block, w // block, block).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block * block, h // block, w // block)


class Complex(unittest.TestCase):
    def same(self, got, wanted):
        got = np.asarray(got)
        self.assertEqual((got.shape, got.dtype), ((*wanted.shape, 2), wanted.real.dtype))
        np.testing.assert_array_equal(got[..., 0], wanted.real)
        np.testing.assert_array_equal(got[..., 1], wanted.imag)

    def test_moved(self):
        """Operators that move elements; `i`, `places` and `flags` are data."""
        constants = [whole("flat", -1), whole("rows", 3, -1), whole("one", 1), whole("ends", 3), whole("last", -1), whole("twice", 1, 2), whole("tall", 2, 1, 1, 1),
                     whole("pads", 1, 0, 0, 2), whole("depth", 3), whole("lengths", 2, 1, 2, 1, 1, 2)]
        filled = np.array([[1, 0, 0, 2]])
        nodes = [("Reshape", "x flat", {}), ("Reshape", "x rows", {}), ("Transpose", "x", dict(perm=[1, 0])), ("Gather", "x i", dict(axis=1)),
                 ("GatherElements", "x places", dict(axis=0)), ("GatherND", "x place", {}), ("Slice", "x one ends last", {}), ("Unsqueeze", "x one", {}),
                 ("Flatten", "x", dict(axis=0)), ("Tile", "x twice", {}), ("Expand", "x tall", {}), ("Where", "flags x y", {}),
                 ("ScatterElements", "x places z", dict(axis=0)), ("ScatterND", "x place few", {}), ("Compress", "x kept", dict(axis=0)), ("Concat", "x z x", dict(axis=-2)),
                 ("Identity", "x", {}), ("Pad", "x pads", {}), ("Pad", "x pads filler", {}), ("Pad", "x pads", dict(mode="edge")), ("Trilu", "x", dict(upper=0)),
                 ("OneHot", "i depth two", {}), ("ReverseSequence", "x lengths", dict(batch_axis=1, time_axis=0)), ("Squeeze", "tall_one", {})]
        made = [helper.make_node(kind, names.split(), [f"o{at}"], **options) for at, (kind, names, options) in enumerate(nodes)]
        made += [helper.make_node("Split", ["x"], ["first", "second"], axis=1, num_outputs=2), helper.make_node("Shape", ["x"], ["shape"]),
                 helper.make_node("Size", ["x"], ["size"]), helper.make_node("NonZero", ["sparse"], ["where"])]
        for kind, number in KINDS.items():
            two, filler, tall = numbers(kind, 1, 2), numbers(kind, 2), numbers(kind, 3, 1, 4, 1)
            typed = helper.make_tensor("two", number, [2], two)  # in float_data or double_data
            stored = [*constants, typed, numpy_helper.from_array(filler, "filler"), numpy_helper.from_array(tall, "tall_one")]
            outputs = [(f"o{at}", None, number) for at in range(len(nodes))] + [("first", None, number), ("second", None, number), ("shape", [2], INT64), ("size", [], INT64),
                                                                                 ("where", None, INT64)]
            module = module_of(made, [("x", ["n", 6], number), ("y", [6], number), ("z", ["m", 6], number), ("i", [2], INT64), ("places", ["m", 6], INT64), ("flags", ["n", 1], BOOL),
                                      ("kept", ["n"], BOOL), ("place", [2, 1], INT64), ("few", [2, 6], number), ("sparse", [3, 2], number)], outputs, stored)
            for n in (3, 6):
                x, y, z, few, i, flags = (*(numbers(kind, n + at, *shape) for at, shape in enumerate([(n, 6), (6,), (2, 6), (2, 6)])), np.array([2, 0]), np.arange(n) % 2 == 0)
                places, sparse = np.stack([np.arange(6) % n, (np.arange(6) + 1) % n]), np.array([[0, 1j], [2, 0], [0, 0]], kind)
                got = module(x, y, z, i, places, flags[:, None], flags, np.array([[2], [0]]), few, sparse)
                scattered, rows, turned = x.copy(), x.copy(), x.copy()
                np.put_along_axis(scattered, places, z, 0)
                rows[[2, 0]] = few
                for column, length in enumerate((2, 1, 2, 1, 1, 2)):
                    turned[:length, column] = x[:length, column][::-1]
                hot = np.where(np.arange(3) == i[:, None], two[1], two[0])
                wanted = [x.reshape(-1), x.reshape(3, -1), x.T, x[:, i], np.take_along_axis(x, places, 0), x[[2, 0]], x[:, 1:3], x[:, None], x.reshape(1, -1), np.tile(x, 2),
                          np.broadcast_to(x, (2, 1, n, 6)), np.where(flags[:, None], x, y), scattered, rows, x[flags], np.concatenate([x, z, x]), x,
                          np.pad(x, ((1, 0), (0, 2))), np.pad(x, ((1, 0), (0, 2)), constant_values=filler), np.pad(x, ((1, 0), (0, 2)), "edge"), np.tril(x), hot, turned,
                          tall.reshape(4), x[:, :3], x[:, 3:]]
                for (name, *_), one, other in zip(nodes + [("Split",)] * 2, got, wanted):
                    with self.subTest(name, n=n, kind=kind.__name__):
                        self.same(one, other)
                np.testing.assert_array_equal(got[-3], x.shape)
                self.assertEqual(got[-2].item(), x.size)
                np.testing.assert_array_equal(got[-1], np.nonzero(sparse))

    def test_images(self):
        nodes = [helper.make_node("SpaceToDepth", ["x"], ["deep"], blocksize=2), helper.make_node("DepthToSpace", ["deep"], ["wide"], blocksize=2),
                 helper.make_node("Resize", ["x", "", "scales"], ["large"], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
                 helper.make_node("CenterCropPad", ["x", "size"], ["center"], axes=[2, 3])]
        kind = TensorProto.COMPLEX64
        stored = [numpy_helper.from_array(np.array([1, 1, 2, 3], np.float32), "scales"), whole("size", 2, 6)]
        x = numbers(np.complex64, 5, 2, 3, 4, 4)
        deep, wide, large, center = module_of(nodes, [("x", ["n", 3, 4, 4], kind)], [(name, None, kind) for name in ("deep", "wide", "large", "center")], stored)(x)
        self.same(deep, space_to_depth(x, 2))
        self.same(wide, x)
        self.same(large, x.repeat(2, 2).repeat(3, 3))
        self.same(center, np.pad(x[:, :, 1:3], ((0, 0), (0, 0), (0, 0), (1, 1))))

    def test_carried_by_control_flow(self):
        kind = TensorProto.COMPLEX64
        branch = lambda name, source: helper.make_graph([helper.make_node("Identity", [source], [name])], name, [], [models.value(name, None, kind)])
        body = helper.make_graph([helper.make_node("Transpose", ["in"], ["out"]), helper.make_node("Reshape", ["in", "flat"], ["row"])], "body",
                                 [models.value("i", [], INT64), models.value("c", [], BOOL), models.value("in", [2, 2], kind)],
                                 [models.value("c", [], BOOL), models.value("out", [2, 2], kind), models.value("row", [4], kind)])
        grows = helper.make_graph([helper.make_node("Concat", ["in", "x"], ["out"], axis=0)], "grows",
                                  [models.value("i", [], INT64), models.value("c", [], BOOL), models.value("in", ["m", 2], kind)],
                                  [models.value("c", [], BOOL), models.value("out", ["k", 2], kind)])
        step = helper.make_graph([helper.make_node("Identity", ["slice"], ["next"]), helper.make_node("Where", ["flags", "slice", "last"], ["row"])], "step",
                                 [models.value("last", [2], kind), models.value("slice", [2], kind)], [models.value("next", [2], kind), models.value("row", [2], kind)])
        nodes = [helper.make_node("If", ["cond"], ["chosen"], then_branch=branch("a", "x"), else_branch=branch("b", "y")),
                 helper.make_node("Loop", ["steps", "", "x"], ["turned", "rows"], body=body), helper.make_node("Loop", ["steps", "", "x"], ["grown"], body=grows),
                 helper.make_node("Scan", ["y0", "x"], ["end", "stacked"], body=step, num_scan_inputs=1, scan_output_axes=[-1])]
        stored = [whole("flat", -1), numpy_helper.from_array(np.array([True, False]), "flags")]
        module = module_of(nodes, [("x", [2, 2], kind), ("y", [2, 2], kind), ("y0", [2], kind), ("cond", [], BOOL), ("steps", [], INT64)],
                           [(name, None, kind) for name in ("chosen", "turned", "rows", "grown", "end", "stacked")], stored)
        x, y, start = numbers(np.complex64, 1, 2, 2), numbers(np.complex64, 2, 2, 2), numbers(np.complex64, 3, 2)
        for cond, steps in ((True, 3), (False, 2), (True, 1)):
            chosen, turned, rows, grown, end, stacked = module(x, y, start, np.array(cond), np.array(steps))
            self.same(chosen, x if cond else y)
            self.same(turned, x.T if steps % 2 else x)
            self.same(rows, np.stack([x.T.reshape(-1) if at % 2 else x.reshape(-1) for at in range(steps)]))
            self.same(grown, np.concatenate([x] * (steps + 1)))
            self.same(end, x[1])
            self.same(stacked, np.stack([np.where([True, False], x[0], start), np.where([True, False], x[1], x[0])], -1))

    def test_sequences(self):
        kind = TensorProto.COMPLEX128
        nodes = [helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], axis=-1), helper.make_node("SequenceAt", ["parts", "at"], ["part"]),
                 helper.make_node("SequenceInsert", ["parts", "y"], ["more"]), helper.make_node("ConcatFromSequence", ["more"], ["joined"], axis=-1),
                 helper.make_node("SequenceLength", ["more"], ["count"]), helper.make_node("Optional", ["y"], ["maybe"]),
                 helper.make_node("OptionalGetElement", ["maybe"], ["same"])]
        module = module_of(nodes, [("x", ["n", 5], kind), ("y", ["n", 1], kind), ("at", [], INT64)],
                           [("part", None, kind), ("joined", None, kind), ("count", [], INT64), ("same", None, kind)], [whole("sizes", 2, 3)])
        x, y = numbers(np.complex128, 7, 4, 5), numbers(np.complex128, 8, 4, 1)
        for at in (0, 1, -1):
            part, joined, count, same = module(x, y, np.array(at))
            self.same(part, x[:, :2] if at == 0 else x[:, 2:])
            self.same(joined, np.concatenate([x, y], -1))
            self.same(same, y)
            self.assertEqual(count.item(), 3)

    def test_arguments_and_results(self):
        kind = TensorProto.COMPLEX64
        large = numbers(np.complex64, 3, 200, 100)  # a parameter
        module = module_of([helper.make_node("Concat", ["x", "w"], ["y"], axis=0), helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(large[:2, 0]))],
                           [("x", ["n", 100], kind)], [("y", None, kind), ("c", [2], kind)], [numpy_helper.from_array(large, "w")])
        self.assertEqual([str(one.shape) for one in module.main.arguments], ["('n', 100, 2)"])
        x = numbers(np.complex64, 4, 3, 100)
        wanted = np.concatenate([x, large])
        for given in (x, np.stack([x.real, x.imag], -1), np.asfortranarray(x), numbers(np.complex64, 4, 3, 200)[:, ::2]):
            y, c = module(given)
            self.same(y, np.concatenate([given, large]) if given.dtype == np.complex64 else wanted)
            self.same(c, large[:2, 0])
        np.testing.assert_array_equal(np.asarray(module(x)[0]).view(np.complex64)[..., 0], wanted)
        out = np.zeros((203, 100), np.complex64)
        module(x, out=[out, None])
        np.testing.assert_array_equal(out, wanted)
        with self.assertRaisesRegex(heddle.Error, "'x'"):
            module(x.astype(np.complex128))

    def test_what_is_refused(self):
        kind = TensorProto.COMPLEX64

        def said(*words, node, initializers=(), inputs=(("x", [2], kind),), output=kind):
            with self.assertRaises(heddle.Error) as caught:
                module_of([node], inputs, [("y", None, output)], initializers)
            for word in words:
                self.assertIn(word, str(caught.exception))

        said("node 'y' (operator Relu", "element type COMPLEX64, which this operator does not support", node=helper.make_node("Relu", ["x"], ["y"]))
        said("declared with element type FLOAT", "COMPLEX64", node=helper.make_node("Identity", ["x"], ["y"]), output=FLOAT)
        said("element types of the inputs differ", node=helper.make_node("Concat", ["x", "z"], ["y"], axis=0), inputs=(("x", [2], kind), ("z", [2], TensorProto.COMPLEX128)))
        said("element types of the inputs differ", node=helper.make_node("Concat", ["x", "z"], ["y"], axis=0), inputs=(("x", [2, 2], kind), ("z", [2, 2], FLOAT)))
        said("reduction 'add'", node=helper.make_node("ScatterElements", ["x", "i", "x"], ["y"], reduction="add"), inputs=(("x", [2], kind), ("i", [2], INT64)))
        short = helper.make_tensor("w", kind, [2], np.zeros(2, np.complex64))
        short.float_data.pop()
        said("tensor 'w' has 3 elements", node=helper.make_node("Concat", ["x", "w"], ["y"], axis=0), initializers=[short])
        long = helper.make_tensor("w", kind, [2], np.zeros(2, np.complex64))
        long.float_data.append(1)
        said("tensor 'w' has 5 numbers", node=helper.make_node("Concat", ["x", "w"], ["y"], axis=0), initializers=[long])


if __name__ == "__main__":
    unittest.main()
