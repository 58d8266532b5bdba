# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(backend="heddle") under autocast on a CPU: results and gradients have the types of eager mode, and are as near to those in f64. What PyTorch's
settings about TF32 become. Skipped without PyTorch (tools/dev/setup --torch)."""
import copy
import unittest

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _precision
    from heddle.torch._program import settings
    from torch.fx.experimental.proxy_tensor import make_fx


if torch is not None:
    class Mixed(nn.Module):
        """Operators that autocast computes in 16 bits (convolution, products, attention), in f32 (losses), and in the type of their arguments."""

        def __init__(self):
            super().__init__()
            self.convolution, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Linear(8, 16)
            self.layer, self.heads, self.last = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 4)

        def forward(self, x):
            y = torch.relu(self.norm(self.convolution(x))).flatten(2).transpose(1, 2)
            q, k, v = self.heads(self.layer(self.linear(y)))[:, None].chunk(3, -1)
            y = nn.functional.scaled_dot_product_attention(q, k, v)[:, 0]
            logits = self.last(y).mean(1)
            return logits, nn.functional.mse_loss(logits, torch.ones_like(logits))


def error(got, exact):
    return float((got.detach().double() - exact.detach()).abs().max() / exact.detach().abs().max())


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Autocast(unittest.TestCase):
    LIMITS = {"bfloat16": 0.02, "float16": 0.002}  # relative to the largest number; eager mode has about a tenth of it

    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        heddle.torch.clear()

    def check(self, dtype, is_inside):
        model, x = Mixed(), torch.randn(2, 3, 6, 6)
        eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
        limit = self.LIMITS[str(dtype).removeprefix("torch.")]

        def within(one):
            def call(x):
                with torch.autocast("cpu", dtype):
                    return one(x)
            return call

        compiled = torch.compile(within(model) if is_inside else model, backend=heddle.torch.backend)
        ours, theirs, wanted = (compiled if is_inside else within(compiled))(x), within(eager)(x), exact(x.double())
        self.assertEqual([one.dtype for one in ours], [dtype, torch.float32])
        self.assertEqual([one.dtype for one in theirs], [dtype, torch.float32])
        for got, own, right in zip(ours, theirs, wanted, strict=True):
            self.assertLess(error(got, right), max(4 * error(own, right), limit / 4))
            self.assertLess(error(own, right), limit)
        for one in (ours, theirs, wanted):
            one[1].backward()
        for (name, a), b, c in zip(model.named_parameters(), eager.parameters(), exact.parameters(), strict=True):
            self.assertEqual(a.grad.dtype, torch.float32)
            self.assertLess(error(a.grad, c.grad), max(4 * error(b.grad, c.grad), limit), name)
        for (name, a), b in zip(model.named_buffers(), eager.named_buffers(), strict=True):
            torch.testing.assert_close(a, b[1], rtol=limit, atol=limit, msg=name)
        self.assertEqual([(graph.kind, graph.fallbacks) for graph in heddle.torch.graphs()], [("forward", []), ("backward", [])])

    def test_bf16_inside_of_the_compiled_function(self):
        self.check(torch.bfloat16, True)

    def test_f16_around_the_compiled_module(self):
        self.check(torch.float16, False)

    def test_the_context_is_a_part_of_what_is_compiled(self):
        model, x = nn.Linear(4, 4), torch.randn(2, 4)
        function = torch.compile(model, backend=heddle.torch.backend)
        with torch.no_grad():
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float32):
                with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                    got, wanted = function(x), model(x)
                self.assertEqual((got.dtype, wanted.dtype), (dtype, dtype))
                torch.testing.assert_close(got, wanted)

    def test_training_with_a_scaler(self):
        models = [nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 1))]
        models.append(copy.deepcopy(models[0]))
        x, losses = torch.randn(32, 4), []
        for model, is_ours in zip(models, (True, False)):
            function = torch.compile(model, backend=heddle.torch.backend) if is_ours else model
            optimizer, scaler, found = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024), []
            for _ in range(10):
                with torch.autocast("cpu", torch.float16):
                    loss = ((function(x)[:, 0] - x.sum(1)) ** 2).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                found.append(loss.item())
            losses.append(found)
        self.assertLess(losses[0][-1], losses[0][0] / 2)
        for a, b in zip(*losses, strict=True):
            self.assertAlmostEqual(a, b, delta=0.01 * losses[1][0])


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Precision(unittest.TestCase):
    def setUp(self):
        products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn.conv
        self.addCleanup(setattr, products, "fp32_precision", products.fp32_precision)
        self.addCleanup(setattr, convolutions, "fp32_precision", convolutions.fp32_precision)

    def test_the_settings_choose_the_policy_of_a_graph(self):
        def both(x, filters, matrix):
            return nn.functional.conv2d(x, filters).flatten(1) @ matrix

        with_convolution = make_fx(both)(torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3), torch.randn(12, 5)).graph.nodes
        without = make_fx(torch.mm)(torch.randn(2, 3), torch.randn(3, 2)).graph.nodes
        wanted = {("ieee", "tf32"): ("fast-convolutions", ""), ("tf32", "tf32"): ("fast", "fast"), ("tf32", "ieee"): ("", "fast"), ("ieee", "ieee"): ("", "")}
        for (products, convolutions), policies in wanted.items():
            torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = products, convolutions
            with self.subTest(products=products, convolutions=convolutions):
                self.assertEqual(tuple(_precision.math_of(nodes, torch.device("cuda")) for nodes in (with_convolution, without)), policies)
                self.assertEqual(_precision.math_of(with_convolution, torch.device("cpu")), "")

    def test_settings_that_pytorch_does_not_say(self):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        with self.assertRaises(RuntimeError):
            torch.get_float32_matmul_precision()
        self.assertIn((True, _precision.allowed()[1]), settings())
        torch._dynamo.reset()
        compiled = torch.compile(torch.sin, backend=heddle.torch.backend)
        torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3).sin())


if __name__ == "__main__":
    unittest.main()
