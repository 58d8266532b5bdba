# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""StableHLO text, compiled and run: ops whose meaning differs from ONNX's, against NumPy; names, donations, symbols; and programs that are refused. All
ops, against StableHLO's own tests, are those of tests/stablehlo."""
import sys

import numpy as np

from heddle_command import REPOSITORY, HeddleTestCase

sys.path.insert(0, str(REPOSITORY / "tests" / "bench"))
import heddle_ctypes

LETTERS = {"float32": "f32", "int32": "i32", "int64": "i64", "uint8": "ui8", "bool": "i1", "float64": "f64"}


def type_of(value):
    if isinstance(value, str):
        return value
    return "tensor<" + "".join(f"{extent}x" for extent in value.shape) + LETTERS[value.dtype.name] + ">"


class Program:
    """A function @main, written op by op."""

    def __init__(self):
        self.arguments, self.lines, self.results, self.others = [], [], [], ""

    def argument(self, value, attributes=""):
        self.arguments.append((type_of(value), attributes))
        return f"%a{len(self.arguments) - 1}", type_of(value)

    def op(self, name, operands, result, attributes="", region=""):
        self.lines.append(f'    %v{len(self.lines)} = "{name}"({", ".join(value for value, _ in operands)}) <{{{attributes}}}> {region} : '
                          f'({", ".join(kind for _, kind in operands)}) -> {type_of(result)}')
        return f"%v{len(self.lines) - 1}", type_of(result)

    def give(self, value):
        self.results.append(value)

    def text(self):
        arguments = ", ".join(f"%a{i}: {kind}" for i, (kind, _) in enumerate(self.arguments))
        signature = f'({", ".join(kind for kind, _ in self.arguments)}) -> ({", ".join(kind for _, kind in self.results)})'
        attributes = ", ".join("{" + attributes + "}" for _, attributes in self.arguments)
        return (f'"builtin.module"() ({{\n  "func.func"() <{{function_type = {signature}, sym_name = "main", arg_attrs = [{attributes}]}}> ({{\n  ^bb0({arguments}):\n'
                + "\n".join(self.lines) + f'\n    "func.return"({", ".join(value for value, _ in self.results)}) : ({", ".join(kind for _, kind in self.results)}) -> ()\n'
                f"  }}) : () -> ()\n{self.others}}}) : () -> ()\n")


def region(kind, *body):
    """A region of two scalars of that type that returns the last of these ops' results."""
    lines = [f"%{i} = {line}" for i, line in enumerate(body)]
    return ("({\n    ^bb0(%x: KIND, %y: KIND):\n      ".replace("KIND", kind) + "\n      ".join(lines) + f'\n      "stablehlo.return"(%{len(body) - 1}) : '
            + f"({body[-1].rpartition('-> ')[2]}) -> ()\n    }})")


