# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGD, Adam and AdamW under torch.compile(backend="heddle"), each as one tensor after another, foreach=True and fused=True: the step is compiled, without
operators that PyTorch runs, and parameters and state are updated where they lie, to what eager mode has. Skipped without PyTorch (tools/dev/setup --torch).
"""
import copy
import inspect
import os
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import caches  # noqa: F401  a folder of its own

try:
    import torch
except ImportError:
    torch = None
else:
    import heddle.torch

FORMS = {"one after another": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.1, "maximize": True}),
    "SGD, Nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"lr": 1e-2}),
    "Adam, AMSGrad": ("Adam", {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.1}),
    "AdamW": ("AdamW", {"lr": 1e-2, "betas": (0.0, 0.99), "maximize": True}),
    "AdamW, AMSGrad": ("AdamW", {"lr": 1e-2, "amsgrad": True}),
}
IN_ANOTHER_PROCESS = """
import torch, heddle.torch
from torch._dynamo.utils import counters
from torch.optim.adam import adam
weights, gradients, first, second = ([torch.full((3, 4), value)] for value in (1.0, 2.0, 0.0, 0.0))
steps = [torch.tensor(0.0)]
def step(weights, gradients, first, second, steps):
    adam(weights, gradients, first, second, [], steps, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=0.25, weight_decay=0.0, eps=1e-8, maximize=False)
