"""A small reader and a small translator, the same in every process, and texts for them."""

import functools

import torch

from regard.models import Tokenizer, Transformer
from regard.models.generation import GenerationSettings

TEXTS = [f"I love {what}{mark}" for what in ("you", "tea and cats", "tea") for mark in ("", ".")]
UNEVEN = (TEXTS * 3)[:16]  # in portions of 5, the last is a batch for one process alone
PAIRS = [
    ("I love you.", "我爱你。"),
    ("she loves tea", "她爱茶"),
    ("tea", "茶"),
    ("no tea.", "没茶。"),
]
SIZES = {"d_model": 14, "layers": 2, "heads": 7, "d_ff": 17}


@functools.cache
def tokenizer():
    lines = [*TEXTS, *(side for pair in PAIRS for side in pair)]
    return Tokenizer.train(lines * 9, "bpe", 330, punctuation=True, chinese="character")


@functools.cache
def reader():
    return _dressed("encoder")


@functools.cache
def translator():
    return _dressed("encoder-decoder")


def _dressed(kind):
    torch.manual_seed(7)
    model = Transformer(kind=kind, vocab=len(tokenizer()), **SIZES).eval()
    model.tokenizer = tokenizer()
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=tokenizer().bos_token_id, pad_token_id=tokenizer().pad_token_id
    )
    return model
