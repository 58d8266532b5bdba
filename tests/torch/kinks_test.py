# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kinks.py explains gradients with a few arguments on the other side of a kink, and no others. Skipped without PyTorch (tools/dev/setup --torch)."""
import copy
import unittest

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    torch = None
else:
    import kinks

TINY = 1e-9  # an argument's distance from a kink that f32 does not tell


def network_of(function, images):
    """`function` between two layers, where `moved` is added to its argument, and a ReLU after the second."""
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            layer = (lambda inner, outer: nn.Conv2d(inner, outer, 3)) if images else nn.Linear
            self.first, self.second, self.third = layer(3, 6), layer(6, 5), layer(5, 4)
            self.register_buffer("moved", torch.zeros(()))

        def forward(self, given):
            return self.third(functional.relu(self.second(function(self.first(given) + self.moved))))

    torch.manual_seed(3)
    return Network().double(), torch.randn((2, 3, 20, 20) if images else (8, 3), dtype=torch.float64)


def gradients_of(network, given):
    result = network(given)
    direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return torch.autograd.grad(result, list(network.parameters()), direction)


def near(*points, distance=TINY):
    """For `Kinks.beside`: elements that are that far above these points, and for the other side."""
    def placed(argument):
        return [(7 * place + 5, point + distance, point - distance) for place, point in enumerate(points)]
    return placed


def near_tie(argument):
    """Of the first window of a pool."""
    return [(0, 5.0, 5.0), (1, 5.0 - TINY, 5.0 + TINY)]


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Kinks(unittest.TestCase):
    def beside(self, function, placed, images=False):
        """A network with some arguments of `function` near its kinks, its input, and its gradients with these arguments on the other side."""
        network, given = network_of(function, images)
        with torch.no_grad():
            argument = network.first(given)
        moves = []
        for side in (2, 1):
            moved = argument.clone().flatten()
            for one in placed(moved):
                moved[one[0]] = one[side]
            moves.append(moved.view_as(argument) - argument)
        network.moved = moves[0]
        other = gradients_of(network, given)
        network.moved = moves[1]
        return network, given, other

    def explained(self, network, given, got):
        wanted = gradients_of(network, given)
        scales = [float(one.abs().max()) for one in wanted]

        def within(got, exact):
            return all(float((a - b).abs().max()) <= 1e-6 * scale for a, b, scale in zip(got, exact, scales, strict=True))

        self.assertFalse(within(got, wanted))
        found = kinks.Kinks(network, [given], copy.deepcopy(network).float(), [given.float()], lambda: gradients_of(network, given))
        before = [one.detach().clone() for one in network.parameters()]
        result = found.explain(got, within, scales)
        self.assertTrue(all(map(torch.equal, before, network.parameters())))
        if result is None:
            return None
        sides, gradients = result
        self.assertTrue(within(got, gradients))
        return [one.function for one in sides], max(one.distance for one in sides)

    def test_each_function_is_explained(self):
        def other(given):
            return given.roll(1, -1) - 0.1

        for name, function, points, images in [
                ("relu", functional.relu, [0], False), ("relu", nn.ReLU(inplace=True), [0, 0, 0], False), ("relu", torch.relu_, [0], True),
                ("relu6", functional.relu6, [0, 6, 6], False), ("hardtanh", functional.hardtanh, [-1, 1], False), ("hardtanh", nn.ReLU6(True), [0, 6], True),
                ("leaky_relu", nn.LeakyReLU(0.3), [0], True), ("hardswish", nn.Hardswish(), [-3, 3], False), ("hardsigmoid", nn.Hardsigmoid(), [3], False),
                ("abs", abs, [0], False), ("abs", torch.abs, [0, 0], True), ("clamp", lambda given: given.clamp(max=0.25), [0.25], False),
                ("clamp", lambda given: torch.clamp(given, -0.5, 0.25), [-0.5, 0.25], False), ("clamp_min", lambda given: given.clamp_min(0.1), [0.1], False),
                ("relu", lambda given: functional.relu(input=given, inplace=True), [0], False)]:
            with self.subTest(name, points=points, images=images):
                found = self.explained(*self.beside(function, near(*points), images))
                self.assertIsNotNone(found)
                self.assertEqual(found[0], [name] * len(points))
                self.assertLess(found[1], 1.1 * TINY)
        for name, function in (("maximum", torch.maximum), ("minimum", torch.minimum), ("max", torch.max)):
            with self.subTest(name):
                found = self.explained(*self.beside(lambda given, function=function: function(given, other(given)),
                                                    lambda argument: [(5, float(argument[4]) - 0.1 + TINY, float(argument[4]) - 0.1 - TINY)]))
                self.assertEqual(found and found[0], [name])
        for pool in (nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d((2, 3), stride=(2, 1), ceil_mode=True), nn.MaxPool2d(2, dilation=(3, 1), stride=2)):
            with self.subTest(pool):
                found = self.explained(*self.beside(pool, near_tie, True))
                self.assertEqual(found and found[0], ["max_pool2d"])

    def test_an_argument_that_is_far_from_zero_is_not_moved(self):
        self.assertIsNone(self.explained(*self.beside(functional.relu, near(0, distance=1e-4))))

    def test_other_errors_are_not_explained(self):
        for function, placed, images in ((functional.relu, near(0, 0, 0), False), (nn.MaxPool2d(2), near_tie, True)):
            network, given, other = self.beside(function, placed, images)
            wanted = gradients_of(network, given)
            self.assertIsNotNone(self.explained(network, given, other))
            for place in range(len(other)):
                with self.subTest(function, place=place):
                    wrong = [one.clone() for one in other]
                    wrong[place].flatten()[0] += 1e-4 * wanted[place].abs().max()
                    self.assertIsNone(self.explained(network, given, wrong))
            self.assertIsNone(self.explained(network, given, [(one + there) / 2 for one, there in zip(other, wanted, strict=True)]))
            self.assertIsNone(self.explained(network, given, [2 * one - there for one, there in zip(other, wanted, strict=True)]))

    def test_without_kinks_nothing_is_explained(self):
        network, given = network_of(functional.gelu, False)
        found = kinks.Kinks(network.second, [given.new_ones(2, 6)], copy.deepcopy(network.second).float(), [given.new_ones(2, 6).float()], lambda: [])
        self.assertEqual(len(found), 0)
        self.assertIsNone(found.explain([], lambda got, exact: False, []))

    def test_networks_that_differ_are_refused(self):
        network, given = network_of(functional.relu, False)
        other, _ = network_of(lambda given: functional.relu6(given), False)
        with self.assertRaisesRegex(ValueError, "call 0 is of relu6 in f32 and of relu in f64"):
            kinks.Kinks(network, [given], other.float(), [given.float()], lambda: gradients_of(network, given))

    def test_text(self):
        sides = [kinks.Side("relu", 1e-8, 2e-7, 0.5), kinks.Side("abs", 3e-8, 4e-7, 0.25)]
        self.assertEqual(kinks.text_of(sides), "2 arguments of abs, relu on the other side (at most 3.0e-08 from the kink; f32 errs by up to 4.0e-07 there; "
                                               "mean 2.5e-01)")


if __name__ == "__main__":
    unittest.main()
