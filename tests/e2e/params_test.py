# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle params on real files: what NumPy and the safetensors package write and read, files far larger than memory may be, shards that
`heddle run` takes, and work that is cut off."""
import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import unittest
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import TEST_ALL, HeddleTestCase, environment, heddle, heddle_path

MIB = 1 << 20
MOST_MEMORY_MIB = 64
TYPES = {"F32": np.float32, "F16": np.float16, "F64": np.float64, "I64": np.int64, "I8": np.int8, "U8": np.uint8, "U32": np.uint32, "BOOL": np.bool_}


def header_of(tensors):
    """The header of a safetensors file of (name, dtype, shape, bytes) tensors."""
    entries, end = {}, 0
    for name, dtype, shape, size in tensors:
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write_safetensors(path, arrays):
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    path.write_bytes(header_of([(name, names[array.dtype], array.shape, array.nbytes) for name, array in arrays.items()])
                     + b"".join(array.tobytes() for array in arrays.values()))


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    arrays = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            kind = np.uint16 if entry["dtype"] == "BF16" else TYPES[entry["dtype"]]
            arrays[name] = np.frombuffer(data[8 + size + first:8 + size + end], kind).reshape(entry["shape"])
    return arrays


def write_sparse(path, count, each):
    """Zeros that take no room: `count` tensors of `each` bytes."""
    head = header_of([(f"w{i}", "F32", [each // 4], each) for i in range(count)])
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + count * each)


class ParamsCase(HeddleTestCase):
    def arrays(self):
        random = np.random.default_rng(3)
        return {
            "layers.0.weight": random.standard_normal((33, 7)).astype(np.float32), "layers.0.bias": random.standard_normal(7),
            "half": random.standard_normal((2, 3, 4)).astype(np.float16), "indices": np.arange(-3, 40), "mask": np.array([True, False, True]),
            "scalar": np.float32(2.5).reshape(()), "none": np.zeros((0, 5), np.int8), "odd/ nämé[0]": np.ones(3, np.int8),
        }

    def assert_same(self, got, expected):
        self.assertEqual(sorted(got), sorted(expected))
        for name, array in expected.items():
            self.assertEqual((got[name].dtype, got[name].shape), (array.dtype, array.shape), name)
            self.assertTrue(np.array_equal(got[name], array), name)

    def measured(self, *arguments):
        """(exit code, seconds, MiB that the process had at most)."""
        # The peak of a process begins with that of the one that started it, so a small one does.
        start = ("import os, sys, time; begin = time.monotonic(); child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, "
                 "file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)]); _, status, usage = os.wait4(child, 0); "
                 "print(os.waitstatus_to_exitcode(status), time.monotonic() - begin, usage.ru_maxrss / 1024)")
        printed = subprocess.check_output([sys.executable, "-S", "-E", "-c", start, str(heddle_path()), "params", *map(str, arguments)], env=environment())
        code, seconds, memory = printed.split()
        return int(code), float(seconds), float(memory)

    def assert_bounded(self, most_seconds, *arguments):
        code, seconds, memory = self.measured(*arguments)
        self.assertEqual(code, 0, arguments)
        if not os.environ.get("HEDDLE_SANITIZE"):
            self.assertLess(memory, MOST_MEMORY_MIB, arguments)
            self.assertLess(seconds, most_seconds, arguments)


class Formats(ParamsCase):
    def test_every_format_becomes_every_other(self):
        arrays = self.arrays()
        first, second, third = (self.folder / name for name in ("a.npz", "b.safetensors", "c.npz"))
        np.savez(first, **arrays)
        self.succeed("params", "convert", first, "-o", second)
        self.assert_same(read_safetensors(second), arrays)
        self.succeed("params", "convert", second, "-o", third)
        with np.load(third) as loaded:
            self.assert_same(loaded, arrays)
        self.succeed("params", "diff", first, third)
        for name, array in arrays.items():
            one = self.folder / "one.npy"
            self.succeed("params", "extract", second, name, "-o", one)
            self.assert_same({name: np.load(one)}, {name: array})
            self.succeed("params", "extract", first, name, "-o", self.folder / "one.bin")
            self.assertEqual((self.folder / "one.bin").read_bytes(), array.tobytes())
        self.succeed("params", "convert", one, "-o", second)
        self.assert_same(read_safetensors(second), {"one": array})

    def onnx_model(self, *more):
        """Initializers in every way in which ONNX stores them."""
        random = np.random.default_rng(7)
        self.values = {"raw": random.standard_normal((3, 4)).astype(np.float32), "floats": np.array([1, 2, 3.5], np.float32),
                       "doubles": np.array([1, 2.5]), "longs": np.array([-1, 2, 3, 2**40]), "halves": np.array([[1], [-2]], np.float16),
                       "bytes": np.array([-1, 0, 5], np.int8), "naturals": np.array([2**32 - 1, 4], np.uint32), "mask": np.array([True, False]),
                       "scalar": np.float32(7).reshape(()), "none": np.zeros((0, 3), np.float32), "large": random.standard_normal((200, 100))}
        kinds = {"floats": TensorProto.FLOAT, "doubles": TensorProto.DOUBLE, "longs": TensorProto.INT64, "halves": TensorProto.FLOAT16,
                 "bytes": TensorProto.INT8, "naturals": TensorProto.UINT32, "mask": TensorProto.BOOL}
        tensors = [helper.make_tensor(name, kinds[name], array.shape, array.flatten().tolist()) if name in kinds else numpy_helper.from_array(array, name)
                   for name, array in self.values.items()]
        graph = helper.make_graph([helper.make_node("Identity", ["raw"], ["y"])], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
                                  [*tensors, *more])
        return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])

    def test_initializers_of_onnx_inside_and_outside_of_the_model(self):
        inside, outside = self.folder / "a.onnx", self.folder / "b.onnx"
        onnx.save(self.onnx_model(), inside)
        onnx.save(self.onnx_model(), outside, save_as_external_data=True, location="b.data", size_threshold=0)
        for model in (inside, outside):
            for ending in (".safetensors", ".npz"):
                self.succeed("params", "convert", model, "-o", model.with_suffix(ending))
            self.assert_same(read_safetensors(model.with_suffix(".safetensors")), self.values)
            self.succeed("params", "diff", model, model.with_suffix(".npz"))
            self.assertIn("ONNX, 11 tensors", self.succeed("params", "verify", model, "--nan").stdout)
            self.assertEqual(self.succeed("params", "dump", model, "longs", "mask").stdout, "longs=i64[4]=-1,2,3,1099511627776\nmask=bool[2]=true,false\n")
            self.succeed("params", "extract", model, "large", "-o", self.folder / "large.npy")
            self.assertTrue(np.array_equal(np.load(self.folder / "large.npy"), self.values["large"]))
        listed = json.loads(self.succeed("params", "ls", outside, "--format", "json").stdout)
        self.assertEqual((listed["format"], listed["total"]["tensors"]), ("ONNX", 11))
        self.assertIn(str(self.folder / "b.data"), {row["file"] for row in listed["tensors"]})
        self.succeed("params", "diff", inside, outside)

    def test_initializers_of_onnx_that_are_not_read(self):
        model = self.folder / "a.onnx"
        onnx.save(self.onnx_model(helper.make_tensor("words", TensorProto.STRING, [1], [b"a"])), model)
        done = self.succeed("params", "ls", model)
        self.assertIn("1 initializers have types that are not read and are left out; the first is tensor 'words'", done.stderr)
        self.assertIn("11 tensors", done.stdout)

    def test_integers_of_4_bits(self):
        """ONNX and IRPA have two per byte; in other formats each has a byte."""
        values = {"signed": np.arange(-8, 7, dtype=np.int8).reshape(3, 5), "unsigned": np.arange(16, dtype=np.uint8), "none": np.zeros((0, 3), np.int8),
                  "many": np.random.default_rng(5).integers(-8, 8, 600_001, np.int8), "w": np.arange(3, dtype=np.float32)}
        tensors = [numpy_helper.from_array(values["w"], "w")]
        for name, kind in (("signed", TensorProto.INT4), ("unsigned", TensorProto.UINT4), ("none", TensorProto.INT4), ("many", TensorProto.INT4)):
            bits = (values[name].flatten() & 15).astype(np.uint8)
            bits = np.append(bits, np.zeros(len(bits) % 2, np.uint8))
            packed = (bits[::2] | bits[1::2] << 4).tobytes()
            tensors.append(TensorProto(name=name, data_type=kind, dims=values[name].shape, raw_data=packed) if name != "signed" else
                           TensorProto(name=name, data_type=kind, dims=values[name].shape, int32_data=packed))
        model, irpa, again = self.folder / "a.onnx", self.folder / "a.irpa", self.folder / "b.irpa"
        onnx.save(helper.make_model(helper.make_graph([], "g", [], [], tensors)), model)
        self.assertEqual(self.succeed("params", "convert", model, "-o", irpa).stderr, "")
        self.succeed("params", "convert", irpa, "-o", again)
        for file in (irpa, again):
            self.succeed("params", "diff", model, file)
        for file in (model, irpa):
            listed = {row["name"]: row for row in json.loads(self.succeed("params", "ls", file, "--format", "json").stdout)["tensors"]}
            self.assertEqual([(listed[name]["type"], listed[name]["bytes"]) for name in ("signed", "unsigned")], [("i4", 8), ("u4", 8)])
            self.assertEqual(self.succeed("params", "dump", file, "signed").stdout, "signed=i8[3,5]=" + ",".join(map(str, range(-8, 7))) + "\n")
            self.succeed("params", "verify", file, "--nan")
            for ending in (".safetensors", ".npz"):
                warned = self.succeed("params", "convert", file, "-o", self.folder / f"c{ending}").stderr
                self.assertIn(f"warning: 4 tensors of 4-bit integers are written as i8 or u8, one value per byte, since {ending} files have no type", warned)
                self.succeed("params", "diff", "--any-type", file, self.folder / f"c{ending}")
            self.assert_same(read_safetensors(self.folder / "c.safetensors"), values)
            with np.load(self.folder / "c.npz") as loaded:
                self.assert_same(loaded, values)
            self.succeed("params", "extract", file, "many", "-o", self.folder / "many.npy")
            self.assertTrue(np.array_equal(np.load(self.folder / "many.npy"), values["many"]))
            self.succeed("params", "extract", file, "unsigned", "-o", self.folder / "u.bin")
            self.assertEqual((self.folder / "u.bin").read_bytes(), bytes(range(0x10, 0x100, 0x22)))

    def test_hostile_onnx_is_refused_with_one_line(self):
        model = self.folder / "a.onnx"
        secret = self.folder / "secret.bin"
        secret.write_bytes(bytes(64))
        (self.folder / "models").mkdir()
        (self.folder / "link.bin").symlink_to(secret)
        whole = self.onnx_model()

        def assert_fails(text, tensor, where=model):
            where.write_bytes(self.onnx_model(tensor).SerializeToString())
            error = self.fail_with(1, "params", "ls", where).stderr
            self.assertIn(text, error)
            self.assertEqual(len(error.splitlines()), 1, error)

        def external(**entries):
            tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=str(value))
            return tensor

        assert_fails("its location is outside the model's directory", external(location="../secret.bin"), self.folder / "models" / "a.onnx")
        assert_fails("its location is outside the model's directory", external(location=secret))
        assert_fails("its location is or goes through a link", external(location="link.bin"))
        assert_fails("No such file or directory", external(location="gone.bin"))
        assert_fails("its external data has no location", external(offset=0))
        assert_fails("external offset 'x' is not a number", external(location="secret.bin", offset="x"))
        assert_fails("would end at byte 68, and the file has 64", external(location="secret.bin", offset=52))
        assert_fails("its external data ends beyond any file", external(location="secret.bin", length=2**63))
        assert_fails("would end at byte 1099511627776", external(location="secret.bin", length=2**40))
        assert_fails("has 15 bytes, and its shape needs 16", external(location="secret.bin", length=15))
        assert_fails("its external data ends beyond any file", external(location="secret.bin", offset=2**64 - 8))
        assert_fails("it has 4 bytes, and its shape needs 8", TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], raw_data=bytes(4)))
        assert_fails("it has 8 bytes, and its shape needs 16", TensorProto(name="w", data_type=TensorProto.INT64, dims=[2], int64_data=[1]))
        assert_fails("its size is above 2^63-1", TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40]))
        assert_fails("a negative extent", TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1]))
        assert_fails("tensor 'raw': the name is a duplicate", TensorProto(name="raw", data_type=TensorProto.FLOAT, dims=[0]))
        assert_fails("has no name", TensorProto(data_type=TensorProto.FLOAT, dims=[0]))
        assert_fails("tensor 'a?b c': it has 0 bytes", TensorProto(name="a\x1bb\nc", data_type=TensorProto.FLOAT, dims=[1]))
        content = whole.SerializeToString()
        end = content.index(b"large")  # after it are 160,000 bytes of one tensor
        for size in (*range(8, end, 7), len(content) - 1):
            model.write_bytes(content[:size])
            error = self.fail_with(1, "params", "ls", model).stderr
            self.assertEqual(len(error.splitlines()), 1, (size, error))

    def test_types_in_a_row_are_each_aligned(self):
        arrays = {"a": np.ones(3, np.int8), "b": np.ones(5, np.float16), "c": np.ones(3, np.float64), "d": np.ones(1, np.float32)}
        np.savez(self.folder / "a.npz", **arrays)
        self.succeed("params", "convert", self.folder / "a.npz", "-o", self.folder / "b.safetensors")
        listed = json.loads(self.succeed("params", "ls", self.folder / "b.safetensors", "--format", "json").stdout)
        for row in listed["tensors"]:
            self.assertEqual(row["offset"] % arrays[row["name"]].itemsize, 0, row)

    def test_casts_are_numpys(self):
        random = np.random.default_rng(4)
        values = np.concatenate([random.standard_normal(50_000), random.standard_normal(1000) * 1e-7, [0.0, -0.0, 65519.9, 70000, np.inf, np.nan]])
        for kind in (np.float32, np.float64):
            arrays = {"v": values.astype(kind), "keep": np.arange(4)}
            np.savez(self.folder / "v.npz", **arrays)
            result = self.succeed("params", "convert", self.folder / "v.npz", "-o", self.folder / "h.safetensors", "--type", "f16")
            with np.errstate(over="ignore"):
                expected = arrays["v"].astype(np.float16)
            got = read_safetensors(self.folder / "h.safetensors")
            self.assertTrue(np.array_equal(got["v"].view(np.uint16)[:-1], expected.view(np.uint16)[:-1]))
            self.assertTrue(np.isnan(got["v"][-1]))
            self.assertEqual(got["keep"].dtype, np.int64)
            self.assertIn("warning: 1 numbers of tensor 'v' are too large for f16 and became infinite", result.stderr)
            self.succeed("params", "convert", self.folder / "v.npz", "-o", self.folder / "b.safetensors", "--type", "bf16")
            bits = arrays["v"].astype(np.float32).view(np.uint32)[:-1].astype(np.uint64)
            if kind is np.float32:
                rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
                self.assertTrue(np.array_equal(read_safetensors(self.folder / "b.safetensors")["v"][:-1], rounded))

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "SKIP: the Python package safetensors is not installed")
    def test_what_the_safetensors_package_writes_and_reads(self):
        from safetensors import safe_open
        from safetensors.numpy import load_file, save_file
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays().items()}
        theirs, ours = self.folder / "theirs.safetensors", self.folder / "ours.safetensors"
        save_file(arrays, theirs, metadata={"format": "pt"})
        self.succeed("params", "verify", theirs, "--nan")
        self.succeed("params", "convert", theirs, "-o", ours)
        self.assert_same(load_file(ours), arrays)
        with safe_open(ours, "numpy") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    def test_compressed_and_fortran_arrays_are_refused_by_name(self):
        np.savez_compressed(self.folder / "c.npz", weight=np.zeros(9))
        self.assertIn("member 'weight.npy': it is deflated", self.fail_with(1, "params", "ls", self.folder / "c.npz").stderr)
        np.savez(self.folder / "f.npz", weight=np.asfortranarray(np.zeros((2, 3))))
        self.assertIn("member 'weight.npy': header: the data is in Fortran order", self.fail_with(1, "params", "ls", self.folder / "f.npz").stderr)

    def test_damage_of_a_stored_member_shows_when_it_is_read(self):
        path = self.folder / "a.npz"
        np.savez(path, weight=np.full(64, 7, np.int8))
        data = bytearray(path.read_bytes())
        data[data.index(b"\7" * 64) + 5] = 8
        path.write_bytes(data)
        self.succeed("params", "verify", path)
        result = heddle("params", "verify", path, "--nan")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn("the CRC does not match", result.stdout)


class HostileFiles(ParamsCase):
    def write(self, header, data=b""):
        path = self.folder / "hostile.safetensors"
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        return path

    def entry(self, begin, end, shape=None, dtype="U8"):
        return {"dtype": dtype, "shape": shape or [end - begin], "data_offsets": [begin, end]}

    def test_json_has_names_whole_and_nothing_that_a_terminal_obeys(self):
        name = "a\x1b[31m\x7f\u009b31m\u202ez\n\u00e9\U0001f600"
        path = self.write({name: self.entry(0, 1)}, b"\7")
        for arguments, rows in ((("ls", path), "tensors"), (("dump", path, "*"), "results")):
            result = self.succeed("params", *arguments, "--format", "json")
            self.assertEqual(json.loads(result.stdout)[rows][0]["name"], name)
            for obeyed in "\x1b\x7f\u009b\u202e":
                self.assertNotIn(obeyed, result.stdout)
            self.assertIn("\u00e9\U0001f600", result.stdout)

    def test_what_numpy_could_not_read_again_is_not_written(self):
        path = self.write({"a": self.entry(0, 1, [1] * 17), "b\0c": self.entry(1, 2), "d": self.entry(2, 3)}, b"abc")
        for output, arguments in (("o.npz", ["--only", "a"]), ("o.npy", ["--only", "a"]), ("o.npz", ["--only", "b*"]),
                                  ("o.npz", ["--only", "d", "--rename", "d=\udcff"])):
            result = self.fail_with(1, "params", "convert", path, "-o", self.folder / output, *arguments)
            self.assertRegex(result.stderr, "tensor 'a' has 17 dimensions, .* at most 16; write .safetensors|its name is not valid UTF-8 or contains a NUL")
        self.assertIn("17 dimensions", self.fail_with(1, "params", "extract", path, "a", "-o", self.folder / "o.npy").stderr)
        self.assertEqual([one.name for one in self.folder.iterdir()], [path.name])
        self.succeed("params", "extract", path, "a", "-o", self.folder / "o.bin")

    def test_metadata_takes_time_by_its_size(self):
        path = self.folder / "hostile.safetensors"
        text = '{"__metadata__":{' + ",".join(f'"{i}":""' for i in range(200_000)) + "}}"
        path.write_bytes(struct.pack("<Q", len(text)) + text.encode())
        start = time.monotonic()
        self.succeed("params", "ls", path)
        self.assertLess(time.monotonic() - start, 20)


class Streams(ParamsCase):
    """Names of descriptors, as /dev/stdout is one: a file of that name would take the link's place."""

    def setUp(self):
        super().setUp()
        self.path, self.link = self.folder / "a.npz", self.folder / "out.bin"
        np.savez(self.path, weight=np.arange(4, dtype=np.int8))
        self.link.symlink_to("/proc/self/fd/1")

    def test_bytes_go_where_the_name_leads(self):
        out = self.folder / "redirected"
        for mode, expected in (("wb", b"\0\1\2\3"), ("ab", b"\0\1\2\3" * 2)):
            with open(out, mode) as file:
                subprocess.run([str(heddle_path()), "params", "extract", str(self.path), "weight", "-o", str(self.link)], stdout=file, env=environment(),
                               check=True)
            self.assertEqual(out.read_bytes(), expected)
            self.assertEqual(os.readlink(self.link), "/proc/self/fd/1")

    def test_a_whole_file_does_not_take_such_a_name(self):
        for name in ("out.npz", "out.safetensors"):
            link = self.folder / name
            link.symlink_to(self.link)
            self.assertIn("not a regular file has this name", self.fail_with(1, "params", "convert", self.path, "-o", link).stderr)
            self.assertTrue(link.is_symlink())


