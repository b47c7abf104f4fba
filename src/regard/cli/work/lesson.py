"""One text taken through a mechanism: everything that `regard explain` shows, before showing it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

import regard
from regard.attention import Explanation, Mechanism
from regard.attention.entry import Entry
from regard.cli.work.vectors import random_vectors, read_vectors
from regard.cli.work.words import find, split
from regard.errors import InputError
from regard.masks import causal

MASKS = {"causal": causal}
DIM = 4


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    text: str
    query: str | None
    mechanism: str
    mask: str | None
    vectors: Path | None
    dim: int | None
    seed: int


class Formulas(NamedTuple):
    """The formula of each step."""

    similarity: str
    weights: str
    context: str


@dataclass(frozen=True)
class Lesson:
    """The words, their vectors, the mechanism and its steps; `queries` are the rows asked for."""

    request: Request
    words: list[str]
    queries: list[int]
    entry: Entry
    formulas: Formulas
    untrained: bool
    vectors: Float[Tensor, "key dim"]
    steps: Explanation


def prepare(request: Request) -> Lesson:
    """The lesson that was asked for; self-attention, each word's vector being query, key, value."""
    words = split(request.text)
    queries = list(range(len(words))) if request.query is None else [find(words, request.query)]
    entry = regard.catalog[request.mechanism]
    _check_can_be_explained(entry)
    vectors = _vectors(words, request)
    mechanism = _build(entry, vectors.shape[1], request.seed)
    mask = None if request.mask is None else MASKS[request.mask]()
    with torch.no_grad():
        steps = regard.explain(vectors, vectors, vectors, mechanism, mask)
    formulas = _formulas(entry, mechanism)
    untrained = any(True for _ in mechanism.parameters())
    return Lesson(request, words, queries, entry, formulas, untrained, vectors, steps)


def record(lesson: Lesson) -> dict[str, Any]:
    """The lesson as JSON can hold it; the arrays have the axes query, key and dim."""
    request, steps, rows = lesson.request, lesson.steps, lesson.queries
    return {
        "mechanism": lesson.entry.name,
        "formulas": lesson.formulas._asdict(),
        "mask": request.mask,
        "seed": request.seed,
        "vectors_from": "random" if request.vectors is None else str(request.vectors),
        "words": lesson.words,
        "vectors": lesson.vectors.tolist(),
        "queries": [{"position": row + 1, "word": lesson.words[row]} for row in rows],
        "similarities": steps.similarities[rows].tolist(),
        "seen": steps.seen[rows].tolist(),
        "weights": steps.weights[rows].tolist(),
        "weighted_values": steps.weighted_values[rows].tolist(),
        "context": steps.context[rows].tolist(),
    }


def _vectors(words: list[str], request: Request) -> Float[Tensor, "key dim"]:
    if request.vectors is None:
        vectors = random_vectors(words, request.dim or DIM, request.seed)
    else:
        vectors = read_vectors(request.vectors, words)
    return torch.tensor([vectors[word] for word in words], dtype=torch.float64)


def _check_can_be_explained(entry: Entry) -> None:
    if _is_mechanism(entry):
        return
    known = ", ".join(name for name, other in regard.catalog.items() if _is_mechanism(other))
    raise InputError(
        f"{entry.name} projects its inputs before it compares them, so that it has more than three "
        f"steps; explain takes one of {known}"
    )


def _is_mechanism(entry: Entry) -> bool:
    return isinstance(_seeded(entry, DIM, 0), Mechanism)


def _seeded(entry: Entry, dim: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)  # not the numbers of the random vectors again
        return entry.build(dim).eval().double()


def _build(entry: Entry, dim: int, seed: int) -> Mechanism:
    mechanism = _seeded(entry, dim, seed)
    assert isinstance(mechanism, Mechanism)
    return mechanism


def _formulas(entry: Entry, mechanism: Mechanism) -> Formulas:
    similarity = entry.formula
    if entry.family not in ("score", "position"):
        similarity = next(
            other.formula
            for other in regard.catalog.values()
            if other.family == "score" and type(mechanism.score) is type(_build(other, 1, 0).score)
        )
    own = entry.family == "normalizer" or "α =" in entry.formula
    return Formulas(similarity, entry.formula if own else "α = softmax(e)", "c = Σ αᵢ vᵢ")
