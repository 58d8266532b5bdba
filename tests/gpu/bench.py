# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Benchmarks on a CUDA device beside PyTorch on the same device, in turns, in one process.

    bench.py launches | elementwise | contractions | resnet | parameters | cold | start

Each prints Markdown tables. Ratios are ours / theirs: below 1 is faster. Math modes are the same on both sides: TF32 is
off, except in the rows that say so.
"""
import argparse
import concurrent.futures
import json
import mmap
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "bench"), str(HERE.parent / "models"), str(HERE.parent / "e2e")]
import heddle_ctypes  # noqa: E402
import light  # noqa: E402
import turns  # noqa: E402
from gpu import cuda_device  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True  # the peer is the best algorithm, not the first guess
ELEMENT = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}
AT_ONCE = 20  # calls in flight, so that neither side's launch is what is timed


def value(name, shape, dtype=np.float32):
    return helper.make_tensor_value_info(name, ELEMENT[np.dtype(dtype)], shape)


class Bench:
    def __init__(self, config=""):
        self.made = tempfile.TemporaryDirectory(prefix="heddle-bench-")
        self.folder = pathlib.Path(self.made.name)
        self.device = cuda_device()
        if self.device is None:
            sys.exit("bench: no CUDA device")
        self.runtime = heddle_ctypes.Runtime(config)

    def compile(self, path, *options):
        module = self.folder / (path.stem + ".heddle")
        command = [heddle_ctypes.command_path(), "compile", path, "-o", module, "--target", "cuda", *options]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        return module

    def model(self, name, nodes, inputs, outputs, initializers=()):
        graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
        path = self.folder / f"{name}.onnx"
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    def function(self, path, *options):
        return self.runtime.open(self.compile(path, *options)).instance(self.device).function()


def many(operation):
    """Runs it AT_ONCE times and waits; `operation` only enqueues."""
    def call():
        for _ in range(AT_ONCE):
            operation()
        torch.cuda.synchronize()
    return call


def microseconds(values, count=1):
    return statistics.median(values) * 1e6 / count


def elementwise(bench):
    size = 8192
    image = np.random.default_rng(1).standard_normal((size, size), dtype=np.float32)
    there = torch.from_numpy(image).cuda()
    target = torch.empty_like(there)
    cases = {
        "relu(x) * 2 + 1": ([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Mul", ["r", "two"], ["m"]),
                             helper.make_node("Add", ["m", "one"], ["y"])], [size, size], 2, lambda: torch.relu(there) * 2 + 1),
        "softmax": ([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], [size, size], 2, lambda: torch.softmax(there, -1)),
        "row sum": ([helper.make_node("ReduceSum", ["x", "last"], ["y"], keepdims=0)], [size], 1, lambda: there.sum(1)),
        "column sum": ([helper.make_node("ReduceSum", ["x", "first"], ["y"], keepdims=0)], [size], 1, lambda: there.sum(0)),
        "transpose": ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], [size, size], 2, lambda: there.t().contiguous()),
    }
    constants = [numpy_helper.from_array(np.float32(2), "two"), numpy_helper.from_array(np.float32(1), "one"),
                 numpy_helper.from_array(np.array([1], np.int64), "last"), numpy_helper.from_array(np.array([0], np.int64), "first")]
    rows = []
    for number, (name, (nodes, shape, passes, theirs)) in enumerate(cases.items()):
        used = {item for node in nodes for item in node.input}
        path = bench.model(f"case{number}", nodes, [value("x", [size, size])], [value("y", shape)],
                           [constant for constant in constants if constant.name in used])
        call, results = bench.function(path).prepare_many(AT_ONCE, image)
        expected = theirs().cpu().numpy()
        call()
        assert np.allclose(results[0].numpy(), expected, rtol=1e-4, atol=1e-3), name
        medians = turns.measure({"ours": call, "theirs": many(theirs), "copy": many(lambda: target.copy_(there))}, rounds=10, seconds=0.05)
        del results
        copy = statistics.median(medians["copy"])
        share = copy / 2 * passes / statistics.median(medians["ours"])
        rows.append([name, f"{microseconds(medians['ours'], AT_ONCE):.0f}", f"{microseconds(medians['theirs'], AT_ONCE):.0f}",
                     f"{turns.ratio(medians, 'ours', 'theirs'):.2f}", f"{100 * share:.0f} %"])
    rate = 2 * size * size * 4 * AT_ONCE / copy / 1e12
    print(f"8192 x 8192 f32; device copy {rate:.2f} TB/s\n")
    print(turns.table(["op", "ours us", "PyTorch eager us", "ratio", "of the copy's bandwidth"], rows))


def contractions(bench):
    generator = np.random.default_rng(2)
    rows = []

    def compare(name, path, arrays, theirs, flops, tolerance, *options):
        call, results = bench.function(path, *options).prepare_many(AT_ONCE, *arrays)
        call()
        got, expected = results[0].numpy().astype(np.float32), theirs().float().cpu().numpy()
        error = np.abs(got - expected).max() / np.abs(expected).max()
        assert error < tolerance, f"{name}: {error}"
        medians = turns.measure({"ours": call, "theirs": many(theirs)}, rounds=10, seconds=0.05)
        ours = microseconds(medians["ours"], AT_ONCE)
        rows.append([name, f"{ours:.0f}", f"{microseconds(medians['theirs'], AT_ONCE):.0f}", f"{turns.ratio(medians, 'ours', 'theirs'):.2f}",
                     f"{flops / ours / 1e6:.1f}"])

    def compare_in_tf32(name, *arguments):
        """The same, with what f32 allows under --math fast."""
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        compare(name + ", TF32", *arguments, 2e-3, "--math", "fast")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    cube = lambda size: (size, size, size)  # noqa: E731
    for dtype, (m, k, n) in ((np.float16, cube(4096)), (np.float16, cube(1024)), (np.float16, (998, 1010, 1014)), (np.float32, cube(4096)),
                             (np.float32, cube(1024)), (np.float32, (997, 1009, 1013))):
        a, b = (generator.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in ((m, k), (k, n)))
        name = f"matmul {m}x{k}x{n} {np.dtype(dtype).name}"
        path = bench.model(name.replace(" ", "_"), [helper.make_node("MatMul", ["a", "b"], ["c"])],
                           [value("a", a.shape, dtype), value("b", b.shape, dtype)], [value("c", (m, n), dtype)])
        ta, tb = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
        product = lambda ta=ta, tb=tb: ta @ tb  # noqa: E731
        compare(name, path, (a, b), product, 2 * m * k * n, 1e-2 if dtype == np.float16 else 1e-4)
        if dtype == np.float32:
            compare_in_tf32(name, path, (a, b), product, 2 * m * k * n)
    for dtype in (np.float16, np.float32):
        x = generator.standard_normal((1, 64, 512, 512), dtype=np.float32).astype(dtype)
        w = (generator.standard_normal((256, 64, 3, 3), dtype=np.float32) * 0.05).astype(dtype)
        node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        path = bench.model(f"conv{np.dtype(dtype).name}", [node], [value("x", x.shape, dtype)], [value("y", (1, 256, 512, 512), dtype)],
                           [numpy_helper.from_array(w, "w")])
        tx = torch.from_numpy(x).cuda().to(memory_format=torch.channels_last)
        tw = torch.from_numpy(w).cuda().to(memory_format=torch.channels_last)
        convolution = lambda tx=tx, tw=tw: torch.nn.functional.conv2d(tx, tw, padding=1)  # noqa: E731
        name, flops = f"conv 1x64x512x512 -> 256, 3x3, {np.dtype(dtype).name}, NCHW", 2 * 256 * 64 * 9 * 512 * 512
        compare(name, path, (x,), convolution, flops, 1e-2 if dtype == np.float16 else 1e-4)
        if dtype == np.float32:
            compare_in_tf32(name, path, (x,), convolution, flops)
    print(turns.table(["op", "ours us", "cuBLAS, cuDNN (channels last) us", "ratio", "TFLOP/s"], rows))


class ResNet50(torch.nn.Module):
    """torchvision's network, without its weights: the same layers as the ONNX file's."""
    def __init__(self):
        super().__init__()
        nn = torch.nn

        def block(inputs, width, stride):
            layers = [nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                      nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                      nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)]
            shortcut = nn.Identity() if stride == 1 and inputs == 4 * width else nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
            return nn.ModuleList([nn.Sequential(*layers), shortcut])

        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks, inputs = nn.ModuleList(), 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for index in range(count):
                self.blocks.append(block(inputs, 64 << stage, 2 if stage > 0 and index == 0 else 1))
                inputs = 256 << stage
        self.head = nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.stem(x)
        for body, shortcut in self.blocks:
            x = torch.relu(body(x) + shortcut(x))
        return self.head(x.mean((2, 3)))


def export_resnet(bench, batch, dtype):
    """(module, ONNX file) of the network with random weights."""
    torch.manual_seed(1)
    network = ResNet50().eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    network = network.to(dtype)
    image = torch.randn(batch, 3, 224, 224, dtype=dtype)
    path = bench.folder / f"resnet50_b{batch}.onnx"
    torch.onnx.export(network, (image,), str(path), input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)
    return network, path, image


def resnet(bench):
    rows = []
    for batch, dtype in ((1, torch.float32), (32, torch.float16)):
        network, path, image = export_resnet(bench, batch, dtype)
        function = bench.function(path)
        call, results = function.prepare(image.numpy())
        there = network.cuda().to(memory_format=torch.channels_last)
        on_device = image.cuda().to(memory_format=torch.channels_last)
        with torch.no_grad():
            compiled = torch.compile(there, mode="reduce-overhead")
            for _ in range(3):
                torch.compiler.cudagraph_mark_step_begin()
                expected = compiled(on_device).float().cpu().numpy()
            error = np.abs(results[0].numpy().astype(np.float32) - expected).max() / np.abs(expected).max()
            assert error < (1e-4 if dtype == torch.float32 else 3e-2), f"batch {batch}: {error}"

            def theirs():
                compiled(on_device)
                torch.cuda.synchronize()

            medians = turns.measure({"ours": call, "theirs": theirs}, rounds=10, seconds=0.2)
        rows.append([f"ResNet-50, batch {batch}, {str(dtype).split('.')[1]}", turns.milliseconds(medians["ours"]),
                     turns.milliseconds(medians["theirs"]), f"{turns.ratio(medians, 'ours', 'theirs'):.2f}"])
        print("statistics:", function.instance.report("statistics"), flush=True)
    print(turns.table(["network", "ours ms", "Inductor + CUDA graphs ms", "ratio"], rows))


class Chain:
    """A chain of 1,000 dependent tiny dispatches: y = (x w) w ... with w an argument."""
    COUNT, SIZE, FLIGHT = 1000, 4, 4

    def __init__(self, bench):
        shape = [self.SIZE, self.SIZE]
        nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"y{i}", "w"], [f"y{i + 1}"]) for i in range(self.COUNT)]
        self.path = bench.model("chain", nodes, [value("x", shape), value("w", shape)], [value(f"y{self.COUNT}", shape)])
        self.w = np.eye(self.SIZE, dtype=np.float32)[[1, 2, 0, 3]]  # a permutation: every dispatch moves what it is given, without rounding
        self.inputs = [np.random.default_rng(turn).standard_normal(shape, dtype=np.float32) for turn in range(4)]
        self.expected = [x @ np.linalg.matrix_power(self.w, self.COUNT) for x in self.inputs]

    def calls(self, function):
        """(one, several, check): `one()` makes a call with the inputs and outputs of the next set, `several()` makes FLIGHT at a time, and
        `check()`, at the end, looks at the results."""
        sets = [function.prepare(x, self.w) for x in self.inputs]
        several, results_of_several = function.prepare_many(self.FLIGHT, each=[(x, self.w) for x in self.inputs])
        turn = [0]

        def one():
            turn[0] += 1
            sets[turn[0] % 4][0]()

        def compare(results):
            for index, (result, expected) in enumerate(zip(results, self.expected)):
                assert np.array_equal(result.numpy(), expected), f"set {index}: {result.numpy()}, not {expected}"

        def check():
            compare([results[0] for _, results in sets])
            compare(results_of_several)
            # Each result gets another set's values: what did not run, or ran with an earlier call's buffers, would leave the old ones.
            for index, x in enumerate(self.inputs):
                started, _ = function.start([function.tensor(0, x), function.tensor(1, self.w)], sets[(index + 1) % 4][1])
                started.wait()
            compare([sets[(index + 1) % 4][1][0] for index in range(4)])

        for _ in range(8):
            one()
        for _ in range(4):
            several()
        return one, several, check


def launches(bench):
    chain, rows = Chain(bench), []
    for name, recording in (("replayed", ""), ("not replayed", 'version = 1\n[driver."heddle.cuda"]\ngraphs = false\n')):
        bench.runtime = heddle_ctypes.Runtime(recording)
        function = bench.function(chain.path)
        one, several, check = chain.calls(function)
        medians = turns.measure({"one": one, "several": several}, rounds=10, seconds=0.1)
        check()
        rows.append([name, f"{microseconds(medians['one'], chain.COUNT):.3f}", f"{microseconds(medians['several'], chain.COUNT * chain.FLIGHT):.3f}"])
        statistics_text = function.instance.report("statistics")
        print(f"{name}: {statistics_text}")
    print(turns.table(["1,000 dependent dispatches", "us each, one call at a time", "us each, four calls in flight"], rows))


class Weights:
    """A model with `count` weights of 128 MiB each, all of which a call reads, and their safetensors file."""
    ROWS, COLUMNS = 16384, 2048

    def __init__(self, bench, count):
        self.count = count
        bytes_each = self.ROWS * self.COLUMNS * 4
        self.total = count * bytes_each
        raw = bench.folder / "weights.bin"
        self.block = np.random.default_rng(3).standard_normal(bytes_each // 4, dtype=np.float32)
        with open(raw, "wb") as file:
            for i in range(count):
                self.block[0] = i
                file.write(self.block.tobytes())
        # y = sum over i of mean(x w_i): it depends on x, so that nothing of it is computed at load.
        nodes, last = [], "x"
        for i in range(count):
            nodes += [helper.make_node("Mul", [f"w{i}", "x"], [f"p{i}"]), helper.make_node("ReduceMean", [f"p{i}"], [f"m{i}"], axes=[0], keepdims=0),
                      helper.make_node("Add", [last, f"m{i}"], [f"y{i}"])]
            last = f"y{i}"
        initializers = []
        for i in range(count):
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[self.ROWS, self.COLUMNS], data_location=TensorProto.EXTERNAL)
            for key, entry in (("location", raw.name), ("offset", str(i * bytes_each)), ("length", str(bytes_each))):
                pair = tensor.external_data.add()
                pair.key, pair.value = key, entry
            initializers.append(tensor)
        self.path = bench.folder / "weights.safetensors"
        model = bench.model("weights", nodes, [value("x", [self.COLUMNS])], [value(last, [self.COLUMNS])], initializers)
        self.module = bench.compile(model, "--params-out", self.path)
        raw.unlink()

    def check(self, instance):
        """Calls it: what was loaded is what was written."""
        x = np.ones(self.COLUMNS, np.float32)
        mean = self.block.reshape(self.ROWS, self.COLUMNS).astype(np.float64).mean(0)
        expected = 1 + self.count * mean
        expected[0] += (sum(range(self.count)) - self.count * float(self.block[0])) / self.ROWS
        call, results = instance.function().prepare(x)
        call()
        assert np.allclose(results[0].numpy(), expected, atol=1e-4), "the weights on the device are not those of the file"

    def read_alone(self, threads=16, piece=2 << 20, direct=False):
        """Seconds to read the file with as many threads, each into memory of its own, and nothing else."""
        memory = mmap.mmap(-1, threads * piece)
        memory.write(bytes(threads * piece))
        descriptor = os.open(self.path, os.O_RDONLY | (os.O_DIRECT if direct else 0))

        def part(index):
            view = memoryview(memory)[index * piece:(index + 1) * piece]
            for offset in range(index * piece, self.total, threads * piece):
                os.preadv(descriptor, [view], offset)

        started = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, range(threads)))
        elapsed = time.perf_counter() - started
        os.close(descriptor)
        return elapsed


def parameters(bench):
    """Loading a safetensors file of 10.7 GB that is in the page cache, beside safetensors' own loader and the two limits. What is timed is
    making the instance, from call to ready: opening the file and its index, memory, reading, copying. Again: in a process that made one
    before, which has its pinned slots and whose pool has the memory. First: the first load of a process, which has a CUDA context."""
    import safetensors.torch

    weights = Weights(bench, 80)
    opened = bench.runtime.open(weights.module)

    def load():
        started = time.perf_counter()
        instance = opened.instance(bench.device, [weights.path])
        loaded = time.perf_counter()
        del instance
        return loaded - started, time.perf_counter() - loaded

    pinned = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")

    def copy_alone():
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(10):
            there.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()
        return (time.perf_counter() - started) / (10 << 30)

    def theirs():
        started = time.perf_counter()
        tensors = safetensors.torch.load_file(weights.path, device="cuda:0")
        torch.cuda.synchronize()
        elapsed = time.perf_counter() - started
        del tensors
        torch.cuda.empty_cache()
        return elapsed

    def first(*module_and_files):
        """Of a new process: seconds to load, and to close the instance, its module, the last instance of the process, and the runtime."""
        output = subprocess.run([sys.executable, "-B", HERE / "first_load.py", bench.device, first_module, *module_and_files],
                                check=True, capture_output=True, text=True).stdout
        return json.loads(output)

    first_module = bench.compile(bench.model("small", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [4])], [value("y", [4])]))
    weights.check(opened.instance(bench.device, [weights.path]))
    load(), weights.read_alone()
    times = {key: [] for key in ("again", "close", "read", "copy", "theirs", "first")}
    closed = {"with the weights": [], "with the small module alone": []}
    for _ in range(10):
        time.sleep(0.3)  # what safetensors left behind is being taken apart
        for key, seconds in zip(("again", "close"), load()):
            times[key].append(seconds)
        times["read"].append(weights.read_alone() / weights.total)
        times["copy"].append(copy_alone())
        times["theirs"].append(theirs())
        closed["with the weights"].append(first(weights.module, weights.path))
        closed["with the small module alone"].append(first(first_module))
        times["first"].append(closed["with the weights"][-1]["load"])
    medians = {key: statistics.median(values) for key, values in times.items()}
    read, copy = 1e-9 / medians["read"], 1e-9 / medians["copy"]
    rows = []
    for key, name in (("again", "again"), ("first", "first of a process"), ("theirs", "safetensors")):
        rate = weights.total / medians[key] / 1e9
        rows.append([name, f"{medians[key] * 1e3:.1f}", f"{rate:.1f}", f"{100 * rate / min(read, copy):.1f} %", f"{medians['theirs'] / medians[key]:.1f}"])
    print(f"{weights.total / 1e9:.1f} GB; reading alone (16 threads) {read:.1f} GB/s, pinned copy alone {copy:.1f}")
    print(turns.table(["load", "ms", "GB/s", "of the lower limit", "times as fast as safetensors"], rows))
    print(f"closing an instance of a process that goes on: {medians['close'] * 1e3:.2f} ms\n")
    rows = []
    for name, runs in closed.items():
        parts = [statistics.median(one[part] for one in runs) * 1e3 for part in ("instance", "module", "small", "runtime")]
        rows.append([name, *parts, statistics.median(sum(one.values()) - one["load"] for one in runs) * 1e3])
    rows.append(["difference", *(a - b for a, b in zip(rows[0][1:], rows[1][1:]))])
    print(turns.table(["closing, ms", "the instance", "its module", "the last instance of the device", "the runtime", "all"],
                      [[row[0], *(f"{number:.2f}" for number in row[1:])] for row in rows]))


def cold(bench):
    """Loading a file of 4.3 GB that is not in the page cache: through it and past it, beside parallel reading alone."""
    weights = Weights(bench, 32)
    subprocess.run(["sync", weights.path], check=True)

    def drop():
        try:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1")
        except OSError:
            descriptor = os.open(weights.path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def loader(method):
        runtime = heddle_ctypes.Runtime(f'version = 1\n[param_io]\nmethod = ["{method}"]\n' if method else "")
        opened = runtime.open(weights.module)

        def load():
            drop()
            started = time.perf_counter()
            instance = opened.instance(bench.device, [weights.path])
            elapsed = time.perf_counter() - started
            if method == "direct":
                weights.check(instance)
            return elapsed
        return load

    def reader(direct):
        def read():
            drop()
            return weights.read_alone(threads=12, piece=1 << 20, direct=direct)
        return read

    kinds = {"loading, method not said": loader(""), "loading, buffered": loader("buffered"), "loading, direct": loader("direct"),
             "reading alone, buffered": reader(False), "reading alone, direct": reader(True)}
    times = {name: [] for name in kinds}
    order = random.Random(1)
    for _ in range(10):
        # What was read before matters: a virtual machine's host takes its free pages away.
        for name in order.sample(list(kinds), len(kinds)):
            times[name].append(kinds[name]())
    best = min(statistics.median(values) for name, values in times.items() if name.startswith("reading"))
    print(f"{weights.total / 1e9:.1f} GB, not in the page cache")
    print(turns.table(["what", "s", "GB/s", "of the faster reading alone"],
                      [[name, f"{statistics.median(values):.2f}", f"{weights.total / statistics.median(values) / 1e9:.2f}",
                        f"{100 * best / statistics.median(values):.0f} %"] for name, values in times.items()]))


def start(bench):
    """A whole process of `heddle run` on a small model beside one that only makes a context."""
    path = bench.model("add", [helper.make_node("Add", ["x", "y"], ["z"])], [value("x", [4]), value("y", [4])], [value("z", [4])])
    module = bench.compile(path)
    command = [str(heddle_ctypes.command_path()), "run", str(module), "--device", bench.device, "--input", "x=f32[4]=1,2,3,4",
               "--input", "y=f32[4]=1,2,3,4"]
    source = bench.folder / "context.c"
    source.write_text("#include <cuda.h>\nint main(void) { CUdevice d; CUcontext c;\n"
                      "return cuInit(0) || cuDeviceGet(&d, 0) || cuDevicePrimaryCtxRetain(&c, d) || cuCtxSetCurrent(c); }\n")
    program = bench.folder / "context"
    subprocess.run(["gcc", "-O2", "-I/usr/local/cuda/include", source, "-o", program, "-L/usr/local/cuda/lib64/stubs", "-lcuda"], check=True)
    times = {"run": [], "context": []}
    for _ in range(11):
        for name, one in (("run", command), ("context", [str(program)])):
            times[name].append(whole_process(one))
    run, context = (statistics.median(times[name][1:]) * 1e3 for name in ("run", "context"))
    print(f"heddle run of one add: {run:.0f} ms; a process that makes a context: {context:.0f} ms; difference {run - context:.0f} ms\n")
    start_of_a_network(bench, context)


def whole_process(command, **environment):
    """Seconds from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return time.perf_counter() - started


