# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of the importer's text tests whose shapes depend on symbols, at several extents of each, against ONNX Runtime."""
import sys

import numpy as np
import onnxruntime

from heddle_command import REPOSITORY, HeddleTestCase

sys.path.insert(0, str(REPOSITORY / "tests" / "compiler" / "import" / "inputs"))
import models  # noqa: E402

# name: shapes of the inputs, call by call
CASES = {
    "products": [[(2, 3, 5, 64)], [(1, 1, 1, 64)], [(7, 2, 3, 64)]],
    "product_of_sums": [[(2, 4), (3, 4)], [(1, 1), (1, 1)], [(5, 7), (2, 7)]],
    "product_splits": [[(2, 12, 64, 5)], [(1, 12, 64, 1)]],
    "product_splits_again": [[(2, 3, 12)], [(5, 1, 12)]],
    "slice_to_batch": [[(1, 6)], [(7, 6)], [(512, 6)]],
    "slice_steps_to_batch": [[(2, 6)], [(7, 6)], [(512, 6)]],
    "slice_behind": [[(6, 6)], [(9, 6)]],
    "slice_steps": [[(2, 6)], [(3, 6)], [(4, 6)], [(9, 6)]],
    "slice_but_last": [[(2, 6)], [(9, 6)]],
    "slice_but_last_two": [[(4, 6)], [(9, 6)]],
    "slice_steps_but_last": [[(1, 6)], [(2, 6)], [(4, 6)], [(5, 6)], [(9, 6)]],
    "slice_steps_to_fewer": [[(4, 6)], [(5, 6)], [(7, 6)], [(9, 6)]],
    "slice_steps_of_table": [[(2, 6)], [(5, 6)], [(12, 6)]],
    "slice_of_table_from_batch": [[(0, 6)], [(5, 6)], [(511, 6)]],
    "slice_of_nothing_to_before": [[(6, 6)], [(9, 6)]],
    "slice_from_the_end": [[(3, 6)], [(9, 6)]],
    "slice_steps_of_nothing": [[(2, 6)], [(9, 6)]],
    "slice_last": [[(1, 6)], [(9, 6)]],
    "slice_last_of_two": [[(1, 1)], [(3, 3)]],
    "split_unevenly": [[(9, 3)], [(7, 3)], [(8, 3)]],
    "expand_minus_one": [[(1, 1, 3)], [(4, 1, 3)]],
    "shape_of_bounds": [[(1,)], [(4,)]],
    "shape_split": [[(1, 1, 3)], [(4, 1, 3)]],
    "shape_is_data": [[(1, 2)], [(5, 2)]],
    "shape_is_output": [[(1, 1, 3)], [(4, 1, 3)]],
    "shape_is_compared": [[(1, 1, 3)], [(4, 1, 3)]],
    "range_symbolic": [[(1, 3)], [(40, 3)]],
    "range_steps": [[(3, 3)], [(5, 3)], [(40, 3)]],
    "slice_first": [[(1, 6)], [(9, 6)]],
    "slice_last_batch": [[(5, 3), (2,)], [(2, 3), (4,)]],
    "slice_but_last_batch": [[(5, 3), (2,)], [(4, 3), (1,)]],
    "slice_last_two": [[(1, 6)], [(2, 6)], [(9, 6)]],
    "slice_first_five": [[(1, 6)], [(5, 6)], [(9, 6)]],
    "slice_other": [[(4,), (2,)], [(4,), (9,)]],
    "slice_from_batch": [[(2, 6)], [(9, 6)]],
    "least": [[(2,), (1, 2)], [(9,), (1, 2)]],
    "least_is_data": [[(2,)], [(9,)]],
    "largest_of_positive": [[(1,), (1,)], [(9,), (1,)]],
    "range_to_a_float": [[(7,)]],
    "largest_of_quotient": [[(7,), (2,), (1,)], [(3,), (5,), (1,)]],
    "quotient_below_zero": [[(3,), (2,)], [(9,), (2,)]],
    "equal_to_quotient": [[(7,), (2,), (1,), (3,)], [(4,), (4,), (1,), (1,)]],
    "quotients_of_which_one_is_whole": [[(3,), (2,)], [(9,), (2,)]],
    "split_of_which_one_is_used": [[(7,), (2,)], [(5,), (5,)]],
    "largest_with_zero": [[(1,), (1,)], [(7,), (1,)]],
    "quotient_of_extents": [[(7,), (2,), (1,)], [(7,), (7,), (1,)]],
    "rest_of_extents": [[(7,), (2,), (1,)], [(6,), (4,), (1,)]],
    "exact_quotient": [[(3, 2), (1,)], [(1, 5), (1,)]],
    "split_of_symbol": [[(4, 3)], [(10, 3)]],
    "blocks": [[(4,)], [(10,)]],
    "shape_negative_quotient": [[(2, 1, 3)], [(5, 1, 3)]],
    "shape_expanded": [[(1, 1)], [(4, 1)]],
    "equal_symbols": [[(2, 4), (2, 4)], [(7, 4), (7, 4)]],
    "equal_chain": [[(2, 5), (2, 5), (2, 5)]],
    "equal_sum": [[(3, 4), (2, 4), (5, 4)], [(1, 4), (1, 4), (2, 4)]],
    "equal_sum_first": [[(5, 4), (3, 4), (2, 4)]],
    "equal_product": [[(3, 2, 2), (6, 2)], [(1, 1, 2), (1, 2)]],
    "equal_thirds": [[(5, 4), (7, 4)], [(7, 4), (7, 4)]],
    "equal_thirds_matmul": [[(5, 4), (7, 3)]],
    "equal_thirds_concat": [[(5, 4), (7, 3)]],
    "equal_thirds_reshape": [[(5, 4), (7, 3)]],
    "equal_reshape": [[(2, 3, 6), (2, 3, 3, 2)], [(1, 5, 6), (1, 3, 5, 2)]],
    "equal_unnamed": [[(3, 6), (4, 6)]],
}


