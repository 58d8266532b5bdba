# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `heddle explain --html` for whole networks: the nine `light` networks, and transformers of several layers. Its drawings are compared
with the module's commands, as in page_test.py, and with the edges of the ONNX graph, which know nothing of commands and bytes."""
import collections
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from page_test import Flow, PageCase
import light  # found through heddle_command
from transformer_layer_test import BATCH, HIDDEN, INNER, Layer, LlamaLayer, SEQUENCE, SIZE

# Their results depend on the shape of their operand only.
OF_SHAPES = {"Shape", "Size"}


class Model:
    """The nodes of an ONNX graph that compute from its inputs: which values each reads from which nodes."""

    def __init__(self, model):
        graph = model.graph
        constants = {tensor.name for tensor in graph.initializer}
        writers = {one.name: one.name for one in graph.input if one.name not in constants}
        self.inputs = set(writers)
        self.sources = {}
        for node in graph.node:
            sources = {writers[name] for name in node.input if name in writers}
            if sources:
                self.sources[node.name] = sources if node.op_type not in OF_SHAPES else set()
                writers.update(dict.fromkeys(node.output, node.name))
        for one in graph.output:
            if one.name in writers:
                self.sources["result " + one.name] = {writers[one.name]}

    def behind(self, nodes, seen):
        """The nearest sources of nodes that are among `seen`."""
        found, waiting, known = set(), [one for node in nodes for one in self.sources.get(node, ())], set()
        while waiting:
            node = waiting.pop()
            if node in known:
                continue
            known.add(node)
            if node in seen:
                found.add(node)
            else:
                waiting += self.sources.get(node, ())
        return found

    def near(self, nodes, seen, passed):
        """The nearest sources of nodes that are among `seen`; behind those that are `passed` also the next ones."""
        found, waiting = set(), list(nodes)
        known = set(nodes)
        while waiting:
            for source in self.sources.get(waiting.pop(), ()):
                if source not in known:
                    known.add(source)
                    found |= {source} & set(seen)
                    waiting += [source] if source not in seen or source in passed else ()
        return found


def named(model):
    """Every node with a name of its own, by which the drawing is compared with the graph."""
    taken = set()
    for i, node in enumerate(model.graph.node):
        if not node.name or node.name in taken or " " in node.name:
            node.name = f"{node.op_type}_{i}"
        taken.add(node.name)
    return model


def with_different_weights(model):
    """Of a `light` network, most of whose weights are 0.02: equal nodes would be computed once, and have the name of one of them."""
    for i, node in enumerate(node for node in model.graph.node if node.op_type == "ConstantOfShape"):
        (value,) = [attribute for attribute in node.attribute if attribute.name == "value"]
        value.t.CopyFrom(numpy_helper.from_array(np.array([0.02 + i * 1e-5], np.float32)))
    return model


