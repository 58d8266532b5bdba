# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tests/e2e/weights_test.py on a GPU: weight files that change while they are read, and a run that is killed meanwhile."""
import importlib.util
import pathlib
import unittest

from gpu import GpuTestCase  # finds e2e

specification = importlib.util.spec_from_file_location("e2e_weights", pathlib.Path(__file__).resolve().parents[1] / "e2e" / "weights_test.py")
e2e_weights = importlib.util.module_from_spec(specification)
specification.loader.exec_module(e2e_weights)


class GpuWeights(GpuTestCase, e2e_weights.WeightsTest):
    target = "cuda"


if __name__ == "__main__":
    unittest.main(verbosity=2)
