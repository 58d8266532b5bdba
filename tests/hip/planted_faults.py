#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the conformance kit and hip_driver_test on the stand-in find faults of the HIP driver.

Each fault is one wrong expression in plugins/hip or in sdk/cpp/stream. Without arguments, this checks that every expression occurs once in the sources
(planted_faults_test.py does the same). With --build FOLDER it compiles the driver with each fault, and runs both on it with seed after seed until a
case fails; the driver without faults has to pass with all of them. It needs a build of the tree: the targets heddle_hip, heddle_hip_stand_in,
heddle_hip_kernels, hip_driver_test and heddle-conformance.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIP, STREAM = "plugins/hip/", "sdk/cpp/stream/"
# What a driver would do wrong, the file, the expression, and what stands in its place.
FAULTS = (
    ("a wait for another queue is left out", STREAM + "queue.cpp",
     "if (word.value->load(std::memory_order_acquire) < waits[i].number) result", "if (word.value == nullptr) result"),
    ("work is reported as done when it is enqueued", HIP + "backend.cpp",
     "const int written = hip.hipStreamWriteValue64(of(handle), at(word.address), value, 0);",
     "const int written = kOk;\n    word.value->store(value);\n    static_cast<void>(handle);"),
    ("commands are kept for ever", HIP + "backend.cpp", "if (value % kWritesKept != 0) return kOk;", "if (value != 0) return kOk;"),
    ("staging memory is used again while it is read", STREAM + "staging.cpp",
     "if (current_ && current_->live == 0) current_->used = 0;", "if (current_) current_->used = 0;"),
    ("a slot of the ring is used again while it is copied", STREAM + "ring.cpp",
     "if (!check(backend_.synchronize_event(ring_->slots_[round % slots].event))) return false;", ""),
    ("a large upload ends before its copies", STREAM + "ring.cpp", "check(backend_.synchronize_stream(ring_->stream_));", ""),
    ("memory of a pool is used before it exists", HIP + "backend.cpp",
     "return made == kOk ? hip.hipStreamSynchronize(of(allocations_)) : made;", "return made;"),
    ("arguments end one word early", HIP + "backend.cpp", "bytes(launch.entry.arguments_bytes)", "bytes(launch.entry.arguments_bytes - 8)"),
    ("constants are where the last binding should be", STREAM + "list.cpp",
     "std::memcpy(words + entry.binding_count, constants", "std::memcpy(words + entry.binding_count - 1, constants"),
    ("a copy between devices names the wrong one", HIP + "backend.cpp", "at(from), ordinal_of(from_context)", "at(from), ordinal_of(to_context)"),
    ("the wrong device is current", HIP + "backend.cpp", "out->is_pushed = hip.hipSetDevice(facts.ordinal) == kOk;", "out->is_pushed = hip.hipSetDevice(0) == kOk;"),
    ("pinned memory is not coherent", HIP + "backend.cpp", "kPortable | kCoherent | (mapped", "kPortable | (mapped"),
    ("a node of a graph waits for nothing", STREAM + "graph.cpp", "    before_.swap(group_);\n", ""),
    ("a binding of a recording is not replaced", HIP + "backend.cpp", "return hip.hipGraphExecKernelNodeSetParams(of(exec), of(node), &changed);", "return kOk;"),
)
SEEDS = (1, 2, 3)
# Cases that fail on a busy machine, too.
SLOW = ("dispatch.largest_grid", "param_io.cancelled_meanwhile")
CASES = "device.,buffer.,transfer.,param_io.,dispatch.,recording.,timeline."


def misplaced():
    """Faults whose expression does not occur exactly once."""
    return [f"{what}: {(ROOT / file).read_text().count(right)} times in {file}" for what, file, right, _ in FAULTS if (ROOT / file).read_text().count(right) != 1]


