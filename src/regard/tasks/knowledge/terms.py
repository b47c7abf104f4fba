"""The terms by which texts are found: stems of words, and characters and their pairs in Chinese."""

import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from regard.tasks.knowledge.normalise import normalise

__all__ = ["character_terms", "stemmer_name", "terms_of"]

_RUN = re.compile(r"[㐀-鿿぀-ヿ]+|[^\W_]+(?:['’][^\W_]+)?")
_CJK = re.compile(r"[㐀-鿿぀-ヿ]")
# words of English that are in most texts
_FREQUENT_WORDS = (
    "a an and are as at be been but by can did do does for from had has have how i if in is it its "
    "me my of on or so than that the their there these they this to was we were what when where "
    "which who why will with would you your"
)
_FREQUENT = frozenset(_FREQUENT_WORDS.split())


@cache
def _stemmer() -> Any:
    """The Snowball stemmer of English; None where PyStemmer is not installed."""
    if find_spec("Stemmer") is None:
        return None
    import Stemmer

    return Stemmer.Stemmer("english")


def stemmer_name() -> str | None:
    """What stems the words of English: an index is only good for the stemmer that made it."""
    return None if _stemmer() is None else "snowball-english"


def terms_of(text: str) -> list[str]:
    """The terms of a text: stems of words without frequent ones, Chinese by its characters.

    >>> from regard.tasks.knowledge.terms import terms_of
    >>> terms_of("the 3 houses")[0], terms_of("北京大学")
    ('3', ['北', '京', '大', '学', '北京', '京大', '大学'])
    """
    words, terms = list[str](), list[str]()
    for run in _RUN.findall(text.lower()):
        if _CJK.match(run):
            terms += _pieces(run)
        elif (word := run.replace("’", "'").removesuffix("'s")) not in _FREQUENT:
            words.append(word)
    stemmer = _stemmer()
    return (words if stemmer is None else stemmer.stemWords(words)) + terms


def character_terms(text: str) -> list[str]:
    """The characters of a name and their pairs, whatever its language and spelling.

    >>> from regard.tasks.knowledge.terms import character_terms
    >>> character_terms("A-B")
    ['a', 'b', 'ab']
    """
    return _pieces(normalise(text).text)


def _pieces(run: str) -> list[str]:
    """The characters of a run and its pairs of neighbours."""
    return [*run, *map("".join, pairwise(run))]
