# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens a second of a language model that generates one token at a time, beside ONNX Runtime and PyTorch.

    generate.py FOLDER [--name llama] [--capacity 512] [--tokens 256] [--rounds 4] [--int4 LEVEL] [--without CONTENDER ...] [--device cpu]

FOLDER is what tests/networks/generation.py FOLDER llama --full --capacity 512 wrote. Contenders continue a prompt by the likeliest token, in turns of some tokens, so that what
else the machine does falls on all of them alike; all tokens are compared with those of PyTorch's own generation. ONNX Runtime runs the same model, with caches that are bound
as inputs and as outputs; PyTorch runs transformers' network of the same weights with a static cache, eagerly and compiled by Inductor. The bandwidth is the larger one
of reads of an array by all cores, measured in the same turns; the share of it is what reading each weight once for each token takes of it.

With --int4, ONNX Runtime's quantizer makes the weights of products 4 bits wide (MatMulNBits, blocks of 32, without zero points); with LEVEL 4 products may round their left
side to 8 bits, with 0 they may not. Heddle is compared with ONNX Runtime only, and so are the tokens.
Needs the Python package of the build, torch, transformers, onnx and onnxruntime.
"""
import argparse
import concurrent.futures
import contextlib
import logging
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import turns


class Heddle:
    def __init__(self, step, capacity, device, target, folder, window):
        import heddle
        from heddle import generation

        path = folder / "step.heddle"
        heddle.compile(generation.with_sampling(onnx.load(step), greedy=True), path, target=target)
        self.module = heddle.open(path, device)
        self.make = lambda: generation.Session(self.module, capacity, window=window)

    def begin(self, prompt):
        self.session = self.make()
        self.token = self.session.step(prompt)
        return int(self.token.item())

    def next(self):
        self.token = self.session.step(self.token)
        return int(self.token.item())


class OnnxRuntime:
    """Caches are bound as inputs and as the outputs that replace them, in the same memory."""

    def __init__(self, step, capacity, window):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = turns.cores(), 1
        self.session = onnxruntime.InferenceSession(str(step), options, providers=["CPUExecutionProvider"])
        self.capacity, self.window = capacity, window

    def begin(self, prompt):
        self.past, self.tokens, self.binding = 0, prompt, self.session.io_binding()
        self.binding.bind_output("logits")  # first, so that it is the first of get_outputs()
        for given in self.session.get_inputs()[3:]:
            cache = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(given.shape, "f4"))
            self.binding.bind_ortvalue_input(given.name, cache)
            self.binding.bind_ortvalue_output(f"longer_{given.name}", cache)
        return self.next()

    def next(self):
        places = self.past + self.tokens.shape[1]
        mask = np.ones((1, min(-(-places // self.window) * self.window, self.capacity)), "i8")
        for name, array in (("tokens", self.tokens), ("past", np.array([self.past])), ("mask", mask)):
            self.binding.bind_cpu_input(name, array)
        self.session.run_with_iobinding(self.binding)
        token = int(self.binding.get_outputs()[0].numpy().argmax())
        self.past, self.tokens = places, np.array([[token]])
        return token


class PyTorch:
    def __init__(self, model, capacity, compiled):
        import torch
        import transformers

        self.torch, self.model, self.capacity, self.cache_class = torch, model, capacity, transformers.StaticCache
        self.call = torch.compile(model, dynamic=False) if compiled else model

    def begin(self, prompt):
        self.cache = self.cache_class(config=self.model.config, max_cache_len=self.capacity)
        self.past, self.tokens = 0, self.torch.tensor(prompt)
        return self.advance(self.model)

    def next(self):
        return self.advance(self.call)

    def advance(self, call):
        positions = self.torch.arange(self.past, self.past + self.tokens.shape[1])
        with self.torch.no_grad():
            logits = call(self.tokens, past_key_values=self.cache, cache_position=positions, position_ids=positions[None], use_cache=True, logits_to_keep=1).logits
        self.past += self.tokens.shape[1]
        self.tokens = logits[:, -1:].argmax(-1)
        return int(self.tokens)


def torch_model(name):
    """As tests/networks/generation.py makes it."""
    import torch

    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "networks"))
    import generation as exported

    torch.set_num_threads(turns.cores())
    return exported.seeded_model(name, True)


def with_int4(step, level, folder):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(step), block_size=32, is_symmetric=True, accuracy_level=level)
    logging.getLogger("onnxruntime").setLevel(logging.WARNING)
    quantizer.process()
    path = folder / "int4_step.onnx"
    onnx.save(quantizer.model.model, path, save_as_external_data=True, location="int4_step.onnx.data")
    return path


def weight_bytes(step):
    """Of what a step reads: all of the initializers, except for a table of which it reads one row."""
    model = onnx.load(step, load_external_data=False)
    read = {name for node in model.graph.node for index, name in enumerate(node.input) if not (node.op_type == "Gather" and index == 0)}
    sizes = {onnx.TensorProto.FLOAT: 4, onnx.TensorProto.FLOAT16: 2, onnx.TensorProto.UINT8: 1, onnx.TensorProto.INT8: 1}
    return sum(int(np.prod(one.dims, dtype="i8")) * sizes.get(one.data_type, 8) for one in model.graph.initializer if one.name in read)


def bandwidth(array, pool):
    """Bytes a second of one read of the array by all cores."""
    parts = np.array_split(array, 4 * turns.cores())
    began = time.perf_counter()
    list(pool.map(np.max, parts))
    return array.nbytes / (time.perf_counter() - began)


def main(stack):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", default="llama")
    parser.add_argument("--capacity", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--turn", type=int, default=16, help="tokens of one contender before the next one")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--int4", type=int, metavar="LEVEL", help="with weights of 4 bits")
    parser.add_argument("--without", nargs="*", default=[], metavar="CONTENDER")
    parser.add_argument("--device", default="cpu:0")
    parser.add_argument("--target", default="cpu")
    arguments = parser.parse_args()
    step, given = arguments.folder / f"{arguments.name}_step.onnx", np.load(arguments.folder / f"{arguments.name}.npz")
    prompt, expected = given["prompt"], given["greedy"].tolist()
    folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="heddle-bench-")))
    if arguments.int4 is not None:
        step = with_int4(step, arguments.int4, folder)
    makers = {"Heddle": lambda: Heddle(step, arguments.capacity, arguments.device, arguments.target, folder, arguments.window),
              "ONNX Runtime": lambda: OnnxRuntime(step, arguments.capacity, arguments.window)}
    if arguments.int4 is None and not {"PyTorch", "Inductor"} <= set(arguments.without):
        model = torch_model(arguments.name)
        makers |= {"PyTorch": lambda: PyTorch(model, arguments.capacity, False), "Inductor": lambda: PyTorch(model, arguments.capacity, True)}
    times, speeds, contenders, wrong = {}, [], {}, {}
    array = np.ones(1 << 26, "f4")
    pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(turns.cores()))
    for name, make in makers.items():
        if name in arguments.without:
            continue
        try:
            contenders[name] = make()
            contenders[name].begin(prompt)
            for _ in range(2):
                contenders[name].next()
        except Exception as error:  # of any kind
            contenders.pop(name, None)
            print(f"{name} cannot: {type(error).__name__}: {str(error).splitlines()[0][:300]}", file=sys.stderr)
    for _ in range(arguments.rounds):
        found = {name: [one.begin(prompt)] for name, one in contenders.items()}
        for _ in range(arguments.tokens // arguments.turn):
            speeds.append(bandwidth(array, pool))
            for name, one in contenders.items():
                time.sleep(0.05)  # until the threads of the others sleep
                began = time.perf_counter()
                found[name] += [one.next() for _ in range(arguments.turn)]
                times.setdefault(name, []).append((time.perf_counter() - began) / arguments.turn)
        if arguments.int4 is not None:
            expected = found["ONNX Runtime"]
        for name, tokens in found.items():
            wrong[name] = sum(a != b for a, b in zip(tokens, expected))
    read, speed = weight_bytes(step), max(speeds)
    print(f"{turns.machine()}; {step.name}, {read / 1e6:.1f} MB of weights read a token; {arguments.tokens} tokens in turns of {arguments.turn}, {arguments.rounds} rounds; "
          f"reads at {statistics.median(speeds) / 1e9:.2f} GB/s (median), {speed / 1e9:.2f} (best)\n")
    rows = []
    for name, seconds in times.items():
        pairs = [read / second / rate for second, rate in zip(seconds, speeds, strict=True)]
        ratios = statistics.median(a / b for a, b in zip(times["Heddle"], seconds, strict=True)) if "Heddle" in times else float("nan")
        rows.append([name, f"{statistics.median(seconds) * 1e3:.2f}", f"{1 / statistics.median(seconds):.2f}", f"{1 / min(seconds):.2f}", f"{statistics.median(pairs):.2f}",
                     f"{ratios:.2f}", f"{wrong[name]} of {min(len(expected), arguments.tokens + 1)}"])
    print(turns.table(["contender", "ms a token", "tokens/s", "in the best turn", "share of the bandwidth", "Heddle / it", "other tokens"], rows))
    return 0


if __name__ == "__main__":
    with contextlib.ExitStack() as at_exit:
        sys.exit(main(at_exit))