class StableHlo(HeddleTestCase):
    def write(self, text, name="program.mlir"):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_program(self, text, *values):
        module = self.compile(self.write(text))
        function = heddle_ctypes.Runtime("").open(module).instance("cpu").function()
        return [result.numpy().copy() for result in function.prepare(*values)[1]]

    def test_ops(self):
        random = np.random.default_rng(36)
        program, expected = Program(), []

        def give(value, wanted):
            program.give(value)
            expected.append(wanted)

        x, y = random.standard_normal((3, 5)).astype(np.float32), random.standard_normal((5, 4, 2)).astype(np.float32)
        i = np.array([7, -7, 5, -2**31, 0], np.int32)
        j = np.array([2, 2, 0, -1, 0], np.int32)
        a, b, c, d = (program.argument(value) for value in (x, y, i, j))
        # Integers: quotients and remainders by 0, and the number without a positive counterpart.
        give(program.op("stablehlo.divide", (c, d), i), np.array([3, -3, -1, -2**31, -1], np.int32))
        give(program.op("stablehlo.remainder", (c, d), i), np.array([1, -1, 5, 0, 0], np.int32))
        give(program.op("stablehlo.shift_right_arithmetic", (c, d), i), np.array([1, -2, 5, -1, 0], np.int32))
        give(program.op("stablehlo.shift_right_logical", (c, d), i), np.array([1, 0x3FFFFFFE, 5, 0, 0], np.int32))
        give(program.op("stablehlo.popcnt", (c,), i), np.array([3, 30, 2, 1, 0], np.int32))
        give(program.op("stablehlo.count_leading_zeros", (c,), i), np.array([29, 0, 29, 0, 32], np.int32))
        # One of one processes; the angle of complex numbers.
        give(program.op("stablehlo.partition_id", (), "tensor<ui32>"), np.uint32(0))
        give(program.op("stablehlo.replica_id", (), "tensor<ui32>"), np.uint32(0))
        p, q = x + 1j * x[::-1], x[:, ::-1] - 0.5j
        parts_of_points = [np.ascontiguousarray(part) for part in (p.real, p.imag, q.real, q.imag)]
        parts = [program.argument(part) for part in parts_of_points]
        points = [program.op("stablehlo.complex", parts[at:at + 2], "tensor<3x5xcomplex<f32>>") for at in (0, 2)]
        angle = program.op("stablehlo.atan2", points, "tensor<3x5xcomplex<f32>>")
        wanted = -1j * np.log((q + 1j * p) / np.sqrt(q * q + p * p))
        give(program.op("stablehlo.real", (angle,), x), wanted.real.astype(np.float32))
        give(program.op("stablehlo.imag", (angle,), x), wanted.imag.astype(np.float32))
        # Contracted dimensions anywhere, and batches.
        dims = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
        give(program.op("stablehlo.dot_general", (a, b), np.zeros((3, 4, 2), np.float32), dims), np.einsum("ab,bcd->acd", x, y))
        dims = "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [0]>"
        give(program.op("stablehlo.dot_general", (a, b), np.zeros((5, 3, 4, 2), np.float32), dims), np.einsum("ab,bcd->bacd", x, y))
        # Negative and interior padding.
        zero = program.op("stablehlo.constant", (), np.zeros((), np.float32), "value = dense<2.5> : tensor<f32>")
        padded = np.full((3, 9), 2.5, np.float32)
        padded[:, 0:9:2] = x
        wanted = np.concatenate([padded[1:, 3:], np.full((2, 1), 2.5, np.float32)], 1)
        wanted = np.concatenate([wanted, np.full((1, 7), 2.5, np.float32)])
        give(program.op("stablehlo.pad", (a, zero), wanted, "edge_padding_low = array<i64: -1, -3>, edge_padding_high = array<i64: 1, 1>, "
                        "interior_padding = array<i64: 0, 1>"), wanted)
        # Bodies: one op, and another one that is applied to halves.
        scalar, most = "tensor<f32>", program.op("stablehlo.constant", (), np.zeros((), np.float32), "value = dense<0xFF800000> : tensor<f32>")
        larger = region(scalar, f'"stablehlo.maximum"(%x, %y) : ({scalar}, {scalar}) -> {scalar}')
        give(program.op("stablehlo.reduce", (a, most), np.zeros(3, np.float32), "dimensions = array<i64: 1>", larger), x.max(1))
        farther = region(scalar, f'"stablehlo.abs"(%x) : ({scalar}) -> {scalar}', f'"stablehlo.abs"(%y) : ({scalar}) -> {scalar}',
                         f'"stablehlo.compare"(%0, %1) <{{comparison_direction = #stablehlo<comparison_direction GE>}}> : ({scalar}, {scalar}) -> tensor<i1>',
                         f'"stablehlo.select"(%2, %x, %y) : (tensor<i1>, {scalar}, {scalar}) -> {scalar}')
        none = program.op("stablehlo.constant", (), np.zeros((), np.float32), "value = dense<0.0> : tensor<f32>")
        flat = x.reshape(-1)
        give(program.op("stablehlo.reduce", (a, none), np.zeros((), np.float32), "dimensions = array<i64: 0, 1>", farther), flat[np.abs(flat).argmax()])
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (2, 0)), constant_values=-np.inf), 3, 1).max(-1)
        give(program.op("stablehlo.reduce_window", (a, most), x, "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 1>, "
                        "padding = dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>", larger), windows)
        # Starts of slices are clamped; updates outside are dropped.
        rows = np.array([[1], [9], [-4]], np.int32)
        r = program.argument(rows)
        numbers = "#stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>"
        give(program.op("stablehlo.gather", (a, r), np.zeros((3, 2, 5), np.float32), f"dimension_numbers = {numbers}, slice_sizes = array<i64: 2, 5>"),
             np.stack([x[start:start + 2] for start in (1, 1, 0)]))
        updates = random.standard_normal((3, 5)).astype(np.float32)
        u = program.argument(updates)
        numbers = ("#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>")
        added = x.copy()
        added[1] += updates[0]
        give(program.op("stablehlo.scatter", (a, r, u), x, f"scatter_dimension_numbers = {numbers}",
                        region(scalar, f'"stablehlo.add"(%x, %y) : ({scalar}, {scalar}) -> {scalar}')), added)
        less = region(scalar, f'"stablehlo.compare"(%x, %y) <{{comparison_direction = #stablehlo<comparison_direction GT>}}> : ({scalar}, {scalar}) -> tensor<i1>')
        give(program.op("stablehlo.sort", (a,), x, "dimension = 0 : i64", less), -np.sort(-x, 0))
        # Complex numbers are two tensors, and have a last dimension of 2 outside.
        z = np.array([[3, 4], [-1, 0.5]], np.float32)
        w = program.argument("tensor<2xcomplex<f32>>")
        give(program.op("stablehlo.abs", (w,), np.zeros(2, np.float32)), np.hypot(z[:, 0], z[:, 1]))
        give(program.op("stablehlo.multiply", (w, w), "tensor<2xcomplex<f32>>"), np.array([[-7, 24], [0.75, -1]], np.float32))
        # A function, inlined, and one that the program defines for itself.
        program.others = ('  "func.func"() <{function_type = (tensor<3x5xf32>) -> tensor<3x5xf32>, sym_name = "f", sym_visibility = "private"}> ({\n'
                          '  ^bb0(%x: tensor<3x5xf32>):\n    %0 = "stablehlo.log_plus_one"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>\n'
                          '    "func.return"(%0) : (tensor<3x5xf32>) -> ()\n  }) : () -> ()\n')
        squared = program.op("stablehlo.multiply", (a, a), x)
        small = program.op("stablehlo.constant", (), x, "value = dense<1.0e-9> : tensor<3x5xf32>")
        tiny = program.op("stablehlo.multiply", (squared, small), x)
        give(program.op("func.call", (tiny,), x, "callee = @f"), np.log1p(np.float64(x) ** 2 * 1e-9))
        results = self.run_program(program.text(), x, y, i, j, *parts_of_points, rows, updates, z)
        for k, (got, wanted) in enumerate(zip(results, expected, strict=True)):
            np.testing.assert_allclose(got, wanted, 2e-6, 2e-6, err_msg=f"result {k}")
            self.assertEqual(got.dtype, np.float32 if wanted.dtype == np.float64 else wanted.dtype)
        np.testing.assert_allclose(results[-1], expected[-1], 1e-6, 0)

    def test_signature(self):
        text = """#loc7 = loc("jit(f)/double")
        "builtin.module"() ({
          "func.func"() <{function_type = (tensor<?x4xf32>, tensor<2x2xf32>) -> (tensor<?x4xf32>, tensor<2x2xf32>), sym_name = "main",
            arg_attrs = [{jax.arg_info = "params['w']"}, {tf.aliasing_output = 1 : i32}], res_attrs = [{jax.result_info = "y"}, {jax.result_info = ""}]}> ({
          ^bb0(%a: tensor<?x4xf32>, %b: tensor<2x2xf32>):
            %0 = "stablehlo.add"(%a, %a) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32> loc(#loc7)
            %1 = "stablehlo.negate"(%b) : (tensor<2x2xf32>) -> tensor<2x2xf32>
            "func.return"(%0, %1) : (tensor<?x4xf32>, tensor<2x2xf32>) -> ()
          }) : () -> ()
        }) : () -> ()"""
        module = self.compile(self.write(text))
        shown = self.succeed("explain", module).stdout
        for part in ("params['w']: f32[params['w'].0,4]", "y: f32[params['w'].0,4]", "arg1", "result1", "jit(f)/double"):
            self.assertIn(part, shown)
        for rows in (1, 5):
            function = heddle_ctypes.Runtime("").open(module).instance("cpu").function()
            x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
            results = function.prepare(x, np.ones((2, 2), np.float32))[1]
            np.testing.assert_array_equal(results[0].numpy(), 2 * x)

    def test_refusals(self):
        def main(body, signature="(tensor<2xf32>) -> tensor<2xf32>", argument="%a: tensor<2xf32>", others=""):
            return (f'"builtin.module"() ({{\n"func.func"() <{{function_type = {signature}, sym_name = "main"}}> ({{\n^bb0({argument}):\n{body}\n'
                    f'"func.return"(%0) : (tensor<2xf32>) -> ()\n}}) : () -> ()\n{others}}}) : () -> ()\n')

        call = '%1 = "stablehlo.tanh"(%a) : (tensor<2xf32>) -> tensor<2xf32>\n%0 = "func.call"(%1) <{callee = @main}> : (tensor<2xf32>) -> tensor<2xf32>'
        tanh = '%0 = "stablehlo.tanh"(%a) : (tensor<2xf32>) -> tensor<2xf32>\n'

        def constant(value):
            return f'%1 = "stablehlo.constant"() <{{value = {value}}}> : () -> tensor<2xf32>\n'

        def calls(callee, result="%0", given="%a"):
            return f'{result} = "func.call"({given}) <{{callee = @{callee}}}> : (tensor<2xf32>) -> tensor<2xf32>\n'

        def function(name, body):
            return (f'"func.func"() <{{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "{name}", sym_visibility = "private"}}> ({{\n'
                    f'^bb0(%a: tensor<2xf32>):\n{body}"func.return"(%0) : (tensor<2xf32>) -> ()\n}}) : () -> ()\n')

        deep = '"a.a"() ({' * 300 + "}) : () -> ()" * 300
        cases = {
            "pretty": ("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.tanh %a : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n",
                       "python3 -m heddle.stablehlo"),
            "unknown": (main('%1 = "stablehlo.infeed"(%a) : (tensor<2xf32>) -> tensor<2xf32>\n%0 = "stablehlo.none"(%1) : (tensor<2xf32>) -> tensor<2xf32>'),
                        "2 ops are not supported: 'stablehlo.infeed' (at unknown.mlir:4:6), 'stablehlo.none' (at unknown.mlir:5:6)"),
            "itself": (main(call), "function 'main' calls itself: main calls main; functions must not be recursive"),
            "each other": (main(tanh.replace("%0", "%1") + calls("f", "%0", "%1"), others=function("f", calls("g")) + function("g", calls("f"))),
                           "function 'f' calls itself: f calls g calls f; functions must not be recursive"),
            "doubling": (main(tanh.replace("%0", "%1") + calls("f0", "%0", "%1"), others="".join(function(f"f{i}", calls(f"f{i + 1}", "%1") + calls(f"f{i + 1}", "%0", "%1")) for i in range(40))
                                                                 + function("f40", tanh)), "it has above 524288 ops"),
            "complex": (main('%0 = "stablehlo.complex"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>'),
                        "'stablehlo.complex' at complex.mlir:4:6 failed: result 0 is declared as tensor<2xf32>, which is not what this op gives"),
            "far result": (main(tanh.replace("%a", "%a#2147483647")), "result #2147483647 of an op is named, and ops have up to 65536 results"),
            "token": (main('%0 = "stablehlo.after_all"(%a) : (tensor<2xf32>) -> tensor<2xf32>'), "which is not what this op gives"),
            "cycle": (main('%0 = "stablehlo.tanh"(%1) : (tensor<2xf32>) -> tensor<2xf32>\n%1 = "stablehlo.tanh"(%0) : (tensor<2xf32>) -> tensor<2xf32>'),
                      "at cycle.mlir:4:6: operand #0 does not dominate this use"),
            "dangling": (main(tanh.replace("%a", "%b")), "at dangling.mlir:4:23: use of undeclared SSA value name"),
            "no function": (main(tanh.replace("%0", "%1") + calls("f", "%0", "%1")), "'f' does not reference a valid function"),
            "two functions": (main(tanh, others=function("main", tanh)), "redefinition of symbol named 'main'"),
            "two values": (main(tanh + tanh), "redefinition of SSA value '%0'"),
            "argument": (main(tanh, "(tensor<2xi32>) -> tensor<2xf32>"), "must match the type of the corresponding argument"),
            "given": (main(tanh, "(tensor<2xf32>) -> tensor<2xi32>"), "doesn't match function result type"),
            "numbers": (main(constant("dense<[1.0, 2.0, 3.0]> : tensor<2xf32>") + tanh), "at numbers.mlir:4:62: inferred shape of elements literal ([3])"),
            "bytes": (main(constant("dense<\"0x0000\"> : tensor<2xf32>") + tanh), "elements hex data size is invalid"),
            "short": (main(constant("dense_resource<w> : tensor<2xf32>") + tanh.replace("%a", "%1")) + '{-#\n dialect_resources: { builtin: { w: "0x04000000AABB" } }\n#-}\n',
                      "'stablehlo.constant' at short.mlir:4:6 failed: its value has 2 bytes, and tensor<2xf32> has 8"),
            "absent": (main(constant("dense_resource<w> : tensor<2xf32>") + tanh.replace("%a", "%1")), "(dense_resource<w>) are not in the file"),
            "huge argument": (main(tanh, "(tensor<2xf32>, tensor<9223372036854775807xf32>) -> tensor<2xf32>", "%a: tensor<2xf32>, %b: tensor<9223372036854775807xf32>"),
                              "importing argument 'arg1' failed: extent 9223372036854775807"),
            "huge padding": (main(constant("dense<1.0> : tensor<f32>").replace("tensor<2xf32>", "tensor<f32>")
                                  + '%0 = "stablehlo.pad"(%a, %1) <{edge_padding_low = array<i64: 9223372036854775807>, edge_padding_high = array<i64: 1>, '
                                  'interior_padding = array<i64: 0>}> : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>'), "at huge padding.mlir:5:6 failed: its padding is out of range"),
            "rank": (main(f'%1 = "stablehlo.reshape"(%a) : (tensor<2xf32>) -> tensor<{"1x" * 5000}2xf32>\n' + tanh), "rank 5001, above 32"),
            "deep types": (main(tanh, others=f'"a.b"() {{x = {"tuple<" * 5000}f32{">" * 5000}}} : () -> ()\n'), "brackets are nested above 256 deep"),
            "deep": (main('%0 = "stablehlo.tanh"(%a) : (tensor<2xf32>) -> tensor<2xf32>', others=deep), "brackets are nested above 256 deep"),
            "types": (main('%1 = "stablehlo.constant"() <{value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>\n'
                           '%0 = "stablehlo.add"(%a, %1) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>'), "'stablehlo.add' at types.mlir:5:6"),
            "result": (main('%0 = "stablehlo.slice"(%a) <{start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = array<i64: 1>}> : (tensor<2xf32>) -> '
                            'tensor<2xf32>'), "declared as tensor<2xf32>, and its operands give tensor<1xf32>"),
            "huge": (main('%1 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<9999999999999999xf32>\n'
                          '%0 = "stablehlo.tanh"(%a) : (tensor<2xf32>) -> tensor<2xf32>'), "9999999999999999"),
            "foreign": (main('%0 = "stablehlo.custom_call"(%a) <{call_target_name = "lapack_dgetrf"}> : (tensor<2xf32>) -> tensor<2xf32>'), "lapack_dgetrf"),
        }
        for name, (text, wanted) in cases.items():
            with self.subTest(name):
                failed = self.fail_with(1, "compile", self.write(text, f"{name}.mlir"), "-o", self.folder / "none.heddle")
                self.assertIn(wanted, failed.stderr)
        with self.subTest("no text"):
            path = self.write("", "bytes.mlir")
            path.write_bytes(main(tanh.strip() + ' loc("NAME")').encode().replace(b"NAME", b"\xff\x1b[3m"))
            failed = self.fail_with(1, "compile", path, "-o", self.folder / "none.heddle")
            self.assertIn("line 4 is not UTF-8 text", failed.stderr)
            # Written as escapes, such a name is shown without them.
            module = self.compile(self.write(main(tanh.strip() + ' loc("a\\FFb")'), "escapes.mlir"))
            self.assertIn("a?b", self.succeed("explain", module).stdout)
        for name, text, wanted in (("empty", "", "it has no function"), ("only calls", main('%0 = "func.call"(%a) <{callee = @main}> : (tensor<2xf32>) -> tensor<2xf32>'), "function 'main' calls itself")):
            with self.subTest(name):
                failed = self.fail_with(1, "compile", self.write(text, f"{name}.mlir"), "-o", self.folder / "none.heddle")
                self.assertIn(wanted, failed.stderr)
        with self.subTest("deep text without an op of StableHLO"):
            failed = self.fail_with(1, "compile", self.write('"builtin.module"() (' + '{"builtin.module"() (' * 5000, "deep.mlir"), "-o", self.folder / "none.heddle")
            self.assertIn("deep.mlir' failed: its brackets are nested above 256 deep", failed.stderr)
        with self.subTest("bytecode"):
            path = self.folder / "program.mlirbc"
            path.write_bytes(b"ML\xefR\x0dStableHLO_v1.0.0\x00" + bytes(64))
            failed = self.fail_with(1, "compile", path, "-o", self.folder / "none.heddle")
            self.assertIn(f"python3 -m heddle.stablehlo {path} ", failed.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
