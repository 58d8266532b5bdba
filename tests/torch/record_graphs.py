# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the graphs of recorded_graphs_test.py: NAME.mlir, and NAME.npz with the arguments (a0, ..) and results (r0, ..) of calls in PyTorch.

    python3 -B tests/torch/record_graphs.py tests/torch/graphs

It needs PyTorch; nothing is compiled.
"""
import collections
import pathlib
import sys
import types

import numpy as np
import torch
from torch import nn

import heddle.torch
from heddle.torch import _backend


class Recorder:
    """In place of a module of Heddle: PyTorch computes the piece, and what goes in and out is kept."""

    def __init__(self):
        self.texts, self.calls = {}, collections.defaultdict(dict)
        self.kind = None  # in place of the graph's

    def made_piece(self, compiled, piece):
        writer = _backend._text.Writer(piece.inputs, "recorded", piece.nodes)
        for node in piece.nodes:
            writer.add(node)
        name = self.kind or compiled.record.kind
        self.texts[name] = writer.text(piece.outputs)

        inputs, outputs = ([compiled._slots.add(node) for node in nodes] for nodes in (piece.inputs, piece.outputs))

        def run(given, bindings):
            tensors = [given[slot] for slot in inputs]
            values = dict(zip(piece.inputs, tensors))
            for node in piece.nodes:
                values[node] = node.target(*torch.fx.map_arg(node.args, values.get), **torch.fx.map_arg(node.kwargs, values.get))
            results = [values[node] for node in piece.outputs]
            number = sum(key.endswith(".a0") for key in self.calls[name])
            for i, (tensor, order) in enumerate(zip(tensors, writer.orders)):
                tensor = tensor.detach()
                self.calls[name][f"call{number}.a{i}"] = (tensor if order is None else tensor.permute(order)).contiguous().numpy().copy()
            for i, tensor in enumerate(results):
                self.calls[name][f"call{number}.r{i}"] = tensor.detach().contiguous().numpy().copy()
            for slot, result in zip(outputs, results):
                given[slot] = result

        return types.SimpleNamespace(run=run, outputs=outputs)

    def write(self, folder, names):
        for kind, name in names.items():
            (folder / (name + ".mlir")).write_text(self.texts[kind])
            np.savez_compressed(folder / (name + ".npz"), **self.calls[kind])


def operators(x, y, positive, whole, image):
    """Operators of all subjects: x, y and positive are f32 [3, 4], whole i64 [3, 4] from 1 to 3, image f32 [1, 2, 6, 6]."""
    f = nn.functional
    mask = x > 0
    return [
        torch.atan2(x, y), torch.expm1(x), torch.log1p(positive), f.gelu(x), f.elu(x), f.leaky_relu(x), torch.clamp(x, -0.5, 0.5), torch.sign(x),
        torch.round(x, decimals=1), torch.trunc(x * 3), torch.erf(x), torch.rsqrt(positive), torch.acosh(positive + 1), x // y, x % y, torch.fmod(x, y),
        whole // 2, -whole // 2, -whole % 2, torch.fmod(-whole, 2), whole & 1, whole ^ 3, whole * 1.5, mask & (y > 0), mask + mask, torch.pow(positive, y),
        x ** 3, torch.maximum(x, y), torch.where(mask, x, whole), torch.lerp(x, y, 0.25), torch.addcmul(x, y, positive, value=2), x.masked_fill(mask, 7),
        x.flip(0, 1), x.repeat(2, 1, 2), torch.stack([x, y], 1), torch.cat([x, whole], 1), x.split([1, 3], 1)[1], x[1:, ::2], x[-1], x.t() @ y,
        torch.select_scatter(x, y[0], 0, 1), torch.slice_scatter(x, y[:, :2], 1, 1, 3), f.pad(x, (1, 2), value=3.0), f.pad(image, (1, 1, 2, 0), mode="reflect"),
        torch.arange(3, 11, 2), torch.arange(0, 1, 0.25), torch.full([2, 2], 5), x.sum(0), x.mean(), x.amax(1), x.argmax(1), x.argmin(), mask.any(0),
        mask.all(), x.prod(1), x.std(1), x.var(0, correction=0), x.max(1)[1], x.cumsum(1), x.sort(1, descending=True)[0], x.topk(2, 1)[1],
        torch.diagonal(x, 1), x[whole[:, 0] - 1], x[whole[:, 0] - 1, whole[:, 1]], x[:, whole[0] - 1],
        x.gather(1, whole), x.index_select(1, whole[0]), torch.scatter_add(x, 1, whole, y), torch.scatter(x, 0, whole[:2, :2] - 1, 9.0),
        torch.scatter_reduce(x, 1, whole, y, "amax"), torch.index_put(x, [whole[:, 0] - 1, whole[:, 1]], y[:, 0], accumulate=True),
        torch.index_put(x, [mask], torch.tensor(2.0)), x.masked_scatter(mask, y), f.embedding(whole, x[:, :2].repeat(2, 1)), f.softmax(x, 1),
        f.log_softmax(x, 0), f.layer_norm(x, [4], x[0], y[0], 1e-3), f.group_norm(image, 2), torch.baddbmm(x[None], x[None] @ y.t()[None], y[None], alpha=0.5),
        f.conv2d(image, image[:, :, :3, :3], y[0, :1], stride=2, padding=1), f.conv_transpose2d(image, image[:, :, :2, :2].transpose(0, 1), stride=2),
        f.max_pool2d(image, 3, 2, 1, return_indices=True)[1], f.avg_pool2d(image, 2, divisor_override=3), f.avg_pool2d(image, 3, 2, 1),
        f.adaptive_avg_pool2d(image, 3), f.interpolate(image, scale_factor=2, mode="bilinear"), x.to(torch.float64) / 3, (x * 100).to(torch.int32), x.to(torch.bool),
        whole << 2, 3 << whole, (-whole * 100).to(torch.int32) >> whole.to(torch.int32), -whole >> 70, whole.to(torch.uint8) >> 1, (-whole) ** 5,
        x.index_add(1, whole[0], y, alpha=2), x.index_copy(0, whole[0, :1], y[:1]), torch.empty_permuted([2, 3], [1, 0]) * 0,
        torch.ops.aten.avg_pool3d_backward(image, torch.cat([image, image], 2)[None, 0], [1, 2, 1], [1, 2, 1], [0, 0, 0], False, True, None),
    ]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    torch._functorch.config.enable_autograd_cache = False
    recorder = Recorder()
    _backend._Compiled._made_piece = lambda compiled, piece: recorder.made_piece(compiled, piece)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3), nn.Softmax(-1))
    with torch.no_grad():
        function = torch.compile(model, backend=heddle.torch.backend, dynamic=True)
        for batch in (2, 4):
            function(torch.randn(batch, 6))
    torch._dynamo.reset()
    network = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    torch.compile(network, backend=heddle.torch.backend)(torch.randn(2, 2, 6, 6)).square().sum().backward()
    with torch.no_grad():
        torch._dynamo.reset()
        recorder.kind = "operators"
        torch.compile(operators, backend=heddle.torch.backend, fullgraph=True)(
            torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4) + 0.5, torch.randint(1, 4, (3, 4)), torch.randn(1, 2, 6, 6))
    recorder.write(folder, {"inference": "perceptron", "forward": "network_forward", "backward": "network_backward", "operators": "operators"})


if __name__ == "__main__":
    main()