class NetworkCase(PageCase):
    def check_network(self, model, *flags):
        path = self.folder / "network.onnx"
        onnx.save(named(model), path)
        return self.check_module(self.compile(path, *flags), Model(model))

    def check_module(self, module, model, most_width=1350):
        """The edges of both drawings; returns the numbers of regions and edges, and the drawing with repeated blocks once."""
        page = self.page(module)
        report = self.check_edges(module, page)
        (function,), (program,) = report["functions"], report["functions"][0]["programs"]
        (every,) = [svg for div in page.root.all("div", "all") for svg in div.all("svg")]
        edges = {(int(line.attributes["data-from"]), int(line.attributes["data-to"])) for line in every.all("path", "end")}
        names = Flow(report, function, program).names
        self.check_graph(report, function, names, edges, model)
        folded = [svg for div in page.root.all("div", "folded") for svg in div.all("svg")]
        if folded:
            self.check_folded(page, folded[0], edges, len(names))
        # The drawing that is shown first fits a window of 1400 pixels.
        self.assertLessEqual((folded or [every])[0].number("width"), most_width)
        return len(program["regions"]), len(edges), folded

    def check_graph(self, report, function, names, edges, model):
        """What the graph's nodes read, the regions that have them read as well, and no others."""
        regions = {region["region"]: region for region in report["compiler_report"]["regions"]}
        results = {one["name"] for one in function["results"]}
        nodes, joined = [], collections.defaultdict(set)  # of each box; concatenations of which it may be a part
        moves = set()  # boxes that only move elements
        for i, name in enumerate(names):
            region = regions.get(name)
            if region is None:
                is_result = name in results and not any(a == i for a, _ in edges)
                nodes.append({"result " + name} if is_result else {name})
                moves |= {i} if name in ("copy", "fill") else set()
                continue
            own = collections.defaultdict(set)
            for op in region["ops"]:
                if "node" in op:
                    own[op["node"]].add(op["op"])
            # A node of which only the broadcast of a constant is here is computed elsewhere. Parts of a concatenation are written where they are
            # computed; only one of these regions has its node.
            nodes.append({node for node, ops in own.items() if not ops <= {"tx.broadcast", "tx.concat"} or len(own) == 1})
            moves |= {i} if region["kind"] == "movement" else set()
            joined[i] = {node for node, ops in own.items() if "tx.concat" in ops}
        boxes_of = collections.defaultdict(set)
        for i, own in enumerate(nodes):
            for node in own:
                boxes_of[node].add(i)
        before = collections.defaultdict(set)
        for a, b in edges:
            before[b].add(a)
        after = collections.defaultdict(set)
        for a, b in edges:
            after[a].add(b)
        for node in model.sources:
            if node not in boxes_of:
                continue
            # Boxes whose results reach the node's, through boxes that move or join elements and those of the node itself. Some of these only check values.
            last = [box for box in boxes_of[node] if after[box] - boxes_of[node]]
            reached, waiting = set(), last or [max(boxes_of[node])]
            while waiting:
                box = waiting.pop()
                if box in reached:
                    continue
                reached.add(box)
                waiting += before[box] if box in boxes_of[node] | moves or joined[box] else ()
            for source in model.behind([node], boxes_of):
                self.assertTrue(boxes_of[source] & reached, f"'{node}' reads '{source}', but no line leads from {boxes_of[source]} to {boxes_of[node]}")
        moved = {node for box in moves for node in nodes[box]}
        for a, b in edges:
            if a not in moves and b not in moves and not nodes[a] & nodes[b]:
                near = model.near(nodes[b] | joined[b], boxes_of, moved)
                self.assertTrue(nodes[a] & near, f"a line leads from {names[a]} to {names[b]}, which reads only {near}")

    def check_folded(self, page, svg, edges, count):
        """The folded drawing has every line of the whole one, except from a repetition of a block to its next; and each repetition has the block's."""
        groups = {int(section.attributes["id"].split("-")[1]): sorted({int(link.attributes["href"].split("-")[1]) for link in section.all("a")
                                                                       if link.attributes["href"].startswith("#p0-")})
                  for section in page.root.all("section", "panel") if section.attributes["id"].startswith("g0-")}
        members = {}
        for box in svg.all("a", "box"):
            node = int(box.attributes["data-node"])
            members[node] = groups.get(node, [node])
            self.assertIn(node, members[node])
            badges = [text.text for text in box.all("text", "badge")]
            self.assertEqual(badges, [f"\u00d7{len(members[node])}"] if len(members[node]) > 1 else [])
        self.assertEqual(sorted(one for own in members.values() for one in own), list(range(count)))  # each is drawn once
        place = {one: (node, i) for node, own in members.items() for i, one in enumerate(own)}
        drawn = {(int(line.attributes["data-from"]), int(line.attributes["data-to"])) for line in svg.all("path", "end")}
        seen = set()
        for a, b in edges:
            (from_box, from_repetition), (to_box, to_repetition) = place[a], place[b]
            if (from_box, to_box) in drawn:
                seen.add((from_box, to_box))
            else:
                self.assertTrue(len(members[from_box]) > 1 and len(members[to_box]) > 1, f"the line from {a} to {b} is not drawn")
                self.assertEqual(to_repetition, from_repetition + 1, f"the line from {a} to {b} is not drawn")
        self.assertEqual(drawn, seen)
        for from_box, to_box in drawn:
            if len(members[from_box]) == len(members[to_box]) > 1:
                missing = {(a, b) for a, b in zip(members[from_box], members[to_box], strict=True)} - edges
                self.assertEqual(missing, set(), f"not in every repetition, although the line from {from_box} to {to_box} is drawn")