def start_of_a_network(bench, context):
    """`heddle run` of ResNet-50 where the driver has to translate its PTX, where its cache has it, and with machine code in the file."""
    _, path, image = export_resnet(bench, 1, torch.float32)
    np.save(bench.folder / "image.npy", image.numpy())

    def command(module):
        return [str(heddle_ctypes.command_path()), "run", str(module), "--device", bench.device, "--input", f"x=@{bench.folder / 'image.npy'}",
                "--output", f"@{bench.folder / 'out.npy'}"]

    translated, rows, outputs = command(bench.compile(path)), [], []

    def row(name, seconds):
        outputs.append(np.load(bench.folder / "out.npy"))
        assert np.array_equal(outputs[0], outputs[-1]) or np.allclose(outputs[0], outputs[-1], rtol=1e-3, atol=1e-3 * np.abs(outputs[0]).max()), name
        milliseconds = statistics.median(seconds) * 1e3
        rows.append([name, len(seconds), f"{milliseconds:.0f}", f"{milliseconds - context:.0f}"])

    def empty_and_filled():
        with tempfile.TemporaryDirectory() as cache:
            return [whole_process(translated, CUDA_CACHE_PATH=cache, CUDA_CACHE_DISABLE="0") for _ in range(2)]

    empty, filled = zip(*(empty_and_filled() for _ in range(3)))
    row("PTX, an empty CUDA_CACHE_PATH", empty)
    row("PTX, that cache filled", filled)
    ptxas = shutil.which("ptxas", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if ptxas is None:
        print("no ptxas: no row of machine code")
    else:
        machine = command(bench.compile(path, "--ptxas", ptxas))
        with tempfile.TemporaryDirectory() as cache:
            row("machine code in the file (--ptxas), an empty cache", [whole_process(machine, CUDA_CACHE_PATH=cache) for _ in range(3)])
    print(turns.table(["heddle run of ResNet-50, batch 1, f32", "rounds", "ms", "without the context ms"], rows))


def main():
    benches = {function.__name__: function for function in (launches, elementwise, contractions, resnet, parameters, cold, start)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", choices=benches)
    parser.add_argument("--config", default="", metavar="TOML", help="text of a heddle.toml")
    arguments = parser.parse_args()
    benches[arguments.bench](Bench(arguments.config))


if __name__ == "__main__":
    main()
