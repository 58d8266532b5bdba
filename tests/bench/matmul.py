# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""f32 matmul on one core, the second operand a constant (packed ahead): Heddle beside OpenBLAS, in turns, on one core.

OpenBLAS is the one inside numpy. On virtual machines it often takes the CPU for an older one, so
OPENBLAS_CORETYPE is set here from the CPU's own flags before numpy is loaded.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile


def core_type():
    """OpenBLAS's name of the newest kernels that this CPU can run."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    if "amx_bf16" in flags:
        return "SapphireRapids"
    if "avx512_bf16" in flags:
        return "Cooperlake"
    if "avx512f" in flags:
        return "SkylakeX"
    return "Haswell"


if __name__ == "__main__":
    os.environ["OPENBLAS_CORETYPE"] = core_type()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import threadpoolctl
from onnx import TensorProto, helper, numpy_helper

import heddle_ctypes
import peers
import turns

# (m, k, n) and the least ratio of rates, ours / OpenBLAS's, that is asked for.
SHAPES = (((1024, 1024, 1024), 1.0), ((128, 768, 3072), 1.0), ((997, 1009, 1013), 1.0), ((1, 4096, 4096), 0.95))


def write_model(path, b, m):
    k, n = b.shape
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"], name="matmul")], "matmul",
        [value("a", [m, k])], [value("c", [m, n])], [numpy_helper.from_array(b, "b")],
    )
    path.write_bytes(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    machine = turns.machine()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    (blas,) = [entry for entry in threadpoolctl.threadpool_info() if entry["internal_api"] == "openblas"][:1]
    rows, missed = [], 0
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as folder:
        runtime = heddle_ctypes.Runtime(heddle_ctypes.one_core_config())
        for (m, k, n), bar in SHAPES:
            generator = np.random.default_rng([m, k, n])
            a, b = (generator.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
            c = np.empty((m, n), np.float32)
            model = pathlib.Path(folder, f"{m}x{k}x{n}.onnx")
            write_model(model, b, m)
            peers.compile_network(str(heddle_ctypes.command_path()), str(model), model.with_suffix(".heddle"))
            call, (result,) = runtime.open(model.with_suffix(".heddle")).instance("one").function().prepare(a)
            np.matmul(a, b, out=c)
            error = float(np.abs(result.numpy() - c).max())
            if error > 1e-4 * np.abs(c).max():
                raise RuntimeError(f"{m}x{k}x{n}: the result differs from OpenBLAS's by {error:.3g}")
            medians = turns.measure(
                {"ours": call, "theirs": lambda: np.matmul(a, b, out=c)}, rounds, seconds=0.2, minimum_calls=5, pause=0.005
            )
            rates = [2e-9 * m * k * n / statistics.median(medians[name]) for name in ("ours", "theirs")]
            ratio = 1 / turns.ratio(medians, "ours", "theirs")
            missed += ratio < bar
            rows.append([f"{m} × {k} × {n}", f"{rates[0]:.1f}", f"{rates[1]:.1f}", f"{ratio:.2f}", f"{bar:.2f}"])
    print(f"{machine}; one core; OpenBLAS {blas['version']}, {os.environ['OPENBLAS_CORETYPE']} asked for, "
          f"{blas['architecture']} used; {rounds} rounds in turns, medians\n")
    print(turns.table(["m × k × n", "Heddle GFLOP/s", "OpenBLAS GFLOP/s", "ratio of rates", "asked for"], rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
