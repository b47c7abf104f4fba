"""The tokens of a stream: what a row or a column of a map is called."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from regard.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Tokens:
    """A stream as its tokenizer sees it; what is not known is None.

    `offsets` are the characters of the text that each piece covers, `words` the number of the
    word that it belongs to (None for a special token), `grid` the rows and columns of patches of
    an image. Without a tokenizer the texts are plain positions and `named` is False.

    >>> from regard.types import Tokens
    >>> Tokens(("我", "爱", "中国"))[1:]
    Tokens('爱', '中国')
    >>> Tokens(("我", "爱", "中国"))[-1]
    '中国'
    >>> Tokens.positions(3)
    Tokens(0 .. 2)
    """

    texts: tuple[str, ...]
    ids: tuple[int, ...] | None = None
    offsets: tuple[tuple[int, int], ...] | None = None
    words: tuple[int | None, ...] | None = None
    special: tuple[bool, ...] | None = None
    grid: tuple[int, int] | None = None
    named: bool = True

    def __post_init__(self) -> None:
        for part in ("ids", "offsets", "words", "special"):
            each = getattr(self, part)
            if each is not None and len(each) != len(self.texts):
                raise InputError(
                    f"Tokens expected {part} for each of {len(self.texts)} texts, got {len(each)}"
                )

    @classmethod
    def positions(cls, count: int, start: int = 0) -> "Tokens":
        """Plain positions, for a stream of which nothing is known."""
        return cls(tuple(map(str, range(start, start + count))), named=False)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> "Tokens": ...

    def __getitem__(self, index: int | slice | Sequence[int]) -> "str | Tokens":
        """The text at a place; the tokens of a slice, or at these places."""
        if isinstance(index, int):
            return self.texts[index]
        places = range(len(self))[index] if isinstance(index, slice) else index
        return Tokens(
            _at(self.texts, places) or (),
            _at(self.ids, places),
            _at(self.offsets, places),
            _at(self.words, places),
            _at(self.special, places),
            self.grid if len(places) == len(self) else None,
            self.named,
        )

    def __repr__(self) -> str:
        if not self.named:
            return f"Tokens({self.texts[0]} .. {self.texts[-1]})" if self.texts else "Tokens()"
        shown = [repr(text) for text in self.texts[:8]]
        return f"Tokens({', '.join(shown)}{', …' if len(self) > 8 else ''})"


def _at(part: tuple[T, ...] | None, places: Iterable[int]) -> tuple[T, ...] | None:
    return None if part is None else tuple(part[place] for place in places)
