# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.log's option `viewer` writes what PyTorch's memory viewer opens: a pickled snapshot with a trace of one device, and its segments."""
import os
import pathlib
import pickle
import subprocess
import sys
import unittest

from heddle_command import HeddleTestCase, heddle, heddle_path

PACKAGE = heddle_path().parents[1] / "python"
MODULE = pathlib.Path(os.environ["HEDDLE_SOURCE"]) / "tests" / "compat" / "kernels-0.1.heddle"


class OnlyPlainData(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the viewer knows no {module}.{name}")


def load(path):
    with open(path, "rb") as file:
        snapshot = OnlyPlainData(file).load()
        assert file.read() == b""
    return snapshot


# A process that looks at its own snapshot, then runs out of memory.
LIVE = """
import pathlib, shutil, sys, heddle, numpy as np
module, config, viewer, folder = sys.argv[1:]
opened = heddle.open(module, config=config)
tensor = opened.main.tensor("a", np.ones(64, "f4"), copy=True)
assert not pathlib.Path(viewer).exists()
opened.statistics()
shutil.copy(viewer, folder + "/live.pickle")
tensors = []
try:
    while len(tensors) < 100000:
        tensors.append(opened.main.tensor("a", np.ones(64, "f4"), copy=True))
except heddle.ResourceExhaustedError:
    shutil.copy(viewer, folder + "/exhausted.pickle")
"""


class MemoryViewer(HeddleTestCase):
    def config_with(self, viewer, over='{ plugin = "heddle.pool" }'):
        config = self.folder / "heddle.toml"
        config.write_text('[device.cpu0]\ndriver = "heddle.cpu"\nselect = { ordinal = 0 }\n[device.cpu0.allocator]\nplugin = "heddle.log"\n'
                          f'viewer = "{viewer}"\n' + (f"over = {over}\n" if over else ""), encoding="utf-8")
        return config

    def run_with(self, viewer, **options):
        return heddle("run", MODULE, "--config", self.config_with(viewer, **options), "--input", "a=f32[64]=1")

    def check_as_the_viewer(self, snapshot):
        """Goes back from the last event, as the viewer does for the event that is selected: every block is in a segment then."""
        segments, blocks = {}, {}
        for segment in snapshot["segments"]:
            self.assertEqual(segment["device"], 0)
            segments[segment["address"]] = segment["total_size"]
            at = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], at)
                if block["state"] == "active_allocated":
                    blocks[at] = block["requested_size"]
                at += block["size"]
            self.assertEqual(at, segment["address"] + segment["total_size"])
        (events,) = snapshot["device_traces"]
        most = 0
        for event in [None, *reversed(events)]:
            if event:
                action, address = event["action"], event["addr"]
                if action == "segment_alloc":
                    self.assertEqual(segments.pop(address), event["size"])
                elif action == "segment_map":  # a buffer that proved to be larger
                    (begin,) = [begin for begin, size in segments.items() if begin + size == address + event["size"]]
                    segments[begin] -= event["size"]
                elif action == "segment_free":
                    segments[address] = event["size"]
                elif action == "alloc":
                    self.assertEqual(blocks.pop(address), event["size"])
                elif action == "free_completed":
                    blocks[address] = event["size"]
            for address in blocks:
                self.assertTrue(any(begin <= address < begin + size for begin, size in segments.items()), hex(address))
            self.assertGreaterEqual(sum(segments.values()), sum(blocks.values()))
            most = max(most, sum(segments.values()))
        self.assertEqual((segments, blocks), ({}, {}))
        return most

    def test_the_snapshot(self):
        path = self.folder / "snapshot.pickle"
        result = self.run_with(path)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual([name.name for name in self.folder.glob("snapshot*")], ["snapshot.pickle"])
        snapshot = load(path)
        self.assertGreater(len(snapshot["segments"]), 0)
        self.check_as_the_viewer(snapshot)
        (events,) = snapshot["device_traces"]
        live, times = {}, []
        for event in events:
            self.assertEqual(set(event), {"action", "addr", "size", "stream", "time_us", "frames"})
            times.append(event["time_us"])
            (frame,) = event["frames"]
            self.assertEqual(frame["filename"], "cpu0")
            if event["action"].startswith("segment"):
                continue
            if event["action"] == "alloc":
                self.assertNotIn(event["addr"], live)
                live[event["addr"]] = (event["size"], frame)
            else:
                self.assertEqual(live[event["addr"]], (event["size"], frame))
                if event["action"] == "free_completed":
                    del live[event["addr"]]
        self.assertEqual(live, {}, "the run gave everything back")
        self.assertEqual(times, sorted(times))
        allocated = [event for event in events if event["action"] == "alloc"]
        self.assertIn(256, {event["size"] for event in allocated})  # 64 floats
        self.assertIn("weights", {event["frames"][0]["name"] for event in allocated})

    def test_other_allocators_below(self):
        for over in (None, '{ plugin = "heddle.arena" }', '{ plugin = "heddle.track", over = { plugin = "heddle.pool" } }'):
            with self.subTest(over):
                path = self.folder / "snapshot.pickle"
                self.assertEqual(self.run_with(path, over=over).code, 0)
                snapshot = load(path)
                self.check_as_the_viewer(snapshot)
                if over is None:  # every block is a buffer of the driver, and all were freed
                    self.assertEqual(snapshot["segments"], [])

    @unittest.skipUnless(list(PACKAGE.glob("heddle/_core*.so")), "the Python package is not built")
    def test_snapshots_of_a_live_process(self):
        viewer = self.folder / "snapshot.pickle"
        config = self.config_with(viewer, '{ plugin = "heddle.limit", limit = "64KiB", over = { plugin = "heddle.pool" } }')
        subprocess.run([sys.executable, "-c", LIVE, MODULE, config, viewer, self.folder], check=True, timeout=120,
                       env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        sizes = {}
        for name in ("live", "exhausted", "snapshot"):
            snapshot = load(self.folder / f"{name}.pickle")
            sizes[name] = self.check_as_the_viewer(snapshot)
            active = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
            tensors = [block for block in active if block["frames"][0]["name"] == "tensors"]
            self.assertIn(len(tensors), {"live": [1], "exhausted": range(100, 300), "snapshot": [0]}[name], name)
            self.assertTrue(all(block["size"] == 256 for block in tensors))
        self.assertLess(sizes["live"], 2 * sizes["exhausted"])
        self.assertEqual(sorted(path.name for path in self.folder.glob("snapshot*")), ["snapshot.pickle"])

    def test_a_file_that_cannot_be_written(self):
        result = self.run_with(self.folder / "absent" / "snapshot.pickle")
        self.assertNotEqual(result.code, 0)
        self.assertIn("absent/snapshot.pickle", result.stderr)

    def test_the_second_of_two_runtimes_says_that_the_file_is_of_the_first(self):
        config = self.config_with(self.folder / "snapshot.pickle")
        text = ("import heddle, sys\nruntimes = [heddle.Runtime(sys.argv[1]) for _ in range(2)]\n"
                "for module in [heddle.open(sys.argv[2], runtime=runtime) for runtime in runtimes]:\n    module.statistics()\n    module.close()\n")
        ran = subprocess.run([sys.executable, "-c", text, config, MODULE], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertRegex(ran.stderr, r"snapshot\.pickle of 'cpu0' failed; there is no new snapshot in it \(log\.cpp:[1-9]")


if __name__ == "__main__":
    unittest.main()
