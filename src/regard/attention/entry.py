"""The types of the catalog: an entry per mechanism with formula, paper, cost and constructor."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from torch import nn

from regard.errors import InputError, UnknownNameError

Family = Literal["score", "normalizer", "reach", "position", "heads", "copying"]


class Text(str):
    """An English string with its Chinese translation as the attribute `zh`.

    A text without words, such as a formula, is the same in both languages and needs one argument.

    >>> from regard.attention.entry import Text
    >>> law = Text("padding", "填充")
    >>> law == "padding", law.en, law.zh, Text("e = q · k").zh
    (True, 'padding', '填充', 'e = q · k')
    """

    zh: str

    def __new__(cls, en: str, zh: str | None = None) -> "Text":
        """The text; without a translation, `zh` is the English text."""
        text = super().__new__(cls, en)
        text.zh = en if zh is None else zh
        return text

    @property
    def en(self) -> str:
        """The English text."""
        return str(self)


LAWS: Mapping[str, Text] = MappingProxyType(
    {
        Text("sums to one", "和为一"): Text(
            "the weights of a row are not negative and sum to one",
            "每一行的权重非负，且总和为一",
        ),
        Text("masked key", "遮蔽的键"): Text(
            "a masked key gets exactly zero weight, and no gradient reaches it",
            "被遮蔽的键权重恰为零，梯度也不会流到它",
        ),
        Text("empty row", "空行"): Text(
            "a row that sees no key gives zeros, and its gradients are zeros",
            "看不到任何键的行输出全零，其梯度也为零",
        ),
        Text("permutation", "置换"): Text(
            "permuting keys and values together changes nothing",
            "键和值一起重新排列，结果不变",
        ),
        Text("padding", "填充"): Text(
            "an example alone equals itself inside a padded batch",
            "单独一个样本与它在填充批次中的结果相同",
        ),
        Text("gradients", "梯度"): Text(
            "gradients match finite differences for every input and parameter",
            "每个输入和参数的梯度都与有限差分一致",
        ),
        Text("reference", "参照"): Text(
            "the fast form equals a plain loop in double precision",
            "快速形式等于双精度的朴素循环",
        ),
        Text("half precision", "半精度"): Text(
            "bfloat16 and float16 stay within their stated error",
            "bfloat16 与 float16 的误差在声明的范围内",
        ),
    }
)


class Sizes(NamedTuple):
    """The sizes that a mechanism is built for: widths of queries and keys, number of heads."""

    dim: int
    key_dim: int
    heads: int


@dataclass(frozen=True)
class Entry:
    """One mechanism of the catalog.

    `time` and `memory` are its costs, `make` builds it, and `breaks` names the LAWS that it does
    not obey, each with the reason.
    """

    name: str
    family: Family
    formula: Text
    paper: str
    year: int
    time: Text
    memory: Text
    summary: Text
    make: Callable[[Sizes], nn.Module]
    aliases: tuple[str, ...] = ()
    breaks: Mapping[str, Text] = field(default_factory=dict)

    def build(self, dim: int, *, key_dim: int | None = None, heads: int = 1) -> nn.Module:
        """The mechanism for queries of width `dim`; it is called with query, key, value and mask.

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
    """The entries by name or alias; the error for an unknown name suggests the nearest one.

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