torch.compile(step, backend=heddle.torch.backend, fullgraph=True)(weights, gradients, first, second, steps)
torch.testing.assert_close(weights[0], torch.full((3, 4), 0.75))
print("COUNTS", counters["heddle"]["trace_found"], counters["heddle"]["trace_saved"], sum(len(one.fallbacks) for one in heddle.torch.graphs()))
"""


def made(name, options, dtype=None):
    """(optimizer, parameters)"""
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in ((5, 7), (7,), (3, 2, 9))]
    return getattr(torch.optim, name)(parameters, **options), parameters


def set_gradients(parameters, step, scale=1.0):
    generator = torch.Generator().manual_seed(step)
    for one in parameters:
        one.grad = torch.randn(one.shape, generator=generator, dtype=one.dtype) * scale


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Optimizers(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        heddle.torch.clear()

    def check_graphs(self, name):
        found = heddle.torch.graphs()
        self.assertTrue(found, f"{name}: nothing was compiled")
        self.assertEqual([(one.kind, len(one.modules), one.fallbacks) for one in found], [("inference", 1, [])] * len(found), name)

    def check_same(self, ours, theirs, **tolerance):
        """Parameters and state_dict()s of (optimizer, parameters)."""
        torch.testing.assert_close(ours[1], theirs[1], **tolerance)
        (a, b) = (one[0].state_dict() for one in (ours, theirs))
        self.assertEqual(a["param_groups"], b["param_groups"])
        torch.testing.assert_close(a["state"], b["state"], **tolerance)

    def each(self, check, forms=FORMS):
        for name, (kind, options) in OPTIMIZERS.items():
            for form in forms:
                with self.subTest(name, form=form):
                    self.setUp()
                    check(f"{name}, {form}", kind, options | FORMS[form])

    def test_steps(self):
        def check(name, kind, options):
            ours, theirs = made(kind, options), made(kind, options)
            update = torch.compile(ours[0].step, backend=heddle.torch.backend)
            places = []
            for step in range(6):
                for one in (ours, theirs):
                    set_gradients(one[1], step)
                update()
                theirs[0].step()
                state = [one for of_one in ours[0].state.values() for one in of_one.values() if isinstance(one, torch.Tensor)]
                places.append([one.data_ptr() for one in (*ours[1], *state)])
            self.assertTrue(all(one == places[0] for one in places), name)
            self.check_same(ours, theirs, rtol=1e-5, atol=1e-6)
            self.check_graphs(name)

        self.each(check)

    def test_a_state_is_eager_modes(self):
        """It goes on in eager mode and in a compiled step of another form, and what eager mode has, in a compiled step."""
        def check(name, kind, options):
            other = {key: value for key, value in options.items() if key != "fused"} | {"foreach": True}
            runs = []
            for first, second, compiled in ((options, options, (True, False)), (options, options, (False, True)), (options, other, (True, True)),
                                            (options, options, (False, False))):
                run = made(kind, first)
                for half, is_compiled in enumerate(compiled):
                    if half:
                        fresh = made(kind, second)
                        with torch.no_grad():
                            for to, one in zip(fresh[1], run[1], strict=True):
                                to.copy_(one)
                        groups = fresh[0].state_dict()["param_groups"]
                        fresh[0].load_state_dict(copy.deepcopy(run[0].state_dict()) | {"param_groups": groups})
                        run = fresh
                    update = torch.compile(run[0].step, backend=heddle.torch.backend) if is_compiled else run[0].step
                    for step in range(3):
                        set_gradients(run[1], 3 * half + step)
                        update()
                runs.append(run)
            for one in runs[:3]:
                torch.testing.assert_close(one[1], runs[3][1], rtol=1e-5, atol=1e-6, msg=lambda text: f"{name}: {text}")
            for one in runs[:2]:
                self.check_same(one, runs[3], rtol=1e-5, atol=1e-6)

        self.each(check, ("fused",))

    def test_a_scaler_gives_fused_ones_its_scale_and_its_infinities(self):
        """A step with an infinity in the gradients changes nothing, and others get what is not scaled."""
        def check(name, kind, options):
            runs = []
            for is_compiled in (True, False):
                run = made(kind, options)
                before = copy.deepcopy(run[1])
                if is_compiled:
                    run[0].step = torch.compile(run[0].step, backend=heddle.torch.backend)
                scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
                for step in range(7):
                    generator = torch.Generator().manual_seed(step)
                    loss = sum((one * torch.randn(one.shape, generator=generator)).sum() for one in run[1])
                    run[0].zero_grad()
                    scaler.scale(loss).backward()
                    if step in (2, 5):
                        run[1][1].grad[3] = float("inf")
                        before = [one.detach().clone() for one in run[1]]
                    scaler.step(run[0])
                    if step in (2, 5):
                        self.assertTrue(all(torch.equal(one, other) for one, other in zip(run[1], before, strict=True)), f"{name}, step {step}")
                    scaler.update()
                runs.append((run, scaler.get_scale(), [one.grad for one in run[1]]))
            self.check_same(runs[0][0], runs[1][0], rtol=1e-5, atol=1e-6)
            self.assertEqual(runs[0][1], runs[1][1])
            torch.testing.assert_close(runs[0][2], runs[1][2])  # the step has taken the scale out of them
            self.check_graphs(name)

        self.each(check, ("fused",))

    def test_a_first_step_with_an_infinity(self):
        """There is no momentum yet, so it is zero."""
        optimizer, parameters = made("SGD", {"lr": 0.5, "momentum": 0.5, "fused": True})
        before = [one.detach().clone() for one in parameters]
        update = torch.compile(optimizer.step, backend=heddle.torch.backend)
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(4.0), torch.tensor(1.0)
        set_gradients(parameters, 0, float("inf"))
        update()
        for one, old in zip(parameters, before, strict=True):
            self.assertTrue(torch.equal(one, old))
            self.assertTrue(torch.equal(optimizer.state[one]["momentum_buffer"], torch.zeros_like(one)))
        optimizer.found_inf = torch.tensor(0.0)
        set_gradients(parameters, 1, 4.0)
        update()
        set_gradients(parameters, 1)
        torch.testing.assert_close(parameters, [torch.nn.Parameter(old - 0.5 * one.grad) for one, old in zip(parameters, before, strict=True)])
        self.check_graphs("SGD")

    def test_narrow_parameters(self):
        def check(name, kind, options):
            ours, theirs = (made(kind, options, torch.bfloat16) for _ in range(2))
            update = torch.compile(ours[0].step, backend=heddle.torch.backend)
            in_f32 = made(kind, options, torch.bfloat16)
            for group in in_f32[0].param_groups:
                for one in group["params"]:
                    one.data = one.data.float()
            for step in range(3):
                for one in (ours, theirs):
                    set_gradients(one[1], step)
                for one, other in zip(in_f32[1], ours[1], strict=True):
                    one.grad = other.grad.float()
                for one in (update, theirs[0].step, in_f32[0].step):
                    one()
            for one, other in zip(ours[1], in_f32[1], strict=True):
                torch.testing.assert_close(one.float(), other, rtol=2e-2, atol=2e-2)
            if kind != "SGD":  # PyTorch 2.13's kernel for CPUs is wrong in bf16, by far more than rounding
                self.check_same(ours, theirs, rtol=1.6e-2, atol=1e-3)
            self.check_graphs(name)

        self.each(check, ("fused",))

    def test_a_learning_rate_in_a_tensor(self):
        for kind in ("SGD", "Adam", "AdamW"):
            self.setUp()
            ours, theirs = (made(kind, {"lr": torch.tensor(0.1), "fused": True}) for _ in range(2))
            update = torch.compile(ours[0].step, backend=heddle.torch.backend)
            for step in range(4):
                for one in (ours, theirs):
                    set_gradients(one[1], step)
                    one[0].param_groups[0]["lr"].fill_(0.1 / (step + 1))
                update()
                theirs[0].step()
            torch.testing.assert_close(ours[1], theirs[1], rtol=1e-5, atol=1e-6)
            self.check_graphs(kind)
            self.assertEqual(len(heddle.torch.graphs()), 1)

    def test_functions_in_a_step_of_one_module(self):
        """The gradient, and the optimizer's function."""
        from torch.optim import adam, adamw, sgd
        x = torch.linspace(-1, 1, 35).reshape(5, 7)
        common = {"lr": 0.1, "weight_decay": 0.1, "maximize": False}
        of_adam = common | {"amsgrad": True, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
        for name, function, options in (("sgd", sgd.sgd, common | {"momentum": 0.9, "dampening": 0.0, "nesterov": True}), ("adam", adam.adam, of_adam),
                                        ("adamw", adamw.adamw, of_adam)):
            for form, given in FORMS.items():
                with self.subTest(name, form=form):
                    self.setUp()
                    runs = []
                    for is_compiled in (True, False):
                        weights = [torch.linspace(0, 2, 21).reshape(7, 3), torch.ones(3)]
                        state = [[torch.zeros_like(one) for one in weights] for _ in range(1 if name == "sgd" else 3)]
                        steps = [] if name == "sgd" else [[torch.tensor(0.0) for _ in weights]]

                        def step(x):
                            gradients, loss = torch.func.grad_and_value(lambda values: (x @ values[0] + values[1]).square().mean())(list(weights))
                            function(weights, list(gradients), *state, *steps, **options, **given)
                            return loss

                        call = torch.compile(step, backend=heddle.torch.backend, fullgraph=True) if is_compiled else step
                        runs.append(([call(x).clone() for _ in range(4)], weights, state, steps))
                    torch.testing.assert_close(*runs, rtol=2e-5, atol=1e-5)
                    self.check_graphs(name)
                    self.assertEqual(len(heddle.torch.graphs()), 1)

    def test_steps_on_a_gpu(self):
        """There, adam() is another function if the steps are not captured. It is called directly here, since it is that of all devices."""
        from torch.optim import adam
        function = inspect.getclosurevars(adam.adam).nonlocals["disabled_func"]
        weights, gradients, first, second = ([torch.full((3,), value)] for value in (1.0, 2.0, 0.0, 0.0))
        steps = [torch.tensor(0.0)]

        def step():
            function(weights, gradients, first, second, [], steps, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=0.25, weight_decay=0.0, eps=1e-8,
                     maximize=False)

        torch.compile(step, backend=heddle.torch.backend, fullgraph=True)()
        torch.testing.assert_close(weights[0], torch.full((3,), 0.75))
        self.assertEqual(float(steps[0]), 1.0)
        self.check_graphs("adam")

    def test_other_backends_are_left_alone(self):
        """Also after this one has compiled such a step."""
        for kind in ("SGD", "Adam"):
            self.setUp()
            counts = []
            for backend in (heddle.torch.backend, lambda graph, _: counts.append(graph) or graph.forward, heddle.torch.backend):
                torch._dynamo.reset()
                heddle.torch.clear()
                optimizer, parameters = made(kind, {"lr": 0.1, "fused": True})
                set_gradients(parameters, 0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    torch.compile(optimizer.step, backend=backend)()
                self.assertEqual(len(heddle.torch.graphs()), 1 if backend is heddle.torch.backend else 0)
            self.assertEqual(counts, [], "PyTorch excludes fused optimizers from traces; if it no longer does, this backend need not either")

    def test_after_a_reset_of_dynamo(self):
        """Which takes callbacks away."""
        backend = heddle.torch.backend
        for _ in range(2):
            torch.compiler.reset()
            heddle.torch.clear()
            optimizer, parameters = made("AdamW", {"fused": True})
            set_gradients(parameters, 0)
            torch.compile(optimizer.step, backend=backend)()
            self.check_graphs("AdamW")

    def test_traces_are_kept(self):
        from heddle.torch import _traces
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(IN_ANOTHER_PROCESS)
            time.sleep(0.05)  # the kernel says in hundredths of a second when a process began
            told = []
            for _ in range(2):
                done = subprocess.run([sys.executable, "-B", path], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                told.append(next(line for line in done.stdout.splitlines() if line.startswith("COUNTS")))
        self.assertEqual(told, ["COUNTS 0 1 0", "COUNTS 1 0 0"] if _traces.is_possible() else ["COUNTS 0 0 0"] * 2)


if __name__ == "__main__":
    unittest.main()
