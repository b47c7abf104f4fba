"""A catalog of mechanisms: entries by name, with formula, paper, cost and a way to build."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from torch import nn

from regard.errors import InputError, UnknownNameError

Family = Literal["score", "normalizer", "reach", "position", "heads"]

LAWS: Mapping[str, str] = MappingProxyType(
    {
        "sums to one": "the weights of a row are not negative and sum to one",
        "masked key": "a masked key gets exactly zero weight, and no gradient reaches it",
        "empty row": "a row that sees no key gives zeros, and its gradients are zeros",
        "permutation": "permuting keys and values together changes nothing",
        "padding": "an example alone equals itself inside a padded batch",
        "gradients": "gradients match finite differences for every input and parameter",
        "reference": "the fast form equals a plain loop in double precision",
        "half precision": "bfloat16 and float16 stay within their stated error",
    }
)


class Text(NamedTuple):
    """A sentence in the languages that we speak."""

    en: str
    zh: str


class Sizes(NamedTuple):
    """What a mechanism is built for: the widths of its queries and keys, and its heads."""

    dim: int
    key_dim: int
    heads: int


@dataclass(frozen=True)
class Entry:
    """What there is to know of one mechanism."""

    name: str
    family: Family
    formula: str
    paper: str
    year: int
    time: str
    memory: str
    summary: Text
    make: Callable[[Sizes], nn.Module]
    aliases: tuple[str, ...] = ()
    breaks: Mapping[str, str] = field(default_factory=dict)

    def build(self, dim: int, *, key_dim: int | None = None, heads: int = 1) -> nn.Module:
        """The mechanism for queries of width `dim`, to be called with query, key, value and mask.

        >>> import torch, regard
        >>> additive = regard.catalog["additive"].build(5, key_dim=7)
        >>> additive(torch.randn(2, 5), torch.randn(3, 7), torch.randn(3, 11)).shape
        torch.Size([2, 11])
        """
        if min(dim, key_dim or 1, heads) < 1:
            raise InputError(
                f"{self.name} expected widths and heads of at least one, got dim={dim}, "
                f"key_dim={key_dim}, heads={heads}"
            )
        return self.make(Sizes(dim, dim if key_dim is None else key_dim, heads))


class Catalog(Mapping[str, Entry]):
    """The entries by name; an alias finds its entry too, and an unknown name the nearest one.

    >>> import regard
    >>> regard.catalog["bahdanau"].name
    'additive'
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._aliases = {alias: entry for entry in entries for alias in entry.aliases}

    def __getitem__(self, name: str) -> Entry:
        entry = self._entries.get(name) or self._aliases.get(name)
        if entry is None:
            raise UnknownNameError("mechanism", name, [*self._entries, *self._aliases])
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Catalog of {len(self)} mechanisms: {', '.join(self)}>"
