# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameter files that this test writes itself: GGUF with every block type, compared with values that NumPy computes from the definitions of the
types, and IRPA; heddle params and heddle run on both, on .npz and on .npy."""
import json
import os
import struct
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase, heddle

ROWS = 3
F32 = np.float32


def halves(blocks, at):
    return blocks[:, at:at + 2].copy().view(np.float16).astype(F32)


def nibbles(packed):
    """The low halves of all bytes, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.int32)


def bits(packed, count):
    """Bit i of each row."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=-1, bitorder="little")[..., :count].astype(np.int32)


def q4_0(b):
    return halves(b, 0) * (nibbles(b[:, 2:]) - 8).astype(F32)


def q4_1(b):
    return halves(b, 0) * nibbles(b[:, 4:]).astype(F32) + halves(b, 2)


def q5_0(b):
    return halves(b, 0) * (nibbles(b[:, 6:]) + 16 * bits(b[:, 2:6], 32) - 16).astype(F32)


def q5_1(b):
    return halves(b, 0) * (nibbles(b[:, 8:]) + 16 * bits(b[:, 4:8], 32)).astype(F32) + halves(b, 2)


def q8_0(b):
    return halves(b, 0) * b[:, 2:].view(np.int8).astype(F32)


def two_bits(packed):
    """(n, 64) bytes as (n, 256): per 32 bytes all lowest pairs of bits, then the next ones."""
    groups = packed.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    return groups.reshape(-1, 256).astype(np.int32)


def q2_k(b):
    scale, low = halves(b, 80) * (b[:, :16] & 15).astype(F32), halves(b, 82) * (b[:, :16] >> 4).astype(F32)
    return np.repeat(scale, 16, 1) * two_bits(b[:, 16:80]).astype(F32) - np.repeat(low, 16, 1)


def q3_k(b):
    low = nibbles(b[:, 96:104])
    high = np.concatenate([b[:, 104:108] >> shift & 3 for shift in (0, 2, 4, 6)], axis=1).astype(np.int32)
    scale = halves(b, 108) * (low + 16 * high - 32).astype(F32)
    mask = (b[:, None, :32] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1).reshape(-1, 256).astype(np.int32)
    return np.repeat(scale, 16, 1) * (two_bits(b[:, 32:96]) + 4 * mask - 4).astype(F32)


def scales_and_minima(p):
    p = p.astype(np.int32)
    first, second, third = p[:, :4], p[:, 4:8], p[:, 8:]
    return (np.concatenate([first & 63, third & 15 | first >> 6 << 4], 1).astype(F32),
            np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1).astype(F32))


def q4_k(b):
    scale, low = scales_and_minima(b[:, 4:16])
    values = nibbles(b[:, 16:].reshape(-1, 4, 32)).reshape(-1, 256).astype(F32)
    return np.repeat(halves(b, 0) * scale, 32, 1) * values - np.repeat(halves(b, 2) * low, 32, 1)


def q5_k(b):
    scale, low = scales_and_minima(b[:, 4:16])
    high = (b[:, None, 16:48] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & 1).reshape(-1, 256).astype(np.int32)
    values = (nibbles(b[:, 48:].reshape(-1, 4, 32)).reshape(-1, 256) + 16 * high).astype(F32)
    return np.repeat(halves(b, 0) * scale, 32, 1) * values - np.repeat(halves(b, 2) * low, 32, 1)


def q6_k(b):
    low = nibbles(b[:, :128].reshape(-1, 2, 64)).reshape(-1, 256)
    scale = halves(b, 208) * b[:, 192:208].view(np.int8).astype(F32)
    return np.repeat(scale, 16, 1) * (low + 16 * two_bits(b[:, 128:192]) - 32).astype(F32)


UNEVEN = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], F32)
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], F32)


def iq4_nl(b):
    return halves(b, 0) * UNEVEN[nibbles(b[:, 2:])]


def iq4_xs(b):
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], 2).reshape(-1, 8).astype(np.int32)
    high = b[:, 2:4].copy().view(np.uint16).astype(np.int32) >> np.arange(0, 16, 2) & 3
    scale = halves(b, 0) * (low + 16 * high - 32).astype(F32)
    return np.repeat(scale, 32, 1) * UNEVEN[nibbles(b[:, 8:].reshape(-1, 8, 16))].reshape(-1, 256)


def mxfp4(b):
    return np.ldexp(E2M1[nibbles(b[:, 1:])].astype(np.float64), b[:, :1].astype(np.int32) - 127).astype(F32)


def nvfp4(b):
    exponent, mantissa = (b[:, :4] >> 3 & 15).astype(np.int32), (b[:, :4] & 7).astype(np.float64)
    scale = np.where(exponent == 0, np.ldexp(mantissa, -9), np.ldexp(8 + mantissa, exponent - 10)).astype(F32)
    return (scale[:, :, None] * E2M1[nibbles(b[:, 4:].reshape(-1, 4, 8))]).reshape(-1, 64)


# name: number, elements and bytes of a block, offsets of f16 numbers, values
BLOCKS = {
    "Q4_0": (2, 32, 18, [0], q4_0), "Q4_1": (3, 32, 20, [0, 2], q4_1), "Q5_0": (6, 32, 22, [0], q5_0), "Q5_1": (7, 32, 24, [0, 2], q5_1),
    "Q8_0": (8, 32, 34, [0], q8_0), "Q2_K": (10, 256, 84, [80, 82], q2_k), "Q3_K": (11, 256, 110, [108], q3_k),
    "Q4_K": (12, 256, 144, [0, 2], q4_k), "Q5_K": (13, 256, 176, [0, 2], q5_k), "Q6_K": (14, 256, 210, [208], q6_k),
    "IQ4_NL": (20, 32, 18, [0], iq4_nl), "IQ4_XS": (23, 256, 136, [0], iq4_xs), "MXFP4": (39, 32, 17, [], mxfp4),
    "NVFP4": (40, 64, 36, [], nvfp4),
}
PLAIN = {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26, "int64": 27, "float64": 28}


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def write_gguf(path, tensors, pairs=b"", pair_count=0):
    """tensors: name, number of the type, extents in row-major order, bytes."""
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), pair_count) + pairs, b""
    for name, number, dims, content in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *reversed(dims), number, len(data))
        data += content + b"\0" * (-len(content) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def random_blocks(name, columns, seed=7):
    """Bytes with finite scales, and their values, as (ROWS, columns)."""
    _, elements, size, at, values = BLOCKS[name]
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (ROWS * columns // elements, size), np.uint8)
    for offset in at:
        blocks[:, offset:offset + 2] = random.standard_normal((len(blocks), 1)).astype(np.float16).view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = 110 + blocks[:, 0] % 32
        blocks[:2, 0] = [0, 1]
    if name == "NVFP4":
        blocks[:, :4] %= 127
    return blocks.tobytes(), values(blocks).reshape(ROWS, columns)


class Gguf(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "a.gguf"
        random = np.random.default_rng(5)
        self.plain = {kind: (random.standard_normal((2, 3, 5)) * 50).astype(kind) for kind in PLAIN}
        tensors, self.values = [], {}
        for name, (number, elements, *_) in BLOCKS.items():
            content, self.values[name] = random_blocks(name, 3 * elements)
            tensors.append((name, number, [ROWS, 3 * elements], content))
        tensors += [(kind, PLAIN[kind], array.shape, array.tobytes()) for kind, array in self.plain.items()]
        write_gguf(self.file, tensors, text("general.architecture") + struct.pack("<I", 8) + text("test"), 1)

    def test_values_are_those_of_the_types(self):
        listed = self.succeed("params", "ls", self.file).stdout
        self.assertIn("GGUF", listed)
        for name, values in self.values.items():
            self.assertRegex(listed, rf"{name} +{name} +{values.shape[0]}x{values.shape[1]} ")
        for name, values in {**self.values, **self.plain}.items():
            out = self.folder / "one.npy"
            self.succeed("params", "extract", self.file, name, "-o", out)
            got = np.load(out)
            self.assertEqual((got.shape, got.dtype), (values.shape, values.dtype), name)
            self.assertTrue(np.array_equal(got, values), name)
        self.succeed("params", "convert", self.file, "-o", self.folder / "f32.npz", "--type", "f32")
        with np.load(self.folder / "f32.npz") as loaded:
            for name, values in self.values.items():
                self.assertTrue(np.array_equal(loaded[name], values), name)
        globs = [word for name in self.values for word in ("--only", name)]
        self.succeed("params", "diff", self.file, self.folder / "f32.npz", "--any-type", *globs)
        self.succeed("params", "diff", self.file, self.file)
        self.succeed("params", "convert", self.file, "-o", self.folder / "f16.npz", "--type", "f16", "--only", "Q*")
        with np.load(self.folder / "f16.npz") as loaded:
            for name in loaded:
                self.assertTrue(np.array_equal(loaded[name], self.values[name].astype(np.float16)), name)
        first = ",".join(self.succeed("params", "dump", self.file, "Q4_K", "--values", "3").stdout.split("=")[2].split(",")[:3])
        self.assertTrue(np.array_equal(np.array(first.split(","), F32), self.values["Q4_K"][0, :3]))
        self.assertIn("no error", self.succeed("params", "verify", self.file, "--nan").stdout)

    def test_blocks_are_not_written(self):
        out = self.folder / "out.safetensors"
        refused = self.fail_with(1, "params", "convert", self.file, "-o", out).stderr
        self.assertIn("stored in blocks; convert them with --type f32, f16 or bf16", refused)
        self.assertFalse(out.exists())
        self.succeed("params", "convert", self.file, "-o", out, "--only", "float*", "--only", "int*")

    def test_a_module_takes_its_weights_from_blocks(self):
        for name, kind in (("Q4_K", TensorProto.FLOAT), ("Q8_0", TensorProto.FLOAT16), ("Q6_K", TensorProto.FLOAT16)):
            content, values = random_blocks(name, 512)
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            weight = numpy_helper.from_array(np.ones((ROWS, 512), dtype), "w")
            graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", kind, [ROWS, 512])],
                                      [helper.make_tensor_value_info("y", kind, [ROWS, 512])], [weight])
            onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "add.onnx")
            module = self.compile(self.folder / "add.onnx", "--params-out", self.folder / "add.safetensors")
            file, out = self.folder / "w.gguf", self.folder / "y.npy"
            write_gguf(file, [("w", BLOCKS[name][0], [ROWS, 512], content)])
            self.assertIn("no error", self.succeed("params", "verify", file, "--module", module).stdout)
            np.save(self.folder / "x.npy", np.zeros((ROWS, 512), dtype))
            self.succeed("run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--params", file, "--output", f"@{out}")
            self.assertTrue(np.array_equal(np.load(out), values.astype(dtype)), name)
            refused = self.fail_with(1, "run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--params", file, "--check-hashes").stderr
            self.assertIn(f"checking parameter 'w' of {file} failed: its values are stored in blocks", refused)
            problem, = json.loads(heddle("params", "verify", file, "--module", module, "--hashes", "--format", "json").stdout)["problems"]
            self.assertEqual((problem["name"], problem["problem"]), ("w", "hash"))
            self.assertIn("stored in blocks", problem["text"])
            left = self.folder / "left.heddle"
            self.succeed("compile", self.folder / "add.onnx", "-o", left, "--params-in", file, "--params-in-hashes")
            call = ("run", left, "--input", f"x=@{self.folder / 'x.npy'}", "--params", file, "--output", f"@{out}")
            self.succeed(*call, "--check-hashes")
            self.assertIn("no error", self.succeed("params", "verify", file, "--module", left, "--hashes").stdout)
            damaged = bytearray(file.read_bytes())
            damaged[-100] ^= 1  # the last bytes may be padding
            file.write_bytes(damaged)
            self.succeed(*call)
            self.assertIn("stored in blocks, which are others than those that were compiled", self.fail_with(1, *call, "--check-hashes").stderr)
            self.assertEqual(heddle("params", "verify", file, "--module", left, "--hashes").code, 1)
            write_gguf(file, [("w", BLOCKS[name][0], [ROWS, 256], content[:len(content) // 2])])
            self.assertIn(f"the file has {name}[3,256]", self.fail_with(1, "run", module, "--input", f"x=@{self.folder / 'x.npy'}", "--params", file).stderr)


def write_irpa(path, entries, next_header=0, count=None):
    """entries: name, and bytes or (a pattern, a length). Each entry is 60 bytes of header and 16 or 25 of its own."""
    table, names, data = b"", b"", b""
    for name, content in entries:
        is_splat = isinstance(content, tuple)
        own = struct.pack("<Q16sB", content[1], content[0], len(content[0])) if is_splat else struct.pack("<QQ", len(data), len(content))
        table += struct.pack("<QIQQQQQQ", 60 + len(own), 1 if is_splat else 2, 0, len(names), len(name), 0, 0, 64) + own
        table += b"\0" * (-len(table) % 16)
        names += name.encode()
        data += b"" if is_splat else content + b"\0" * (-len(content) % 64)
    start = 96 + len(table) + len(names)
    padding = b"\0" * (-start % 64)
    head = b"IRPA" + struct.pack("<HHQQQQ", 0, 0, 88, next_header, 0, len(entries) if count is None else count)
    head += struct.pack("<QQQQQQ", 96, len(table), 96 + len(table), len(names), start + len(padding), len(data)) + b"\0" * 8
    path.write_bytes(head + table + names + padding + data)


def write_model(path, *tensors):
    """An ONNX model that only has initializers."""
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], list(tensors))).SerializeToString())


def external(location, offset, length):
    """The initializer w, f32[3,5], in a file of its own."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 5], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


