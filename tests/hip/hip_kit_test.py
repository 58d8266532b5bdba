# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance kit on heddle.hip over the stand-in for AMD's library: whole for one chip, in part for the others, and whole for all with
HEDDLE_HIP_WHOLE_KIT=1."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import kit  # pylint: disable=wrong-import-position

FOLDER = kit.BUILD / "tests" / "hip"
WHOLE = bool(os.environ.get("HEDDLE_HIP_WHOLE_KIT"))
PART = "dispatch.,recording.,failure.,transfer.peer,blocks."
ABSENT = {
    "buffer.exhaustion": "more than 4 GiB",
    "transfer.over_4_gib_at_once": "--large",
    "param_io.over_4_gib": "--large",
    "param_io.mapped": "it maps no files",
    "concurrency.beside_another": "--beside",
    "transfer.upload_captured": "do not state",
    "recording.not_offered": "the device records",
    "operation.in_its_place": "it does not run operations for host/1",
    "operation.failure": "it does not run operations for host/1",
    "operation.same_as_kernel": "it does not run operations for host/1",
    "portable.products": "does not run portable code",
    "portable.convolutions": "does not run portable code",
    "portable.tails": "does not run portable code",
    "failure.kernel": "have no 'fail'",  # a kernel of a GPU cannot fail without losing the device
    "lifetime.signals": "libLLVM",  # which interprets the kernels
}
# Up to HIP 6, as AMD's library does; with HIP 7 the case passes.
ENDS = {"failure.device_lost": "a fault of a kernel ends the process"}
SMALL = {"transfer.beyond_4_gib": "less than 4 GiB"}


class HipKit(unittest.TestCase):
    def conforms(self, chip, major, settings, *arguments, whole=WHOLE, absent=None):
        os.environ["LD_LIBRARY_PATH"] = str(FOLDER / f"hip_{major}")
        os.environ["HEDDLE_HIP_STAND_IN"] = f"chip={chip},{settings}"
        _, cases = kit.run(FOLDER / chip / "heddle.hip.toml", *arguments, *kit.PATIENT, *([] if whole else ["--filter", PART]))
        self.assertEqual({name: case["texts"] for name, case in cases.items() if case["outcome"] in ("failed", "skipped")}, {})
        for name, case in cases.items():
            if case["outcome"] == "absent" and not ("does not record" in case["texts"][0] and "graphs=false" in arguments):
                self.assertIn({**ABSENT, **(ENDS if major < 7 else {}), **(absent or {})}.get(name, "no reason is expected"), case["texts"][0], name)
        self.assertGreaterEqual(kit.count(cases, "passed"), 133 if whole else 31)

    def test_gfx1100_with_hip_6(self):
        self.conforms("gfx1100", 6, "devices=2", whole=True)

    def test_gfx90a_with_hip_5_whose_streams_do_not_wait_for_memory(self):
        self.conforms("gfx90a", 5, "signal_waits,memory=3221225472", absent=SMALL)

    def test_gfx942_with_one_hardware_queue(self):
        self.conforms("gfx942", 6, "queues=1,latency_us=300,devices=3,seed=4")

    def test_gfx1201_with_hip_7_without_pools_and_graphs(self):
        self.conforms("gfx1201", 7, "pools=0,devices=2,peers=0,seed=5", "--seed", "7", "--option", "graphs=false")


if __name__ == "__main__":
    unittest.main()
