# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens per second of one text that a model in the shape of Llama 3.2 1B (bf16, random weights) writes on a GPU, beside PyTorch with CUDA graphs.

    generate.py [--tokens 256] [--rounds 5] [--layers 16] [--device heddle.cuda:0]

Both read the same weights and take the likeliest token, on the device. Each of Heddle's choices is held against the logits of PyTorch in f32 for the
same text. PyTorch's step is captured as one CUDA graph, of its own operators and, if that works here, of what torch.compile makes of them; its caches
have as many places as Heddle's window has in the end. `synchronized`: each token is fetched before the next step begins, as for a text that is shown
while it is written; `at the end`: all tokens are fetched then.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

import python_package  # noqa: F401  first: it finds the package
import heddle
import language_model
import onnx
import torch
from heddle import generation
from onnx import TensorProto, helper

ROPE_BASE, EPSILON = 500000.0, language_model.EPSILON


def sizes_of(shape):
    """Dimensions of each weight."""
    narrow = shape.cache_heads * shape.size
    found = {"embedding": (shape.vocabulary, shape.width), "norm": (shape.width,), "head": (shape.width, shape.vocabulary)}
    for layer in range(shape.layers):
        sizes = {"query": (shape.width, shape.width), "key": (shape.width, narrow), "value": (shape.width, narrow), "out": (shape.width, shape.width),
                 "gate": (shape.width, shape.inner), "up": (shape.width, shape.inner), "down": (shape.inner, shape.width), "norm1": (shape.width,),
                 "norm2": (shape.width,)}
        found |= {f"{name}_{layer}": size for name, size in sizes.items()}
    return found | dict.fromkeys(("cos", "sin"), (shape.capacity, shape.size // 2))


def weights_of(shape):
    generator = torch.Generator("cuda").manual_seed(1)
    found = {}
    for name, size in sizes_of(shape).items():
        if name in ("cos", "sin"):
            angles = torch.arange(size[0])[:, None] / ROPE_BASE ** (torch.arange(0, shape.size, 2) / shape.size)
            found[name] = (angles.cos() if name == "cos" else angles.sin()).cuda().bfloat16()
        elif len(size) == 1:
            found[name] = (1 + torch.randn(size, generator=generator, device="cuda") / 10).bfloat16()
        else:
            scale = 1 if name == "embedding" else (2 if name == "head" else 1) / size[0] ** 0.5
            found[name] = (torch.randn(size, generator=generator, device="cuda") * scale).bfloat16()
    return found


def model_of(shape):
    """language_model's step in bf16, without values of the weights; logits are f32."""
    import numpy as np

    sizes = sizes_of(shape)
    model = language_model.step_model(shape, {name: np.zeros((), "f4") for name in sizes})
    for weight in model.graph.initializer:
        if weight.name in sizes:
            weight.ClearField("raw_data")
            weight.data_type = TensorProto.BFLOAT16
            weight.dims[:] = sizes[weight.name]
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT and value.name != "logits":
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1  # tokens: kernels of one row
    last = model.graph.node[-1]
    last.output[0] = "narrow_logits"
    model.graph.node.append(helper.make_node("Cast", ["narrow_logits"], ["logits"], to=TensorProto.FLOAT))
    return generation.with_sampling(model, greedy=True)


class Peer:
    """The same in PyTorch, with weights as torch.nn.Linear has them."""

    def __init__(self, shape, weights, places, kind):
        self.shape, self.places = shape, places
        self.weights = {name: (one.t().contiguous() if one.dim() == 2 and name not in ("embedding", "cos", "sin") else one).to(kind) for name, one in weights.items()}
        of_cache = (1, shape.cache_heads, places, shape.size)
        self.caches = [(torch.zeros(of_cache, dtype=kind, device="cuda"), torch.zeros(of_cache, dtype=kind, device="cuda")) for _ in range(shape.layers)]
        self.numbers = torch.arange(places, device="cuda")

    def heads(self, x, count):
        return x.view(1, -1, count, self.shape.size).transpose(1, 2)

    def rotated(self, x, cos, sin):
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def logits(self, tokens, places):
        """Of the last of the tokens, [1, n], at these places, [n]."""
        linear, norm, shape, of = torch.nn.functional.linear, torch.nn.functional.rms_norm, self.shape, self.weights
        allowed = (self.numbers <= places[:, None])[None, None]
        cos, sin = of["cos"][places], of["sin"][places]
        x = of["embedding"][tokens]
        for layer in range(shape.layers):
            y = norm(x, (shape.width,), of[f"norm1_{layer}"], EPSILON)
            query, key, value = (self.heads(linear(y, of[f"{name}_{layer}"]), count)
                                 for name, count in (("query", shape.heads), ("key", shape.cache_heads), ("value", shape.cache_heads)))
            keys, values = self.caches[layer]
            keys.index_copy_(2, places, self.rotated(key, cos, sin))
            values.index_copy_(2, places, value)
            y = torch.nn.functional.scaled_dot_product_attention(self.rotated(query, cos, sin), keys, values, allowed, enable_gqa=True)
            x = x + linear(y.transpose(1, 2).reshape(1, -1, shape.width), of[f"out_{layer}"])
            y = norm(x, (shape.width,), of[f"norm2_{layer}"], EPSILON)
            x = x + linear(torch.nn.functional.silu(linear(y, of[f"gate_{layer}"])) * linear(y, of[f"up_{layer}"]), of[f"down_{layer}"])
        return linear(norm(x, (shape.width,), of["norm"], EPSILON), of["head"])[0]

    def graph(self, compiled):
        """One step as a CUDA graph: reads `token` and `place`, and writes the next ones there."""
        self.token, self.place = torch.zeros((1, 1), dtype=torch.int64, device="cuda"), torch.zeros(1, dtype=torch.int64, device="cuda")
        logits = torch.compile(self.logits, mode="max-autotune-no-cudagraphs", fullgraph=True) if compiled else self.logits

        def step():
            self.token.copy_(logits(self.token, self.place).argmax(-1, keepdim=True))
            self.place.add_(1)

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.place.zero_()
                step()
        torch.cuda.current_stream().wait_stream(stream)
        self.place.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph

    def generate(self, graph, prompt, count, synchronized):
        """(tokens, seconds after the first one)"""
        places = torch.arange(len(prompt), device="cuda")
        self.token.copy_(self.logits(torch.tensor([prompt], device="cuda"), places)[-1].argmax().view(1, 1))
        self.place.fill_(len(prompt))
        found = [self.token.item()]
        began = time.perf_counter()
        kept = torch.zeros(count, dtype=torch.int64, device="cuda")
        for i in range(1, count):
            graph.replay()
            if synchronized:
                found.append(self.token.item())
            else:
                kept[i:i + 1] = self.token[0]
        if not synchronized:
            found += kept[1:].tolist()
        return found, time.perf_counter() - began


def heddle_generate(module, shape, prompt, count, synchronized):
    with generation.Session(module, shape.capacity, window=64) as session:
        for token in prompt[:-1]:
            session.step([[token]])
        if synchronized:
            steps = session.generate(prompt[-1:], count)
            found = [next(steps)]
            began = time.perf_counter()
            found += list(steps)
            return found, time.perf_counter() - began
        tokens = session.step([prompt[-1:]])
        kept = [tokens]
        tokens.item()
        began = time.perf_counter()
        for _ in range(1, count):
            kept.append(session.step(kept[-1]))
        found = [int(one.item()) for one in kept]
        return found, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--device", default="heddle.cuda:0")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    shape = language_model.Shape(vocabulary=128256, width=2048, layers=options.layers, heads=32, cache_heads=8, inner=8192, capacity=1024)
    prompt = [(17 * i * i + 3) % shape.vocabulary for i in range(12)]
    places = -(-(len(prompt) + options.tokens) // 64) * 64
    weights = weights_of(shape)
    count = sum(one.numel() for name, one in weights.items() if name not in ("cos", "sin", "embedding"))
    print(f"{torch.cuda.get_device_name()}; {count / 1e9:.2f} x 10^9 weights are read per token, PyTorch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    with tempfile.TemporaryDirectory(prefix="heddle-generate-") as name:
        folder = pathlib.Path(name)
        from safetensors.torch import save_file
        save_file({name: one.cpu() for name, one in weights.items()}, folder / "weights.safetensors")
        onnx.save(model_of(shape), folder / "step.onnx")
        began = time.perf_counter()
        heddle.compile(folder / "step.onnx", folder / "step.heddle", target="cuda", params_in=folder / "weights.safetensors")
        print(f"compiled in {time.perf_counter() - began:.1f} s, {os.path.getsize(folder / 'step.heddle') / 1e6:.1f} MB", flush=True)
        began = time.perf_counter()
        with heddle.open(folder / "step.heddle", options.device, parameters=folder / "weights.safetensors") as module:
            heddle_generate(module, shape, prompt, options.tokens, True)
            print(f"opened and warm after {time.perf_counter() - began:.1f} s", flush=True)
            ways = {"Heddle": lambda synchronized: heddle_generate(module, shape, prompt, options.tokens, synchronized)}
            peer = Peer(shape, weights, places, torch.bfloat16)
            with torch.no_grad():
                for label, compiled in (("PyTorch, CUDA graph", False), ("torch.compile, CUDA graph", True)):
                    if compiled and options.no_compile:
                        continue
                    try:
                        one = Peer(shape, weights, places, torch.bfloat16) if compiled else peer
                        graph = one.graph(compiled)
                        one.generate(graph, prompt, options.tokens, True)
                        ways[label] = lambda synchronized, one=one, graph=graph: one.generate(graph, prompt, options.tokens, synchronized)
                    except Exception as error:  # compilers for torch.compile may be missing
                        print(f"{label}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
                times, texts = {}, {}
                for _ in range(options.rounds):
                    for label, way in ways.items():
                        for synchronized in (True, False):
                            found, seconds = way(synchronized)
                            times.setdefault((label, synchronized), []).append((options.tokens - 1) / seconds)
                            texts.setdefault(label, found)
                for synchronized in (True, False):
                    rates = {label: statistics.median(times[label, synchronized]) for label in ways}
                    best = max(rate for label, rate in rates.items() if label != "Heddle")
                    for label, rate in rates.items():
                        print(f"{'synchronized' if synchronized else 'at the end':13} {label:26} {rate:8.1f} tokens/s  {rate * count * 2 / 1e12:5.2f} TB/s of weights"
                              + (f"  {rate / best:.2f} of the best peer" if label == "Heddle" else ""))
                exact, worst = Peer(shape, weights, places, torch.float32), {}
                for label, found in texts.items():
                    whole = torch.tensor([prompt + found], device="cuda")
                    logits = exact.logits(whole[:, :-1], torch.arange(whole.shape[1] - 1, device="cuda"))[len(prompt) - 1:]
                    behind = (logits.max(-1).values - logits.gather(-1, whole[0, len(prompt):, None])[:, 0]) / logits.std()
                    worst[label] = behind.max().item()
                    print(f"{label}: {(behind == 0).sum().item()} of {len(found)} tokens are the likeliest in f32, the others behind by up to {worst[label]:.3f} "
                          f"standard deviations; {len(set(found))} different ones")
    return 0 if worst["Heddle"] < 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