class SymbolicShapes(HeddleTestCase):
    def check(self, name):
        path = self.save(name)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        module = self.compile(path)
        for shapes in CASES[name]:
            with self.subTest(shapes=shapes):
                inputs, given = {}, []
                for argument, shape in zip(session.get_inputs(), shapes, strict=True):
                    dtype = np.int64 if argument.type == "tensor(int64)" else np.float32
                    inputs[argument.name] = np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(dtype)
                    np.save(self.folder / f"{argument.name}.npy", inputs[argument.name])
                    given += ["--input", f"{argument.name}=@{self.folder}/{argument.name}.npy"]
                self.succeed("run", module, "--device", "cpu", *given, "--output", f"@{self.folder}/output.npy")
                self.assert_close(np.load(self.folder / "output.npy"), session.run(None, inputs)[0], 0, 0)

    def save(self, name):
        path = self.folder / f"{name}.onnx"
        path.write_bytes(models.model(name).SerializeToString())
        return path

    def test_a_product_that_overflows(self):
        """Inputs without elements may have extents whose product is beyond 64 bits."""
        module = self.compile(self.save("product_of_empty"))

        def call(extent):
            return "run", module, "--device", "cpu", "--input", f"x=f32[{extent},0]=", "--input", f"z=f32[{extent},0]="

        self.assertIn("9", self.succeed(*call(3)).stdout)
        self.assertIn("does not fit in 64 bits", self.fail_with(1, *call(2**32 + 1)).stderr)

    def test_a_part_that_a_table_does_not_have(self):
        module = self.compile(self.save("slice_to_batch"))
        refused = self.fail_with(1, "run", module, "--device", "cpu", "--input", "x=f32[513,6]=1")
        self.assertIn("has the extent s0, which is more than its input has there; s0 is dimension 0 ('batch') of input 'x'; give smaller inputs; 513 is above 512", refused.stderr)

    def test_extents_that_are_not_equal(self):
        def call(name, **shapes):
            module = self.compile(self.save(name))
            given = [f"--input={name}={shape}=1" for name, shape in shapes.items()]
            return self.fail_with((1, 2), "run", module, "--device", "cpu", *given).stderr

        self.assertIn("input 'b' expects f32[first,4], got f32[3,4]: dimension 0 ('first') is 3 and must be 2, as dimension 0 of input 'a'", call("equal_symbols", a="f32[2,4]", b="f32[3,4]"))
        self.assertIn("--input 'a': expected f32[2,5], got f32[2,6]: dimension 1 is 6 and must be 5", call("equal_chain", a="f32[2,6]", b="f32[2,6]", c="f32[2,6]"))
        self.assertIn("dimension 0 of input 'mask': the extents s2 and s0 + s1 have to be equal; s2 is dimension 0 ('total') of input 'mask', "
                      "s0 is dimension 0 ('past') of input 'past', s1 is dimension 0 ('new') of input 'new'; give inputs for which they are; they are 6 and 5; given are 'past' f32[3,4], 'new' f32[2,4], 'mask' f32[6,4]",
                      call("equal_sum", past="f32[3,4]", new="f32[2,4]", mask="f32[6,4]"))
        self.assertIn("the extents s0 and (s0 floordiv 2) * 2 have to be equal; s0 is dimension 0 ('n') of input 'a'; give inputs for which they are; they are 5 and 4; given", call("split_of_symbol", a="f32[5,3]"))
        self.assertIn("s1 has to be at least 1; s1 is dimension 0 ('m') of input 'b'; give inputs for which it is; 0 is below 1; given", call("slice_last_batch", a="f32[5,3]", b="f32[0]"))
        self.assertIn("-s0 + 5 has to be at least 0; s0 is dimension 0 ('batch') of input 'x'; give inputs for which it is; -1 is below 0", call("shape_negative_quotient", x="f32[6,1,3]"))
        self.assertIn("s0 has to be at least 1; s0 is dimension 0 ('n') of input 'a'", call("largest_of_positive", a="f32[0]", b="f32[1]"))
        self.assertIn("s0 has to be at least 1", call("slice_last_of_two", x="f32[0,0]"))
        self.assertIn("s0 - 4 has to be at least 0", call("slice_steps_to_fewer", x="f32[3,6]"))
        self.assertIn("s0 - 2 has to be at least 0", call("slice_steps_of_table", x="f32[1,6]"))
        self.assertIn("s3 is floordiv(s0, s1), s2 is dimension 0 ('k') of input 'd', s0 is dimension 0 ('n') of input 'a', s1 is dimension 0 ('m') of input 'b'; "
                      "give inputs for which they are; they are",
                      call("equal_to_quotient", a="f32[7]", b="f32[2]", c="f32[1]", d="f32[4]"))
        self.assertIn("s0 - 6 has to be at least 0", call("slice_of_nothing_to_before", x="f32[4,6]"))
        self.assertIn("s0 - s1 has to be at least 0; s0 is dimension 0 ('n') of input 'a', s1 is dimension 0 ('m') of input 'b'", call("split_of_which_one_is_used", a="f32[3]", b="f32[5]"))
        self.assertIn("node 'subject' (operator Add, opset 17): the extents (s0 + 1) floordiv 3 and (s1 + 1) floordiv 3 have to be equal",
                      call("equal_thirds", a="f32[5,4]", b="f32[8,4]"))

    def test_a_divisor_of_shapes_that_is_0(self):
        """A quotient is computed before checks that need it, and its divisor is checked before it."""
        for name, what in (("quotient_of_extents", "the quotient floordiv"), ("rest_of_extents", "the remainder mod")):
            module = self.compile(self.save(name))
            refused = self.fail_with(1, "run", module, "--device", "cpu", "--input", "a=f32[7]=1", "--input", "b=f32[0]=", "--input", "c=f32[1]=1")
            self.assertIn(f"{what}(s0, s1) of extents has the divisor s1, which has to be at least 1; s0 is dimension 0 ('n') of input 'a', "
                          "s1 is dimension 0 ('m') of input 'b'; give inputs for which it is; 0 is below 1; given are 'a' f32[7], 'b' f32[0]",
                          refused.stderr)

    def test_a_shape_that_contradicts_a_symbol(self):
        module = self.compile(self.save("equal_chain_of_two"))
        refused = self.fail_with(1, "run", module, "--device", "cpu", "--input", "a=f32[2,3]=1")
        self.assertIn("input 'a' expects f32[n,n], got f32[2,3]: dimension 1 ('n') is 3 and must be 2, as dimension 0 of input 'a'", refused.stderr)

    def test_extents_that_are_sums_of_sums(self):
        self.compile(self.save("chain_of_sums"))  # resolving each symbol again at each of its uses would not end in time

    def test_a_slice_behind_the_end(self):
        module = self.compile(self.save("slice_behind"))
        refused = self.fail_with(1, "run", module, "--device", "cpu", "--input", "x=f32[3,6]=1")
        self.assertIn("has the extent s0 - 5, which is negative; s0 is dimension 0 ('batch') of input 'x'; give larger inputs; -2 is below 0", refused.stderr)


for name in CASES:
    setattr(SymbolicShapes, f"test_{name}", lambda self, name=name: self.check(name))
