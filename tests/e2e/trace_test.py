# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""[trace] of heddle.toml and `heddle profile --trace`: what devices did, as Chrome's trace viewer reads it."""
import json
import pathlib
import tempfile

from heddle_command import DIGITS, HeddleTestCase, heddle

INPUT = ("--input", "image=1x1x8x8xf32=1")


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
        self.assertIn("which must name a file owned by this user, not a link", result.stderr)
        self.assertEqual(kept.read_text(), "kept")

    def test_a_sink_that_cannot_be_made_is_an_error(self):
        self.sink = self.folder / "absent" / "trace.json"
        result = heddle("run", self.module, *INPUT, "--config", self.configuration())
        self.assertEqual(result.code, 1)
        self.assertIn("absent/trace.json' failed: No such file or directory; correct the key 'sink' of [trace]", result.stderr)

    def test_a_full_disk_ends_the_trace_and_not_the_call(self):
        self.sink = "/dev/full"
        result = self.succeed("run", self.module, *INPUT, "--config", self.configuration())
        self.assertIn("writing '/dev/full' failed: No space left on device; the trace ends here", result.stderr)
        self.assertIn("logits=", result.stdout)


if __name__ == "__main__":
    import unittest

    unittest.main()
