"""Embeddings that begin with word vectors learnt elsewhere, such as GloVe's."""

from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.models.recurrent.encoder import TokenEmbedding
from regard.models.tokenizers import Tokenizer
from regard.models.word_vectors import read_known_vectors

__all__ = ["begin_with_vectors"]


def begin_with_vectors(model: Any, tokenizer: Tokenizer, path: Path) -> None:
    """Replace the first dimensions of each word's embedding by its vector, if the file has one.

    The vectors are scaled to the size that the embeddings have.
    """
    embedding = getattr(model, "words", None)
    if not isinstance(embedding, TokenEmbedding):
        raise InputError("vocabulary.vectors is for recurrent models; leave it out")
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
    with torch.no_grad():
        for word, value in zip(vectors, values, strict=True):
            table[ids[word], : len(value)] = value
