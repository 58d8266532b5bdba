# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks of text: encoders, decoders, both, one step of decoding with a cache, a mixture of experts, a state space, and recurrent taggers."""
import torch
import transformers

from network import Network, Positional, mask_of, tokens

VOCABULARY = 256
TINY = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": VOCABULARY,
        "max_position_embeddings": 64}
ENDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
LENGTHS = [{"batch": 2, "length": 11}, {"batch": 1, "length": 1}, {"batch": 3, "length": 32}, {"batch": 5, "length": 7}]
FULL_LENGTHS = [{"batch": 2, "length": 96}, {"batch": 1, "length": 128}]


def of_tokens(model, outputs, full, types=False, **fixed):
    """A network of ids, a mask and, if asked for, types."""
    inputs = ["input_ids", "attention_mask"] + ["token_type_ids"] * types
    vocabulary = model.config.vocab_size

    def inputs_of(sizes, generator):
        batch, length = sizes["batch"], sizes["length"]
        kinds = torch.zeros((batch, length), dtype=torch.int64)
        kinds[:, length // 2:] = 1
        return (tokens(vocabulary, batch, length, generator), mask_of(batch, length), kinds)[:len(inputs)]

    return Network(Positional(model, inputs, outputs, **fixed), inputs, outputs, {name: {0: "batch", 1: "length"} for name in inputs},
                   FULL_LENGTHS if full else LENGTHS, inputs_of)


def bert(full):
    config = transformers.BertConfig() if full else transformers.BertConfig(**TINY)
    return of_tokens(transformers.BertModel(config), ["last_hidden_state", "pooler_output"], full, types=True)


def distilbert(full):
    config = transformers.DistilBertConfig(**({} if full else {"dim": 64, "hidden_dim": 128, "n_heads": 4, "n_layers": 2, "vocab_size": VOCABULARY,
                                                               "max_position_embeddings": 64}))
    return of_tokens(transformers.DistilBertForSequenceClassification(config), ["logits"], full)


def deberta(full):
    """Of the second version, whose positions are relative and in buckets."""
    shape = {**TINY, "type_vocab_size": 0, "position_buckets": 8, "max_relative_positions": 32}
    if full:
        shape = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 128100, "type_vocab_size": 0,
                 "position_buckets": 256, "max_relative_positions": 512}
    config = transformers.DebertaV2Config(**{**shape, "relative_attention": True, "share_att_key": True,
                                             "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "position_biased_input": False})
    return of_tokens(transformers.DebertaV2Model(config), ["last_hidden_state"], full)


def gpt2_model(full):
    shape = {} if full else {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 64}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape, bos_token_id=0, eos_token_id=0))


def llama_model(full):
    shape = {**TINY, "num_key_value_heads": 2}
    if full:
        shape = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
                 "vocab_size": 49152, "max_position_embeddings": 2048, "tie_word_embeddings": True}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0))


def gpt2(full):
    return of_tokens(gpt2_model(full), ["logits"], full, use_cache=False)


def llama(full):
    return of_tokens(llama_model(full), ["logits"], full, use_cache=False)


def qwen2(full):
    """With a window in some of the layers."""
    shape = {**TINY, "num_key_value_heads": 2}
    if full:
        shape = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936}
    config = transformers.Qwen2Config(**shape, use_sliding_window=True, sliding_window=8, max_window_layers=1, tie_word_embeddings=True, **ENDS)
    return of_tokens(transformers.Qwen2ForCausalLM(config), ["logits"], full, use_cache=False)


def mixtral(full):
    """Four experts, of which each token has two. A matrix is gathered for each token and expert; the other ways of transformers loop over lists of tokens."""
    shape = {**TINY, "num_key_value_heads": 2}
    if full:
        shape = {**shape, "hidden_size": 512, "num_hidden_layers": 4, "intermediate_size": 1024, "num_attention_heads": 8}
    config = transformers.MixtralConfig(**shape, num_local_experts=4, num_experts_per_tok=2, **ENDS)
    model = transformers.MixtralForCausalLM(config)
    model.set_experts_implementation("batched_mm")
    return of_tokens(model, ["logits"], full, use_cache=False)


