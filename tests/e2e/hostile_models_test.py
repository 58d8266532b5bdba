# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that are well-formed and mean harm: what they ask for is refused with numbers, or done right, and never a crash."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase, heddle

FLOAT = TensorProto.FLOAT


def value(name, shape, element_type=FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "hostile", inputs, outputs, list(initializers))
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()


class HostileModels(HeddleTestCase):
    def write(self, data, name="model.onnx"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def refuse(self, data):
        """Compiling fails in order and leaves nothing; returns the error text."""
        module = self.folder / "model.heddle"
        result = self.fail_with(1, "compile", self.write(data), "-o", module)
        self.assertFalse(module.exists(), str(result))
        return result.stderr

    def outputs_of(self, module, **inputs):
        """One call with arrays by name; results in order."""
        arguments = []
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
            arguments += ["--input", f"{name}=@{self.folder / name}.npy"]
        names = [self.folder / f"out{i}.npy" for i in range(2)]
        for name in names:
            arguments += ["--output", f"@{name}"]
        self.succeed("run", module, *arguments)
        return [np.load(name) for name in names]


class Names(HostileModels):
    def test_a_tensor_named_like_the_compilers_own_is_another_one(self):
        # The packed w is the compiler's own "derived.0", of 4 MiB; the model's has 65 KiB.
        chosen = np.random.default_rng(1)
        added, w = chosen.standard_normal((128, 130), np.float32), chosen.standard_normal((1024, 1024), np.float32)
        x, z = chosen.standard_normal((128, 130), np.float32), chosen.standard_normal((1, 1024), np.float32)
        for name in ("derived.0", "cpu.derived.0"):
            with self.subTest(name=name):
                data = model_of(
                    [helper.make_node("Add", ["x", name], ["y"]), helper.make_node("MatMul", ["z", "w"], ["r"])],
                    [value("x", x.shape), value("z", z.shape)], [value("y", x.shape), value("r", z.shape)],
                    [numpy_helper.from_array(added, name), numpy_helper.from_array(w, "w")],
                )
                y, r = self.outputs_of(self.compile(self.write(data)), x=x, z=z)
                np.testing.assert_array_equal(y, x + added)
                np.testing.assert_allclose(r, z @ w, rtol=1e-3, atol=1e-3)

    def test_two_sizes_of_one_parameter_are_refused(self):
        text = """func.func @main(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
          %a = tx.parameter "w" : tensor<4xf32>
          %b = tx.parameter "w" : tensor<8xf32>
          %0 = tx.add %x, %a : tensor<4xf32>
          %1 = tx.add %y, %b : tensor<8xf32>
          return %0, %1 : tensor<4xf32>, tensor<8xf32>
        }"""
        model = self.folder / "two.mlir"
        model.write_text(text)
        error = self.fail_with(1, "compile", model, "-o", self.folder / "two.heddle").stderr
        for part in ("'w'", "16", "32"):
            self.assertIn(part, error)


class Extents(HostileModels):
    def test_windows_larger_than_the_input_are_refused_when_called(self):
        # Two negative extents: their product is a size like any other.
        data = model_of(
            [helper.make_node("MaxPool", ["x"], ["p"], name="window", kernel_shape=[2000, 3000]),
             helper.make_node("Concat", ["p", "p"], ["q"], axis=3), helper.make_node("GlobalMaxPool", ["q"], ["y"])],
            [value("x", ["N", 3, "height", "width"])], [value("y", ["N", 3, 1, 1])],
        )
        module, image = self.compile(self.write(data)), self.folder / "x.npy"
        np.save(image, np.ones((1, 3, 1, 1), np.float32))
        error = self.fail_with(1, "run", module, "--input", f"x=@{image}").stderr
        for part in ("window", "negative", "height", "1999"):
            self.assertIn(part, error)
        np.save(image, np.arange(3 * 2001 * 3001, dtype=np.float32).reshape(1, 3, 2001, 3001))
        got = self.succeed("run", module, "--input", f"x=@{image}").stdout
        self.assertIn("y=f32[1,3,1,1]", got)


class Sizes(HostileModels):
    """Windows whose products leave 64 bits, tables and unrolled code whose length a number in the file gives."""

    def test_a_workspace_that_wraps_around_is_refused(self):
        # 2^20 rows x 2^31 columns x 2^11 channels x 4 bytes = 2^64
        shape = helper.make_tensor("shape", TensorProto.INT64, [4], [1, 2048, 2, 2049])
        error = self.refuse(model_of(
            [helper.make_node("ConstantOfShape", ["shape"], ["k"]),
             helper.make_node("Conv", ["x", "k"], ["y"], name="wide", auto_pad="SAME_UPPER", dilations=[1048575, 1048575],
                              strides=[1, 2047])],
            [value("x", [1, 2048, 1, 2048])], [value("y", [1, 1, 1, 2])], [shape],
        ))
        for part in ("wide", "1048576 x 2147483648", "2048 channels", "4294967296"):
            self.assertIn(part, error)

    def test_a_window_with_too_many_taps_is_refused(self):
        filters = TensorProto(name="k", data_type=FLOAT, dims=[1, 1, 1 << 19, (1 << 20) - 1], data_location=TensorProto.EXTERNAL)
        filters.external_data.add(key="location", value="none.bin")
        error = self.refuse(model_of(
            [helper.make_node("Conv", ["x", "k"], ["y"], name="taps", dilations=[1, 2])],
            [value("x", [1, 1, 1 << 19, 1 << 21])], [value("y", [1, 1, 1, 3])], [filters],
        ))
        for part in ("taps", "524288 x 1048575", "65536"):
            self.assertIn(part, error)

    def test_an_image_of_very_many_rows_compiles(self):
        filters = numpy_helper.from_array(np.ones((1, 1, 1, 2), np.float32), "k")
        rows = 1 << 40
        self.compile(self.write(model_of(
            [helper.make_node("Conv", ["x", "k"], ["y"])], [value("x", [1, 1, rows, 8])], [value("y", [1, 1, rows, 7])], [filters])))

    def test_wide_normalization_windows(self):
        for size, channels in (((1 << 20) - 1, 8), (21, 40), (40, 21), (16, 40), (17, 3), (5, 40)):
            with self.subTest(size=size, channels=channels):
                x = np.random.default_rng(size).standard_normal((2, channels, 3, 5), np.float32)
                data = model_of([helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5 * size, beta=0.75, bias=1.5)],
                                [value("x", x.shape)], [value("y", x.shape)])
                before, behind = (size - 1) // 2, size // 2
                sums = np.stack([(x.astype(np.float64)[:, max(0, c - before):c + behind + 1] ** 2).sum(1) for c in range(channels)], 1)
                got = self.run_module(self.compile(self.write(data)), "x", x)
                self.assert_close(got, (x / (1.5 + 0.5 * sums) ** 0.75).astype(np.float32), 1e-4, 1e-6)

    def test_wide_depthwise_windows(self):
        for width in (3, 16, 17, 40):
            with self.subTest(width=width):
                chosen = np.random.default_rng(width)
                x, k = chosen.standard_normal((1, 20, 2, 60), np.float32), chosen.standard_normal((20, 1, 1, width), np.float32)
                data = model_of([helper.make_node("Conv", ["x", "k"], ["y"], group=20, pads=[0, 1, 0, 1])],
                                [value("x", x.shape)], [value("y", None)], [numpy_helper.from_array(k, "k")])
                padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1))).astype(np.float64)
                windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=3)
                expected = np.einsum("nchwk,ck->nchw", windows, k[:, 0, 0].astype(np.float64)).astype(np.float32)
                got = self.run_module(self.compile(self.write(data)), "x", x)
                self.assert_close(got, expected, 1e-4, 1e-4)

    def test_depthwise_code_does_not_grow_with_the_window(self):
        self.compile(self.write(model_of(
            [helper.make_node("ConstantOfShape", ["shape"], ["k"]), helper.make_node("Conv", ["x", "k"], ["y"], group=16)],
            [value("x", [1, 16, 1, 1 << 20])], [value("y", None)],
            [helper.make_tensor("shape", TensorProto.INT64, [4], [16, 1, 1, (1 << 20) - 1])])))


