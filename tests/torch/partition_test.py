# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attentions under torch.compile(backend="heddle") are one kernel, and in training the backward pass computes their probabilities again: the forward pass
does not keep them. Gradients are those of f64. Skipped without PyTorch (tools/dev/setup --torch)."""
import contextlib
import glob
import json
import math
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import caches

try:
    import torch
    from torch.nn import functional as f
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _backend, _read_text

HEDDLE = os.path.join(os.environ.get("HEDDLE_BIN", ""), "heddle")
BATCH, HEADS, LENGTH, DEPTH = 2, 4, 96, 16  # probabilities of 288 KiB, and 72 KiB of queries, keys and values


def tensors(length=None, heads=HEADS):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(BATCH, one, length or LENGTH, DEPTH, generator=generator) for one in (HEADS, heads, heads)]


def masks(length=None):
    """Two for each text: of truth values, and of floats. Query 5 sees no key."""
    visible = torch.rand(BATCH, 1, length or LENGTH, length or LENGTH, generator=torch.Generator().manual_seed(2)) > 0.5
    visible[:, :, 5] = False
    return visible, torch.where(visible, torch.randn(visible.shape, generator=torch.Generator().manual_seed(3)), -math.inf)


def reference(q, k, v, mask=None, kept=None, p=0.0):
    """By hand, with the type of the arguments."""
    k, v = (one.repeat_interleave(HEADS // one.shape[1], 1) for one in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(scores.dtype)
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    weights = torch.where(hidden, 0.0, torch.where(hidden, 0.0, scores).softmax(-1))
    return (weights if kept is None else weights * kept / (1 - p)) @ v


@unittest.skipIf(torch is None, "PyTorch is not installed (tools/dev/setup --torch)")
class PartitionTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        heddle.torch.clear()

    def explained(self, kind):
        """What `heddle explain` says of the only module of that kind."""
        path, = next(one for one in heddle.torch.graphs() if one.kind == kind).modules
        return json.loads(subprocess.run([HEDDLE, "explain", "--format", "json", path], check=True, capture_output=True, text=True).stdout)

    def attentions(self, kind="forward"):
        return sum(one["strategy"] == "attention" for one in self.explained(kind)["compiler_report"]["kernels"])

    def kept(self):
        """Shapes of what the forward pass gives."""
        return [tuple(one["dims"]) for one in self.explained("forward")["functions"][0]["results"]]

    def squares(self, length=LENGTH):
        """Of what it gives, those that have a number for each query and key."""
        return [one for one in self.kept() if one[-2:] == (length, length)]

    def gradients(self, function, arguments, dynamic=()):
        arguments = [one.detach().requires_grad_() for one in arguments]
        for one in arguments:
            torch._dynamo.mark_dynamic(one, list(dynamic))
        y = function(*arguments)
        (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum().backward()
        return [y.detach(), *(one.grad for one in arguments)]

    def check(self, function, expected, arguments, *, fused=1, seed=None, dynamic=()):
        if seed is not None:
            torch.manual_seed(seed)
        found = self.gradients(torch.compile(function, backend=heddle.torch.backend), arguments, dynamic)
        for got, wanted in zip(found, self.gradients(expected, [one.double() for one in arguments]), strict=True):
            self.assertFalse(bool(got.isnan().any()))
            torch.testing.assert_close(got.double(), wanted, rtol=1e-4, atol=1e-5)
        if fused is not None:
            self.assertEqual(self.attentions(), fused)
            self.assertEqual(self.squares(), [])

    def test_forms(self):
        visible, bias = masks()
        causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        for name, of, mask in (("plain", {}, None), ("causal", {"is_causal": True}, causal), ("truth values", {"attn_mask": visible}, visible),
                               ("floats", {"attn_mask": bias}, bias), ("a scale", {"scale": 1 / math.sqrt(DEPTH)}, None)):
            with self.subTest(name):
                self.setUp()
                self.check(lambda q, k, v, of=of: f.scaled_dot_product_attention(q, k, v, **of), lambda q, k, v, mask=mask: reference(q, k, v, mask), tensors())

    def test_grouped_heads(self):
        self.check(lambda q, k, v: f.scaled_dot_product_attention(q, k, v, enable_gqa=True), reference, tensors(heads=2))
        self.assertIn((BATCH, 2, LENGTH, DEPTH), [tuple(one["dims"]) for one in self.explained("backward")["functions"][0]["arguments"]], "keys once")

    def test_as_models_write_it(self):
        """Heads of one product, and a softmax between matmuls."""
        weight = torch.randn(3 * HEADS * DEPTH, HEADS * DEPTH, generator=torch.Generator().manual_seed(4)) / 8

        def model(x, weight):
            q, k, v = (one.view(BATCH, LENGTH, HEADS, DEPTH).transpose(1, 2) for one in f.linear(x, weight).split(HEADS * DEPTH, -1))
            scores = torch.matmul(q, k.transpose(2, 3)) * 0.25
            scores = scores + torch.where(torch.arange(LENGTH)[:, None] >= torch.arange(LENGTH), 0.0, -math.inf)
            return torch.matmul(f.softmax(scores, -1), v).transpose(1, 2).reshape(BATCH, LENGTH, HEADS * DEPTH)

        x = torch.randn(BATCH, LENGTH, HEADS * DEPTH, generator=torch.Generator().manual_seed(5))
        self.check(model, model, [x, weight])

    def test_dropout_draws_once(self):
        """The numbers are drawn in the forward pass, as in eager mode; the probabilities are not kept, the mask is, as truth values."""
        torch.manual_seed(7)
        kept = torch.dropout(torch.ones(BATCH, HEADS, LENGTH, LENGTH), 0.3, True) > 0
        self.check(lambda q, k, v: f.scaled_dot_product_attention(q, k, v, dropout_p=0.3), lambda q, k, v: reference(q, k, v, None, kept, 0.3), tensors(),
                   fused=None, seed=7)
        types = [one["type"] for graph in heddle.torch.graphs() if graph.kind == "forward" for path in graph.modules for one in json.loads(
            subprocess.run([HEDDLE, "explain", "--format", "json", path], check=True, capture_output=True, text=True).stdout)["functions"][0]["results"]]
        self.assertEqual([one for one in types if one.startswith("f32") and one.endswith(f"{LENGTH},{LENGTH}]")], [])

    def test_sizes_that_vary(self):
        for length in (LENGTH, 80):
            self.check(lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
                       lambda q, k, v: reference(q, k, v, torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()), tensors(length), fused=None, dynamic=[2])
        self.assertEqual(self.attentions(), 1)
        self.assertEqual(len([one for one in heddle.torch.graphs() if one.kind == "forward"]), 1)

    def test_checkpoint(self):
        def model(q, k, v):
            return checkpoint(lambda *one: f.scaled_dot_product_attention(*one).tanh(), q, k, v, use_reentrant=False)

        self.check(model, lambda q, k, v: reference(q, k, v).tanh(), tensors())

    def marked(self, function, arguments, before=lambda graph: None):
        """The nodes that are marked to be computed again."""
        found = []

        def partition(module, inputs, **options):
            before(module.graph)
            made = whole(module, inputs, **options)
            found.extend(node for node in module.graph.nodes if node.meta.get("recompute") == CheckpointPolicy.PREFER_RECOMPUTE)
            return made

        whole = _backend.partition
        with mock.patch.object(_backend, "partition", partition), mock.patch.object(_backend, "graph_cache", lambda module: None):
            self.gradients(torch.compile(function, backend=heddle.torch.backend), arguments)
        return {str(node.target) for node in found}

    def test_marks_of_others_win(self):
        def save(graph):
            for node in graph.nodes:
                if node.target is torch.ops.aten._softmax.default:
                    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE

        self.assertEqual(self.marked(f.scaled_dot_product_attention, tensors(), save), set())
        self.assertEqual(len(self.squares()), 1, "and it is kept once, not once for each view of it")
        self.setUp()
        self.assertIn("aten.bmm.default", self.marked(f.scaled_dot_product_attention, tensors()))

    def test_what_is_no_attention_is_left_to_the_cut(self):
        q, k, v = tensors()
        for name, function in {
                "a classifier": lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-1),
                "a result": lambda q, k, v: torch.cat([(p := (q @ k.transpose(-1, -2)).softmax(-1)).flatten(), (p @ v).flatten()]),
                "another dimension": lambda q, k, v: (q @ k.transpose(-1, -2)).softmax(-2) @ v}.items():
            with self.subTest(name):
                self.setUp()
                self.assertEqual(self.marked(function, (q, k, v)), set())
        with self.subTest("a small one"):
            self.setUp()
            self.assertEqual(self.marked(f.scaled_dot_product_attention, tensors(8)), set())
            self.assertEqual(len(self.squares(8)), 1)

    def test_inference(self):
        visible, bias = masks()
        for name, of in (("plain", {}), ("causal", {"is_causal": True}), ("truth values", {"attn_mask": visible}), ("floats", {"attn_mask": bias})):
            with self.subTest(name), torch.no_grad():
                self.setUp()
                q, k, v = tensors()
                found = torch.compile(f.scaled_dot_product_attention, backend=heddle.torch.backend)(q, k, v, **of)
                torch.testing.assert_close(found, f.scaled_dot_product_attention(q, k, v, **of), rtol=1e-4, atol=1e-5)
                self.assertEqual(self.attentions("inference"), 1)

    def test_16_bits(self):
        q, k, v = (one.half() for one in tensors())
        with torch.no_grad():
            found = torch.compile(f.scaled_dot_product_attention, backend=heddle.torch.backend)(q, k, v)
        self.assertEqual(found.dtype, torch.float16)
        torch.testing.assert_close(found.double(), reference(q.double(), k.double(), v.double()), rtol=2e-3, atol=2e-3)

    def test_arguments_that_are_written_to(self):
        """The backward pass has their old values, which it is the function of, whether it is given them or computes from them."""
        def before(q, k, v, mask):
            q.mul_(1.5)
            return f.scaled_dot_product_attention(q, k, v, attn_mask=mask)

        def after(q, k, v, mask):
            y = f.scaled_dot_product_attention(q.sin(), k, v, attn_mask=mask)
            q.zero_()
            mask.logical_not_()
            return y

        def no_attention(q, k, v, mask):
            y = (q.sin() * k).cos() * v
            q.zero_()
            return y

        visible, _ = masks()
        visible[:, :, 5, 0] = True
        for function in (before, after, no_attention):
            with self.subTest(function.__name__):
                self.setUp()
                found = []
                for one, element in ((torch.compile(function, backend=heddle.torch.backend), torch.float32), (function, torch.float64)):
                    q, *others = (one.to(element) for one in tensors())
                    q, mask = q.clone(), visible.clone()
                    found.append([*self.gradients(lambda k, v: one(q, k, v, mask), others), q, mask])  # pylint: disable=cell-var-from-loop
                for got, wanted in zip(*found, strict=True):
                    torch.testing.assert_close(got.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-5)

    def test_16_bits_with_reductions_in_them(self):
        """Scores beyond the range of f16, and masked ones above all that are visible."""
        q, k, v = (torch.full((1, 2, 40, 4), 200.0).half(), torch.full((1, 2, 40, 4), 200.0).half(), tensors(40)[0][:1, :2, :, :4].half())
        mask = torch.arange(40).expand(40, 40) < 20
        low = -torch.where(torch.arange(40) < 20, 60.0, 1.0)[:, None].expand(1, 2, 40, 4).half()
        before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
        try:
            for name, arguments, options in (("large", (q, k, v), {}), ("masked", (q, low, v), {"attn_mask": mask, "scale": 1.0})):
                with self.subTest(name), torch.no_grad():
                    self.setUp()
                    found = torch.compile(f.scaled_dot_product_attention, backend=heddle.torch.backend)(*arguments, **options)
                    wanted = f.scaled_dot_product_attention(*(one.double() for one in arguments), **options)
                    torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=2e-3)
        finally:
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)

    def test_the_text_is_read_again(self):
        """Its products have rank 4."""
        with tempfile.TemporaryDirectory(dir=caches.FOLDER) as folder, mock.patch.dict(os.environ, HEDDLE_TORCH_TEXTS=folder), torch.no_grad():
            q, _, v = tensors()
            k = q.clone()
            torch.compile(f.scaled_dot_product_attention, backend=heddle.torch.backend)(q, k, v)
            path, = glob.glob(os.path.join(folder, "*.mlir"))
            with open(path, encoding="utf-8") as file:
                self.assertIn("tensor<2x4x96x16xf32>, tensor<2x4x16x96xf32>) -> tensor<2x4x96x96xf32>", file.read())
            found, = _read_text.read(path)(q, k, v)
        torch.testing.assert_close(found, f.scaled_dot_product_attention(q, k, v), rtol=1e-4, atol=1e-5)

    def test_eager_mode_is_left_alone(self):
        """Also after a compilation that fails."""
        operator = torch.ops.aten.scaled_dot_product_attention.default
        with contextlib.suppress(Exception), mock.patch.object(_backend, "_Compiled", side_effect=ValueError):
            torch.compile(f.scaled_dot_product_attention, backend=heddle.torch.backend)(*tensors())
        self.assertEqual(operator.py_kernels, {})


if __name__ == "__main__":
    unittest.main()
