# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators for which PyTorch has no decomposition are computed by Heddle, as in eager mode, and so are their gradients. Skipped without PyTorch."""
import unittest
import warnings

import heddle

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Composed(unittest.TestCase):
    def check(self, function, *arguments, dynamic=None):
        """Results, and the gradients of arguments that are floats, of which none runs in PyTorch. The function gives a tensor or a list."""
        torch._dynamo.reset()
        heddle.torch.clear()
        found = []
        for one in (function, torch.compile(function, backend=heddle.torch.backend, fullgraph=True, dynamic=dynamic)):
            given = [x.clone().requires_grad_(x.is_floating_point()) for x in arguments]
            results = one(*given)
            results = results if isinstance(results, list) else [results]
            if results[0].requires_grad:
                sum(torch.sin(y).sum() for y in results).backward()
            found.append([*(y.detach() for y in results), *(x.grad for x in given if x.grad is not None)])
        self.assertEqual(len(found[0]), len(found[1]))
        for i, (eager, ours) in enumerate(zip(*found)):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, msg=lambda text: f"result {i}: {text}")
        self.assertEqual([one.operator for graph in heddle.torch.graphs() for one in graph.fallbacks], [])

    def setUp(self):
        torch.manual_seed(0)

    def test_pools(self):
        f = nn.functional

        def of_images(x):
            values, places = f.max_pool2d(x, 2, return_indices=True)
            made = [f.max_unpool2d(values, places, 2, output_size=x.shape[2:]), f.adaptive_avg_pool1d(x[0], 5)]
            for size in ((3, 4), (2, 5), (9, 11), (20, 1)):
                made += [f.adaptive_avg_pool2d(x, size), f.adaptive_max_pool2d(x, size)]
            return made

        self.check(of_images, torch.randn(2, 4, 9, 11))
        self.check(lambda x: [f.adaptive_avg_pool3d(x, (2, 4, 3)), f.avg_pool3d(x, 2, padding=1), f.max_pool3d(x, 2)], torch.randn(2, 3, 5, 6, 7))

        self.check(lambda x: [f.adaptive_max_pool3d(x, size) for size in ((2, 3, 2), (1, 2, 3), (3, 4, 5))], torch.randn(2, 3, 4, 6, 5))

        self.check(lambda x: [f.adaptive_avg_pool3d(x, (2, 4, 3)), f.adaptive_avg_pool2d(x[:, :, 0], (4, 3))], torch.randn(0, 3, 5, 6, 7))

    def test_numbers_that_are_easily_lost(self):
        inf, nan = float("inf"), float("nan")

        def same(function, *arguments, rtol=0.0):
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=heddle.torch.backend, fullgraph=True)
            torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=rtol, atol=0, equal_nan=True)

        # Remainders are exact, also where the quotient has more digits than f64.
        x = torch.tensor([1., 1., 1., 6., -1., -7.5, 1e15, 3e17, 1e300, inf, 5., nan, 1., -0., 0.3], dtype=torch.float64)
        y = torch.tensor([0.1, 0.2, 0.01, 0.6, 0.1, 2., 0.7, 6.2831855, 1e299, 2., inf, 1., 0., 3., 0.1], dtype=torch.float64)
        for function in (torch.floor_divide, torch.remainder, torch.fmod):
            same(function, x, y)
            same(function, x.float().clamp(-1e30, 1e30), y.float().clamp(max=1e30))
            same(function, x[:5].bfloat16(), y[:5].bfloat16())
        same(lambda x: torch.signbit(torch.fmod(x, 3.0)), torch.tensor([-0., 0., -3., 3., -1.]))
        same(lambda x: [x % 6.2831855, x // 0.1], torch.tensor([1e15, 1e17, 1e20, 0.5]))
        # 1 - erf(x) has no digits left from 4 on.
        for dtype, rtol in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
            same(torch.erfc, torch.cat([torch.linspace(-6, 9, 301), torch.tensor([inf, -inf, nan, 2.5])]).to(dtype), rtol=rtol)
        # What is cast to 16 bits has 16 bits.
        x = torch.tensor([1e5, 70000, 1e-8, 0.1, 1.01, -inf, nan])
        same(lambda x: [x.half().float(), x.half().isinf(), x - x.bfloat16().float(), x.bfloat16() * 2, x.double().half().double()], x)
        same(lambda n: n.half().float(), torch.tensor([70000, 2049]))
        # A factor of 0 leaves the product out.
        same(lambda x: torch.addmm(torch.ones(2, 2), x, x.T, alpha=0), torch.tensor([[nan, 1.], [inf, 1.]]))

    def test_places_of_largest(self):
        """Of equal elements the first one counts, of NaNs the last one, and never a pad."""
        f = nn.functional
        given = torch.randint(-2, 3, (2, 3, 9, 11)).float()
        given[given == 2] = float("nan")
        given[:, 1] = -float("inf")
        given[0, 0, ::2] = given[0, 0, ::2].nan_to_num(1)
        windows = [dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)), dict(kernel_size=2, ceil_mode=True),
                   dict(kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True), dict(kernel_size=4, stride=3, padding=2, dilation=(1, 3)),
                   dict(kernel_size=5, stride=2, padding=2)]
        for type in (torch.float32, torch.float64, torch.bfloat16):
            for window in windows:
                x = given.to(type)

                def places(x, window=window):
                    return [*f.max_pool2d(x, **window, return_indices=True), *f.max_pool2d(x[0], **window, return_indices=True)]

                torch._dynamo.reset()
                compiled = torch.compile(places, backend=heddle.torch.backend, fullgraph=True)
                with self.subTest(type=type, window=window):
                    for ours, eager in zip(compiled(x), places(x), strict=True):
                        torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)
        for x, window in ((torch.randint(-9, 9, (2, 3, 9, 11)), windows[0]), (torch.randn(2, 3, 9, 11), dict(kernel_size=7, padding=3)),
                          (torch.randn(0, 3, 9, 11), windows[0]), (torch.randn(2, 3, 9, 11).half(), windows[1])):
            for dynamic in (False, True):
                torch._dynamo.reset()
                compiled = torch.compile(lambda x, window=window: f.max_pool2d(x, **window, return_indices=True), backend=heddle.torch.backend, dynamic=dynamic)
                with self.subTest(type=x.dtype, window=window, dynamic=dynamic):
                    for ours, eager in zip(compiled(x), f.max_pool2d(x, **window, return_indices=True), strict=True):
                        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
        self.check(lambda x: [*f.max_pool3d(x, 2, 1, return_indices=True), *f.max_pool3d(x, 3, return_indices=True)], torch.randn(2, 3, 5, 6, 7))

    def test_samples_of_images_and_volumes(self):
        def function(x, grid):
            modes = ("bilinear", "nearest", "bicubic") if x.ndim == 4 else ("bilinear", "nearest")
            return [nn.functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=corners) for mode in modes
                    for padding in ("zeros", "border", "reflection") for corners in (True, False)]

        self.check(function, torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 2))
        self.check(function, torch.randn(2, 2, 3, 4, 1), torch.randn(2, 3, 2, 2, 3))
        self.check(lambda x, grid: nn.functional.grid_sample(x, grid, padding_mode="reflection", align_corners=False), torch.randn(2, 3, 4, 5),
                   torch.randn(2, 3, 4, 2), dynamic=True)

    def test_losses_of_margins(self):
        f = nn.functional
        target = torch.tensor([[3, 0, -1, 1], [-1, 0, 0, 0], [1, 1, 2, -1]])  # PyTorch's own decompositions are wrong for a -1 and for a single sample

        def losses(x):
            made = [f.multilabel_margin_loss(x, target, reduction=how) for how in ("none", "mean", "sum")]
            made += [f.multilabel_margin_loss(x[0], target[0], reduction=how) for how in ("none", "mean")]
            made += [f.multi_margin_loss(x[0], target[0, 0], p=p, reduction=how) for how in ("none", "mean") for p in (1, 2)]
            return made + [f.multi_margin_loss(x, target[:, 1], reduction="none")]

        self.check(losses, torch.randn(3, 4))

    def test_resampling_of_symbolic_size(self):
        def function(x):
            return nn.functional.interpolate(x, size=(5, 7), mode="bicubic", antialias=True)

        compiled = torch.compile(function, backend=heddle.torch.backend, dynamic=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for size in ((2, 3, 9, 11), (2, 3, 10, 12)):  # PyTorch cannot trace the gradient with symbols
                x, gradients = torch.randn(size), []
                for one in (function, compiled):
                    x = x.detach().requires_grad_()
                    one(x).sin().sum().backward()
                    gradients.append(x.grad)
                torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)

    def test_resampling(self):
        def function(x):
            return [nn.functional.interpolate(x, mode=mode, antialias=True, **how) for mode in ("bilinear", "bicubic")
                    for how in ({"size": (5, 20)}, {"size": (4, 2), "align_corners": True}, {"scale_factor": 0.4}, {"scale_factor": (1.7, 0.3)})]

        self.check(function, torch.randn(2, 3, 9, 11))

    def test_padding_and_views(self):
        pad = nn.functional.pad
        self.check(lambda x: [pad(x, (2, 1, 0, 3), mode="replicate"), pad(x[0], (2, 0), mode="replicate"), x.unfold(2, 3, 1).unfold(0, 2, 1) * 2],
                   torch.randn(2, 3, 4, 5))

    def test_products(self):
        def distances(a, b, c):
            return [torch.cdist(a, other, p) for other in (b, c) for p in (0.0, 1.0, 2.0, 3.0, float("inf"))] + [torch.pdist(a[0], p) for p in (1.0, 2.0)]

        self.check(distances, torch.randn(2, 5, 3), torch.randn(2, 4, 3), torch.randn(2, 30, 3))  # 25 and more rows are multiplied
        self.check(nn.functional.bilinear, torch.randn(6, 4), torch.randn(6, 5), torch.randn(3, 4, 5))

    def test_embeddings(self):
        f, offsets = nn.functional, torch.tensor([0, 2, 2, 6])  # the second bag is empty

        def bags(weight, each, index, offsets):
            return [f.embedding_bag(index, weight, offsets), f.embedding_bag(index, weight, offsets, mode="sum", padding_idx=3),
                    f.embedding_bag(index, weight, offsets, mode="sum", per_sample_weights=each),
                    f.embedding_bag(index, weight, torch.cat([offsets, offsets.new_tensor([7])]), include_last_offset=True, padding_idx=1),
                    f.embedding_bag(index.view(1, 7), weight), f.embedding(index, weight, 3, scale_grad_by_freq=True)]

        self.check(bags, torch.randn(9, 4), torch.randn(7), torch.tensor([1, 3, 3, 8, 1, 0, 3]), offsets)

    def test_fast_paths_of_attention(self):
        x, causal, padding = torch.randn(2, 5, 16), torch.ones(5, 5).triu(1).bool(), torch.arange(5) > torch.tensor([[2], [4]])
        layers = [nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options).eval() for options in ({}, {"norm_first": True, "activation": "gelu"})]
        attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()

        def all_ways(x):
            x = x.detach()
            masks = ({}, {"src_mask": causal}, {"src_key_padding_mask": padding}, {"src_mask": causal, "src_key_padding_mask": padding})
            return [layer(x, **one) for layer in layers for one in masks] + [attention(x, x, x, need_weights=False)[0]]

        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for dynamic in (False, True):
                self.check(all_ways, x, dynamic=dynamic)

    def test_shifts_and_powers(self):
        def function(a, b):
            return [a << b, a >> b, a << 3, a >> 2, 2 << b, 100 >> b, a ** 3, a ** 0]

        for kind in (torch.uint8, torch.int8, torch.int32, torch.int64):
            a = torch.tensor([0, 1, 7, 100, 127] + ([-1, -100, -128] if kind.is_signed else []), dtype=kind)
            with self.subTest(kind):
                self.check(function, a, torch.tensor([0, 1, 3, 7, 9, 40, 64, 5][:len(a)], dtype=kind))
        self.check(lambda a: [a << 70, a >> 70, a << -1, a >> -1], torch.tensor([5, -5]))

    def test_slices_at_indices(self):
        def function(x, source, index):
            return [x.index_add(1, index, source, alpha=2), x.index_copy(1, index[1:], source[:, 1:]), x.index_fill(0, index - 4, 3.0)]

        x, source, index = torch.randn(5, 6, 2), torch.randn(5, 3, 2), torch.tensor([4, 0, 4])
        self.check(function, x, source, index)
        self.check(lambda x, source, index: x.index_add(-2, index, source), (x * 9).int(), (source * 9).int(), index)

    def test_elements_at_indices(self):
        def function(x, source, index):
            return [x.put(index, source), x.t().put(index, source, accumulate=True), x.take(index), x.take(index[0, 0]), x.take(index[:0]),
                    x.put(index[1, 1], source[0, 0])]

        x, source, index = torch.randn(3, 4), torch.randn(2, 2), torch.tensor([[5, -1], [0, -12]])
        self.check(function, x, source, index)
        self.check(function, x, source, index, dynamic=True)
        self.check(lambda x, index: x.put(index, x[:2, 0], accumulate=True), x, torch.tensor([7, 7]))

    def test_indices_outside_of_a_tensor(self):
        def unpooled(x, index):
            return nn.functional.max_unpool2d(x[None, :1, :2], index.view(1, 1, 2), 2, output_size=(2, 4))

        x = torch.randn(4, 2)
        for name, function, wrong in (("index_add", lambda x, index: x.index_add(0, index, x[:2]), (-1, 4)),
                                      ("index_copy", lambda x, index: x.index_copy(0, index, x[:2]), (-1, 4)),
                                      ("index_fill", lambda x, index: x.index_fill(0, index, 1.0), (-5, 4)),
                                      ("put", lambda x, index: x.put(index, x[0]), (-9, 8)), ("take", lambda x, index: x.take(index), (-9, 8)),
                                      ("max_unpool2d", unpooled, (-1, 8))):
            compiled = torch.compile(function, backend=heddle.torch.backend)
            for one in wrong:
                with self.subTest(name, index=one):
                    index = torch.tensor([0, one])
                    self.assertRaises((IndexError, RuntimeError), function, x, index)
                    self.assertRaises(heddle.Error, compiled, x, index)

    def test_one_result_of_several_is_for_pytorch(self):
        x = torch.randn(7, 5)
        compiled = torch.compile(lambda x: torch.kthvalue(x.sort(0)[1] * 1.0, 2)[0], backend=heddle.torch.backend, fullgraph=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(compiled(x), torch.kthvalue(x.sort(0)[1] * 1.0, 2)[0])
            of_index = torch.compile(lambda x: x.sort(0)[1].kthvalue(2)[0], backend=heddle.torch.backend, fullgraph=True)
            torch.testing.assert_close(of_index(x), x.sort(0)[1].kthvalue(2)[0])

    def test_averages_of_integers_are_refused(self):
        x = torch.randint(-9, 9, (1, 1, 7, 5, 7))
        heddle.torch.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.compile(lambda x: nn.functional.avg_pool3d(x, (6, 3, 4), (2, 3, 2), (3, 1, 0), False, False, 2), backend=heddle.torch.backend)(x)
        self.assertTrue(torch.equal(made, nn.functional.avg_pool3d(x, (6, 3, 4), (2, 3, 2), (3, 1, 0), False, False, 2)))
        self.assertEqual([one.operator for graph in heddle.torch.graphs() for one in graph.fallbacks], ["aten.avg_pool3d.default"])

    def test_gradient_of_an_embedding_leaves_out_what_is_no_row(self):
        for padding in (-1, 0):
            self.check(lambda gradient, index: torch.ops.aten.embedding_dense_backward(gradient.detach(), index, 5, padding, False),
                       torch.randn(7, 2), torch.tensor([1, -1, 4, -5, 5, 0, -6]))


if __name__ == "__main__":
    unittest.main()
