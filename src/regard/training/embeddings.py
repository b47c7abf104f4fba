"""What a recurrent model's embeddings begin with: the frequent pairs of the corpus, word vectors.

`prepare_embeddings` is called once, before training. The recipe names a file of word vectors by
`vectors` in its section [model]; a token or a pair of tokens that is a word of the file gets the
word's vector, and all others keep their random one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.models.recurrent.pairs import PairedEmbedding, count_pairs
from regard.models.tokenizers import Tokenizer
from regard.models.word_vectors import iterate_word_vectors

__all__ = ["prepare_embeddings"]

_AT_ONCE = 1000  # texts that are encoded together
_WORD_COUNT = 2  # a pair that is a word with a vector counts as if it was seen so often besides
_FEWEST = 2  # occurrences of a pair that gets a row


def prepare_embeddings(
    embedding: PairedEmbedding, tokenizer: Tokenizer, texts: Iterable[str], vectors: str | None
) -> None:
    """Choose the known pairs by how frequent they are in the texts, and take over word vectors."""
    words = {} if vectors is None else _read_vectors(Path(vectors), tokenizer)
    if embedding.pairs is not None:
        counts = count_pairs(_encode(texts, tokenizer))
        counts.update({ids: _WORD_COUNT for ids in words if len(ids) == 2})
        most = counts.most_common(len(embedding.pairs.keys))
        embedding.pairs.set_pairs([pair for pair, count in most if count >= _FEWEST])
    if words:
        _copy_vectors(embedding, words)


def _encode(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """The ids of each text, with its end token."""
    remaining = iter(texts)
    while some := list(islice(remaining, _AT_ONCE)):
        yield from tokenizer(some)["input_ids"]


def _read_vectors(path: Path, tokenizer: Tokenizer) -> dict[Any, torch.Tensor]:
    """The vectors of the words that are one or two tokens, by the ids of these tokens."""
    backend = tokenizer.backend_tokenizer
    found: dict[Any, torch.Tensor] = {}
    for word, vector in iterate_word_vectors(path, lambda word: True):
        ids = tuple(backend.encode(word, add_special_tokens=False).ids)
        if len(ids) in (1, 2):
            found.setdefault(ids, torch.tensor(vector))
    if not found:
        raise InputError(f"no word of {path} is one or two tokens of the vocabulary; name another")
    return found


@torch.no_grad()
def _copy_vectors(embedding: PairedEmbedding, words: dict[Any, torch.Tensor]) -> None:
    """Give tokens and pairs the vectors of words, scaled to a mean norm of 1 as tokens have."""
    dim = embedding.table.embedding_dim
    sizes = {len(vector) for vector in words.values()}
    if sizes != {dim}:
        raise InputError(f"word vectors of {max(sizes)} numbers do not fit d_embed={dim}")
    scale = 1.0 / torch.stack(list(words.values())).norm(dim=1).mean()
    for ids, vector in words.items():
        if len(ids) == 1:
            embedding.table.weight[ids[0]] = vector * scale
    if embedding.pairs is not None:
        for row, pair in enumerate(embedding.pairs.known_pairs(), start=1):
            if pair in words:
                embedding.pairs.table.weight[row] = words[pair] * scale
