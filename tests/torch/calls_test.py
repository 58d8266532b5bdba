# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of PyTorch as arguments and results of modules: memory that a module takes as it is, memory that has to be copied first and is written back, and
memory that comes back from call to call. Skipped without PyTorch (tools/dev/setup --torch)."""
import gc
import threading
import unittest
from unittest import mock

import heddle

import caches  # noqa: F401  a folder of its own

try:
    import torch
except ImportError:
    torch = None
else:
    import heddle.torch
    from heddle.torch import _calls


def update(x, total):
    """Reads x, and updates total where it lies."""
    total.mul_(0.5).add_(x.abs())
    return (x * 2).sum(-1), x - 1


class Others:
    """What calls with arrays in place of the usual way."""

    def __init__(self):
        self.count, self.call = 0, _calls.Module._call_with_arrays

    def __enter__(self):
        def counted(module, values, made, given):
            self.count += 1
            self.call(module, values, made, given)

        self.patch = mock.patch.object(_calls.Module, "_call_with_arrays", counted)
        self.patch.start()
        return self

    def __exit__(self, *_):
        self.patch.stop()


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Calls(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()

    def compiled(self, function, **options):
        return torch.compile(function, backend=heddle.torch.backend, fullgraph=True, **options)

    def check(self, compiled, x, total):
        """One call of `update` beside PyTorch's."""
        wanted_total = total.clone()
        address = total.data_ptr()
        wanted = update(x, wanted_total)
        for got, one in zip(compiled(x, total), wanted):
            torch.testing.assert_close(got, one)
        torch.testing.assert_close(total, wanted_total)
        self.assertEqual(total.data_ptr(), address)

    def test_the_same_memory_and_other_memory(self):
        compiled, tensors = self.compiled(update), [(torch.randn(3, 16), torch.randn(3, 16)) for _ in range(7)]
        with Others() as others:
            for turn in range(3):  # more addresses than are kept
                for x, total in tensors:
                    self.check(compiled, x, total)
                    self.check(compiled, x, total)
        if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            self.assertEqual(others.count, 0)

    def test_memory_at_odd_addresses(self):
        compiled = self.compiled(update)
        for x_at, total_at in ((0, 0), (1, 0), (0, 1), (3, 5), (16, 32)):
            with self.subTest(x=x_at, total=total_at):
                memory, totals = torch.randn(100), torch.randn(100)
                before, end = totals[:total_at].clone(), totals[total_at + 48:].clone()
                self.check(compiled, memory[x_at:x_at + 48].view(3, 16), totals[total_at:total_at + 48].view(3, 16))
                self.assertTrue(torch.equal(totals[:total_at], before) and torch.equal(totals[total_at + 48:], end))

    def test_memory_in_another_order(self):
        for make in (lambda: torch.randn(16, 3).t(), lambda: torch.randn(3, 32)[:, ::2], lambda: torch.randn(1, 16).expand(3, 16)):
            x = make()
            with self.subTest(strides=x.stride()):
                torch._dynamo.reset()
                compiled = self.compiled(update)
                for total in (torch.randn(3, 16), torch.randn(16, 3).t(), torch.randn(3, 32)[:, 1::2]):
                    self.check(compiled, x, total)
                    self.check(compiled, make(), total)

    def test_a_number_of_another_type_than_that_of_the_trace(self):
        module = torch.fx.symbolic_trace(lambda x, number: (x * number,))
        function = heddle.torch.backend(module, [torch.ones(3), torch.tensor(2.0)])
        for number in (torch.tensor(0.5), torch.tensor(0.5, dtype=torch.float64)):
            self.assertTrue(torch.equal(function(torch.ones(3), number)[0], torch.full((3,), 0.5)))

    def test_values_that_are_negated_when_they_are_read(self):
        compiled = self.compiled(update)
        self.check(compiled, torch.randn(3, 16), torch.randn(3, 16))
        self.check(compiled, torch._neg_view(torch.randn(3, 16)), torch._neg_view(torch.randn(3, 16)))

    def test_parameters_and_what_belongs_to_a_gradient(self):
        weight = torch.nn.Parameter(torch.randn(16, 4))
        other = torch.nn.Parameter(weight.detach().clone())
        compiled = self.compiled(lambda x, w: torch.tanh(x @ w))
        for _ in range(3):
            x = torch.randn(3, 16, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            # A gradient in another order, and one whose values are negated when they are read.
            for gradient in (torch.randn(4, 3).t(), torch._neg_view(torch.randn(3, 4))):
                compiled(x, weight).backward(gradient)
                torch.tanh(y @ other).backward(gradient)
            torch.testing.assert_close(x.grad, y.grad)
            torch.testing.assert_close(weight.grad, other.grad)

    def test_symbolic_and_empty_extents(self):
        compiled = self.compiled(update, dynamic=True)
        for rows in (3, 5, 3, 2, 0, 7, 5):
            self.check(compiled, torch.randn(rows, 16), torch.randn(rows, 16))

    def test_without_the_functions_of_dlpack(self):
        with mock.patch.object(_calls.Module, "_prepared", lambda module: None), Others() as others:
            compiled = self.compiled(update)
            memory = torch.randn(200)
            for x, total in ((torch.randn(3, 16), torch.randn(3, 16)), (memory[1:49].view(3, 16), memory[101:149].view(3, 16)),
                             (torch.randn(16, 3).t(), torch.randn(16, 3).t())):
                self.check(compiled, x, total)
        self.assertEqual(others.count, 3)

    def test_threads(self):
        compiled = self.compiled(update)
        self.check(compiled, torch.randn(3, 16), torch.randn(3, 16))
        failures = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            try:
                for _ in range(100):
                    self.check(compiled, torch.randn(3, 16, generator=generator), torch.randn(3, 16, generator=generator))
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failures, [])

    def test_a_failed_call_leaves_nothing_behind(self):
        def pick(x, index, total):
            total.add_(x[index])

        compiled = self.compiled(pick)
        x, index, total = torch.randn(5, 8), torch.tensor([1, 4]), torch.zeros(2, 8)
        compiled(x, index, total)
        for _ in range(2):
            index.fill_(5)
            with self.assertRaises(heddle.Error):
                compiled(x, index, total)
            index.copy_(torch.tensor([0, 2]))
            total.zero_()
            compiled(x, index, total)
            torch.testing.assert_close(total, x[[0, 2]])

    def test_results_outlive_what_made_them(self):
        def work():
            x, total = torch.arange(48.0).view(3, 16), torch.zeros(3, 16)
            return self.compiled(update)(x, total), x

        (total, less), x = work()
        torch._dynamo.reset()
        gc.collect()
        torch.testing.assert_close(less, x - 1)
        torch.testing.assert_close(total, 2 * x.sum(-1))


if __name__ == "__main__":
    unittest.main()
