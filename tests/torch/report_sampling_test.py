# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.report: all calls are counted, and a sample of them is observed, as many as their time allows. Times are those of a clock that is made up."""
import functools
import importlib.util
import json
import random
import threading
import time
import unittest
from unittest import mock

from heddle.torch import _breaks_pace, _breaks_reads, _breaks_text
from heddle.torch import report as open_report
from heddle.torch._breaks_calls import Crossing, Piece, State
from heddle.torch._breaks_pace import DEEP, FIRST, SHARE, SHARE_OF_SHORT, UNSEEN, Pace
from heddle.torch._breaks_records import Report
from report_test import SCHEMA, chain, made_up, violations

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = unittest.skipUnless(HAS_TORCH, "SKIP: PyTorch is not installed; tools/dev/setup --torch installs it")
US = 1000

if HAS_TORCH:
    import torch


def chosen(pace, calls, noted):
    """The numbers of the calls that a pace chooses, of which each observation takes and shows what `noted` says: (cost, time)."""
    numbers, number = [], 0
    while number < calls:
        numbers.append(number)
        gap, deep = pace.next()
        pace.note(*noted(number), deep)
        number += gap
    return numbers


class Paces(unittest.TestCase):
    def test_the_rate_follows_what_an_observation_costs(self):
        for cost, time_of_call, wanted in ((20 * US, 150 * US, SHARE_OF_SHORT), (40 * US, 150 * US, SHARE_OF_SHORT), (20 * US, 250 * US, SHARE),
                                           (5 * US, 400 * US, SHARE)):
            with self.subTest(cost=cost, time=time_of_call):
                pace = Pace(random.Random(1).random)
                numbers = chosen(pace, 400_000, lambda _: (cost, time_of_call))
                share = (len(numbers) - FIRST) * UNSEEN * cost / (400_000 * time_of_call)
                self.assertLess(share, 1.15 * wanted)
                self.assertGreater(share, 0.85 * wanted)

    def test_a_cost_that_changes_changes_the_rate(self):
        pace = Pace(random.Random(1).random)
        numbers = chosen(pace, 200_000, lambda number: (20 * US if number < 100_000 else 200 * US, 150 * US))
        before, after = sum(number < 100_000 for number in numbers), sum(number >= 100_000 for number in numbers)
        self.assertGreater(before, 5 * after)

    def test_the_first_calls_and_all_calls_of_slow_functions_are_observed(self):
        self.assertEqual(chosen(Pace(random.Random(1).random), 10 * FIRST, lambda _: (50 * US, 5 * US))[:FIRST], list(range(FIRST)))
        pace = Pace(random.Random(1).random)
        self.assertEqual(len(chosen(pace, 1000, lambda _: (20 * US, 10_000 * US))), 1000)
        self.assertTrue(pace.all_deep)

    def test_reads_are_counted_in_some_of_the_observed_calls_where_that_costs_much(self):
        pace, deep = Pace(random.Random(1).random), []
        for _ in range(FIRST + 80 * DEEP):
            deep.append(pace.next(100 * US)[1])
            pace.note(50 * US if deep[-1] else 10 * US, 250 * US, deep[-1])
        self.assertEqual(sum(deep[FIRST:]), 80)
        self.assertAlmostEqual(pace.stride, ((DEEP - 1) * 10 + 50 + 100) / DEEP * UNSEEN / (SHARE * 250), delta=1)

    def test_no_rhythm_of_a_program_chooses_what_is_observed(self):
        for period in (2, 3, 4, 5, 8, 16):
            for cost in (1 * US, 5 * US, 20 * US):
                with self.subTest(period=period, cost=cost):
                    numbers = chosen(Pace(random.Random(7).random), 400_000, lambda _: (cost, 150 * US))[FIRST:]
                    for phase in range(period):
                        expected = len(numbers) / period
                        self.assertLess(abs(sum(number % period == phase for number in numbers) - expected), 5 * expected ** 0.5)


