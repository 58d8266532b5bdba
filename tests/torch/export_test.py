# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.export writes files that give what PyTorch computes, in a process that does not import it; what a module cannot do is refused. Skipped
without PyTorch (tools/dev/setup --torch)."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import heddle

try:
    import torch
    from torch import nn
    from torch.export import Dim
except ImportError:
    torch = None
else:
    import heddle.torch

TARGET = "cpu:x86-64-v3"
WITHOUT_PYTORCH = """
import sys
import heddle
import numpy as np
folder, parameters = sys.argv[1:]
module = heddle.open(folder + "/model.heddle", "cpu", parameters=parameters or None)
for n in (2, 3, 9):
    result = module(x=np.load(f"{folder}/x{n}.npy"))
    np.savez(f"{folder}/result{n}.npz", logits=result.logits.numpy(), hidden=result.hidden.numpy())
assert "torch" not in sys.modules
"""


if torch is not None:
    class Attention(nn.Module):
        """Weights above and below the size that is kept in the program, a scalar, a tied weight, and a buffer that is not saved."""

        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(16, 1100), nn.LayerNorm(1100), nn.Linear(1100, 16)
            self.tied = self.first.weight
            self.factor = nn.Parameter(torch.tensor(1.5))
            self.register_buffer("scales", torch.arange(16.0) + 1)
            self.register_buffer("unsaved", torch.ones(16), persistent=False)

        def forward(self, x, mask=None):
            y = torch.relu(self.norm(self.first(x)))[None]
            z = torch.nn.functional.scaled_dot_product_attention(y, y, y)[0]
            return {"logits": (self.last(z) @ self.tied.T)[:, :16] * self.scales * self.factor + self.unsaved, "hidden": z}

    class Counting(nn.Module):
        """Writes to buffers, of which one begins with ones."""

        def __init__(self, start):
            super().__init__()
            self.register_buffer("sum", torch.full((3,), start))

        def forward(self, x):
            self.sum.add_(x)
            return self.sum * 2

    class Unsupported(nn.Module):
        def forward(self, x):
            r = torch.linalg.qr(x).R
            return r + torch.fft.fft(x).real

    class Members(nn.Module):
        """An argument as a result, one result twice, a view, numbers and None."""

        def forward(self, x, n: int, more, nothing=None):
            z = x * n + more["a"]
            return x, z, [z, z.t()], None, 7

    class Branch(nn.Module):
        def forward(self, x):
            return x.reshape(4, -1) if x.shape[0] % 4 == 0 and x.shape[0] != 12 else x * 2


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Export(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="heddle-torch-export-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.path = self.folder / "model.heddle"
        torch.manual_seed(0)

    def export(self, model, args, **options):
        return heddle.torch.export(model, args, self.path, target=TARGET, **options)

    def check_without_pytorch(self, model, parameters=""):
        for n in (2, 3, 9):
            np.save(self.folder / f"x{n}.npy", torch.randn(n, 16).numpy())
        subprocess.run([sys.executable, "-B", "-c", WITHOUT_PYTORCH, self.folder, parameters], check=True)
        for n in (2, 3, 9):
            results = np.load(self.folder / f"result{n}.npz")
            with torch.no_grad():
                wanted = model(torch.from_numpy(np.load(self.folder / f"x{n}.npy")))
            for name in ("logits", "hidden"):
                np.testing.assert_allclose(results[name], wanted[name].numpy(), rtol=1e-4, atol=1e-4)

    def test_a_model_runs_without_pytorch_for_several_sizes(self):
        model = Attention().eval()
        self.assertEqual(self.export(model, (torch.randn(4, 16),), dynamic_shapes={"x": {0: Dim("batch", max=64)}}), str(self.path))
        self.assertIn("x: f32[batch,16]", repr(heddle.open(self.path, "cpu").main))
        self.check_without_pytorch(model)

    def test_layers_of_a_transformer(self):
        model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
        program = torch.export.export(model, (torch.randn(4, 5, 16),), dynamic_shapes={"src": {0: torch.export.Dim("batch", max=64)}})
        operators = [node.target for node in program.graph.nodes]
        self.export(program, None)
        self.assertEqual([node.target for node in program.graph.nodes], operators)
        for batch in (2, 9):
            x = torch.randn(batch, 5, 16)
            with torch.no_grad():
                torch.testing.assert_close(torch.from_dlpack(heddle.open(self.path, "cpu")(x)), model(x), rtol=1e-4, atol=1e-5)

    def test_results_of_attention_lie_as_in_eager_mode(self):
        """A view of one is possible, and what is written to it is seen."""
        class Written(nn.Module):
            def forward(self, x):
                x = x.transpose(1, 2)
                y = nn.functional.scaled_dot_product_attention(x, x, x)
                z = y.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)
                z.mul_(3)
                return z, y

        x = torch.randn(2, 5, 3, 8)
        self.export(Written(), (x,))
        for got, wanted in zip(heddle.open(self.path, "cpu")(x), Written()(x), strict=True):
            torch.testing.assert_close(torch.from_dlpack(got), wanted, rtol=1e-4, atol=1e-5)

    def test_parameters_are_in_a_file_by_their_names_in_the_state_dict(self):
        model = Attention().eval()
        weights = self.folder / "weights.safetensors"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the scalar is in the module, too
            self.export(torch.export.export(model, (torch.randn(4, 16),), dynamic_shapes={"x": {0: Dim("batch")}}), None, parameters=weights)
        names = {one["name"] for one in heddle.open(self.path, "cpu", parameters=weights).report()["parameters"]}
        self.assertLessEqual({"first.weight", "norm.weight", "last.bias", "scales"}, names)
        self.assertLessEqual(names, model.state_dict().keys())
        self.check_without_pytorch(model, weights)
        # The file that exists already is as good.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.export(model, (torch.randn(4, 16),), dynamic_shapes={"x": {0: Dim("batch")}}, params_in=weights)
        self.check_without_pytorch(model, weights)

    def test_buffers_that_are_written_to_are_refused_results_or_state(self):
        x = torch.randn(3)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "the program writes to 'sum'; pass mutated='results'"):
            self.export(Counting(1.0), (x,))
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "buffer 'sum' does not begin with zeros"):
            self.export(Counting(1.0), (x,), mutated="state")
        model = Counting(1.0)
        self.export(model, (x,), mutated="results")
        result = heddle.open(self.path, "cpu")(x=x.numpy(), sum=np.ones(3, np.float32))
        torch.testing.assert_close(torch.from_dlpack(result.result), model(x))
        torch.testing.assert_close(torch.from_dlpack(result.new_sum), model.sum)
        model = Counting(0.0)
        self.export(model, (x,), mutated="state")
        module = heddle.open(self.path, "cpu")
        for _ in range(3):
            torch.testing.assert_close(torch.from_dlpack(module(x.numpy())), model(x))

    def test_operators_that_are_not_there_are_all_listed_with_their_places(self):
        with self.assertRaises(heddle.UnimplementedError) as raised:
            self.export(Unsupported(), (torch.randn(4, 4),))
        text = str(raised.exception)
        for operator, line in (("aten.linalg_qr.default", "torch.linalg.qr"), ("aten._fft_r2c.default", "torch.fft.fft")):
            number = next(i for i, one in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if line + "(x)" in one)
            self.assertRegex(text, rf"{operator} at '\w+', \S+export_test.py:{number}: ")
        self.assertIn("2 operators are not supported", text)
        self.assertFalse(self.path.exists())

    def test_floats_that_depend_on_shapes(self):
        class Scaled(nn.Module):
            def forward(self, x):
                return x * (x.shape[0] / 3.5) + x / (2 * x.shape[1] / x.shape[0] - 0.25), nn.functional.interpolate(x[None, None], scale_factor=2.0)

        self.export(Scaled(), (torch.randn(4, 6),), dynamic_shapes={"x": {0: Dim("rows", min=2), 1: Dim("columns", min=2)}})
        with heddle.open(self.path, "cpu") as module:
            for shape in ((4, 6), (7, 3), (2, 9)):
                x = torch.randn(shape)
                for got, wanted in zip(module(x.numpy()), Scaled()(x), strict=True):
                    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)

    def test_a_result_whose_extents_have_no_expression_is_refused(self):
        class Half(nn.Module):
            def forward(self, x):
                return x + 1, nn.functional.interpolate(x[None, None], scale_factor=1.5)

        with self.assertRaisesRegex(heddle.UnimplementedError, r"aten.arange.start_step at 'arange', \S+export_test.py:\d+: a shape has the expression"):
            self.export(Half(), (torch.randn(4, 6),), dynamic_shapes={"x": {0: Dim("rows", min=2)}})
        self.assertFalse(self.path.exists())

    def test_members_of_arguments_and_results(self):
        x, a = torch.randn(4, 4), torch.randn(4, 4)
        self.export(Members(), (x, 3), kwargs={"more": {"a": a}})
        module = heddle.open(self.path, "cpu")
        results = module(x=x.numpy(), more_a=a.numpy())
        self.assertEqual([one["name"] for one in module.report()["functions"][0]["results"]], ["result0", "result1", "result2.0", "result2.1"])
        wanted = Members()(x, 3, {"a": a})
        for got, one in zip(results, [wanted[0], wanted[1], *wanted[2]], strict=True):
            torch.testing.assert_close(torch.from_dlpack(got), one)

    def test_sizes_for_which_the_program_is_not_right_are_refused(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.export(Branch(), (torch.zeros(8, 2),), dynamic_shapes={"x": {0: Dim.AUTO}})
        self.assertTrue(any("which the module does not check" in str(one.message) for one in said))
        module = heddle.open(self.path, "cpu")
        self.assertEqual(module(np.zeros((20, 2), np.float32)).shape, (4, 10))
        for n, cause in ((9, r"% 4\) == 0"), (12, "!= 12")):
            with self.assertRaisesRegex(heddle.InvalidArgumentError, cause):
                module(np.zeros((n, 2), np.float32))
        self.export(nn.ReLU(), (torch.zeros(4),), dynamic_shapes={"input": {0: Dim("n", min=2, max=8)}})
        module = heddle.open(self.path, "cpu")
        self.assertEqual(module(np.zeros(8, np.float32)).shape, (8,))
        for n in (1, 9):
            with self.assertRaisesRegex(heddle.InvalidArgumentError, "the range of 'n', 2 to 8"):
                module(np.zeros(n, np.float32))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(heddle.ArgumentTypeError, "a torch.nn.Module or a torch.export.ExportedProgram, got function"):
            self.export(lambda x: x, (torch.zeros(1),))
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "mutated is None, 'results' or 'state', got 'both'"):
            self.export(nn.ReLU(), (torch.zeros(1),), mutated="both")
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "has its arguments and shapes already"):
            self.export(torch.export.export(nn.ReLU(), (torch.zeros(1),)), (torch.zeros(1),))
        with torch.device("meta"):
            model = nn.Linear(2, 2)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "it has no values, since the model was made on the device meta"):
            self.export(model, (torch.zeros(1, 2, device="meta"),))


if __name__ == "__main__":
    unittest.main()