def mamba(full):
    """Its scan is a loop of Python, so that the length is that of the export."""
    config = transformers.MambaConfig(**({"hidden_size": 768, "num_hidden_layers": 24} if full else {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8,
                                                                                                   "vocab_size": VOCABULARY}), **ENDS)
    model, vocabulary = transformers.MambaForCausalLM(config), config.vocab_size
    calls = [{"batch": 2}, {"batch": 1}, {"batch": 5}]
    return Network(Positional(model, ["input_ids"], ["logits"], use_cache=False), ["input_ids"], ["logits"], {"input_ids": {0: "batch"}}, calls,
                   lambda sizes, generator: (tokens(vocabulary, sizes["batch"], 12, generator),))


def of_text_to_text(model, full):
    inputs = ["input_ids", "attention_mask", "decoder_input_ids"]
    vocabulary = model.config.vocab_size

    def inputs_of(sizes, generator):
        batch = sizes["batch"]
        return (tokens(vocabulary, batch, sizes["length"], generator), mask_of(batch, sizes["length"]), tokens(vocabulary, batch, sizes["written"], generator))

    symbols = {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}, "decoder_input_ids": {0: "batch", 1: "written"}}
    calls = [{"batch": 2, "length": 11, "written": 6}, {"batch": 1, "length": 1, "written": 1}, {"batch": 3, "length": 20, "written": 20},
             {"batch": 4, "length": 5, "written": 13}]
    if full:
        calls = [{"batch": 2, "length": 128, "written": 32}, {"batch": 1, "length": 128, "written": 32}]
    return Network(Positional(model, inputs, ["logits"], use_cache=False), inputs, ["logits"], symbols, calls, inputs_of)


def t5_model(full):
    shape = {} if full else {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY,
                             "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16, "feed_forward_proj": "gated-gelu"}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**shape, decoder_start_token_id=0))


def bart_model(full):
    shape = {} if full else {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
                             "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": VOCABULARY, "max_position_embeddings": 64}
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**shape, **ENDS, decoder_start_token_id=1))


def t5(full):
    return of_text_to_text(t5_model(full), full)


def bart(full):
    return of_text_to_text(bart_model(full), full)


