# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Those that networks are timed beside: ONNX Runtime, OpenVINO and PyTorch's Inductor, each as a function of one call, in true f32.

Each gets inputs as {name: array}, bound ahead of the call, and a number of threads. Also what every benchmark of networks does with Heddle.
"""
import subprocess
import time

import numpy as np
import onnxruntime

try:
    import openvino
except ImportError:
    openvino = None


def compile_network(heddle, model, module, *options):
    started = time.perf_counter()
    process = subprocess.run([heddle, "compile", model, "-o", module, *options], capture_output=True, text=True)
    if process.returncode != 0:
        raise RuntimeError(f"compiling {model} failed with exit code {process.returncode}: {process.stderr.strip()}")
    return time.perf_counter() - started


def agree(got, expected):
    return bool((np.abs(got - expected) <= 1e-3 * np.abs(expected) + 1e-4 * np.abs(expected).max()).all())


def versions():
    return f"ONNX Runtime {onnxruntime.__version__}; OpenVINO {openvino.__version__ if openvino else 'not installed'}"


def expected_of(model, *arrays):
    """({name: array} of the inputs in order, ONNX Runtime's results)"""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = {described.name: array for described, array in zip(session.get_inputs(), arrays, strict=True)}
    return inputs, session.run(None, inputs)


def onnx_runtime_call(model, inputs, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    results = []
    try:
        given = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
        for name, value in given.items():
            binding.bind_ortvalue_input(name, value)
        for output, expected in zip(session.get_outputs(), session.run(None, inputs), strict=True):
            results.append(onnxruntime.OrtValue.ortvalue_from_numpy(expected))
            binding.bind_ortvalue_output(output.name, results[-1])
        session.run_with_iobinding(binding)
    except Exception:  # it refuses memory of the caller for strings and some results, such as those of which the file states another shape
        return lambda: session.run(None, inputs)
    return lambda keep=(given, results): session.run_with_iobinding(binding)


def openvino_call(model, inputs, threads):
    core = openvino.Core()
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    request = core.compile_model(str(model), "CPU", hints).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return request.infer


def inductor_call(model, inputs, threads):
    """The network that the file was exported from, with weights packed ahead (freezing)."""
    import torch
    import torch._dynamo.config
    import torch._inductor.config

    import export_networks
    torch.set_float32_matmul_precision("highest")
    torch._inductor.config.freezing = True
    torch._dynamo.config.recompile_limit = 1000  # all networks and numbers of threads are versions of one function to it
    module = export_networks.build(model.stem.split(".")[0], "small" in model.stem.split("."))[0].eval().float()
    export_networks.randomize(module)
    compiled = torch.compile(module)
    given = [torch.from_numpy(array) for array in inputs.values()]

    def call():
        torch.set_num_threads(threads)
        with torch.inference_mode():
            return compiled(*given)
    return call
