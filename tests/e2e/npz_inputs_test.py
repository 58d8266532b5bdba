# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--input and --expect with arrays of .npz files: each goes where it belongs, and an archive is never read as raw bytes."""
import os
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper

from heddle_command import HeddleTestCase

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 10, np.float32)


class NpzInputs(HeddleTestCase):
    def setUp(self):
        super().setUp()
        value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("a", "b", "y")]
        graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "g", value[:2], value[2:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "sub.onnx")
        self.module = self.compile(self.folder / "sub.onnx")
        self.data = self.folder / "data.npz"

    def run_with(self, *inputs, command="run"):
        return [command, self.module, *(word for text in inputs for word in ("--input", text))]

    def test_each_array_goes_to_the_argument_of_its_name(self):
        np.savez(self.data, b=B, a=A)  # in another order than the arguments
        expected = ("--expect", "f32[2,3]=-10,-9,-8,-7,-6,-5")
        for inputs in ((f"@{self.data}",), (f"a=@{self.data}:a", f"b=@{self.data}:b"), (f"@{self.data}:a", f"@{self.data}:b"),
                       (f"a=@{self.data}", "b=f32[2,3]=10"), (f"a=f32[2,3]=@{self.data}:a", f"b=@{self.data}")):
            self.succeed(*self.run_with(*inputs), *expected)
        self.succeed(*self.run_with(f"a=@{self.data}:b", f"b=@{self.data}:a"), "--expect", "f32[2,3]=10,9,8,7,6,5")
        for command in ("bench", "profile"):
            self.succeed(*self.run_with(f"@{self.data}", command=command), "--iterations", "1")

    def test_expected_values(self):
        np.savez(self.data, a=A, b=B)
        good, bad = self.folder / "good.npz", self.folder / "bad.npz"
        np.savez(good, y=A - B)
        np.savez(bad, y=A, z=A - B)
        call = self.run_with(f"@{self.data}")
        for text in (f"@{good}", f"y=@{good}", f"@{good}:y", f"y=@{bad}:z"):
            self.succeed(*call, "--expect", text)
        self.fail_with(3, *call, "--expect", f"@{bad}:y")
        self.assertIn("there is no result 'z'", self.fail_with(2, *call, "--expect", f"@{bad}").stderr)

    def test_strings_are_bytes(self):
        value = [helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("a", TensorProto.STRING), ("b", TensorProto.STRING), ("y", TensorProto.BOOL))]
        graph = helper.make_graph([helper.make_node("Equal", ["a", "b"], ["y"])], "g", value[:2], value[2:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), self.folder / "equal.onnx")
        self.module = self.compile(self.folder / "equal.onnx")
        np.savez(self.data, a=np.array(["é".encode(), b"long"]), b=np.array(["é".encode(), b"c"]))
        self.succeed(*self.run_with(f"@{self.data}"), "--expect", "bool[2]=true,false")
        np.savez(self.data, a=np.array(["x", "y"]), b=np.array([b"x", b"y"]))
        self.assertIn("numpy.char.encode", self.fail_with(1, *self.run_with(f"@{self.data}")).stderr)

    def test_complex_numbers_have_two_parts(self):
        for kind, number in ((np.complex64, TensorProto.COMPLEX64), (np.complex128, TensorProto.COMPLEX128)):
            value = [helper.make_tensor_value_info("a", number, ["n", 3]), helper.make_tensor_value_info("y", number, [3, "n"])]
            graph = helper.make_graph([helper.make_node("Transpose", ["a"], ["y"])], "g", value[:1], value[1:])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), self.folder / "turn.onnx")
            self.module = self.compile(self.folder / "turn.onnx")
            x = (np.arange(6) - 2j).reshape(2, 3).astype(kind)
            np.savez(self.data, a=x, y=np.ascontiguousarray(x.T), z=np.ascontiguousarray(x.T - 1))
            self.succeed(*self.run_with(f"@{self.data}:a"), "--expect", f"@{self.data}:y")
            self.fail_with(3, *self.run_with(f"@{self.data}:a"), "--expect", f"y=@{self.data}:z")

    def test_an_array_that_is_missing_names_those_that_are_there(self):
        np.savez(self.data, image=A, mask=B)
        result = self.fail_with(1, *self.run_with(f"a=@{self.data}:imgae", f"b=@{self.data}:mask"))
        self.assertIn(f"--input 'a': '{self.data}': there is no array 'imgae' in it; it has 'image', 'mask'", result.stderr)
        self.assertIn("there is no array 'a' in it", self.fail_with(1, *self.run_with(f"a=@{self.data}", "b=f32[2,3]=1")).stderr)
        result = self.fail_with(2, *self.run_with(f"@{self.data}"))
        self.assertIn(f"there is no input 'image' for the array of that name in '{self.data}'; the function has a: f32[2,3], b: f32[2,3]",
                      result.stderr)
        # A random value takes no place of an array whose name is wrong.
        self.fail_with(2, *self.run_with(f"@{self.data}", command="bench"))
        np.savez(self.data, **{f"array{i}": A for i in range(25)})
        self.assertIn("'array19' and 5 more", self.fail_with(1, *self.run_with(f"@{self.data}:x", "f32[2,3]=1")).stderr)
        np.savez(self.data)
        self.assertIn("it has no arrays", self.fail_with(1, *self.run_with(f"@{self.data}", "f32[2,3]=1")).stderr)

    def test_a_wrong_type_or_shape_shows_both(self):
        for wrong, got in ((A.astype(np.float64), "f64[2,3]"), (A[:, :2], "f32[2,2]"), (A.reshape(6), "f32[6]")):
            np.savez(self.data, a=wrong, b=B)
            result = self.fail_with(1, *self.run_with(f"@{self.data}"))
            self.assertIn(f"--input 'a': '{self.data}', array 'a': expected f32[2,3], got {got}", result.stderr)
            result = self.fail_with(1, *self.run_with(f"a=f32[2,3]=@{self.data}:a", "b=f32[2,3]=1"))
            self.assertIn(f"its array is {got}, not f32[2,3] as given", result.stderr)
        np.save(self.folder / "a.npy", A.reshape(6))
        result = self.fail_with(1, *self.run_with(f"a=@{self.folder}/a.npy", "b=f32[2,3]=1"))
        self.assertIn("a.npy': expected f32[2,3], got f32[6]", result.stderr)

    def test_an_archive_is_never_read_as_raw_bytes(self):
        """Files of exactly the size of the argument: only their first bytes show that they are archives."""
        raw = b"PK\5\6" + bytes(16) + b"\2\0" + b"ab"  # an archive without members: 22 bytes and a comment
        self.assertEqual(len(raw), A.nbytes)
        for content in (raw, b"PK\3\4" + bytes(20)):
            for name in ("x.npz", "x.bin", "x"):
                path = self.folder / name
                path.write_bytes(content)
                for text in (f"a=@{path}", f"@{path}", f"a=f32[2,3]=@{path}"):
                    result = self.fail_with(1, *self.run_with(text, "f32[2,3]=1" if text[0] == "@" else "b=f32[2,3]=1"))
                    self.assertIn(f"{name}'", result.stderr)
                    self.assertEqual(result.stdout, "")
        # By its content, whatever its name is.
        np.savez(self.data, a=A, b=B)
        other = self.folder / "data.bin"
        os.rename(self.data, other)
        self.succeed(*self.run_with(f"@{other}"), "--expect", "f32[2,3]=-10,-9,-8,-7,-6,-5")
        # And a file of raw bytes under the name of an archive is none.
        self.data.write_bytes(A.tobytes())
        self.assertIn("it has no end record", self.fail_with(1, *self.run_with(f"a=@{self.data}", "b=f32[2,3]=1")).stderr)

    def test_archives_that_cannot_be_read(self):
        np.savez_compressed(self.data, a=A, b=B)
        result = self.fail_with(1, *self.run_with(f"@{self.data}", "f32[2,3]=1"))
        self.assertIn("it is deflated, and only stored members can be read; save them with numpy.savez", result.stderr)
        with zipfile.ZipFile(self.data, "w") as archive:
            archive.writestr("a.txt", "hello")
        self.assertIn("member 'a.txt': it is not an array", self.fail_with(1, *self.run_with(f"a=@{self.data}:a", "b=f32[2,3]=1")).stderr)
        np.savez(self.data, a=A.T.copy().T, b=B)
        self.assertIn("array 'a': header: the data is in Fortran order",
                      self.fail_with(1, *self.run_with(f"a=@{self.data}:a", "b=f32[2,3]=1")).stderr)
        self.succeed(*self.run_with("a=f32[2,3]=1", f"b=@{self.data}:b"))  # an array that can be read next to one that cannot
        missing = self.folder / "missing.npz"
        for text in (f"a=@{missing}:a", f"a=@{missing}"):
            self.assertIn(f"'{missing}': No such file", self.fail_with(1, *self.run_with(text, "b=f32[2,3]=1")).stderr)

    def test_names_with_colons(self):
        np.savez(self.data, **{"layer/a:0": A})
        self.succeed(*self.run_with(f"a=@{self.data}:layer/a:0", "b=f32[2,3]=10"), "--expect", "f32[2,3]=-10,-9,-8,-7,-6,-5")
        plain = self.folder / "x:y.npy"
        np.save(plain, A)
        self.succeed(*self.run_with(f"a=@{plain}", "b=f32[2,3]=10"), "--expect", "f32[2,3]=-10,-9,-8,-7,-6,-5")
        self.assertIn("it is not an .npz file", self.fail_with(1, *self.run_with(f"a=@{plain}:a", "b=f32[2,3]=10")).stderr)
        self.assertIn("there is no name of an array after ':'", self.fail_with(2, *self.run_with(f"a=@{self.data}:")).stderr)


if __name__ == "__main__":
    import unittest

    unittest.main()
