# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`heddle profile`: operations and bytes of each region, their rates, and the shares of what the device was measured to reach at most."""
import json
import re
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, HeddleTestCase

BATCH = 64
# Winograd's algorithm needs up to 2.25 times fewer products than are counted.
MOST_SHARE = 3
# One thread in any case: otherwise other processes decide how many compute during the calls and during the measurement.
ONE_THREAD = 'version = 1\n[driver."heddle.cpu"]\nthreads = 1\nshare = false\n'


class Profile(HeddleTestCase):
    def profile(self, module, *arguments):
        return json.loads(self.succeed("profile", module, "--format", "json", *arguments).stdout)

    def check_rates(self, row):
        """The rates and the shares of a row follow from its amounts and its time."""
        for amount, rate in (("flops", "gflops"), ("bytes", "gbytes")):
            self.assertEqual(amount in row, rate in row, row)
            if amount in row:
                self.assertAlmostEqual(row[rate], row[amount] / row["time_ns"], delta=row[rate] * 1e-9)
        for share in ("flops_share", "bytes_share", "roofline"):
            if share in row:
                self.assertGreater(row[share], 0, row)
                self.assertLess(row[share], MOST_SHARE, row)
        if "roofline" in row:
            self.assertGreaterEqual(row["roofline"] * (1 + 1e-9), max(row.get("flops_share", 0), row["bytes_share"]))

    def test_the_numbers_of_a_network_are_consistent(self):
        config = self.folder / "heddle.toml"
        config.write_text(ONE_THREAD)
        report = self.profile(self.compile(DIGITS), "--dim", f"batch={BATCH}", "--iterations", "30", "--config", config)
        (device, peaks), = report["peaks"].items()
        self.assertEqual((device, peaks["units"]), ("cpu:0", 1))
        for rate in ("gflops", "copy_gbytes", "read_gbytes", "cached_gbytes"):
            self.assertGreater(peaks[rate], 0.5, peaks)
            self.assertLess(peaks[rate], 1e6, peaks)
        rows = {row["region"].split()[0]: row for row in report["regions"]}
        for row in rows.values():
            self.check_rates(row)
            self.assertIn("roofline", row)
            if "flops" in row:
                self.assertAlmostEqual(row["flops_share"], row["gflops"] / peaks["gflops"], delta=row["flops_share"] * 1e-9)
        # conv2: 24 -> 32 channels, 3 x 3, on 8 x 8; f32 results, inputs, packed weights and biases.
        self.assertEqual(rows["main.1.conv"]["flops"], BATCH * 8 * 8 * 32 * 24 * 9 * 2)
        self.assertEqual(rows["main.1.conv"]["bytes"], 4 * (BATCH * 8 * 8 * (24 + 32) + 9 * 24 * 32 + 32))
        self.assertNotIn("flops", rows["main.2.pool"])
        self.assertEqual(rows["main.2.pool"]["bytes"], 4 * BATCH * 32 * (8 * 8 + 4 * 4))
        kinds = {row["kind"]: row for row in report["kinds"]}
        for kind, row in kinds.items():
            self.check_rates(row)
        of_kind = [row for row in rows.values() if "flops" in row]
        self.assertAlmostEqual(kinds["contraction"]["flops"], sum(row["flops"] for row in of_kind))
        self.assertAlmostEqual(kinds["contraction"]["time_ns"], sum(row["time_ns"] for row in of_kind), delta=1)

    def test_the_table_has_them(self):
        table = self.succeed("profile", self.compile(DIGITS), "--dim", "batch=2", "--iterations", "3").stdout
        regions, kinds, peaks = table.strip().split("\n\n")
        self.assertRegex(regions.splitlines()[0], r"GFLOP/s +GB/s +of roofline$")
        self.assertRegex(kinds.splitlines()[0], r"^kind +per call +share +count +GFLOP/s +of peak +GB/s +of peak +of roofline$")
        self.assertRegex(kinds, r"(?m)^contraction +\S+ \S+ +[\d.]+ % +5 +[\d.]+ +[\d.]+ % +[\d.]+ +[\d.]+ % +[\d.]+ %$")
        self.assertRegex(peaks, r"^peaks of cpu:0, measured on its \d+ units?: [\d.]+ GFLOP/s of f32; memory [\d.]+ GB/s ")

    def test_a_look_up_moves_what_it_reads(self):
        table = np.zeros((20000, 64), np.float32)
        graph = helper.make_graph([helper.make_node("Gather", ["table", "i"], ["y"])], "look_up",
                                  [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])], [numpy_helper.from_array(table, "table")])
        model = self.folder / "look_up.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
        report = self.profile(self.compile(model), "--input", "i=i64[50]=1")
        row = next(row for row in report["regions"] if "gather" in row["region"])
        self.assertEqual(row["bytes"], 50 * 8 + 2 * 50 * 64 * 4)

    def test_copies_between_devices_are_rows_of_their_own(self):
        module = self.compile(DIGITS, "--place", "op:Gemm=@late", "--slot", "@late=cpu")
        config = self.folder / "heddle.toml"
        config.write_text(ONE_THREAD + "device_count = 2\n" +
                          "".join(f'[device.{name}]\ndriver = "heddle.cpu"\nselect = {{ ordinal = {i} }}\n' for i, name in enumerate("ab")))
        report = self.profile(module, "--dim", f"batch={BATCH}", "--config", config, "--device", "a", "--device", "@late=b")
        copies = {row["device"]: row for row in report["regions"] if row["kind"] == "copy between devices"}
        pooled, hidden = BATCH * 4 * 48 * 2 * 2, BATCH * 4 * 64  # the activation between the two layers is computed on a
        self.assertEqual({device: (row["count"], row["bytes"]) for device, row in copies.items()},
                         {"a to b": (2, pooled + hidden), "b to a": (1, hidden)})
        for row in copies.values():
            self.check_rates(row)
            self.assertNotIn("roofline", row)  # the connection is not measured
            self.assertLess(row["time_ns"], report["call_ns"])
        total, = (row for row in report["kinds"] if row["kind"] == "copy between devices")
        self.assertEqual((total["count"], total["bytes"]), (3, pooled + 2 * hidden))
        self.assertEqual(set(report["peaks"]), {"a", "b"})

    def test_a_trace_has_no_measurement(self):
        trace = self.folder / "trace.json"
        report = self.profile(self.compile(DIGITS), "--dim", "batch=2", "--trace", trace)
        self.assertIn("would be in the trace", report["peaks"]["cpu:0"]["unmeasured"])
        self.assertTrue(all("gbytes" in row and "roofline" not in row for row in report["regions"]))
        self.assertNotIn("multiply", trace.read_text())

    def test_the_page_has_the_share(self):
        page = self.folder / "page.html"
        self.succeed("profile", self.compile(DIGITS), "--dim", "batch=2", "--html", page)
        text = page.read_text(encoding="utf-8")
        self.assertRegex(text, r"<dt>peaks of cpu:0</dt><dd>[\d.]+ GFLOP/s of f32")
        self.assertRegex(text, r"<dt>operations per time</dt><dd>[\d.]+ GFLOP/s, [\d.]+ % of the device")
        self.assertEqual(len(re.findall(r"<dt>share of the roofline</dt><dd>[\d.]+ %", text)), 8)
        self.assertIn("<th>of roofline</th>", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
