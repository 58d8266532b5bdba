# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""DistributedDataParallel under torch.compile(backend="heddle") in two processes: gradients and parameters are those of one process in eager mode with the
whole batch. With gloo on a CPU, and with NCCL where there are two GPUs. Skipped without PyTorch (tools/dev/setup --torch)."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import torch
    import torch.distributed
    from torch import nn
except ImportError:
    torch = None
else:
    import heddle.torch

PROCESSES = 2


def worker(backend, folder):
    """What each process runs; it writes what it saw to a file of its own."""
    import torch.distributed._functional_collectives as collectives

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(3))
            self.last = nn.Linear(512, 8)

        def forward(self, x):
            for layer in self.layers:
                x = nn.functional.gelu(layer(x))
            return self.last(x)

    torch.distributed.init_process_group(backend)
    rank = torch.distributed.get_rank()
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    alone = Network().to(device)
    # A layer has more than a bucket, and Dynamo cuts the graph where a bucket ends. The first one has 1 MB, and none may be smaller.
    model = nn.parallel.DistributedDataParallel(copy.deepcopy(alone), device_ids=[rank] if device.type == "cuda" else None, bucket_cap_mb=1)
    compiled = torch.compile(model, backend=heddle.torch.backend)
    optimizers = [torch.optim.SGD(one.parameters(), 0.1, momentum=0.9) for one in (model, alone)]
    rows = 16 // PROCESSES
    farthest = 0.0
    for _ in range(4):
        x, y = torch.randn(16, 512).to(device), torch.randn(16, 8).to(device)  # the same in all processes
        mine = slice(rank * rows, (rank + 1) * rows)
        nn.functional.mse_loss(compiled(x[mine]), y[mine]).backward()
        nn.functional.mse_loss(alone(x), y).backward()
        for a, b in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
            farthest = max(farthest, float((a.grad - b.grad).abs().max()))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    graphs = [(one.kind, one.nodes, [fallback.operator for fallback in one.fallbacks]) for one in heddle.torch.graphs()]

    def summed(x):
        return collectives.all_reduce(x * 2, "sum", torch.distributed.group.WORLD) + 1

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        total = torch.compile(summed, backend=heddle.torch.backend)(torch.full((4, 4), rank + 1.0, device=device))
    torch.testing.assert_close(total.cpu(), torch.full((4, 4), PROCESSES * (PROCESSES + 1) + 1.0))
    torch.distributed.destroy_process_group()
    pathlib.Path(folder, f"{rank}.json").write_text(json.dumps({
        "graphs": graphs, "said": [str(one.message) for one in said if "heddle.torch" in str(one.message)], "largest difference of a gradient": farthest}))


@unittest.skipIf(torch is None, "PyTorch is not installed; tools/dev/setup --torch installs it")
class TwoProcesses(unittest.TestCase):
    def check(self, backend):
        with tempfile.TemporaryDirectory(prefix="heddle-torch-test-") as folder:
            variables = {"HEDDLE_TORCH_CACHE": str(pathlib.Path(folder, "cache")), "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(folder, "graphs")),
                         "OMP_NUM_THREADS": "1", **({"GLOO_SOCKET_IFNAME": "lo"} if backend == "gloo" else {})}
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(PROCESSES), __file__, "--worker",
                                   backend, folder], env={**os.environ, **variables}, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for rank in range(PROCESSES):
                found = json.loads(pathlib.Path(folder, f"{rank}.json").read_text())
                print(backend, rank, found)
                kinds = [kind for kind, _, _ in found["graphs"]]
                self.assertGreaterEqual(kinds.count("forward"), 2, found)
                self.assertEqual(kinds.count("backward"), kinds.count("forward"), found)
                self.assertEqual([fallbacks for _, _, fallbacks in found["graphs"] if fallbacks], [], found)
                self.assertTrue(any("_c10d_functional.all_reduce.default runs in PyTorch" in one for one in found["said"]), found)

    def test_gloo(self):
        if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
            self.skipTest("SKIP: this PyTorch has no gloo")
        self.check("gloo")

    def test_nccl(self):
        if torch.cuda.device_count() < PROCESSES or not torch.distributed.is_nccl_available():
            self.skipTest(f"SKIP: {torch.cuda.device_count()} GPUs, and NCCL {'is' if torch.distributed.is_nccl_available() else 'is not'} there; "
                          f"this needs {PROCESSES} and NCCL")
        self.check("nccl")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
    else:
        unittest.main()
