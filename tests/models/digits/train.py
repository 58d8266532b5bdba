# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the digit network and writes digits.onnx beside this file.

Run by hand, never by set-up: the resulting ONNX file is in the repository. Needs torch, onnx,
onnxruntime and scikit-learn. Only the training part of the split is looked at before the last line,
which reports the accuracy on the held-out part.
"""
import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from split import load_split

TRAINING_SEED = 7
EPOCHS = 60
BATCH = 64
LIMIT_BYTES = 200 * 1024


class DigitNetwork(nn.Module):
    """Three convolutions with batch normalization, two poolings, two dense layers: 34 thousand weights."""

    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 32, 3, padding=1), nn.Conv2d(32, 48, 3, padding=1)]
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(24), nn.BatchNorm2d(32), nn.BatchNorm2d(48)])
        self.hidden = nn.Linear(48 * 2 * 2, 64)
        self.dropout = nn.Dropout(0.3)
        self.logits = nn.Linear(64, 10)

    def forward(self, x):
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms)):
            x = torch.relu(norm(convolution(x)))
            if index > 0:
                x = torch.max_pool2d(x, 2)
        return self.logits(self.dropout(torch.relu(self.hidden(x.flatten(1)))))


def shifted(images, generator):
    """Each image moved by -1, 0 or 1 pixels along both axes, zeros shifted in."""
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2), generator=generator)
    return torch.stack([padded[i, :, y : y + 8, x : x + 8] for i, (y, x) in enumerate(moves.tolist())])


def train(images, labels):
    torch.manual_seed(TRAINING_SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(TRAINING_SEED)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    network = DigitNetwork()
    steps = EPOCHS * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images), generator=generator)
        total = 0.0
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss = nn.functional.cross_entropy(network(shifted(images[batch], generator)), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: mean loss {total / (len(order) // BATCH):.4f}")
    return network.eval()


def to_onnx(network):
    """The network as a plain ONNX graph: nothing folded, every node named."""
    nodes, weights = [], []

    def weight(name, tensor):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(tensor.detach().numpy()), name))
        return name

    def node(op, name, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name, **attributes))
        return f"{name}_out"

    x = "image"
    for index, (convolution, norm) in enumerate(zip(network.convolutions, network.norms), start=1):
        name = f"conv{index}"
        inputs = [x, weight(f"{name}.weight", convolution.weight), weight(f"{name}.bias", convolution.bias)]
        x = node("Conv", name, inputs, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        name = f"norm{index}"
        statistics = [
            weight(f"{name}.scale", norm.weight),
            weight(f"{name}.bias", norm.bias),
            weight(f"{name}.mean", norm.running_mean),
            weight(f"{name}.variance", norm.running_var),
        ]
        x = node("BatchNormalization", name, [x, *statistics], epsilon=norm.eps)
        x = node("Relu", f"relu{index}", [x])
        if index > 1:
            x = node("MaxPool", f"pool{index - 1}", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", "flatten", [x], axis=1)
    inputs = [x, weight("hidden.weight", network.hidden.weight), weight("hidden.bias", network.hidden.bias)]
    x = node("Relu", "relu4", [node("Gemm", "hidden", inputs, transB=1)])
    inputs = [x, weight("logits.weight", network.logits.weight), weight("logits.bias", network.logits.bias)]
    nodes.append(helper.make_node("Gemm", inputs, ["logits"], name="logits", transB=1))

    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    model = helper.make_model(
        graph, producer_name="heddle tests/models/digits/train.py", ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("digits.onnx"))
    output = parser.parse_args().output
    train_images, train_labels, images, labels = load_split()
    network = train(train_images, train_labels)
    data = to_onnx(network).SerializeToString(deterministic=True)
    if len(data) > LIMIT_BYTES:
        raise SystemExit(f"train.py: {output} would have {len(data)} bytes; the limit is {LIMIT_BYTES}")
    output.write_bytes(data)
    logits = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
    with torch.no_grad():
        difference = float(np.abs(network(torch.from_numpy(images)).numpy() - logits).max())
    right = int((logits.argmax(1) == labels).sum())
    print(f"{output}: {len(data)} bytes; torch and ONNX Runtime differ by at most {difference:.2g}")
    print(f"held-out accuracy {right}/{len(labels)} = {right / len(labels):.2%}")


if __name__ == "__main__":
    main()
