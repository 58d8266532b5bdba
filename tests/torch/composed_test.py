# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators for which PyTorch has no decomposition are computed by Heddle, as in eager mode, and so are their gradients. Skipped without PyTorch."""
import os
import tempfile
import unittest
import warnings

import heddle

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch

CACHE = tempfile.TemporaryDirectory(prefix="heddle-torch-test-")
os.environ["HEDDLE_TORCH_CACHE"] = CACHE.name
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(CACHE.name, "graphs")


def tearDownModule():
    CACHE.cleanup()


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Composed(unittest.TestCase):
    def check(self, function, *arguments, dynamic=None):
        """Results, and the gradients of arguments that are floats, of which none runs in PyTorch."""
        torch._dynamo.reset()
        heddle.torch.clear()
        found = []
        for one in (function, torch.compile(function, backend=heddle.torch.backend, fullgraph=True, dynamic=dynamic)):
            given = [x.clone().requires_grad_(x.is_floating_point()) for x in arguments]
            y = one(*given)
            if y.requires_grad:
                torch.sin(y).sum().backward()
            found.append([y.detach(), *(x.grad for x in given if x.grad is not None)])
        self.assertEqual(len(found[0]), len(found[1]))
        for eager, ours in zip(*found):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
        self.assertEqual([one.operator for graph in heddle.torch.graphs() for one in graph.fallbacks], [])

    def setUp(self):
        torch.manual_seed(0)

    def test_pools(self):
        f = nn.functional
        image, volume = torch.randn(2, 4, 9, 11), torch.randn(2, 3, 5, 6, 7)

        def pooled_and_back(x):
            values, places = f.max_pool2d(x, 2, return_indices=True)
            return f.max_unpool2d(values, places, 2)

        for size in ((3, 4), (2, 5), (9, 11), (20, 1)):
            with self.subTest(size):
                self.check(lambda x: f.adaptive_avg_pool2d(x, size), image)
                self.check(lambda x: f.adaptive_max_pool2d(x, size), image)
        self.check(lambda x: f.adaptive_avg_pool1d(x, 5), image[0])
        self.check(lambda x: f.adaptive_avg_pool3d(x, (2, 4, 3)), volume)
        self.check(lambda x: f.avg_pool3d(x, 2, padding=1), volume)
        self.check(lambda x: f.max_pool3d(x, 2), volume)
        self.check(pooled_and_back, torch.randn(2, 4, 8, 8))

    def test_padding_and_views(self):
        image = torch.randn(2, 3, 4, 5)
        self.check(lambda x: nn.functional.pad(x, (2, 1, 0, 3), mode="replicate"), image)
        self.check(lambda x: nn.functional.pad(x, (2, 0), mode="replicate"), image[0])
        self.check(lambda x: x.unfold(1, 3, 2).unfold(0, 2, 1) * 2, torch.randn(4, 8))

    def test_products(self):
        for rows in (4, 30):  # more than 25 are multiplied
            for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
                with self.subTest(rows=rows, p=p):
                    self.check(lambda a, b: torch.cdist(a, b, p), torch.randn(2, 5, 3), torch.randn(2, rows, 3))
        self.check(lambda a, b, w: nn.functional.bilinear(a, b, w), torch.randn(6, 4), torch.randn(6, 5), torch.randn(3, 4, 5))

    def test_fast_paths_of_attention(self):
        x, causal, padding = torch.randn(2, 5, 16), torch.ones(5, 5).triu(1).bool(), torch.arange(5) > torch.tensor([[2], [4]])
        for options in ({}, {"norm_first": True, "activation": "gelu"}):
            layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options).eval()
            for masks in ({}, {"src_mask": causal}, {"src_key_padding_mask": padding}, {"src_mask": causal, "src_key_padding_mask": padding}):
                with self.subTest(options, **masks), torch.no_grad(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    for dynamic in (False, True):
                        self.check(lambda one: layer(one.detach(), **masks), x, dynamic=dynamic)
        attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
        with torch.no_grad():
            self.check(lambda one: attention(*[one.detach()] * 3, need_weights=False)[0], x)

    def test_shifts_and_powers(self):
        for kind in (torch.uint8, torch.int8, torch.int32, torch.int64):
            a = torch.tensor([0, 1, 7, 100, 127] + ([-1, -100, -128] if kind.is_signed else []), dtype=kind)
            b = torch.tensor([0, 1, 3, 7, 9, 40, 64, 5][:len(a)], dtype=kind)
            with self.subTest(kind):
                self.check(lambda a, b: torch.stack([a << b, a >> b, a << 3, a >> 2, 2 << b, 100 >> b, a ** 3, a ** 0]), a, b)
        self.check(lambda a: torch.stack([a << 70, a >> 70, a << -1, a >> -1]), torch.tensor([5, -5]))

    def test_slices_at_indices(self):
        x, source, index = torch.randn(5, 6, 2), torch.randn(5, 3, 2), torch.tensor([4, 0, 4])
        self.check(lambda x, source, index: x.index_add(1, index, source, alpha=2), x, source, index)
        self.check(lambda x, source, index: x.index_add(-2, index, source), (x * 9).int(), (source * 9).int(), index)
        self.check(lambda x, source, index: x.index_copy(1, index[1:], source[:, 1:]), x, source, index)
        self.check(lambda x, index: x.index_fill(0, index - 4, 3.0), x, index)

    def test_indices_outside_of_a_tensor(self):
        def unpooled(x, index):
            return nn.functional.max_unpool2d(x[None, :1, :2], index.view(1, 1, 2), 2, output_size=(2, 4))

        x = torch.randn(4, 2)
        for name, function, wrong in (("index_add", lambda x, index: x.index_add(0, index, x[:2]), (-1, 4)),
                                      ("index_copy", lambda x, index: x.index_copy(0, index, x[:2]), (-1, 4)),
                                      ("index_fill", lambda x, index: x.index_fill(0, index, 1.0), (-5, 4)),
                                      ("max_unpool2d", unpooled, (-1, 8))):
            compiled = torch.compile(function, backend=heddle.torch.backend)
            for one in wrong:
                with self.subTest(name, index=one):
                    index = torch.tensor([0, one])
                    self.assertRaises((IndexError, RuntimeError), function, x, index)
                    self.assertRaises(heddle.Error, compiled, x, index)


if __name__ == "__main__":
    unittest.main()
