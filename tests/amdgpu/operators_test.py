# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every instruction in the kernels of operators and of the driver, compiled for each AMD chip, is executed by a test of the interpreter. The models are
cases of ONNX's backend tests: those below, or with HEDDLE_TEST_ALL=1 all that compile, which takes many minutes."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import onnx
from heddle_command import TEST_ALL, HeddleTestCase, heddle  # pylint: disable=wrong-import-position

NODES = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
BUILD = pathlib.Path(os.environ["HEDDLE_BUILD"])
RUN = BUILD / "tests" / "amdgpu-run"
CHIPS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
# What operators have beside contractions and attention, whose kernels tests/compiler looks at: functions, integers and floats of each size, reads and
# writes at computed places, loops, bits, bytes of strings.
CASES = """acosh adam basic_deform_conv_with_padding bernoulli bitshift_left_uint64 cast_DOUBLE_to_FLOAT16 cast_FLOAT_to_BFLOAT16 col2im_dilations
cumsum_2d_axis_1 dequantizelinear_axis det_nd dft div_int16 div_uint32 erf gridsample_bicubic lrn matmulinteger maxpool_3d_default
mod_mixed_sign_float32 mod_mixed_sign_int64 nonmaxsuppression_two_batches pow_types_int64_float32 quantizelinear_int16
regex_full_match_basic resize_upsample_scales_cubic roialign_aligned_true scatternd_max string_split_basic top_k""".split()


class Operators(HeddleTestCase):
    def test_their_instructions_are_tested(self):
        names = sorted(path.name.removeprefix("test_") for path in NODES.glob("test_*")) if TEST_ALL else CASES
        compiled = 0
        for name in names:
            code = self.folder / "code" / name
            done = heddle("compile", NODES / f"test_{name}" / "model.onnx", "-o", self.folder / "m.heddle", "--target", "hip", "--dump-code", code)
            if not TEST_ALL:
                self.assertEqual(done.code, 0, done)
                self.assertEqual({path.name.split(".")[-2] for path in code.glob("*.hsaco")}, set(CHIPS), name)
            compiled += done.code == 0
        self.assertGreater(compiled, 1200 if TEST_ALL else len(CASES) - 1)
        decoders = sorted((BUILD / "plugins" / "hip" / "block_kernels").glob("*.hsaco"))  # of the driver, for weights in blocks
        self.assertGreater(len(decoders), len(CHIPS) * 10)
        files = sorted((self.folder / "code").rglob("*.hsaco")) + decoders
        done = subprocess.run([str(RUN), "--untested", *map(str, files)], capture_output=True, text=True, check=True, timeout=600)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:-1], [], "write a test in tests/amdgpu, and the name into covered_names.h")
        self.assertGreater(int(lines[-1].split()[2]), 250, lines[-1])
        print(f"{compiled} of {len(names)} models: {lines[-1]}")


if __name__ == "__main__":
    unittest.main()