class Text(HostileModels):
    """Names and numbers of a file as they reach error texts, modules and terminals."""

    def named(self, input_name=b"good", node_name=b"", dim=b"n"):
        """A Relu with these bytes as names, which the onnx package would refuse to encode."""
        data = model_of([helper.make_node("Relu", ["INPUT"], ["y"], name="NODE")], [value("INPUT", ["DIM"])], [value("y", None)])
        for old, new in ((b"INPUT", input_name), (b"NODE", node_name), (b"DIM", dim)):
            self.assertEqual(len(old), len(new))
            data = data.replace(old, new)
        return data

    def test_names_that_are_no_text_are_refused_by_the_importer(self):
        good = {"input_name": b"input", "node_name": b"node", "dim": b"dim"}
        for key, bad in (("input_name", b"\xff\x1b[3m"), ("node_name", b"a\0bc"), ("dim", b"\xc0\x80x")):
            with self.subTest(key=key):
                error = self.refuse(self.named(**{**good, key: bad}))
                self.assertIn("is not UTF-8 text", error)
                self.assertIn("onnx: importing", error)
                self.assertNotIn("\x1b", error)

    def test_long_names_are_refused_with_both_sizes(self):
        name = "x" * 70000
        error = self.refuse(model_of([helper.make_node("Relu", [name], ["y"])], [value(name, [4])], [value("y", [4])]))
        for part in ("70000", "4096"):
            self.assertIn(part, error)
        self.assertLess(len(error), 3000)

    def test_control_characters_do_not_reach_the_terminal(self):
        data = model_of([helper.make_node("Relu", ["absent"], ["y"], name="a\x1b[31mb\x07")], [value("x", [4])], [value("y", [4])])
        self.assertIn("'a?[31mb?'", self.refuse(data))
        data = model_of([helper.make_node("Relu", ["x\x1b[2J"], ["y\x1b[31m"])], [value("x\x1b[2J", [4])], [value("y\x1b[31m", [4])])
        module = self.compile(self.write(data))
        result = self.succeed("run", module, "--input", "f32[4]=1,2,3,4")
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        result = self.fail_with((1, 2), "run", module, "--input", "f32[5]=1,2,3,4,5")
        self.assertNotIn("\x1b", result.stderr)

    def test_an_unnamed_dimension_is_its_own(self):
        # The second input's dimension has the name that the first one's might be given.
        data = model_of(
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["z"], ["b"])],
            [value("x", [None]), value("z", ["x.0"])], [value("a", None), value("b", None)],
        )
        x, z = np.ones(3, np.float32), np.ones(5, np.float32)
        a, b = self.outputs_of(self.compile(self.write(data)), x=x, z=z)
        self.assertEqual((a.shape, b.shape), ((3,), (5,)))

    def test_very_many_axes_are_refused_at_once(self):
        data = model_of([helper.make_node("Unsqueeze", ["x"], ["y"], name="many", axes=list(range(200000)))],
                        [value("x", [1])], [value("y", None)], opset=11)
        error = self.refuse(data)
        for part in ("many", "200000", "32"):
            self.assertIn(part, error)

    def test_an_element_type_beyond_32_bits_is_not_another_one(self):
        data = model_of([helper.make_node("Cast", ["x"], ["y"], name="wide", to=(1 << 32) + 1)], [value("x", [1])], [value("y", None)])
        self.assertIn("4294967297", self.refuse(data))

    def test_a_constant_of_unsigned_elements(self):
        shape = helper.make_tensor("shape", TensorProto.INT64, [1], [3])
        data = model_of(
            [helper.make_node("ConstantOfShape", ["shape"], ["u"], value=helper.make_tensor("v", TensorProto.UINT64, [1], [7])),
             helper.make_node("Cast", ["u"], ["f"], to=FLOAT), helper.make_node("Add", ["x", "f"], ["y"])],
            [value("x", [3])], [value("y", [3])], [shape],
        )
        got = self.run_module(self.compile(self.write(data)), "x", np.ones(3, np.float32))
        np.testing.assert_array_equal(got, np.full(3, 8, np.float32))


