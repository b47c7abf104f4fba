"""Long texts as overlapping windows that a model can read, each a stretch of characters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.errors import InputError
from regard.loading import LoadedModel

__all__ = ["Stretch", "WindowSplitter", "check_text"]

MOST_CHARACTERS = 1_000_000  # of one input: a book, and about a minute of a small model
LONGEST_WINDOW = 512  # tokens of a window where the model states no limit, or a larger one
OVERLAP = 4  # a quarter of each window is also in the next one
_SEARCHED = 24  # tokens before the end of a window that are searched for the end of a word


class Stretch(NamedTuple):
    """Some characters of a text, from start to stop, and the number of their tokens."""

    start: int
    stop: int
    tokens: int


class WindowSplitter:
    """Splits texts into windows that a model reads at once, beside a question if there is one.

    Neighbouring windows have a quarter of their tokens in common, so that whatever is cut at the
    end of one is whole in the next.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._name, self._tokenizer = loaded.name, loaded.tokenizer
        longest = loaded.window or LONGEST_WINDOW
        self._limit = min(loaded.context_length or longest, longest)

    def split(self, text: str, question: str | None = None) -> list[Stretch]:
        """The windows of a text; one window, the whole text, if it is short."""
        offsets, added = self._offsets(text)
        room = self._limit - added if question is None else self._room_beside(question)
        if len(offsets) <= room:
            return [Stretch(0, len(text), len(offsets))]
        for size in range(room, 0, -1):
            windows = _cut_windows(offsets, size, text)
            # a stretch may have more tokens alone than it has within the text
            if all(self._count(text[start:stop]) <= room for start, stop, _ in windows):
                return windows
        raise InputError(f"{self._name} reads too few tokens at once for this text")

    def _room_beside(self, question: str) -> int:
        """The number of tokens of the text that fit into one window with the question."""
        room = self._limit - len(self._tokenizer(question, "a")["input_ids"]) + self._count("a")
        if room < self._limit // 4:
            raise InputError(
                f"the question has {self._count(question)} tokens and {self._name} reads "
                f"{self._limit} at once, question and text together; shorten the question"
            )
        return room

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _offsets(self, text: str) -> tuple[Sequence[tuple[int, int]], int]:
        """The characters of each token of the text, and the number of special tokens added."""
        tokenizer = self._tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise InputError(
                f"the tokenizer of {self._name} does not tell where its tokens are; take a model "
                "with a fast tokenizer (tokenizer.json)"
            )
        encoding: Any = tokenizer(
            text, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        marks = encoding["special_tokens_mask"]
        places = zip(encoding["offset_mapping"], marks, strict=True)
        offsets = [(start, stop) for (start, stop), added in places if not added]
        if not offsets:
            raise InputError(f"the tokenizer of {self._name} makes no token of {text[:40]!r}")
        return offsets, len(marks) - len(offsets)


def _cut_windows(offsets: Sequence[tuple[int, int]], room: int, text: str) -> list[Stretch]:
    """Windows of at most `room` tokens each; the last one is as long as the others."""
    windows, start, total = list[Stretch](), 0, len(offsets)

    def word_end(place: int, least: int) -> int:
        """The last place up to `place`, but after `least`, where a new word begins."""
        near = range(place, max(least, place - _SEARCHED), -1)
        return next((each for each in near if _begins_word(offsets, each, text)), place)

    while True:
        stop = total if start + room >= total else word_end(start + room, start)
        windows.append(Stretch(offsets[start][0], offsets[stop - 1][1], stop - start))
        if stop == total:
            return windows
        shared = min(room // OVERLAP, stop - start - 1)
        start = word_end(min(stop - shared, max(start + 1, total - room)), start)


def _begins_word(offsets: Sequence[tuple[int, int]], place: int, text: str) -> bool:
    """True if white space stands before a token, or is its first character."""
    start = offsets[place][0]
    return offsets[place - 1][1] < start or text[start : start + 1].isspace()


def check_text(text: str, what: str) -> str:
    """The text; an InputError if it is empty or too long for a person's input."""
    if not text.strip():
        raise InputError(f"{what} is empty; give some text")
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"{what} has {len(text):,} characters; expected at most {MOST_CHARACTERS:,}, give it "
            "in parts"
        )
    return text
