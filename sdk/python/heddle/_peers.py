# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What evaluates an ONNX model: heddle on a device, ONNX Runtime, or the reference implementation of the package onnx."""
from __future__ import annotations

import importlib
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import _graphs, _programs
from ._errors import make
from ._programs import Failed


class Peer(Protocol):
    """Evaluates models. `name` is for people."""

    name: str

    def evaluate(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Results by name: arrays, or something else for values that are no tensors. Raises Failed."""
        ...


def results_of(model: Any) -> list[str]:
    return [str(one.name) for one in model.graph.output]


_FAMILIES = ("cuda", "hip", "level_zero")  # a device with another name is one of the configuration, and --option=--target=... has its family


class Heddle:
    """Compiles and calls a model, each in a child process."""

    def __init__(self, device: str = "", options: Sequence[str] = (), run_options: Sequence[str] = (), timeout: float | None = None) -> None:
        self.device, self.timeout = device, timeout
        family = device.split(":")[0]
        given = any(one.split("=")[0] == "--target" for one in options)
        self.options = ["--target", family, *options] if family in _FAMILIES and not given else [*options]
        self.run_options = list(run_options)
        self.name = "heddle on " + (device or "the default device") + (" with " + " ".join(options) if options else "")

    def evaluate(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
            return self.evaluate_in(pathlib.Path(folder), model, inputs)[0]

    def evaluate_in(self, folder: pathlib.Path, model: Any, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also the description of the module, which stays in the folder as model.heddle."""
        source, module = folder / "model.onnx", folder / "model.heddle"
        _graphs.save(model, source)
        _programs.compile_model(source, module, self.options, self.timeout)
        shown = _programs.description(module)
        missing = [one.name for one in model.graph.input if one.name not in inputs]
        if missing:
            raise make("INVALID_ARGUMENT", f"heddle: running failed: there is no value for input '{missing[0]}'")
        values = _programs.run_module(module, [inputs[one.name] for one in model.graph.input], folder, self.device, self.run_options, self.timeout, shown)
        names = [one["name"] for one in _programs.function_of(shown)["results"]]
        return dict(zip(names, values, strict=True)), shown


class OnnxRuntime:
    """ONNX Runtime on the CPU, without its optimizations, so that each value is that of its node."""

    def __init__(self) -> None:
        try:
            self.package: Any = importlib.import_module("onnxruntime")
        except ImportError as wrong:
            raise make("NOT_FOUND", "heddle: comparing failed: the Python package onnxruntime is not installed; pip install onnxruntime, or pass "
                                    "--against onnx for the slow reference implementation") from wrong
        self.package.set_default_logger_severity(4)
        self.name = f"ONNX Runtime {self.package.__version__}"

    def evaluate(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        options = self.package.SessionOptions()
        options.graph_optimization_level = self.package.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        with tempfile.TemporaryDirectory(prefix="heddle-") as folder:
            path = pathlib.Path(folder, "model.onnx")
            _graphs.save(model, path)
            try:
                session = self.package.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
                given = {one.name: inputs[one.name] for one in session.get_inputs() if one.name in inputs}
                values = session.run(results_of(model), given)
            except Exception as wrong:  # it has no class of its own
                raise Failed("ONNX Runtime", f"ONNX Runtime: {str(wrong).strip() or type(wrong).__name__}; a model that it does not run can be compared with the "
                                             "reference implementation of the package onnx instead: onnx in place of onnxruntime") from wrong
        return dict(zip(results_of(model), values, strict=True))


class Reference:
    """onnx.reference."""

    def __init__(self) -> None:
        self.name = f"the reference implementation of onnx {_graphs.onnx().__version__}"

    def evaluate(self, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            evaluator = _graphs.onnx("reference").ReferenceEvaluator(model)
            values = evaluator.run(results_of(model), {one.name: inputs[one.name] for one in model.graph.input})
        except Exception as wrong:
            raise Failed("onnx.reference", f"onnx.reference: {str(wrong).strip() or type(wrong).__name__}") from wrong
        return dict(zip(results_of(model), values, strict=True))


def peer(name: str, options: Sequence[str] = (), run_options: Sequence[str] = (), timeout: float | None = None) -> Peer:
    """"onnxruntime", "onnx", or a device such as "cuda:0"."""
    if name in ("onnxruntime", "onnx"):
        if options:
            raise make("INVALID_ARGUMENT", f"heddle: comparing failed: options of heddle compile are for a device, not for {name}")
        return OnnxRuntime() if name == "onnxruntime" else Reference()
    return Heddle(name, options, run_options, timeout)