class Step(torch.nn.Module):
    """One step of decoding: behind ids and mask the keys and values of each layer, [batch, heads, past, head size]; results are the logits, and longer
    keys and values."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask, *past):
        cache = transformers.DynamicCache(ddp_cache_data=list(zip(past[::2], past[1::2], strict=True)))
        result = self.model(ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return result.logits, *(one for layer in result.past_key_values.layers for one in (layer.keys, layer.values))


def step(model, full):
    config = model.config
    caches = [f"{one}_{layer}" for layer in range(config.num_hidden_layers) for one in ("keys", "values")]
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    size = config.hidden_size // config.num_attention_heads

    def inputs_of(sizes, generator):
        batch, past = sizes["batch"], sizes["past"]
        return (tokens(config.vocab_size, batch, 1, generator), torch.ones((batch, past + 1), dtype=torch.int64),
                *(torch.randn((batch, heads, past, size), generator=generator) for _ in caches))

    symbols = {"ids": {0: "batch"}, "mask": {0: "batch", 1: "past+1"}, **{name: {0: "batch", 2: "past"} for name in caches}}
    calls = [{"batch": 2, "past": 9}, {"batch": 1, "past": 2}, {"batch": 3, "past": 40}]
    if full:
        calls = [{"batch": 2, "past": 60}, {"batch": 1, "past": 128}]
    return Network(Step(model), ["ids", "mask", *caches], ["logits", *(f"longer_{name}" for name in caches)], symbols, calls, inputs_of)


def gpt2_step(full):
    return step(gpt2_model(full), full)


def llama_step(full):
    return step(llama_model(full), full)


class DecoderStep(torch.nn.Module):
    """One step of the decoder of a network with an encoder: behind the ids, and the mask of what was encoded if there is one, each layer has the keys and
    values of what is written, and those of what was encoded; results are the logits, and longer keys and values of what is written."""

    def __init__(self, model, masked):
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, ids, *rest):
        mask, caches = (rest[0], rest[1:]) if self.masked else (None, rest)
        written, encoded = (list(zip(caches[first::4], caches[first + 1::4], strict=True)) for first in (0, 2))
        cache = transformers.EncoderDecoderCache(transformers.DynamicCache(ddp_cache_data=written), transformers.DynamicCache(ddp_cache_data=encoded))
        states = torch.zeros(ids.shape[0], encoded[0][0].shape[2], self.model.config.d_model)  # only their extents are read
        result = self.model(decoder_input_ids=ids, encoder_outputs=transformers.modeling_outputs.BaseModelOutput(states), attention_mask=mask,
                            past_key_values=cache, use_cache=True)
        return result.logits, *(one for layer in result.past_key_values.self_attention_cache.layers for one in (layer.keys, layer.values))


def decoder_step(model, layers, heads, size, calls, encoded=None):
    """`encoded`: how many states were encoded, if that is no symbol, and then there is no mask."""
    written = [f"{one}_{layer}" for layer in range(layers) for one in ("keys", "values")]
    caches = [f"{prefix}{one}_{layer}" for layer in range(layers) for prefix in ("", "encoded_") for one in ("keys", "values")]
    inputs = ["ids"] + ["mask"] * (encoded is None) + caches

    def inputs_of(sizes, generator):
        batch, count = sizes["batch"], encoded or sizes["length"]
        masks = () if encoded else (mask_of(batch, count),)
        return (tokens(model.config.vocab_size, batch, 1, generator), *masks,
                *(torch.randn((batch, heads, count if "encoded" in name else sizes["past"], size), generator=generator) for name in caches))

    symbols = {"ids": {0: "batch"}, "mask": {0: "batch", 1: "length"}}
    for name in caches:
        symbols[name] = {0: "batch", **({2: "past"} if "encoded" not in name else {} if encoded else {2: "length"})}
    return Network(DecoderStep(model, encoded is None), inputs, ["logits", *(f"longer_{name}" for name in written)], {name: symbols[name] for name in inputs}, calls, inputs_of)


def text_step(model, layers, heads, size, full):
    calls = [{"batch": 2, "past": 9, "length": 13}, {"batch": 1, "past": 2, "length": 1}, {"batch": 3, "past": 30, "length": 20}]
    if full:
        calls = [{"batch": 2, "past": 30, "length": 96}, {"batch": 1, "past": 64, "length": 128}]
    return decoder_step(model, layers, heads, size, calls)


def t5_step(full):
    model = t5_model(full)
    return text_step(model, model.config.num_decoder_layers, model.config.num_heads, model.config.d_kv, full)


def bart_step(full):
    model = bart_model(full)
    return text_step(model, model.config.decoder_layers, model.config.decoder_attention_heads, model.config.d_model // model.config.decoder_attention_heads, full)


class Tagger(torch.nn.Module):
    """A tag for each token, from a recurrent layer in both directions. `packed`: rows end at their length, as PyTorch's packed sequences do."""

    def __init__(self, kind, width, packed):
        super().__init__()
        self.packed = packed
        self.embed = torch.nn.Embedding(VOCABULARY, width)
        self.layers = kind(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = torch.nn.Linear(2 * width, 9)

    def forward(self, ids, lengths=None):
        states = self.embed(ids)
        if self.packed:
            states = torch.nn.utils.rnn.pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=True)
        states, _ = self.layers(states)
        if self.packed:
            states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return (self.tags(states).log_softmax(-1),)


def tagger(kind, full, packed=False):
    def inputs_of(sizes, generator):
        ids = tokens(VOCABULARY, sizes["batch"], sizes["length"], generator)
        lengths = torch.tensor([max(1, sizes["length"] - row) for row in range(sizes["batch"])])
        return (ids, lengths) if packed else (ids,)

    symbols = {"ids": {0: "batch", 1: "length"}, **({"lengths": {0: "batch"}} if packed else {})}
    return Network(Tagger(kind, 256 if full else 24, packed), list(symbols), ["tags"], symbols, FULL_LENGTHS if full else LENGTHS, inputs_of,
                   exporters=("old",) if packed else ("dynamo", "old"))


def lstm_tagger(full):
    return tagger(torch.nn.LSTM, full)


def gru_tagger(full):
    return tagger(torch.nn.GRU, full)


def lstm_packed(full):
    return tagger(torch.nn.LSTM, full, packed=True)


def gru_packed(full):
    return tagger(torch.nn.GRU, full, packed=True)
