# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""[trace] of heddle.toml and `heddle profile --trace`: what devices did, as Chrome's trace viewer reads it."""
import json
import os
import pathlib
import re
import resource
import stat
import subprocess
import tempfile
import unittest

from heddle_command import DIGITS, TIMEOUT_S, HeddleTestCase, heddle

INPUT = ("--input", "image=f32[1,1,8,8]=1")


class Trace(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.module = pathlib.Path(cls.kept.name) / "digits.heddle"
        compiled = heddle("compile", DIGITS, "-o", cls.module)
        assert compiled.code == 0, str(compiled)

    def setUp(self):
        super().setUp()
        self.sink = self.folder / "trace.json"

    def configuration(self, more="", keys=""):
        file = self.folder / "heddle.toml"
        file.write_text(f'[trace]\nsink = "{self.sink}"\n{keys}\n{more}')
        return file

    def configuration_with(self, sink):
        file = self.folder / "other.toml"
        file.write_text(f'trace.sink = "{sink}"\n')
        return file

    def events(self):
        return json.loads(self.sink.read_text(encoding="utf-8"))

    def test_each_dispatch_of_a_call_is_in_it_in_order(self):
        self.succeed("run", self.module, *INPUT, "--config", self.configuration())
        events = self.events()
        tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.assertEqual(list(tracks.values()), ["cpu:0"])
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["cat"] for event in spans}, {"dispatch"})
        self.assertIn("conv1", spans[0]["name"])
        self.assertIn("logits", spans[-1]["name"])
        for before, after in zip(spans, spans[1:]):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.002)
        values = {event["name"]: event["args"]["value"] for event in events if event["ph"] == "C"}
        self.assertEqual(set(values), {"cpu:0: bytes in use", "cpu:0: bytes held"})
        self.assertGreater(values["cpu:0: bytes in use"], 0)
        self.assertGreaterEqual(values["cpu:0: bytes held"], values["cpu:0: bytes in use"])

    def check_format(self, events):
        """Chrome's Trace Event Format, as far as it is used: an array of complete events (X), counters (C) and metadata (M)."""
        self.assertIsInstance(events, list)
        named = set()
        for event in events:
            self.assertIn(event["ph"], ("X", "C", "M"), event)
            self.assertIsInstance(event["name"], str)
            self.assertIs(type(event["pid"]), int, event)
            if event["ph"] != "C":
                self.assertIs(type(event["tid"]), int, event)
            if event["ph"] == "M":
                self.assertIn(event["name"], ("process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index"))
                self.assertIsInstance(event["args"]["name"], str)
                named.add((event["pid"], event["tid"]))
                continue
            # Microseconds.
            self.assertIsInstance(event["ts"], (int, float))
            self.assertGreaterEqual(event["ts"], 0)
            if event["ph"] == "X":
                self.assertIsInstance(event["dur"], (int, float))
                self.assertGreaterEqual(event["dur"], 0)
                self.assertIsInstance(event["cat"], str)
                self.assertIn((event["pid"], event["tid"]), named, "every track has a name")
            else:
                self.assertTrue(event["args"])
                for value in event["args"].values():
                    self.assertIsInstance(value, (int, float))

    def test_it_has_the_format_of_viewers(self):
        self.succeed("profile", self.module, *INPUT, "--iterations", "2", "--trace", self.sink)
        self.check_format(self.events())

    def test_perfetto_reads_all_of_it(self):
        processor = os.environ.get("HEDDLE_TRACE_PROCESSOR")
        if not processor:
            self.skipTest("SKIP: HEDDLE_TRACE_PROCESSOR does not name a trace_processor of Perfetto")
        self.succeed("profile", self.module, *INPUT, "--iterations", "20", "--trace", self.sink)
        spans = [event for event in self.events() if event["ph"] == "X"]
        query = self.folder / "query.sql"
        query.write_text("select (select count(*) from slice) as slices, (select count(distinct name) from slice) as names, "
                         "(select ifnull(sum(value), 0) from stats where severity in ('error', 'data_loss')) as errors;\n")
        result = subprocess.run([processor, "-q", str(query), str(self.sink)], text=True, capture_output=True, timeout=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = re.findall(r"^(\d+),(\d+),(\d+)$", result.stdout, re.MULTILINE)
        self.assertEqual(rows, [(str(len(spans)), str(len({event["name"] for event in spans})), "0")], result.stdout + result.stderr)

    def test_categories_choose(self):
        for category in ("dispatch", "memory", "transfer", "plugins"):
            self.succeed("run", self.module, *INPUT, "--config", self.configuration(keys=f'categories = ["{category}"]'))
            found = {event["cat"] for event in self.events() if "cat" in event}
            self.assertEqual(found, {category} & {"dispatch", "memory"}, category)

    def test_copies_between_devices_are_in_it(self):
        module = self.folder / "two.heddle"
        self.succeed("compile", DIGITS, "-o", module, "--place", "op:Gemm=@late", "--slot", "@late=cpu")
        more = "".join(f'[device.{name}]\ndriver = "heddle.cpu"\nselect = {{ ordinal = {i} }}\n' for i, name in enumerate(("a", "b")))
        more += '[driver."heddle.cpu"]\ndevice_count = 2\n'
        self.succeed("run", module, *INPUT, "--device", "a", "--device", "@late=b", "--config", self.configuration(more))
        events = self.events()
        tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        self.check_format(events)
        crossings = [event for event in events if event.get("cat") == "transfer" and tracks[event["tid"]] == "a to b"]
        self.assertGreaterEqual(len(crossings), 1)
        self.assertLessEqual({"a", "b", "a to b"}, set(tracks.values()))

    def test_profile_writes_one_for_every_call(self):
        self.succeed("profile", self.module, *INPUT, "--warmup", "1", "--iterations", "3", "--trace", self.sink)
        spans = [event for event in self.events() if event["ph"] == "X"]
        first = spans[0]["name"]
        self.assertEqual(sum(event["name"] == first for event in spans), 5)  # the first, one to warm up, three

        refused = heddle("profile", self.module, "--trace", self.module)
        self.assertEqual(refused.code, 2)
        self.assertIn("--trace", refused.stderr)
        self.succeed("run", self.module, *INPUT)

    def test_nothing_is_overwritten_before_there_is_work(self):
        self.sink.write_text("kept")
        for command in (("config", "check", self.configuration()), ("devices", "--config", self.configuration()),
                        ("plugins", "--config", self.configuration())):
            self.succeed(*command)
            self.assertEqual(self.sink.read_text(), "kept")

    def test_a_sink_that_is_a_link_leads_nowhere(self):
        kept = self.folder / "kept"
        kept.write_text("kept")
        self.sink.symlink_to(kept)
        result = heddle("run", self.module, *INPUT, "--config", self.configuration())
        self.assertEqual(result.code, 1)
        self.assertIn("owned by this user, not a link", result.stderr)
        self.assertEqual(kept.read_text(), "kept")

    def test_a_sink_that_cannot_be_made_is_an_error(self):
        self.sink = self.folder / "absent" / "trace.json"
        result = heddle("run", self.module, *INPUT, "--config", self.configuration())
        self.assertEqual(result.code, 1)
        self.assertIn("absent/trace.json' failed: No such file or directory; name another file with the key 'sink' of [trace]",
                      result.stderr)
        result = self.fail_with(1, "profile", self.module, *INPUT, "--trace", self.sink)
        self.assertIn("absent/trace.json' failed: No such file or directory; name another file", result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertFalse(self.sink.parent.exists())

    def test_a_full_disk_is_known_before_the_work_is_done(self):
        for command in (("profile", self.module, *INPUT, "--trace", "/dev/full"),
                        *(((name, self.module, *INPUT, "--config", self.configuration_with("/dev/full")) for name in ("run", "bench")))):
            result = self.fail_with(1, *command)
            self.assertIn("trace: writing '/dev/full' failed: No space left on device; there is no trace", result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    @unittest.skipIf(os.environ.get("HEDDLE_SANITIZE") == "thread", "SKIP: ThreadSanitizer's shadow memory is a file under the limit")
    def test_a_trace_that_is_cut_short_fails_and_does_not_remain(self):
        def limited(code, *command):
            self.sink.write_text("of an earlier run")
            return self.fail_with(code, *command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))

        wrong = "json' failed: File too large; there is no trace"
        # Written in one piece at the end, and, with many calls, in several while they run.
        for iterations in ("1", "1000"):
            result = limited(1, "profile", self.module, *INPUT, "--iterations", iterations, "--trace", self.sink)
            self.assertIn(wrong, result.stderr)
            self.assertIn("whole call", result.stdout)
            self.assertFalse(self.sink.exists())
        for command in (("run",), ("bench", "--iterations", "1")):
            result = limited(1, *command, self.module, *INPUT, "--config", self.configuration())
            self.assertIn(wrong, result.stderr)
            self.assertNotEqual(result.stdout, "")
            self.assertFalse(self.sink.exists())
        # The numbers matter more than their trace.
        result = limited(3, "run", self.module, *INPUT, "--expect", "f32[1,10]=0", "--config", self.configuration())
        self.assertIn(wrong, result.stderr)


if __name__ == "__main__":
    unittest.main()
