# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of generation, with caches of a fixed number of places, as PyTorch exports them to ONNX.

    generation.py FOLDER [llama] [gpt2] [whisper] [--full] [--capacity N] [--tokens N]

Writes FOLDER/NAME_step.onnx: tokens [1, n], past [1] (how many tokens the caches have), mask [1, window] (the places of the caches that are attended to; those behind
the new tokens are left out anyway), and the caches, keys_L and values_L [1, heads, capacity, size]; results are the logits behind the last token [1, vocabulary], and
the caches with the new tokens. Metadata of the model make the caches a state of the compiled module. whisper.onnx also computes what the decoder's steps read, from
the features of a sound: keys and values of the cross-attention, in FOLDER/whisper_encoder.onnx.

FOLDER/NAME.npz has tokens: `prompt`, and `greedy`, which transformers' own generation with the likeliest token continues it by; for Whisper, the `features`, too.
Weights are random numbers of a seed. Needs torch, transformers, onnx and onnxscript.
"""
import argparse
import logging
import pathlib
import sys
import time
import warnings

import numpy as np
import onnx
import text
import torch
import transformers
from network import randomize

OPSET = 24  # of TensorScatter


def write_places(cache, update, past):
    """The cache with the update behind the places that are taken."""
    return torch.onnx.ops.symbolic("places::Write", [cache, update, past], dtype=cache.dtype, shape=cache.shape)


def with_writes(path):
    """In the exported model, the nodes of write_places become TensorScatter, which the exporter does not know."""
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        if node.domain == "places":
            node.domain, node.op_type = "", "TensorScatter"
            del node.attribute[:]
            node.attribute.append(onnx.helper.make_attribute("axis", 2))
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    return model


class Places(transformers.Cache):
    """Caches of a fixed number of places: `past` are taken, and the first `window` are attended to."""

    def __init__(self, caches, past, window):
        super().__init__(layers=[])
        self.caches, self.past, self.window, self.longer = caches, past, window, []

    def update(self, keys, values, layer_idx, *_, **__):
        found = [write_places(cache, new, self.past) for cache, new in zip(self.caches[2 * layer_idx:2 * layer_idx + 2], (keys, values), strict=True)]
        self.longer += found
        return tuple(cache[:, :, :self.window] for cache in found)

    def get_seq_length(self, layer_idx=0):
        return 0

    def get_mask_sizes(self, query_length, layer_idx=0):
        return self.window, 0


class Filled(transformers.Cache):
    """Keys and values of the cross-attention."""

    def __init__(self, tensors):
        super().__init__(layers=[])
        self.layers = [transformers.cache_utils.DynamicLayer() for _ in tensors[::2]]
        for layer, keys, values in zip(self.layers, tensors[::2], tensors[1::2], strict=True):
            layer.keys, layer.values, layer.is_initialized = keys, values, True

    def get_seq_length(self, layer_idx=0):
        return self.layers[0].keys.shape[2]


def reached(tokens, past, mask):
    """Positions of the tokens, and which places each of them attends to, [1, 1, n, window]."""
    positions = past[:, None] + torch.arange(tokens.shape[1])
    return positions, ((torch.arange(mask.shape[1]) <= positions[:, :, None]) & mask[:, None].bool())[:, None]


class Step(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, past, mask, *caches):
        positions, allowed = reached(tokens, past, mask)
        places = Places(caches, past, mask.shape[1])
        result = self.model(tokens, attention_mask=allowed, position_ids=positions, past_key_values=places, use_cache=True, logits_to_keep=1)
        return result.logits[:, -1], *places.longer


class WhisperStep(torch.nn.Module):
    """The decoder; behind the caches are the keys and values of the cross-attention."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, past, mask, *caches):
        positions, allowed = reached(tokens, past, mask)
        own = 2 * self.model.config.decoder_layers
        places = Places(caches[:own], past, mask.shape[1])
        both = transformers.EncoderDecoderCache(places, Filled(caches[own:]))
        both.is_updated = dict.fromkeys(range(self.model.config.decoder_layers), True)
        hidden = self.model.model.decoder(tokens, attention_mask=allowed, position_ids=positions, past_key_values=both, use_cache=True,
                                          encoder_hidden_states=caches[own].new_zeros((1, 1, self.model.config.d_model))).last_hidden_state
        return self.model.proj_out(hidden[:, -1]), *places.longer


class WhisperEncoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features):
        hidden = self.model.model.encoder(features).last_hidden_state
        found = []
        for layer in self.model.model.decoder.layers:
            attention = layer.encoder_attn
            for project in (attention.k_proj, attention.v_proj):
                found.append(project(hidden).unflatten(-1, (attention.num_heads, attention.head_dim)).transpose(1, 2))
        return tuple(found)


