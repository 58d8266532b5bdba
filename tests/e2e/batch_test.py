# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An example has the same bits whether it is alone or in a batch, and for any number of threads; a matrix product has them in files of any number of rows."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

def weight(name, *shape):
    """The same for a name and a shape each time."""
    random = np.random.default_rng([*name.encode(), *shape])
    return numpy_helper.from_array((random.standard_normal(shape) * 0.2).astype(np.float32), name)


def save(path, nodes, given, result, weights):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", given), ("y", result))]
    graph = helper.make_graph(nodes, "batches", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


def image_network(path, batch):
    weights = [weight("w0", 24, 3, 3, 3), weight("b0", 24), weight("w1", 24, 1, 3, 3), weight("w2", 40, 24, 3, 3), weight("w3", 40, 10)]
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1], group=24),
        helper.make_node("MaxPool", ["c1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]), helper.make_node("GlobalAveragePool", ["c2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]), helper.make_node("MatMul", ["f", "w3"], ["m"]), helper.make_node("Softmax", ["m"], ["y"]),
    ]
    save(path, nodes, [batch, 3, 20, 20], [batch, 10], weights)
    return (3, 20, 20)


def long_products(path, batch):
    """Sums of 2,048 products, which a kernel goes through in several passes."""
    weights = [weight("w0", 2048, 70), weight("w1", 70, 2048), weight("b1", 2048)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["m0"]), helper.make_node("Tanh", ["m0"], ["t"]),
        helper.make_node("MatMul", ["t", "w1"], ["m1"]), helper.make_node("Add", ["m1", "b1"], ["y"]),
    ]
    save(path, nodes, [batch, 2048], [batch, 2048], weights)
    return (2048,)


def attention(path, batch):
    """A normalization, and attention of 21 positions in heads of 16."""
    weights = [weight("scale", 48), weight("bias", 48), weight("wq", 48, 48), weight("wk", 48, 48), weight("wv", 48, 48),
               numpy_helper.from_array(np.array([0, 21, 3, 16], np.int64), "heads"),
               numpy_helper.from_array(np.array([0, 21, 48], np.int64), "whole"),
               numpy_helper.from_array(np.array(0.25, np.float32), "quarter")]
    nodes = [helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["n"])]
    for name, permutation in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [helper.make_node("MatMul", ["n", "w" + name], ["m" + name]), helper.make_node("Reshape", ["m" + name, "heads"], ["r" + name]),
                  helper.make_node("Transpose", ["r" + name], [name], perm=permutation)]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Mul", ["s", "quarter"], ["d"]),
        helper.make_node("Softmax", ["d"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[0, 2, 1, 3]), helper.make_node("Reshape", ["t", "whole"], ["o"]),
        helper.make_node("Add", ["o", "x"], ["y"]),
    ]
    save(path, nodes, [batch, 21, 48], [batch, 21, 48], weights)
    return (21, 48)


class Batches(HeddleTestCase):
    def test_an_example_alone_and_in_a_batch(self):
        for network in (image_network, long_products, attention):
            path = self.folder / f"{network.__name__}.onnx"
            examples = np.random.default_rng(7).standard_normal((33, *network(path, "n")), np.float32)
            module = self.compile(path, "--target", "cpu")
            together = self.run_module(module, "x", examples)
            for count in (1, 2, 5, 12, 13):
                with self.subTest(network=network.__name__, count=count):
                    np.testing.assert_array_equal(self.run_module(module, "x", examples[:count]), together[:count])
            with self.subTest(network=network.__name__, what="the last one alone"):
                np.testing.assert_array_equal(self.run_module(module, "x", examples[-1:]), together[-1:])
            for threads in (1, 2, 4):
                settings = {"HEDDLE_SET": f'driver."heddle.cpu".threads = {threads}'}
                with self.subTest(network=network.__name__, threads=threads):
                    np.testing.assert_array_equal(self.run_module(module, "x", examples, extra_environment=settings), together)

    def test_a_product_in_files_of_other_numbers_of_rows(self):
        examples = np.random.default_rng(7).standard_normal((40, 2048), np.float32)
        results = {}
        for rows in (1, 6, 7, 40, "n"):
            path = self.folder / f"rows{rows}.onnx"
            long_products(path, rows)
            results[rows] = self.run_module(self.compile(path, "--target", "cpu"), "x", examples if rows == "n" else examples[:rows])
        for rows, result in results.items():
            with self.subTest(rows=rows):
                np.testing.assert_array_equal(result, results["n"][: len(result)])
