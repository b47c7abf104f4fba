"""From cross-attention to word links, and how well they agree with links drawn by hand.

A link is (source word, target word), counted from 0. Weights have the axes (target source): a row
says where a target word looked.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, ShapeError

Link = tuple[int, int]
Links = frozenset[Link]
Weights = Float[Tensor, "target source"]

_GOLD = re.compile(r"(\d+)([-p])(\d+)")
_NEIGHBOURS = [(down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across]


def merge_pieces(
    weights: Weights, rows: Sequence[int | None], columns: Sequence[int | None]
) -> Float[Tensor, "target_word source_word"]:
    """The weights between words, from those between pieces.

    A piece's `rows` or `columns` number is that of its word, None for a special token, which is
    left out. A word receives what its pieces receive together, and looks where its pieces look on
    average.
    """
    if weights.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"expected weights of {len(rows)} rows and {len(columns)} columns, a word for each, "
            f"got {tuple(weights.shape)}"
        )
    above, across = (_membership(words, weights) for words in (rows, columns))
    pieces = above.sum(dim=0).clamp_min(1)
    return above.T @ weights @ across / pieces[:, None]


def argmax_links(weights: Weights) -> Links:
    """Each target word with the source word that it looked at most; rows of zeros have none."""
    best = weights.argmax(dim=1).tolist()
    seen = (weights.amax(dim=1) > 0).tolist()
    return frozenset((source, row) for row, source in enumerate(best) if seen[row])


def threshold_links(weights: Weights, threshold: float) -> Links:
    """Each pair whose weight is at least the threshold."""
    pairs = (weights >= threshold).nonzero().tolist()
    return frozenset((source, target) for target, source in pairs)


def intersect_links(forward: Weights, backward: Float[Tensor, "source target"]) -> Links:
    """The links that both directions draw: the intersection of Och and Ney (2003)."""
    return argmax_links(forward) & _turned(argmax_links(backward))


def grow_diag(forward: Weights, backward: Float[Tensor, "source target"]) -> Links:
    """grow-diag (Koehn et al. 2003): the links of both directions, grown by neighbours.

    A link of either direction joins if it is beside one that is there, diagonally included, and
    one of its words has none yet.
    """
    either = argmax_links(forward) | _turned(argmax_links(backward))
    found = set(intersect_links(forward, backward))
    growing = True
    while growing:
        sources, targets = ({link[side] for link in found} for side in (0, 1))
        joining = {
            (source, target)
            for source, target in either - found
            if (source not in sources or target not in targets)
            and any((source + down, target + across) in found for down, across in _NEIGHBOURS)
        }
        growing = bool(joining)
        # one at a time: each takes words that the next may then not join by
        found |= {min(joining)} if joining else set()
    return frozenset(found)


@dataclass(frozen=True)
class GoldLinks:
    """Links drawn by hand: those that are sure, and with them those that are possible."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise InputError("every sure link is also possible; join them before building Gold")


def read_gold_links(line: str, *, first: int = 0, reverse: bool = False) -> GoldLinks:
    """Links as text: `i-j` is sure, `ipj` possible (Pharaoh's form with Och and Ney's marks).

    `first` is the number of the first word; `reverse` says that the target comes first.

    >>> from regard.measures import read_gold_links
    >>> sorted(read_gold_links("1-1 2-3 3p2", first=1).possible)
    [(0, 0), (1, 2), (2, 1)]
    """
    sure, possible = set[Link](), set[Link]()
    for word in line.split():
        parts = _GOLD.fullmatch(word)
        if parts is None or min(int(parts[1]), int(parts[3])) < first:
            raise InputError(
                f"expected links such as {first}-{first + 1} or {first}p{first + 1}, counted from "
                f"{first}, got {word!r}"
            )
        link = (int(parts[1]) - first, int(parts[3]) - first)
        link = (link[1], link[0]) if reverse else link
        possible.add(link)
        if parts[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class LinkAgreement:
    """How well links agree with gold ones, over any number of sentences."""

    precision: float
    recall: float
    error_rate: float
    """Alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|) (Och and Ney 2003)."""


def agreement(found: Iterable[Links], gold: Iterable[GoldLinks]) -> LinkAgreement:
    """The agreement over all sentences together."""
    drawn = sure = on_sure = on_possible = 0
    for links, right in zip(found, gold, strict=True):
        drawn, sure = drawn + len(links), sure + len(right.sure)
        on_sure += len(links & right.sure)
        on_possible += len(links & right.possible)
    if not drawn + sure:
        raise InputError("expected some links, drawn or gold, got none at all")
    return LinkAgreement(
        on_possible / drawn if drawn else 0.0,
        on_sure / sure if sure else 0.0,
        1 - (on_sure + on_possible) / (drawn + sure),
    )


def _membership(words: Sequence[int | None], like: Tensor) -> Float[Tensor, "piece word"]:
    count = max((word for word in words if word is not None), default=-1) + 1
    found = torch.zeros(len(words), count, dtype=like.dtype, device=like.device)
    for piece, word in enumerate(words):
        if word is not None:
            found[piece, word] = 1
    return found


def _turned(links: Links) -> Links:
    return frozenset((second, first) for first, second in links)