def whisper_model(full):
    shape = {} if full else {"vocab_size": text.VOCABULARY, "num_mel_bins": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                             "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "d_model": 64, "max_source_positions": 32,
                             "max_target_positions": 64, **text.ENDS, "decoder_start_token_id": 1}
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**shape))


MODELS = {"llama": text.llama_model, "gpt2": text.gpt2_model, "whisper": whisper_model}


def seeded_model(name, full):
    """With random weights of a seed. The last matrix has its own: with that of the embeddings, the likeliest token would always be the last one."""
    torch.manual_seed(1234)
    model = MODELS[name](full).eval().float()
    randomize(model)
    head = model.get_output_embeddings()
    head.weight = torch.nn.Parameter(torch.randn(head.weight.shape) * 0.1)
    model.config.tie_word_embeddings = False
    return model


def continued(model, prompt, count, **given):
    """The likeliest `count` tokens behind the prompt, and the least difference of logits between the first and the second."""
    cache, tokens, found, gap = transformers.DynamicCache(), prompt, [], float("inf")
    if given:
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    for _ in range(count):
        ids = {"decoder_input_ids": tokens, **given} if given else {"input_ids": tokens}
        result = model(**ids, past_key_values=cache, use_cache=True)
        best = result.logits[0, -1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        tokens = best.indices[None, :1]
        found.append(int(tokens))
    return found, gap


def convert(module, given, inputs, outputs, dims, path):
    symbols = {name: torch.export.Dim(name, min=1, max=top) for name, top in {"n": 1 << 20, "window": 1 << 20}.items()}
    shapes = [{axis: symbols[name] for axis, name in dims.get(one, {}).items()} for one in inputs]
    program_shapes = (*shapes[:3], tuple(shapes[3:])) if len(inputs) > 3 else tuple(shapes)
    torch.onnx.export(module, given, str(path), dynamo=True, verbose=False, dynamic_shapes=program_shapes, input_names=inputs, output_names=outputs)


def export(name, full, capacity, count, folder):
    model = seeded_model(name, full)
    config = model.config
    layers = config.decoder_layers if name == "whisper" else config.num_hidden_layers
    heads = config.decoder_attention_heads if name == "whisper" else getattr(config, "num_key_value_heads", config.num_attention_heads)
    size = config.hidden_size // (config.decoder_attention_heads if name == "whisper" else config.num_attention_heads)
    names = [f"{kind}_{layer}" for layer in range(layers) for kind in ("keys", "values")]
    generator = torch.Generator().manual_seed(5)
    given = [torch.randint(config.vocab_size, (1, 3), generator=generator), torch.tensor([2]), torch.ones((1, 8), dtype=torch.int64),
             *(torch.zeros((1, heads, capacity, size)) for _ in names)]
    inputs, step, arrays, more = ["tokens", "past", "mask", *names], Step(model), {}, {}
    if name == "whisper":
        step = WhisperStep(model)
        features = torch.randn((1, config.num_mel_bins, 2 * config.max_source_positions), generator=generator)
        cross = [f"cross_{one}" for one in names]
        convert(WhisperEncoder(model), (features,), ["features"], cross, {}, folder / "whisper_encoder.onnx")
        given += WhisperEncoder(model)(features)
        inputs += cross
        arrays["features"], more = features.numpy(), {"input_features": features}
    path = folder / f"{name}_step.onnx"
    convert(step, tuple(given), inputs, ["logits", *(f"longer_{one}" for one in names)], {"tokens": {1: "n"}, "mask": {1: "window"}}, path)
    exported = with_writes(path)
    for one in names:
        exported.metadata_props.add(key=f"heddle.state.{one}", value=f"longer_{one}")
    onnx.save(exported, path)
    prompt = torch.randint(config.vocab_size, (1, 4 if name == "whisper" else 12), generator=generator)
    found, gap = continued(model, prompt, count, **more)
    np.savez(folder / f"{name}.npz", prompt=prompt.numpy(), greedy=np.array(found), **arrays)
    return gap


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], metavar="NAME", help="default: all")
    parser.add_argument("--full", action="store_true", help="of their usual size; Llama in the shape of 135M parameters")
    parser.add_argument("--capacity", type=int, default=64, help="places of the caches (64)")
    parser.add_argument("--tokens", type=int, default=40, help="tokens that PyTorch generates (40)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for name in arguments.names or MODELS:
            began = time.monotonic()
            gap = export(name, arguments.full, arguments.capacity, arguments.tokens, arguments.folder)
            print(f"{name}: {time.monotonic() - began:.1f} s; the likeliest token leads by {gap:.3g} or more", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
