# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What heddle.hip costs on the host: HIP's functions over CUDA's (tests/hip_over_cuda) on an NVIDIA GPU, beside heddle.cuda on the same GPU, in turns.
It says nothing about HIP's library or an AMD GPU.

Kernels of heddle.cuda for sm_90a start early, which HIP cannot do, so the chain is also timed with heddle.cuda's code for sm_80.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import bench as benches
import heddle_ctypes
import turns

LIBRARY = pathlib.Path(os.environ["HEDDLE_BUILD"]) / "tests/hip_over_cuda"
HIP = "heddle.hip:0"
NO_HASH = 1  # HEDDLE_MODULE_NO_HASH
# z = x y, 4 x 4. HIP's kernel for the same has at least 16 threads in its first workgroup.
PRODUCT = """.version 7.0
.target sm_80
.address_size 64
.visible .entry NAME(.param .u64 x, .param .u64 y, .param .u64 z) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %d<12>; .reg .f32 %f<4>;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x;
  setp.ne.u32 %p0, %r0, 0; @%p0 ret;
  setp.gt.u32 %p1, %r1, 15; @%p1 ret;
  ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u64 %d2, [z];
  shr.u32 %r2, %r1, 2; and.b32 %r3, %r1, 3;
  mul.wide.u32 %d3, %r2, 16; add.u64 %d4, %d0, %d3;
  mul.wide.u32 %d5, %r3, 4; add.u64 %d6, %d1, %d5;
  mov.f32 %f0, 0f00000000;
STEPS  mul.wide.u32 %d7, %r1, 4; add.u64 %d8, %d2, %d7;
  st.global.f32 [%d8], %f0;
  ret;
}
"""
STEP = "  ld.global.f32 %f1, [%d4+{}]; ld.global.f32 %f2, [%d6+{}]; fma.rn.f32 %f0, %f1, %f2, %f0;\n"


class Both(benches.Bench):
    """Compiles for both drivers."""

    def compile(self, path, *options):
        hip = self.folder / (path.stem + ".hip.heddle")
        given = [self.folder / "unused" if part == "--params-out" else option for part, option in zip(("", *options), options)]
        command = [heddle_ctypes.command_path(), "compile", path, "-o", hip, "--target", "hip", "--dump-code", self.folder / f"code-{path.stem}", *given]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        (self.folder / "unused").unlink(missing_ok=True)
        return super().compile(path, *options)

    def hip(self, module):
        return module.with_suffix(".hip.heddle")


def launches(bench):
    chain = benches.Chain(bench)
    module = bench.compile(chain.path)
    for image in (bench.folder / "code-chain").rglob("*gfx90a*"):
        for name in set(re.findall(rb"([\w.$]+)\.kd\0", image.read_bytes())):
            steps = "".join(STEP.format(4 * k, 16 * k) for k in range(4))
            text = PRODUCT.replace("NAME", name.decode()).replace("STEPS", steps)
            (pathlib.Path(os.environ["HEDDLE_HIP_OVER_CUDA"]) / f"{name.decode()}.ptx").write_text(text)
    plain = bench.folder / "plain.heddle"
    plain.write_bytes(module.read_bytes().replace(b"sm_90a", b"sm_00a"))  # a target that no device has
    rows = []
    for what, setting in (("replayed", ""), ("not replayed", "graphs = false\n")):
        config = "".join(f'[driver."{driver}"]\n{setting}' for driver in ("heddle.cuda", "heddle.hip") if setting)
        runtime = heddle_ctypes.Runtime("version = 1\n" + config)
        opened = {"heddle.cuda": (module, bench.device), "heddle.cuda, sm_80": (plain, bench.device), "heddle.hip over CUDA": (bench.hip(module), HIP)}
        made = {name: chain.calls(runtime.open(path, NO_HASH).instance(device).function()) for name, (path, device) in opened.items()}
        medians = turns.measure({(name, index): calls[index] for name, calls in made.items() for index in (0, 1)}, rounds=10, seconds=0.1)
        for name, (_, _, check) in made.items():
            check()
            one, several = (benches.microseconds(medians[name, index], chain.COUNT * (chain.FLIGHT if index else 1)) for index in (0, 1))
            ratios = [turns.ratio(medians, (name, index), ("heddle.cuda, sm_80", index)) for index in (0, 1)]
            rows.append([what, name, f"{one:.3f}", f"{ratios[0]:.2f}", f"{several:.3f}", f"{ratios[1]:.2f}"])
    print(turns.table(["1,000 dependent dispatches", "driver", "us each, one call at a time", "to sm_80", "us each, four calls in flight", "to sm_80"], rows))


def parameters(bench):
    weights = benches.Weights(bench, 80)
    small = bench.compile(bench.model("small", [benches.helper.make_node("Relu", ["x"], ["y"])], [benches.value("x", [4])], [benches.value("y", [4])]))
    sides = {"heddle.cuda": (weights.module, small, bench.device), "heddle.hip over CUDA": (bench.hip(weights.module), bench.hip(small), HIP)}
    opened = {name: bench.runtime.open(module) for name, (module, _, _) in sides.items()}

    def load(name):
        started = time.perf_counter()
        instance = opened[name].instance(sides[name][2], [weights.path])
        elapsed = time.perf_counter() - started
        del instance
        return elapsed

    def first(name):
        module, first_module, device = sides[name]
        command = [sys.executable, "-B", benches.HERE / "first_load.py", device, first_module, module, weights.path]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["load"]

    times = {(name, key): [] for name in sides for key in ("again", "first")}
    for name in sides:
        load(name)
    for turn in range(8):
        for name in list(sides)[::1 if turn % 2 else -1]:
            times[name, "again"].append(load(name))
            times[name, "first"].append(first(name))
    rows = []
    for name in sides:
        row = [name]
        for key in ("again", "first"):
            ratio = statistics.median(own / theirs for own, theirs in zip(times[name, key], times["heddle.cuda", key]))
            row += [f"{statistics.median(times[name, key]) * 1e3:.1f}", f"{ratio:.3f}"]
        rows.append(row)
    print(turns.table([f"loading {weights.total / 1e9:.1f} GB", "again, ms", "to heddle.cuda", "first of a process, ms", "to heddle.cuda"], rows))


def main():
    paths = os.environ.get("LD_LIBRARY_PATH", "")
    if str(LIBRARY) not in paths.split(":"):  # the dynamic linker reads it when a process starts
        with tempfile.TemporaryDirectory(prefix="heddle-hip-") as folder:
            environment = {**os.environ, "LD_LIBRARY_PATH": f"{LIBRARY}:{paths}".rstrip(":"), "HEDDLE_HIP_OVER_CUDA": folder}
            sys.exit(subprocess.run([sys.executable, "-B", __file__], env=environment).returncode)
    bench = Both()
    launches(bench)
    parameters(bench)


main()
