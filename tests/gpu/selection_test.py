# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which CUDA devices there are and how one is named: CUDA_VISIBLE_DEVICES, and select in heddle.toml by uuid, pci and ordinal.

What is hidden is a reason, not a failure. A MIG slice is found like a device where there is one; where there is none, the name of one hides
everything.
"""
import json
import os
import re
import subprocess
import unittest

from gpu import GpuTestCase  # first: it finds e2e
from heddle_command import DIGITS, heddle

ABSENT = "GPU-00000000-1111-2222-3333-444444444444"


def uuids():
    """Of nvidia-smi, which CUDA_VISIBLE_DEVICES does not hide anything from: devices, and slices of them."""
    text = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
    return re.findall(r"UUID: (GPU-[0-9a-f-]+)", text), re.findall(r"UUID: (MIG-[0-9a-f-]+)", text)


class Selection(GpuTestCase):
    def cuda(self, visible=None, *arguments):
        """The CUDA devices with that CUDA_VISIBLE_DEVICES; None: as the test was started."""
        extra = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        report = json.loads(self.succeed("devices", "--format", "json", *arguments, extra_environment=extra).stdout)
        return [device for device in report["devices"] if device["family"] == "cuda"], report["skipped"]

    def config(self, select):
        path = self.folder / "heddle.toml"
        path.write_text(f'version = 1\n[device.mine]\ndriver = "heddle.cuda"\nselect = {{ {select} }}\n')
        return path

    def setUp(self):
        super().setUp()
        self.all, _ = self.cuda()
        self.uuid = self.all[0]["uuid"]

    def test_uuid_and_pci_are_those_of_the_vendors_tool(self):
        devices, slices = uuids()
        self.assertIn(self.uuid, [uuid.split("-", 1)[1].replace("-", "") for uuid in devices + slices])
        self.assertRegex(self.all[0]["pci"], r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")

    def test_hiding_by_index_and_uuid(self):
        by_index, _ = self.cuda("0") if "CUDA_VISIBLE_DEVICES" not in os.environ else (self.all[:1], [])
        self.assertEqual([device["uuid"] for device in by_index], [self.uuid])
        text = f"GPU-{self.uuid[:8]}-{self.uuid[8:12]}-{self.uuid[12:16]}-{self.uuid[16:20]}-{self.uuid[20:]}"
        if text in uuids()[0]:
            by_uuid, _ = self.cuda(text)
            self.assertEqual([device["uuid"] for device in by_uuid], [self.uuid])
            self.assertEqual(by_uuid[0]["ordinal"], 0)

    def test_what_hides_all_is_a_reason(self):
        for visible in ("", "-1", ABSENT, "MIG-00000000-1111-2222-3333-444444444444"):
            with self.subTest(visible=visible):
                devices, skipped = self.cuda(visible)
                self.assertEqual(devices, [])
                self.assertTrue(any("heddle.cuda" in reason and "CUDA_VISIBLE_DEVICES" in reason for reason in skipped), skipped)
                why = heddle("plugins", "--why", extra_environment={"CUDA_VISIBLE_DEVICES": visible})
                self.assertEqual(why.code, 0, str(why))
                self.assertRegex(why.stdout, r"heddle\.cuda.*no-device")
        # What was hidden before is there again: the verdict of a look is kept for one value of the variable.
        self.assertEqual([device["uuid"] for device in self.cuda()[0]], [device["uuid"] for device in self.all])

    def test_a_hidden_device_fails_with_its_reason(self):
        module = self.compile(DIGITS, "--target", "cpu,cuda")
        hidden = {"CUDA_VISIBLE_DEVICES": ""}
        arguments = ("run", module, "--input", "image=f32[1,1,8,8]=0.5")
        failed = self.fail_with(4, *arguments, "--device", self.device, extra_environment=hidden)
        self.assertIn("heddle.cuda", failed.stderr + failed.stdout)
        self.succeed(*arguments, extra_environment=hidden)  # goes to the CPU
        self.succeed(*arguments, "--device", self.device)

    def test_selecting_by_uuid_pci_and_ordinal(self):
        module = self.compile(DIGITS, "--target", "cpu,cuda")
        dashed = f"GPU-{self.uuid[:8]}-{self.uuid[8:12]}-{self.uuid[12:16]}-{self.uuid[16:20]}-{self.uuid[20:]}"
        for select in (f'uuid = "{dashed}"', f'uuid = "GPU-{self.uuid[:8]}"', f'pci = "{self.all[0]["pci"]}"', "ordinal = 0"):
            with self.subTest(select=select):
                path = self.config(select)
                mine = [device for device in self.cuda(None, "--config", path)[0] if device["alias"] == "mine"]
                self.assertEqual([device["uuid"] for device in mine], [self.uuid])
                result = self.succeed("bench", module, "--device", "mine", "--config", path, "--iterations", "3", "--format", "json")
                self.assertEqual(json.loads(result.stdout)["device"], "mine")
        self.succeed("bench", module, "--device", "heddle.cuda:0", "--iterations", "3")

    def test_selecting_what_is_not_there_says_what_is(self):
        module = self.compile(DIGITS, "--target", "cpu,cuda")
        for select in (f'uuid = "{ABSENT}"', 'pci = "ffff:ff:1f.7"', "ordinal = 77"):
            with self.subTest(select=select):
                failed = self.fail_with((1, 4), "run", module, "--input", "image=f32[1,1,8,8]=0.5", "--device", "mine", "--config",
                                        self.config(select))
                self.assertIn(self.all[0]["pci"], failed.stderr)

    def test_slices(self):
        slices = uuids()[1]
        if not slices:
            self.skipTest("SKIP: no MIG slice on this machine")
        devices, _ = self.cuda(slices[0])
        self.assertEqual([device["uuid"] for device in devices], [slices[0].split("-", 1)[1].replace("-", "")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
