# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records what PyTorch allocates on the CPU, as heddle.log would write it: allocator_bench and allocator_trace_test replay the files.

usage: record_torch.py resnet50|decoder FILE      (needs torch; nothing else in the tree does)

resnet50: three training steps of a ResNet-50, batch 8, images 224x224, SGD with momentum, f32. decoder: a transformer of 12 layers, width 768, 12 heads, that reads
a prompt of 384 tokens and then writes 24 tokens, its caches of keys and values growing by one position a step. Weights are random; sizes and lifetimes do not
depend on them.
"""
import json
import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, width, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.third = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for channels in (width, width, 4 * width))
        self.skip = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if inputs != 4 * width else None

    def forward(self, x):
        y = functional.relu(self.norms[0](self.first(x)))
        y = functional.relu(self.norms[1](self.second(y)))
        return functional.relu(self.norms[2](self.third(y)) + (self.skip(x) if self.skip else x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for i in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if stage and i == 0 else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(2048, 1000)

    def forward(self, x):
        return self.last(self.blocks(self.stem(x)).mean((2, 3)))


def resnet50():
    model = ResNet50()
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        images, labels = torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        else:
            k, v = k.contiguous(), v.contiguous()
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x)))), (k, v)


def decoder():
    width, heads, vocabulary = 768, 12, 8192
    embed, layers, last = nn.Embedding(vocabulary, width), nn.ModuleList(Layer(width, heads) for _ in range(12)), nn.Linear(width, vocabulary)
    with torch.no_grad():
        caches, tokens = [None] * len(layers), torch.randint(0, vocabulary, (2, 384))
        for _ in range(25):
            x = embed(tokens)
            for i, layer in enumerate(layers):
                x, caches[i] = layer(x, caches[i])
            tokens = last(x[:, -1:]).argmax(-1)


def events(work):
    """(time, address, bytes) of each allocation, bytes negative for a free, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            recorded = json.load(file)["traceEvents"]
    found = [(event["ts"], event["args"]["Addr"], event["args"]["Bytes"]) for event in recorded if event["name"] == "[memory]"]
    return sorted(found, key=lambda event: event[0])  # stable: those of one time stay in the order that they were written in


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("resnet50", "decoder"):
        sys.exit(__doc__)
    torch.manual_seed(1)
    live, count, lines = {}, 0, ["heddle-memory-trace 1"]
    for _, address, size in events({"resnet50": resnet50, "decoder": decoder}[sys.argv[1]]):
        if size >= 0:
            if address in live:
                sys.exit(f"record_torch.py: the address {address:#x} was given out twice; the events are out of order")
            live[address] = count
            lines.append(f"a {count} {size} 64 ")
            count += 1
        elif address in live:  # not what was there before
            lines.append(f"f {live.pop(address)} 0")
    lines += [f"f {block} 0" for block in live.values()]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"{count} blocks, {len(lines) - 1} events")


if __name__ == "__main__":
    main()
