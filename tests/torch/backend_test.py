# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(backend="heddle") gives what PyTorch computes, in inference and in training, with static and symbolic shapes; what Heddle does not support
runs in PyTorch, and is counted. Skipped without PyTorch (tools/dev/setup --torch)."""
import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib
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
    from heddle.torch import _cache, _text

BY_NAME = """
import sys
import torch
print("heddle" in torch._dynamo.list_backends(), any(name.split(".")[0] == "heddle" for name in sys.modules))
function = lambda x: (x * 2).sin().sum(0)
x = torch.linspace(-1, 1, 12).reshape(3, 4)
torch.testing.assert_close(torch.compile(function, backend="heddle", fullgraph=True)(x), function(x))
import heddle.torch
print([(one.kind, one.nodes, len(one.modules), one.fallbacks) for one in heddle.torch.graphs()])
"""


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2),
                         nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.LogSoftmax(-1))


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Backend(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        heddle.torch.clear()

    def compiled(self, model, **options):
        return torch.compile(model, backend=heddle.torch.backend, fullgraph=True, **options)

    def check_inference(self, model, arguments, dynamic=None, fallbacks=()):
        function = self.compiled(model, dynamic=dynamic)
        with torch.no_grad():
            for one in arguments:
                torch.testing.assert_close(function(*one), model(*one), rtol=1e-4, atol=1e-5)
        found = heddle.torch.graphs()
        self.assertEqual([one.kind for one in found], ["inference"])
        self.assertEqual([one.operator for one in found[0].fallbacks], list(fallbacks))
        return found[0]

    def test_inference(self):
        self.assertEqual(len(self.check_inference(network().eval(), [(torch.randn(2, 3, 8, 8),)]).modules), 1)

    def test_the_name_is_enough_where_the_package_is_installed(self):
        """PyTorch finds it by what pyproject.toml says, which pip writes beside the package."""
        project = tomllib.loads((pathlib.Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        with tempfile.TemporaryDirectory(prefix="heddle-test-") as folder:
            info = pathlib.Path(folder) / f"{project['name']}-0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
            (info / "entry_points.txt").write_text("".join(f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in names.items())
                                                           for group, names in project["entry-points"].items()))
            environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, os.path.dirname(os.path.dirname(heddle.__file__))])}
            done = subprocess.run([sys.executable, "-B", "-c", BY_NAME], check=False, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "True False\n[('inference', 3, 1, [])]\n")

    def test_inference_with_a_symbolic_batch(self):
        self.check_inference(perceptron(), [(torch.randn(n, 16),) for n in (2, 3, 7)], dynamic=True)

    def test_a_transposed_argument_is_read_as_it_lies(self):
        x = torch.randn(16, 5).t()
        self.assertEqual(_text.memory_order(x), [1, 0])
        self.check_inference(perceptron(), [(x,)])

    def check_training(self, model, shape):
        other = copy.deepcopy(model)
        function = self.compiled(model)
        for step in range(2):
            x = torch.randn(shape, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            ours, theirs = function(x), other(y)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            (ours ** 2).sum().backward()
            (theirs ** 2).sum().backward()
            torch.testing.assert_close(x.grad, y.grad, rtol=1e-3, atol=1e-4)
            for (name, a), b in zip(model.named_parameters(), other.parameters()):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}, step {step}: {text}")
            for (name, a), b in zip(model.named_buffers(), other.buffers()):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}, step {step}: {text}")
        self.assertEqual([one.kind for one in heddle.torch.graphs()], ["forward", "backward"])
        self.assertEqual([one.fallbacks for one in heddle.torch.graphs()], [[], []])

    def test_writes_to_every_other_element(self):
        def replace(x, y, z):
            x = x.clone()
            x[:, 1::2] = y
            x[-3:, ::3] = z
            return x

        self.check_inference(replace, [(torch.randn(5, 7), torch.randn(5, 3), torch.randn(1, 3))])

    def test_arguments_are_written_where_they_lie(self):
        def add_twice(x, y):
            x.mul_(2).add_(y)
            return x.sum()

        function = self.compiled(add_twice)
        y = torch.randn(4, 300)
        for name, x in {"contiguous": torch.randn(4, 300), "transposed": torch.randn(300, 4).t(), "with gaps": torch.randn(4, 600)[:, ::2]}.items():
            with self.subTest(name), torch.no_grad():
                place, version, expected = x.data_ptr(), x._version, x * 2 + y
                function(x, y)
                torch.testing.assert_close(x, expected)
                self.assertEqual(x.data_ptr(), place)
                self.assertGreater(x._version, version)
        # The old value is needed after the new one was written, and the argument is a result.
        function = self.compiled(lambda x, y: (x * 3, x.copy_(y)))
        with torch.no_grad():
            x = torch.full((300,), 2.0)
            old, new = function(x, torch.full((300,), 5.0))
        self.assertEqual((float(old[0]), float(x[7])), (6.0, 5.0))
        self.assertIs(new, x)
        self.assertTrue(all(len(one.modules) == 1 and not one.fallbacks for one in heddle.torch.graphs()))

    def strides_and_results(self, function, arguments, **options):
        """Of the function compiled and in eager mode."""
        compiled = torch.compile(function, backend=heddle.torch.backend, fullgraph=True, **options)
        for given in arguments:
            got, wanted = compiled(*given), function(*given)
            torch.testing.assert_close(got, wanted)
            self.assertEqual([one.stride() for one in got], [one.stride() for one in wanted])
            yield got, wanted

    def test_results_share_memory_as_in_eager_mode(self):
        def views(x, first):
            y = x * 2
            a, b = y.split(2)
            return a, b, y.max(0).values, y[:, first:], y.detach(), y.expand(2, *y.shape), y

        for pair in self.strides_and_results(views, [(torch.randn(4, 5), 1), (torch.randn(4, 7), 2)]):
            for one in pair:
                one[0].zero_()
                one[3].add_(1)
            torch.testing.assert_close(*pair)

        def of_a_training(w, x):
            y, z = w * x, x * 2
            return y, y[0], z, z.t()

        w = torch.randn(4, 5, requires_grad=True)
        for pair in self.strides_and_results(of_a_training, [(w, torch.randn(4, 5)), (w, torch.randn(4, 5))]):
            for one in pair:
                one[3].zero_()
            torch.testing.assert_close(*pair)
            torch.testing.assert_close(*(torch.autograd.grad(one[0].sum() + one[1].sum(), w) for one in pair))
        self.assertEqual([one.fallbacks for one in heddle.torch.graphs()], [[]] * len(heddle.torch.graphs()))

    def test_results_lie_as_in_eager_mode(self):
        def transposed(w, x):
            y = (w * x).tanh()
            return y.t() * 2, (y @ y.t()).t().sigmoid(), y

        calls = [(torch.randn(4, 5 + i, requires_grad=True), torch.randn(4, 5 + i)) for i in range(3)]
        for (w, _), pair in zip(calls, self.strides_and_results(transposed, calls, dynamic=True), strict=True):
            torch.testing.assert_close(*(torch.autograd.grad([y.square().sum() for y in one], w) for one in pair))
        model = nn.Conv2d(3, 8, 3, padding=1).to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
        for got, _ in self.strides_and_results(lambda x: (model(x).relu(),), [(x,)]):
            self.assertTrue(got[0].is_contiguous(memory_format=torch.channels_last))

    def test_an_argument_that_gets_other_memory(self):
        def exchange(x, y):
            z = torch.linalg.det((x + 1)[:, :3])  # by PyTorch: modules read x before and after it
            x.data = y
            return z + x.sum(), x * 3

        for _ in range(2):
            pairs = []
            for function in (exchange, torch.compile(exchange, backend=heddle.torch.backend)):
                torch.manual_seed(5)
                x, y = torch.randn(3, 4), torch.randn(3, 4)
                pairs.append((function(x, y), x))
                self.assertEqual(x.data_ptr(), y.data_ptr())
            torch.testing.assert_close(*pairs)

    def test_gradients_of_images_of_symbolic_extents(self):
        model = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Conv2d(6, 6, 3, groups=6, padding=2, dilation=2), nn.Conv2d(6, 8, (1, 3), groups=2),
                              nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.ConvTranspose2d(8, 2, 3, stride=2))
        other = copy.deepcopy(model)
        function = self.compiled(model)
        is_about_parity = torch.__version__.startswith("2.11.")  # its shapes of pools ask whether a division has a remainder, which becomes a guard
        for height, width, graphs in ((12, 15, 2), (8, 20, 2), (9, 20, 4 if is_about_parity else 2)):
            x = torch.randn(2, 4, height, width, requires_grad=True)
            torch._dynamo.mark_dynamic(x, 2)
            torch._dynamo.mark_dynamic(x, 3)
            y = x.detach().clone().requires_grad_()
            for one, given in ((function, x), (other, y)):
                one(given).square().sum().backward()
            torch.testing.assert_close(x.grad, y.grad, rtol=1e-3, atol=1e-4)
            for (name, a), b in zip(model.named_parameters(), other.parameters()):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3, msg=lambda text: f"{name}: {text}")
            self.assertEqual([one.fallbacks for one in heddle.torch.graphs()], [[]] * graphs)

    def test_floats_that_depend_on_shapes(self):
        graph = self.check_inference(lambda x: x * (x.shape[0] / 3.5) + x / x.shape[1] ** 0.5, [(torch.randn(size),) for size in ((4, 5), (6, 7))], dynamic=True)
        self.assertEqual(len(graph.modules), 1)

    def test_views_with_strides_of_their_own(self):
        def windows(x):
            return torch.as_strided((x * 2).t(), (3, 4), (2, 4), 1) + torch.as_strided(x.sin(), (3, 4), (1, 1))

        self.check_inference(windows, [(torch.randn(4, 5),)])

    def test_views_that_count_from_where_memory_begins(self):
        x = torch.arange(40.0)[8:28].view(4, 5)
        for function in (lambda x: torch.as_strided(x, (2, 2), (1, 2), 9) + 1, lambda x: torch.as_strided(x.t(), (2, 2), (1, 2), 10) + 1,
                         lambda x: torch.as_strided(x[1:], (2, 2), (1, 2), 0) + 1):
            self.setUp()
            self.check_inference(function, [(x,)], fallbacks=["aten.as_strided.default"])
        self.setUp()
        self.check_inference(lambda x: torch.as_strided(x * 2, (2, 2), (1, 2), 3) + 1, [(x,)])

    def test_operators_of_pytorch_get_tensors_that_lie_as_in_eager_mode(self):
        """Random numbers are drawn in the order of memory, and linalg.det factors the transposed matrix if it is contiguous."""
        for function in (lambda x: nn.functional.dropout((x * 2).t(), 0.5, True), lambda x: torch.rand_like((x + 1)[:, :3].t()),
                         lambda x: torch.rand_like((x + 1)[:1].expand(5, 8))):
            for dynamic in (False, True):
                torch._dynamo.reset()
                x = torch.randn(6, 8)
                torch.manual_seed(3)
                wanted = function(x)
                torch.manual_seed(3)
                torch.testing.assert_close(self.compiled(function, dynamic=dynamic)(x), wanted)
        matrix = torch.randn(6, 8, requires_grad=True)
        wanted, = torch.autograd.grad(torch.det(matrix[:, :6]), matrix)
        got, = torch.autograd.grad(self.compiled(lambda x: torch.det(x[:, :6]))(matrix), matrix)
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)

    def test_results_of_attention_lie_as_in_eager_mode(self):
        """So `view` is possible where it is there, and what is written to a view of a result is seen."""
        def written(x, how):
            x = x.transpose(1, 2)
            y = nn.functional.scaled_dot_product_attention(x, x, x)
            z = getattr(y.transpose(1, 2), how)(x.shape[0], x.shape[2], -1)
            z.add_(1)
            return y * 2

        x = torch.randn(2, 5, 3, 8)
        for how in ("view", "reshape"):
            with torch.no_grad():
                torch.testing.assert_close(self.compiled(written)(x, how), written(x, how), rtol=1e-4, atol=1e-5)
        with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # its result lies otherwise
            self.assertTrue(torch.equal(written(x, "reshape"), 2 * nn.functional.scaled_dot_product_attention(*3 * [x.transpose(1, 2)])))
            torch._dynamo.reset()
            torch.testing.assert_close(self.compiled(written)(x, "reshape"), written(x, "reshape"), rtol=1e-4, atol=1e-5)

    def test_random_numbers_are_those_of_eager_mode_and_divide_no_module(self):
        dropout = nn.functional.dropout
        for name, function, modules in (
                ("dropout", lambda x: dropout(dropout(x * 2, 0.3).sin() @ x.t(), 0.5), 1),
                ("of a transposed tensor", lambda x: dropout((x * 2).t(), 0.3) + 1, 1),
                ("like a tensor", lambda x: torch.rand_like(x * 2) + torch.randn_like((x * 3).t()).t() + torch.randint_like(x + 1, 9), 1),
                ("other distributions", lambda x: nn.functional.gumbel_softmax(x * 2) + (x * 2).uniform_(-1, 1) + (x * 3).normal_(1, 2), 1),
                ("in attention", lambda x: nn.functional.scaled_dot_product_attention(*[(x * i).view(1, 2, 3, 8) for i in (1, 2, 3)], dropout_p=0.3), 1),
                # Those that need a result of a module come after it, and so do all later ones.
                ("in order", lambda x: torch.bernoulli((torch.multinomial((x * 2).softmax(-1), 3).sum() * 0.01 * x).sigmoid()) + torch.rand(6, 8), 2)):
            for dynamic in (False, True):
                with self.subTest(name, dynamic=dynamic):
                    torch._dynamo.reset()
                    heddle.torch.clear()
                    x = torch.randn(6, 8)
                    torch.manual_seed(3)
                    wanted, state = function(x), torch.get_rng_state()
                    torch.manual_seed(3)
                    torch.testing.assert_close(self.compiled(function, dynamic=dynamic)(x), wanted)
                    self.assertTrue(torch.equal(torch.get_rng_state(), state))
                    self.assertEqual([len(one.modules) for one in heddle.torch.graphs()], [modules])
                    reasons = {one.reason for graph in heddle.torch.graphs() for one in graph.fallbacks}
                    self.assertEqual(reasons, {"random numbers are drawn in PyTorch, so that they are those of eager mode"})

    def test_an_argument_is_not_written_while_a_view_of_it_is_read(self):
        """The view is made in PyTorch, and read by the module that computes the new value."""
        def function(x, y):
            bits = x.view(torch.int32).bitwise_and(255)
            x.mul_(torch.linalg.svdvals(y).sum())
            return bits

        ours, y = torch.randn(1000), torch.randn(3, 3)
        theirs = ours.clone()
        self.assertTrue(torch.equal(self.compiled(function)(ours, y), function(theirs, y)))
        torch.testing.assert_close(ours, theirs)

    def test_extents_that_a_symbol_divides(self):
        """Only what has such extents runs in PyTorch."""
        def function(x):
            return x.reshape(-1, x.shape[0] * 2).sum(0), (x.sin() + 1).sum(1)

        graph = self.check_inference(function, [(torch.randn(5, 6),)], dynamic=True, fallbacks=["aten.view.default", "aten.sum.dim_IntList"])
        self.assertEqual(len(graph.modules), 1)

    def test_gradients_in_the_middle_of_a_function(self):
        """Dynamo does not trace autograd.grad after a graph break, but what runs in it, among which is the compilation of the backward pass."""
        def function(x):
            x = x.detach().requires_grad_()
            loss = x.sin().sum()
            torch._dynamo.graph_break()
            return torch.autograd.grad(loss, x)[0] * 2

        x = torch.randn(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(torch.compile(function, backend=heddle.torch.backend)(x), 2 * x.cos())

    def test_training_of_a_perceptron(self):
        self.check_training(perceptron(), (5, 16))

    def test_training_of_a_network_of_convolutions(self):
        self.check_training(network(), (2, 3, 8, 8))

    def test_what_is_not_supported_runs_in_pytorch_and_is_named(self):
        def function(x):
            return (torch.linalg.qr(x * 2).R.abs() + 1).sum(0)

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            graph = self.check_inference(function, [(torch.randn(4, 4),)], fallbacks=["aten.linalg_qr.default"])
        self.assertEqual(len(graph.modules), 2)
        self.assertTrue(any("aten.linalg_qr.default runs in PyTorch" in str(one.message) for one in said), [str(one.message) for one in said])

    def test_gradients_of_a_function_with_effects(self):
        """The check that the matrix has an inverse is an effect, whose token is one more result."""
        found = []
        for function in (torch.linalg.tensorinv, torch.compile(torch.linalg.tensorinv, backend=heddle.torch.backend)):
            x = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
            result = function(x, ind=1)
            result.sin().sum().backward()
            found.append([result.detach(), x.grad])
        for ours, eager in zip(found[1], found[0], strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)

    def test_shapes_that_depend_on_data_run_in_pytorch(self):
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            function = torch.compile(lambda x: torch.nonzero(x > 0) * 2, backend=heddle.torch.backend)
            x = torch.randn(5, 3)
            self.assertTrue(torch.equal(function(x), torch.nonzero(x > 0) * 2))

    def test_an_index_outside_is_refused(self):
        table = nn.Embedding(4, 3)
        function = self.compiled(table)
        with torch.no_grad():
            torch.testing.assert_close(function(torch.tensor([3, 0])), table(torch.tensor([3, 0])))
            with self.assertRaises(heddle.Error):
                function(torch.tensor([4, 0]))

    def test_numbers_in_host_memory_are_computed_there(self):
        """In the plan of a graph on a GPU, for which none is needed: what the program gets of them is no result of the module, which computes it again."""
        from heddle.torch import _plan
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx

        def function(x, number):
            more = number + 1
            return x / (1 - 0.9 ** more), more, (more * 2).sqrt()

        with FakeTensorMode():
            graph = make_fx(function)(torch.empty(5, device="cuda"), torch.empty(())).graph
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        plan = _plan.make_plan(graph, torch.device("cuda", 0), {}, _plan.Symbols(inputs))
        *alone, piece = plan.steps
        self.assertEqual([node.target for node in alone], [torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor, torch.ops.aten.sqrt.default])
        self.assertEqual([node.target for node in piece.outputs], [torch.ops.aten.div.Tensor])
        self.assertEqual(set(piece.inputs), set(inputs))
        self.assertEqual(plan.fallbacks, [])

    def test_views_that_only_pytorch_reads(self):
        """Those of what is made of numbers are made there, those of results of a module in the module."""
        from heddle.torch import _plan
        from torch.fx.experimental.proxy_tensor import make_fx

        def function(x):
            values, _ = x.topk(2)
            blank = torch.empty([]).expand(4)
            return torch.linalg.svdvals(values.unsqueeze(0)), torch.bernoulli(blank, 0.5)

        graph = make_fx(function)(torch.randn(3, 5)).graph
        refused = {f"aten.{name}": "it is refused" for name in ("linalg_svd.default", "_linalg_svd.default", "linalg_svdvals.default", "bernoulli.p")}
        plan = _plan.make_plan(graph, torch.device("cpu"), refused, _plan.Symbols([node for node in graph.nodes if node.op == "placeholder"]))
        piece, = [step for step in plan.steps if isinstance(step, _plan.Piece)]
        self.assertEqual([node.target for node in piece.outputs], [torch.ops.aten.unsqueeze.default])
        in_torch = [step.target for step in plan.steps if not isinstance(step, _plan.Piece)]
        self.assertEqual(in_torch[:2], [torch.ops.aten.empty.memory_format, torch.ops.aten.expand.default])

    def test_a_negative_index_counts_from_the_end_only_in_brackets(self):
        x, source = torch.randn(4, 3), torch.randn(1, 3)
        self.assertTrue(torch.equal(self.compiled(lambda x, i: x[i])(x, torch.tensor([-1])), x[-1:]))
        for name, function, places in (
                ("gather", lambda x, i: x.gather(0, i), torch.full((1, 3), -1)), ("index_select", lambda x, i: x.index_select(0, i), torch.tensor([-1])),
                ("embedding", lambda x, i: nn.functional.embedding(i, x), torch.tensor([-1])),
                ("scatter", lambda x, i: x.scatter(0, i, source), torch.full((1, 3), -1)),
                ("a part of the columns", lambda x, i: x.scatter(0, i, source), torch.full((1, 2), -1)),
                ("cross_entropy", lambda x, i: nn.functional.cross_entropy(x, i), torch.full((4,), -5))):
            with self.subTest(name):
                torch._dynamo.reset()
                compiled = self.compiled(function)
                torch.testing.assert_close(compiled(x, places.abs() % 3), function(x, places.abs() % 3))
                with self.assertRaises((RuntimeError, IndexError)):
                    function(x, places)
                with self.assertRaisesRegex(heddle.Error, "takes no negative indices"):
                    compiled(x, places)

    def test_modules_are_found_on_disk(self):
        model = perceptron()
        first = self.check_inference(model, [(torch.randn(3, 16),)])
        torch._dynamo.reset()
        heddle.torch.clear()
        again = self.check_inference(model, [(torch.randn(3, 16),)])
        self.assertEqual((again.modules, again.compiled), (first.modules, 0))
        self.assertTrue(all(one.startswith(str(_cache.folder())) for one in again.modules))

    def test_a_module_that_is_damaged_is_made_again(self):
        model = perceptron()
        for content in (b"", b"x" * 300):
            path = self.check_inference(model, [(torch.randn(3, 16),)]).modules[0]
            with open(path + ".new", "wb") as file:
                file.write(content)
            os.replace(path + ".new", path)
            self.setUp()
            again = self.check_inference(model, [(torch.randn(3, 16),)])
            self.assertEqual((again.modules, again.compiled), ([path], 1))
            self.setUp()


if __name__ == "__main__":
    unittest.main()
