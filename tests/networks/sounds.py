# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of sound, and of images with text."""
import torch
import transformers

from network import Network, Positional, mask_of, tokens
from text import decoder_step

VOCABULARY = 256


def whisper_model(full):
    shape = {"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_layers": 4, "decoder_attention_heads": 6,
             "decoder_ffn_dim": 1536, "num_mel_bins": 80}
    if not full:
        shape = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_layers": 2, "decoder_attention_heads": 4,
                 "decoder_ffn_dim": 128, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 32, "vocab_size": VOCABULARY, "pad_token_id": 0,
                 "bos_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 2}
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**shape))


def whisper(full):
    """Encoder and decoder; the sound has a fixed length, as in every export of it."""
    model = whisper_model(full)
    config = model.config
    inputs = ["input_features", "decoder_input_ids", "decoder_attention_mask"]

    def inputs_of(sizes, generator):
        features = torch.randn((sizes["batch"], config.num_mel_bins, 2 * config.max_source_positions), generator=generator)
        return features, tokens(config.vocab_size, sizes["batch"], sizes["written"], generator), mask_of(sizes["batch"], sizes["written"])

    calls = [{"batch": 2, "written": 7}, {"batch": 1, "written": 1}, {"batch": 3, "written": 16}]
    return Network(Positional(model, inputs, ["logits"], use_cache=False), inputs, ["logits"],
                   {"input_features": {0: "batch"}, **{name: {0: "batch", 1: "written"} for name in inputs[1:]}}, calls[:2] if full else calls, inputs_of)


def whisper_step(full):
    model = whisper_model(full)
    config = model.config
    calls = [{"batch": 2, "past": 9}, {"batch": 1, "past": 2}, {"batch": 3, "past": 25}]
    if full:
        calls = [{"batch": 2, "past": 30}, {"batch": 1, "past": 64}]
    return decoder_step(model, config.decoder_layers, config.decoder_attention_heads, config.d_model // config.decoder_attention_heads, calls, config.max_source_positions)


def wav2vec2(full):
    """Letters of a sound of any length."""
    shape = {} if full else {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "conv_dim": [16, 16, 16],
                             "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**shape))

    def inputs_of(sizes, generator):
        return (torch.randn((sizes["batch"], sizes["samples"]), generator=generator),)

    calls = [{"batch": 2, "samples": 1000}, {"batch": 1, "samples": 333}, {"batch": 3, "samples": 2048}]
    if full:
        calls = [{"batch": 2, "samples": 8000}, {"batch": 1, "samples": 16000}]
    return Network(Positional(model, ["input_values"], ["logits"]), ["input_values"], ["logits"], {"input_values": {0: "batch", 1: "samples"}}, calls, inputs_of)


def clip(full):
    """Texts and images that are compared."""
    text, image = {}, {}
    if not full:
        text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32, "vocab_size": VOCABULARY,
                "eos_token_id": 255, "bos_token_id": 1, "projection_dim": 24}
        image = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8, "projection_dim": 24}
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=512 if full else 24)
    inputs, outputs = ["input_ids", "pixel_values", "attention_mask"], ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"]
    side, vocabulary = config.vision_config.image_size, config.text_config.vocab_size

    def inputs_of(sizes, generator):
        ids = tokens(vocabulary - 1, sizes["texts"], sizes["length"], generator)
        ids[:, -1] = vocabulary - 1
        return ids, torch.randn((sizes["images"], 3, side, side), generator=generator), mask_of(sizes["texts"], sizes["length"])

    symbols = {"input_ids": {0: "texts", 1: "length"}, "pixel_values": {0: "images"}, "attention_mask": {0: "texts", 1: "length"}}
    calls = [{"texts": 2, "length": 9, "images": 3}, {"texts": 1, "length": 4, "images": 1}, {"texts": 5, "length": 16, "images": 2}]
    return Network(Positional(transformers.CLIPModel(config), inputs, outputs), inputs, outputs, symbols, calls[:2] if full else calls, inputs_of)
