# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the graphs of recorded_graphs_test.py: NAME.mlir, and NAME.npz with the arguments (a0, ..) and results (r0, ..) of calls in PyTorch.

    python3 -B tests/torch/record_graphs.py tests/torch/graphs

It needs PyTorch; nothing is compiled.
"""
import collections
import pathlib
import sys

import numpy as np
import torch
from torch import nn

import heddle.torch
from heddle.torch import _backend


class Recorder:
    """In place of a module of Heddle: PyTorch computes the piece, and what goes in and out is kept."""

    def __init__(self):
        self.texts, self.calls = {}, collections.defaultdict(dict)

    def made_piece(self, compiled, piece):
        writer = _backend._text.Writer(piece.inputs, "recorded", piece.nodes)
        for node in piece.nodes:
            writer.add(node)
        name = compiled.record.kind
        self.texts[name] = writer.text(piece.outputs)

        def call(tensors, bindings):
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
            return results

        return call

    def write(self, folder, names):
        for kind, name in names.items():
            (folder / (name + ".mlir")).write_text(self.texts[kind])
            np.savez_compressed(folder / (name + ".npz"), **self.calls[kind])


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
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
    recorder.write(folder, {"inference": "perceptron", "forward": "network_forward", "backward": "network_backward"})


if __name__ == "__main__":
    main()
