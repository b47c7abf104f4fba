"""Models and tokenizers to be captured, and their own weights to compare with."""

import functools
import warnings

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers, strangers

TEXTS = ["I love you.", "我爱你，你爱我。 I love", "I love playing chess, and you"]
TARGETS = ["我爱你。", "I love you. I", "I"]
PLAN = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
PAIRS = ("marian", "t5")
DECODERS = ("gpt2", "llama")


@functools.cache
def known(name):
    """A model whose vocabulary holds that of its tokenizer."""
    model, tokenizer = strangers.model(name), reader(name)
    if name != "vit":
        model.resize_token_embeddings(401, mean_resizing=False)
    if getattr(model, "generation_config", None) is not None:  # before 5 it may be None
        model.generation_config.pad_token_id = 0
        model.generation_config.max_new_tokens = 7
    return model, tokenizer


def reader(name):
    if name in DECODERS:
        return readers.padded_byte_level()
    if name in PAIRS:
        return readers.byte_fallback()
    if name == "whisper":
        return readers.Sounds(readers.byte_fallback())
    return readers.Images() if name == "vit" else readers.word_piece()


def close(one, other):
    for each, same in zip(one, other, strict=True):
        assert (each.site, each.kind, each.shape) == (same.site, same.kind, same.shape)
        torch.testing.assert_close(each.weights(), same.weights(), atol=1e-5, rtol=0)


@torch.no_grad()
def eager(model, **feed):
    """The weights that the model returns itself, for the first example, in the maps' order."""
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    result = model(**feed, output_attentions=True)
    model.set_attn_implementation(implementation)
    if "attentions" in result:
        return [each[0] for each in result.attentions]
    both = zip(result.decoder_attentions, result.cross_attentions, strict=True)
    layers = [*result.encoder_attentions, *(each for pair in both for each in pair)]
    return [each[0] for each in layers]


def equal_eager(trace, model, **feed):
    for each, expected in zip(trace, eager(model, **feed), strict=True):
        torch.testing.assert_close(each.weights(), expected, atol=1e-5, rtol=0)