class Builder:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        names = [HIP + name for name in ("plugin.cpp", "api.cpp", "errors.cpp", "backend.cpp", "code.cpp")]
        self.sources = names + sorted(STREAM + path.name for path in (ROOT / STREAM).glob("*.cpp"))
        self.generated = build / "plugins" / "hip" / "block_kernels" / "block_codes.cpp"
        self.archives = [build / "lib" / name for name in ("libheddle_sdk_cpp.a", "libheddle_hip_code_object.a")]

    def compile(self, source, target):
        includes = ("sdk/include", "sdk/cpp", "plugins", ".")
        subprocess.run(["c++", "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread",
                        *(f"-I{ROOT / include}" for include in includes), "-c", source, "-o", target], check=True)

    def link(self, replaced, out):
        objects = [replaced.get(source, self.folder / "base" / (source.replace("/", "_") + ".o")) for source in self.sources]
        objects.append(self.folder / "base" / "block_codes.o")
        subprocess.run(["c++", "-shared", "-pthread", "-o", out, *objects, *self.archives, "-ldl", f"-Wl,--version-script={ROOT}/plugins/plugin.map"],
                       check=True)

    def base(self):
        (self.folder / "base").mkdir(parents=True, exist_ok=True)
        self.compile(self.generated, self.folder / "base" / "block_codes.o")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda source: self.compile(ROOT / source, self.folder / "base" / (source.replace("/", "_") + ".o")), self.sources))

    def driver(self, name, fault):
        """The folder of a manifest of a driver with this fault, or without one."""
        place = pathlib.Path(tempfile.mkdtemp(prefix=name + ".", dir=self.folder))
        (place / "conformance").mkdir()
        replaced = {}
        if fault:
            _, file, right, wrong = fault
            changed = place / pathlib.Path(file).name
            changed.write_text((ROOT / file).read_text().replace(right, wrong))
            replaced[file] = place / "changed.o"
            self.compile(changed, replaced[file])
        self.link(replaced, place / "libheddle_hip.so")
        original = self.build / "tests" / "hip" / "gfx1100"
        shutil.copy(original / "heddle.hip.toml", place)
        shutil.copy(original / "conformance" / "kernels.toml", place / "conformance")
        return place


def failures(build, place, seed):
    """{case: what it said} of the cases of hip_driver_test, or else of the kit, that failed."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(build / "tests" / "hip" / "hip_6"), "HEDDLE_TEST_HIP_PLUGIN": str(place / "libheddle_hip.so"),
                   "HEDDLE_HIP_STAND_IN": f"chip=gfx1100,devices=2,aborts=0,latency_us={(100, 1500, 4000)[seed % 3]},seed={seed},queues={seed % 2 * 3}"}
    try:
        done = subprocess.run([build / "tests" / "hip_driver_test"], env=environment, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired as expired:
        return {(expired.stdout or b"").decode().rsplit("[ RUN      ] ", 1)[-1].strip(): "does not end"}
    wrong = {line.split()[3]: "hip_driver_test" for line in done.stdout.splitlines() if line.startswith("[  FAILED  ] HipDriver.")}
    if wrong or done.returncode:
        return wrong or {"hip_driver_test": f"ended with {done.returncode}"}
    done = subprocess.run([build / "bin" / "heddle-conformance", "--plugin", place / "heddle.hip.toml", "--json", "--jobs", "4", "--seed", str(seed),
                           "--filter", CASES, "--time-limit", "180"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        return {"the kit": done.stderr[-300:]}
    cases = json.loads(done.stdout)["cases"]
    return {case["name"]: " ".join(case["texts"])[:140] for case in cases if case["outcome"] == "failed" and case["name"] not in SLOW}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER", help="compile the driver with each fault in FOLDER, and run the kit on it")
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "build" / "release", help="a build of the tree; default: build/release")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only faults whose description has this text")
    options = parser.parse_args()
    if lost := misplaced():
        sys.exit("expressions that are not in the sources exactly once:\n" + "\n".join(lost))
    if not options.build:
        return
    builder = Builder(options.tree, options.build)
    builder.base()
    sound = builder.driver("sound", None)
    for seed in SEEDS:
        if wrong := failures(options.tree, sound, seed):
            sys.exit(f"the driver without faults fails with seed {seed}: {wrong}")
    missed = []
    faults = [fault for fault in FAULTS if options.filter in fault[0]]
    for number, fault in enumerate(faults):
        place = builder.driver(f"fault{number}", fault)
        for seed in SEEDS:
            if wrong := failures(options.tree, place, seed):
                case, text = next(iter(wrong.items()))
                print(f"found  {fault[0]}: seed {seed}, {len(wrong)} cases; {case}: {text}", flush=True)
                break
        else:
            missed.append(fault[0])
            print(f"missed {fault[0]}", flush=True)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
