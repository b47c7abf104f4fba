"""The kind of each token: special, punctuation, or plain."""

import re
import unicodedata
from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from regard.types import Tokens

PLAIN, SPECIAL, PUNCTUATION = range(3)

_PART = re.compile(r"\[\d+/\d+\]$")  # marks one of several tokens that spell one character
_MARKS = " \t▁ĠĊ"


def token_kinds(tokens: Tokens) -> Int[Tensor, " token"]:
    """PLAIN, SPECIAL or PUNCTUATION for each token; a special token is never punctuation.

    >>> from regard.measures.token_kinds import token_kinds
    >>> from regard.types import Tokens
    >>> special = (True, False, False, False)
    >>> token_kinds(Tokens(("</s>", "▁I", "，", "##."), special=special)).tolist()
    [1, 0, 2, 2]
    """
    special = tokens.special or (False,) * len(tokens)
    kinds = [
        SPECIAL if marked else PUNCTUATION if is_punctuation(text) else PLAIN
        for text, marked in zip(tokens.texts, special, strict=True)
    ]
    return torch.tensor(kinds, dtype=torch.long)


@lru_cache(maxsize=1 << 16)
def is_punctuation(text: str) -> bool:
    """True if a piece is nothing but punctuation, in any script, apart from its tokenizer's marks.

    Punctuation is Unicode's categories P*: 。，、《》 are punctuation, signs such as + and $ not.

    >>> from regard.measures.token_kinds import is_punctuation
    >>> [is_punctuation(text) for text in ("▁.", "##,", "。", "don't", "+")]
    [True, True, True, False, False]
    """
    piece = _PART.sub("", strip_marks(text))
    return bool(piece) and all(unicodedata.category(sign).startswith("P") for sign in piece)


def strip_marks(text: str) -> str:
    """A piece without its tokenizer's marks for where words begin and end, such as ▁ and ##.

    >>> from regard.measures.token_kinds import strip_marks
    >>> [strip_marks(text) for text in ("▁love", "##ing", "Ġyou", "lov@@", "##")]
    ['love', 'ing', 'you', 'lov', '##']
    """
    piece = text.strip(_MARKS)
    # a piece that is nothing but marks, such as ##, stands for itself
    return piece.removeprefix("##").removesuffix("</w>").removesuffix("@@") or piece
