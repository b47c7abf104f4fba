"""Word links from cross-attention, and how well they agree with links drawn by hand.

A link is (source word, target word), both counted from 0. Weights have the axes (target source): a
row has the weights of one target word. For "I love you" and 我 爱 你, the links (0, 0), (1, 1) and
(2, 2) are the largest weights of the three rows.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError, ShapeError

Link = tuple[int, int]
Links = frozenset[Link]
Weights = Float[Tensor, "target source"]

_LINK = re.compile(r"(\d+)([-p])(\d+)")
_NEIGHBOURS = [(down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across]


@check_first_argument
def merge_pieces(
    weights: Weights, rows: Sequence[int | None], columns: Sequence[int | None]
) -> Float[Tensor, "target_word source_word"]:
    """The weights between words, from the weights between pieces.

    `rows` and `columns` have the word number of each piece, None for special tokens, which are left
    out. A word receives the sum of what its pieces receive, and attends as they do on average.
    """
    if weights.shape != (len(rows), len(columns)):
        raise ShapeError(
            f"expected weights of {len(rows)} rows and {len(columns)} columns, a word for each, "
            f"got {tuple(weights.shape)}"
        )
    target_members, source_members = (_membership(words, weights) for words in (rows, columns))
    pieces_per_word = target_members.sum(dim=0).clamp_min(1)
    return target_members.T @ weights @ source_members / pieces_per_word[:, None]


@check_first_argument
def argmax_links(weights: Weights) -> Links:
    """Links each target word to the source word with its largest weight; a zero row has no link."""
    best = weights.argmax(dim=1).tolist()
    attends = (weights.amax(dim=1) > 0).tolist()
    return frozenset((source, row) for row, source in enumerate(best) if attends[row])


@check_first_argument
def threshold_links(weights: Weights, threshold: float) -> Links:
    """Links all pairs whose weight is at least the threshold."""
    pairs = (weights >= threshold).nonzero().tolist()
    return frozenset((source, target) for target, source in pairs)


@check_first_argument
def intersect_links(forward: Weights, backward: Float[Tensor, "source target"]) -> Links:
    """The argmax links that both directions share: the intersection of Och and Ney (2003)."""
    return argmax_links(forward) & _swap_sides(argmax_links(backward))


@check_first_argument
def grow_diag(forward: Weights, backward: Float[Tensor, "source target"]) -> Links:
    """grow-diag (Koehn et al. 2003): the shared links of both directions, grown by neighbours.

    A link of one direction is added if it is next to a link, also diagonally, and one of its words
    has no link yet.
    """
    either = argmax_links(forward) | _swap_sides(argmax_links(backward))
    links = set(intersect_links(forward, backward))
    growing = True
    while growing:
        sources, targets = ({link[side] for link in links} for side in (0, 1))
        candidates = {
            (source, target)
            for source, target in either - links
            if (source not in sources or target not in targets)
            and any((source + down, target + across) in links for down, across in _NEIGHBOURS)
        }
        growing = bool(candidates)
        # one at a time: a link that is added takes words away from the next candidates
        links |= {min(candidates)} if candidates else set()
    return frozenset(links)


@dataclass(frozen=True)
class GoldLinks:
    """Links drawn by hand: the sure ones, and the possible ones, which include the sure ones."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise InputError("every sure link is also possible; join them before building Gold")


@check_first_argument
def read_gold_links(line: str, *, first: int = 0, reverse: bool = False) -> GoldLinks:
    """Parse links: `i-j` is a sure link, `ipj` a possible one (Pharaoh's format, Och and Ney's p).

    `first` is the number of the first word, 0 or 1; `reverse` says that the target comes first.

    >>> from regard.measures import read_gold_links
    >>> sorted(read_gold_links("1-1 2-3 3p2", first=1).possible)
    [(0, 0), (1, 2), (2, 1)]
    """
    sure, possible = set[Link](), set[Link]()
    for word in line.split():
        parts = _LINK.fullmatch(word)
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
    """How well links agree with gold links, over any number of sentences."""

    precision: float
    recall: float
    error_rate: float
    """Alignment error rate, 1 - (|A & S| + |A & P|) / (|A| + |S|) (Och and Ney 2003)."""


@check_first_argument
def agreement(drawn_links: Iterable[Links], gold: Iterable[GoldLinks]) -> LinkAgreement:
    """Precision, recall and alignment error rate over all sentences together."""
    drawn = sure = on_sure = on_possible = 0
    for links, gold_links in zip(drawn_links, gold, strict=True):
        drawn, sure = drawn + len(links), sure + len(gold_links.sure)
        on_sure += len(links & gold_links.sure)
        on_possible += len(links & gold_links.possible)
    if not drawn + sure:
        raise InputError("expected some links, drawn or gold, got none at all")
    return LinkAgreement(
        on_possible / drawn if drawn else 0.0,
        on_sure / sure if sure else 0.0,
        1 - (on_sure + on_possible) / (drawn + sure),
    )


def _membership(words: Sequence[int | None], like: Tensor) -> Float[Tensor, "piece word"]:
    """A matrix with 1 where a piece belongs to a word, of the dtype and device of `like`."""
    count = max((word for word in words if word is not None), default=-1) + 1
    member = torch.zeros(len(words), count, dtype=like.dtype, device=like.device)
    for piece, word in enumerate(words):
        if word is not None:
            member[piece, word] = 1
    return member


def _swap_sides(links: Links) -> Links:
    """The links with source and target exchanged."""
    return frozenset((second, first) for first, second in links)
