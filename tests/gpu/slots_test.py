# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator on the host in the middle of a network on a GPU: one module, two kinds of device, against ONNX Runtime on the CPU."""
import json
import pathlib
import sys
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from gpu import GpuTestCase  # noqa: E402  (finds e2e)
from heddle_command import DIGITS  # noqa: E402
from networks_test import run_in_onnx_runtime  # noqa: E402
from placement_test import call_from_threads, digits_cases, heddle_ctypes  # noqa: E402
import light  # noqa: E402

FLAGS = ["--target", "cpu,cuda", "--slot", "@host=cpu"]


class Slots(GpuTestCase):
    def place(self, model, *places):
        return self.compile(model, *FLAGS, *(part for place in places for part in ("--place", place)))

    def check(self, model, module, name, image):
        expected = run_in_onnx_runtime(model, image)
        for bindings in ([self.device, "@host=cpu:0"], ["cpu:0", "@host=cpu:0"]):
            flags = [part for binding in bindings for part in ("--device", binding)]
            got = self.run_module(module, name, image, *flags)
            error = np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max()
            print(f"{pathlib.Path(model).stem} on {', '.join(bindings)}: largest difference {error:.2e} of the largest value", flush=True)
            self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))
        statistics = self.succeed("run", module, "--input", f"{name}=@{self.folder}/input.npy", "--device", self.device, "--device",
                                  "@host=cpu:0", "--statistics").stderr
        self.assertEqual(json.loads(statistics[statistics.index("{"):])["device_crossings"], 2)

    def where(self, module):
        report = self.succeed("explain", module, "--format", "json", "--device", self.device, "--device", "@host=cpu:0").stdout
        regions = json.loads(report)["places"]["regions"]
        return {(region["node"], region["family"], region["device"]) for region in regions if region["region"].startswith("main.")}

    def test_digits(self):
        module = self.place(DIGITS, "conv2=@host")
        where = self.where(module)
        self.assertIn(("conv2", "cpu", "cpu:0"), where)
        self.assertIn(("conv1", "cuda", self.device), where)
        self.check(DIGITS, module, "image", np.random.default_rng(7).random((360, 1, 8, 8), dtype=np.float32))

    def test_resnet50(self):
        model = light.randomized("resnet50")
        nodes = onnx.load(model, load_external_data=False).graph.node
        convolutions = [i for i, node in enumerate(nodes) if node.op_type == "Conv"]
        middle = convolutions[len(convolutions) // 2]
        name = nodes[middle].name or f"Conv#{middle}"
        module = self.place(model, f"{name}=@host")
        self.assertEqual([place for place in self.where(module) if place[1] == "cpu"], [(name, "cpu", "cpu:0")])
        self.check(model, module, light.recorded("resnet50")[0], light.random_input("resnet50"))

    def test_calls_in_flight_from_four_threads(self):
        runtime = heddle_ctypes.Runtime()
        devices = {"": self.device, "@host": "cpu:0"}
        function = runtime.open(self.place(DIGITS, "conv2=@host")).instance(devices).function()
        self.assertEqual(call_from_threads(function, digits_cases(), in_flight=8, rounds=50), [])

    def test_resnet50_from_four_threads(self):
        model = light.randomized("resnet50")
        cases = [(light.random_input("resnet50") * np.float32(scale), None) for scale in (0.5, 1, 1.5, 2)]
        cases = [(image, run_in_onnx_runtime(model, image)) for image, _ in cases]
        runtime = heddle_ctypes.Runtime()
        module = self.place(model, "op:MaxPool=@host")
        function = runtime.open(module).instance({"": self.device, "@host": "cpu:0"}).function()
        self.assertEqual(call_from_threads(function, cases, in_flight=3, rounds=5), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
