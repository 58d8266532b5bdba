# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.log's option `viewer` writes what PyTorch's memory viewer opens: a pickled snapshot with a trace of one device."""
import os
import pathlib
import pickle
import unittest

from heddle_command import HeddleTestCase, heddle

MODULE = pathlib.Path(os.environ["HEDDLE_SOURCE"]) / "tests" / "compat" / "kernels-0.1.heddle"


class OnlyPlainData(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the viewer knows no {module}.{name}")


class MemoryViewer(HeddleTestCase):
    def run_with(self, viewer):
        config = self.folder / "heddle.toml"
        config.write_text('[device.cpu0]\ndriver = "heddle.cpu"\nselect = { ordinal = 0 }\n[device.cpu0.allocator]\nplugin = "heddle.log"\n'
                          f'viewer = "{viewer}"\nover = {{ plugin = "heddle.pool" }}\n', encoding="utf-8")
        return heddle("run", MODULE, "--config", config, "--input", "a=f32[64]=1")

    def test_the_snapshot(self):
        path = self.folder / "snapshot.pickle"
        result = self.run_with(path)
        self.assertEqual(result.code, 0, result.stderr)
        self.assertEqual([name.name for name in self.folder.glob("snapshot*")], ["snapshot.pickle"])
        with open(path, "rb") as file:
            snapshot = OnlyPlainData(file).load()
            self.assertEqual(file.read(), b"")
        self.assertEqual(snapshot["segments"], [])
        (events,) = snapshot["device_traces"]
        live, times = {}, []
        for event in events:
            self.assertEqual(set(event), {"action", "addr", "size", "stream", "time_us", "frames"})
            times.append(event["time_us"])
            (frame,) = event["frames"]
            self.assertEqual(frame["filename"], "cpu0")
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

    def test_a_file_that_cannot_be_written(self):
        result = self.run_with(self.folder / "absent" / "snapshot.pickle")
        self.assertNotEqual(result.code, 0)
        self.assertIn("absent/snapshot.pickle", result.stderr)


if __name__ == "__main__":
    unittest.main()
