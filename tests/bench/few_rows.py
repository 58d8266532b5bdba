# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of few rows and constant matrices, as in decoding a token: Heddle beside ONNX Runtime, in turns, with one core and with all.

A model has so many products of one shape, each with a matrix, an argument and a result of its own, that the matrices together are several times as large
as the last-level cache: every call reads all of them from memory. Forms of the weights:

    f32    MatMul
    f16    MatMul of f32 and Cast(f16 weights), bf16 likewise
    int4   com.microsoft MatMulNBits: 4 bits, blocks of 32, scales of f32, no zero points
    int8   the same, with accuracy_level 4: ONNX Runtime may round the left side to 8 bits; Heddle does not
    zeros  int4 with zero points
    qdq    MatMul of DequantizeLinear(u4 weights [K, N], blocks of 32 along K, scales of f32, zero points)

Prints a Markdown table: milliseconds, ratio to ONNX Runtime (below 1 is faster), and the share of the memory's bandwidth that reading the weights as they are stored took, scales
and zero points included. The bandwidth is that of a loop in C that adds up an array, in the same turns; its share is of the fastest calls, since other load falls on these least. Needs a
C compiler (cc).
"""
import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import heddle_ctypes
import peers
import turns

SHAPES = ((576, 1536), (1536, 576), (576, 49152), (2048, 8192), (4096, 4096))
BLOCK = 32
READ = """
#include <stddef.h>
#include <stdint.h>
uint64_t add_up(const uint64_t* from, size_t count) {
  uint64_t sums[64] = {0};
  for (size_t i = 0; i + 64 <= count; i += 64)
    for (size_t j = 0; j < 64; ++j) sums[j] += from[i + j];
  uint64_t sum = 0;
  for (size_t j = 0; j < 64; ++j) sum += sums[j];
  return sum;
}
"""


def reader(folder):
    """A function that returns one that reads `bytes` with `threads` threads."""
    source, library = folder / "read.c", folder / "read.so"
    source.write_text(READ, encoding="utf-8")
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True)
    add_up = ctypes.CDLL(str(library)).add_up
    add_up.restype, add_up.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_size_t]

    def reading(array, threads):
        share = array.size // threads
        places = [array.ctypes.data + 8 * share * i for i in range(threads)]

        def call():
            others = [threading.Thread(target=add_up, args=(place, share)) for place in places[1:]]
            for other in others:
                other.start()
            add_up(places[0], share)
            for other in others:
                other.join()
        return call
    return reading


def stored_bytes(form, k, n):
    blocks = (k + BLOCK - 1) // BLOCK
    return {"f32": 4 * k * n, "f16": 2 * k * n, "bf16": 2 * k * n, "int4": k * n // 2 + 4 * n * blocks,
            "int8": k * n // 2 + 4 * n * blocks, "zeros": k * n // 2 + n * (4 * blocks + (blocks + 1) // 2), "qdq": k * n // 2 + n * blocks * 9 // 2}[form]


def packed(values):
    """Numbers below 16, two in a byte, the first one in the low bits."""
    return values[..., 0::2] | (values[..., 1::2] << 4)


def product(generator, form, i, k, n):
    """(nodes, initializers) of result y{i} = x{i} times a matrix [k, n]."""
    x, w, y, blocks = f"x{i}", f"w{i}", f"y{i}", (k + BLOCK - 1) // BLOCK
    if form in ("f32", "f16", "bf16"):
        values = generator.standard_normal((k, n), dtype=np.float32)
        if form == "f32":
            return [helper.make_node("MatMul", [x, w], [y])], [numpy_helper.from_array(values, w)]
        if form == "f16":
            stored = numpy_helper.from_array(values.astype(np.float16), w)
        else:
            bits = (values.view(np.uint32) >> 16).astype(np.uint16)
            stored = helper.make_tensor(w, TensorProto.BFLOAT16, [k, n], bits.tobytes(), raw=True)
        return [helper.make_node("Cast", [w], [w + "f"], to=TensorProto.FLOAT), helper.make_node("MatMul", [x, w + "f"], [y])], [stored]
    if form == "qdq":
        scales = generator.uniform(0.01, 0.02, (blocks, n)).astype(np.float32)
        quantized = generator.integers(0, 256, k * n // 2, dtype=np.uint8)
        zeros = generator.integers(0, 256, blocks * n // 2, dtype=np.uint8)
        nodes = [helper.make_node("DequantizeLinear", [w, w + "s", w + "z"], [w + "f"], axis=0, block_size=BLOCK),
                 helper.make_node("MatMul", [x, w + "f"], [y])]
        return nodes, [helper.make_tensor(w, TensorProto.UINT4, [k, n], quantized.tobytes(), raw=True), numpy_helper.from_array(scales, w + "s"),
                       helper.make_tensor(w + "z", TensorProto.UINT4, [blocks, n], zeros.tobytes(), raw=True)]
    scales = generator.uniform(0.01, 0.02, (n, blocks)).astype(np.float32)
    quantized = generator.integers(0, 256, (n, blocks, BLOCK // 2), dtype=np.uint8)
    inputs, tensors = [x, w, w + "s"], [numpy_helper.from_array(quantized, w), numpy_helper.from_array(scales, w + "s")]
    if form == "zeros":
        inputs.append(w + "z")
        tensors.append(numpy_helper.from_array(generator.integers(0, 256, (n, (blocks + 1) // 2), dtype=np.uint8), w + "z"))
    level = {"accuracy_level": 4} if form == "int8" else {}
    return [helper.make_node("MatMulNBits", inputs, [y], domain="com.microsoft", K=k, N=n, bits=4, block_size=BLOCK, **level)], tensors


def write_model(path, form, m, k, n, copies):
    generator = np.random.default_rng([m, k, n])
    nodes, tensors, value = [], [], lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    for i in range(copies):
        more = product(generator, form, i, k, n)
        nodes += more[0]
        tensors += more[1]
    graph = helper.make_graph(nodes, "few_rows", [value(f"x{i}", [m, k]) for i in range(copies)], [value(f"y{i}", [m, n]) for i in range(copies)], tensors)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=1024)
    return {f"x{i}": generator.standard_normal((m, k), dtype=np.float32) for i in range(copies)}


def exact(model, inputs):
    """ONNX Runtime's results, each node as the model has it: optimized, and where the model asks for it, products round their left side to 8 bits."""
    plain = onnx.load(model)
    for node in plain.graph.node:
        for attribute in [one for one in node.attribute if one.name == "accuracy_level"]:
            node.attribute.remove(attribute)
    path = model.with_name("plain.onnx")
    onnx.save(plain, path, save_as_external_data=True, location="plain.data", size_threshold=1024)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def measure(contenders, rounds, seconds):
    """(seconds of a call as turns.measure has them, the fastest call of each contender)"""
    fastest = dict.fromkeys(contenders, float("inf"))

    def timed(name, call):
        def one():
            before = time.perf_counter()
            call()
            fastest[name] = min(fastest[name], time.perf_counter() - before)
        return one
    return turns.measure({name: timed(name, call) for name, call in contenders.items()}, rounds, seconds), fastest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--forms", nargs="+", default=["f32", "f16", "bf16", "int4", "int8", "zeros", "qdq"])
    parser.add_argument("--shapes", nargs="+", default=[f"{k}x{n}" for k, n in SHAPES], help="KxN")
    parser.add_argument("--megabytes", type=float, default=100, help="of weights as they are stored, at least")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, turns.cores()}), help="1, or all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    arguments = parser.parse_args()
    heddle, rows = str(heddle_ctypes.command_path()), []
    with tempfile.TemporaryDirectory(prefix="heddle-bench-") as name:
        folder = pathlib.Path(name)
        reading, array = reader(folder), np.ones(int(arguments.megabytes * 1e6) // 8, np.uint64)
        for form in arguments.forms:
            for shape in arguments.shapes:
                k, n = map(int, shape.split("x"))
                copies = max(2, round(arguments.megabytes * 1e6 / stored_bytes(form, k, n)))
                for m in arguments.rows:
                    model = folder / "model.onnx"
                    inputs = write_model(model, form, m, k, n, copies)
                    peers.compile_network(heddle, model, model.with_suffix(".heddle"))
                    opened = heddle_ctypes.Runtime(heddle_ctypes.one_core_config()).open(model.with_suffix(".heddle"))
                    expected = exact(model, inputs)
                    for threads in arguments.threads:
                        call, results = opened.instance("one" if threads == 1 else "cpu").function().prepare(*inputs.values())
                        for result, right in zip(results, expected, strict=True):
                            if not peers.agree(result.numpy(), right):
                                raise RuntimeError(f"{form} {m} x {shape}: the result differs from ONNX Runtime's by {np.abs(result.numpy() - right).max():.3g}")
                        contenders = {"ours": call, "theirs": peers.onnx_runtime_call(model, inputs, threads), "read": reading(array, threads)}
                        medians, fastest = measure(contenders, arguments.rounds, arguments.seconds)
                        rate = array.nbytes / 1e9 / fastest["read"]
                        shares = [100 * copies * stored_bytes(form, k, n) / 1e9 / fastest[who] / rate for who in ("ours", "theirs")]
                        rows.append([f"{form}, {m} × {k} × {n}", threads, turns.milliseconds(medians["ours"]), turns.milliseconds(medians["theirs"]),
                                     f"{turns.ratio(medians, 'ours', 'theirs'):.2f}", f"{rate:.1f}", f"{shares[0]:.0f} %", f"{shares[1]:.0f} %"])
                        print("; ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
                        del call, results
    print(f"{turns.machine()}; {peers.versions()}; {arguments.megabytes:g} MB of weights in a model; {arguments.rounds} rounds in turns, medians\n")
    print(turns.table(["weights, M × K × N", "cores", "Heddle ms", "ORT ms", "ratio", "read GB/s", "of it, Heddle", "ORT"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
