# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle params merge: LoRA adapters as PEFT writes them, compared with NumPy; and a module whose weights an adapter changes."""
import json
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from heddle_command import heddle
from params_test import ParamsCase, header_of, read_safetensors, write_safetensors

PREFIX = "base_model.model."


def bf16(values):
    """The upper halves of f32, rounded to nearest, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


class MergeCase(ParamsCase):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(5)
        self.base, self.adapter, self.out = (self.folder / name for name in ("base.safetensors", "adapter_model.safetensors", "o.safetensors"))

    def normal(self, *shape, kind=np.float32):
        return self.random.standard_normal(shape).astype(kind)

    def write(self, base, adapter, **config):
        write_safetensors(self.base, base)
        write_safetensors(self.adapter, adapter)
        config = {"peft_type": "LORA", "lora_alpha": 8, **config}
        (self.folder / "adapter_config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))

    def merge(self, *flags):
        self.summary = self.succeed("params", "merge", self.base, self.adapter, "-o", self.out, *flags).stdout
        return read_safetensors(self.out)

    def refuse(self, text, *flags, code=1):
        self.assertRegex(self.fail_with(code, "params", "merge", self.base, self.adapter, "-o", self.out, *flags).stderr, text)
        self.assertFalse(self.out.exists())

    def factors(self, module, rank, columns, rows, kind=np.float32, infix=""):
        return {f"{PREFIX}{module}.lora_A{infix}.weight": self.normal(rank, columns, kind=kind),
                f"{PREFIX}{module}.lora_B{infix}.weight": self.normal(rows, rank, kind=kind)}

    def product(self, adapter, module, infix=""):
        a, b = (adapter[f"{PREFIX}{module}.lora_{one}{infix}.weight"].astype(np.float64) for one in "AB")
        return b @ a


class LargeWeights(MergeCase):
    def test_memory_does_not_grow_with_the_weights(self):  # first, since the memory of this process before exec counts too
        rows, columns = 16384, 8192
        with open(self.base, "wb") as file:
            head = header_of([("fc.weight", "F32", [rows, columns], rows * columns * 4)])
            file.write(head)
            file.truncate(len(head) + rows * columns * 4)
        write_safetensors(self.adapter, self.factors("fc", 2, columns, rows))
        self.assert_bounded(60, "merge", self.base, self.adapter, "-o", self.out, "--alpha", 1)


class Merge(MergeCase):
    def test_only_changed_weights_are_written_and_rounded_once(self):
        for kind, rank, infix in ((np.float32, 3, ""), (np.float16, 8, ".default"), (np.float64, 5, "")):
            base = {"layers.0.q.weight": self.normal(70, 90, kind=kind), "layers.0.k.weight": self.normal(30, 90, kind=kind),
                    "layers.0.norm.weight": self.normal(90, kind=kind)}
            adapter = {**self.factors("layers.0.q", rank, 90, 70, infix=infix), **self.factors("layers.0.k", rank + 1, 90, 30, np.float16)}
            self.write(base, adapter, lora_alpha=6)
            expected = {"layers.0.q.weight": base["layers.0.q.weight"] + 6 / rank * self.product(adapter, "layers.0.q", infix),
                        "layers.0.k.weight": base["layers.0.k.weight"] + 6 / (rank + 1) * self.product(adapter, "layers.0.k")}
            got = self.merge()
            if kind is not np.float64:
                self.assert_same(got, {name: value.astype(kind) for name, value in expected.items()})
            for name, value in expected.items():
                np.testing.assert_allclose(got[name], value, 1e-12 if kind is np.float64 else 1e-3, 1e-12 if kind is np.float64 else 1e-3)
            self.assertIn("2 tensors", self.summary)
            self.assertIn("2 merged\n", self.summary)
            whole = self.merge("--all")
            self.assert_same(whole, {**base, **got})
            with np.errstate(over="ignore"):
                self.assert_same(self.merge("--type", "f16"), {name: value.astype(np.float16) for name, value in expected.items()})

    def test_bf16_is_rounded_once(self):
        rank, rows, columns = 2, 40, 50
        weight = bf16(self.normal(rows, columns))
        adapter = self.factors("fc", rank, columns, rows)
        self.write({}, adapter)
        self.base.write_bytes(header_of([("fc.weight", "BF16", weight.shape, weight.nbytes)]) + weight.tobytes())
        got = self.merge()["fc.weight"]
        exact = widened(weight) + 8 / rank * self.product(adapter, "fc")
        # The nearest of the neighbors is the right one.
        below, above = (np.abs(widened((got.astype(np.int32) + step).astype(np.uint16)) - exact) for step in (-1, 1))
        self.assertTrue((np.abs(widened(got) - exact) <= np.minimum(below, above)).all())
        # Ties and what is just above them: 1 + 2^-8 is a tie between 1 and 1 + 2^-7.
        one = np.ones((1, 4), np.float32)
        small = np.float64([[2.0**-8, 2.0**-8 + 2.0**-40, 3 * 2.0**-8, 3 * 2.0**-8 - 2.0**-40]])
        self.write({"w.weight": one}, {PREFIX + "w.lora_A.weight": small, PREFIX + "w.lora_B.weight": np.ones((1, 1))}, lora_alpha=1)
        self.assertEqual(widened(self.merge("--type", "bf16")["w.weight"]).tolist(), [[1, 1 + 2**-7, 1 + 2**-6, 1 + 2**-7]])

    def test_the_configuration_gives_the_factor(self):
        names = ["model.layers.0.q", "model.layers.10.q", "model.layers.0.k"]
        base = {name + ".weight": np.zeros((3, 5), np.float32) for name in names}
        adapter = {}
        for name in names:
            adapter |= self.factors(name, 4, 5, 3)
        for config, flags, factors in (
            ({"lora_alpha": 2}, (), (0.5, 0.5, 0.5)),
            ({"lora_alpha": 2, "use_rslora": True}, (), (1, 1, 1)),
            ({"lora_alpha": 2, "alpha_pattern": {"layers.0.q": 16}}, (), (4, 0.5, 0.5)),
            ({"lora_alpha": 2, "alpha_pattern": {r"layers\.\d+\.q": 16, ".*": 4}}, (), (4, 4, 1)),
            ({"lora_alpha": 2, "alpha_pattern": {"ayers.0.q": 16}}, (), (0.5, 0.5, 0.5)),
            ({"lora_alpha": 2, "alpha_pattern": {".*": 4}}, ("--alpha", "12"), (3, 3, 3)),
            ({"lora_alpha": None}, ("--alpha", "-4"), (-1, -1, -1)),
        ):
            self.write(base, adapter, **config)
            got = self.merge(*flags)
            for name, factor in zip(names, factors):
                np.testing.assert_allclose(got[name + ".weight"], factor * self.product(adapter, name), 1e-6, err_msg=f"{config} {name}")
        self.out.unlink()
        (self.folder / "adapter_config.json").unlink()
        self.refuse("there is no lora_alpha in '.*adapter_config.json'; give the one of the training with --alpha")

    def test_large_weights_are_merged_on_all_cores(self):
        """Larger than a piece, with rows that no piece ends with; stored as PyTorch does, and transposed."""
        adapter = self.factors("fc", 6, 1031, 3001)
        weight = self.normal(3001, 1031)
        expected = (weight + 8 / 6 * self.product(adapter, "fc")).astype(np.float32)
        self.write({"fc.weight": weight}, adapter)
        self.assert_same(self.merge(), {"fc.weight": expected})
        self.write({"fc.weight": np.ascontiguousarray(weight.T)}, adapter)
        self.assert_same(self.merge(), {"fc.weight": np.ascontiguousarray(expected.T)})
        self.assertIn("1 merged, 1 of them stored as [in, out]", self.summary)

    def test_square_weights_follow_the_others_or_what_is_said(self):
        adapter = {**self.factors("fc", 2, 4, 6), **self.factors("sq", 2, 5, 5)}
        fc, sq = (8 / 2 * self.product(adapter, name) for name in ("fc", "sq"))
        zeros = {"sq.weight": np.zeros((5, 5), np.float32)}
        direct, turned = ({**zeros, "fc.weight": np.zeros(shape, np.float32)} for shape in ((6, 4), (4, 6)))
        for base, config, flags, expected in (
            (direct, {}, (), (fc, sq)),
            (turned, {"fan_in_fan_out": True}, (), (fc.T, sq.T)),
            (turned, {}, ("--transpose", "*"), (fc.T, sq.T)),
            (turned, {}, ("--transpose", "fc.weight"), (fc.T, sq)),
            (direct, {}, ("--transpose", "sq*"), (fc, sq.T)),
        ):
            self.write(base, adapter, **config)
            got = self.merge(*flags)
            np.testing.assert_allclose(got["fc.weight"], expected[0], 1e-6)
            np.testing.assert_allclose(got["sq.weight"], expected[1], 1e-6)
        self.out.unlink()
        self.write(turned, adapter)
        self.refuse(r"weight 'sq.weight' is square, and may be stored as \[in, out\], as 'fc.weight' is; name all weights that are, with --transpose")
        self.write(direct, adapter, fan_in_fan_out=True)
        self.refuse(r"weight 'sq.weight' is square, and may be stored as \[in, out\]; name all")
        self.refuse("--transpose 'typo' matches no matrix", "--transpose", "sq*", "--transpose", "typo")
        self.refuse(r"'fc.weight' is f32\[6,4\], and the product .* is \[6,4\], not \[in, out\] as --transpose says", "--transpose", "*")

    def test_square_weights_alone_are_taken_as_said(self):
        adapter = {**self.factors("q", 2, 5, 5), **self.factors("k", 2, 5, 5)}
        q, k = (8 / 2 * self.product(adapter, name) for name in "qk")
        zero = np.zeros((5, 5), np.float32)
        self.write({"q.weight": zero, "k.weight": zero}, adapter)
        for config, flags, said, turned in (
            ({}, (), r"2 square weights are taken as \[out, in\]; if BASE is of ONNX, name those of MatMul with --transpose GLOB\n", False),
            ({"fan_in_fan_out": True}, (), r"2 square weights are taken as \[in, out\], as fan_in_fan_out of the adapter says\n", True),
            ({}, ("--transpose", "*"), "", True),
            ({"fan_in_fan_out": True}, ("--no-transpose",), "", False),
        ):
            self.write({"q.weight": zero, "k.weight": zero}, adapter, **config)
            np.testing.assert_allclose(self.merge(*flags)["q.weight"], q.T if turned else q, 1e-6)
            if said:
                self.assertRegex(self.summary, said)
            else:
                self.assertNotIn("square", self.summary)
        self.out.unlink()
        # Another name may be that of a MatMul, whatever those with their own names are.
        adapter |= self.factors("score", 2, 5, 3)
        names = ("--rename", "q.weight=onnx::MatMul_7", "--rename", "k.weight=onnx::MatMul_8")
        for others in ({}, {"score.weight": np.zeros((3, 5), np.float32)}):
            self.write({"onnx::MatMul_7": zero, "onnx::MatMul_8": zero, **others}, {name: value for name, value in adapter.items() if others or "score" not in name})
            self.refuse(r"weight 'onnx::MatMul_7', which is 'q.weight' of the adapter, is square, and its name does not tell .*--transpose GLOB, else --no-transpose", *names)
            got = self.merge(*names, "--transpose", "onnx::*")
            np.testing.assert_allclose(got["onnx::MatMul_7"], q.T, 1e-6)
            np.testing.assert_allclose(got["onnx::MatMul_8"], k.T, 1e-6)
            np.testing.assert_allclose(self.merge(*names, "--no-transpose")["onnx::MatMul_7"], q, 1e-6)
            self.out.unlink()
        for shape, is_said in (((5, 3), True), ((3, 5), False)):
            self.write({"onnx::MatMul_7": zero, "onnx::MatMul_8": zero, "other": np.zeros(shape, np.float32)}, adapter)
            if is_said:
                self.refuse("'onnx::MatMul_7' is square, .* as 'other' is", *names, "--rename", "score.weight=other")
            else:
                np.testing.assert_allclose(self.merge(*names, "--rename", "score.weight=other")["onnx::MatMul_7"], q, 1e-6)
        self.out.unlink()
        self.refuse("--no-transpose and --transpose exclude each other", "--no-transpose", "--transpose", "*", code=2)

    def test_whole_matrices_are_transposed_too(self):
        head, square = self.normal(7, 5), self.normal(5, 5)
        saved = {PREFIX + "head.modules_to_save.weight": head, PREFIX + "square.modules_to_save.weight": square}
        self.write({"head.weight": np.zeros((5, 7), np.float16), "square.weight": np.zeros((5, 5), np.float32)}, saved)
        self.refuse(r"weight 'square.weight' is square, and may be stored as \[in, out\], as 'head.weight' is")
        got = self.merge("--transpose", "*")
        self.assert_same(got, {"head.weight": np.ascontiguousarray(head.T).astype(np.float16), "square.weight": np.ascontiguousarray(square.T)})
        self.assert_same(self.merge("--transpose", "head.weight"), {**got, "square.weight": square})
        self.out.unlink()
        self.refuse(r"'head.weight' is f16\[5,7\] in '.*base.safetensors', and f32\[7,5\] in the adapter, which replaces it; name it with --transpose, too",
                    "--transpose", "square.weight")
        self.refuse("name it with --transpose", "--no-transpose")
        large = self.normal(2003, 1501)
        self.write({"head.weight": np.zeros((1501, 2003), np.float32)}, {PREFIX + "head.modules_to_save.weight": large})
        self.assert_same(self.merge(), {"head.weight": np.ascontiguousarray(large.T)})
        self.assertIn("1 tensors", self.summary)

    def test_embeddings_with_the_weight_that_they_were_trained_on(self):
        rows, columns, table = self.normal(2, 11), self.normal(4, 2), self.normal(11, 4)
        adapter = {PREFIX + "table.lora_embedding_A": rows, PREFIX + "table.lora_embedding_B": columns, PREFIX + "table.base_layer.weight": table}
        self.write({"table.weight": self.normal(11, 4, kind=np.float16)}, adapter)
        np.testing.assert_array_equal(self.merge()["table.weight"], (table + 4 * (columns.astype(np.float64) @ rows).T).astype(np.float16))
        self.write({"table.weight": self.normal(9, 4)}, adapter)
        self.out.unlink()
        self.refuse(r"'table.weight' is f32\[9,4\], and the product")
        self.write({"table.weight": self.normal(11, 4)}, {**adapter, PREFIX + "table.base_layer.weight": self.normal(12, 4)})
        self.refuse(r"f32\[11,4\] in '.*', and f32\[12,4\] in the adapter, which was trained on it; merge it with PEFT's merge_and_unload")

    def test_a_pattern_that_would_take_forever(self):
        name = "a" * 60
        adapter = self.factors(name, 2, 3, 4)
        self.write({name + ".weight": np.zeros((4, 3), np.float32)}, adapter, alpha_pattern={"(a|aa)+b": 3, r"(a)\1": 4})
        self.refuse(r"alpha_pattern '\(a\)\\1' is not a pattern")
        self.write({name + ".weight": np.zeros((4, 3), np.float32)}, adapter, alpha_pattern={"(a|aa)+b": 3, "(a|aa)+": 2})
        np.testing.assert_allclose(self.merge()[name + ".weight"], self.product(adapter, name), 1e-6)

    def test_what_is_assumed_is_said(self):
        adapter, base = self.factors("fc", 2, 3, 4), {"fc.weight": np.zeros((4, 3), np.float32)}
        self.write(base, adapter)
        self.assertNotIn("warning", self.succeed("params", "merge", self.base, self.adapter, "-o", self.out).stderr)
        config = self.folder / "adapter_config.json"
        config.unlink()
        said = self.succeed("params", "merge", self.base, self.adapter, "-o", self.out, "--alpha", "4").stderr
        self.assertRegex(said, "warning: there is no '.*adapter_config.json'; lora_alpha is that of --alpha, use_rslora and fan_in_fan_out are not set")
        config.symlink_to("gone")
        self.out.unlink()
        self.refuse("adapter_config.json.*No such file", "--alpha", "4")
        config.unlink()
        self.write(base, {"fc.weight": self.normal(4, 3)})
        said = self.succeed("params", "merge", self.base, self.adapter, "-o", self.out).stderr
        self.assertIn("warning: the adapter has no factors, only tensors that replace those of the base", said)
        # Of a name, the layer must be the same.
        self.write({"other.weight": np.zeros((4, 3), np.float32)}, {PREFIX + "weight": self.normal(4, 3)})
        self.out.unlink()
        self.refuse("has no tensor 'weight'")

    def test_wide_types_are_written_first(self):
        base = {"a.weight": self.normal(3, 3, kind=np.float16), "c": self.normal(3, kind=np.float64), "ids": np.arange(5, dtype=np.int64),
                "b.weight": self.normal(4, 3, kind=np.float32)}
        self.write(base, self.factors("b", 2, 3, 4))
        self.merge("--all", "--type", "bf16")
        header = json.loads(self.out.read_bytes()[8:8 + int.from_bytes(self.out.read_bytes()[:8], "little")])
        begins = {name: one["data_offsets"][0] for name, one in header.items() if name != "__metadata__"}
        self.assertEqual(begins["ids"], 0)

    def test_convolutions_embeddings_and_whole_tensors(self):
        base = {"conv.weight": self.normal(6, 4, 3, 3), "table.weight": self.normal(11, 4), "score.weight": self.normal(2, 4, kind=np.float16),
                "score.bias": self.normal(2)}
        a, b = self.normal(2, 4, 3, 3), self.normal(6, 2, 1, 1)
        rows, columns = self.normal(2, 11), self.normal(4, 2)
        adapter = {PREFIX + "conv.lora_A.weight": a, PREFIX + "conv.lora_B.weight": b, PREFIX + "table.lora_embedding_A": rows,
                   PREFIX + "table.lora_embedding_B": columns, PREFIX + "score.modules_to_save.weight": self.normal(2, 4),
                   PREFIX + "score.bias": self.normal(2)}
        self.write(base, adapter)
        got = self.merge()
        np.testing.assert_allclose(got["conv.weight"], base["conv.weight"] + 4 * np.einsum("ok,kihw->oihw", b[:, :, 0, 0], a), 1e-4, 1e-5)
        np.testing.assert_allclose(got["table.weight"], base["table.weight"] + 4 * (columns @ rows).T, 1e-4, 1e-5)
        self.assert_same({name: got[name] for name in ("score.weight", "score.bias")},
                         {"score.weight": adapter[PREFIX + "score.modules_to_save.weight"].astype(np.float16),
                          "score.bias": adapter[PREFIX + "score.bias"]})
        self.assertIn("2 merged, 2 replaced", self.summary)

    def test_other_names_are_found_or_said(self):
        adapter = {**self.factors("model.layers.0.q", 2, 3, 4), **self.factors("model.layers.1.q", 2, 3, 4)}
        zero = np.zeros((4, 3), np.float32)
        product = (8 / 2 * self.product(adapter, "model.layers.0.q")).astype(np.float32)
        for first in ("inner.model.layers.0.q.weight", "layers.0.q.weight"):
            self.write({first: zero, "model.layers.1.q.weight": zero}, adapter)
            self.assertTrue(np.array_equal(self.merge()[first], product))
            self.assertIn(f"1 have other names than in the adapter, such as '{first}' for 'model.layers.0.q.weight'", self.summary)
        self.write({"val_1=2": zero, "model.layers.1.q.weight": zero}, adapter)
        self.assertTrue(np.array_equal(self.merge("--rename", "model.layers.0.q.weight=val_1=2")["val_1=2"], product))
        self.out.unlink()
        self.refuse("base.safetensors' has no tensor 'model.layers.0.q.weight'; did you mean 'model.layers.1.q.weight'.; otherwise --rename 'model.layers.0.q.weight=NAME'")
        self.refuse("--rename 'model.layers.7.q.weight=val_1=2': the adapter does not change 'model.layers.7.q.weight'; did you mean", "--rename", "model.layers.7.q.weight=val_1=2", code=2)
        self.refuse("--rename 'model.layers.0.q.weight=val': '.*' has no tensor 'val'", "--rename", "model.layers.0.q.weight=val", code=2)
        self.refuse("--rename 'x': expected OLD=NEW", "--rename", "x", code=2)
        self.refuse("'model.layers.0.q.weight' and 'model.layers.1.q.weight' of the adapter would both be 'model.layers.1.q.weight'", "--rename",
                    "model.layers.0.q.weight=model.layers.1.q.weight")
        self.write({"a.layers.0.q.weight": zero, "a.model.layers.0.q.weight": zero, "b.model.layers.0.q.weight": zero}, adapter)
        self.refuse("which may be 'a.model.layers.0.q.weight' or 'b.model.layers.0.q.weight'")

    def test_mistakes_are_named_and_nothing_is_written(self):
        good, base = self.factors("fc", 2, 3, 4), {"fc.weight": np.zeros((4, 3), np.float32)}
        a, b = good
        for adapter, text in (
            ({a: good[a]}, "tensor 'base_model.model.fc.lora_A.weight' has no partner: a weight needs lora_A and lora_B"),
            ({**good, b: self.normal(4, 3)}, r"'base_model.model.fc.lora_A.weight', f32\[2,3\], and 'base_model.model.fc.lora_B.weight', f32\[4,3\], have no product"),
            ({**good, b: self.normal(9, 2)}, r"weight 'fc.weight' is f32\[4,3\], and the product of the adapter's factors, f32\[9,2\] and f32\[2,3\], is \[9,3\]"),
            ({a: self.normal(0, 3), b: self.normal(4, 0)}, "have no product of a rank"),
            ({**good, a: np.zeros((2, 3), np.int8)}, r"'base_model.model.fc.lora_A.weight' is i8\[2,3\], which is not a float"),
            ({**good, a: np.zeros(2, np.float32)}, "a factor has 2 dimensions or more"),
            ({**good, PREFIX + "fc.lora_magnitude_vector": np.ones(4, np.float32)}, "is of DoRA, which is not supported; merge it with PEFT"),
            ({**good, PREFIX + "fc.lora_B.bias": np.ones(4, np.float32)}, "lora_bias is not supported"),
            ({**good, PREFIX + "fc.lora_C.weight": np.ones((4, 4), np.float32)}, "'lora_C' is not a factor that this version knows"),
            ({**good, PREFIX + "fc.lora_A.other.weight": good[a]}, "both change 'fc.weight'; save one adapter per file"),
            ({**good, PREFIX + "fc.weight": base["fc.weight"]}, "both change 'fc.weight'"),
            ({a: good[a], PREFIX + "fc.lora_embedding_B": good[b]}, "'fc.weight' has factors of an embedding and others"),
            ({**good, PREFIX + "fc.token_adapter.trainable_tokens_delta": self.normal(1, 3)}, "trainable_token_indices is not supported; merge it with PEFT"),
            ({PREFIX + "fc.weight": np.zeros((4, 3), np.int8)}, r"is f32\[4,3\], and i8\[4,3\] in the adapter, which replaces it; give the base of this adapter"),
            ({"lora_unet_fc.lora_down.weight": good[a]}, "'lora_down' is not a factor"),
            ({"lora_te_fc.alpha": np.float32(1).reshape(())}, "is not named as in PEFT's files"),
            ({**good, PREFIX + "head.weight": self.normal(1, 3)}, "has no tensor 'head.weight'"),
            ({PREFIX + "fc.weight": self.normal(1, 3)}, r"tensor 'fc.weight' is f32\[4,3\] in '.*base.safetensors', and f32\[1,3\] in the adapter, which replaces it"),
            ({}, "it has no tensors"),
        ):
            self.write(base, adapter)
            self.refuse(text)
        for config, text in (
            ({"peft_type": "LOHA"}, 'its peft_type is "LOHA", and only "LORA" is supported'),
            ({"use_dora": True}, "use_dora is set"),
            ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights is 'pissa_niter_4', which also changes the weights of the base"),
            ({"init_lora_weights": "lora_ga"}, "init_lora_weights is 'lora_ga', which also changes the weights of the base"),
            ({"init_lora_weights": "new"}, "init_lora_weights is 'new', which this version does not know: .* merge it with PEFT"),
            ({"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens is set"),
            ({"use_rslora": "true"}, 'use_rslora is "true", and not true or false; correct it'),
            ({"fan_in_fan_out": 1}, "fan_in_fan_out is 1, and not true or false"),
            ({"use_qalora": True}, "QALoRA is not supported"),
            ({"layer_replication": [[0, 4], [2, 5]]}, "layer_replication is not supported"),
            ({"lora_alpha": "8"}, 'lora_alpha of \'fc\' is "8", which is not a number'),
            ({"alpha_pattern": {"(": 3}}, r"alpha_pattern '\(' is not a pattern"),
        ):
            self.write(base, good, **config)
            self.refuse(text)
        (self.folder / "adapter_config.json").write_text("[" * 100_000)
        self.refuse("it is not JSON")
        self.write({"fc.weight": np.zeros((4, 3), np.int8)}, good)
        self.refuse(r"tensor 'fc.weight' of '.*' is i8\[4,3\], and a product can only be added to floats")
        self.write(base, good)
        result = heddle("params", "merge", self.base, self.adapter, "-o", self.base)
        self.assertEqual((result.code, "-o would overwrite BASE" in result.stderr), (2, True), str(result))
        result = heddle("params", "merge", self.base, self.adapter, "-o", self.folder / "o.npz")
        self.assertEqual((result.code, "expected .safetensors" in result.stderr), (2, True), str(result))

    def test_numbers_that_become_infinite_are_counted(self):
        self.write({"fc.weight": np.full((2, 2), 65000, np.float16)},
                   {PREFIX + "fc.lora_A.weight": np.float32([[1, 1000]]), PREFIX + "fc.lora_B.weight": np.ones((2, 1), np.float32)}, lora_alpha=1)
        result = self.succeed("params", "merge", self.base, self.adapter, "-o", self.out)
        self.assertIn("warning: 2 numbers of tensor 'fc.weight' are too large for their type and became infinite", result.stderr)


class MergedModule(MergeCase):
    def test_a_module_computes_with_merged_weights(self):
        """MatMul's weight is [in, out]; the result is that of the model that was compiled with merged weights."""
        weights = {"fc.weight": self.normal(48, 32), "fc.bias": self.normal(32), "out.weight": self.normal(7, 32)}
        adapter = {**self.factors("fc", 4, 48, 32), **self.factors("out", 4, 32, 7)}
        merged = {**weights, "fc.weight": weights["fc.weight"] + 2 * self.product(adapter, "fc").T.astype(np.float32),
                  "out.weight": weights["out.weight"] + 2 * self.product(adapter, "out").astype(np.float32)}
        modules = {}
        for name, values in (("model", weights), ("merged", merged)):
            nodes = [helper.make_node("MatMul", ["x", "fc.weight"], ["a"]), helper.make_node("Add", ["a", "fc.bias"], ["b"]),
                     helper.make_node("Relu", ["b"], ["c"]), helper.make_node("Gemm", ["c", "out.weight"], ["y"], transB=1)]
            ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 48]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 7])]
            graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], [numpy_helper.from_array(value, one) for one, value in values.items()])
            onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), self.folder / f"{name}.onnx")
            self.succeed("compile", self.folder / f"{name}.onnx", "-o", self.folder / f"{name}.heddle", "--params-out",
                         self.folder / f"{name}.safetensors")
            modules[name] = self.folder / f"{name}.heddle", self.folder / f"{name}.safetensors"
        self.base = modules["model"][1]
        write_safetensors(self.adapter, adapter)
        overlay = self.merge("--alpha", "8")
        self.assertEqual(sorted(overlay), ["fc.weight", "out.weight"])
        x = self.normal(5, 48)
        expected = self.run_module(modules["merged"][0], "x", x, "--params", modules["merged"][1])
        got = self.run_module(modules["model"][0], "x", x, "--params", self.base, "--params-over", self.out)
        self.assert_close(got, expected, 1e-5, 1e-4)
        self.assertGreater(np.abs(got - self.run_module(modules["model"][0], "x", x, "--params", self.base)).max(), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
