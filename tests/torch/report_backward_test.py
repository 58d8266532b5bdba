# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.report with Heddle as the backend: the backward pass, launches of kernels, and times of compiling by phase."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import heddle.torch
from heddle.torch import _breaks_compare, _breaks_page, _breaks_text
from heddle.torch import report as open_report
from heddle.torch._breaks_records import Backward, Break, Cost, Graph, HostRead, Place, Report
from heddle.torch.report import Executable, Fallback, GraphNote, current_graph, note_graph, observed_backward
from report_test import SCHEMA, violations

HAS_TORCH = importlib.util.find_spec("torch") is not None
PROGRAM = """
import warnings

import heddle.torch
import torch

warnings.simplefilter("ignore")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * torch.lgamma(x.abs() + 1)  # falls back


def of_function(x):
    return Twice.apply(x).sum()


def of_operator(x):
    return (torch.cumprod(x, 0) ** 2).sum()  # falls back, and its gradient does


if __name__ == "__main__":
    compiled = torch.compile(NAME, backend=heddle.torch.backend)
    for _ in range(3):
        compiled(torch.ones(4, 4, requires_grad=True)).backward()
"""

if HAS_TORCH:
    import torch

    @torch.library.custom_op("heddle_report::peek", mutates_args=())
    def peek(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()  # the host reads here

    @peek.register_fake
    def _(x):
        return torch.empty_like(x)

    class Peeking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return peek(gradient)


def line_of(text):
    return next(i + 1 for i, line in enumerate(pathlib.Path(__file__).read_text().splitlines()) if line.endswith(text))


class Forms(unittest.TestCase):
    """Without PyTorch."""

    def test_a_report_of_before_is_read(self):
        read = Report({"heddle": "0"}, program="x").as_dict()
        read["graphs"] = [{"id": 0, "executables": [{"name": "a", "ops": 1}], "fallbacks": [{"op": "aten.sort.default"}], "calls": 2}]
        graph, = Report.from_dict(read).graphs
        self.assertEqual((graph.backward, graph.launches, graph.executables[0].backward, graph.fallbacks[0].backward), (None, None, False, False))

    def test_every_form_has_the_backward_pass(self):
        place = Place("/home/x/train.py", 7, "forward", "y = torch.lgamma(x)")
        passed = Backward(9, {"heddle backward: compiler": 0.5}, 20, 10, 30.5, 60.0, 0.001, 4, 1, 100, 2048, 3)
        graph = Graph(0, "heddle", place, calls=20, kernels=2, executables=[Executable("a", 3, 2), Executable("b", 8, 4, True)],
                      fallbacks=[Fallback("aten.lgamma.default", "no code", place, 3, "", True)], launches=40, backward=passed)
        cost = Cost(crossings=20, extra_graph_calls=20, extra_launches=140, extra_backward_calls=20)
        made = Report(graphs=[graph], breaks=[Break(0, place=place, before=[1], after=[0], cost=cost)], host_reads=[HostRead(place, 4, 0.1, 0, 4, True)])
        read = json.loads(json.dumps(made.as_dict()))
        self.assertEqual(list(violations(read, SCHEMA)), [])
        self.assertEqual(Report.from_dict(read), made)
        self.assertEqual((read["totals"]["backward_calls"], read["totals"]["fallbacks"]), (20, 3))
        text, page = " ".join(_breaks_text.text_of(made).split()), _breaks_page.page_of(made)
        row = "0 heddle its backward pass wrote 2.0 KiB 9 4 1 3 0.50 20 100 10 30.5 60.0"
        for part in (row, "at most 140 extra launches of kernels: those of the graphs after it and of 20 calls of their backward passes",
                     "aten.lgamma.default, 3 nodes in the backward pass of graph 0", "in the backward pass of graph 0 y = torch.lgamma(x)"):
            self.assertIn(part, text)
        for part in ("its backward pass", "wrote 2.0 KiB", "0 (backward)", "at most 140 extra launches"):
            self.assertIn(part, page)
        other = Report.from_dict(read)
        other.graphs[0].fallbacks[0].backward = False
        self.assertEqual(len(_breaks_compare.compare(other, made).new_fallbacks), 1)
        self.assertIn("3 nodes of a backward pass", str(_breaks_compare.compare(other, made)))


@unittest.skipUnless(HAS_TORCH, "SKIP: PyTorch is not installed; tools/dev/setup --torch installs it")
class Passes(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()
        ignored = warnings.catch_warnings()
        ignored.__enter__()
        self.addCleanup(ignored.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        uncached = torch._functorch.config.patch(enable_autograd_cache=False)  # graphs of an earlier run
        uncached.__enter__()
        self.addCleanup(uncached.__exit__, None, None, None)

    def observed_program(self, folder, name, plainly=False):
        """The one graph of the program in a process of its own, whose caches are in the folder; `plainly`: it is run without a report before."""
        script, made = pathlib.Path(folder, name + ".py"), pathlib.Path(folder, "made.json")
        script.write_text(PROGRAM.replace("NAME", name))
        environment = {**os.environ, "HEDDLE_TORCH_CACHE": folder + "/modules", "TORCHINDUCTOR_CACHE_DIR": folder + "/graphs"}
        if plainly:
            subprocess.run([sys.executable, str(script)], env=environment, check=True, capture_output=True)
        command = [sys.executable, "-m", "heddle.torch.breaks", "--json", str(made), "--max-fallbacks", "0", str(script)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        read = json.loads(made.read_text())
        self.assertEqual(list(violations(read, SCHEMA)), [])
        graph, = Report.from_dict(read).graphs
        return graph

    def test_fallbacks_of_a_backward_pass_alone_are_counted(self):
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            one, = self.observed_program(folder, "of_function").fallbacks
        line = next(i + 1 for i, text in enumerate(PROGRAM.splitlines()) if text.endswith("# falls back"))
        self.assertEqual((one.op, one.place.line, one.backward), ("aten.lgamma.default", line, True))

    def test_processes_that_find_the_graph_on_disk_report_the_same(self):
        reports = []
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            for what in ("nothing", "the graph", "the graph and the trace"):
                with self.subTest(on_disk=what):
                    graph = self.observed_program(folder, "of_operator", plainly=what.endswith("trace"))
                    self.assertEqual({(one.op, one.backward) for one in graph.fallbacks}, {("aten.cumprod.default", False), ("aten.cumprod.default", True)})
                    passed = graph.backward
                    self.assertEqual((passed.calls, passed.observed, passed.launches), (3, 3, 3 * passed.kernels))
                    self.assertGreater(passed.kernels, 0)
                    self.assertEqual(passed.kernels, sum(part.kernels for part in graph.executables if part.backward))
                    self.assertEqual(graph.kernels, sum(part.kernels for part in graph.executables if not part.backward))
                    self.assertEqual("heddle backward: compiler" in passed.phases, what == "nothing")
                    reports.append((graph.executables, graph.fallbacks, graph.kernels, passed.ops, passed.kernels, passed.bytes_written))
        self.assertEqual(len(reports), 3)
        self.assertEqual(reports[1:], reports[:1] * 2)

    def test_calls_times_and_bytes(self):
        x = torch.ones(256, 4, requires_grad=True)
        with open_report() as report:
            compiled = torch.compile(lambda x: (torch.tanh(x) * x).sum(), backend=heddle.torch.backend)
            for _ in range(7):
                compiled(x).backward()
        found = report.result()
        self.assertEqual(list(violations(found.as_dict(), SCHEMA)), [])
        graph, = found.graphs
        passed = graph.backward
        self.assertEqual((graph.calls, passed.calls, passed.observed, passed.bytes_written, found.backward_calls), (7, 7, 7, 7 * 4096, 7))
        self.assertGreater(passed.p50_us, 0)
        self.assertLessEqual(passed.p50_us, passed.p99_us)
        self.assertGreater(passed.seconds, 0)
        self.assertEqual(graph.launches, 7 * graph.kernels)
        self.assertEqual(found.notes, [])
        compiled(x).backward()
        self.assertEqual(report.result().graphs[0].backward.calls, 7)
        text, page = _breaks_text.text_of(found), _breaks_page.page_of(found)
        for shown in (text, page):
            self.assertIn("its backward pass", shown)
            self.assertIn("wrote 28.0 KiB", shown)
        self.assertLess(max(map(len, text.splitlines())), 170)
        change = _breaks_compare.compare(Report(), found)
        self.assertEqual((change.backward_calls, change.launches), ((0, 7), (0, graph.launches + passed.launches)))
        self.assertIn("calls of backward passes: 0 -> 7", str(change))

    def test_compiling_is_told_by_phase(self):
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder, unittest.mock.patch.dict(os.environ, {"HEDDLE_TORCH_CACHE": folder}), open_report() as report:
            torch.compile(lambda x: (torch.sin(x) * 3).sum(), backend=heddle.torch.backend)(torch.ones(5, requires_grad=True)).backward()
        graph, = report.result().graphs
        for kind, phases in (("forward", graph.phases), ("backward", graph.backward.phases)):
            for name in ("texts", "compiler", "loading", "planning"):
                self.assertIn(f"heddle {kind}: {name}", phases)
            self.assertGreater(phases[f"heddle {kind}: compiler"], 0)
        self.assertIn("backward", graph.backward.phases)
        self.assertAlmostEqual(sum(report.result().phases.values()), sum(graph.phases.values()) + sum(graph.backward.phases.values()), places=6)
        records = heddle.torch.graphs()[-2:]
        for record, phases in zip(records, (graph.phases, graph.backward.phases)):
            self.assertAlmostEqual(record.seconds, sum(seconds for name, seconds in phases.items() if name.startswith("heddle")), places=6)

    def test_a_break_costs_launches(self):
        def two(x):
            y = torch.tanh(x) * 2
            torch._dynamo.graph_break()
            return (torch.sin(y) + y).sum()

        with open_report() as report:
            compiled = torch.compile(two, backend=heddle.torch.backend)
            for _ in range(4):
                compiled(torch.ones(8, requires_grad=True)).backward()
        found = report.result()
        one, = found.breaks
        after = found.graphs[1]
        self.assertEqual((one.cost.kernels_before, one.cost.kernels_after), (found.graphs[0].kernels, after.kernels))
        self.assertEqual((one.cost.extra_graph_calls, one.cost.extra_backward_calls), (4, 4))
        self.assertEqual(one.cost.extra_launches, 4 * (after.kernels + after.backward.kernels))
        self.assertGreater(one.cost.extra_launches, 0)
        self.assertIn(f"at most {one.cost.extra_launches} extra launches of kernels: those of the graphs after it and of 4 calls of their backward passes", " ".join(_breaks_text.text_of(found).split()))

    def test_reads_of_the_host_in_it(self):
        with open_report() as report:
            compiled = torch.compile(lambda x: Peeking.apply(x).sum(), backend=heddle.torch.backend)
            for _ in range(3):
                compiled(torch.ones(4, requires_grad=True)).backward()
        found = report.result()
        self.assertEqual([(one.count, one.graph, one.backward, one.place.line) for one in found.host_reads], [(3, 0, True, line_of("# the host reads here"))])
        self.assertIn("in the backward pass of graph 0", _breaks_text.text_of(found))
        self.assertEqual([one.op for one in found.graphs[0].fallbacks if one.backward], ["heddle_report.peek.default"])

    def test_a_graph_of_before_the_report(self):
        compiled = torch.compile(lambda x: (torch.cumprod(x, 0) ** 2).sum(), backend=heddle.torch.backend)
        before = compiled(torch.ones(4, 4, requires_grad=True))
        with open_report() as report:
            torch.compile(lambda x: x * 5, backend=heddle.torch.backend)(torch.ones(3))
            before.backward()
            compiled(torch.ones(4, 4, requires_grad=True)).backward()
        found = report.result()
        self.assertEqual(list(violations(found.as_dict(), SCHEMA)), [])
        other, graph = found.graphs
        self.assertEqual((other.fallbacks, other.backward), ([], None))
        self.assertEqual({(one.op, one.backward) for one in graph.fallbacks}, {("aten.cumprod.default", True)})
        self.assertEqual((graph.calls, graph.backward.calls), (0, 2))
        self.assertIn("before the report was opened", graph.notes[0])

    def test_a_number_means_nothing_in_another_report(self):
        numbers = []

        def backend(gm, example_inputs):
            numbers.append(current_graph())
            note_graph(GraphNote([Executable("all", 2, 1)], [Fallback("aten.sort.default")], kernels=4, library_calls=1, backward=True, ops=9))
            return gm.forward

        with open_report() as report:
            torch.compile(torch.tanh, backend=backend)(torch.ones(3))
            behind = observed_backward(lambda given: [given[0] + 1], numbers[0])
            behind([torch.ones(3)])
        passed = report.result().graphs[0].backward
        self.assertEqual((passed.ops, passed.kernels, passed.calls, passed.launches, passed.bytes_written), (9, 4, 1, 5, 12))
        self.assertTrue(report.result().graphs[0].fallbacks[0].backward)
        torch.compiler.reset()
        with open_report() as other:
            torch.compile(torch.tanh, backend="eager")(torch.ones(3))
            self.assertFalse(note_graph(GraphNote(kernels=1), numbers[0]))
            self.assertTrue(note_graph(GraphNote(kernels=1), 0))
            function = torch.sin
            self.assertIs(observed_backward(function, numbers[0]), function)
        self.assertIsNone(other.result().graphs[0].backward)
        self.assertIs(observed_backward(function, 0), function)


if __name__ == "__main__":
    unittest.main()
