# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A test case on a CUDA device. Without one it is skipped and says so; with HEDDLE_GPU=required it fails."""
import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from heddle_command import HeddleTestCase, heddle  # noqa: E402


def cuda_device():
    """The alias of the first CUDA device, or None."""
    result = heddle("devices", "--format", "json")
    devices = json.loads(result.stdout) if result.code == 0 else []
    devices = devices.get("devices", []) if isinstance(devices, dict) else devices
    return next((device["alias"] for device in devices if device["family"] == "cuda"), None)


class GpuTestCase(HeddleTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.device = cuda_device()
        if cls.device is None:
            if os.environ.get("HEDDLE_GPU") == "required":
                raise AssertionError("no CUDA device: " + heddle("plugins", "--why").stdout)
            raise unittest.SkipTest("SKIP: no CUDA device")
