# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks that PyTorch exports on one GPU: right in each element type, and beside Inductor with CUDA graphs, in turns.

    networks.py [--rounds N] [--profile] [NETWORK.TYPE.BATCH ...]

as in bert.f32.1 or vit.f16.32; networks are those of tests/bench/export_networks.py, of full size, with 128 tokens where there are any. PyTorch's own
result in f64 is what is right: f32 may be off by 1e-3 of an element and 1e-4 of the largest one, the others by twice what PyTorch itself is off in that type.
Products of f32 are of true f32 on both sides. Needs torch, torchvision, transformers and onnxscript.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent / "e2e")]
import export_networks  # noqa: E402
import heddle_ctypes  # noqa: E402
import turns  # noqa: E402
from gpu import cuda_device  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
CASES = [f"{network}.{kind}" for kind in ("f32.1", "f16.32", "bf16.1") for network in export_networks.NETWORKS]


def to_numpy(tensor):
    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def export(folder, case):
    """(the model on the CPU, its inputs, the ONNX file)"""
    network, kind, batch = case.split(".")
    model, inputs, outputs, shape = export_networks.build(network, small=False)
    model = model.eval()
    export_networks.randomize(model)
    model = model.to(TYPES[kind])
    given = export_networks.arguments_of(inputs, shape, int(batch), 128, 7)
    given = tuple(one.to(TYPES[kind]) if one.is_floating_point() else one for one in given)
    path = folder / f"{case}.onnx"
    # Its optimizer folds batch norms of bf16 into filters of f32, which is no valid file.
    optimize = kind != "bf16" or not isinstance(shape, tuple) or network == "vit"
    torch.onnx.export(model, given, str(path), input_names=inputs, output_names=outputs, dynamo=True, verbose=False, optimize=optimize)
    return model, given, path


def flat(results):
    return [one for one in (results if isinstance(results, tuple) else (results,))]


def error_of(got, right):
    """The largest difference, of the largest element."""
    return float(np.max([float((one.double().cpu() - expected).abs().max() / expected.abs().max()) for one, expected in zip(got, right, strict=True)]))


def is_right(got, right):
    return all(bool(((one.double() - expected).abs() <= 1e-3 * expected.abs() + 1e-4 * expected.abs().max()).all()) for one, expected in zip(got, right))


@torch.no_grad()
def run(case, runtime, device, folder, arguments):
    model, given, path = export(folder, case)
    module = folder / f"{case}.heddle"
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    subprocess.run([heddle_ctypes.command_path(), "compile", path, "-o", module, "--target", "cuda", "--ptxas", ptxas], check=True, capture_output=True)
    function = runtime.open(module).instance(device).function()
    call, results = function.prepare(*map(to_numpy, given))
    got = [torch.from_numpy(result.numpy().astype(np.float32)) for result in results]

    model = model.cuda()
    there = tuple(one.cuda() for one in given)
    theirs_eager = flat(model(*there))
    right = [one.double().cpu() for one in flat(model.double()(*(one.double() if one.is_floating_point() else one for one in there)))]
    ours, eager = error_of(got, right), error_of(theirs_eager, right)
    if not (is_right(got, right) if ".f32." in case else ours <= 2 * eager + 1e-3):
        raise RuntimeError(f"wrong: off by {ours:.2e} of the largest element, PyTorch by {eager:.2e}")
    if arguments.profile:
        profile = subprocess.run([heddle_ctypes.command_path(), "profile", module, "--device", device], capture_output=True, text=True)
        print(profile.stdout[:6000], profile.stderr[:500])
    model = model.to(there[0].dtype if there[0].is_floating_point() else TYPES[case.split(".")[1]])
    compiled = torch.compile(model, mode="reduce-overhead")
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        compiled(*there)

    def theirs():
        torch.compiler.cudagraph_mark_step_begin()
        compiled(*there)
        torch.cuda.synchronize()

    medians = turns.measure({"ours": call, "theirs": theirs}, rounds=arguments.rounds, seconds=0.1)
    torch._dynamo.reset()
    return [case, turns.milliseconds(medians["ours"]), turns.milliseconds(medians["theirs"]), f"{turns.ratio(medians, 'ours', 'theirs'):.2f}",
            f"{ours:.1e}", f"{eager:.1e}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES, metavar="NETWORK.TYPE.BATCH")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--profile", action="store_true", help="print where our time goes")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    device, runtime, rows, failed = cuda_device(), heddle_ctypes.Runtime(), [], False
    if device is None:
        print("SKIP: no CUDA device")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for case in arguments.cases:
            try:
                rows.append(run(case, runtime, device, pathlib.Path(folder), arguments))
                print(*rows[-1], flush=True)
            except (RuntimeError, subprocess.CalledProcessError, KeyError) as error:
                text = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else str(error)
                print(f"FAILED {case}: {text[:1500]}", flush=True)
                failed = True
            torch.cuda.empty_cache()
    print(turns.table(["network", "ours ms", "Inductor + CUDA graphs ms", "ratio", "off by, of the largest", "PyTorch"], rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