class Nodes(HostileModels):
    """Nodes with inputs that are missing, or of ranks that their operators do not have, and with attributes that ask for very much."""

    def refuse_node(self, operator, inputs, parts, stored=(), opset=22, outputs=("y",), **attributes):
        domain, _, operator = operator.rpartition(".")
        node = helper.make_node(operator, [name for name, *_ in inputs], outputs, domain=domain, **attributes)
        given = list({one[0]: value(*one) for one in inputs if len(one) > 1}.values())
        graph = helper.make_graph([node], "hostile", given, [value(outputs[0], None)] if outputs else [], list(stored))
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        with self.subTest(operator=operator, inputs=inputs):
            error = self.refuse(helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString())
            self.assertIn("onnx: importing ", error)
            self.assertNotIn("CHECK", error)
            self.assertLess(len(error), 1000)
            for part in parts:
                self.assertIn(part, error)

    def test_missing_inputs_and_outputs(self):
        x, scale = ("x", [2, 3]), ("s", [])
        self.refuse_node("com.microsoft.Gelu", [], ["input 0 is missing"])
        self.refuse_node("com.microsoft.BiasAdd", [x, ("",)], ["input 1 is missing"])
        self.refuse_node("com.microsoft.SkipLayerNormalization", [x, x], ["input 2 is missing"])
        self.refuse_node("com.microsoft.QLinearAdd", [x, scale], ["input 3 is missing"])
        self.refuse_node("com.microsoft.QuickGelu", [x], ["output 0 is missing"], outputs=())

    def test_ranks_that_attention_does_not_have(self):
        x, number = ("x", [1, 2, 4]), ("n", [])
        self.refuse_node("com.microsoft.Attention", [x, number], ["input 1 is a scalar"], num_heads=2)
        self.refuse_node("com.microsoft.MultiHeadAttention", [number, x, x, ("",), ("mask", [1], TensorProto.INT32)], ["input 0 is a scalar"], num_heads=2)
        self.refuse_node("com.microsoft.RotaryEmbedding", [x, ("at", [1], TensorProto.INT64), number, number], ["input 2 is a scalar"])

    def test_dimensions_of_a_scalar(self):
        self.refuse_node("Transpose", [("x", [])], ["perm is not a permutation of 0 dimensions"], perm=[1, 0, 2])
        x = ("x", [3])
        self.refuse_node("GRU", [x, x, x], ["perm is not a permutation"], hidden_size=5)

    def test_a_window_without_a_dimension(self):
        step = helper.make_tensor("step", TensorProto.INT64, [], [2])
        self.refuse_node("STFT", [("x", [1, 16, 1]), ("step",), ("w", [])], ["the window is not a vector"], [step])

    def test_work_beyond_reason_is_refused_at_once(self):
        text = [("x", [2], TensorProto.STRING)]
        for pattern in ("((a?){100}){100}", "(.*a){900}"):
            self.refuse_node("RegexFullMatch", text, ["its automaton takes too long to make"], pattern=pattern)
        self.refuse_node("StringSplit", text, ["the delimiter has 1000001 bytes, above 256"], delimiter="a" * 1000000 + "b")
        self.refuse_node("StringSplit", text, ["the delimiter has a byte 0"], delimiter="a\0")
        self.refuse_node("TfIdfVectorizer", [("x", [8], TensorProto.INT64)], ["1048832 lookups", "4096"], min_gram_length=256, max_gram_length=256,
                         max_skip_count=4096, mode="TF", ngram_counts=[0] * 256, ngram_indexes=[0], pool_int64s=list(range(256)))
        self.refuse_node("RandomUniform", [], ["4294967297"], shape=[2], dtype=(1 << 32) + 1)


