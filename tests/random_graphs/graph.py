# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random ONNX graphs: a seed is a graph, with its inputs, in any version of this file that makes the same choices.

A graph is a dozen or two of nodes over values of ranks 0 to 5, of floats, integers and bools: element-wise ops and broadcasts (elementwise.py), reductions, scans
and norms (reductions.py), movement of elements (movement.py), contractions and windows (contractions.py), and patterns that compilers fuse, such as attention. With
`control` also branches and loops, extents that data decides, and sequences (control.py).
Some have symbolic extents. Values stay so small that f32 is enough to tell right from wrong.
"""
import numpy as np
from onnx import helper

from contractions import Contractions
from control import Control
from elementwise import ElementWise
from movement import Movement
from reductions import Reductions


class Graph(ElementWise, Reductions, Movement, Contractions, Control):
    def __init__(self, seed, float_type=np.float32, control=False):
        super().__init__(seed, float_type)
        self.has_control = control
        for _ in range(int(self.random.integers(1, 4))):
            self.add_input()
        for _ in range(int(self.random.integers(4, 16))):
            self.grow()

    def grow(self):
        makers = [self.unary] * 5 + [self.binary] * 6 + [self.compare_select] * 2 + [self.cast] * 2 + [self.reduce] * 3 + [self.movement] * 9 + [
            self.softmax, self.arg, self.cumsum, self.gather, self.gather, self.matmul, self.matmul, self.linear, self.linear, self.conv, self.conv, self.wide_conv,
            self.pool, self.normalization, self.normalization, self.rms, self.gelu, self.attention, self.rotation, self.integers, self.integers,
            self.einsum, self.resize, self.conv_transpose, self.scatter, self.table, self.several, self.logic, self.replaced, self.quantization,
            self.reduce_integers, self.top, self.named_normalization, self.named_normalization, self.channel_normalization, self.gather_nd, self.one_hot, self.gemm,
            self.global_pool, self.branches] + [self.controlled] * (12 if self.has_control else 0)
        self.keep(self.pick(makers)())

    def outputs(self):
        """Values that nothing reads, and one that something does now and then; the last ones first."""
        unread = [value for value in self.values if value.name not in self.used and value not in self.inputs]
        read = [value for value in self.values if value.name in self.used and value not in self.inputs]
        return list(reversed(unread))[:4] + ([self.pick(read)] if read and self.chance(0.3) else [])

    def model(self):
        outputs = self.outputs()
        if not outputs:
            return None
        nodes, results = self.nodes, [self.info(value) for value in outputs]
        needed, kept = {result.name for result in results}, []
        for node in reversed(nodes):
            if needed & set(node.output):
                kept.append(node)
                needed.update(reads(node))
        inputs = [value for value in self.inputs if value.name in needed]
        weights = [weight for weight in self.weights if weight.name in needed]
        graph = helper.make_graph(list(reversed(kept)), "random", [self.info(value) for value in inputs], results, weights)
        return helper.make_model(graph, ir_version=8 if self.opset < 21 else 10, opset_imports=[helper.make_opsetid("", self.opset)])


def reads(node):
    """Names of the values that it reads, and that its bodies read."""
    names = set(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names |= reads(inner)
    return names
