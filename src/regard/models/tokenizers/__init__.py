"""Tokenizers: text to ids and back, learnt from a corpus or read from a folder.

    tokenizer.py       Tokenizer and TokenizerPair, with the methods of a Hugging Face fast
    tokenizer encoding.py        the options of a call, truncation, and BatchEncoding, its result
    training.py        learning a vocabulary: BPE, unigram, words or characters folders.py
    reading tokenizer.json and older layouts, and the special tokens sentencepiece.py   reading
    SentencePiece models (Marian, Llama) without their library

The work of splitting text is done by the tokenizers library, whose object is called the backend
here.
"""

from regard.models.tokenizers.encoding import BatchEncoding
from regard.models.tokenizers.tokenizer import Tokenizer, TokenizerPair

__all__ = ["BatchEncoding", "Tokenizer", "TokenizerPair"]