def field(number, data):
    """A field of protobuf with a length; for files that the onnx package refuses to write."""
    def varint(value):
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)
    return varint(number << 3 | 2) + varint(len(data)) + data


class Graphs(HostileModels):
    """Graphs that are none: cycles, names that nothing or several things have, types and sizes that clash, nesting, recursion."""

    def refuse_each(self, cases):
        for name, (data, *parts) in cases.items():
            with self.subTest(name):
                error = self.refuse(data)
                self.assertLess(len(error), 3000)
                for part in parts:
                    self.assertIn(part, error)

    def test_names(self):
        x, a = value("x", [4]), value("a", [4])
        relu = helper.make_node("Relu", ["x"], ["a"], name="first")
        weight = numpy_helper.from_array(np.zeros(4, np.float32), "w")
        twice = helper.make_node("Softmax", ["x"], ["a"], name="first", axis=0)
        twice.attribute.append(helper.make_attribute("axis", -1))
        body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["s", "nowhere"], ["t"], name="inner")], "body",
                                 [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [4])],
                                 [value("on", [], TensorProto.BOOL), value("t", [4])])
        self.refuse_each({
            "cycle of two": (model_of([helper.make_node("Relu", ["b"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["b"])], [x], [a]),
                             "'first'", "'b' is produced by no earlier node"),
            "cycle of one": (model_of([helper.make_node("Relu", ["a"], ["a"], name="first")], [x], [a]), "'first'", "'a' is produced by no earlier node"),
            "nothing gives an output": (model_of([relu], [x], [value("z", [4])]), "'z' is produced by no earlier node"),
            "nothing gives a value of a body": (model_of([helper.make_node("Loop", ["n", "", "x"], ["a"], body=body)],
                                                         [x, value("n", [], TensorProto.INT64)], [a]), "'inner'", "'nowhere'"),
            "two nodes": (model_of([relu, helper.make_node("Neg", ["x"], ["a"], name="second")], [x], [a]), "'second'", "'a' is produced twice"),
            "a node and an input": (model_of([helper.make_node("Relu", ["x"], ["x"], name="first")], [x], [x]), "'first'", "'x' is produced twice"),
            "a node and a weight": (model_of([helper.make_node("Relu", ["x"], ["w"], name="first")], [x], [a], [weight]), "'first'", "'w' is produced twice"),
            "two inputs": (model_of([relu], [x, x], [a]), "input 'x'", "defined twice"),
            "two weights": (model_of([relu], [x], [a], [weight, weight]), "initializer 'w'", "defined twice"),
            "two outputs": (model_of([relu], [x], [a, a]), "two outputs are both 'a'"),
            "two attributes": (model_of([twice], [x], [a]), "'first'", "attribute 'axis' is given twice"),
        })

    def test_types_and_sizes(self):
        x, a = value("x", [4]), value("a", [4])
        add, weight = helper.make_node("Add", ["x", "w"], ["a"], name="first"), numpy_helper.from_array(np.zeros(4, np.float32), "w")
        body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Cast", ["s"], ["t"], to=TensorProto.INT64)], "body",
                                 [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [4])],
                                 [value("on", [], TensorProto.BOOL), value("t", [4], TensorProto.INT64)])

        def stored(dims, **data):
            return TensorProto(name="w", data_type=FLOAT, dims=dims, **data)

        declared = onnx.ModelProto.FromString(model_of([add, helper.make_node("Relu", ["a"], ["b"])], [x], [value("b", [4])], [weight]))
        declared.graph.value_info.append(value("a", [4], TensorProto.INT64))
        self.refuse_each({
            "a result of another type": (declared.SerializeToString(), "node 'first'", "output 'a'", "INT64", "f32"),
            "an output of another type": (model_of([add], [x], [value("a", [4], TensorProto.INT64)], [weight]), "output 'a'", "INT64", "f32"),
            "a weight of another type": (model_of([add], [x, value("w", [4], TensorProto.DOUBLE)], [a], [weight]), "input 'w'", "DOUBLE", "FLOAT"),
            "a weight of another extent": (model_of([add], [x, value("w", [5])], [a], [weight]), "input 'w'", "extent 5", "has 4"),
            "a weight of another rank": (model_of([add], [x, value("w", [4, 1])], [a], [weight]), "input 'w'", "rank 2", "rank 1"),
            "two types": (model_of([add], [x, value("w", [4], TensorProto.INT64)], [a]), "'first'", "element types of the inputs differ"),
            "extents": (model_of([add], [x, value("w", [5])], [a]), "'first'", "f32[4]", "f32[5]"),
            "a loop that changes a type": (model_of([helper.make_node("Loop", ["n", "", "x"], ["a"], name="first", body=body)],
                                                    [x, value("n", [], TensorProto.INT64)], [value("a", None)]), "'first'", "tensor<4xf32>", "tensor<4xi64>"),
            "too few bytes": (model_of([add], [x], [a], [stored([4], raw_data=bytes(4))]), "tensor 'w' of node 'first'", "4 bytes", "at least 16"),
            "too many bytes": (model_of([add], [x], [a], [stored([4], raw_data=bytes(20))]), "tensor 'w' of node 'first'", "20 bytes", "says 16"),
            "too few numbers": (model_of([add], [x], [a], [stored([4], float_data=[1])]), "tensor 'w'", "1 elements", "at least 4"),
            "too many numbers": (model_of([add], [x], [a], [stored([4], float_data=[1] * 5)]), "tensor 'w'", "5 numbers", "says 4"),
            "a negative extent": (model_of([add], [x], [a], [stored([-4], raw_data=bytes(16))]), "tensor 'w'", "extent -4"),
            "a huge weight": (model_of([add], [x], [a], [stored([1 << 40, 1 << 40], raw_data=bytes(16))]), "tensor 'w'", "more than 35184372088832 elements"),
            "a huge input": (model_of([add], [x, value("w", [1 << 62])], [a]), "input 'w'", "4611686018427387904"),
        })
        sizes = {"Expand": ("s", [1 << 62, 1 << 62]), "Tile": ("s", [1 << 62]), "Pad": ("s", [1 << 62, 1 << 62]), "OneHot": ("s", (1 << 63) - 1)}
        for operator, (name, numbers) in sizes.items():
            number = helper.make_tensor(name, TensorProto.INT64, np.shape(numbers), np.ravel(numbers))
            values = [helper.make_tensor("v", FLOAT, [2], [0, 1])] if operator == "OneHot" else []
            node = helper.make_node(operator, ["x", "s", *(one.name for one in values)], ["a"], name="first")
            kind = TensorProto.INT64 if operator == "OneHot" else FLOAT
            extent = 1 if operator == "Expand" else 1 << 30
            self.refuse_each({operator: (model_of([node], [value("x", [extent], kind)], [value("a", None)], [number, *values]), "'first'", "1099511627776")})

    def nested(self, depth):
        """An If in a branch of an If, and so on."""
        inner = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "inner", [], [value("r", [4])])
        outside = field(5, helper.make_attribute("else_branch", inner).SerializeToString())
        graph = inner.SerializeToString()
        for i in range(depth):
            branch = field(1, b"then_branch") + field(6, graph) + bytes([0xA0, 1, 5])
            node = field(1, b"c") + field(2, b"r") + field(3, b"if%d" % i) + field(4, b"If") + field(5, branch) + outside
            graph = field(1, node) + field(2, b"graph") + field(12, value("r", [4]).SerializeToString())
        graph += field(11, value("x", [4]).SerializeToString()) + field(11, value("c", [], TensorProto.BOOL).SerializeToString())
        return bytes([8, 8]) + field(7, graph) + field(8, helper.make_opsetid("", 17).SerializeToString())

    def test_nodes_that_no_schema_admits(self):
        def one(operator, *inputs, outputs=("a",), domain="", **attributes):
            nodes = [helper.make_node(operator, list(inputs or "x"), list(outputs), name="first", domain=domain, **attributes)]
            model = onnx.ModelProto.FromString(model_of(nodes, [value("x", [4, 4])], [value("a", [4, 4])]))
            if domain:
                model.opset_import.append(helper.make_opsetid(domain, 1))
            return model.SerializeToString()

        inner = helper.make_graph([helper.make_node("Relu", ["x"], ["t"], name="inner", slope=0.5)], "then", [], [value("t", [4, 4])])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e", [4, 4])])
        function = helper.make_function("local", "f", ["v"], ["w"], [helper.make_node("Neg", ["v"], ["w"], name="called", bogus=1)], [helper.make_opsetid("", 17)])
        of_function = onnx.ModelProto.FromString(model_of([helper.make_node("f", ["x"], ["a"], domain="local")], [value("x", [4, 4])], [value("a", [4, 4])]))
        of_function.functions.append(function)
        of_function.opset_import.append(helper.make_opsetid("local", 1))
        self.refuse_each({
            "no attributes": (one("Relu", slope=0.5), "'first' (operator Relu, opset 17)", "version 14 of the operator has no attribute 'slope', but none at all; remove it"),
            "another attribute": (one("Softmax", axes=[1]), "'first'", "version 13 of the operator has no attribute 'axes', but 'axis'"),
            "of an older version": (one("Gemm", "x", "x", "x", broadcast=1), "'broadcast'", "'alpha', 'beta', 'transA', 'transB'", "versions 1, 6 do"),
            "of the wrong type": (one("Softmax", axis=0.5), "'first'", "attribute 'axis' must be an integer"),
            "of the wrong type, unread": (one("Selu", gamma=1), "'first'", "attribute 'gamma' must be a float"),
            "missing": (one("Concat", "x", "x"), "'first'", "attribute 'axis' is missing; it must be an integer"),
            "inputs": (one("Relu", "x", "x"), "'first'", "it has 2 inputs, and version 14 of the operator takes 1: the last is 'x'"),
            "inputs that are left out": (one("Clip", "x", "", "", ""), "it has 4 inputs, and version 13 of the operator takes 1 to 3: the last is ''"),
            "outputs": (one("Relu", outputs=["a", "b"]), "it has 2 outputs, and version 14 of the operator gives at most 1: the last is 'b'"),
            "outputs that are left out": (one("Relu", outputs=["a", ""]), "it has 2 outputs"),
            "in a body": (model_of([helper.make_node("If", ["c"], ["a"], then_branch=inner, else_branch=other)], [value("c", [], TensorProto.BOOL), value("x", [4, 4])],
                                   [value("a", [4, 4])]), "'inner'", "attribute 'slope'"),
            "in a function": (of_function.SerializeToString(), "'called'", "attribute 'bogus'"),
            "of ai.onnx.ml": (one("Binarizer", domain="ai.onnx.ml", limit=1.0), "operator ai.onnx.ml.Binarizer, opset 1", "no attribute 'limit', but 'threshold'"),
            "of com.microsoft": (one("QuickGelu", domain="com.microsoft", beta=1.0), "operator com.microsoft.QuickGelu, opset 1", "no attribute 'beta', but 'alpha'"),
            "inputs of com.microsoft": (one("FusedMatMul", "x", "x", "x", domain="com.microsoft"), "it has 3 inputs, and version 1 of the operator takes 2"),
        })

    def test_the_schemas_of_com_microsoft_are_those_of_onnx_runtime(self):
        root = pathlib.Path(__file__).resolve().parents[2] / "compiler" / "import"
        listed = (root / "onnx_microsoft_schemas.inc").read_text()
        operators = re.findall(r'^\{"com.microsoft", "(\w+)"', listed, re.MULTILINE)
        self.assertGreater(len(operators), 30)
        printed = subprocess.run([sys.executable, root / "onnx_schemas.py", "--microsoft", *operators], capture_output=True, text=True, check=True).stdout
        self.assertEqual(listed.split("compares.\n", 1)[1], printed)

    def test_shapes_that_are_contradicted(self):
        """ONNX Runtime takes such models, too, and warns."""
        relu, neg = helper.make_node("Relu", ["x"], ["z"], name="first"), helper.make_node("Neg", ["z"], ["a"])
        cases = {
            "rank": ([4, "n"], [4, "n", 1], [4, "n"], "output 'a' is declared as [4,n,1], and is [4,n]; what the model declares is ignored"),
            "extent": ([4, "n"], [3, "n"], [4, "n"], "output 'a' is declared as [3,n], and is [4,n]"),
            "inside": ([4, 2], [4, 2], [4, 3], "value 'z' is declared as [4,3], and is [4,2]"),
            "names": (["n", 2], ["m", 2], [5, 2], ""),
            "unknown, as some write it": ([4, 2], [-1, 2], [4, 0], ""),
        }
        for name, (own, output, inside, warning) in cases.items():
            model = onnx.ModelProto.FromString(model_of([relu, neg], [value("x", own)], [value("a", output)]))
            model.graph.value_info.append(value("z", inside))
            with self.subTest(name):
                said = self.succeed("compile", self.write(model.SerializeToString()), "-o", self.folder / "model.heddle").stderr
                self.assertEqual("warning: " in said, bool(warning), said)
                self.assertIn(warning, said)

    def test_nesting_and_recursion(self):
        self.compile(self.write(self.nested(24))).unlink()
        self.refuse_each({"graphs": (self.nested(100), "nested too deep at node 'if69'", "30 deep"), "far too deep": (self.nested(2000), "truncated, damaged or not")})
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

        def functions(bodies):
            graph = helper.make_graph([helper.make_node("f0", ["x"], ["a"], domain="own", name="call")], "hostile", [value("x", [4])], [value("a", None)])
            made = [helper.make_function("own", f"f{i}", ["p"], ["r"], nodes, imports) for i, nodes in enumerate(bodies)]
            return helper.make_model(graph, ir_version=10, functions=made, opset_imports=imports).SerializeToString()

        def call(to, given="p", result="r"):
            return helper.make_node(f"f{to}", [given], [result], domain="own")

        self.refuse_each({
            "recursion": (functions([[call(1)], [call(0)]]), "'call/", "own.f0 calls own.f1 calls own.f0"),
            "functions that double": (functions([[call(i + 1, "p", "t"), call(i + 1, "t")] for i in range(40)] + [[helper.make_node("Relu", ["p"], ["r"])]]),
                                      "the bodies of all calls of functions together have more than"),
        })


class ExternalData(HostileModels):
    def with_data(self, length=None):
        weight = TensorProto(name="weight", data_type=FLOAT, dims=[256, 256], data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value="data.bin")
        if length is not None:
            weight.external_data.add(key="length", value=str(length))
        return model_of([helper.make_node("MatMul", ["x", "weight"], ["y"])], [value("x", [1, 256])], [value("y", [1, 256])], [weight])

    def test_a_fifo_is_refused(self):
        os.mkfifo(self.folder / "data.bin")
        error = self.refuse(self.with_data())
        for part in ("'data.bin'", "'weight'", "not a regular file", "model.onnx"):
            self.assertIn(part, error)
        for name in ("pipe.onnx", "pipe.mlir"):
            with self.subTest(name):
                os.mkfifo(self.folder / name)
                error = self.fail_with(1, "compile", self.folder / name, "-o", self.folder / "m.heddle").stderr
                self.assertIn("not a regular file", error)

    def test_short_data_names_the_file_and_both_sizes(self):
        (self.folder / "data.bin").write_bytes(bytes(1000))
        error = self.refuse(self.with_data(length=1000))
        for part in ("model.onnx", "'weight'", "1000 bytes", "262144"):
            self.assertIn(part, error)