class LightTest(NetworkCase):
    def check(self, name):
        self.check_network(with_different_weights(onnx.load(light.published_path(name))))


class TransformerTest(NetworkCase):
    """Four layers, of which the first takes its values from elsewhere; the others are drawn once."""
    LAYERS = 4

    def check(self, layers, step, inputs):
        value = "x"
        for _ in range(self.LAYERS):
            value = step(value)
        regions, _, folded = self.check_network(layers.model({"x": (BATCH, SEQUENCE, HIDDEN), **inputs}, value))
        badges = {badge.text for svg in folded for badge in svg.all("text", "badge")}
        self.assertTrue(badges & {"\u00d73", "\u00d74"}, (regions, badges))

    def test_layers_with_residuals_before_the_normalization(self):
        layers = Layer()

        def step(x):
            first = layers.normalization(layers.node("Add", layers.attention(x, "mask"), x))
            inner = layers.linear(layers.gelu(layers.linear(first, HIDDEN, 2 * HIDDEN)), 2 * HIDDEN, HIDDEN)
            return layers.normalization(layers.node("Add", inner, first))

        self.check(layers, step, {"mask": (BATCH, 1, 1, SEQUENCE)})

    def test_layers_with_rotary_embeddings_and_a_gate(self):
        layers = LlamaLayer()

        def step(x):
            first = layers.node("Add", x, layers.attention(layers.root_mean_square(x), "mask"))
            normal = layers.root_mean_square(first)
            gate, up = layers.node("MatMul", normal, layers.weight(HIDDEN, INNER)), layers.node("MatMul", normal, layers.weight(HIDDEN, INNER))
            inner = layers.node("Mul", layers.node("Mul", gate, layers.node("Sigmoid", gate)), up)
            return layers.node("Add", first, layers.node("MatMul", inner, layers.weight(INNER, HIDDEN)))

        self.check(layers, step, {"mask": (1, 1, SEQUENCE, SEQUENCE), "cos": (1, 1, SEQUENCE, SIZE), "sin": (1, 1, SEQUENCE, SIZE)})


class NamesTest(PageCase):
    def first_lines(self, module):
        return [next(box.all("text", "first")).text for box in next(self.page(module).root.all("svg")).all("a", "box")]

    def test_a_shared_constant_is_no_operator_of_its_reader(self):
        # As published, biases are equal.
        lines = self.first_lines(self.compile(light.published_path("squeezenet")))
        self.assertEqual({line for line in lines if "Conv" in line}, {"Conv, Relu", "Conv, Relu, Concat"})

    def test_equal_operators_are_counted_and_checks_are_called_so(self):
        indices = helper.make_tensor_value_info("i", TensorProto.INT64, [5])
        table = numpy_helper.from_array(np.ones((7, 3), np.float32), "table")
        nodes = [helper.make_node("Gather", ["table", "i"], ["g"], name="rows")]
        nodes += [helper.make_node("Erf" if i % 2 else "Tanh", [f"e{i}" if i else "g"], [f"e{i + 1}"], name=f"step{i}") for i in range(3)]
        graph = helper.make_graph(nodes, "rows", [indices], [helper.make_tensor_value_info("e3", TensorProto.FLOAT, [5, 3])], [table])
        path = self.folder / "rows.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        lines = self.first_lines(self.compile(path))
        self.assertIn("check of Gather", lines)
        self.assertIn("Gather, 2 Tanh, Erf", lines)


def add_cases():
    for name in light.NAMES:
        setattr(LightTest, f"test_{name}", lambda self, name=name: self.check(name))


add_cases()


if __name__ == "__main__":
    unittest.main()
