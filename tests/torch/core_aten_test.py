# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every overload that PyTorch marks as Core ATen is one that the compiler has, or one of those that docs/pytorch.md lists: some are decomposed, and
the others are as it says. Skipped without PyTorch (tools/dev/setup --torch)."""
import os
import pathlib
import re
import subprocess
import unittest
import warnings

import caches  # noqa: F401  a folder of its own

try:
    import torch
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch._decompositions import decompositions

IMPORT = os.path.join(os.environ.get("HEDDLE_BIN", ""), "heddle-import")
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
DRAWN = "random numbers are drawn in PyTorch, so that they are those of eager mode"


def core_overloads():
    """{"aten.add.Tensor": the overload} of all that have the tag."""
    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten" and hasattr(torch.ops.aten, packet):
            one = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if one is not None and torch.Tag.core in one.tags:
                found[str(one)] = one
    return found


def page():
    """(the sentence with the counts, overloads that are decomposed, other ones) of docs/pytorch.md. A name without an overload is its default."""
    text = PAGE.read_text(encoding="utf-8")
    sentence, decomposed, others = re.search(r"\n(Of the \d+ overloads .*?):\n\n(- These are decomposed.*?\n)(- .*?)\n\n", text, re.DOTALL).groups()

    def names(part):
        return ["aten." + (name if "." in name else name + ".default") for name in re.findall(r"`([\w.]+)`", part)]

    return sentence, names(decomposed), names(others)


def samples():
    """{overload: (function of tensors that calls it, these tensors)} of those that are decomposed."""
    aten = torch.ops.aten
    torch.manual_seed(0)
    x, rows, channels = torch.randn(2, 4, 6, 5), torch.randn(3, 5), [torch.randn(4), torch.randn(4)]
    return {
        aten._cdist_forward.default: (lambda a, b: aten._cdist_forward.default(a, b, 2.0, None), torch.randn(4, 3), torch.randn(5, 3)),
        aten._embedding_bag.default: (lambda w, i, starts: aten._embedding_bag.default(w, i, starts)[0],
                                      rows, torch.tensor([1, 2, 0, 0]), torch.tensor([0, 3])),
        aten._native_batch_norm_legit.default: (
            lambda x, w, b, mean, var: (*aten._native_batch_norm_legit.default(x, w, b, mean, var, True, 0.1, 1e-5), mean, var),
            x, *channels, torch.zeros(4), torch.ones(4)),
        aten._native_batch_norm_legit.no_stats: (lambda x, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5), x, *channels),
        aten._pdist_forward.default: (lambda x: aten._pdist_forward.default(x, 2.0), rows),
        aten.col2im.default: (lambda x: aten.col2im.default(x, [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]), torch.randn(2, 8, 12)),
        aten.grid_sampler_2d.default: (lambda x, places: aten.grid_sampler_2d.default(x, places, 0, 0, False), x, torch.rand(2, 3, 3, 2) * 2 - 1),
        aten.native_dropout.default: (lambda x: aten.native_dropout.default(x, 0.5, True), x),
        aten.native_group_norm.default: (lambda x, w, b: aten.native_group_norm.default(x, w, b, 2, 4, 30, 2, 1e-5), x, *channels),
        aten.native_group_norm_backward.default: (
            lambda g, x, mean, scale, w: aten.native_group_norm_backward.default(g, x, mean, scale, w, 2, 4, 30, 2, [True] * 3),
            torch.randn_like(x), x, torch.randn(2, 2), torch.rand(2, 2), channels[0]),
        aten.native_layer_norm_backward.default: (
            lambda g, x, mean, scale, w, b: aten.native_layer_norm_backward.default(g, x, [5], mean, scale, w, b, [True] * 3),
            torch.randn_like(rows), rows, torch.randn(3, 1), torch.rand(3, 1), torch.randn(5), torch.randn(5)),
        aten.upsample_bilinear2d.vec: (lambda x: aten.upsample_bilinear2d.vec(x, [12, 10], False, None), x),
        aten.upsample_nearest2d.vec: (lambda x: aten.upsample_nearest2d.vec(x, [12, 10], None), x),
    }


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class CoreAten(unittest.TestCase):
    def run_both(self, function, *tensors, fullgraph=True, dynamic=None):
        """Results are those of eager mode; (operator, reason) of what ran in PyTorch, for each graph."""
        torch._dynamo.reset()
        heddle.torch.clear()
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for one in (torch.compile(function, backend=heddle.torch.backend, fullgraph=fullgraph, dynamic=dynamic), function):
                torch.manual_seed(1)
                found.append(one(*(x.clone() for x in tensors)))
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
        self.assertTrue(heddle.torch.graphs(), "nothing was compiled")
        return [[(one.operator, one.reason) for one in graph.fallbacks] for graph in heddle.torch.graphs()]

    @unittest.skipUnless(os.access(IMPORT, os.X_OK), f"SKIP: there is no program {IMPORT}; HEDDLE_BIN names its folder")
    def test_every_overload_is_in_the_list_or_named(self):
        core = core_overloads()
        in_list = set(subprocess.run([IMPORT, "--aten-ops"], check=True, stdout=subprocess.PIPE, text=True).stdout.split())
        sentence, decomposed, others = page()
        left = core.keys() - in_list
        self.assertEqual(sorted(left - {*decomposed, *others}), [], "Core ATen, but neither in the list of operators nor named in docs/pytorch.md")
        self.assertEqual(sorted({*decomposed, *others} & in_list), [], "named in docs/pytorch.md, but in the list of operators")
        self.assertEqual(sorted(name for name in decomposed if name in core and core[name] not in decompositions()), [], "they have no decomposition")
        versions, text = re.search(r"that PyTorch (.*?) mark as", sentence)[1], re.sub(r"\s+", " ", sentence)
        if re.search(rf"\b{re.escape('.'.join(torch.__version__.split('.')[:2]))}\b", versions):
            self.assertEqual(sorted(left), sorted([*decomposed, *others]))
            self.assertEqual(text, f"Of the {len(core)} overloads that PyTorch {versions} mark as Core ATen, {len(left)} are not in the list")

    def test_what_is_decomposed_runs_in_modules(self):
        made = samples()
        self.assertEqual(sorted(map(str, made)), sorted(page()[1]))
        for overload, (function, *tensors) in made.items():
            with self.subTest(str(overload)):
                drawn = [("aten.bernoulli.p", DRAWN)] if overload is torch.ops.aten.native_dropout.default else []
                self.assertEqual(self.run_both(function, *tensors), [drawn])

    def test_what_runs_in_pytorch(self):
        aten = torch.ops.aten
        x = torch.randn(4, 6)
        for overload, function in {aten._fft_r2c.default: lambda x: torch.view_as_real(aten._fft_r2c.default(x, [1], 0, True)),
                                   aten._fft_c2r.default: lambda x: aten._fft_c2r.default(torch.complex(x, x), [1], 0, 10)}.items():
            self.assertIn((str(overload), "elements of torch.complex64 are not supported"), self.run_both(function, x)[0])
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            (first, *_), = self.run_both(lambda x: torch.nonzero(x > 0), x)
        self.assertEqual(first[0], "aten.nonzero.default")
        for overload, function in {aten.rand.default: torch.rand, aten.randn.default: torch.randn, aten.randperm.default: torch.randperm}.items():
            self.assertEqual(self.run_both(lambda x, draw=function: x + draw(6), x), [[(str(overload), DRAWN)]])

    def test_others(self):
        x = torch.randn(4, 6)
        self.assertEqual(self.run_both(lambda x, y, z: (torch.atan2(x, y, out=z) * 2, z), x, x + 1, torch.empty(4, 6)), [[]])
        self.assertEqual(self.run_both(lambda x: (x * x).sum().item() * x, x, fullgraph=False), [[], []])  # with a graph break
        self.assertEqual(self.run_both(lambda x: (x * 2).resize_(3, 4) + 1, x, fullgraph=False), [[], []])
        self.assertEqual(self.run_both(lambda x: x * x.numel() + x.size(1) * x.stride(0), x, dynamic=True), [[]])


if __name__ == "__main__":
    unittest.main()
