#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains the small language model of sdk/examples/generate.py on the documentation of this tree, byte by byte, and writes step.onnx.

    train.py [--steps 3000] [--output step.onnx]

Needs PyTorch, which tools/dev/setup does not install. The network is that of tests/python/language_model.py, with two layers of 64 and tied embeddings; weights are stored in f16.
"""
import argparse
import pathlib
import sys
import time

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tests" / "python"))
import language_model  # noqa: E402

SHAPE = language_model.Shape(capacity=512)
LENGTH, BATCH = 96, 24


def logits(values, tokens):
    """As language_model.logits, in PyTorch and for a batch."""
    def normalized(x, scale):
        return torch.nn.functional.rms_norm(x, (SHAPE.width,), scale, language_model.EPSILON)

    def heads(x, count):
        return x.unflatten(-1, (count, SHAPE.size)).transpose(1, 2)

    def rotated(x):
        half, cos, sin = SHAPE.size // 2, values["cos"][:tokens.shape[1]], values["sin"][:tokens.shape[1]]
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    x = values["embedding"][tokens]
    for layer in range(SHAPE.layers):
        y = normalized(x, values[f"norm1_{layer}"])
        query, key, value = (heads(y @ values[f"{name}_{layer}"], count)
                             for name, count in (("query", SHAPE.heads), ("key", SHAPE.cache_heads), ("value", SHAPE.cache_heads)))
        y = torch.nn.functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).flatten(-2) @ values[f"out_{layer}"]
        y = normalized(x, values[f"norm2_{layer}"])
        x = x + (torch.nn.functional.silu(y @ values[f"gate_{layer}"]) * (y @ values[f"up_{layer}"])) @ values[f"down_{layer}"]
    return normalized(x, values["norm"]) @ values["embedding"].T


def text():
    files = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")), *sorted((SOURCE / "docs" / "decisions").glob("*.md"))]
    prose = [line for file in files for line in file.read_text().splitlines() if line and not line.startswith(("|", "    ", "```", "$"))]
    return torch.tensor(list("\n".join(prose).encode()))


def with_halves(model):
    """Weights in f16, which nodes convert."""
    for weight in list(model.graph.initializer):
        array = numpy_helper.to_array(weight)
        if array.dtype == np.float32 and array.size > 64:
            model.graph.initializer.remove(weight)
            model.graph.initializer.append(numpy_helper.from_array(array.astype("f2"), weight.name + ".half"))
            model.graph.node.insert(0, helper.make_node("Cast", [weight.name + ".half"], [weight.name], to=onnx.TensorProto.FLOAT))
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--output", default=pathlib.Path(__file__).with_name("step.onnx"))
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = text()
    values = {name: torch.tensor(array) for name, array in language_model.weights(SHAPE).items() if name != "head"}
    values["embedding"] *= 0.1
    learnt = {name: value.requires_grad_() for name, value in values.items() if name not in ("cos", "sin")}
    optimizer = torch.optim.AdamW(learnt.values(), lr=1, betas=(0.9, 0.95), weight_decay=0.002)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 4e-3 * min(1, (step + 1) / 50) * (1 - 0.95 * step / arguments.steps))
    began, mean = time.monotonic(), None
    for step in range(arguments.steps):
        begins = torch.randint(len(data) - LENGTH, (BATCH, 1))
        batch = data[begins + torch.arange(LENGTH + 1)]
        loss = torch.nn.functional.cross_entropy(logits(values, batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 99:
            print(f"step {step + 1}: {mean:.3f} nats a byte, {time.monotonic() - began:.0f} s", flush=True)
    arrays = {name: value.detach().numpy() for name, value in values.items()}
    model = language_model.step_model(SHAPE, arrays | {"head": np.ascontiguousarray(arrays["embedding"].T)})
    onnx.save(with_halves(model), arguments.output)


if __name__ == "__main__":
    main()
