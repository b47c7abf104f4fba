"""Tokenizers: text to ids and back, learnt from a corpus or read from a folder."""

from regard.models.tokenizers.encoding import BatchEncoding
from regard.models.tokenizers.tokenizer import Tokenizer, TokenizerPair

__all__ = ["BatchEncoding", "Tokenizer", "TokenizerPair"]
