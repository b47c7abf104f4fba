"""The vocabulary of a tokenizer of words, extended by the words that some texts add.

A pointer-generator copies words that its vocabulary lacks. Within one batch such a word needs an id
like any other, so that it can be read, copied and decoded; the ids begin after the vocabulary.
"""

import json
from collections.abc import Iterable, Sequence

import tokenizers

Rows = Sequence[Sequence[int]]


def extend_vocabulary(
    backend: tokenizers.Tokenizer, texts: Iterable[str]
) -> tokenizers.Tokenizer | None:
    """A copy of the tokenizer with a new id for each unknown word of the texts, in their order.

    None if no word of the texts is unknown, as in a vocabulary of pieces or bytes.
    """
    if not isinstance(backend.model, tokenizers.models.WordLevel):
        return None
    different: dict[str, None] = {}
    for text in texts:
        normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
        different.update((word, None) for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    words = [word for word in different if backend.token_to_id(word) is None]
    if not words:
        return None
    content = json.loads(backend.to_str())
    first = backend.get_vocab_size(with_added_tokens=True)
    content["model"]["vocab"] |= {word: first + number for number, word in enumerate(words)}
    return tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))


def number_per_example(
    source: Sequence[int], target: Sequence[int], vocab: int, unknown: int
) -> tuple[list[int], list[int]]:
    """Source and target with their ids from `vocab` on numbered anew, in the order of the source.

    A word of the target that neither the vocabulary nor the source has becomes `unknown`.

    >>> from regard.models.tokenizers.unknown_words import number_per_example
    >>> number_per_example([5, 150, 7, 120, 150], [120, 130, 6], vocab=100, unknown=1)
    ([5, 100, 7, 101, 100], [101, 1, 6])
    """
    numbers: dict[int, int] = {}
    for token in source:
        if token >= vocab:
            numbers.setdefault(token, vocab + len(numbers))
    return (
        [numbers.get(token, token) for token in source],
        [numbers.get(token, token if token < vocab else unknown) for token in target],
    )
