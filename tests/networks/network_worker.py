# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of networks.py: compiles and calls one network after the other. Reads a JSON object per line from stdin and answers with one per line."""
import json
import pathlib
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "onnx_cases"))
sys.path.insert(0, str(HERE.parent / "bench"))
import cases
import heddle_ctypes
import reasons
import worker


def calls_of(path, inputs=None):
    """[(sizes, inputs, {name: expected})] of an .npz file; inputs in the order of the names, else of the file."""
    with np.load(path) as file:
        found = {}
        for key in file.files:
            sizes, kind, name = key.split(":", 2)
            found.setdefault(sizes, {"in": {}, "out": {}})[kind][name] = file[key]
    return [(sizes, [one["in"][name] for name in inputs or one["in"]], one["out"]) for sizes, one in found.items()]


def write_calls(path, calls, inputs):
    np.savez_compressed(path, **{f"{sizes}:in:{name}": array for sizes, given, _ in calls for name, array in zip(inputs, given, strict=True)},
                        **{f"{sizes}:out:{name}": array for sizes, _, wanted in calls for name, array in wanted.items()})


def compared(name, got, wanted):
    """(error relative to the largest value, or None and what is wrong)"""
    if got.shape != wanted.shape:
        return None, f"{name} has shape {list(got.shape)} and not {list(wanted.shape)}"
    if got.dtype != wanted.dtype:
        return None, f"{name} is {got.dtype.name} and not {wanted.dtype.name}"
    if wanted.dtype.kind != "f":
        wrong = int((got != wanted).sum())
        return (None, f"{name} differs in {wrong} of {wanted.size} elements") if wrong else (0.0, "")
    if not np.isfinite(wanted).all():
        return None, f"{name} is expected to have elements that are not finite"
    largest = float(np.abs(wanted).max(initial=0))
    difference = np.abs(got - wanted)
    error = float(difference.max(initial=0)) / (largest or 1)
    if not (difference <= 1e-3 * np.abs(wanted) + 1e-4 * largest).all():  # also of a NaN
        return None, f"{name} differs by {difference.max():.3g}, and its largest value is {largest:.3g}"
    return error, ""


class Worker(worker.Worker):
    def compile_network(self, model, module, found):
        """Names of the inputs; notes how long it took, and the shares of nodes."""
        import onnx
        loaded = onnx.load(model, load_external_data=False)
        found["count"] = len(loaded.graph.node)
        began, cache = time.monotonic(), self.settings["kernels"]
        self.runtime.library.compile(self.compiler, model, module, target=self.settings["target"], flags=0 if cache else 1, cache=cache)
        found["compile_seconds"] = round(time.monotonic() - began, 2)
        found["nodes"] = worker.share_of_nodes(self.runtime.open(module).report(), cases.node_names(loaded))
        known = {tensor.name for tensor in loaded.graph.initializer}
        return [value.name for value in loaded.graph.input if value.name not in known]

    def call_all(self, module, calls):
        """[{sizes, error, wrong}]"""
        try:
            function, found = self.runtime.open(module).instance(self.settings["device"]).function(), []
        except RuntimeError as error:
            return [{"sizes": "all", "error": None, "wrong": str(error).splitlines()[0][:1000]}]
        for sizes, inputs, wanted in calls + calls[:1]:
            one = {"sizes": sizes, "error": None, "wrong": ""}
            found.append(one)
            try:
                if function.argument_count != len(inputs) or function.result_count != len(wanted):
                    raise RuntimeError(f"the function has {function.argument_count} arguments and {function.result_count} results, and the call {len(inputs)} and {len(wanted)}")
                call, results = function.start([function.tensor(index, array) for index, array in enumerate(inputs)])
                call.wait()
                errors = [compared(name, result.numpy(), array) for result, (name, array) in zip(results, wanted.items(), strict=True)]
                one["wrong"] = "; ".join(text for _, text in errors if text)
                one["error"] = None if one["wrong"] else max(error for error, _ in errors)
            except RuntimeError as error:
                one["wrong"] = str(error).splitlines()[0][:1000]
        again = found.pop()
        if again != found[0] and not found[0]["wrong"]:
            found.append({"sizes": f"{again['sizes']} again", "error": None, "wrong": again["wrong"] or f"the error is {again['error']:.3g} and was {found[0]['error']:.3g}"})
        return found

    def timed(self, model, module, calls, names):
        """Milliseconds of Heddle and ONNX Runtime for the call that takes longest, with as many threads; and the ratio of Heddle's to the other. None if ONNX
        Runtime runs none of the calls."""
        import peers
        import turns
        found, function = None, self.runtime.open(module).instance(self.settings["device"]).function()
        for sizes, inputs, _ in calls:
            given = {name: array for name, array in zip(names, inputs, strict=True)}
            try:
                theirs = peers.onnx_runtime_call(model, given, turns.cores())
                theirs()
            except Exception:  # of any kind: there is nothing to compare with
                continue
            contenders = {"heddle": function.prepare(*inputs)[0], "onnx_runtime": theirs}
            medians = turns.measure(contenders, rounds=6, seconds=self.settings["seconds"])
            one = {name: round(float(np.median(values)) * 1e3, 3) for name, values in medians.items()}
            if not found or one["heddle"] > found["heddle"]:
                found = {"sizes": sizes, **one, "ratio": round(turns.ratio(medians, *contenders), 3)}
        return found

    def answer_network(self, asked, folder):
        """{verdict, reasons, message, nodes, count, compile_seconds, calls}"""
        found = {"verdict": "failed", "reasons": [], "message": "", "nodes": None, "calls": []}
        model, kept = asked["model"], pathlib.Path(asked["kept"] or folder)
        module = kept / "module.heddle"
        if model:
            model = pathlib.Path(model)
            try:
                inputs = self.compile_network(model, module, found)
            except RuntimeError as error:
                found.update(reasons=reasons.of_compiler(str(error)), message=str(error).splitlines()[0].split("; the model is '")[0][:4000])
                return found
            calls = calls_of(model.with_suffix(".npz"), inputs)
            if asked["kept"]:
                write_calls(kept / "calls.npz", calls, inputs)
                (kept / "compiled.json").write_text(json.dumps(found))
        else:
            found.update(json.loads((kept / "compiled.json").read_text()))
            calls = calls_of(kept / "calls.npz")
        if self.settings["device"] != "none":
            found["calls"] = self.call_all(module, calls)
            wrong = [one["wrong"] for one in found["calls"] if one["wrong"]]
            if wrong:
                found.update(reasons=list(dict.fromkeys(f"run: {reasons.general(one)}" for one in wrong)), message="; ".join(dict.fromkeys(wrong)))
                return found
            if self.settings["seconds"]:
                found["times"] = self.timed(model, module, calls, inputs)
        found["verdict"] = "passed"
        return found

    def answer(self, asked):
        with tempfile.TemporaryDirectory(prefix="heddle-network-") as folder:
            return self.answer_network(asked, folder)


if __name__ == "__main__":
    worker.serve(Worker, lambda one, asked: one.answer(asked))
