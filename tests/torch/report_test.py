# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.report: what it measures, its three forms, the comparison of two runs, and `heddle breaks`."""
import contextlib
import heapq
import html.parser
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import heddle
from heddle.torch import _breaks_compare, _breaks_hints, _breaks_messages, _breaks_page, _breaks_text, breaks
from heddle.torch import report as open_report
from heddle.torch._breaks_records import Break, Cost, Fallback, Graph, HostRead, Place, Recompilation, Report
from heddle.torch.report import Executable, GraphNote, current_graph, note_graph

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = unittest.skipUnless(HAS_TORCH, "SKIP: PyTorch is not installed; tools/dev/setup --torch installs it")
HEDDLE = os.path.join(os.environ.get("HEDDLE_BIN", ""), "heddle")
SCHEMA = json.loads((pathlib.Path(heddle.__file__).parent / "torch" / "report.schema.json").read_text())
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}


def violations(value, schema, at="report"):
    """Where a value departs from a JSON Schema: the part of it that report.schema.json uses. Words that are not known are an error."""
    unknown = set(schema) - {"$schema", "$defs", "$ref", "title", "description", "type", "const", "enum", "pattern", "minimum", "required", "properties", "additionalProperties", "items"}
    assert not unknown, unknown
    if "$ref" in schema:
        yield from violations(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], at)
    types = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if types and not any(isinstance(value, KINDS[one]) and not (isinstance(value, bool) and one != "boolean") for one in types):
        yield f"{at} is {value!r}, and not {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{at} is {value!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is {value!r}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at} is {value!r}"
    if "minimum" in schema and value is not None and value < schema["minimum"]:
        yield f"{at} is {value!r}"
    if isinstance(value, dict):
        yield from (f"{at} has no {name}" for name in schema.get("required", []) if name not in value)
        more = schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in schema.get("properties", {}):
                yield from violations(one, schema["properties"][name], f"{at}.{name}")
            elif more is False:
                yield f"{at} has {name}"
            elif isinstance(more, dict):
                yield from violations(one, more, f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, one in enumerate(value):
            yield from violations(one, schema["items"], f"{at}[{i}]")


def made_up():
    """A report with something in every field."""
    place = Place("/home/x/train.py", 12, "forward", "if y.sum() > 0: # <&>")
    cost = Cost(10, 9, 8, 0.01, 12.5, 10, 0.002, 4096, 2048, 4, 7, 3, 2, 1)
    one = Break(0, "GB0170", "Data-dependent branching", "why <b>", "context", ["hint"], "torch.where", "https://example.org/gb0170.html", place,
                [Place("/home/x/train.py", 40, "step", "forward(x)"), place], "split", ["graph break in loop"], 2, [0], [1], cost)
    graphs = [Graph(0, "inductor", place, "0/0", None, 0, 7, 1, 1, False, {"trace": 0.1, "backend": 0.2}, 10, 6, 20.5, 40.0, 0.0003, 2, 1),
              Graph(1, "inductor", place, "1/0", 0, None, 3, 1, 1, True, {}, 9, 0, None, None, 0.0, None, None, [Executable("part", 3)],
                    [Fallback("aten.sort.default", "why", place, 2, "amax")], ["no CUDA graph"])]
    return Report({"heddle": "0", "torch": "2.13", "python": "3.11"}, 1, "train.py", 3.0, {"trace": 0.1, "backend": 0.2}, 4, 1, [one], graphs,
                  [Recompilation(place, "0/1", ["L['x'].size()[0] == 3"], "mark it")], [HostRead(place, 10, 0.002, None, 5), HostRead(place, 1, 0.1, 1, 1)], ["a note"])


class Page(html.parser.HTMLParser):
    """Checks that elements nest, and collects the text and what is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.loads = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "srcset") or (tag in ("link", "script", "img"))]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


class Forms(unittest.TestCase):
    """Without PyTorch."""

    def test_json_is_as_the_schema_says_and_is_read_back(self):
        report = made_up()
        read = json.loads(json.dumps(report.as_dict()))
        self.assertEqual(list(violations(read, SCHEMA)), [])
        self.assertEqual(Report.from_dict(read), report)
        self.assertEqual(read["totals"], {"breaks": 1, "graphs": 2, "fallbacks": 2, "recompilations": 1, "graph_calls": 19, "observed_calls": 6, "backward_calls": 0})
        read["breaks"][0]["outcome"] = "vanished"
        read["graphs"][0]["calls"] = -1
        del read["notes"]
        self.assertEqual(len(list(violations(read, SCHEMA))), 3)

    def test_other_json_is_refused(self):
        for read, text in (([], "version is None"), ({"version": 2}, "version is 2"), ({"version": 1, "breaks": [{"id": "x"}]}, "'x' is not of the type int"),
                           ({"version": 1, "speed": 3}, "speed")):
            with self.subTest(text), self.assertRaisesRegex(heddle.InvalidArgumentError, text):
                Report.from_dict(read)

    def test_text_has_every_part(self):
        text = _breaks_text.text_of(made_up())
        for part in ("train.py: 1 break, 2 graphs for inductor, 2 fallbacks, 1 recompilation", "observed: 6 of 19 calls of graphs. Numbers of calls are exact;", "train.py:12  GB0170  Data-dependent branching", "if y.sum() > 0",
                     "met 2 times (graph break in loop)", "10 crossings, 9 extra calls of graphs, 12.5 us", "10 values read by the host, which waited 2.00 ms",
                     "4.0 KiB written for the code after it; at most 2.0 KiB kept", "7 operators before with 3 after (kernels: 2 and 1)", "torch.where",
                     "aten.sort.default, 2 nodes in graph 1", "break 0 to end", "size()[0] == 3", "mark it", "in graph 1", "note: a note"):
            self.assertIn(part, text)
        self.assertLess(max(map(len, text.splitlines())), 160)

    def test_the_page_nests_and_loads_nothing(self):
        page = Page()
        page.feed(_breaks_page.page_of(made_up()))
        self.assertEqual((page.open, page.loads), ([], []))
        text = "".join(page.text)
        for part in ("GB0170", "observed: 6 of 19 calls of graphs", "if y.sum() > 0: # <&>", "why <b>", "aten.sort.default", "break 0 to end", "a note"):
            self.assertIn(part, text)
        self.assertIn("None.", _breaks_page.page_of(Report()))

    def test_the_page_escapes_what_it_shows(self):
        text = '<script>alert(1)</script>"><img src=x>'

        def hostile(value):
            if isinstance(value, str):
                return text
            if isinstance(value, dict):
                return {text + name: hostile(one) for name, one in value.items()}
            if isinstance(value, list):
                return [hostile(one) for one in value]
            return type(value)(**{name: hostile(one) for name, one in vars(value).items()}) if hasattr(value, "__dict__") else value

        page, made = Page(), _breaks_page.page_of(hostile(made_up()))
        page.feed(made)
        self.assertEqual((page.open, page.loads), ([], []))
        self.assertNotIn("<script", made)
        self.assertNotIn("<img", made)
        self.assertGreater("".join(page.text).count("<script>alert(1)</script>"), 20)

    def test_what_changed(self):
        old, new = made_up(), made_up()
        new.breaks[0].place.line += 5  # the same line of code
        self.assertEqual(_breaks_compare.compare(old, new).new, [])
        new.breaks.append(Break(1, "GB0124", "item", place=Place("/home/x/train.py", 20, "forward", "y.item()")))
        new.graphs[1].fallbacks[0].count = 5
        change = _breaks_compare.compare(old, new)
        self.assertEqual(([one.code for one in change.new], change.gone, change.new_fallbacks[0].count), (["GB0124"], [], 3))
        text = str(change)
        self.assertIn("breaks: 1 new, 0 gone\n+ /home/x/train.py:20: GB0124  item\n      y.item()", text)
        self.assertIn("fallbacks: 3 new, 0 gone", text)
        self.assertIn(", 3 nodes", text)
        new.graphs[1].fallbacks[0].count = old.graphs[1].fallbacks[0].count + 1
        self.assertRegex(str(_breaks_compare.compare(old, new)), ", 1 node( of a backward pass)?\n")
        back = _breaks_compare.compare(new, old)
        self.assertEqual([one.code for one in back.gone], ["GB0124"])

    def test_messages_are_taken_apart(self):
        text = ("Data-dependent branching\n  Explanation: Detected it.\n  Hint: One\n    and more.\n  Hint: Two.\n\n  Developer debug context: jump\n\n"
                " For more details about this graph break, please visit: https://a.b/gb/gb0170.html\n\n"
                "*** While handling this graph break, another graph break occurred: ***\n\ngraph break in loop\n  Explanation: x\n\n  Developer debug context: y\n")
        message, wrapped = _breaks_messages.read(text)
        self.assertEqual((message.code, message.kind, message.reason, message.context), ("GB0170", "Data-dependent branching", "Detected it.", "jump"))
        self.assertEqual((message.hints, wrapped), (["One and more.", "Two."], ["graph break in loop"]))
        self.assertEqual(_breaks_messages.read("out of range")[0].reason, "out of range")
        self.assertEqual(_breaks_messages.guard("1/0: ___stack0 == 5.39       # y = x / scale  # a.py:16 in f\nUser stack trace:\n  File"), "___stack0 == 5.39")

    def test_a_report_is_read_by_the_command(self):
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            path = pathlib.Path(folder) / "a.json"
            path.write_text(_breaks_text.json_of(made_up()))
            for arguments, expected in (([], 0), (["--max-breaks", "0"], 3), (["--max-breaks", "1", "--max-fallbacks", "1"], 3), (["--max-breaks", "1", "--max-fallbacks", "2"], 0)):
                with self.subTest(arguments), contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                    self.assertEqual(breaks.main([str(path), *arguments]), expected)
                self.assertIn("1 break, 2 graphs", out.getvalue())
                self.assertEqual(bool(err.getvalue()), expected == 3)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(breaks.main([str(path), "--against", str(path), "--html", str(path) + ".html", "--json", folder + "/b"]), 0)
            self.assertIn("breaks: 0 new, 0 gone", out.getvalue())
            self.assertTrue((path.parent / "a.json.html").read_text().startswith("<!DOCTYPE html>"))
            self.assertEqual(json.loads((path.parent / "b").read_text())["version"], 1)
            for arguments, text in (([folder + "/missing.json"], "No such file"), ([folder + "/missing.py"], "there is no such file"),
                                    ([str(path), "--html", folder], "writing"), ([str(path), "--against", folder + "/a.json.html"], "it is no JSON")):
                with self.subTest(text), contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(breaks.main(arguments), 1)
                self.assertIn(text, err.getvalue())
            for arguments in ([], ["--max-breaks", "-1", "x.py"], [str(path), "--backend", "eager"], ["--max-breaks", "many", "x.py"]):
                with self.subTest(arguments), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as end:
                    breaks.main(arguments)
                self.assertEqual(end.exception.code, 2)

    @unittest.skipIf(HAS_TORCH, "PyTorch is installed")
    def test_without_pytorch_the_command_says_so(self):
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.assertEqual(breaks.main([__file__]), 1)
        self.assertEqual(err.getvalue(), f"heddle breaks: opening a report of graph breaks failed: PyTorch is not installed; {sys.executable} -m pip install torch\n")

    def test_hints_about_printing_say_what_can_be_printed(self):
        for code, reason in (("GB0059", "Dynamo does not know how to trace builtin operator `print`"), ("GB0296", "`torch.compile` can only reorder functions")):
            self.assertIn('formatted strings, such as f"{x.shape}"', _breaks_hints.for_break(code, "", reason, ""))

    def test_a_reader_that_ends_is_no_error(self):
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            path = pathlib.Path(folder) / "a.json"
            path.write_text(_breaks_text.json_of(made_up()))
            reader, writer = os.pipe()
            os.close(reader)
            try:
                done = subprocess.run([sys.executable, "-m", "heddle.torch.breaks", "--max-breaks", "0", str(path)], stdout=writer, stderr=subprocess.PIPE, text=True)
            finally:
                os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (3, "heddle breaks: there is 1 break, and --max-breaks is 0\n"))

    def test_flags_of_the_script_are_left_to_it(self):
        made = breaks.parser()
        self.assertEqual(breaks._split(made, ["--json", "a.json", "train.py", "--json", "b"]), (["--json", "a.json", "train.py"], ["--json", "b"]))
        self.assertEqual(breaks._split(made, ["-m", "pkg", "--help"]), (["-m", "pkg"], ["--help"]))
        self.assertEqual(breaks._split(made, ["--max-breaks=3", "--caches", "a.json", "--html", "x"]), (["--max-breaks=3", "--caches", "a.json", "--html", "x"], []))

    def test_nothing_is_taken_while_no_report_is_open(self):
        self.assertIsNone(current_graph())
        self.assertFalse(note_graph(GraphNote(notes=["x"])))

    def test_heddle_does_not_import_pytorch(self):
        done = subprocess.run([sys.executable, "-c", "import heddle, sys; print('torch' in sys.modules, 'heddle.torch' in sys.modules)"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["False", "False"])


def chain(x):
    y = x * 2 + 1
    torch._dynamo.graph_break()
    z = y * y
    if z.sum() > 0:
        z = z + 1
    return z - y


if HAS_TORCH:
    import torch


@needs_torch
class Observed(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()

    def test_costs_are_measured(self):
        x = torch.ones(256, 4)
        with open_report("chain") as report:
            compiled = torch.compile(chain, backend="eager")
            for _ in range(10):
                compiled(x)
        found = report.result()
        self.assertEqual(list(violations(found.as_dict(), SCHEMA)), [])
        self.assertEqual([one.code for one in found.breaks], ["GB0025", "GB0170"])
        self.assertEqual([graph.ops for graph in found.graphs], [2, 3, 2])
        self.assertEqual([(graph.starts_after, graph.ends_in, graph.calls) for graph in found.graphs], [(None, 0, 10), (0, 1, 10), (1, None, 10)])
        for one, size in zip(found.breaks, (4096, 4096 + 1)):
            cost = one.cost
            self.assertEqual((cost.crossings, cost.extra_graph_calls), (10, 10))
            self.assertGreater(cost.between_p50_us, 0)
            self.assertGreaterEqual(cost.bytes_crossed, 10 * size)
            self.assertGreaterEqual(cost.bytes_kept, 4096)
        self.assertEqual((found.breaks[0].cost.host_waits, found.breaks[1].cost.host_waits), (0, 10))
        self.assertEqual((found.breaks[0].cost.ops_before, found.breaks[0].cost.ops_after), (2, 3))
        for graph in found.graphs:
            self.assertLessEqual(graph.p50_us, graph.p99_us)
            self.assertGreater(graph.phases["trace"], 0)
        self.assertEqual(found.notes, [])

    def test_pytorch_is_as_it_was_when_the_report_is_closed(self):
        from torch._dynamo import convert_frame, metrics_context, output_graph, symbolic_convert

        def parts():
            return (symbolic_convert.InstructionTranslatorBase.log_graph_break, convert_frame.ConvertFrameAssert.__call__, output_graph.OutputGraph.call_user_compiler,
                    convert_frame.get_and_maybe_log_recompilation_reasons, metrics_context.MetricsContext.__exit__)

        before = parts()
        with open_report() as report:
            self.assertTrue(all(now is not then for now, then in zip(parts(), before)))
            torch.ones(1).item()
        self.assertEqual(parts(), before)
        self.assertEqual(len(report.result().host_reads), 1)
        torch.ones(1).item()
        self.assertEqual(report.result().host_reads[0].count, 1)
        calls = report.result().as_dict()
        torch.compile(chain, backend="eager")(torch.ones(3))
        self.assertEqual(report.result().as_dict(), calls)

    def test_one_report_at_a_time(self):
        with open_report() as report:
            with self.assertRaisesRegex(heddle.FailedPreconditionError, "another report is open"):
                open_report().open()
        with self.assertRaisesRegex(heddle.FailedPreconditionError, "was closed"):
            report.open()

    def test_recompilations_name_the_guard(self):
        with open_report() as report:
            compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
            compiled(torch.ones(3))
            compiled(torch.ones(4))
            compiled = torch.compile(lambda x, how: x * 2 if how == "twice" else x + 1, backend="eager")
            compiled(torch.ones(3), "twice")
            compiled(torch.ones(3), "one more")
        again, other = report.result().recompilations
        self.assertEqual(again.guards, ["tensor 'x' size mismatch at index 0. expected 3, actual 4"])
        self.assertIn("mark_dynamic", again.instead)
        self.assertEqual(pathlib.Path(again.place.file).name, "report_test.py")
        self.assertEqual(other.guards, ["how == 'twice'"])
        self.assertIn("constants of the graph", other.instead)

    def test_what_a_backend_says_is_in_the_report(self):
        later = []

        def partitioned(gm, example_inputs):
            place = Place("x.py", 3, "f", "")
            self.assertTrue(note_graph(GraphNote([Executable("a", 1), Executable("b", 1)], [Fallback("aten.sort.default", "no code", place)], phases={"import": 0.0})))
            later.append(current_graph())
            torch._dynamo.utils.get_metrics_context().set("cudagraph_skip_reason", "an input is mutated")  # as Inductor says it
            return gm.forward

        with open_report() as report:
            torch.compile(lambda x: torch.tanh(x) + 1, backend=partitioned)(torch.ones(3))
            self.assertIsNone(current_graph())
            self.assertTrue(note_graph(GraphNote(kernels=3, notes=["backward"]), later[0]))
            self.assertFalse(note_graph(GraphNote(), 5))
        graph, = report.result().graphs
        self.assertEqual((graph.backend, len(graph.executables), graph.fallbacks[0].op, graph.kernels), ("partitioned", 2, "aten.sort.default", 3))
        self.assertEqual(set(graph.notes), {"no CUDA graph: an input is mutated", "backward"})
        self.assertIn("import", graph.phases)
        self.assertEqual(report.result().fallbacks, 1)

    def test_backends_have_names(self):
        from heddle.torch._breaks_observer import backend_name

        self.assertEqual([backend_name(one) for one in (heddle.torch.backend, torch.nn.functional.relu)], ["heddle", "relu"])
        with heddle.torch.report() as report:
            torch.compile(torch.sin, backend=heddle.torch.backend)(torch.ones(3))
        self.assertEqual([one.backend for one in report.result().graphs], ["heddle"])

    def test_two_backends_are_in_one_table(self):
        """With what each of them says of its own graphs alone."""
        def decomposed(x):
            return torch.linalg.qr(x * 2).R.sin()  # falls back

        with open_report() as report, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = torch.compile(decomposed, backend=heddle.torch.backend), torch.compile(chain, backend="aot_eager")
            for _ in range(3):
                theirs(ours(torch.ones(4, 4)))
        found = report.result()
        self.assertEqual(list(violations(found.as_dict(), SCHEMA)), [])
        seen = [(graph.backend, graph.place.function, graph.calls, len(graph.executables), graph.launches, [one.op for one in graph.fallbacks])
                for graph in found.graphs]
        self.assertEqual(seen, [("heddle", "decomposed", 3, 2, 6, ["aten.linalg_qr.default"]), *[("aot_eager", "chain", 3, 0, None, [])] * 3])
        self.assertEqual([one.place.function for one in found.breaks], ["chain", "chain"])
        text = _breaks_text.text_of(found)
        self.assertIn("2 breaks, 4 graphs for aot_eager, heddle, 1 fallback", text)
        rows = text[text.index("\nGraphs\n"):].splitlines()[3:7]
        self.assertEqual([row.split()[:2] for row in rows], [["0", "heddle"], ["1", "aot_eager"], ["2", "aot_eager"], ["3", "aot_eager"]])

    def test_errors_of_fullgraph_are_in_the_report(self):
        with open_report() as report, self.assertRaises(torch._dynamo.exc.Unsupported):
            torch.compile(chain, backend="eager", fullgraph=True)(torch.ones(3))
        one, = report.result().breaks
        self.assertEqual((one.code, one.outcome), ("GB0025", "error"))

    def test_functions_of_pythons_library_that_pytorch_calls_are_not_the_programs(self):
        """Dynamo traces no file of torch.autograd, and then looks at what a function there calls."""
        import torch

        text, here = "def called(x):\n    return x + len(list(merge([1], [2])))\n", {"merge": heapq.merge}
        exec(compile(text, os.path.join(os.path.dirname(torch.autograd.__file__), "made_up.py"), "exec"), here)
        lock = threading.Lock()

        def locked(x):
            with lock:
                return x + len(list(heapq.merge([1], [2])))

        for function, of_library in ((lambda x: here["called"](x * 2) * 3, 0), (locked, 1)):
            torch.compiler.reset()
            with open_report() as report:
                torch.compile(function, backend="eager")(torch.ones(3))
            places = [one.place.file for one in report.result().breaks]
            self.assertEqual([places.count(file) for file in (__file__, heapq.__file__)], [1, of_library], places)

    def test_threads(self):
        compiled = torch.compile(chain, backend="eager")
        with open_report() as report:
            compiled(torch.ones(3))
            threads = [threading.Thread(target=lambda: [compiled(torch.ones(3)) for _ in range(50)]) for _ in range(4)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        found = report.result()
        self.assertEqual(len(found.breaks), 2)
        self.assertEqual([one.cost.extra_graph_calls for one in found.breaks], [graph.calls for graph in found.graphs[1:]])
        self.assertEqual(found.notes, [])

    def test_results_and_gradients_are_the_same(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        x = torch.randn(4, 8, requires_grad=True)
        model(x).sum().backward()
        expected, x.grad = x.grad.clone(), None
        with open_report() as report:
            torch.compile(model, backend="aot_eager")(x).sum().backward()
        torch.testing.assert_close(x.grad, expected)
        self.assertEqual([(graph.backend, graph.calls) for graph in report.result().graphs], [("aot_eager", 1)])

    @unittest.skipUnless(importlib.util.find_spec("torch_xla"), "SKIP: torch_xla is not installed")
    def test_openxla_is_observed(self):
        import torch_xla

        def broken(x):
            y = torch.relu(x @ x)
            torch._dynamo.graph_break()
            return torch.linalg.eigvals(y).real + 1

        with open_report() as report:
            x = torch.rand(4, 4, device=torch_xla.device())
            compiled = torch.compile(broken, backend="openxla")
            for _ in range(3):
                compiled(x)
        found = report.result()
        self.assertEqual(list(violations(found.as_dict(), SCHEMA)), [])
        self.assertEqual([one.code for one in found.breaks], ["GB0025"])
        self.assertEqual([(graph.backend, graph.calls) for graph in found.graphs], [("openxla", 3), ("openxla", 3)])
        self.assertEqual([pathlib.Path(one.place.file).name for one in found.graphs[1].fallbacks][:1], ["report_test.py"])
        self.assertIn("torch_xla", found.graphs[1].fallbacks[0].reason)

    def test_the_break_of_an_optimizer_is_no_call_of_the_program(self):
        weight = torch.ones(3, requires_grad=True)
        weight.grad = torch.ones(3)
        with open_report() as report:
            torch.compile(torch.optim.SGD([weight], lr=0.5).step, backend="eager")()
        found = report.result().breaks
        self.assertEqual([one.code for one in found], ["GB0025"])
        self.assertIn("the optimizer's step is what is compiled", found[0].instead)

    def test_the_command_runs_a_script(self):
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            script = pathlib.Path(folder) / "script.py"
            script.write_text("import sys, torch\n\n@torch.compile(backend='aot_eager')\ndef f(x):\n    y = x + 1\n    print('in between')\n    return y * 2\n\n"
                              "f(torch.ones(int(sys.argv[1])))\nsys.exit(int(sys.argv[2]))\n")
            command = [sys.executable, "-m", "heddle.torch.breaks"]
            done = subprocess.run([*command, "--backend", "eager", "--json", folder + "/a.json", "--max-breaks", "0", str(script), "3", "0"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("script.py:6", done.stdout)
            self.assertIn("in between", done.stdout)
            self.assertIn("there is 1 break, and --max-breaks is 0", done.stderr)
            read = json.loads(pathlib.Path(folder, "a.json").read_text())
            self.assertEqual(list(violations(read, SCHEMA)), [])
            self.assertEqual([graph["backend"] for graph in read["graphs"]], ["eager", "eager"])
            done = subprocess.run([*command, str(script), "3", "5"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("ended with exit code 5", done.stderr)
            done = subprocess.run([*command, str(script), "3", "0", "--max-breaks=0"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0)
            self.assertIn("--max-breaks is an argument of " + str(script), done.stderr)

    @unittest.skipUnless(os.access(HEDDLE, os.X_OK), f"SKIP: there is no program {HEDDLE}; HEDDLE_BIN names its folder")
    def test_heddle_starts_the_command(self):
        """The program `heddle` finds heddle-breaks, which runs the module in the build's Python. That one gets this one's PyTorch."""
        folders = [os.path.dirname(os.path.dirname(torch.__file__)), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            script = pathlib.Path(folder) / "script.py"
            script.write_text("import sys, torch\n\n@torch.compile(backend='eager')\ndef f(x):\n    y = x + 1\n    print('in between')\n"
                              "    return y * 2\n\nf(torch.ones(int(sys.argv[1])))\n")
            for limit, expected in (("0", 3), ("1", 0)):
                done = subprocess.run([HEDDLE, "breaks", "--max-breaks", limit, str(script), "3"], capture_output=True, text=True, env=environment)
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertIn("in between", done.stdout)
                self.assertIn("1 break, 2 graphs for eager", done.stdout)
                self.assertIn("script.py:6", done.stdout)
                self.assertEqual("heddle breaks: there is 1 break, and --max-breaks is 0" in done.stderr, expected == 3)
            done = subprocess.run([HEDDLE, "breaks", "--no-such-flag"], capture_output=True, text=True, env=environment)
            self.assertEqual((done.returncode, "heddle breaks: error" in done.stderr), (2, True), done.stderr)


if __name__ == "__main__":
    unittest.main()
