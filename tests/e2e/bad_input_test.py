# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad models, bad modules, bad inputs and bad flags: one clear error, the right exit code, no output file, no crash."""
import os
import random
import resource

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from heddle_command import DIGITS, HeddleTestCase, TEST_ALL, heddle, shapes_in

OPSET = 17


def small_model(operator, name, domain="", shape=(2, 3)):
    """A model of two nodes: Relu, then the operator in question."""
    nodes = [
        helper.make_node("Relu", ["x"], ["between"], name="first"),
        helper.make_node(operator, ["between"], ["y"], name=name, domain=domain),
    ]
    value = lambda tensor: helper.make_tensor_value_info(tensor, TensorProto.FLOAT, shape)
    opsets = [helper.make_opsetid("", OPSET)] + ([helper.make_opsetid(domain, 3)] if domain else [])
    graph = helper.make_graph(nodes, "small", [value("x")], [value("y")])
    return helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()


class BadModels(HeddleTestCase):
    def refuse(self, data, name="model.onnx"):
        """Compiling the bytes must fail with exit code 1 and leave the output folder empty; returns the error text."""
        model = self.folder / name
        model.write_bytes(data)
        out = self.folder / "out"
        out.mkdir(exist_ok=True)
        result = self.fail_with(1, "compile", model, "-o", out / "model.heddle")
        self.assertEqual(list(out.iterdir()), [], str(result))
        return result.stderr

    def test_unknown_operator_names_operator_node_and_opset(self):
        error = self.refuse(small_model("Frobnicate", "strange_one"))
        self.assertIn("Frobnicate", error)
        self.assertIn("strange_one", error)
        self.assertRegex(error, rf"(?i)opset[^\n]*\b{OPSET}\b")

    def test_operator_of_another_domain_names_the_domain(self):
        error = self.refuse(small_model("Frobnicate", "strange_one", domain="com.example"))
        for part in ("Frobnicate", "strange_one", "com.example"):
            self.assertIn(part, error)

    def test_unnamed_node_is_named_by_its_result(self):
        error = self.refuse(small_model("Frobnicate", ""))
        self.assertIn("Frobnicate", error)
        self.assertRegex(error, r"'?\by\b'?|#1|node 1|index 1")

    def test_element_types_without_a_kernel_name_the_node(self):
        image, filters = (1, 4, 5, 5), (4, 4, 3, 3)
        cases = [("Conv", (image, filters), "BOOL"), ("MatMul", ((2, 2), (2, 2)), "BOOL")]
        cases += [(operator, ((2, 2),), kind) for operator in ("Exp", "Erf", "Softmax", "HardSwish", "Gelu")
                  for kind in ("INT8", "UINT8", "INT32", "INT64", "UINT64", "BOOL")]
        for operator, shapes, kind in cases:
            with self.subTest(operator=operator, kind=kind):
                element_type = TensorProto.DataType.Value(kind)
                inputs = [helper.make_tensor_value_info(f"x{i}", element_type, shape) for i, shape in enumerate(shapes)]
                graph = helper.make_graph(
                    [helper.make_node(operator, [i.name for i in inputs], ["y"], name="subject")], "typed", inputs,
                    [helper.make_tensor_value_info("y", element_type, None)],
                )
                model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])
                self.assertIn("node 'subject'", self.refuse(model.SerializeToString()))

    def test_opset_from_the_future_is_refused(self):
        graph = helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"], name="only")], "future",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
        )
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 9000)])
        self.assertIn("9000", self.refuse(model.SerializeToString()))

    def test_missing_file(self):
        result = self.fail_with((1, 2), "compile", self.folder / "absent.onnx", "-o", self.folder / "absent.heddle")
        self.assertIn("absent.onnx", result.stderr)
        self.assertFalse((self.folder / "absent.heddle").exists())

    def test_value_without_producer_names_it(self):
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "never_made"], ["y"], name="sum")], "dangling",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))],
        )
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])
        self.assertIn("never_made", self.refuse(model.SerializeToString()))

    def test_weight_shorter_than_its_shape_names_it(self):
        weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "short_weight")
        weight.raw_data = weight.raw_data[:20]
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "short_weight"], ["y"], name="product")], "short",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))], [weight],
        )
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])
        self.assertIn("short_weight", self.refuse(model.SerializeToString()))

    def test_external_data_outside_the_models_folder_is_refused(self):
        secret = self.folder / "secret.bin"
        secret.write_bytes(bytes(64))
        inner = self.folder / "inner"
        inner.mkdir()
        for location in ("../secret.bin", str(secret), "a/../../secret.bin"):
            with self.subTest(location=location):
                weight = TensorProto(name="outside", data_type=TensorProto.FLOAT, dims=[4, 4])
                weight.data_location = TensorProto.EXTERNAL
                weight.external_data.add(key="location", value=location)
                graph = helper.make_graph(
                    [helper.make_node("MatMul", ["x", "outside"], ["y"], name="product")], "external",
                    [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4))],
                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))], [weight],
                )
                model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", OPSET)])
                self.assertIn("outside", self.refuse(model.SerializeToString(), "inner/model.onnx"))

    def test_truncated_model_at_many_lengths(self):
        data = DIGITS.read_bytes()
        lengths = {0, 1, 2, 7, 64, 1000, len(data) // 2, len(data) - 20, len(data) - 2, len(data) - 1}
        chooser = random.Random(11)
        lengths |= {chooser.randrange(len(data)) for _ in range(100 if TEST_ALL else 6)}
        for length in sorted(lengths):
            with self.subTest(length=length):
                self.assertIn("digits_cut.onnx", self.refuse(data[:length], "digits_cut.onnx"))

    def test_written_region_with_more_bindings_than_a_kernel_has(self):
        names, kind = [f"%a{index}" for index in range(256)], "tensor<4xf32>"
        all_of = lambda values: ", ".join(f"{value}: {kind}" for value in values)
        text = f"""func.func @main({all_of(names)}) -> {kind} {{
          %r = tx.dispatch "wide"({", ".join(names)}) on "default" : ({", ".join([kind] * 256)}) -> {kind} {{
          ^bb0({all_of(name.replace("a", "b") for name in names)}):
            %s = tx.relu %b0 : {kind}
            tx.yield %s : {kind}
          }}
          return %r : {kind}
        }}"""
        self.assertIn("region 'wide' needs 257 bindings, kernels have at most 256", self.refuse(text.encode(), "wide.mlir"))

    def test_a_region_that_overwrites_what_is_not_its_own(self):
        for reads_later in (False, True):
            made = """%m = tx.dispatch "make"(%x) on "default" : (tensor<8xf32>) -> tensor<8xf32> {
              ^bb0(%a: tensor<8xf32>):
                %0 = tx.neg %a : tensor<8xf32>
                tx.yield %0 : tensor<8xf32>
              }"""
            text = f"""func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {{
              {made}
              %y = tx.dispatch "take"({"%m" if reads_later else "%x"}) on "default" attributes {{tied = array<i64: 0>}} : (tensor<8xf32>) -> tensor<8xf32> {{
              ^bb0(%a: tensor<8xf32>):
                %0 = tx.exp %a : tensor<8xf32>
                tx.yield %0 : tensor<8xf32>
              }}
              return %m, %y : tensor<8xf32>, tensor<8xf32>
            }}"""
            with self.subTest(reads_later=reads_later):
                self.assertIn("overwrites operand 0, which no region on its slot makes, or which is read later",
                              self.refuse(text.encode(), "tied.mlir"))

    def test_a_region_that_overwrites_what_it_reads_elsewhere(self):
        text = """func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
          %m = tx.dispatch "make"(%x) on "default" : (tensor<8x8xf32>) -> tensor<8x8xf32> {
          ^bb0(%a: tensor<8x8xf32>):
            %0 = tx.neg %a : tensor<8x8xf32>
            tx.yield %0 : tensor<8x8xf32>
          }
          %y = tx.dispatch "take"(%m) on "default" attributes {tied = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
          ^bb0(%a: tensor<8x8xf32>):
            %0 = tx.transpose %a {permutation = array<i64: 1, 0>} : tensor<8x8xf32> -> tensor<8x8xf32>
            %1 = tx.add %a, %0 : tensor<8x8xf32>
            tx.yield %1 : tensor<8x8xf32>
          }
          return %y : tensor<8x8xf32>
        }"""
        self.assertIn("overwrites operand 0, but reads elements other than the one that it overwrites", self.refuse(text.encode(), "tied.mlir"))

    def test_not_a_model_at_all(self):
        for content in (b"<html>404</html>", bytes(4096), b"\xff" * 4096):
            with self.subTest(content=content[:8]):
                self.assertIn("page.onnx", self.refuse(content, "page.onnx"))

    def test_flipped_bits_never_crash(self):
        data = DIGITS.read_bytes()
        chooser = random.Random(12)
        # The graph's structure is in the first and last kilobytes; most of what is between are weights' bytes.
        places = [chooser.randrange(2500) for _ in range(300 if TEST_ALL else 10)]
        places += [len(data) - 1 - chooser.randrange(300) for _ in range(60 if TEST_ALL else 4)]
        for place in places:
            bit = chooser.randrange(8)
            with self.subTest(place=place, bit=bit):
                flipped = bytearray(data)
                flipped[place] ^= 1 << bit
                model, module = self.folder / "flipped.onnx", self.folder / "flipped.heddle"
                model.write_bytes(flipped)
                module.unlink(missing_ok=True)
                result = heddle("compile", model, "-o", module)
                self.assertIn(result.code, (0, 1), str(result))
                self.assertEqual(module.exists(), result.code == 0, str(result))
                if result.code != 0:
                    self.assert_clear_error(result)


class BadModules(HeddleTestCase):
    def test_truncated_module_at_many_lengths(self):
        data = self.compile(DIGITS).read_bytes()
        cut = self.folder / "cut.heddle"
        image = self.folder / "image.npy"
        np.save(image, np.zeros((1, 1, 8, 8), np.float32))
        for length in (0, 1, 8, 63, 64, 500, len(data) // 2, len(data) - 1):
            with self.subTest(length=length):
                cut.write_bytes(data[:length])
                result = self.fail_with(1, "run", cut, "--input", f"image=@{image}")
                self.assertIn("cut.heddle", result.stderr)

    def test_onnx_file_given_to_run_is_refused(self):
        result = self.fail_with((1, 2), "run", DIGITS)
        self.assertIn("digits.onnx", result.stderr)


class BadInputs(HeddleTestCase):
    def setUp(self):
        super().setUp()
        self.module = self.compile(DIGITS)
        self.image = self.folder / "image.npy"
        self.out = self.folder / "logits.npy"

    def refuse(self, value, name="image"):
        np.save(self.image, value)
        result = self.fail_with((1, 2), "run", self.module, "--input", f"{name}=@{self.image}", "--output", f"@{self.out}")
        self.assertFalse(self.out.exists())
        return result.stderr

    def test_wrong_extent_names_input_expected_and_found(self):
        error = self.refuse(np.zeros((5, 1, 8, 9), np.float32))
        self.assertIn("image", error)
        self.assertIn((5, 1, 8, 9), shapes_in(error), error)
        self.assertTrue([s for s in shapes_in(error) if s[-3:] == (1, 8, 8)] or "1x8x8" in error, error)

    def test_wrong_rank_names_input_expected_and_found(self):
        error = self.refuse(np.zeros((8, 8), np.float32))
        self.assertIn("image", error)
        self.assertIn((8, 8), shapes_in(error), error)

    def test_wrong_type_names_both_types(self):
        error = self.refuse(np.zeros((1, 1, 8, 8), np.float64))
        for part in ("image", "f64", "f32"):
            self.assertIn(part, error)

    def test_unknown_input_name_lists_the_known_one(self):
        error = self.refuse(np.zeros((1, 1, 8, 8), np.float32), name="picture")
        self.assertIn("picture", error)
        self.assertIn("image", error)

    def test_missing_input_is_named(self):
        result = self.fail_with((1, 2), "run", self.module)
        self.assertIn("image", result.stderr)

    def test_npy_that_is_cut_short_is_refused(self):
        np.save(self.image, np.zeros((1, 1, 8, 8), np.float32))
        data = self.image.read_bytes()
        for length in (0, 5, 60, len(data) - 1):
            with self.subTest(length=length):
                self.image.write_bytes(data[:length])
                result = self.fail_with((1, 2), "run", self.module, "--input", f"image=@{self.image}")
                self.assertIn("image.npy", result.stderr)

    def test_files_that_are_pipes_are_refused(self):
        os.mkfifo(self.image)
        self.assertIn("not a regular file", self.fail_with((1, 2), "run", self.module, "--input", f"image=@{self.image}").stderr)
        np.save(self.folder / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
        result = self.fail_with((1, 2), "run", self.module, "--params", self.image, "--input", f"image=@{self.folder}/x.npy")
        self.assertIn("not a regular file", result.stderr)

    def test_a_value_without_memory_names_its_size(self):
        if os.environ.get("HEDDLE_SANITIZE"):
            self.skipTest("SKIP: a sanitizer needs all of the address space, and ends the process itself")
        limit = 8 << 30
        result = self.fail_with(
            (1, 2), "run", self.module, "--input", "image=f32[100000000,1,8,8]=1",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertIn("25600000000 bytes", result.stderr)