class LargeFiles(ParamsCase):
    def test_20_gib_are_listed_and_checked_at_once_in_little_memory(self):
        path = self.folder / "big.safetensors"
        write_sparse(path, 20, 1024 * MIB)
        self.assert_bounded(5, "ls", path)
        self.assert_bounded(5, "verify", path)
        self.assert_bounded(5, "dump", path, "w19", "--values", "10")

    def test_reading_and_writing_take_little_memory(self):
        path, other, third = (self.folder / name for name in ("big.safetensors", "big.npz", "half.safetensors"))
        write_sparse(path, 2, 128 * MIB)
        self.assert_bounded(120, "convert", path, "-o", other)
        self.assert_bounded(120, "diff", path, other)
        self.assert_bounded(120, "verify", other, "--nan")
        self.assert_bounded(120, "convert", other, "-o", third, "--type", "bf16")
        self.assert_bounded(120, "extract", other, "w1", "-o", self.folder / "w1.npy")
        with np.load(other) as loaded:
            self.assertEqual(loaded["w1"].shape, (32 * MIB,))

    def test_an_npz_beyond_32_bits_is_read(self):
        """A member of 5 GiB, a hole, and one behind it, by ZIP64's fields."""
        path, large = self.folder / "big.npz", 5 * 1024 * MIB
        head = np.lib.format.magic(1, 0)
        text = ("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % large).ljust(117) + "\n"
        head += struct.pack("<H", len(text)) + text.encode()
        length = len(head) + large
        extra = struct.pack("<HHQQ", 1, 16, length, length)
        local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0x21, 0, 2**32 - 1, 2**32 - 1, 5, len(extra)) + b"a.npy" + extra
        small = np.lib.format.magic(1, 0) + struct.pack("<H", 118) + "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }".ljust(117).encode() + b"\nhi"
        offset, crc = len(local) + length, zlib.crc32(small)
        central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0x21, 0, 2**32 - 1, 2**32 - 1, 5, 20, 0, 0, 0, 0, 0) + b"a.npy" + extra
        second = struct.pack("<HHQ", 1, 8, offset)
        central += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0x21, crc, len(small), len(small), 5, 12, 0, 0, 0, 0,
                               2**32 - 1) + b"b.npy" + second
        begin = offset + 30 + 5 + len(small)
        with open(path, "wb") as file:
            file.write(local + head)
            file.seek(offset)
            file.write(struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0x21, crc, len(small), len(small), 5, 0) + b"b.npy" + small)
            file.write(central)
            end = file.tell()
            file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 2, 2, end - begin, begin))
            file.write(struct.pack("<IIQI", 0x07064B50, 0, end, 1))
            file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 2, 2, end - begin, 2**32 - 1, 0))
        # NumPy agrees that this is a file of its own.
        with np.load(path) as loaded:
            self.assertEqual(loaded["b"].tobytes(), b"hi")
        self.assert_bounded(5, "verify", path)
        self.assertIn("b=u8[2]=104,105", self.succeed("params", "dump", path, "b").stdout)
        self.assertIn("a=u8[5368709120]=0,0,...", self.succeed("params", "dump", path, "a", "--values", "2").stdout)

    @unittest.skipUnless(TEST_ALL, "SKIP: writes 5 GiB; HEDDLE_TEST_ALL=1 asks for it")
    def test_an_npz_beyond_32_bits_is_written(self):
        path, other = self.folder / "big.safetensors", self.folder / "big.npz"
        write_sparse(path, 2, 4608 * MIB)
        self.assert_bounded(600, "convert", path, "-o", other, "--only", "w0")
        self.succeed("params", "verify", other, "--nan")
        with np.load(other) as loaded:
            self.assertEqual(loaded["w0"].shape, (1152 * MIB,))


