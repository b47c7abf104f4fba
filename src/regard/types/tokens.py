"""The tokens of a stream: the labels of the rows and columns of a map."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from regard.errors import InputError

T = TypeVar("T")

_SHOWN = 8  # tokens that a repr shows


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text or of another input, each with its text; what is unknown is None.

    `offsets` are the start and stop of the characters that each token covers, `words` the index
    of the word that it belongs to (None for a special token), `special` is True for tokens such
    as [CLS]. `grid` is the number of rows and columns of an image's patches. Without a tokenizer
    the texts are the positions "0", "1", ... and `named` is False.

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
        for name in ("ids", "offsets", "words", "special"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.texts):
                raise InputError(
                    f"Tokens expected {name} for each of {len(self.texts)} texts, got {len(values)}"
                )

    @classmethod
    def positions(cls, count: int, start: int = 0) -> "Tokens":
        """Tokens that are called by their positions, for a stream without a tokenizer."""
        return cls(tuple(map(str, range(start, start + count))), named=False)

    @classmethod
    def patches(cls, grid: tuple[int, int], extra: int = 0) -> "Tokens":
        """The patches of an image by row and column, after `extra` tokens that are no patches.

        >>> from regard.types import Tokens
        >>> Tokens.patches((2, 2), extra=1).texts
        ('[0]', '0,0', '0,1', '1,0', '1,1')
        """
        rows, columns = grid
        places = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        return cls(
            tuple([f"[{number}]" for number in range(extra)] + places),
            special=(True,) * extra + (False,) * len(places),
            grid=grid,
        )

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> "Tokens": ...

    def __getitem__(self, index: int | slice | Sequence[int]) -> "str | Tokens":
        """The text at a position; the tokens of a slice, or at several positions."""
        if isinstance(index, int):
            return self.texts[index]
        positions = range(len(self))[index] if isinstance(index, slice) else index
        return Tokens(
            _select(self.texts, positions) or (),
            _select(self.ids, positions),
            _select(self.offsets, positions),
            _select(self.words, positions),
            _select(self.special, positions),
            self.grid if len(positions) == len(self) else None,
            self.named,
        )

    def __repr__(self) -> str:
        if not self.named:
            return f"Tokens({self.texts[0]} .. {self.texts[-1]})" if self.texts else "Tokens()"
        shown = [repr(text) for text in self.texts[:_SHOWN]]
        return f"Tokens({', '.join(shown)}{', …' if len(self) > _SHOWN else ''})"


def _select(values: tuple[T, ...] | None, positions: Iterable[int]) -> tuple[T, ...] | None:
    """The values at some positions; None if there are no values."""
    return None if values is None else tuple(values[position] for position in positions)
