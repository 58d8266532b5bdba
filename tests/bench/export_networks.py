# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks with random weights as PyTorch exports them to ONNX, by its newer exporter (dynamo) and its older one (opset 14).

    export_networks.py FOLDER [NAME ...]

Writes FOLDER/NAME.onnx and NAME.npz with inputs (in:...) and PyTorch's outputs (out:...) for each of the names, which are
NETWORK[.small].{dynamo,old}[.dyn]: two small layers instead of all, and a symbolic batch and sequence. Without names, all of full size and a known shape.
gpt2_step and llama_step, by dynamo only, are one step of decoding: a token, the mask, and a cache of any length, whose longer successor is a result.
Needs torch, torchvision, transformers, onnx and onnxscript, which tools/dev/setup does not install. exported_networks.py times the files.
"""
import argparse
import pathlib
import warnings

import numpy as np
import torch
import torchvision
import transformers
from transformers.models.whisper.modeling_whisper import WhisperEncoder

TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
MINILM = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
WHISPER = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_layers": 4,
           "decoder_attention_heads": 6, "decoder_ffn_dim": 1536, "num_mel_bins": 80}
LLAMA = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
         "vocab_size": 49152, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0}
NETWORKS = ("resnet50", "mobilenet_v2", "bert", "minilm", "vit", "gpt2", "whisper", "llama")


class Step(torch.nn.Module):
    """One step of decoding: behind ids and mask the keys and values of each layer, [batch, heads, past, head size]; results are the logits, and longer keys and values."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, *past):
        cache = transformers.DynamicCache(ddp_cache_data=zip(past[::2], past[1::2], strict=True))
        result = self.model(ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return result.logits, *(one for layer in result.past_key_values.layers for one in (layer.keys, layer.values))


class Positional(torch.nn.Module):
    """The model with its inputs in order, and a tuple of the outputs that are named."""

    def __init__(self, model, inputs, outputs, **fixed):
        super().__init__()
        self.model, self.inputs, self.outputs, self.fixed = model, inputs, outputs, fixed

    def forward(self, *arguments):
        result = self.model(**dict(zip(self.inputs, arguments, strict=True)), **self.fixed)
        return tuple(getattr(result, name) for name in self.outputs)


def build(network, small):
    """(model, names of inputs, names of outputs, shape of an image or size of the vocabulary; of a step: that, heads and head size)"""
    torch.manual_seed(1234)
    hidden = ["last_hidden_state", "pooler_output"]
    if network in ("resnet50", "mobilenet_v2"):
        return getattr(torchvision.models, network)(weights=None), ["x"], ["logits"], (3, 224, 224)
    if network in ("bert", "minilm"):
        shape = MINILM if network == "minilm" else {}
        config = transformers.BertConfig(**({**TINY, "vocab_size": 256, "max_position_embeddings": 64} if small else shape))
        inputs = ["input_ids", "attention_mask", "token_type_ids"]
        return Positional(transformers.BertModel(config), inputs, hidden), inputs, hidden, config.vocab_size
    if network == "vit":
        config = transformers.ViTConfig(**({**TINY, "image_size": 32, "patch_size": 8} if small else {}))
        return Positional(transformers.ViTModel(config), ["pixel_values"], hidden), ["pixel_values"], hidden, (3, config.image_size, config.image_size)
    if network == "whisper":
        shape = {**WHISPER, "d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "max_source_positions": 16}
        config = transformers.WhisperConfig(**(shape if small else WHISPER))
        outputs = ["last_hidden_state"]
        return Positional(WhisperEncoder(config), ["input_features"], outputs), ["input_features"], outputs, (80, 2 * config.max_source_positions)
    inputs, outputs = ["input_ids", "attention_mask"], ["logits"]
    network, is_step = network.removesuffix("_step"), network.endswith("_step")
    if network == "gpt2":
        shape = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 256, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
        config = transformers.GPT2Config(**(shape if small else {}))
        model = transformers.GPT2LMHeadModel(config)
    else:
        shape = {**LLAMA, **TINY, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 64}
        config = transformers.LlamaConfig(**(shape if small else LLAMA))
        model = transformers.LlamaForCausalLM(config)
    if is_step:
        caches = [f"{one}_{layer}" for layer in range(config.num_hidden_layers) for one in ("keys", "values")]
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        kind = config.vocab_size, heads, config.hidden_size // config.num_attention_heads
        return Step(model), inputs + caches, outputs + [f"longer_{one}" for one in caches], kind
    return Positional(model, inputs, outputs, use_cache=False), inputs, outputs, config.vocab_size


def randomize(model):
    """Biases, scales and statistics that are not 0 and 1."""
    generator = torch.Generator().manual_seed(99)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn(buffer.shape, generator=generator))
            elif name.endswith("running_var"):
                buffer.mul_(0.5 + torch.rand(buffer.shape, generator=generator))


def arguments_of(inputs, kind, batch, sequence, seed):
    generator = torch.Generator().manual_seed(seed)
    if isinstance(kind, tuple):
        return (torch.randn((batch, *kind), generator=generator),)
    ids = torch.randint(0, kind, (batch, sequence), generator=generator)
    mask = torch.ones((batch, sequence), dtype=torch.int64)
    for row in range(batch):  # padded at the end, each row by another length
        mask[row, sequence - sequence * (row + 1) // (4 * batch):] = 0
    types = torch.zeros((batch, sequence), dtype=torch.int64)
    types[:, sequence // 2:] = 1
    return (ids, mask, types)[:len(inputs)]


def step_arguments(inputs, kind, past, seed):
    """One sequence with so many tokens in its cache."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary, heads, size = kind
    ids = torch.randint(0, vocabulary, (1, 1), generator=generator)
    return ids, torch.ones((1, past + 1), dtype=torch.int64), *(torch.randn((1, heads, past, size), generator=generator) for _ in inputs[2:])


def export(folder, name):
    network, *options = name.split(".")
    small, dynamo, dynamic = (option in options for option in ("small", "dynamo", "dyn"))
    model, inputs, outputs, kind = build(network, small)
    model = model.eval().float()
    randomize(model)
    sequence = 16 if small else 128
    named = {"input_names": inputs, "output_names": outputs}
    is_step = network.endswith("_step")
    if is_step:
        past = torch.export.Dim("past", min=2, max=8 * sequence - 2)
        sizes = [{}, {1: past + 1}] + [{2: past}] * (len(inputs) - 2)
        named |= {"dynamo": True, "dynamic_shapes": (*sizes[:2], tuple(sizes[2:]))}
    elif dynamo:
        sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", min=2, max=2 * sequence)}
        named |= {"dynamo": True, "dynamic_shapes": ((sizes,) * len(inputs),) if dynamic else None}
    else:
        axes = {one: {0: "batch", 1: "sequence"} for one in inputs + outputs if one != "pooler_output"}
        named |= {"dynamo": False, "opset_version": 14, "dynamic_axes": axes | {"pooler_output": {0: "batch"}} if dynamic else None}
    given = step_arguments(inputs, kind, sequence, 7) if is_step else arguments_of(inputs, kind, 2 if dynamic else 1, sequence, 7)
    torch.onnx.export(model, given, str(folder / f"{name}.onnx"), **named)
    batch, sequence = (3, sequence - 5) if dynamic else (1, sequence)
    given = step_arguments(inputs, kind, sequence - 5, 8) if is_step else arguments_of(inputs, kind, batch, sequence, 8)
    with torch.no_grad():
        results = model(*given)
    results = results if isinstance(results, tuple) else (results,)
    arrays = {f"in:{one}": value.numpy() for one, value in zip(inputs, given, strict=True)}
    arrays |= {f"out:{one}": value.numpy() for one, value in zip(outputs, results, strict=True)}
    np.savez(folder / f"{name}.npz", **arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=[f"{network}.{exporter}" for network in NETWORKS for exporter in ("dynamo", "old")])
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in arguments.names:
        export(arguments.folder, name)
        print(name)


if __name__ == "__main__":
    main()
