# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""On a GPU: what a model does with wrong indices, divisions by zero and extents of 0, as tests/e2e has it for the CPU."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from gpu import GpuTestCase  # noqa: E402  (finds e2e)
import checks_test  # noqa: E402
import empty_inputs_test  # noqa: E402
import values_from_data_test  # noqa: E402


class Checks(GpuTestCase, checks_test.Checks):
    target = "cuda"


class ValuesFromData(GpuTestCase, values_from_data_test.ValuesFromData):
    target = "cuda"


class EmptyInputs(GpuTestCase, empty_inputs_test.EmptyInputs):
    targets = ("cuda",)


if __name__ == "__main__":
    unittest.main(verbosity=2)
