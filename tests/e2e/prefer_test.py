# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""[[prefer]] from an ONNX model on: nodes that a library plugin may run instead of the compiler's kernel, numbers of both, and what is said."""
import json
import os
import pathlib
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import HeddleTestCase

LIBRARIES = pathlib.Path(os.environ.get("HEDDLE_BIN", "build/release/bin")).parent / "tests" / "library"
FIRST, OTHER = LIBRARIES / "plugins.d", LIBRARIES / "other.d"


class Prefer(HeddleTestCase):
    def model(self, batch="batch", opset=20):
        """A perceptron: product, Gelu, product, Softmax."""
        rng = np.random.default_rng(7)
        self.w = [(rng.standard_normal((16, 16)) * 0.3).astype(np.float32), (rng.standard_normal((16, 16)) * 0.5).astype(np.float32)]
        nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"], name="up"), helper.make_node("Gelu", ["a"], ["b"], name="act one"),
                 helper.make_node("MatMul", ["b", "w1"], ["c"], name="down"), helper.make_node("Softmax", ["c"], ["y"], name="probabilities")]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 16])],
                                  [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(self.w)])
        path = self.folder / "m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
        return path

    def expected(self, x):
        erf = np.vectorize(__import__("math").erf)
        a = x.astype(np.float64) @ self.w[0]
        c = (0.5 * a * (1 + erf(a / np.sqrt(2)))) @ self.w[1]
        e = np.exp(c - c.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).astype(np.float32)

    def config(self, *rules):
        path = self.folder / "heddle.toml"
        path.write_text("version = 1\n[log]\nlevel = \"debug\"\n" + "".join(f"[[prefer]]\n{rule}\n" for rule in rules))
        return path

    def input(self, rows):
        x = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        return x

    def run_it(self, module, rows, *more):
        """What it gives, and what the log says came from which plugin."""
        self.input(rows)
        ran = self.succeed("run", module, *more, "--input", f"x=@{self.folder / 'x.npy'}", "--output", f"y=@{self.folder / 'y.npy'}")
        return np.load(self.folder / "y.npy"), ran.stderr

    def regions(self, module, *more):
        told = json.loads(self.succeed("explain", module, "--format", "json", "--route", *more).stdout)
        return {one["region"]: one for one in told["places"]["regions"]}

    def test_own_kernel_and_library_give_the_same(self):
        module = self.compile(self.model(), "--operators", FIRST)
        config = self.config('op = "act*"\nuse = ["library:test.library"]', 'op = "Softmax"\ndtype = ["f32"]\nuse = ["library:*", "own"]')
        for rows in (1, 5, 40):
            expected = self.expected(self.input(rows))
            own, silent = self.run_it(module, rows)
            library, said = self.run_it(module, rows, "--plugin-path", FIRST, "--config", config)
            self.assert_close(own, expected, 1e-5, 1e-6)
            self.assert_close(library, own, 1e-5, 1e-6)
            self.assertNotIn("comes from", silent)
            self.assertIn(f"ai.onnx::Gelu/20 (f32[{rows},16] -> f32[{rows},16]) on device 'cpu:0' comes from test.library", said)
            self.assertIn(f"ai.onnx::Softmax/13 (f32[{rows},16] -> f32[{rows},16]) on device 'cpu:0' comes from test.library", said)

    def test_the_module_is_the_same_wherever_it_runs(self):
        module = self.compile(self.model(), "--operators", FIRST)
        first = module.read_bytes()
        self.assertEqual(first[8:12], bytes([0, 0, 2, 0]), "format 0.2")
        self.assertEqual(self.compile(self.model(), "--operators", FIRST).read_bytes(), first)
        told = json.loads(self.succeed("explain", module, "--format", "json").stdout)
        self.assertEqual([(one["operator"], one["required"]) for one in told["functions"][0]["programs"][0]["operations"]],
                         [("ai.onnx::Gelu/20", False), ("ai.onnx::Softmax/13", False)])
        self.assertIn("operators that a plugin may run instead", self.succeed("explain", "--full", module).stdout)
        self.assertIn("  plugins    may run instead of own kernels, see [[prefer]] of heddle.toml: 1 ai.onnx::Gelu/20, 1 ai.onnx::Softmax/13\n",
                      self.succeed("explain", module).stdout)
        self.assertEqual(self.compile(self.model()).read_bytes()[8:12], bytes([0, 0, 1, 0]), "without a declaration nothing changes")

    def test_the_next_in_order_where_one_does_not_take_it(self):
        module = self.compile(self.model(), "--operators", FIRST)
        config = self.config('op = "Gelu"\nuse = ["library:test.library", "library:test.other_library", "own"]')
        paths = ["--plugin-path", FIRST, "--config", config]
        small, said = self.run_it(module, 3, *paths)
        self.assertIn("comes from test.library", said)
        large, said = self.run_it(module, 100, *paths)
        self.assertIn("region 'main.1.Gelu act one' is run by own x86-64-v", said)
        self.assertIn("heddle.toml:4:1; skipped: library:test.library", said)
        self.assertIn("test.library returned UNIMPLEMENTED: ai.onnx::Gelu/20: it takes 1000 elements at most", said)
        self.assertIn("library:test.other_library: ai.onnx::Gelu/20", said)
        self.assertIn("no library plugin 'test.other_library' is installed", said)
        both, said = self.run_it(module, 100, *paths, "--plugin-path", OTHER)
        self.assertIn("comes from test.other_library", said)
        self.assert_close(large, self.expected(self.input(100)), 1e-5, 1e-6)
        self.assert_close(both, large, 1e-5, 1e-6)
        self.assert_close(small, self.expected(self.input(3)), 1e-5, 1e-6)

    def test_types_that_a_rule_is_not_for(self):
        module = self.compile(self.model(4), "--operators", FIRST)
        config = self.config('op = "*"\ndtype = ["bf16", "f16"]\nuse = ["library:nobody"]')
        got, said = self.run_it(module, 4, "--plugin-path", FIRST, "--config", config)
        self.assertNotIn("comes from", said)
        self.assert_close(got, self.expected(self.input(4)), 1e-5, 1e-6)

    def test_nothing_left_is_an_error_that_says_all(self):
        for batch in (4, "batch"):
            module = self.compile(self.model(batch), "--operators", FIRST)
            config = self.config('op = "Softmax"\nuse = ["own"]', 'op = "*Gelu*"\nuse = ["library:nobody", "variant:avx9"]')
            self.input(4)
            failed = self.fail_with(4, "run", module, "--config", config, "--input", f"x=@{self.folder / 'x.npy'}")
            for part in ("region 'main.1.Gelu act one': no entry of [[prefer]] at ", "heddle.toml:7:1 can run it: library:nobody: ai.onnx::Gelu/20",
                         "no library plugin 'nobody' is installed; variant:avx9: executable 'cpu' has no such variant for it; it has x86-64-v3, x86-64-v4",
                         "; add one that can to its 'use', or remove the rule"):
                self.assertIn(part, failed.stderr)
            told = self.regions(module, "--config", config)["main.1.Gelu"]
            self.assertEqual(len(told["passed"]), 1 if batch == 4 else 2)

    def test_what_each_region_is_run_by_and_why(self):
        config = self.config('op = "Gelu"\nuse = ["library:nobody", "library:test.*", "own"]', 'op = "*.matmul"\nuse = ["variant:x86-64-v3", "own"]')
        for batch, gelu in ((4, "library:test.library"), ("batch", "library:test.*, or else own x86-64-v")):
            module = self.compile(self.model(batch), "--operators", FIRST)
            told = self.regions(module, "--plugin-path", FIRST, "--config", config)
            self.assertTrue(told["main.1.Gelu"]["runs"].startswith(gelu), told["main.1.Gelu"])
            self.assertRegex(told["main.1.Gelu"]["why"], r"^\[\[prefer\]\] at .*heddle.toml:4:1$")
            self.assertIn("library:nobody: ai.onnx::Gelu/20", told["main.1.Gelu"]["passed"][0])
            # Its weights are packed for the variant that was chosen.
            matmul = told["main.0.matmul"]
            if matmul["runs"] == "own x86-64-v4":
                self.assertIn("variant:x86-64-v3: it shares derived values with other regions", matmul["passed"][0])
            self.assertEqual(told["main.3.Softmax"]["why"], "no rule")
            text = self.succeed("explain", module, "--plugin-path", FIRST, "--config", config).stdout
            self.assertRegex(text, r"main\.1\.Gelu +act one .* " + gelu.replace("*", r"\*") + r".* \[\[prefer\]\] at ")
            self.assertIn("    skipped library:nobody: ", text)

    def test_another_variant_of_one_region(self):
        module = self.compile(self.model(4), "--operators", FIRST)
        config = self.config('op = "Gelu"\nuse = ["variant:x86-64-v3"]')
        got, _ = self.run_it(module, 4, "--config", config)
        self.assert_close(got, self.expected(self.input(4)), 1e-5, 1e-6)
        self.assertEqual(self.regions(module, "--config", config)["main.1.Gelu"]["runs"], "variant:x86-64-v3")

    def test_a_node_that_is_compiled_like_any_other_after_all(self):
        manifest = self.folder / "ops.toml"
        manifest.write_text('[[operator]]\ndomain = "ai.onnx"\nname = "MatMul"\nversion = 13\ninputs = ["a", "b"]\noutputs = [{}]\n'
                            '[[operator]]\ndomain = "ai.onnx"\nname = "Softmax"\nversion = 11\ninputs = ["x"]\noutputs = [{}]\n')
        module = self.folder / "m.heddle"
        told = json.loads(self.succeed("compile", self.model(), "-o", module, "--operators", manifest, "--explain=json").stdout)
        self.assertEqual({one["node"]: one["reason"] for one in told["own_only"]},
                         {"up": "its kernel reads weights in an order of its own", "down": "its kernel reads weights in an order of its own",
                          "probabilities": "opset 20 means version 13 of it, but only versions 11 are declared"})
        self.assertEqual(module.read_bytes()[8:12], bytes([0, 0, 1, 0]))
        got, _ = self.run_it(module, 4)
        self.assert_close(got, self.expected(self.input(4)), 1e-5, 1e-6)

    def test_the_configuration_knows_the_table(self):
        config = self.config('op = "Gelu"\ndtype = ["f32"]\nuse = ["library:nobody", "own"]')
        checked = self.succeed("config", "check", config, "--plugin-path", FIRST)
        self.assertIn("warning[E201]: no plugin 'nobody' is installed", checked.stdout + checked.stderr)
        effective = self.succeed("config", "effective", "--origin", "--config", config).stdout
        self.assertRegex(effective, r'prefer\[0\] +\{ op = "Gelu", dtype = \["f32"\], use = \["library:nobody", "own"\] \} +.*heddle.toml:4:1')
        self.assertIn("library|variant", self.succeed("config", "schema").stdout)


if __name__ == "__main__":
    unittest.main()
