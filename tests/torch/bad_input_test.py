# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile(backend="heddle") cannot take falls back to PyTorch aloud: the results are those of eager mode, and a warning names what it is and why.
Skipped without PyTorch (tools/dev/setup --torch)."""
import contextlib
import copy
import logging
import os
import pathlib
import tempfile
import threading
import unittest
import warnings

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _breaks_hints, _text


if torch is not None:
    @torch.library.custom_op("heddle_bad_input_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    @torch.library.custom_op("heddle_bad_input_test::increase", mutates_args=("x",))
    def increase(x: torch.Tensor) -> None:
        x.add_(1)


def line_of(text):
    return next(i for i, one in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1) if text in one)


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class BadInput(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        heddle.torch.clear()
        self.x = torch.randn(4, 4)

    def check(self, function, arguments, warned, fallbacks=None):
        """The results are those of eager mode, and for each pattern there is a warning. Returns the warnings."""
        wanted = function(*copy.deepcopy(arguments))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = torch.compile(function, backend=heddle.torch.backend)(*copy.deepcopy(arguments))
        for a, b in zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(wanted), strict=True):
            self.assertEqual((a.dtype, a.layout, a.device, a.shape), (b.dtype, b.layout, b.device, b.shape))
            if a.device.type != "meta":
                torch.testing.assert_close(a.to_dense() if a.layout != torch.strided else a, b.to_dense() if b.layout != torch.strided else b)
        texts = [str(one.message) for one in said if "heddle.torch" in str(one.message)]
        for pattern in warned:
            self.assertTrue(any(pattern in one for one in texts), (pattern, texts))
        if fallbacks is not None:
            self.assertEqual(sorted({one.operator for graph in heddle.torch.graphs() for one in graph.fallbacks}), sorted(fallbacks))
        return texts

    def test_a_function_that_cannot_be_traced_at_all(self):
        lock = threading.Lock()

        def locked(x):
            with lock:
                return x + 1

        self.check(locked, [self.x], [f"PyTorch runs locked, which Dynamo cannot trace ({__file__}:{line_of('with ' + 'lock:')})", "Unsupported context manager"])
        self.assertEqual(heddle.torch.graphs(), [])
        torch._dynamo.reset()
        self.assertEqual(self.check(locked, [self.x], []), [])  # said once

    def test_a_function_that_cannot_be_traced_is_named_after_a_reset(self):
        lock, backend = threading.Lock(), heddle.torch.backend

        def locked(x):
            with lock:
                return x + 1

        for _ in range(2):  # nothing is compiled in between
            heddle.torch.clear()
            torch.compiler.reset()
            with self.assertWarnsRegex(UserWarning, "PyTorch runs locked, which Dynamo cannot trace"):
                torch.compile(locked, backend=backend)(self.x)

    def test_a_line_that_cannot_be_traced(self):
        def evaluated(x):
            y = x * 2
            z = y + int(os.stat("/").st_size >= 0)
            return z * 3

        self.check(evaluated, [self.x], [f"graph break in evaluated, PyTorch runs the line ({__file__}:{line_of('z = ' + 'y + int(os.stat')})"], [])
        self.assertEqual(len(heddle.torch.graphs()), 2)

    def test_other_backends_are_not_named(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.compile(lambda x: eval("x + 1"), backend="eager")(self.x)
        self.assertEqual([str(one.message) for one in said if "heddle" in str(one.message)], [])

    def test_a_branch_on_a_tensor(self):
        def branches(x):
            if x.sum() > 0:
                x = x * 2
            return x + 1

        self.check(branches, [self.x], [f"{__file__}:{line_of('if ' + 'x.sum() > 0')}): the branch depends on the value of a tensor;"])

    def test_an_optimizer_that_is_compiled_by_itself_warns_of_nothing(self):
        weight = torch.ones(3, requires_grad=True)
        weight.grad = torch.ones(3)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.compile(torch.optim.SGD([weight], lr=0.5).step, backend=heddle.torch.backend)()
        self.assertEqual(weight.tolist(), [0.5, 0.5, 0.5])
        self.assertEqual([str(one.message) for one in said if "heddle" in str(one.message)], [])

    def test_settings_of_another_backend(self):
        for given, named in (({"mode": "max-autotune"}, "mode='max-autotune'"), ({"options": {"freezing": True}}, "options={'freezing': True}")):
            with self.assertRaisesRegex(torch._dynamo.exc.BackendCompilerFailed, "takes no options, got " + named + "; leave out mode= and options="):
                torch.compile(torch.sin, backend=heddle.torch.backend, **given)(self.x)

    def test_complex_tensors(self):
        reason = "elements of torch.complex64 are not supported"
        self.check(lambda x: (torch.complex(x, x + 1) * 2).abs() + 1, [self.x],
                   [f"aten.mul.Tensor runs in PyTorch (node mul of the inference graph): {reason}"], ["aten.abs.default", "aten.complex.default", "aten.mul.Tensor"])
        heddle.torch.clear()
        self.check(lambda z: z * z.conj(), [torch.complex(self.x, self.x)], [reason])
        self.check(lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(4, 2, 2)) * 1j).flatten(1), [self.x], ["aten.view_as_complex.default"])

    def test_sparse_tensors(self):
        sparse = self.x.relu().to_sparse()
        self.check(lambda a, b: torch.sparse.mm(a, b) + 1, [sparse, self.x], ["does not support sparse Tensors"])
        self.check(lambda a: (a + 1).to_sparse().to_dense() * 2, [self.x], ["graph break in <lambda>"])
        self.check(lambda a: (a * 2).to_sparse(), [self.x], ["graph break in <lambda>"])

    def test_tensors_on_several_devices(self):
        other = torch.ones(4, 4, device="meta")
        self.check(lambda a, b: (a * 2 + 1, b * 3), [self.x, other], ["it is on meta, and the graph on cpu"], ["aten.mul.Tensor"])

    def test_quantized_and_narrow_tensors(self):
        # Dynamo of PyTorch 2.11 has no fake tensors that are quantized, and hands over no graph.
        reason = "quantized nyi in meta tensors" if torch.__version__.startswith("2.11.") else "elements of torch.quint8 are not supported"
        self.check(lambda a: torch.quantize_per_tensor(a, 0.1, 0, torch.quint8).dequantize() + 1, [self.x], [reason])
        self.check(lambda a: a.to(torch.float8_e4m3fn).float() + 1, [self.x], ["elements of torch.float8_e4m3fn are not supported"])

    def test_custom_operators(self):
        def written(x):
            y = x * 2
            increase(y)
            return y + 1

        self.check(lambda x: twice(x + 1) * 3, [self.x], ["heddle_bad_input_test.twice.default runs in PyTorch", "it is a custom operator"],
                   ["heddle_bad_input_test.twice.default"])
        heddle.torch.clear()
        name = "heddle_bad_input_test.increase.default"
        self.check(written, [self.x], [f"{name} runs in PyTorch", "it is a custom operator, which writes to its arguments"], [name])

    def test_operators_of_higher_order(self):
        self.check(lambda x: torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x * 2,)) * 2, [self.x], ["cond runs in PyTorch"], ["cond"])

    def test_triton_kernels_have_a_name(self):
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional

        def softmax_kernel():
            pass

        graph = torch.fx.Graph()
        node = graph.call_function(triton_kernel_wrapper_functional, kwargs={"kernel_idx": kernel_side_table.add_kernel(softmax_kernel)})
        self.assertEqual(_text.operator_of(node), "triton.softmax_kernel")
        with self.assertRaisesRegex(_text.Unsupported, "it is a Triton kernel"):
            _text.check(node, torch.device("cpu"))

    def test_assertions(self):
        function = torch.compile(lambda x: nn.functional.one_hot(x, 3), backend=heddle.torch.backend)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.testing.assert_close(function(torch.tensor([2, 0])), torch.tensor([[0, 0, 1], [1, 0, 0]]))
        self.assertIn("aten._assert_async.msg runs in PyTorch", "".join(str(one.message) for one in said))
        with self.assertRaisesRegex(RuntimeError, "must be smaller than num_classes"):
            function(torch.tensor([2, 3]))

        def positive(x):
            torch._assert_async(x.sum() > 0, "not positive")  # as a hint of report() says
            return x + 1

        function = torch.compile(positive, backend=heddle.torch.backend)
        torch.testing.assert_close(function(self.x.abs()), self.x.abs() + 1)
        with self.assertRaisesRegex(RuntimeError, "not positive"):
            function(-self.x.abs())

    def test_classes_of_tensors(self):
        class Named(torch.Tensor):
            pass

        class Adding(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return super().__torch_function__(torch.Tensor.add if function is torch.Tensor.mul else function, types, args, kwargs or {})

        for kind in (Named, Adding):
            torch._dynamo.reset()
            x = self.x.as_subclass(kind)
            got = torch.compile(lambda x: torch.Tensor.mul(x, 2) + 1, backend=heddle.torch.backend)(x)
            self.assertIs(type(got), kind)
            torch.testing.assert_close(got, torch.Tensor.mul(x, 2) + 1)

    def test_nested_tensors(self):
        function = torch.compile(lambda x: x.softmax(-1).sum(-1) * 2, backend=heddle.torch.backend)
        for rows in (4, 5):
            x = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(rows, 3)], layout=torch.jagged)
            torch.testing.assert_close(function(x).values(), x.softmax(-1).sum(-1).values() * 2)

    def test_a_result_without_elements_is_resized(self):
        def function(x):
            y = torch.empty(0)
            return torch.mul(x, 2, out=y)  # a break, since the operator resizes y

        self.check(function, [self.x], [])

    def test_tangents_are_refused(self):
        from torch.autograd import forward_ad

        function = torch.compile(torch.sin, backend=heddle.torch.backend)
        with forward_ad.dual_level():
            torch.testing.assert_close(function(self.x), self.x.sin())
            with self.assertRaisesRegex(RuntimeError, "heddle.torch: an argument has a tangent"):
                function(forward_ad.make_dual(self.x, self.x))
        derivative = torch.compile(lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1], backend=heddle.torch.backend)
        torch.testing.assert_close(derivative(self.x), self.x.cos() * self.x)

    def test_a_graph_that_changes_beyond_the_limit(self):
        class Counted(nn.Module):
            steps = 0

            def forward(self, x):
                self.steps += 1
                return x * self.steps

        model, eager = Counted(), Counted()
        with torch._dynamo.config.patch(recompile_limit=2, automatic_dynamic_shapes=False, specialize_int=True), self.assertLogs("torch._dynamo", logging.WARNING) as said:
            function = torch.compile(model, backend=heddle.torch.backend)
            for _ in range(6):
                torch.testing.assert_close(function(self.x), eager(self.x))
        self.assertTrue(any("recompile_limit" in one and "forward" in one for one in said.output), said.output)
        self.assertLessEqual(len(heddle.torch.graphs()), 2)

    def check_training(self, make, prepare=lambda model, seen: None):
        """Results, gradients and what hooks saw are those of eager mode, over three steps, and both passes are compiled by Heddle."""
        torch._dynamo.reset()
        heddle.torch.clear()
        found = []
        for compiles in (False, True):
            torch.manual_seed(1)
            model, seen = make(), []
            prepare(model, seen)
            function = torch.compile(model, backend=heddle.torch.backend) if compiles else model
            for _ in range(3):
                x = self.x.clone().requires_grad_()
                y = function(x)
                (y**2).sum().backward()
                seen += [y.detach(), x.grad, *(one.grad.clone() for one in model.parameters())]
            found.append(seen)
        self.assertEqual(len(found[0]), len(found[1]))
        for a, b in zip(*found):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
        self.assertLessEqual({"forward", "backward"}, {one.kind for one in heddle.torch.graphs() if one.modules})

    @staticmethod
    def network():
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

    def test_hooks_of_modules(self):
        def prepare(model, seen):
            model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
            model[1].register_forward_hook(lambda module, args, result: result + args[0])
            model[2].register_forward_hook(lambda module, args, result: seen.append(result.detach().sum()))
            model[2].register_full_backward_hook(lambda module, into, out: (into[0] * 3,))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check_training(self.network, prepare)

    def test_hooks_of_tensors(self):
        class Hooked(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

            def forward(self, x):
                y = torch.tanh(self.a(x))
                if y.requires_grad:
                    y.register_hook(lambda gradient: gradient * 2)
                return self.b(y)

        def prepare(model, seen):
            model.a.weight.register_hook(lambda gradient: gradient + 1)
            model.b.weight.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad.sum()))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check_training(Hooked, prepare)

    def test_hooks_of_saved_tensors(self):
        packed = []

        def pack(one):
            packed.append(one.shape)
            return one * 1

        model = self.network()
        function = torch.compile(model, backend=heddle.torch.backend)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            y = function(self.x)
        (y**2).sum().backward()
        got = [one.grad.clone() for one in model.parameters()]
        model.zero_grad()
        (model(self.x) ** 2).sum().backward()
        for a, one in zip(got, model.parameters(), strict=True):
            torch.testing.assert_close(a, one.grad, rtol=1e-4, atol=1e-5)
        self.assertTrue(packed)

    def test_ddp_and_its_collectives(self):
        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            self.skipTest("this PyTorch has no gloo")
        import torch.distributed._functional_collectives as collectives

        class Perceptron(nn.Module):  # of a Sequential within DistributedDataParallel, Dynamo makes no graph
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 4)

            def forward(self, x):
                return self.b(torch.tanh(self.a(x)))

        def doubled(_, bucket):
            done = torch.futures.Future()
            done.set_result(bucket.buffer() * 2)
            return done

        def communicate(model, seen):
            model.register_comm_hook(None, doubled)

        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="heddle-torch-test-"))
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            stack.callback(torch.distributed.destroy_process_group)
            for prepare, hooks in ((lambda model, seen: None, "add up gradients among processes"), (communicate, "doubled")):
                with heddle.torch.report() as report, self.assertWarnsRegex(UserWarning, "DistributedDataParallel does before and after forward") as warned:
                    self.check_training(lambda: nn.parallel.DistributedDataParallel(Perceptron()), prepare)
                self.assertEqual([str(one.message) for one in warned.warnings if "graph break" in str(one.message)], [])
                self.assertEqual({one.instead for one in report.result().breaks}, {_breaks_hints.DDP})
                self.assertEqual({one.backend for one in report.result().graphs}, {"heddle"})
                self.assertRegex(report.result().graphs[0].notes[0], f"^DistributedDataParallel's hooks run in PyTorch.*{hooks}")
                torch._dynamo.reset()
                with heddle.torch.report() as report:  # as the hint says
                    model = nn.parallel.DistributedDataParallel(torch.compile(Perceptron(), backend=heddle.torch.backend))
                    prepare(model, [])
                    model(self.x).sum().backward()
                self.assertEqual((report.result().breaks, len(report.result().graphs)), ([], 1))
                self.assertRegex(report.result().graphs[0].notes[0], hooks)
            torch._dynamo.reset()
            heddle.torch.clear()
            group = torch.distributed.group.WORLD
            self.check(lambda x: collectives.all_reduce(x * 2, "sum", group) + 1, [self.x], ["_c10d_functional.all_reduce.default runs in PyTorch", "it is a custom operator"])


if __name__ == "__main__":
    unittest.main()