class CutOff(ParamsCase):
    def setUp(self):
        super().setUp()
        self.path, self.out = self.folder / "big.safetensors", self.folder / "out.npz"
        write_sparse(self.path, 128, 16 * MIB)
        os.utime(self.path, (10**9, 10**9))

    def start(self):
        child = subprocess.Popen([str(heddle_path()), "params", "convert", str(self.path), "-o", str(self.out)], stderr=subprocess.PIPE, text=True,
                                 env=environment())
        # Until something was read.
        while child.poll() is None:
            found = pathlib.Path(f"/proc/{child.pid}/io").read_text().split()[1]
            if int(found) > 32 * MIB:
                break
        self.assertIsNone(child.poll(), "it was over too soon")
        return child

    def test_a_conversion_that_is_killed_leaves_nothing(self):
        self.out.write_text("before")
        child = self.start()
        child.kill()
        child.communicate()
        self.assertEqual(self.out.read_text(), "before")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["big.safetensors", "out.npz"])

    def test_a_file_that_changes_meanwhile_is_an_error_and_nothing_is_written(self):
        child = self.start()
        with open(self.path, "r+b") as file:
            file.seek(-1, 2)
            file.write(b"x")
        _, errors = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 1, errors)
        self.assertIn("big.safetensors': it was modified while it was read", errors)
        self.assertFalse(self.out.exists())

    def test_a_file_that_is_cut_meanwhile_is_named_with_tensor_and_bytes(self):
        child = self.start()
        os.truncate(self.path, 20 * MIB)
        _, errors = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 1, errors)
        self.assertRegex(errors, r"big.safetensors': (tensor 'w\d+', bytes \[\d+, \d+\): the file became shorter|it was modified)")
        self.assertFalse(self.out.exists())


