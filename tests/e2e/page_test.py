# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `heddle explain --html` and `heddle profile --html`: its edges against the module's report, the geometry of its drawings, and names
that try to be more than text. docs/development.md says how to look at one in a browser."""
import html.parser
import json
import os
import re
import subprocess
import unicodedata
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from explain_test import ExplainCase, mul_chain
from heddle_command import DIGITS, heddle, heddle_path

HOSTILE = "</title></td></text></svg></style><script>alert(1)</script><img src=x onerror='alert(\"2\")'>&lt;b&gt;]]>-->"
# Of the style sheet: fonts of fixed width are at most this wide, in parts of their size.
COLUMN = 0.61
SIZES = {"first": 12, "second": 10.5, "label": 10.5, "badge": 10.5, "roofline": 10.5, "lane": 12}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children, self.text = tag, dict(attributes), parent, [], ""

    def all(self, tag, *classes):
        for child in self.children:
            if child.tag == tag and set(classes) <= set(child.attributes.get("class", "").split()):
                yield child
            yield from child.all(tag, *classes)

    def number(self, name):
        return float(self.attributes[name])


class Page(html.parser.HTMLParser):
    """What a browser would make of a page: its elements, and its text."""
    VOID = {"meta", "input", "rect", "path"}  # rect and path: as they are written here, with a slash

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = self.current = Element("", {}, None)
        self.tags, self.attributes, self.texts, self.unbalanced, self.ids = set(), set(), [], [], []
        self.feed(text)
        self.close()
        self.text = "".join(self.texts)

    def handle_starttag(self, tag, attrs, is_closed=False):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]
        element = Element(tag, attrs, self.current)
        self.current.children.append(element)
        if tag not in self.VOID and not is_closed:
            self.current = element

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, True)

    def handle_endtag(self, tag):
        if self.current.tag != tag:
            self.unbalanced.append((tag, self.current.tag))
        else:
            self.current = self.current.parent

    def handle_data(self, data):
        if self.current.tag != "style":
            self.texts.append(data)
        self.current.text += data


class Flow:
    """The data flow of a program, from the bytes that the commands of its report access. Each value is divided where some access begins or ends;
    of each part it is known which nodes may have written it last. A byte range that is known only at a call may be any."""

    def __init__(self, report, function, program):
        self.names, self.edges = [], set()
        states = {i for i, one in enumerate(report["globals"]) if one["kind"] == "state"}
        commands = [command for command in program["commands"]
                    if command["command"] == "dispatch" or all(one["value"] != "verdict" for one in command["bindings"])]
        bounds = {}
        for command in commands:
            for binding in command["bindings"]:
                key = (binding["value"], binding["index"])
                begin, length = binding.get("offset", 0), binding.get("bytes")
                bounds.setdefault(key, {0}).update({begin} if begin is not None else ())
                if begin is not None and length is not None:
                    bounds[key].add(begin + length)
        for i, size in enumerate(program["transient_bytes"]):
            if size is not None:
                bounds[("transient", i)] = {one for one in bounds.get(("transient", i), {0}) if one < size} | {0}
        last = {key: {one: set() for one in sorted(parts)} for key, parts in bounds.items()}
        read_first, written = set(), set()

        def parts(binding):
            """The parts that are accessed, and whether all of them are for certain."""
            key = (binding["value"], binding["index"])
            begin, length = binding.get("offset", 0), binding.get("bytes", "rest")
            if begin is None:
                return last[key], list(last[key]), False
            end = begin + length if isinstance(length, int) else float("inf")
            return last[key], [one for one in last[key] if begin <= one < end], length is not None

        def accesses(command, kind):
            return [one for one in command["bindings"] if one["access"] in (kind, "both") and one["value"] != "verdict"]

        for command in commands:
            for binding in accesses(command, "read"):
                key = (binding["value"], binding["index"])
                if (key[0] == "argument" or (key[0] == "global" and key[1] in states)) and key not in written | read_first:
                    origin = function["arguments"][key[1]] if key[0] == "argument" else report["globals"][key[1]]
                    own = self.add(origin["name"])
                    read_first.add(key)
                    for writers in last[key].values():
                        writers.add(own)
                writers, own_parts, _ = parts(binding)
                command.setdefault("from", set()).update(*(writers[one] for one in own_parts))
            own = self.add(command["region"].split(" ")[0] if command["command"] == "dispatch" else command["command"])
            self.edges |= {(node, own) for node in command.pop("from", ())}
            for binding in accesses(command, "write"):
                written.add((binding["value"], binding["index"]))
                writers, own_parts, is_certain = parts(binding)
                for one in own_parts:
                    writers[one] = {own} if is_certain else writers[one] | {own}
        ends = [("result", i, one) for i, one in enumerate(function["results"])] + [("global", i, report["globals"][i]) for i in sorted(states)]
        for kind, index, end in ends:
            if (kind, index) in written:
                own = self.add(end["name"])
                origins = set().union(*last[(kind, index)].values())
                self.edges |= {(node, own) for node in origins if kind == "result" or self.names[node] != end["name"]}

    def add(self, name):
        self.names.append(name)
        return len(self.names) - 1


def columns(text):
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def points_of(path):
    """A path of M, V and C with absolute coordinates, as a list of points on it."""
    out, x, y = [], 0.0, 0.0
    for command, numbers in re.findall(r"([MVC])([^MVC]*)", path):
        values = [float(one) for one in numbers.split()]
        if command == "M":
            x, y = values
        elif command == "V":
            out += [(x, y + (values[0] - y) * t / 16) for t in range(17)]
            y = values[0]
        else:
            x1, y1, x2, y2, x3, y3 = values
            for step in range(17):
                t = step / 16
                u = 1 - t
                out.append((u**3 * x + 3 * u * u * t * x1 + 3 * u * t * t * x2 + t**3 * x3, u**3 * y + 3 * u * u * t * y1 + 3 * u * t * t * y2 + t**3 * y3))
            x, y = x3, y3
    return [*out, (x, y)]


class PageCase(ExplainCase):
    ALLOWED_TAGS = {"html", "head", "meta", "style", "title", "body", "header", "main", "h1", "h2", "h3", "h4", "dl", "dt", "dd", "b", "i", "small",
                    "section", "p", "div", "span", "table", "tr", "th", "td", "ul", "li", "details", "summary", "a", "input", "label", "svg", "rect",
                    "path", "text"}
    ALLOWED_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "colspan", "id", "href", "title", "type", "checked", "for",
                          "width", "height", "viewbox", "role", "x", "y", "rx", "d", "style", "data-node", "data-of", "data-from", "data-to"}

    def check_page(self, text):
        page = Page(text)
        self.assertEqual(page.tags - self.ALLOWED_TAGS, set())
        self.assertEqual(page.attributes - self.ALLOWED_ATTRIBUTES, set())
        self.assertEqual((page.unbalanced, page.current.tag), ([], ""))
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r"(?i)https?:|url\(|@import|javascript:")
        for word in ("prefers-color-scheme:dark", "@media print"):
            self.assertIn(word, text)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        for link in page.root.all("a"):
            self.assertRegex(link.attributes["href"], r"^#")
            if link.attributes["href"] != "#none":
                self.assertIn(link.attributes["href"][1:], page.ids)
        for svg in page.root.all("svg"):
            self.check_drawing(svg)
        return page

    def page(self, module, *flags):
        path = self.folder / "page.html"
        self.assertEqual(self.succeed("explain", module, "--html", path, *flags).stdout, "")
        return self.check_page(path.read_text(encoding="utf-8"))

    def check_drawing(self, svg):
        """No two boxes overlap, no label overlaps a box or a label, every text is inside of its box, and no line crosses a box."""
        left, top, width, height = map(float, svg.attributes["viewbox"].split())
        boxes, labels = {}, []
        for box in svg.all("a", "box"):
            rect = box.children[[child.tag for child in box.children].index("rect")]
            x, y = rect.number("x"), rect.number("y")
            area = (x, y, x + rect.number("width"), y + rect.number("height"))
            self.assertTrue(left <= area[0] and top <= area[1] and area[2] <= left + width and area[3] <= top + height, (area, svg.attributes))
            boxes[int(box.attributes["data-node"])] = area
            texts = []
            for text in box.all("text"):
                kind = text.attributes["class"]
                size = columns(text.text) * COLUMN * SIZES[kind]
                begin = text.number("x") - (size if kind in ("badge", "roofline") else 0)
                texts.append((begin, text.number("y") - SIZES[kind] * 0.8, begin + size, text.number("y") + SIZES[kind] * 0.2))
                self.assertGreaterEqual(texts[-1][0], area[0], text.text)
                self.assertLessEqual(texts[-1][2], area[2], text.text)
                self.assertLessEqual(texts[-1][3], area[3], text.text)
            for i, one in enumerate(texts):
                self.assertFalse(any(overlap(one, other) for other in texts[:i]), box.attributes)
        for label in svg.all("text", "label"):
            size = columns(label.text) * COLUMN * SIZES["label"]
            labels.append((label.number("x") - size / 2, label.number("y") - 9, label.number("x") + size / 2, label.number("y") + 2))
        areas = [*boxes.values(), *labels]
        areas.sort()
        for i, one in enumerate(areas):
            for other in areas[i + 1:]:
                if other[0] >= one[2]:
                    break
                self.assertFalse(overlap(one, other), (one, other))
        for line in svg.all("path", "line"):
            ends = {int(line.attributes[name]) for name in ("data-of", "data-from", "data-to") if name in line.attributes}
            for x, y in points_of(line.attributes["d"]):
                for node, area in boxes.items():
                    if area[0] + 0.6 < x < area[2] - 0.6 and area[1] + 0.6 < y < area[3] - 0.6:
                        self.fail(f"the line of {ends} crosses the box of {node} at {x}, {y}")

    def check_edges(self, module, page, *flags):
        """The drawing of every region has the edges of the module; the folded one has them between what it draws."""
        report = self.explain(module, *flags)
        families = [slot["family"] for slot in report.get("route", {}).get("slots", [])]
        programs = [(function, program) for function in report["functions"] for program in function["programs"]
                    if not families or program["families"] == families]
        drawn = [svg for div in page.root.all("div", "all") for svg in div.all("svg")]
        self.assertEqual(len(drawn), len(programs))
        for svg, (function, program) in zip(drawn, programs, strict=True):
            flow = Flow(report, function, program)
            edges = {(int(line.attributes["data-from"]), int(line.attributes["data-to"])) for line in svg.all("path", "end")}
            self.assertEqual(edges, flow.edges)
            names = {int(box.attributes["data-node"]): next(box.all("title")).text.split(": ")[0] for box in svg.all("a", "box")}
            self.assertEqual(len(names), len(flow.names))
            for node, name in names.items():
                self.assertTrue(name.startswith(flow.names[node]) or "\x00" in flow.names[node], (name, flow.names[node]))
        return report


class PageTest(PageCase):
    def test_says_all_that_explain_says(self):
        module = self.compile(DIGITS)
        flags = [*self.flags, "--route", "--device", "one"]
        page, told = self.page(module, *flags), self.explain(module, *flags)
        words = set(" ".join(page.texts).split())
        # Words of the tree are cut in another way than lines of text are.
        missing = {word.rstrip(":,-") for word in self.succeed("explain", module, "--full", *flags).stdout.split()} - {word.rstrip(":,-") for word in words}
        self.assertEqual(missing, set())
        places = [page.text.index(region["region"]) for region in told["places"]["regions"] if region["region"].startswith("main")]
        self.assertEqual(places, sorted(places))
        self.assertIn("memory needed by 'main'", page.text)
        self.assertEqual(self.succeed("explain", module, "--html", "-", *flags).stdout, (self.folder / "page.html").read_text(encoding="utf-8"))

    def test_edges_are_those_of_the_module(self):
        module = self.compile(DIGITS)
        page = self.page(module)
        self.check_edges(module, page)
        self.assertIn("f32[batch,10]", page.text)
        panel = next(one for one in page.root.all("section", "panel") if one.attributes["id"] == "p0-2")
        titles = [title.text for title in panel.all("dt")]
        for title in ("kind", "kernel", "strategy", "plan", "workgroups", "result"):
            self.assertIn(title, titles)
        self.assertTrue(any("workspace" in value.text for value in panel.all("dd")))

    def test_operators_and_operations(self):
        module = self.compile(mul_chain(self.folder / "model.onnx", rows=5))
        page = self.page(module)
        boxes = [[text.text for text in box.all("text")] for box in next(page.root.all("svg")).all("a", "box")]
        self.assertIn(["MatMul", "first"], boxes)
        self.assertIn("0.00131 GFLOP in contractions", page.text)
        regions = self.explain(module)["compiler_report"]["regions"]
        products = [region for region in regions if region["node"] in ("first", "second") and region["region"].startswith("main")]
        self.assertEqual([region["flops"] for region in products], [2 * 5 * 512 * 256, 2 * 5 * 256 * 256])
        regions = self.explain(self.compile(DIGITS))["compiler_report"]["regions"]
        first = next(region for region in regions if region["region"] == "main.0.conv")
        self.assertEqual(first["flops"].count("batch"), 1)
        self.assertEqual({op["operator"] for op in first["ops"]}, {"Conv", "BatchNormalization", "Relu"})

    def residual_network(self, layers):
        """Layers of two products with a residual, between a first and a last product."""
        random = np.random.default_rng(1)
        nodes, weights, value = [], [], "x"

        def product(into, name, inputs):
            weights.append(numpy_helper.from_array(random.standard_normal((64, 64)).astype(np.float32), "w_" + name))
            nodes.append(helper.make_node("MatMul", [inputs, "w_" + name], [into], name=name))

        product("head", "head", value)
        value = "head"
        for i in range(layers):
            product(f"a{i}", f"/layers.{i}/up", value)
            nodes.append(helper.make_node("Softmax", [f"a{i}"], [f"s{i}"], name=f"/layers.{i}/softmax"))
            product(f"b{i}", f"/layers.{i}/down", f"s{i}")
            nodes.append(helper.make_node("Add", [f"b{i}", value], [f"c{i}"], name=f"/layers.{i}/add"))
            value = f"c{i}"
        product("y", "tail", value)
        graph = helper.make_graph(nodes, "residual", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])], weights)
        path = self.folder / "residual.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    def test_repeated_blocks_are_folded(self):
        module = self.compile(self.residual_network(9))
        page = self.page(module)
        report = self.check_edges(module, page)
        count = len(report["functions"][0]["programs"][0]["regions"])
        folded = next(page.root.all("div", "folded"))
        boxes = list(folded.all("a", "box"))
        badges = [int(badge.text.lstrip("\u00d7")) for badge in folded.all("text", "badge")]
        self.assertLess(len(boxes), 12)
        self.assertEqual(sum(badges) + len(boxes) - len(badges), count + 2)  # and the argument and the result
        self.assertTrue(badges and set(badges) <= {8, 9}, badges)
        # Every folded edge is one of the module, between nodes that are drawn.
        flow = Flow(report, report["functions"][0], report["functions"][0]["programs"][0])
        drawn = {int(box.attributes["data-node"]) for box in boxes}
        edges = {(int(line.attributes["data-from"]), int(line.attributes["data-to"])) for line in folded.all("path", "end")}
        self.assertLessEqual({edge for edge in flow.edges if set(edge) <= drawn}, edges | {(a, b) for a, b in flow.edges if b - a > count})
        # A residual: some box is read by two others.
        self.assertTrue(any(sum(edge[0] == node for edge in edges) > 1 for node in drawn))

    def test_a_thousand_regions(self):
        module = self.compile(self.residual_network(330))
        page = self.page(module)
        report = self.check_edges(module, page)
        self.assertGreater(len(report["functions"][0]["programs"][0]["regions"]), 900)
        self.assertLess((self.folder / "page.html").stat().st_size, 8_000_000)

    def test_names_stay_text(self):
        model = mul_chain(self.folder / "model.onnx", rows="n<script>", name=HOSTILE, nodes=(HOSTILE, f"'\"{HOSTILE}\x1b[31m\u202e"), graph_input=HOSTILE)
        module = self.compile(model)
        for flags in ([], [*self.flags, "--route", "--device", "gpu"]):
            with self.subTest(flags=flags):
                page = self.page(module, *flags)
                self.assertIn(HOSTILE, page.text)
                self.assertIn("n<script>", page.text)
                self.assertNotIn("\x1b", page.text)
                self.assertNotIn("\u202e", page.text)

    def test_wide_names_fit(self):
        module = self.compile(mul_chain(self.folder / "model.onnx", nodes=("\u756a\u53f7" * 30, "\U0001f600\u0301\u200b" * 20), graph_input="\u5165\u529b" * 20))
        self.check_edges(module, self.page(module))

    def test_two_slots_are_lanes(self):
        module = self.folder / "placed.heddle"
        self.succeed("compile", mul_chain(self.folder / "model.onnx", rows=5), "-o", module, "--place", "second=@host")
        page = self.page(module)
        self.check_edges(module, page)
        svg = next(page.root.all("svg"))
        self.assertEqual([title.text for title in svg.all("text", "lane")], ["default", "@host"])
        lanes = [(lane.number("x"), lane.number("x") + lane.number("width")) for lane in svg.all("rect", "lane")]
        self.assertLess(lanes[0][1], lanes[1][0])
        texts = {box.attributes["data-node"]: [text.text for text in box.all("text")] for box in svg.all("a", "box")}
        # The value that crosses, 5 x 256 floats.
        self.assertTrue(any("5.0 KiB" in " ".join(words) for words in texts.values()), texts)
        self.assertIn("copy from default to @host", page.text)
        # Of a symbol's extent, the bytes are a product.
        self.succeed("compile", mul_chain(self.folder / "model.onnx", rows="n"), "-o", module, "--place", "second=@host")
        page = self.page(module)
        self.check_edges(module, page)
        self.assertIn("copy 1.0 KiB \u00d7 n", page.text)

    def test_values_that_are_written_in_parts(self):
        def command(name, access, **part):
            return {"command": "dispatch", "region": name, "slot": 0, "bindings": [{"value": "transient", "index": 0, "access": access, **part}]}

        first, second = {"offset": 0, "bytes": 64}, {"offset": 64, "bytes": 64}
        commands = [command("0", "write", **first), command("1", "write", **second), command("2", "read", **second), command("3", "read"),
                    command("4", "write"), command("5", "read"), command("6", "write", offset=None, bytes=32), command("7", "read"),
                    command("8", "write", offset=0, bytes=128), command("9", "both", **first), command("10", "read", **second),
                    command("11", "read", **first)]
        edges = {(1, 2), (0, 3), (1, 3), (4, 5), (4, 7), (6, 7), (8, 9), (8, 10), (9, 11)}
        program = {"families": ["cpu"], "regions": [str(i) for i in range(12)], "transient_bytes": [128], "commands": commands}
        function = {"name": "main", "arguments": [], "results": [], "programs": [program]}
        report = {"name": "parts", "slots": [""], "functions": [function], "globals": []}
        self.assertEqual(Flow(report, function, program).edges, edges)
        path = self.folder / "report.json"
        path.write_text(json.dumps(report))
        page = self.check_page(self.succeed("page", path).stdout)
        drawing = next(svg for div in page.root.all("div", "all") for svg in div.all("svg"))
        self.assertEqual({(int(line.attributes["data-from"]), int(line.attributes["data-to"])) for line in drawing.all("path", "end")}, edges)

    def test_a_profile_adds_times(self):
        path = self.folder / "page.html"
        table = self.succeed("profile", self.compile(DIGITS), "--input", "image=f32[2,1,8,8]=1", "--iterations", "3", "--html", path).stdout
        self.assertIn("whole call", table)
        page = self.check_page(path.read_text(encoding="utf-8"))
        svg = next(page.root.all("svg"))
        regions = [box for box in svg.all("a", "box") if "small" not in box.attributes["class"].split()]
        self.assertEqual(len(regions), 8)
        for box in regions:
            self.assertNotIn("h0", box.attributes["class"].split())
            self.assertRegex(" ".join(text.text for text in box.all("text")), r"\d (ns|us|\u00b5s|ms), \d+\.\d %")
            self.assertEqual(len(list(box.all("rect", "bar"))), 1)
        # As in the table: the time, its share, and the share of the roofline; a larger share has a hotter color.
        rows = {row.split()[0]: row for row in table.splitlines() if row.startswith("main.")}
        shares, heats = [], []
        for box in regions:
            row = rows[next(box.all("title")).text.split(":")[0]]
            time, share = next(re.match(r"(.+), ([\d.]+) %$", text.text) for text in box.all("text") if ", " in text.text and "%" in text.text).groups()
            self.assertRegex(row, rf" {re.escape(time)} +{re.escape(share)} % ")
            shares.append(float(share))
            heats.append(next(int(one[1:]) for one in box.attributes["class"].split() if re.match(r"h\d", one)))
            roofline = float(re.search(r"([\d.]+) %$", row)[1])
            self.assertAlmostEqual(float(re.match(r"roofline (\d+) %$", next(box.all("text", "roofline")).text)[1]), roofline, delta=0.6)
        self.assertEqual([heat for _, heat in sorted(zip(shares, heats, strict=True))], sorted(heats))
        self.assertAlmostEqual(sum(shares), 100, delta=0.5)
        self.assertIn("time per call", page.text)

    def test_a_file_appears_whole_or_not_at_all(self):
        module = self.compile(DIGITS)
        for path, code in ((self.folder / "absent" / "page.html", 1), (module, 2)):
            before = module.read_bytes()
            result = heddle("explain", module, "--html", path)
            self.assertEqual(result.code, code, result)
            self.assertEqual(module.read_bytes(), before)
        path = self.folder / "page.html"
        path.write_text("old")
        self.assertNotEqual(heddle("explain", module, "--html", path, "--device", "nowhere").code, 0)
        self.assertEqual(path.read_text(), "old")
        self.assertEqual([name for name in os.listdir(self.folder) if "page" in name], ["page.html"])

    def test_the_program_of_its_own(self):
        report = self.folder / "report.json"
        report.write_text(self.succeed("explain", self.compile(DIGITS), "--format", "json").stdout)
        self.check_page(self.succeed("page", report).stdout)
        for text in ("", "[]", "{}", "no JSON"):
            report.write_text(text)
            self.assertIn("no report of a module", self.fail_with(2, "page", report).stderr)
        # Whatever it is, no crash and no page that is more than text.
        for text in ('{"functions":3}', '{"functions":[{"programs":[{"commands":[{"command":"dispatch","bindings":[3,{"value":{},"access":"read"}]}]}]}]}',
                     json.dumps({"functions": [{"programs": [{"commands": [{"command": "copy", "bindings": [{"value": "transient", "index": 7, "access": "both", "type": "f32[" + "9" * 40 + "]"}] * 3}] * 3}]}],
                                 "memory": [{"labels": [1], "programs": [{"calls": [{}, 3], "places": [{}, 4]}]}], "slots": [1, {}], "globals": 3, "compiler_report": HOSTILE, "name": HOSTILE})):
            report.write_text(text)
            result = heddle("page", report)
            self.assertIn(result.code, (0, 1), result)
            if result.code == 0:
                self.check_page(result.stdout)
            else:
                self.assert_clear_error(result)

    def test_without_the_program(self):
        module = self.compile(DIGITS)
        alone = self.folder / "bin"
        alone.mkdir()
        (self.folder / "lib").symlink_to(heddle_path().parents[1] / "lib")
        (alone / "heddle").write_bytes(heddle_path().read_bytes())
        (alone / "heddle").chmod(0o755)
        page = self.folder / "page.html"
        result = subprocess.run([alone / "heddle", "explain", module, "--html", page], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("install the package heddle-page", result.stderr)
        self.assertFalse(page.exists())


if __name__ == "__main__":
    unittest.main()
