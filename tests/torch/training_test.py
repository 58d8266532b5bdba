# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training under torch.compile(backend="heddle") is that of eager mode: optimizers whose step is compiled, accumulated and clipped gradients, checkpointing,
and mixed precision. Parameters and the state of optimizers are updated where they lie. Skipped without PyTorch (tools/dev/setup --torch).

    training_test.py --steps 10000 [--device cuda] [--network gpt_small]
                                        trains that long (long_training.py): memory stays what it was after the second step, its peak is the plan's, and the
                                        loss is that of eager mode, but for the order of sums
"""
import copy
import subprocess
import sys
import unittest

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
    from torch.nn import functional as f
    from torch.utils.checkpoint import checkpoint
except ImportError:
    torch = None
else:
    import heddle
    import heddle.torch
    import long_training


def network(width=16):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 5))


def batches(count, size=8):
    generator = torch.Generator().manual_seed(2)
    for _ in range(count):
        yield torch.randn(size, 16, generator=generator), torch.randint(5, (size,), generator=generator)


def trained(compiled, make_optimizer, count=6, clip=None, accumulate=1, width=16, zeros=True, after=lambda step, model: None):
    """(losses, model, optimizer) after so many steps, compiled or in eager mode. With `zeros`, every other step keeps the gradients' tensors, as zeros."""
    model = network(width)
    optimizer = make_optimizer(model.parameters())
    backend = heddle.torch.backend

    def loss_of(x, y):
        return f.cross_entropy(model(x), y)

    def update():
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    if compiled:
        loss_of, update = torch.compile(loss_of, backend=backend), torch.compile(update, backend=backend)
    losses = []
    for step, (x, y) in enumerate(batches(count)):
        loss = loss_of(x, y) / accumulate
        loss.backward()
        if (step + 1) % accumulate == 0:
            update()
            optimizer.zero_grad(set_to_none=not zeros or step % 2 == 0)
        losses.append(float(loss.detach()))
        after(step, model)
    return losses, model, optimizer


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Training(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        heddle.torch.clear()

    def check(self, make_optimizer, **options):
        ours, model, optimizer = trained(True, make_optimizer, **options)
        theirs, other, of_other = trained(False, make_optimizer, **options)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5, msg=lambda text: f"{name}: {text}")
            for key, value in of_other.state[b].items():
                torch.testing.assert_close(optimizer.state[a][key], value, rtol=1e-3, atol=1e-6, msg=lambda text: f"{name}, {key}: {text}")
        found = heddle.torch.graphs()
        self.assertEqual([one.fallbacks for one in found], [[]] * len(found))
        self.assertEqual({one.kind for one in found}, {"forward", "backward", "inference"})
        self.assertTrue(all(len(one.modules) == 1 for one in found), found)

    def test_optimizers(self):
        for name, make in {
                "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True),
                "Adam": lambda parameters: torch.optim.Adam(parameters, 1e-2, amsgrad=True),
                "AdamW": lambda parameters: torch.optim.AdamW(parameters, 1e-2, foreach=True),
                "AdamW, fused": lambda parameters: torch.optim.AdamW(parameters, 1e-2, fused=True),
                "AdamW, one after another": lambda parameters: torch.optim.AdamW(parameters, 1e-2, foreach=False)}.items():
            with self.subTest(name):
                self.setUp()
                self.check(make)

    def test_a_whole_step(self):
        """Dynamo breaks the graph at backward(), and then compiles the backward pass while it looks at what the function calls."""
        losses = []
        for is_ours in (True, False):
            model = network()
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

            def step(x, y):
                optimizer.zero_grad()
                loss = f.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return loss.detach()

            function = torch.compile(step, backend=heddle.torch.backend) if is_ours else step
            losses.append([float(function(x, y)) for x, y in batches(4)])
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
        self.assertLessEqual({"forward", "backward", "inference"}, {one.kind for one in heddle.torch.graphs()})

    def test_a_step_of_one_module(self):
        """As docs/pytorch.md writes it."""
        from torch.optim.adamw import adamw
        for draws in (False, True):
            torch._dynamo.reset()
            heddle.torch.clear()
            losses, models = [], []
            for is_ours in (True, False):
                model = network()
                if draws:
                    model = nn.Sequential(nn.Dropout(0.3), *model, nn.Dropout(0.1))
                torch.manual_seed(5)
                parameters = dict(model.named_parameters())
                weights = list(parameters.values())
                first, second = ([torch.zeros_like(one) for one in weights] for _ in range(2))
                steps = [torch.tensor(0.0) for _ in weights]

                def step(x, y):
                    def loss_of(values):
                        return f.cross_entropy(torch.func.functional_call(model, values, (x,)), y)

                    gradients, loss = torch.func.grad_and_value(loss_of)({name: one.detach() for name, one in parameters.items()})
                    with torch.no_grad():
                        adamw(weights, list(gradients.values()), first, second, [], steps, foreach=False, amsgrad=False, beta1=0.9, beta2=0.999, lr=1e-2,
                              weight_decay=1e-2, eps=1e-8, maximize=False)
                    return loss

                function = torch.compile(step, backend=heddle.torch.backend, fullgraph=True) if is_ours else step
                losses.append([float(function(x, y)) for x, y in batches(4)])
                models.append(model)
            torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
            for a, b in zip(*(one.parameters() for one in models), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
            found = heddle.torch.graphs()
            self.assertEqual([(one.kind, len(one.modules), {fallback.operator for fallback in one.fallbacks}) for one in found],
                             [("inference", 1, {"aten.bernoulli.p"} if draws else set())])
            self.assertGreaterEqual(len(heddle.open(found[0].modules[0], "cpu").function("main").donations), 3 * len(weights))

    def test_gradients_are_accumulated_and_clipped(self):
        self.check(lambda parameters: torch.optim.SGD(parameters, 0.5), clip=0.1, accumulate=3)

    def test_parameters_are_updated_where_they_lie(self):
        """And views that others hold of them see it."""
        places, seen = [], []

        def after(step, model):
            weight = model[0].weight
            if step == 0:
                seen.append(weight.detach()[0])
            places.append([one.data_ptr() for one in model.parameters()])
            self.assertTrue(torch.equal(seen[0], weight.detach()[0]))

        _, model, optimizer = trained(True, lambda parameters: torch.optim.AdamW(parameters, 1e-2), width=128, after=after)
        self.assertTrue(all(one == places[0] for one in places))
        texts = [heddle.open(one.modules[0], "cpu").function("main").donations for one in heddle.torch.graphs() if one.kind == "inference"]
        self.assertTrue(any(len(one) >= 3 * len(list(model.parameters())) for one in texts), texts)  # parameters and both moments

    def test_checkpointing(self):
        class Checkpointed(nn.Module):
            def __init__(self, is_on):
                super().__init__()
                torch.manual_seed(3)
                self.layers, self.is_on = nn.ModuleList(network(64) for _ in range(3)), is_on

            def forward(self, x):
                for layer in self.layers:
                    x = f.pad(checkpoint(layer, x, use_reentrant=False) if self.is_on else layer(x), (0, 11))
                return x

        kept, gradients = [], []
        for is_on, is_compiled in ((True, True), (False, True), (True, False)):
            self.setUp()
            model = Checkpointed(is_on)
            function = torch.compile(model, backend=heddle.torch.backend) if is_compiled else model
            saved = []
            with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
                result = function(next(batches(1))[0])
            result.square().sum().backward()
            gradients.append([one.grad for one in model.parameters()])
            kept.append(sum(one.nbytes for one in saved))
        torch.testing.assert_close(gradients[0], gradients[2], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(gradients[1], gradients[2], rtol=1e-3, atol=1e-5)
        self.assertLess(kept[0], kept[1])

    def test_random_numbers_of_checkpointed_functions(self):
        """The backward pass draws those of the forward pass, which are those of eager mode, and leaves the generator as it is."""
        linear = network(64)
        functions = {
            "dropout": lambda x: f.dropout(linear(f.dropout(x, 0.3)).sin(), 0.5),
            "of a result": lambda x: (x * 2).sin() * torch.bernoulli((x * 3).sigmoid().detach()) + torch.randn(x.shape) * x.cos(),
            # Memory to draw like is made once, and the function that is not checkpointed has it, too.
            "after another": lambda x: f.dropout(linear(f.dropout(x, 0.3)).sin(), 0.5),
            "two results": lambda x: f.rrelu((x * 2).sin(), 0.1, 0.9, training=True).sin()}
        for name, function in functions.items():
            for is_reentrant, dynamic in ((False, True), (True, False)):
                with self.subTest(name, is_reentrant=is_reentrant, dynamic=dynamic):
                    self.setUp()

                    def loss_of(x):
                        x = f.dropout((x * 2).sin(), 0.3) if name == "after another" else x
                        return checkpoint(function, x, use_reentrant=is_reentrant).square().sum() + torch.rand(()) * x.sum()

                    compiled = torch.compile(loss_of, backend=heddle.torch.backend, dynamic=dynamic)
                    for step, (x, _) in enumerate(batches(3)):
                        found = []
                        for one in (compiled, loss_of):
                            torch.manual_seed(step)
                            x = x.detach().requires_grad_()
                            loss = one(x)
                            state = torch.get_rng_state()
                            torch.rand(3)  # of what comes between the passes
                            loss.backward()
                            found.append((loss.detach(), x.grad, state, torch.get_rng_state()))
                        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
                    drawn = [[one for one in graph.fallbacks if one.reason == "the backward pass draws its random numbers again"] for graph in heddle.torch.graphs()]
                    self.assertEqual([graph.kind for graph in heddle.torch.graphs()], ["forward", "backward"])
                    self.assertTrue(all(drawn), heddle.torch.graphs())
                    if name in ("dropout", "after another"):
                        self.assertEqual([len(graph.modules) for graph in heddle.torch.graphs()], [1, 1])
                    self.assertTrue(all(one.operator.startswith("aten.") for ones in drawn for one in ones), drawn)

    def test_mixed_precision(self):
        """In bf16, with a scaler of the loss, no farther from f32 than eager mode in bf16, within a factor."""
        def run(compiled, mixed):
            torch._dynamo.reset()
            model = network(64)
            optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=mixed)

            def loss_of(x, y):
                with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                    return f.cross_entropy(model(x), y)

            function = torch.compile(loss_of, backend=heddle.torch.backend) if compiled else loss_of
            losses = []
            for x, y in batches(10):
                loss = function(x, y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                losses.append(float(loss.detach()))
            return torch.tensor(losses), torch.cat([one.detach().flatten() for one in model.parameters()])

        exact, of_exact = run(False, False)
        eager, of_eager = run(False, True)
        ours, of_ours = run(True, True)
        self.assertLess((ours - exact).abs().max(), 2 * (eager - exact).abs().max() + 1e-3)
        self.assertLess((of_ours - of_exact).norm(), 2 * (of_eager - of_exact).norm() + 1e-3)

    def test_an_overflow_leaves_parameters_alone(self):
        model = network()
        before = copy.deepcopy(model.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        function = torch.compile(lambda x: model(x).sum(), backend=heddle.torch.backend)
        scaler.scale(function(torch.full((2, 16), float("inf")))).backward()
        scaler.step(optimizer)
        scaler.update()
        self.assertEqual(scaler.get_scale(), 512.0)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_memory_is_flat(self):
        found = []

        def after(step, model):
            if step in (1, 39):
                found.append(long_training.pool())

        trained(True, lambda parameters: torch.optim.AdamW(parameters, 1e-3), count=40, zeros=False, after=after)
        self.assertEqual(found[0].requested, found[1].requested)
        self.assertEqual(found[0].reserved, found[1].reserved)

    def test_memory_and_loss_of_a_process(self):
        done = subprocess.run([sys.executable, "-B", __file__, "--steps", "50"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if "--steps" in sys.argv:
        sys.exit(long_training.main())
    unittest.main()