class Clock:
    """Reading it takes `tick` nanoseconds, which is all that an observation costs in these tests."""

    def __init__(self, tick):
        self.now, self.tick, self.readings = 0, tick, 0

    def __call__(self):
        self.now += self.tick
        self.readings += 1
        return self.now

    def passes(self, spent):
        self.now += spent


class Program:
    """A function of two graphs with a break between them, as Dynamo would call them; `first` and `second` are their times, `between` that of the break."""

    def __init__(self, state, clock, first=40 * US, between=7 * US, second=60 * US, number=0):
        self.clock, self.times, self.crossing = clock, [first, second], Crossing()
        key = ("a.py", "f", 10 + number)
        self.between = between
        self.pieces = [Piece(state, 2 * number, None, (key, self.crossing), True), Piece(state, 2 * number + 1, (key, self.crossing), None, False)]
        self.graphs = [piece.observe(functools.partial(self.run, i)) for i, piece in enumerate(self.pieces)]

    def run(self, which, *_):
        self.clock.passes(self.times[which])

    def __call__(self, inside=lambda: None):
        self.graphs[0]()
        self.clock.passes(self.between)
        inside()
        self.graphs[1]()


@needs_torch  # which finds the tensors that are written
class Sampled(unittest.TestCase):
    def test_counts_are_exact_and_the_share_is_kept(self):
        for tick in (1 * US, 5 * US):
            with self.subTest(tick=tick):
                clock = Clock(tick)
                program = Program(State(clock), clock)
                for _ in range(50_000):
                    program()
                first, second = program.pieces
                self.assertEqual((first.calls, second.calls), (50_000, 50_000))
                self.assertLess(first.durations.count, 5_000)
                self.assertGreater(first.durations.count, FIRST + 10)
                useful = 50_000 * (40 + 7 + 60) * US
                self.assertLess(clock.readings * tick, 1.2 * SHARE * useful)

    def test_an_observation_that_takes_longer_is_made_less_often(self):
        counts = []
        for tick in (1 * US, 10 * US):
            clock = Clock(tick)
            program = Program(State(clock), clock)
            for _ in range(50_000):
                program()
            counts.append(program.pieces[0].durations.count - FIRST)
        self.assertGreater(counts[0], 5 * counts[1])

    def test_pieces_of_a_call_are_observed_together(self):
        clock = Clock(1 * US)
        program = Program(State(clock), clock)
        for _ in range(20_000):
            program()
        first, second = program.pieces
        self.assertEqual(first.durations.count, second.durations.count)
        self.assertEqual(program.crossing.observed, first.durations.count)
        self.assertEqual(program.crossing.between.count, first.durations.count)
        for measured, true in ((first.durations, 40), (second.durations, 60), (program.crossing.between, 7)):
            self.assertAlmostEqual(measured.median_us(), true, delta=3)
            self.assertAlmostEqual(measured.percentile_us(0.99), true, delta=3)

    def test_a_function_that_is_called_at_a_break_is_observed_with_it(self):
        clock = Clock(500)
        state = State(clock)
        outer, inner = Program(state, clock, number=0), Program(state, clock, number=1)
        for _ in range(20_000):
            outer(inside=inner)
        for program in (outer, inner):
            first, second = program.pieces
            self.assertEqual((first.calls, second.calls), (20_000, 20_000))
            self.assertLess(first.durations.count, 10_000)
            self.assertGreater(program.crossing.between.count, 100)
        self.assertAlmostEqual(outer.crossing.between.median_us(), 7 + 40 + 7 + 60, delta=4)
        self.assertAlmostEqual(inner.crossing.between.median_us(), 7, delta=2)

    def test_a_call_that_does_not_reach_the_second_graph_leaves_no_time(self):
        clock = Clock(1 * US)
        program = Program(State(clock), clock)
        for number in range(20_000):
            if number % 3:
                program()
            else:  # an exception at the break
                program.graphs[0]()
        first, second = program.pieces
        self.assertEqual((first.calls, second.calls), (20_000, 20_000 - 6_667))
        self.assertLess(program.crossing.between.percentile_us(1.0), 11)

    def test_a_program_that_alternates_is_seen_as_it_is(self):
        clock = Clock(500)
        state = State(clock)
        step, update = Program(state, clock, number=0), Program(state, clock, number=1)
        for number in range(40_000):
            step.times = [10 * US, 10 * US if number % 4 else 210 * US]  # every fourth call takes longer
            step()
            if number % 4 == 3:
                update()
        second = step.pieces[1]
        self.assertLess(second.durations.count, 20_000)
        self.assertAlmostEqual(second.durations.total / second.durations.count, 60 * US, delta=8 * US)
        self.assertEqual([piece.calls for piece in (*step.pieces, *update.pieces)], [40_000, 40_000, 10_000, 10_000])
        self.assertGreater(update.pieces[1].durations.count, 50)

    def test_graphs_that_are_compiled_later_are_observed_at_once(self):
        clock = Clock(5 * US)
        state = State(clock)
        old = Program(state, clock, number=0)
        for _ in range(20_000):
            old()
        new = Program(state, clock, number=1)
        for _ in range(5):
            old()
            new()
        self.assertEqual([piece.durations.count for piece in new.pieces], [5, 5])
        self.assertEqual(new.crossing.between.count, 5)

    def test_threads_count_every_call(self):
        clock = time.perf_counter_ns
        state = State(clock)
        piece = Piece(state, 0, None, None, True)
        graph = piece.observe(lambda *_: None)
        threads = [threading.Thread(target=lambda: [graph(1) for _ in range(50_000)]) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(piece.calls, 200_000)
        self.assertLess(piece.durations.count, 200_000)

    def test_a_closed_report_leaves_the_function_itself(self):
        clock = Clock(1)
        piece = Piece(State(clock), 0, None, None, True)
        graph = piece.observe(max)
        for _ in range(100):
            self.assertEqual(graph(3, 4), 4)
        piece.close()
        self.assertIs(graph.func, max)
        self.assertEqual((graph(3, 4), piece.calls), (4, 100))

    def test_a_graph_that_pytorch_drops_is_not_kept(self):
        piece = Piece(State(Clock(1)), 0, None, None, True)
        graph = piece.observe(lambda: 1)
        graph()
        del graph
        self.assertEqual(piece.calls, 1)
        piece.close()
        self.assertEqual(piece.calls, 1)


@needs_torch
class Reads(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()

    def sampled(self, backend, calls):
        """The report of a function with two breaks, of which few calls are observed after the first ones."""
        with mock.patch.object(_breaks_pace, "SHARE", 1e-4), open_report("chain") as report:
            compiled = torch.compile(chain, backend=backend)
            x, counted = torch.ones(256, 4), []
            for _ in range(calls):
                made = compiled(x)
                counted.append(report._observer.host.counts)
            torch.testing.assert_close(made, chain_eagerly(x))
        return report, counted

    def test_a_sampled_run_is_scaled_and_says_so(self):
        for backend in ("eager", "aot_eager", "inductor", heddle_backend()):
            with self.subTest(backend=backend):
                torch.compiler.reset()
                report, counted = self.sampled(backend, 600)
                found = report.result()
                self.assertEqual([graph.calls for graph in found.graphs], [600] * 3)
                self.assertEqual(len({graph.observed for graph in found.graphs}), 1)
                observed = found.graphs[0].observed
                self.assertTrue(FIRST <= observed < 300, observed)
                self.assertFalse(all(counted))
                for one, size in zip(found.breaks, (4096, 4096 + 1)):
                    cost = one.cost
                    self.assertEqual((cost.crossings, cost.extra_graph_calls), (600, 600))
                    self.assertLessEqual(cost.observed_crossings, observed)
                    self.assertLess(cost.measured_crossings, 300)
                    self.assertGreaterEqual(cost.bytes_crossed, 600 * size)
                    self.assertGreater(cost.between_seconds, cost.observed_crossings * cost.between_p50_us / 4e6)
                self.assertEqual((found.breaks[0].cost.host_waits, found.breaks[1].cost.host_waits), (0, 600))
                read, = found.host_reads
                self.assertEqual(read.count, 600)
                self.assertTrue(FIRST <= read.observed < 300, read.observed)
                as_json = json.loads(report.json())
                self.assertEqual(list(violations(as_json, SCHEMA)), [])
                self.assertEqual((as_json["totals"]["graph_calls"], as_json["totals"]["observed_calls"]), (1800, 3 * observed))
                said = f"observed: {3 * observed:,} of 1,800 calls of graphs"
                self.assertIn(said, report.text())
                self.assertIn(said, report.html())

    def test_a_short_run_is_observed_as_a_whole(self):
        with open_report() as report:
            compiled = torch.compile(chain, backend="eager")
            for _ in range(5):
                compiled(torch.ones(3))
        self.assertIn("observed: all 15 calls of graphs", report.text())

    def test_a_new_shape_is_never_missed(self):
        with mock.patch.object(_breaks_pace, "SHARE", 1e-6), open_report() as report:
            compiled = torch.compile(chain, backend="eager", dynamic=False)
            for _ in range(100):
                compiled(torch.ones(3))
            compiled(torch.ones(4))
        found = report.result()
        self.assertGreaterEqual(len(found.recompilations), 1)
        self.assertTrue(all(graph.observed for graph in found.graphs))
        self.assertEqual(len(found.graphs), 6)
        self.assertEqual([graph.calls for graph in found.graphs], [100, 100, 100, 1, 1, 1])

    def test_pytorchs_kernel_is_there_when_nothing_is_observed(self):
        report, counted = self.sampled("eager", 200)
        self.assertTrue(all(counted[:FIRST]))
        self.assertGreater(counted.count(False), 150)
        x = torch.ones(1)
        before = report.result().as_dict()
        x.item()
        self.assertEqual(report.result().as_dict(), before)

    def test_very_many_reads_end_counting(self):
        x = torch.ones(1)
        with open_report() as report:
            for _ in range(60_000):
                x.item()
            self.assertFalse(report._observer.host.counts)
        found = report.result()
        self.assertLess(found.host_reads[0].count, 60_000)
        self.assertIn("only the first ones are counted", found.notes[0])

    def test_kernels_are_changed_only_while_other_threads_wait(self):
        done = threading.Event()
        waits = threading.Thread(target=done.wait)
        waits.start()
        try:
            self.assertTrue(_breaks_reads._others_wait())
            works = threading.Thread(target=lambda: [time.sleep(0.001) for _ in iter(done.is_set, True)])
            works.start()
            time.sleep(0.01)
            self.assertFalse(_breaks_reads._others_wait())
        finally:
            done.set()
        waits.join()
        works.join()

    def test_reads_after_a_function_stand_for_all_of_them(self):
        with mock.patch.object(_breaks_pace, "SHARE", 1e-4), open_report() as report:
            compiled = torch.compile(torch.sin, backend="eager")
            for _ in range(600):
                compiled(torch.ones(1)).item()
        read, = report.result().host_reads
        self.assertEqual(read.count, 600)
        self.assertLess(read.observed, 300)


class Forms(unittest.TestCase):
    def test_a_report_of_before_is_read(self):
        read = made_up().as_dict()
        for one in (*read["graphs"], *read["host_reads"]):
            del one["observed"]
        for one in read["breaks"]:
            del one["cost"]["observed_crossings"]
        found = Report.from_dict(read)
        self.assertEqual([(graph.calls, graph.observed) for graph in found.graphs], [(10, 10), (9, 9)])
        self.assertEqual((found.breaks[0].cost.observed_crossings, found.host_reads[0].observed), (9, 10))
        self.assertEqual(_breaks_text.observed_text(found), "observed: all 19 calls of graphs")


def chain_eagerly(x):
    y = x * 2 + 1
    z = y * y
    return z + 1 - y if z.sum() > 0 else z - y


def heddle_backend():
    import heddle.torch

    return heddle.torch.backend


if __name__ == "__main__":
    unittest.main()
