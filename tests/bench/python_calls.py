# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package: the time of its import, a call of one add above the same call from C, and rounds of open, call, close in flat memory.

Needs PYTHONPATH=build/release/python and HEDDLE_COMPILER=build/release/bin/heddle-compile. The call from C is that of the program below, on the same
module, with tensors that exist.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
IMPORT = ("import time; t, u = time.perf_counter(), time.process_time(); import heddle\n"
          "print((time.perf_counter() - t) * 1e3, (time.process_time() - u) * 1e3)")
CALL = r"""
#include <stdio.h>
#include <time.h>
#include "heddle/runtime.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char** argv) {
  heddle_string_t path = {argv[argc - 1], 0}, main_name = {"main", 4};
  while (path.data[path.size]) ++path.size;
  heddle_runtime_t* runtime; heddle_module_t* module; heddle_instance_t* instance; heddle_function_t* function;
  float x[4] = {1, 2, 3, 4}; int64_t dims[1] = {4}; heddle_tensor_t *arguments[2], *result = 0;
  if (heddle_runtime_create(0, &runtime) || heddle_module_open(runtime, path, 0, &module) || heddle_instance_create(module, 0, &instance) ||
      heddle_instance_function(instance, main_name, &function)) return 1;
  for (int i = 0; i < 2; ++i) if (heddle_tensor_from_host(function, i, HEDDLE_TYPE_F32, dims, 1, x, 16, &arguments[i])) return 1;
  double best = 1e18;
  for (int turn = 0; turn < 500; ++turn) {
    double start = now();
    for (int i = 0; i < 2000; ++i) if (heddle_call(function, arguments, 2, &result, 1)) return 1;
    double each = (now() - start) / 2000;
    if (each < best) best = each;
  }
  printf("%f\n", best);
  return 0;
}
"""


def best_of(call, count=2000, turns=500):
    """Nanoseconds of one call. A turn is shorter than a time slice, so that the best one has a core for itself."""
    best = float("inf")
    for _ in range(turns):
        started = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - started) / count * 1e9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10000)
    arguments = parser.parse_args()
    times, processor = zip(*(map(float, subprocess.check_output([sys.executable, "-c", IMPORT]).split()) for _ in range(21)))
    print(f"import: median of {len(times)} {statistics.median(times):.1f} ms; of the processor's time {statistics.median(processor):.1f} ms")

    import heddle
    import models
    import numpy as np

    path = models.add(4)
    library = pathlib.Path(heddle.__file__).resolve().parents[2] / "lib"
    source, program = models.FOLDER / "call.c", models.FOLDER / "call"
    source.write_text(CALL)
    subprocess.run(["cc", "-O2", source, "-I", ROOT / "sdk/include", "-L", library, "-lheddle", f"-Wl,-rpath,{library}", "-o", program], check=True)
    from_c = float(subprocess.check_output([program, path]))
    print(f"call from C: {from_c:.0f} ns")
    function = heddle.open(path).main
    x, y = np.arange(4, dtype="f4"), np.ones(4, "f4")
    a, b = function.tensor("x", x), function.tensor("y", y)
    for name, call in (("tensors", lambda: function(a, b)), ("NumPy", lambda: function(x, y)), ("NumPy by name", lambda: function(x=x, y=y)),
                       ("NumPy, result as NumPy", lambda: function(x, y).numpy())):
        took = best_of(call)
        print(f"call with {name}: {took:.0f} ns, {took - from_c:.0f} above C")

    def resident_kib():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    for done in range(arguments.rounds + 1):
        if done in (arguments.rounds // 10, arguments.rounds):
            print(f"after {done} rounds: {resident_kib()} KiB")
        with heddle.open(path) as module:
            module(x, y)


if __name__ == "__main__":
    main()
