# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that a GGUF file stores in blocks, on a GPU: every type as f32, f16 and bf16, compared with NumPy's values bit by bit, and weights of several
chunks. gpu_blocks_test.cpp calls the driver itself."""
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))
from gpu import GpuTestCase  # noqa: E402, which finds e2e
import gguf_load  # noqa: E402
import heddle_ctypes  # noqa: E402
import parameter_formats_test as formats  # noqa: E402

ELEMENTS = 512


def write_model(path, names, rows, dtype):
    """All rows of each weight, gathered by their numbers."""
    table = f"tensor<{rows}x{ELEMENTS}x{dtype}>"
    results = ", ".join(f'{table} {{tx.name = "{name}"}}' for name in names)
    lines = [f'module {{\n  func.func @main(%ids: tensor<{rows}xi64> {{tx.name = "ids"}}) -> ({results}) {{']
    for i, name in enumerate(names):
        lines.append(f'    %w{i} = tx.parameter "{name}" : {table}')
        lines.append(f"    %g{i} = tx.gather %w{i}, %ids {{axis = 0 : i64}} : {table}, tensor<{rows}xi64> -> {table}")
    lines.append(f"    return {', '.join(f'%g{i}' for i in range(len(names)))} : {', '.join([table] * len(names))}\n  }}\n}}")
    path.write_text("\n".join(lines) + "\n")


class Blocks(GpuTestCase):
    def values(self, dtype, tensors, rows):
        """The weights as bits, by a call."""
        source, file = self.folder / f"{dtype}.mlir", self.folder / "w.gguf"
        write_model(source, [name for name, *_ in tensors], rows, dtype)
        module = self.compile(source, "--target", "cuda")
        formats.write_gguf(file, [(name, formats.BLOCKS[kind][0], [rows, ELEMENTS], content) for name, kind, content in tensors])
        instance = heddle_ctypes.Runtime().open(module).instance(self.device, [file])
        call, results = instance.function().prepare(np.arange(rows, dtype=np.int64))
        call()
        width = np.uint32 if dtype == "f32" else np.uint16
        return [result.numpy().view(width) for result in results], instance

    def test_every_type_becomes_every_type_of_values(self):
        made = {name: formats.random_blocks(name, ELEMENTS) for name in formats.BLOCKS}
        for dtype in ("f32", "f16", "bf16"):
            got, _ = self.values(dtype, [(name, name, content) for name, (content, _) in made.items()], formats.ROWS)
            for (name, (_, values)), bits in zip(made.items(), got):
                expected = gguf_load.rounded(np.ascontiguousarray(values, np.float32), dtype).reshape(bits.shape)
                same = (bits == expected) | ((values == 0) & (bits << 1 == 0))  # NumPy's -0 may come from another order of signs
                self.assertTrue(same.all(), f"{name} to {dtype}: {np.argwhere(~same)[:3].tolist()}")

    def test_weights_of_many_chunks(self):
        # A chunk is a quarter of the file here, and ends inside of weights.
        for dtype in ("f16", "f32"):
            command = [sys.executable, "-B", ROOT / "tests" / "bench" / "gguf_load.py", "--device", self.device, "--gigabytes", "0.7", "--type", dtype,
                       "--formats", "Q8_0,Q4_K", "--rounds", "1"]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_device_decodes(self):
        """No values are copied from the host, as they are without heddle.blocks/1."""
        content, _ = formats.random_blocks("Q8_0", ELEMENTS)
        _, instance = self.values("f16", [("w", "Q8_0", content)], formats.ROWS)
        uploaded = max(int(number) for number in re.findall(r'"upload_bytes": *(\d+)', instance.report("statistics")))
        self.assertLess(uploaded, 2 * formats.ROWS * ELEMENTS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