class OtherFormats(HeddleTestCase):
    """One weight in every format that heddle run reads."""

    def setUp(self):
        super().setUp()
        self.weight = np.arange(15, dtype=F32).reshape(3, 5)
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
                                  [numpy_helper.from_array(np.zeros((3, 5), F32), "w")])
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "add.onnx")
        self.module = self.compile(self.folder / "add.onnx", "--params-out", self.folder / "zero.safetensors")
        self.out = self.folder / "y.npy"

    def run_with(self, file):
        return ["run", self.module, "--input", "x=f32[3,5]=0.5", "--params", file, "--output", f"@{self.out}"]

    def assert_runs(self, file):
        self.succeed(*self.run_with(file))
        self.assertTrue(np.array_equal(np.load(self.out), self.weight + F32(0.5)), file)
        self.assertIn("no error", self.succeed("params", "verify", file, "--module", self.module).stdout)
        self.out.unlink()

    def test_the_first_bytes_determine_the_format(self):
        np.save(self.folder / "w.npy", self.weight)
        np.savez(self.folder / "a.npz", w=self.weight, other=np.ones(3))
        write_gguf(self.folder / "a.gguf", [("w", 0, [3, 5], self.weight.tobytes())])
        write_irpa(self.folder / "a.irpa", [("other", b"xyz"), ("w", self.weight.tobytes()), ("one", (b"\1\2", 6))])
        self.succeed("params", "convert", self.folder / "a.npz", "-o", self.folder / "b.irpa")
        (self.folder / "odd.safetensors").write_bytes((self.folder / "a.npz").read_bytes())
        write_model(self.folder / "a.onnx", numpy_helper.from_array(np.ones(3), "other"), numpy_helper.from_array(self.weight, "w"))
        write_model(self.folder / "b.onnx", helper.make_tensor("w", TensorProto.FLOAT, [3, 5], self.weight.flatten().tolist()))
        for name in ("w.npy", "a.npz", "a.gguf", "a.irpa", "b.irpa", "odd.safetensors", "a.onnx", "b.onnx"):
            self.assert_runs(self.folder / name)

    def test_external_data_of_onnx(self):
        (self.folder / "deep").mkdir()
        model = self.folder / "a.onnx"
        data = np.concatenate([np.ones(16, F32), self.weight.flatten(), np.ones(1, F32)]).tobytes()
        for location in ("a.onnx.data", "deep/w.bin"):
            write_model(model, external(location, 64, 60), numpy_helper.from_array(np.ones(3), "other"))
            (self.folder / location).write_bytes(data)
            self.assert_runs(model)
            for method in ("mmap", "file"):
                self.succeed(*self.run_with(model), "--param-mode", method)
                self.assertTrue(np.array_equal(np.load(self.out), self.weight + F32(0.5)), method)
        write_model(model, external("a.onnx.data", 64, None))  # without its length
        self.assert_runs(model)
        base = self.folder / "base.npz"
        np.savez(base, w=np.zeros((3, 5), F32))
        self.succeed(*self.run_with(base), "--params-over", model)
        self.assertTrue(np.array_equal(np.load(self.out), self.weight + F32(0.5)))

    def test_a_module_takes_its_weights_from_the_model(self):
        model, left = self.folder / "add.onnx", self.folder / "left.heddle"
        onnx.save(onnx.load(model), model, save_as_external_data=True, location="add.data", size_threshold=0)
        self.succeed("compile", model, "-o", left, "--params-in", model, "--params-in-hashes")
        call = ("run", left, "--input", "x=f32[3,5]=0.5", "--params", model, "--output", f"@{self.out}", "--check-hashes")
        self.succeed(*call)
        self.assertTrue(np.array_equal(np.load(self.out), np.full((3, 5), F32(0.5))))
        refused = self.fail_with(1, "compile", model, "-o", self.folder / "add.data", "--params-in", model).stderr
        self.assertIn("weights are left to this file, and it would be overwritten", refused)
        self.assertEqual((self.folder / "add.data").read_bytes(), bytes(60))
        (self.folder / "add.data").write_bytes(self.weight.tobytes())
        self.assertIn("its 60 bytes have hash", self.fail_with(1, *call).stderr)
        self.succeed(*call[:-1])
        self.assertTrue(np.array_equal(np.load(self.out), self.weight + F32(0.5)))

    def test_lists_of_integers_in_onnx(self):
        """Their bytes in the file are not those of the values."""
        kinds = {"f16": (TensorProto.FLOAT16, np.float16, [1, -2, 0.5, 65504]), "i8": (TensorProto.INT8, np.int8, [-128, -1, 0, 127]),
                 "i64": (TensorProto.INT64, np.int64, [-1, 2, 2**40, -2**63]), "u64": (TensorProto.UINT64, np.uint64, [2**64 - 1, 0, 1, 7])}
        model = self.folder / "c.onnx"
        for name, (kind, dtype, numbers) in kinds.items():
            graph = helper.make_graph([helper.make_node("Concat", ["x", "w"], ["y"], axis=0)], "g", [helper.make_tensor_value_info("x", kind, [1])],
                                      [helper.make_tensor_value_info("y", kind, [5])], [helper.make_tensor("w", kind, [4], numbers)])
            onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), model)
            self.succeed("params", "extract", model, "w", "-o", self.folder / "w.npy")
            self.assertTrue(np.array_equal(np.load(self.folder / "w.npy"), np.array(numbers, dtype)), name)
            if name in ("f16", "i8"):  # small tensors of the others are stored in the module
                self.succeed("compile", model, "-o", self.folder / "c.heddle", "--params-in", model)
                self.succeed("run", self.folder / "c.heddle", "--input", f"x={name}[1]=0", "--params", model, "--output", f"@{self.out}")
                self.assertTrue(np.array_equal(np.load(self.out)[1:], np.array(numbers, dtype)), name)

    def test_external_data_that_is_refused(self):
        model = self.folder / "models" / "a.onnx"
        model.parent.mkdir()
        secret = self.folder / "secret.bin"
        secret.write_bytes(bytes(60))
        (model.parent / "link.bin").symlink_to(secret)
        (model.parent / "short.bin").write_bytes(bytes(59))
        os.mkfifo(model.parent / "fifo")
        left = self.folder / "left.heddle"
        cases = {"../secret.bin": "its location is outside the model's directory", str(secret): "its location is outside the model's directory",
                 "link.bin": "its location is or goes through a link", "gone.bin": "No such file or directory", ".": "it is not a regular file",
                 "fifo": "it is not a regular file", "short.bin": "tensor 'w' would end at byte 60, and the file has 59"}
        for location, text in cases.items():
            write_model(model, external(location, 0, 60))
            for arguments in (self.run_with(model), ("params", "ls", model), ("compile", self.folder / "add.onnx", "-o", left, "--params-in", model)):
                error = self.fail_with(1, *arguments).stderr
                self.assertIn(f"opening the external data '{location}' of '{model}' failed: {text}", error)
                self.assertEqual(len(error.splitlines()), 1, error)
        write_model(model, external("short.bin", 0, 60))
        with open(model, "rb") as file:
            done = heddle(*self.run_with(f"/dev/fd/{file.fileno()}"), pass_fds=[file.fileno()])
        self.assertIn("a descriptor or memory has none; give the path of the model", done.stderr)
        self.assertFalse(left.exists())
        # The model whose weights are left to its own file needs its data as well.
        onnx.save(onnx.load(self.folder / "add.onnx"), model, save_as_external_data=True, location="own.bin", size_threshold=0)
        (model.parent / "own.bin").unlink()
        error = self.fail_with(1, "compile", model, "-o", left, "--params-in", model).stderr
        self.assertIn("opening the external data 'own.bin' of", error)
        self.assertEqual(len(error.splitlines()), 1, error)
        write_model(model, numpy_helper.from_array(self.weight, "w"), numpy_helper.from_array(self.weight, "w"))
        self.assertIn("tensor 'w': the name is a duplicate", self.fail_with(1, *self.run_with(model)).stderr)
        write_model(model, numpy_helper.from_array(self.weight.T, "w"))
        self.assertIn("the module expects f32[3,5], the file has f32[5,3]", self.fail_with(1, *self.run_with(model)).stderr)

    def test_a_file_is_laid_over_another(self):
        base, over, other = self.folder / "base.npz", self.folder / "over.npz", self.folder / "other.npz"
        np.savez(base, w=np.zeros((3, 5), F32))
        np.savez(over, w=self.weight, more=np.ones(3))
        np.savez(other, ww=self.weight)
        self.succeed(*self.run_with(base), "--params-over", over)
        self.assertTrue(np.array_equal(np.load(self.out), self.weight + F32(0.5)))
        error = self.fail_with(1, *self.run_with(base), "--params-over", other).stderr
        self.assertIn("uses none of its tensors", error)
        self.assertIn("the file's first tensor is 'ww', did you mean 'w'?", error)
        self.assertIn("both", self.fail_with(1, *self.run_with(base), "--params", over).stderr)
        self.assertIn("uses none", self.fail_with(1, *self.run_with(base), "--params-over", f"scope={over}").stderr)
        same = self.fail_with((1, 2), "run", self.module, "--input", "x=f32[3,5]=0.5", "--params", base, "--params-over", over, "--output", f"@{over}")
        self.assertIn("would overwrite", same.stderr)

    def test_hashes_are_checked_on_request(self):
        """The hash is that of the bytes that were compiled, in any file that has them; files that are laid over others are not checked."""
        good = self.folder / "zero.safetensors"
        check = ("--module", self.module, "--hashes")
        np.save(self.folder / "w.npy", np.zeros((3, 5), F32))
        write_irpa(self.folder / "w.irpa", [("w", (b"\0\0", 60))])
        for file in (good, self.folder / "w.npy", self.folder / "w.irpa"):
            self.succeed(*self.run_with(file), "--check-hashes")
            self.assertIn("1 needed by the module; no error", self.succeed("params", "verify", file, *check).stdout)
        damaged = bytearray(good.read_bytes())
        damaged[-7] ^= 1
        bad = self.folder / "bad.safetensors"
        bad.write_bytes(damaged)
        self.succeed(*self.run_with(bad))
        self.succeed("params", "verify", bad, "--module", self.module)
        self.out.unlink()
        error = self.fail_with(1, *self.run_with(bad), "--check-hashes").stderr
        self.assertFalse(self.out.exists())
        result = heddle("params", "verify", bad, *check, "--format", "json")
        self.assertEqual(result.code, 1, str(result))
        problem, = json.loads(result.stdout)["problems"]
        self.assertEqual((problem["name"], problem["problem"]), ("w", "hash"))
        self.assertNotEqual(problem["hash"], problem["expected"])
        self.assertIn(f"checking parameter 'w' of {bad} failed: its 60 bytes have hash {problem['hash']}, and {self.module} was compiled with "
                      f"{problem['expected']}", error)
        self.succeed(*self.run_with(good), "--params-over", bad, "--check-hashes")
        left = self.folder / "left.heddle"
        self.succeed("compile", self.folder / "add.onnx", "-o", left, "--params-in", good)
        call = ("run", left, *self.run_with(good)[2:])
        self.succeed(*call)
        self.assertIn("the module has no hash of it: compile with --params-in-hashes", self.fail_with(1, *call, "--check-hashes").stderr)
        self.assertIn("--params-in-hashes is for --params-in", self.fail_with(2, "compile", self.folder / "add.onnx", "-o", left, "--params-in-hashes").stderr)
        for name, file in (("w", good), ("w", self.folder / "w.npy"), ("s", self.folder / "w.irpa")):
            scope = "s=" if name == "s" else ""
            self.succeed("compile", self.folder / "add.onnx", "-o", left, "--params-in", f"{scope}{file}", "--params-in-hashes")
            for same in (good, self.folder / "w.npy", self.folder / "w.irpa"):
                self.succeed(*call[:-3], f"{scope}{same}", *call[-2:], "--check-hashes")
                self.assertIn("no error", self.succeed("params", "verify", same, "--module", left, "--hashes").stdout)
            self.succeed(*call[:-3], f"{scope}{bad}", *call[-2:])
            self.assertIn("its 60 bytes have hash", self.fail_with(1, *call[:-3], f"{scope}{bad}", *call[-2:], "--check-hashes").stderr)
            self.assertEqual(heddle("params", "verify", bad, "--module", left, "--hashes").code, 1)
        self.assertIn("--hashes needs --module", self.fail_with(2, "params", "verify", good, "--hashes").stderr)

    def test_a_module_is_checked_alone(self):
        module = self.folder / "inside.heddle"
        values = np.arange(18_000, dtype=F32).reshape(3, 6000)  # smaller ones are no parameters
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 6000])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 6000])], [numpy_helper.from_array(values, "w")])
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "inside.onnx")
        self.succeed("compile", self.folder / "inside.onnx", "-o", module)
        self.assertIn("module, 1 parameters, 70.3 KiB; no error", self.succeed("params", "verify", module).stdout)
        self.assertIn("module, 0 parameters, 0 B, and 1 in other files", self.succeed("params", "verify", self.module).stdout)
        call = ("run", module, "--input", "x=f32[3,6000]=0.5", "--check-hashes")
        self.succeed(*call)
        content = module.read_bytes()
        at = content.index(values.tobytes())
        module.write_bytes(content[:at + 40] + b"!" + content[at + 41:])
        result = heddle("params", "verify", module)
        self.assertEqual(result.code, 1, str(result))
        self.assertRegex(result.stdout, "w +hash +its 72000 bytes have hash [0-9a-f]{16}, and the module was compiled with [0-9a-f]{16}")
        self.succeed(*call[:-1])
        self.assertRegex(self.fail_with(1, *call).stderr, "its 72000 bytes have hash [0-9a-f]{16}, and .*inside.heddle was compiled with [0-9a-f]{16}")
        module.write_bytes(content[:at + 100])
        self.assertIn("the file has", self.fail_with(1, "params", "verify", module).stderr)
        self.assertIn("it takes no --nan, --module and --hashes", self.fail_with(2, "params", "verify", module, "--nan").stderr)

    def test_patterns_fill_a_parameter(self):
        write_irpa(self.folder / "a.irpa", [("w", (F32(2.5).tobytes(), 60))])
        self.weight = np.full((3, 5), 2.5, F32)
        self.assert_runs(self.folder / "a.irpa")
        self.succeed("params", "extract", self.folder / "a.irpa", "w", "-o", self.folder / "w.bin")
        self.assertEqual((self.folder / "w.bin").read_bytes(), self.weight.tobytes())
        write_irpa(self.folder / "a.irpa", [("w", (F32(2.5).tobytes(), 64))])
        self.assertIn("the module expects f32[3,5], the file has", self.fail_with(1, *self.run_with(self.folder / "a.irpa")).stderr)

    def test_irpa_keeps_types_and_shapes(self):
        arrays = {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "b": self.weight, "scalar": np.float64(1.5), "none": np.zeros((0, 4), F32)}
        np.savez(self.folder / "a.npz", **arrays)
        self.succeed("params", "convert", self.folder / "a.npz", "-o", self.folder / "a.irpa")
        self.assertIn("no difference", self.succeed("params", "diff", self.folder / "a.npz", self.folder / "a.irpa").stdout)
        self.succeed("params", "convert", self.folder / "a.irpa", "-o", self.folder / "b.npz")
        with np.load(self.folder / "b.npz") as loaded:
            for name, array in arrays.items():
                self.assertEqual((loaded[name].dtype, loaded[name].shape), (array.dtype, array.shape), name)
                self.assertTrue(np.array_equal(loaded[name], array), name)

    def test_irpa_keeps_types_that_only_safetensors_has(self):
        bits = {"C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
        entries, data = {}, b""
        for name, size in bits.items():
            content = os.urandom(2 * 12 * size // 8)
            entries[name] = {"dtype": name, "shape": [2, 12], "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(entries).encode()
        first, second, third = (self.folder / name for name in ("a.safetensors", "b.irpa", "c.safetensors"))
        first.write_bytes(struct.pack("<Q", len(text)) + text + data)
        self.succeed("params", "convert", first, "-o", second)
        listed = json.loads(self.succeed("params", "ls", second, "--format", "json").stdout)
        self.assertEqual({(row["name"], row["type"], tuple(row["shape"])) for row in listed["tensors"]}, {(name, name, (2, 12)) for name in bits})
        self.succeed("params", "convert", second, "-o", third)
        for name in bits:
            for file in (first, third):
                self.succeed("params", "extract", file, name, "-o", self.folder / f"{file.stem}.bin")
            self.assertEqual((self.folder / "c.bin").read_bytes(), (self.folder / "a.bin").read_bytes(), name)
        self.assertIn("tensor 'C64': this version does not write complex numbers (C64) as .npy; write .safetensors",
                      self.fail_with(1, "params", "convert", first, "-o", self.folder / "d.npz", "--only", "C64").stderr)
        self.assertIn("NumPy has no type for F4; write a .bin file", self.fail_with(1, "params", "extract", first, "F4", "-o", self.folder / "d.npy").stderr)

    def test_other_files_are_recognized_by_both_programs(self):
        cases = {
            "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(100), "a pickle, such as an older .pt file": b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01K\x01u.",
            "perhaps a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "a text, or a page that a download returned": b"<!DOCTYPE html>\n<html><body>404</body></html>\n",
        }
        for text, content in cases.items():
            file = self.folder / "model.safetensors"
            file.write_bytes(content)
            for arguments in (("params", "ls", file), self.run_with(file)):
                error = self.fail_with(1, *arguments).stderr
                self.assertIn(text, error)
                self.assertEqual(len(error.splitlines()), 1, error)

    def test_a_size_that_looks_like_another_file(self):
        """The first bytes are those of a pickle, and of an ONNX model."""
        for size in (0x280, 0x120408):
            text = json.dumps({"w": {"dtype": "F32", "shape": [3, 5], "data_offsets": [0, 60]}}).encode().ljust(size)
            (self.folder / "w.safetensors").write_bytes(struct.pack("<Q", size) + text + self.weight.tobytes())
            self.assert_runs(self.folder / "w.safetensors")

    def test_names_in_files_do_not_break_lines(self):
        text = "de\x1b[31mscr\nheddle run: ok"
        header = ("{'" + text + "': '<f4', 'fortran_order': False, 'shape': (2,), }\n").encode()
        (self.folder / "w.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(8))
        entry = json.dumps({text: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (self.folder / "w.safetensors").write_bytes(struct.pack("<Q", len(entry)) + entry + bytes(4))
        for arguments in (("params", "ls", self.folder / "w.npy"), self.run_with(self.folder / "w.npy"), self.run_with(self.folder / "w.safetensors"),
                          ("params", "extract", self.folder / "w.safetensors", text, "-o", self.folder / "none" / "w.npy")):
            error = self.fail_with(1, *arguments).stderr
            self.assertEqual(len(error.splitlines()), 1, error)
            self.assertNotIn("\x1b", error)

    def test_a_shard_that_lacks_a_tensor_is_an_error_although_nothing_uses_it(self):
        np.savez(self.folder / "a.npz", w=self.weight)
        self.succeed("params", "convert", self.folder / "a.npz", "-o", self.folder / "s.safetensors")
        index = self.folder / "model.safetensors.index.json"
        for tensors, code in ((["w"], 0), (["w", "zz"], 1)):
            index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors, "s.safetensors")}))
            for arguments in (("params", "ls", index), self.run_with(index)):
                error = (self.fail_with(1, *arguments) if code else self.succeed(*arguments)).stderr
                self.assertTrue("has tensor 'zz'" in error or "says that tensor 'zz' is in" in error if code else not error, error)

    def test_broken_irpa_is_refused(self):
        file = self.folder / "a.irpa"

        def assert_fails(text, change=None, entries=(("w", b"x" * 60),), **options):
            write_irpa(file, list(entries), **options)
            content = bytearray(file.read_bytes())
            if change:
                content[change[0]:change[0] + len(change[1])] = change[1]
            file.write_bytes(content)
            self.assertIn(text, self.fail_with(1, "params", "ls", file).stderr)

        huge = struct.pack("<Q", 2**64 - 1)
        assert_fails("states 18446744073709551615 entries", count=2**64 - 1)
        assert_fails("refers to one beyond the file", next_header=2**64 - 16)  # would be a cycle if it wrapped
        assert_fails("does not begin with IRPA", next_header=96)
        assert_fails("is not at a multiple of 16", next_header=97)
        assert_fails("it is an IRPA file of version 1.0, and only version 0.0 is supported", (4, b"\1\0"))
        assert_fails("it is an IRPA file of version 0.1, and only version 0.0 is supported", (6, b"\1\0"))
        for size in (0, 87, 89, 2**64 - 1):
            assert_fails(f"the header at byte 0 has {size} bytes, and version 0 has 88", (8, struct.pack("<Q", size)))
        for at, what in ((40, "the table of entries"), (56, "the metadata"), (72, "the data")):
            assert_fails(f"{what} of the header at byte 0 begins in it, at its byte 0", (at, struct.pack("<Q", 0)))
        assert_fails("the name is a duplicate", entries=[("w", b"x"), ("w", b"y")])
        assert_fails("are left of the table", (96, huge))
        assert_fails("of the metadata are beyond its 1", (96 + 20, huge))
        assert_fails("are beyond the segment of data", (96 + 60, huge))
        assert_fails("are beyond the segment of data", (96 + 68, huge))
        assert_fails("its pattern has 3 bytes, expected 1, 2, 4, 8 or 16", entries=[("w", (b"abc", 6))])
        assert_fails("are no multiple of its pattern's 4", entries=[("w", (b"abcd", 6))])
        assert_fails("its data is in another file", (96 + 8, b"\3"))
        assert_fails("its type 4 is not known", (96 + 8, b"\4"))
        for at in (48, 64, 80):  # the sizes of the segments
            assert_fails("which are not all in the file", (at, huge))

    def test_arrays_that_do_not_match_are_refused(self):
        np.save(self.folder / "v.npy", self.weight)
        self.assertIn("no tensor of", self.fail_with(1, *self.run_with(self.folder / "v.npy")).stderr)
        np.savez(self.folder / "a.npz", w=self.weight.astype(np.float64))
        self.assertIn("the module expects f32[3,5], the file has f64[3,5]", self.fail_with(1, *self.run_with(self.folder / "a.npz")).stderr)
        np.savez_compressed(self.folder / "a.npz", w=self.weight)
        self.assertIn("only stored members can be read; save them with numpy.savez", self.fail_with(1, *self.run_with(self.folder / "a.npz")).stderr)
        np.savez(self.folder / "a.npz", w=np.asfortranarray(self.weight))
        self.assertIn("Fortran order", self.fail_with(1, *self.run_with(self.folder / "a.npz")).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
