# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weight files that are cut, rewritten or replaced while `heddle run` reads them, and a run that is killed meanwhile: an error that names
file, tensor and offset, or nothing at all, and the next run works. tests/gpu/weights_test.py does the same on a GPU."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from heddle_command import TEST_DRIVERS, HeddleTestCase, environment, heddle, heddle_path

TENSORS, ROWS, COLUMNS = 8, 16384, 1024
EACH = ROWS * COLUMNS * 4
# Slow enough that something can happen meanwhile.
CONFIG = 'version = 1\n[param_io]\nmethod = ["buffered"]\nchunk = "4KiB"\nqueue_depth = 1\n'


class WeightsTest(HeddleTestCase):
    device, target = "cpu", "cpu"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="heddle-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.made = pathlib.Path(folder.name)
        with open(cls.made / "raw.bin", "wb") as raw:
            raw.truncate(TENSORS * EACH)
        nodes, last, initializers = [], "x", []
        for i in range(TENSORS):
            nodes += [helper.make_node("Mul", [f"w{i}", "x"], [f"p{i}"]),
                      helper.make_node("ReduceMean", [f"p{i}"], [f"m{i}"], axes=[0], keepdims=0),
                      helper.make_node("Add", [last, f"m{i}"], [f"y{i}"])]
            last = f"y{i}"
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "raw.bin"), ("offset", str(i * EACH)), ("length", str(EACH))):
                tensor.external_data.add(key=key, value=value)
            initializers.append(tensor)
        shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [COLUMNS]) for name in ("x", last)]
        graph = helper.make_graph(nodes, "weights", shapes[:1], shapes[1:], initializers)
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), cls.made / "weights.onnx")
        path = cls.made / "weights.safetensors"
        compiled = heddle("compile", cls.made / "weights.onnx", "-o", cls.made / "weights.heddle", "--params-out", path, "--target", cls.target)
        assert compiled.code == 0, str(compiled)
        cls.size = path.stat().st_size
        cls.data = cls.size - TENSORS * EACH  # where tensors begin
        with open(path, "rb") as file:
            cls.head = file.read(cls.data)

    def setUp(self):
        super().setUp()
        self.path, self.x, self.y = (self.folder / name for name in ("model.safetensors", "x.npy", "y.npy"))
        config = self.folder / "heddle.toml"
        config.write_text(CONFIG)
        np.save(self.x, np.arange(COLUMNS, dtype=np.float32))
        self.run_arguments = ["run", self.made / "weights.heddle", "--config", config, "--device", self.device, "--params", self.path,
                              "--input", f"x=@{self.x}", "--output", f"@{self.y}"]

    def write_weights(self):
        """A sparse file of zeros, in a state that no clock is too coarse to tell from a later one."""
        with open(self.path, "wb") as file:
            file.write(self.head)
            file.truncate(self.size)
        os.utime(self.path, (10**9, 10**9))

    def run_and(self, meanwhile):
        """Starts a run, does something once half of the weights is read, and returns (exit code, stderr). Again if that came too late."""
        for _ in range(5):
            self.write_weights()
            child = subprocess.Popen([str(heddle_path()), *map(str, self.run_arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True, env=environment())
            deadline = time.monotonic() + 120
            while child.poll() is None and time.monotonic() < deadline:
                read = re.search(r"rchar: (\d+)", pathlib.Path(f"/proc/{child.pid}/io").read_text())
                if read and int(read[1]) > TENSORS * EACH // 2:
                    break
            in_time = child.poll() is None
            meanwhile(child)
            _, errors = child.communicate(timeout=120)
            if in_time and child.returncode != 0:
                break
        return child.returncode, errors

    def expect_next_run_works(self):
        self.write_weights()
        self.succeed(*self.run_arguments)
        self.assertTrue(np.array_equal(np.load(self.y), np.load(self.x)))

    def test_a_file_cut_while_it_is_read_is_named_with_tensor_and_offset(self):
        code, errors = self.run_and(lambda _: os.truncate(self.path, self.data + 5000))
        self.assertEqual(code, 1, errors)
        found = re.search(r"reading tensor 'w(\d)' \(bytes \[(\d+), (\d+)\) of (\S+)\).*at byte (\d+) failed", errors, re.DOTALL)
        self.assertTrue(found, errors)
        tensor, first, end, at = int(found[1]), int(found[2]), int(found[3]), int(found[5])
        self.assertEqual((first, end), (self.data + tensor * EACH, self.data + (tensor + 1) * EACH))
        self.assertTrue(first <= at < end, errors)
        self.assertEqual(found[4], str(self.path))
        self.expect_next_run_works()

    def test_a_file_rewritten_while_it_is_read_is_data_loss(self):
        def rewrite(_):
            with open(self.path, "r+b") as file:
                file.seek(self.data)
                file.write(b"x")

        code, errors = self.run_and(rewrite)
        self.assertEqual(code, 1, errors)
        self.assertIn(f"of {self.path} failed: it was modified meanwhile", errors)
        self.assertIn("8 tensors, 'w0' to 'w7'", errors)
        self.expect_next_run_works()

    def test_a_file_replaced_while_it_is_read_is_data_loss(self):
        other = self.folder / "other.safetensors"

        def replace(_):
            other.write_bytes(self.head)
            other.rename(self.path)

        code, errors = self.run_and(replace)
        self.assertEqual(code, 1, errors)
        self.assertIn(f"of {self.path} failed: another file replaced it meanwhile", errors)
        self.expect_next_run_works()

    def test_a_run_killed_while_it_loads_leaves_nothing_behind(self):
        code, _ = self.run_and(lambda child: child.kill())
        self.assertEqual(code, -9)
        self.assertFalse((self.y).exists())
        self.expect_next_run_works()

    def test_a_file_cut_before_is_named_with_its_tensor(self):
        self.write_weights()
        os.truncate(self.path, self.data + 3 * EACH + 1)
        result = self.fail_with(1, *self.run_arguments)
        self.assertIn(str(self.path), result.stderr)
        self.assertIn(f"tensor 'w3': its bytes [{self.data + 3 * EACH}, {self.data + 4 * EACH}) are beyond", result.stderr)
        self.expect_next_run_works()


@unittest.skipUnless(TEST_DRIVERS and (TEST_DRIVERS / "test.streams.toml").exists(), "the driver over streams of the tests was not built")
class CommonPieces(HeddleTestCase):
    def test_large_weights_share_calls_of_the_driver(self):
        rows = (2048, 3072, 2048, 1, 2560)  # of 4 KiB; the short one is no large weight
        weights = {f"w{i}": np.random.default_rng(i).standard_normal((count, 1024), np.float32) for i, count in enumerate(rows)}
        nodes, last = [], "x"
        for i in range(len(rows)):
            nodes += [helper.make_node("Mul", [f"w{i}", "x"], [f"p{i}"]), helper.make_node("ReduceMean", [f"p{i}"], [f"m{i}"], axes=[0], keepdims=0),
                      helper.make_node("Add", [last, f"m{i}"], [f"y{i}"])]
            last = f"y{i}"
        shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1024]) for name in ("x", last)]
        graph = helper.make_graph(nodes, "weights", shapes[:1], shapes[1:], [onnx.numpy_helper.from_array(one, name) for name, one in weights.items()])
        model, module, params = (self.folder / name for name in ("m.onnx", "m.heddle", "m.safetensors"))
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
        self.succeed("compile", model, "-o", module, "--target", "cpu", "--params-out", params)
        x = np.linspace(-1, 1, 1024, dtype=np.float32)
        np.save(self.folder / "x.npy", x)
        told = self.succeed("run", module, "--device", "streams", "--params", params, "--input", f"x=@{self.folder / 'x.npy'}", "--output",
                            f"@{self.folder / 'y.npy'}", "--statistics", extra_environment={"HEDDLE_PLUGIN_PATH": str(TEST_DRIVERS)})
        pool = json.loads(told.stderr[told.stderr.index("{"):])["devices"][0]["pool"]
        self.assertGreater(pool["allocations"], len(rows))
        self.assertLess(pool["provider_allocations"], len(rows))
        self.assertLess(pool["bytes_reserved"], sum(one.nbytes for one in weights.values()) + (1 << 20))
        expected = x + sum((one.astype(np.float64) * x).mean(0) for one in weights.values())
        np.testing.assert_allclose(np.load(self.folder / "y.npy"), expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
