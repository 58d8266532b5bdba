# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a training step (forward and backward pass, optimizer) of a small ResNet-18, GPT and BERT under torch.compile beside Inductor and eager mode.

    torch_training.py [NAME ...] [--image 64] [--batch N] [--length 128] [--rounds 10] [--seconds 0.5] [--peers eager,inductor] [--device cpu]

The loss after the timed steps is printed for each: a contender whose loss is another did other work. Needs torch and transformers.
"""
import argparse
import copy
import statistics
import sys

import turns


def models(arguments):
    """Name to function: (model, inputs as keywords)."""
    import torch
    import transformers as t

    def tokens(vocabulary, batch):
        return torch.randint(0, vocabulary, (batch, arguments.length), generator=torch.Generator().manual_seed(1))

    def resnet18():
        batch = arguments.batch or 32
        config = t.ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], embedding_size=64, num_labels=1000)
        images = torch.randn(batch, 3, arguments.image, arguments.image, generator=torch.Generator().manual_seed(1))
        return t.ResNetForImageClassification(config), {"pixel_values": images, "labels": torch.arange(batch)}

    def gpt_small():
        config = t.GPT2Config(n_layer=8, n_embd=512, n_head=8, vocab_size=8192, bos_token_id=0, eos_token_id=0, n_positions=max(256, arguments.length), use_cache=False, resid_pdrop=0.0,
                              embd_pdrop=0.0, attn_pdrop=0.0)
        ids = tokens(8192, arguments.batch or 4)
        return t.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}

    def bert_small():
        config = t.BertConfig(num_hidden_layers=4, hidden_size=512, num_attention_heads=8, intermediate_size=2048, vocab_size=8192,
                              hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        ids = tokens(8192, arguments.batch or 8)
        return t.BertForMaskedLM(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    return {"resnet18": resnet18, "gpt_small": gpt_small, "bert_small": bert_small}


def contender(model, inputs, backend):
    """(a step, the losses of all steps so far)."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []

    def forward():
        return model(**inputs).loss

    if backend:
        forward = torch.compile(forward, backend=backend)
        update = torch.compile(optimizer.step, backend=backend)
    else:
        update = optimizer.step

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        update()
        losses.append(float(loss.detach()))

    return step, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--image", type=int, default=64, help="height and width of the images")
    parser.add_argument("--batch", type=int, help="by default, 32 images, or 4 or 8 texts")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers", default="eager,inductor", help="what is timed beside Heddle; the ratio is that to the last one")
    arguments = parser.parse_args()
    import torch

    import heddle.torch

    torch.set_num_threads(turns.cores())
    rows, ratios, peers = [], [], [one for one in arguments.peers.split(",") if one]
    for name in arguments.names or models(arguments):
        torch._dynamo.reset()  # or Dynamo takes another network's batch for one that varies, and makes a graph of symbolic size
        torch.manual_seed(0)
        model, inputs = models(arguments)[name]()
        model.train().to(arguments.device)
        inputs = {key: value.to(arguments.device) for key, value in inputs.items()}
        backends = {"heddle": heddle.torch.backend, **{one: None if one == "eager" else one for one in peers}}
        made = {key: contender(copy.deepcopy(model), inputs, backend) for key, backend in backends.items()}
        first = {}
        for key, (step, losses) in made.items():
            for _ in range(3):
                step()
            first[key] = losses[2]
        times = turns.measure({key: step for key, (step, _) in made.items()}, arguments.rounds, arguments.seconds, minimum_calls=1)
        graphs = heddle.torch.graphs()
        heddle.torch.clear()
        row = [name, *(turns.milliseconds(one) for one in times.values())]
        if peers:
            ratios.append(turns.ratio(times, "heddle", peers[-1]))
            row.append(f"{ratios[-1]:.2f}")
        rows.append([*row, ", ".join(f"{one:.4f}" for one in first.values()),
                     f"{sum(len(one.fallbacks) for one in graphs)} of {sum(one.nodes for one in graphs)}"])
        print(*rows[-1], file=sys.stderr, flush=True)
    headings = ["step, ms", *backends, *([f"heddle / {peers[-1]}"] if peers else []), "losses of the third step", "in PyTorch"]
    print(f"{turns.machine()}\n\n{turns.table(headings, rows)}")
    if ratios:
        print(f"\ngeometric mean {statistics.geometric_mean(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
