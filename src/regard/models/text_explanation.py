"""The three steps of attention on the words of a text: `explain_text`.

`regard.explain` takes vectors; this module makes them of words, chooses the mechanism by its name
in the catalog, and keeps with the numbers what a reader needs to follow them: the words, the
formula of each step, and whether the mechanism's parameters are untrained.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.attention import Explanation, Mechanism, catalog, explain
from regard.attention.entry import Entry
from regard.errors import InputError
from regard.masks import causal
from regard.models.word_vectors import random_word_vectors, read_word_vectors
from regard.unicode import HAN, replace_controls

__all__ = ["StepFormulas", "TextExplanation", "explain_text", "find_word", "split_words"]

DEFAULT_DIM = 4

_HAN_OR_REST = re.compile(f"[{HAN}]|[^{HAN}]+")
_LISTED_WORDS = 20  # words that a message lists


class StepFormulas(NamedTuple):
    """The formula of each step."""

    similarity: str
    weights: str
    context: str


@dataclass(frozen=True)
class TextExplanation:
    """The words of a text, their vectors, and each step of attention between them.

    `queries` are the indices of the words that were asked about. `vectors_file` is None if the
    vectors are random. `untrained` is True if the mechanism has parameters, which are random then.
    """

    words: list[str]
    queries: list[int]
    entry: Entry
    mask: str | None
    seed: int
    vectors_file: Path | None
    formulas: StepFormulas
    untrained: bool
    vectors: Float[Tensor, "key dim"]
    steps: Explanation

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON types; the arrays have the axes query, key and dim."""
        steps, rows = self.steps, self.queries
        return {
            "mechanism": self.entry.name,
            "formulas": self.formulas._asdict(),
            "mask": self.mask,
            "seed": self.seed,
            "vectors_from": "random" if self.vectors_file is None else str(self.vectors_file),
            "words": self.words,
            "vectors": self.vectors.tolist(),
            "queries": [{"position": row + 1, "word": self.words[row]} for row in rows],
            "similarities": steps.similarities[rows].tolist(),
            "seen": steps.seen[rows].tolist(),
            "weights": steps.weights[rows].tolist(),
            "weighted_values": steps.weighted_values[rows].tolist(),
            "context": steps.context[rows].tolist(),
        }


@check_first_argument
def explain_text(
    text: str,
    query: str | None = None,
    mechanism: str = "scaled-dot",
    *,
    mask: Literal["causal"] | None = None,
    vectors: Path | None = None,
    dim: int = DEFAULT_DIM,
    seed: int = 0,
) -> TextExplanation:
    """Explain self-attention over the words of a text: each vector is query, key and value.

    `query` is one word, or its position counted from 1; without it all words are queries.
    `mechanism` is a name of `regard.catalog`. `vectors` is a file in word2vec's text format;
    without it each word gets `dim` random numbers, the same for the same `seed`.

    >>> import regard
    >>> explanation = regard.explain_text("我 爱 中国", query="爱")
    >>> explanation.words, explanation.queries
    (['我', '爱', '中国'], [1])
    >>> round(explanation.steps.weights[1].sum().item(), 6)
    1.0
    """
    words = split_words(text)
    queries = list(range(len(words))) if query is None else [find_word(words, query)]
    entry = catalog[mechanism]
    _check_explainable(entry)
    word_vectors = _stack_vectors(words, vectors, dim, seed)
    built = _build_mechanism(entry, word_vectors.shape[1], seed)
    with torch.no_grad():
        steps = explain(
            word_vectors, word_vectors, word_vectors, built, causal() if mask == "causal" else None
        )
    return TextExplanation(
        words,
        queries,
        entry,
        mask,
        seed,
        vectors_file=vectors,
        formulas=_step_formulas(entry, built),
        untrained=any(True for _ in built.parameters()),
        vectors=word_vectors,
        steps=steps,
    )


def split_words(text: str) -> list[str]:
    """The words between white space; Chinese text without white space is split into characters.

    >>> split_words("我 爱 中国"), split_words("我爱NLP"), split_words("I love you")
    (['我', '爱', '中国'], ['我', '爱', 'NLP'], ['I', 'love', 'you'])
    """
    words = text.split()
    if not words:
        raise InputError('the text has no words; give some, such as "我 爱 中国"')
    return words if len(words) > 1 else _HAN_OR_REST.findall(words[0])


def find_word(words: list[str], query: str) -> int:
    """The index of the first word that equals the query, else of the word at this position."""
    if query in words:
        return words.index(query)
    # a longer number would be no position, and int() refuses very long ones
    if query.isdecimal() and len(query) < 10 and 1 <= int(query) <= len(words):
        return int(query) - 1
    raise InputError(
        f"query={query!r} is not in the text; give one of its words or their positions: "
        f"{_list_words(words)}"
    )


def _list_words(words: list[str]) -> str:
    """The words with their positions for a message; of a long text the first ones and the last."""
    pairs = [f"{place} {replace_controls(word)}" for place, word in enumerate(words, 1)]
    if len(pairs) > _LISTED_WORDS:
        pairs = [*pairs[:_LISTED_WORDS], f"… {pairs[-1]}"]
    return ", ".join(pairs)


def _stack_vectors(
    words: list[str], file: Path | None, dim: int, seed: int
) -> Float[Tensor, "key dim"]:
    """A row for each word; in float64, so that what is shown is exact."""
    if file is None:
        vectors = random_word_vectors(words, dim, seed)
    else:
        vectors = read_word_vectors(file, words)
    return torch.tensor([vectors[word] for word in words], dtype=torch.float64)


def _check_explainable(entry: Entry) -> None:
    """Refuse a mechanism of the catalog that is a module with projections of its own."""
    if _is_plain_mechanism(entry):
        return
    known = ", ".join(name for name, other in catalog.items() if _is_plain_mechanism(other))
    raise InputError(
        f"{entry.name} does more than compare, weigh and mix, so that it has more than three "
        f"steps; explain takes one of {known}"
    )


def _is_plain_mechanism(entry: Entry) -> bool:
    if entry.family == "copying":  # more than score, weights and context
        return False
    return isinstance(_build_seeded(entry, DEFAULT_DIM, 0), Mechanism)


def _build_seeded(entry: Entry, dim: int, seed: int) -> nn.Module:
    """The entry's module with parameters of this seed; the global generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)  # not the numbers of the random vectors again
        return entry.build(dim).eval().double()


def _build_mechanism(entry: Entry, dim: int, seed: int) -> Mechanism:
    mechanism = _build_seeded(entry, dim, seed)
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _step_formulas(entry: Entry, mechanism: Mechanism) -> StepFormulas:
    """The formula of each step; an entry states that of the step which it is about."""
    similarity = entry.formula
    if entry.family not in ("score", "position"):
        # the entry is about another step: take the formula of the score that it is built with
        similarity = next(
            other.formula
            for other in catalog.values()
            if other.family == "score"
            and type(mechanism.score) is type(_build_mechanism(other, 1, 0).score)
        )
    states_weights = entry.family == "normalizer" or "α =" in entry.formula
    weights = entry.formula if states_weights else "α = softmax(e)"
    return StepFormulas(similarity, weights, "c = Σ αᵢ vᵢ")
