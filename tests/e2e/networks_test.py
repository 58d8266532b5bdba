# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The nine `light` networks: as published against their recorded outputs, with random weights against ONNX Runtime.

By default three networks are run with random weights; HEDDLE_TEST_ALL=1 runs all nine.
"""
import numpy as np
import onnxruntime

from heddle_command import HeddleTestCase, TEST_ALL
import light  # found through heddle_command

RANDOM_BY_DEFAULT = ("squeezenet", "shufflenet", "resnet50")
# onnx's own backend tests allow DenseNet 2e-3 and the others 1e-3, all with an absolute 1e-7.
RECORDED_RTOL = {"densenet121": 2e-3}
RECORDED_ATOL = 1e-7


def run_in_onnx_runtime(path, image):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: image})[0]


class Recorded(HeddleTestCase):
    def check(self, name):
        input_name, image, expected = light.recorded(name)
        module = self.compile(light.published_path(name))
        got = self.run_module(module, input_name, image)
        self.assert_close(got, expected, RECORDED_RTOL.get(name, 1e-3), RECORDED_ATOL)


class Random(HeddleTestCase):
    def check(self, name):
        if name not in RANDOM_BY_DEFAULT and not TEST_ALL:
            self.skipTest("SKIP: a long one; HEDDLE_TEST_ALL=1 runs it")
        path = light.randomized(name)
        input_name, _, _ = light.recorded(name)
        image = light.random_input(name)
        module = self.compile(path)
        got = self.run_module(module, input_name, image)
        expected = run_in_onnx_runtime(path, image)
        self.assertGreater(float(expected.std()), 0.0)
        self.assert_close(got, expected, 1e-3, 1e-4 * float(np.abs(expected).max()))


def add_cases():
    """One case for each network, so that each is counted by itself."""
    for name in light.NAMES:
        setattr(Recorded, f"test_{name}_equals_its_recorded_output", lambda self, name=name: self.check(name))
        setattr(Random, f"test_{name}_equals_onnx_runtime", lambda self, name=name: self.check(name))


add_cases()
