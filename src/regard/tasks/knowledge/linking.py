"""Entity linking: which subjects of a base a question may be about, and where it names them.

A subject is a candidate if the question contains its name, or its name without what stands in
brackets ("apple" for "apple (fruit)"), in any spelling. Names that the question only comes near to
(an abbreviation, a missing word) are found by the characters and pairs that they share. How much
each kind of evidence counts is not decided here: a candidate has numbers, and the ranking weighs
them together with how well its relations match.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from regard.tasks.knowledge.index import TermIndex
from regard.tasks.knowledge.normalise import NormalisedText, normalise
from regard.tasks.knowledge.terms import character_terms

__all__ = ["Linker", "Mention"]

_NEAR = 12  # names that share characters with the question
_LEAST_SHARED = 0.5  # of the characters of a name that the question only comes near to
_BRACKETS = re.compile(r"[(\[（【［〔<《].*?[)\]）】］〕>》]")
_LATIN = re.compile(r"[a-z0-9]")


class Mention(NamedTuple):
    """A subject that a question may be about, and where the question names it.

    `covered` is the share of the name that the question has, and `length` the number of characters
    of the question that it takes. `exact` tells that the whole name is there, `inside` that it is a
    part of a longer name that is there too, `alias` that only the name without brackets is.
    """

    subject: str
    span: tuple[int, int]
    length: int
    covered: float
    exact: bool
    inside: bool = False
    alias: bool = False


class Linker:
    """The names of a base's subjects, and an index of their characters."""

    def __init__(self, subjects: Iterable[str], index: TermIndex) -> None:
        self._names = list(subjects)
        self._index = index
        self._by_name: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        for subject in self._names:
            name = normalise(subject).text
            if name:
                self._by_name[name].append((subject, False))
            outside = normalise(_BRACKETS.sub("", subject)).text
            if outside and outside != name:
                self._by_name[outside].append((subject, True))
        self._longest = max(map(len, self._by_name), default=0)

    def mentions(self, question: str) -> list[Mention]:
        """The candidates of a question, those with the longest names first."""
        text = normalise(question)
        exact = list(self._exact(text))
        known = {mention.subject for mention in exact}
        near = [each for each in self._near(text) if each.subject not in known]
        return sorted(exact + near, key=lambda each: (-each.length * each.covered, each.subject))

    def _exact(self, text: NormalisedText) -> Iterator[Mention]:
        """The subjects whose names stand in the question."""
        places = list(self._places(text))
        for start, stop in places:
            inside = any(
                first <= start and stop <= last and (first, last) != (start, stop)
                for first, last in places
            )
            span, length = text.span(start, stop), stop - start
            for subject, alias in self._by_name[text.text[start:stop]]:
                yield Mention(subject, span, length, 1.0, exact=True, inside=inside, alias=alias)

    def _places(self, text: NormalisedText) -> Iterator[tuple[int, int]]:
        """Where a name stands; one of Latin letters has to begin and end with a word."""
        size = len(text.text)
        for start in range(size):
            if _inside_word(text, start):
                continue
            for stop in range(start + 1, min(size, start + self._longest) + 1):
                if text.text[start:stop] in self._by_name and not _inside_word(text, stop):
                    yield start, stop

    def _near(self, text: NormalisedText) -> Iterator[Mention]:
        """The subjects whose names share many characters with the question."""
        for found in self._index.search(character_terms(text.text), _NEAR):
            subject = self._names[found.number]
            name = normalise(subject).text
            start, stop, shared = _overlap(text.text, name)
            covered = shared / len(name) if name else 0.0
            if covered >= _LEAST_SHARED and shared >= 2:
                yield Mention(subject, text.span(start, stop), shared, covered, exact=False)


def _inside_word(text: NormalisedText, place: int) -> bool:
    """True if a place is inside of a word of Latin letters or digits of the original text."""
    if not 0 < place < len(text.text):
        return False
    neighbours = text.places[place] - text.places[place - 1] <= 1
    return neighbours and all(map(_LATIN.match, text.text[place - 1 : place + 1]))


def _overlap(text: str, name: str) -> tuple[int, int, int]:
    """Where the question comes near to a name: start and stop, and the characters in common.

    From the longest stretch in common it goes on to both sides, over at most two other characters.
    """
    start, stop, place = _longest_common(text, name)
    if start == stop:
        return 0, 1, 0
    shared = stop - start
    before, more_before = _tail(text[:start][::-1], name[:place][::-1])
    after, more_after = _tail(text[stop:], name[place + shared :])
    return start - before, stop + after, shared + more_before + more_after


def _tail(text: str, name: str) -> tuple[int, int]:
    """How far the text goes on with characters of the name in order, and how many there are."""
    reached, count, gap, rest = 0, 0, 0, name
    for number, character in enumerate(text, 1):
        place = rest.find(character)
        if place < 0:
            gap += 1
            if gap > 2:
                break
            continue
        gap, count, reached, rest = 0, count + 1, number, rest[place + 1 :]
    return reached, count


def _longest_common(text: str, name: str) -> tuple[int, int, int]:
    """The longest stretch of the text that the name has: start, stop, and its place in the name."""
    best = (0, 0, 0)
    for start in range(len(text)):
        stop = start + best[1] - best[0] + 1
        while stop <= len(text) and text[start:stop] in name:
            best = (start, stop, name.index(text[start:stop]))
            stop += 1
    return best
