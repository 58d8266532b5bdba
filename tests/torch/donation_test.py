# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the forward pass keeps for the backward pass is overwritten there, and so is what one module computes for another; nothing else is: not with
retain_graph=True, and not what a hook or a view keeps. Skipped without PyTorch (tools/dev/setup --torch)."""
import json
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import caches

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _calls

HEDDLE = os.path.join(os.environ.get("HEDDLE_BIN", ""), "heddle")


def network():
    torch.manual_seed(1)
    layers = []
    for _ in range(4):
        layers += [nn.Linear(128, 128), nn.Tanh(), nn.LayerNorm(128)]
    return nn.Sequential(*layers, nn.Linear(128, 128))


@unittest.skipIf(torch is None, "PyTorch is not installed (tools/dev/setup --torch)")
class DonationTest(unittest.TestCase):
    asked: list[bool] = []  # what _is_free has answered; modules keep the function

    @classmethod
    def setUpClass(cls):
        whether = _calls._is_free
        patched = mock.patch.object(_calls, "_is_free", lambda tensor: cls.asked.append(whether(tensor)) or cls.asked[-1])
        patched.start()
        cls.addClassCleanup(patched.stop)

    def setUp(self):
        torch._dynamo.reset()
        self.asked.clear()
        self.model = network()
        self.x = torch.randn(64, 128)
        self.expected = self.gradients(self.model(self.x))
        self.compiled = torch.compile(self.model, backend=heddle.torch.backend)

    def gradients(self, y, **options):
        """Those that one more backward pass adds."""
        for one in self.model.parameters():
            one.grad = None
        y.square().mean().backward(**options)
        return [one.grad.clone() for one in self.model.parameters()]

    def check(self, found):
        for got, wanted in zip(found, self.expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)

    def test_what_forward_keeps_is_overwritten(self):
        for _ in range(3):
            self.asked.clear()
            self.check(self.gradients(self.compiled(self.x)))
            self.assertGreaterEqual(len(self.asked), 4, "values of 32 KiB that only the backward pass reads")
            self.assertTrue(all(self.asked), self.asked)

    def test_the_backward_pass_needs_less_memory(self):
        needs = {}
        for donated in (True, False):
            torch._dynamo.reset()
            with mock.patch.object(heddle.torch._backend, "donations", heddle.torch._backend.donations if donated else lambda *_: {}):
                with tempfile.TemporaryDirectory(dir=caches.FOLDER) as folder, mock.patch.dict(os.environ, HEDDLE_TORCH_CACHE=folder, TORCHINDUCTOR_CACHE_DIR=folder):
                    self.check(self.gradients(torch.compile(self.model, backend=heddle.torch.backend)(self.x)))
                    (module,) = next(one.modules for one in reversed(heddle.torch.graphs()) if one.kind == "backward")
                    path = os.path.join(folder, os.path.basename(module))
                    told = json.loads(subprocess.run([HEDDLE, "explain", "--memory", "--format", "json", path], check=True, capture_output=True).stdout)
                    needs[donated] = told["memory"][0]["programs"][0]["calls"][0]["places"][0]["arena"]
        self.assertLess(needs[True], needs[False])

    def test_a_graph_that_is_retained_stays_right(self):
        """Also if it was compiled for a backward pass that retained nothing, which PyTorch refuses for backends that then overwrite it in any case."""
        self.check(self.gradients(self.compiled(self.x)))
        y = self.compiled(self.x)
        for last in (False, False, True):
            self.asked.clear()
            self.check(self.gradients(y, retain_graph=not last))
            self.assertEqual(bool(self.asked) and all(self.asked), last)

    def test_what_a_hook_keeps_stays_as_it_is(self):
        kept = []

        def pack(tensor):
            kept.append((tensor, tensor.clone()))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            y = self.compiled(self.x)
        self.check(self.gradients(y))
        self.assertTrue(kept)
        for now, before in kept:
            self.assertTrue(torch.equal(now, before))

    def test_a_view_of_a_kept_tensor_stays_as_it_is(self):
        views = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: views.append((tensor.view(-1), tensor.clone())) or tensor, lambda tensor: tensor):
            y = self.compiled(self.x)
        self.check(self.gradients(y))
        for now, before in views:
            self.assertTrue(torch.equal(now, before.view(-1)))

    def test_results_of_a_module_are_overwritten_by_the_next(self):
        """Not what an operator of PyTorch between the two reads, whose result may be a view of it."""
        @torch.library.custom_op("heddle_test::kept", mutates_args=())
        def kept(x: torch.Tensor) -> torch.Tensor:
            seen.append((x, x.clone()))
            return x + 1

        kept.register_fake(torch.empty_like)
        seen = []

        def function(x, w):
            a, b = torch.tanh(x @ w), torch.sin(x @ w.t())
            c = kept(a)
            return torch.softmax(b @ c, -1) @ w + a.sum()

        x, w = torch.randn(64, 64), torch.randn(64, 64) / 8
        expected = function(x, w)
        seen.clear()
        with torch.no_grad():
            compiled = torch.compile(function, backend=heddle.torch.backend)
            for _ in range(2):
                torch.testing.assert_close(compiled(x, w), expected, rtol=1e-4, atol=1e-5)
        self.assertTrue(self.asked and all(self.asked))
        for now, before in seen:
            self.assertTrue(torch.equal(now, before))


if __name__ == "__main__":
    unittest.main()
