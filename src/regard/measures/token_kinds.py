"""What kind of token each one is: special, punctuation, or plain."""

import re
import unicodedata
from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from regard.types import Tokens

PLAIN, SPECIAL, PUNCTUATION = range(3)

_SPREAD = re.compile(r"\[\d+/\d+\]$")  # one of the tokens that a character is spread over
_MARKS = " \t▁ĠĊ"


def token_kinds(tokens: Tokens) -> Int[Tensor, " token"]:
    """PLAIN, SPECIAL or PUNCTUATION for each token; what is special is no punctuation.

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
    """Whether a piece is punctuation alone, in any script, its tokenizer's marks left aside.

    Punctuation are the categories P* of Unicode: 。，、《》 are, signs such as + and $ are not.

    >>> from regard.measures.token_kinds import is_punctuation
    >>> [is_punctuation(text) for text in ("▁.", "##,", "。", "don't", "+")]
    [True, True, True, False, False]
    """
    piece = _SPREAD.sub("", strip_marks(text))
    return bool(piece) and all(unicodedata.category(each).startswith("P") for each in piece)


def strip_marks(text: str) -> str:
    """A piece without the marks by which its tokenizer says where words begin and end.

    >>> from regard.measures.token_kinds import strip_marks
    >>> [strip_marks(text) for text in ("▁love", "##ing", "Ġyou", "lov@@", "##")]
    ['love', 'ing', 'you', 'lov', '##']
    """
    whole = text.strip(_MARKS)
    return whole.removeprefix("##").removesuffix("</w>").removesuffix("@@") or whole
