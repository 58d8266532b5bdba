# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models as portable code on the driver of the SDK's template, which interprets it, against ONNX Runtime.

HEDDLE_TEST_ALL=1 runs all nine networks; by default one.
"""
import subprocess
import sys
import unittest

import numpy as np
import onnx
import onnxruntime

from heddle_command import DIGITS, HeddleTestCase, REPOSITORY, TEST_ALL, TIMEOUT_S, environment, heddle_path
import light  # found through heddle_command
import transformer_layer_test as layers

TEMPLATE = heddle_path().parents[1] / "tests" / "template" / "driver" / "cpp" if heddle_path() else None
GRAPHS = 40


@unittest.skipUnless(TEMPLATE and (TEMPLATE / "libsample_driver.so").exists(), "SKIP: the template is not built")
class Portable(HeddleTestCase):
    def check(self, path, feeds):
        module = self.compile(path, "--target", "portable")
        got, given = self.folder / "got.npy", []
        for index, (name, array) in enumerate(feeds.items()):
            np.save(self.folder / f"{index}.npy", array)
            given += ["--input", f"{name}=@{self.folder / str(index)}.npy"]
        got.unlink(missing_ok=True)
        self.succeed("run", module, *given, "--output", f"@{got}", "--device", "sample:0", extra_environment={"HEDDLE_PLUGIN_PATH": str(TEMPLATE)})
        expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        self.assert_close(np.load(got), expected, 1e-3, 1e-4 * float(np.abs(expected).max()))

    def check_layer(self, layer):
        path, random = self.folder / "layer.onnx", np.random.default_rng(3)
        model = layer.build()
        onnx.save(model, path)
        shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input}
        self.check(path, {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()})

    def test_digits(self):
        for batch in (1, 5):
            self.check(DIGITS, {"image": np.random.default_rng(7).random((batch, 1, 8, 8), dtype=np.float32)})

    def test_a_layer_of_bert(self):
        self.check_layer(layers.Layer())

    def test_a_layer_of_llama(self):
        self.check_layer(layers.LlamaLayer())

    def test_random_graphs(self):
        for seed, type_name in ((0, "float32"), (GRAPHS, "float64"), (2 * GRAPHS, "float16")):
            process = subprocess.run(
                [sys.executable, "-B", REPOSITORY / "tests" / "random_graphs" / "random_graphs.py", "--count", str(GRAPHS // 2), "--seed", str(seed), "--type", type_name,
                 "--target", "portable", "--device", "sample:0"],
                text=True, capture_output=True, timeout=TIMEOUT_S,
                env={**environment(), "HEDDLE_BIN": str(heddle_path().parent), "HEDDLE_PLUGIN_PATH": str(TEMPLATE)})
            self.assertEqual(process.returncode, 0, process.stdout[-4000:] + process.stderr[-4000:])

    def test_the_module_has_code_of_one_format(self):
        code = self.folder / "code"
        self.compile(DIGITS, "--target", "portable", "--dump-code", code)
        (image,) = code.iterdir()
        self.assertEqual(image.read_bytes()[:9], b"HDLPORT\0\0")


def add_networks():
    for name in light.NAMES:
        def test(self, name=name):
            if name != "squeezenet" and not TEST_ALL:
                self.skipTest("SKIP: a long one; HEDDLE_TEST_ALL=1 runs it")
            self.check(light.randomized(name), {light.recorded(name)[0]: light.random_input(name)})
        setattr(Portable, f"test_{name}", test)


add_networks()
