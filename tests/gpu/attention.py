# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention on one GPU as PyTorch exports it, beside the fastest of PyTorch's own backends, in turns.

    attention.py [--rounds N] [CASE ...]

CASE is TYPE.BATCH.HEADS.SEQUENCE.DEPTH[.causal], as in bf16.8.32.2048.128.causal. Results are compared with attention in f64, of the factor that the file has.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent / "e2e")]
import heddle_ctypes  # noqa: E402
import turns  # noqa: E402
from gpu import cuda_device  # noqa: E402
from networks import TYPES, to_numpy  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
CASES = ["bf16.1.32.2048.128.causal", "bf16.8.32.2048.128.causal", "f16.8.32.2048.128", "f16.32.12.128.64", "f32.1.12.128.64", "f32.1.6.1500.64", "f32.8.16.1024.128"]
BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]
AT_ONCE = 10  # calls in flight, so that neither side's launch is what is timed


class Attention(torch.nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=self.causal)


@torch.no_grad()
def run(case, runtime, device, folder, rounds):
    kind, *sizes = case.split(".")
    causal, sizes = sizes[4:] == ["causal"], [int(size) for size in sizes[:4]]
    model, generator = Attention(causal), torch.Generator().manual_seed(5)
    given = tuple(torch.randn(sizes, generator=generator).to(TYPES[kind]) for _ in range(3))
    path, module = folder / f"{case}.onnx", folder / f"{case}.heddle"
    torch.onnx.export(model, given, str(path), input_names=["q", "k", "v"], output_names=["o"], dynamo=True, verbose=False)
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    subprocess.run([heddle_ctypes.command_path(), "compile", path, "-o", module, "--target", "cuda", "--ptxas", ptxas], check=True, capture_output=True)
    call, results = runtime.open(module).instance(device).function().prepare_many(AT_ONCE, *map(to_numpy, given))
    call()
    got = torch.from_numpy(results[0].numpy().astype(np.float32)).double()
    there = tuple(one.cuda() for one in given)
    # As it is exported, with a factor that is rounded to the type.
    scale = float(torch.tensor(sizes[3] ** -0.25).to(TYPES[kind])) ** 2
    right = torch.cat([scaled_dot_product_attention(*(one[i:i + 1].double() for one in there), is_causal=causal, scale=scale).cpu() for i in range(sizes[0])])
    errors = {"ours": float((got - right).abs().max() / right.abs().max())}
    contenders = {"ours": call}
    for backend in BACKENDS:
        def theirs(backend=backend):
            with sdpa_kernel(backend):
                for _ in range(AT_ONCE):
                    result = model(*there)
            torch.cuda.synchronize()
            return result
        try:
            errors[backend.name] = float((theirs().double().cpu() - right).abs().max() / right.abs().max())
            contenders[backend.name] = theirs
        except RuntimeError:
            pass  # it does not take these
    medians = turns.measure(contenders, rounds=rounds, seconds=0.05)
    best = min(contenders.keys() - {"ours"}, key=lambda name: np.median(medians[name]))
    flops = 4 * sizes[0] * sizes[1] * sizes[2] ** 2 * sizes[3] / (2 if causal else 1)
    ours = float(np.median(medians["ours"])) / AT_ONCE
    if not errors["ours"] <= max(2 * errors[best], 1e-5):
        sys.exit(f"WRONG {case}: {errors}")
    return [case, f"{ours * 1e6:.1f}", f"{np.median(medians[best]) / AT_ONCE * 1e6:.1f}", best, f"{turns.ratio(medians, 'ours', best):.2f}",
            f"{flops / ours / 1e12:.0f}", f"{errors['ours']:.1e}", f"{errors[best]:.1e}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES, metavar="CASE")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    device, runtime, rows = cuda_device(), heddle_ctypes.Runtime(), []
    if device is None:
        print("SKIP: no CUDA device")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for case in arguments.cases:
            rows.append(run(case, runtime, device, pathlib.Path(folder), arguments.rounds))
            print(*rows[-1], flush=True)
    print(turns.table(["attention", "ours us", "PyTorch us", "its backend", "ratio", "TFLOP/s", "off by, of the largest", "PyTorch"], rows))


if __name__ == "__main__":
    main()
