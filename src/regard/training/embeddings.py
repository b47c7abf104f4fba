"""What a recurrent model's embeddings begin with: the frequent pairs of the corpus, word vectors.

One of the two functions is called before training. The recipe names a file of word vectors by
`vectors` in its section [model]; a token, or a pair of tokens of a classifier or reader, that is a
word of the file gets the word's vector (`prepare_embeddings`). The words of a summariser may have
more dimensions than the vectors, and keep random numbers in the others (`copy_known_vectors`).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.models.recurrent.encoder import TokenEmbedding
from regard.models.recurrent.pairs import PairedEmbedding, count_pairs
from regard.models.tokenizers import Tokenizer
from regard.models.word_vectors import iterate_word_vectors, read_known_vectors

__all__ = ["copy_known_vectors", "prepare_embeddings"]

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


@torch.no_grad()
def copy_known_vectors(embedding: TokenEmbedding, tokenizer: Tokenizer, path: Path) -> None:
    """Replace the first dimensions of each word's embedding by its vector, if the file has one.

    The vectors are scaled to the size that the embeddings have.
    """
    table = embedding.table.weight
    ids: dict[str, list[int]] = {}
    for token, number in tokenizer.target.get_vocab().items():
        # "▁" stands for the space before a word
        ids.setdefault(token.removeprefix("▁"), []).append(number)
    vectors = read_known_vectors(path, ids.keys())
    if not vectors:
        raise InputError(f"{path} has a vector for none of the {len(ids)} words of the vocabulary")
    values = torch.tensor(list(vectors.values()))
    if values.shape[1] > table.shape[1]:
        raise InputError(
            f"{path} has vectors of {values.shape[1]} dimensions; raise d_embed, "
            f"{table.shape[1]}, to at least as many"
        )
    values = (values - values.mean(dim=0)) / values.std() * table.detach().std()
    for word, value in zip(vectors, values, strict=True):
        table[ids[word], : len(value)] = value
