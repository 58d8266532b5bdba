# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The trained digit network, from its ONNX file through `heddle compile` and `heddle run`, against ONNX Runtime."""
import re
import subprocess
import sys

import numpy as np
import onnxruntime

from heddle_command import DIGITS, HeddleTestCase, REPOSITORY, environment, heddle_path
from split import load_split  # found through heddle_command


class Digits(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, _, cls.images, cls.labels = load_split()
        session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
        cls.reference = session.run(None, {"image": cls.images})[0]

    def test_every_held_out_prediction_equals_onnx_runtimes(self):
        logits = self.run_module(self.compile(DIGITS), "image", self.images)
        self.assertEqual(len(self.images), 360)
        np.testing.assert_array_equal(logits.argmax(1), self.reference.argmax(1))
        self.assert_close(logits, self.reference, 1e-3, 1e-4 * float(np.abs(self.reference).max()))

    def test_at_least_97_percent_of_the_held_out_images_are_right(self):
        logits = self.run_module(self.compile(DIGITS), "image", self.images)
        self.assertGreaterEqual(float((logits.argmax(1) == self.labels).mean()), 0.97)

    def test_one_module_takes_any_batch(self):
        module = self.compile(DIGITS)
        for batch in (1, 2, 7, 64):
            with self.subTest(batch=batch):
                logits = self.run_module(module, "image", self.images[:batch])
                self.assert_close(logits, self.reference[:batch], 1e-3, 1e-4 * float(np.abs(self.reference).max()))

    def test_two_runs_give_the_same_bits(self):
        module = self.compile(DIGITS)
        first = self.run_module(module, "image", self.images)
        second = self.run_module(module, "image", self.images)
        self.assertEqual(first.tobytes(), second.tobytes())

    def test_demo_prints_accuracy_and_images_per_second(self):
        module = self.compile(DIGITS)
        demo = REPOSITORY / "tests" / "models" / "digits" / "demo.py"
        process = subprocess.run(
            [sys.executable, "-B", demo, "--heddle", heddle_path(), "--module", module],
            text=True, capture_output=True, timeout=300, env={**environment(), "PYTHONUTF8": "1"},
        )
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
        right = int((self.reference.argmax(1) == self.labels).sum())
        self.assertIn(f"{right} of 360", process.stdout)
        rate = re.search(r"([\d,]+) images per second", process.stdout)
        self.assertIsNotNone(rate, process.stdout)
        self.assertGreater(int(rate.group(1).replace(",", "")), 0)