class Modules(ParamsCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(6)
        nodes, last, initializers = [], "x", []
        for i in range(4):
            nodes.append(helper.make_node("Add", [last, f"w{i}"], [f"y{i}"]))
            last = f"y{i}"
            initializers.append(numpy_helper.from_array(random.standard_normal((64, 1024)).astype(np.float32), f"w{i}"))
        types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 1024]) for name in ("x", last)]
        graph = helper.make_graph([*nodes, helper.make_node("ReduceMean", [last], ["y"], axes=[0], keepdims=0)], "sums", types[:1],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1024])], initializers)
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "sums.onnx")
        self.weights = self.folder / "sums.safetensors"
        self.module = self.compile(self.folder / "sums.onnx", "--params-out", self.weights)
        self.call = ["run", self.module, "--input", "x=f32[64,1024]=1", "--params"]

    def test_a_module_finds_its_parameters_or_is_told_which_not(self):
        self.assertRegex(self.succeed("params", "verify", self.weights, "--module", self.module).stdout, r"\d+ needed by the module; no error")
        listed = json.loads(self.succeed("params", "ls", self.weights, "--format", "json").stdout)["tensors"]
        floats = [row["name"] for row in listed if row["type"] == "f32"]
        other = self.folder / "other.safetensors"
        self.succeed("params", "convert", self.weights, "-o", other, "--rename", f"{floats[0]}=elsewhere", "--type", "bf16")
        result = heddle("params", "verify", other, "--module", self.module, "--format", "json")
        self.assertEqual(result.code, 1, str(result))
        problems = {one["name"]: one["problem"] for one in json.loads(result.stdout)["problems"]}
        self.assertEqual(problems, {name: "missing" if name == floats[0] else "type" for name in floats})

    def test_shards_run_as_the_single_file_does(self):
        arrays = read_safetensors(self.weights)
        names = sorted(arrays)
        files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
        for file, own in files.items():
            write_safetensors(self.folder / file, {name: arrays[name] for name in own})
        index = self.folder / "model.safetensors.index.json"
        where = {name: file for file, own in files.items() for name in own}
        index.write_text(json.dumps({"metadata": {"total_size": sum(a.nbytes for a in arrays.values())}, "weight_map": where}, indent=2))
        self.assertEqual(self.succeed("params", "diff", index, self.weights).stderr, "")
        self.succeed("params", "verify", index, "--module", self.module)
        expected = self.succeed(*self.call, self.weights).stdout
        self.assertEqual(self.succeed(*self.call, index).stdout, expected)
        both = [self.folder / file for file in files]
        self.assertEqual(self.succeed(*self.call, both[0], "--params", both[1]).stdout, expected)
        self.assertIn("have it; name one of them", self.fail_with(1, *self.call, both[0], "--params", both[1], "--params", index).stderr)
        # Merged into one, it is the same again.
        self.succeed("params", "convert", index, "-o", self.folder / "merged.safetensors")
        self.assertEqual(self.succeed(*self.call, self.folder / "merged.safetensors").stdout, expected)
        # A total that is wrong is said, and no error; a shard that is no file beside the index is one.
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
        self.assertIn("its total_size is 1, its tensors have", self.succeed("params", "verify", index).stderr)
        index.write_text(json.dumps({"weight_map": {name: "../" + file for name, file in where.items()}}))
        self.assertIn("is not the name of a file in the index's directory", self.fail_with(1, "params", "ls", index).stderr)
        self.assertIn("is not the name of a file in the index's directory", self.fail_with(1, *self.call, index).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
