# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of onnx_cases.py: compiles and runs one case after the other, so that a crash is the failure of one case. Reads a JSON object per
line from stdin and answers with one per line."""
import ctypes
import json
import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
import cases
import compare
import heddle_ctypes
import reasons


class NotPossible(Exception):
    pass


def share_of_nodes(report, operators):
    """Counts of nodes: in generated kernels, in operations that are called on the host, and in neither, such as views and what is known when the model
    is compiled."""
    kernels, calls = set(), set()
    for region in report["compiler_report"]["regions"]:
        (kernels if region.get("kernel") else calls).update(op.get("node") for op in region.get("ops", ()))
    kernels &= operators.keys()
    calls = calls & operators.keys() - kernels
    return {"kernels": len(kernels), "host": len(calls), "neither": len(operators) - len(kernels) - len(calls)}


def as_bytes(value):
    """Strings as Heddle takes them: UTF-8 with zeros behind it, along one more dimension."""
    coded = [str(one).encode() for one in value.reshape(-1)]
    width = max(map(len, coded), default=0)
    return np.frombuffer(b"".join(one.ljust(width, b"\0") for one in coded), np.uint8).reshape(*value.shape, width)


def as_strings(value):
    """The reverse."""
    if value.ndim == 0 or value.dtype != np.uint8:
        return value
    texts = [bytes(one).rstrip(b"\0").decode() for one in value.reshape(int(np.prod(value.shape[:-1])), value.shape[-1])]
    return np.array(texts, object).reshape(value.shape[:-1])


class Worker:
    def __init__(self, settings):
        self.settings = settings
        self.runtime = heddle_ctypes.Runtime(settings["config"])
        self.compiler = None
        if not settings["only_run"]:
            self.compiler = ctypes.CDLL(str(heddle_ctypes.library_path().with_name("libheddle_compiler.so")))

    def compile(self, name, folder, module):
        """The case and its counts of nodes; throws RuntimeError with the compiler's message."""
        cache = self.settings["kernels"]
        case = cases.read_case(folder)
        self.runtime.library.compile(self.compiler, folder / "model.onnx", module, target=self.settings["target"], flags=0 if cache else 1,
                                     cache=cache or "", threads=1, specializations=case["specializations"])
        return case, share_of_nodes(self.runtime.open(module).report(), cases.node_names(case["model"]))

    def run(self, module, case):
        """Yields the results of one call after the other. Each has inputs and results of its own, and those of earlier calls are kept, so that results
        that a call left out are not those of the call before."""
        opened = self.runtime.open(module)
        function = opened.instance(self.settings["device"]).function()
        inputs = [as_bytes(value) if getattr(value, "dtype", None) == object else value for value in cases.tensors(case["inputs"])]
        if function.argument_count != len(inputs):
            raise NotPossible(f"the function has {function.argument_count} arguments, and the case {len(inputs)}")
        for value in map(np.asarray, inputs):
            if value.dtype not in heddle_ctypes.TYPES:
                raise NotPossible(f"no argument can be of type {value.dtype.name}")
        names = [result["name"] for result in opened.report()["functions"][0]["results"]]
        kept = []
        for _ in range(self.settings["calls"]):
            kept.append(function.prepare(*inputs))
            made = cases.with_structure(case["names"], case["outputs"], dict(zip(names, (result.numpy() for result in kept[-1][1]), strict=True)))
            yield [as_strings(one) if getattr(wanted, "dtype", None) == object else one for one, wanted in zip(made, case["outputs"], strict=True)]

    def answer(self, name, folder, module):
        """{verdict, reasons, message, nodes, stated}: stated are the specializations that the case is compiled for"""
        found = {"verdict": "failed", "reasons": [], "message": "", "nodes": None, "stated": []}

        def failed(kind, message):
            found.update(reasons=kind if isinstance(kind, list) else [kind], message=(str(message).splitlines() or [""])[0].split("; the model is '")[0][:2000])
            return found

        if self.settings["only_run"]:
            case = cases.read_values(folder / "values.npz")
            found["nodes"] = json.loads((folder / "nodes.json").read_text())
        else:
            try:
                case, found["nodes"] = self.compile(name, folder, module)
            except RuntimeError as error:
                return failed(reasons.of_compiler(str(error)), error)
            if self.settings["modules"]:
                cases.write_values(case, module.parent / "values.npz")
                (module.parent / "nodes.json").write_text(json.dumps(found["nodes"]))
        found["stated"] = case["specializations"]
        if self.settings["device"] != "none":
            try:
                for number, got in enumerate(self.run(module, case), 1):
                    if wrong := compare.verdict(name, got, case):
                        return failed(wrong[0], f"call {number}: {wrong[1]}" if number > 1 else wrong[1])
            except (RuntimeError, NotPossible) as error:
                return failed(f"run: {reasons.general(str(error))}", error)
        found["verdict"] = "passed"
        return found


def serve(kind, answer):
    """Answers each question that stdin has, by answer(worker, asked)."""
    # What libraries print must not become an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = kind(json.loads(sys.argv[1]))
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            got = answer(worker, asked)
        except Exception as error:  # of this program, not of the case: the command fails
            got = {"error": f"{asked['name']}: {type(error).__name__}: {error}"}
        print(json.dumps(got), file=answers, flush=True)


if __name__ == "__main__":
    serve(Worker, lambda worker, asked: worker.answer(asked["name"], pathlib.Path(asked["folder"]), pathlib.Path(asked["module"])))
