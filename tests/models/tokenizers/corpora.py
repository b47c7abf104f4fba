"""A little text in two languages, and the tokenizers learnt from it."""

from functools import cache

from regard.models.tokenizers import Tokenizer

LINES = [
    "I love you.",
    "You don't love me, do you?",
    'She said "yes" (twice).',
    "The quick brown fox jumps over the lazy dog 7 times!",
    "我爱你。",
    "你爱我吗？",
    "我 爱 中国",
    "他说“是”，我们爱Python。",
] * 3
EXACT = ("bpe", "byte-bpe", "unigram", "character")


@cache
def trained(kind: str, **options) -> Tokenizer:
    return Tokenizer.train(LINES, kind, 400, **options)


def back(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True)
