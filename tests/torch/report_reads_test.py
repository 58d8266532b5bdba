# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.report: which reads of tensors by the host are counted, and that each is counted once."""
import contextlib
import importlib.util
import io
import types
import unittest

from heddle.torch import report as open_report

HAS_TORCH = importlib.util.find_spec("torch") is not None

if HAS_TORCH:
    import torch

    @torch.compiler.disable
    def outside(y):
        return float(y.numpy().sum())  # read here

    @torch.compiler.disable
    def outside_formatted(y):
        return f"{y}"  # read here


def listed(x):
    y = x * 2
    z = y.tolist()  # read here
    return y + len(z)


def as_array(x):
    y = x * 2
    return y + outside(y)


def printed(x):
    y = x * 2
    print(y)  # read here
    return y + 1


def formatted(x):
    y = x * 2
    return y, outside_formatted(y)


@unittest.skipUnless(HAS_TORCH, "SKIP: PyTorch is not installed; tools/dev/setup --torch installs it")
class Reads(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()

    def test_whole_tensors_are_read_once(self):
        for function in (listed, as_array, printed, formatted):
            with self.subTest(function.__name__), open_report() as report, contextlib.redirect_stdout(io.StringIO()) as out:
                compiled = torch.compile(function, backend="eager")
                for _ in range(3):
                    compiled(torch.arange(6.0))
                found = report.result()
                self.assertEqual([(one.count, one.graph, one.place.text.endswith("# read here")) for one in found.host_reads], [(3, None, True)], found.host_reads)
                self.assertEqual(out.getvalue().count("tensor(["), 3 if function is printed else 0)
                if function in (listed, printed):
                    self.assertEqual(found.breaks[0].cost.host_waits, 3)

    def test_single_values_are_counted_as_before(self):
        x = torch.arange(4.0)
        with open_report() as report:
            x.sum().item()
            bool(x[0] > 0)
            [float(one) for one in x]
        self.assertEqual([one.count for one in report.result().host_reads], [4, 1, 1])

    def test_what_is_on_the_host_is_no_read(self):
        x = torch.arange(4.0)
        with open_report() as report:
            self.assertIs(x.cpu(), x)
        self.assertEqual(report.result().host_reads, [])

    def test_a_copy_from_a_device_is_one_read(self):
        with open_report() as report:
            host = report._observer.host
            copied = torch.arange(3.0)
            copy = host._from_device(lambda tensor: copied, host._counting(lambda tensor: copied, 0))
            got = copy(types.SimpleNamespace(device=torch.device("cuda:0")))
            self.assertEqual(got.tolist(), [0.0, 1.0, 2.0])
            self.assertEqual(sum(one.count for one in report.result().host_reads), 1)
            self.assertEqual((copied + 1).tolist(), [1.0, 2.0, 3.0])
            self.assertEqual(sum(one.count for one in report.result().host_reads), 2)

    def test_errors_are_the_same_and_the_next_read_is_counted(self):
        with open_report() as report:
            with self.assertRaisesRegex(RuntimeError, "requires grad"):
                torch.ones(2, requires_grad=True).numpy()
            torch.ones(2).numpy()
        self.assertEqual([one.count for one in report.result().host_reads], [1])

    def test_pytorch_is_as_it_was(self):
        def parts():
            return [vars(torch.Tensor).get(name) for name in ("tolist", "numpy", "cpu")], torch._tensor_str._str, torch.Tensor.numpy

        before = parts()
        with open_report():
            self.assertIsNot(torch.Tensor.numpy, before[-1])
        self.assertEqual(parts(), before)


if __name__ == "__main__":
    unittest.main()
