# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""heddle.torch.save_checkpoint writes a training as it was when it was called, while steps go on; a training that is killed and goes on from the file has
the losses of one that was not. Skipped without PyTorch (tools/dev/setup --torch)."""
import collections
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import caches  # noqa: F401  a folder of its own

try:
    import torch
    from torch import nn
    from torch.nn import functional as f
except ImportError:
    torch = None
else:
    import heddle
    import heddle.torch
    from heddle.torch import _tensors

STEPS, SAVED, KILLED = 9, 4, 6


class Training:
    """A loop with dropout, statistics of a batch, an optimizer whose step is compiled, and a learning rate that changes."""

    def __init__(self):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 5))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), torch.tensor(1e-2))
        self.scheduler = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, [2, 5], 0.5)
        self.step = 0
        backend = heddle.torch.backend
        self._loss = torch.compile(lambda x, y: f.cross_entropy(self.model(x), y), backend=backend)
        self._update = torch.compile(self.optimizer.step, backend=backend)

    def save(self, path):
        return heddle.torch.save_checkpoint(path, self.model, optimizer=self.optimizer, scheduler=self.scheduler, step=self.step)

    def load(self, path):
        self.step = heddle.torch.load_checkpoint(path, self.model, optimizer=self.optimizer, scheduler=self.scheduler)["step"]

    def run(self):
        """One step; its loss."""
        generator = torch.Generator().manual_seed(self.step)
        loss = self._loss(torch.randn(8, 16, generator=generator), torch.randint(5, (8,), generator=generator))
        loss.backward()
        self._update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.step += 1
        return float(loss.detach())


def child(path):
    """Goes on from the file if it is there, prints losses, saves after SAVED steps, and kills itself after KILLED if it began with the first one."""
    training = Training()
    is_resumed = os.path.exists(path)
    if is_resumed:
        training.load(path)
    while training.step < STEPS:
        print(json.dumps([training.step, training.run().hex()]), flush=True)
        if training.step == SAVED:
            saving = training.save(path)
        if training.step == KILLED and not is_resumed:
            saving.result()
            os.kill(os.getpid(), signal.SIGKILL)


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class Checkpoint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="heddle-checkpoint-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "training.safetensors"
        torch._dynamo.reset()

    def test_a_training_that_was_killed_goes_on(self):
        def run():
            done = subprocess.run([sys.executable, "-B", __file__, "--child", self.path], check=False, stdout=subprocess.PIPE, text=True)
            return done.returncode, dict(map(json.loads, done.stdout.splitlines()))

        code, first = run()
        self.assertEqual(code, -signal.SIGKILL)
        code, rest = run()
        self.assertEqual(code, 0)
        whole = Training()
        wanted = {step: whole.run().hex() for step in range(STEPS)}
        self.assertEqual(first, {step: wanted[step] for step in range(KILLED)})
        self.assertEqual(rest, {step: wanted[step] for step in range(SAVED, STEPS)})

    def test_steps_go_on_while_it_is_written(self):
        """And the file has the values of one moment."""
        training = Training()
        training.run()
        wanted = {name: one.clone() for name, one in training.model.state_dict().items()}
        moments = [{key: one.clone() for key, one in state.items()} for state in training.optimizer.state_dict()["state"].values()]
        at_first, go_on, write = threading.Event(), threading.Event(), _tensors._write_elements

        def slow(*arguments):
            at_first.set()
            self.assertTrue(go_on.wait(60))
            write(*arguments)

        with mock.patch.object(_tensors, "_write_elements", slow):
            saving = training.save(self.path)
            self.assertTrue(at_first.wait(60))
            for _ in range(3):
                training.run()
            self.assertFalse(saving.done())
            self.assertFalse(self.path.exists())
            go_on.set()
            self.assertEqual(saving.result(60), str(self.path))
        self.assertEqual(os.listdir(self.folder), [self.path.name])
        self.assertFalse(torch.equal(training.model[0].weight, wanted["0.weight"]))
        other = Training()
        other.load(self.path)
        self.assertEqual(other.step, 1)
        for name, one in other.model.state_dict().items():
            self.assertTrue(torch.equal(one, wanted[name]), name)
        for i, state in other.optimizer.state_dict()["state"].items():
            for key, one in state.items():
                self.assertTrue(torch.equal(one, moments[i][key]), f"{i} {key}")

    def test_a_loop_goes_back(self):
        """A load in the middle of a loop: tensors stay where they are, so nothing is compiled again, and the same losses follow."""
        training = Training()
        for _ in range(3):
            training.run()
        training.save(self.path).result()
        losses = [training.run() for _ in range(3)]
        places = [one.data_ptr() for one in training.model.parameters()]
        training.load(self.path)
        self.assertEqual(losses, [training.run() for _ in range(3)])
        self.assertEqual(places, [one.data_ptr() for one in training.model.parameters()])

    def test_values(self):
        values = {"step": 7, "best": float("inf"), "name": "ä\n", "nothing": None, "on": True, "pair": (1, [2.5, "x"]), "by_number": {3: torch.arange(4)},
                  "counter": collections.Counter({5: 2}), "scalar": torch.tensor(2.5, dtype=torch.bfloat16), "empty": torch.empty(0, 3)}
        model = nn.Linear(2, 2)
        heddle.torch.save_checkpoint(self.path, torch.compile(model, backend=heddle.torch.backend), **values).result()
        found = heddle.torch.load_checkpoint(self.path)
        self.assertEqual(list(found), list(values))
        for name in ("step", "best", "name", "nothing", "on", "pair", "counter"):
            self.assertEqual((type(found[name]), found[name]), (type(values[name]), values[name]))
        self.assertTrue(torch.equal(found["by_number"][3], values["by_number"][3]))
        self.assertTrue(torch.equal(found["scalar"], values["scalar"]) and found["scalar"].dtype == torch.bfloat16)
        self.assertEqual(found["empty"].shape, (0, 3))
        heddle.torch.load_checkpoint(self.path, model)  # names without that of torch.compile's wrapper
        for wrong in ({"x": object()}, {"x": [1j]}, {"x": {2.5: 1}}, {"x": torch.ones(2, dtype=torch.complex64)}):
            with self.assertRaisesRegex(heddle.UnimplementedError, "x"):
                heddle.torch.save_checkpoint(self.path, model, **wrong)
        with self.assertRaisesRegex(heddle.UnimplementedError, "'a/b' has the name of another tensor"):
            heddle.torch.save_checkpoint(self.path, model, **{"a": {"b": torch.ones(1)}, "a/b": torch.ones(1)})

    def test_it_has_the_weights_of_a_module(self):
        model = nn.Sequential(nn.Linear(16, 1100), nn.ReLU(), nn.Linear(1100, 4)).eval()
        x = torch.randn(3, 16)
        heddle.torch.save_checkpoint(self.path, model, step=1).result()
        heddle.torch.export(model, (x,), self.folder / "model.heddle", params_in=self.path)
        with heddle.open(self.folder / "model.heddle", "cpu", parameters=self.path) as module:
            np.testing.assert_allclose(module(x.numpy()).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
        self.assertGreater(self.path.stat().st_size, 4 * (16 * 1100 + 1100 * 4))
        self.assertLess((self.folder / "model.heddle").stat().st_size, 64 * 1024)

    def test_what_cannot_be_written(self):
        model = nn.Linear(2, 2)
        heddle.torch.save_checkpoint(self.path, model, step=1).result()
        with mock.patch.object(os, "fsync", side_effect=OSError(errno.ENOSPC, "No space left on device")), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            failure = heddle.torch.save_checkpoint(self.path, model, step=2).exception(60)
            for thread in threading.enumerate():
                if thread.name == "heddle-checkpoint":
                    thread.join(60)
        self.assertIsInstance(failure, heddle.UnavailableError)
        self.assertIn(f"writing checkpoint '{self.path}' failed: No space left on device", str(failure))
        self.assertTrue(any("No space left" in str(one.message) for one in told))
        self.assertEqual(os.listdir(self.folder), [self.path.name])
        self.assertEqual(heddle.torch.load_checkpoint(self.path), {"step": 1})
        heddle.torch.save_checkpoint(self.path, model, step=3).result()
        self.assertEqual(heddle.torch.load_checkpoint(self.path), {"step": 3})
        with self.assertRaisesRegex(heddle.NotFoundError, "does not exist; make it first"):
            heddle.torch.save_checkpoint(self.folder / "no" / "x.safetensors", model)
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "got dict"):
            heddle.torch.save_checkpoint(self.path, {})

    def test_what_cannot_be_read(self):
        model = nn.Linear(2, 2)
        heddle.torch.save_checkpoint(self.path, model, step=1, optimizer=torch.optim.SGD(model.parameters(), 0.1)).result()
        good = self.path.read_bytes()
        for content, text in ((b"", "ends before its header"), (good[:100], "ends before its header"), (b"x" * 200, "ends before its header"),
                              (good[:-40], "not complete"), ((3).to_bytes(8, "little") + b"[1]", "header is not the JSON")):
            self.path.write_bytes(content)
            with self.assertRaisesRegex(heddle.DataLossError, text):
                heddle.torch.load_checkpoint(self.path, model)
        with self.assertRaises(FileNotFoundError):
            heddle.torch.load_checkpoint(self.folder / "other", model)
        _tensors.save({"weight": model.weight}, str(self.path))
        with self.assertRaisesRegex(heddle.InvalidArgumentError, "none that save_checkpoint wrote"):
            heddle.torch.load_checkpoint(self.path, model)
        self.path.write_bytes(good)
        other = nn.Linear(2, 3)
        before = other.weight.detach().clone()
        with self.assertRaisesRegex(heddle.InvalidArgumentError, r"'weight' is torch.float32\[2, 2\] in the file and torch.float32\[3, 2\] in the model"):
            heddle.torch.load_checkpoint(self.path, other)
        self.assertTrue(torch.equal(before, other.weight))
        with self.assertRaisesRegex(heddle.NotFoundError, "no object 'scaler', but 'optimizer'"):
            heddle.torch.load_checkpoint(self.path, model, scaler=torch.amp.GradScaler("cpu"))


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(sys.argv[-1])
    else:
        unittest.main()
