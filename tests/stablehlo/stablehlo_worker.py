# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of stablehlo_cases.py: compiles and runs one case after the other, so that a crash is the failure of one case."""
import ctypes
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "onnx_cases"), str(HERE.parent / "bench")]
import case_files
import check_rules
import heddle_ctypes
import reasons
import worker

OP = re.compile(r"importing '((?:stablehlo|chlo|func|mhlo)\.[\w.]+)'[^;]*? failed: (.*)", re.DOTALL)
LISTED = re.compile(r"ops? (?:is|are) not supported: (.*?)(?:; |$)", re.DOTALL)
NAMED = re.compile(r"'((?:stablehlo|chlo|func|mhlo)\.[\w.]+)'")


def reasons_of(message):
    """What the compiler does not support, such as "operator stablehlo.rng" or "form stablehlo.sort: ..."."""
    found = OP.search(message)
    if found:
        cause = reasons.general(found[2])
        if "op is not supported" in cause:
            return [f"operator {found[1]}"]
        kind = reasons.ONE_TYPE.search(found[2])
        return [f"type {kind[1]}"] if kind else [f"form {found[1]}: {cause}"]
    if (listed := LISTED.search(message)) and (named := NAMED.findall(listed[1])):
        return [f"operator {name}" for name in dict.fromkeys(named)]
    return [f"compiler: {reasons.general(message)}"]


def share_of_ops(report):
    """Counts of ops: in generated kernels, and in operations that are called on the host."""
    kernels, calls = set(), set()
    for region in report["compiler_report"]["regions"]:
        (kernels if region.get("kernel") else calls).update(op.get("node") for op in region.get("ops", ()))
    return {"kernels": len(kernels), "host": len(calls - kernels), "neither": 0}


class Worker:
    def __init__(self, settings):
        self.settings = settings
        self.runtime = heddle_ctypes.Runtime(settings["config"])
        self.compiler = None
        if not settings["only_run"]:
            self.compiler = ctypes.CDLL(str(heddle_ctypes.library_path().with_name("libheddle_compiler.so")))

    def run(self, module, case):
        """Yields the results of one call after the other."""
        function = self.runtime.open(module).instance(self.settings["device"]).function()
        if function.argument_count != len(case["inputs"]):
            raise worker.NotPossible(f"the function has {function.argument_count} arguments, and the case {len(case['inputs'])}")
        for value in case["inputs"]:
            if value.dtype not in heddle_ctypes.TYPES:
                raise worker.NotPossible(f"no argument can be of type {value.dtype.name}")
        kept = []
        for _ in range(self.settings["calls"]):
            kept.append(function.prepare(*case["inputs"]))
            yield [result.numpy() for result in kept[-1][1]]

    def answer(self, asked):
        """{verdict, reasons, message, nodes}"""
        folder, module = pathlib.Path(asked["folder"]), pathlib.Path(asked["module"])
        found = {"verdict": "failed", "reasons": [], "message": "", "nodes": None}

        def failed(kinds, message):
            found.update(reasons=kinds, message=(str(message).splitlines() or [""])[0][:2000])
            return found

        case = case_files.read(folder)
        if not self.settings["only_run"]:
            cache = self.settings["kernels"]
            try:
                self.runtime.library.compile(self.compiler, folder / "model.mlir", module, target=self.settings["target"], flags=0 if cache else 1,
                                             cache=cache or "", threads=1)
                found["nodes"] = share_of_ops(self.runtime.open(module).report())
            except RuntimeError as error:
                return failed(reasons_of(str(error)), error)
        if self.settings["device"] != "none":
            try:
                for number, got in enumerate(self.run(module, case), 1):
                    if wrong := check_rules.verdict(got, case):
                        return failed([wrong[0]], f"call {number}: {wrong[1]}" if number > 1 else wrong[1])
            except (RuntimeError, worker.NotPossible) as error:
                return failed([f"run: {reasons.general(str(error))}"], error)
        found["verdict"] = "passed"
        return found


if __name__ == "__main__":
    worker.serve(Worker, Worker.answer)
