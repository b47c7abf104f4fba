"""What is learnt: translating, or continuing a text. A task makes batches, losses and scores."""

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.tokenizers import Tokenizer
from regard.training.batches import Batches, Example
from regard.training.corpora import Pair, pairs, texts
from regard.training.loop import Scores
from regard.training.losses import IGNORED, Baseline, projected_cross_entropy, reinforced
from regard.training.recipe import Recipe
from regard.training.scoring import Scored, score
from regard.training.translating import translated

SHOWN = 3  # examples of an evaluation that are told with it


@dataclass(frozen=True, eq=False)
class Batch:
    """The tensors of some examples; `labels` are -100 where nothing is to be predicted."""

    inputs: Mapping[str, Int[Tensor, "batch length"]]
    labels: Int[Tensor, "batch target"]
    tokens: int

    @property
    def padding(self) -> float:
        """The share of the labels that is padding."""
        return 1 - self.tokens / self.labels.numel()

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""
        inputs = {name: each.to(device) for name, each in self.inputs.items()}
        return replace(self, inputs=inputs, labels=self.labels.to(device))


class Translation:
    """Pairs of sentences: the target is predicted from the source and its own beginning."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, *, start: int | None = None) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.start = _id(tokenizer.target, "bos") if start is None else start
        self.baseline = Baseline()

    def batches(self) -> Batches:
        """The training pairs."""
        data, plan = self.recipe.data, self.recipe.plan
        corpus: Iterable[Pair] = pairs(*data.train)
        if data.stripped:
            corpus = Stripped(corpus, data.stripped, self.recipe.seed)
        return Batches(
            corpus, self.encode, plan.tokens, seed=self.recipe.seed, longest=data.longest
        )

    def encode(self, lines: list[Pair]) -> list[Example]:
        """The ids of both sides of each pair, each with its end."""
        source, target = self.tokenizer.source, self.tokenizer.target
        above = source([pair.source for pair in lines])["input_ids"]
        below = target([pair.target for pair in lines])["input_ids"]
        return list(zip(above, below, strict=True))

    def collate(self, examples: list[Example]) -> Batch:
        """Sources and targets filled up; the decoder reads each target one token late."""
        source, target = zip(*examples, strict=True)
        ids = _filled(source, _id(self.tokenizer.source, "pad"))
        labels = _filled(target, IGNORED)
        start = torch.full((len(target), 1), self.start)
        pad = _id(self.tokenizer.target, "pad")
        late = torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad)], dim=1)
        real = _filled([[1] * len(each) for each in source], 0)
        inputs = {"input_ids": ids, "decoder_input_ids": late, "attention_mask": real}
        return Batch(inputs, labels, sum(map(len, target)))

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """The cross-entropy of the target's tokens; REINFORCE adds to its gradient alone."""
        plan = self.recipe.plan
        if plan.hard != "reinforce":
            return _loss(model, batch, plan.smoothing)
        ids, late = batch.inputs["input_ids"], batch.inputs["decoder_input_ids"]
        logits, chosen = model.rehearse(ids, late, attention_mask=batch.inputs["attention_mask"])
        return reinforced(logits, chosen, batch.labels, self.baseline, plan.smoothing)

    def state(self) -> dict[str, float | None]:
        """What the task remembers from step to step."""
        return {"baseline": self.baseline.value}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with what it remembered."""
        self.baseline = Baseline(state["baseline"])

    def evaluate(self, model: nn.Module) -> Scores:
        """BLEU, chrF and the loss of a token on held-out pairs."""
        held = self._held
        written = translated(model, [pair.source for pair in held], beam=self.recipe.plan.beam)
        found = score(written, [pair.target for pair in held], self.recipe.data.language)
        loss = _mean_loss(model, self._held_batches)
        samples = [
            {"source": pair.source, "target": pair.target, "output": output}
            for pair, output in islice(zip(held, written, strict=True), SHOWN)
        ]
        return _scores(found, loss, tuple(samples))

    @cached_property
    def _held(self) -> list[Pair]:
        return list(islice(pairs(self.recipe.data.dev), self.recipe.plan.examples))

    @cached_property
    def _held_batches(self) -> list[Batch]:
        found = Batches(self._held, self.encode, self.recipe.plan.tokens)
        return list(_one_epoch(found, self.collate))


class LanguageModelling:
    """Texts: each token is predicted from those before it."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer

    def batches(self) -> Batches:
        """The training texts, in pieces of at most the longest length."""
        data, plan = self.recipe.data, self.recipe.plan
        longest = data.longest + 1  # a piece of n tokens predicts n - 1
        return Batches(
            texts(*data.train), self.encode, plan.tokens, seed=self.recipe.seed, longest=longest
        )

    def encode(self, lines: list[str]) -> list[Example]:
        """The ids of each text between its marks, cut into pieces that overlap by one token."""
        start, end = (_id(self.tokenizer, mark) for mark in ("bos", "eos"))
        most, found = self.recipe.data.longest, list[Example]()
        for ids in self.tokenizer(lines, add_special_tokens=False)["input_ids"]:
            marked = [start, *ids, end]
            pieces = range(0, max(1, len(marked) - 1), most)
            found += [(marked[first : first + most + 1],) for first in pieces]
        return found

    def collate(self, examples: list[Example]) -> Batch:
        """Every token but the last is read, every one but the first predicted."""
        whole = [sides[0] for sides in examples]
        ids = _filled([each[:-1] for each in whole], _id(self.tokenizer, "pad"))
        labels = _filled([each[1:] for each in whole], IGNORED)
        return Batch({"input_ids": ids}, labels, sum(len(each) - 1 for each in whole))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The cross-entropy of the tokens."""
        return _loss(model, batch, self.recipe.plan.smoothing)

    def evaluate(self, model: nn.Module) -> Scores:
        """The loss of a token on held-out texts, and its exponential."""
        loss = _mean_loss(model, self._held_batches)
        return Scores({"loss": loss, "perplexity": math.exp(min(loss, 80.0))}, -loss)

    @cached_property
    def _held_batches(self) -> list[Batch]:
        held = list(islice(texts(self.recipe.data.dev), self.recipe.plan.examples))
        longest = self.recipe.data.longest + 1
        found = Batches(held, self.encode, self.recipe.plan.tokens, longest=longest)
        return list(_one_epoch(found, self.collate))


@dataclass(frozen=True)
class Stripped:
    """Pairs, some of them once more without the punctuation at both ends."""

    corpus: Iterable[Pair]
    share: float
    seed: int

    def __iter__(self) -> Iterator[Pair]:
        chance = random.Random(f"{self.seed} stripped")
        for pair in self.corpus:
            yield pair
            bare = Pair(*(side.rstrip(_MARKS) for side in pair))
            if bare != pair and all(bare) and chance.random() < self.share:
                yield bare


_MARKS = ".!?。！？ "

TASKS = {"translation": Translation, "language-modelling": LanguageModelling}


def _loss(model: Any, batch: Batch, smoothing: float) -> Tensor:
    features, (weight, bias) = model.features(**batch.inputs), model.projection
    return projected_cross_entropy(features, weight, bias, batch.labels, smoothing)


def held_loss(model: nn.Module, task: Any, batches: Batches) -> float:
    """The mean loss of a token of examples that a task takes apart, each once."""
    return _mean_loss(model, _one_epoch(batches, task.collate))


def _mean_loss(model: nn.Module, batches: Iterable[Batch]) -> float:
    """Without smoothing: comparable between recipes."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for batch in batches:
        total += _loss(model, batch.to(device), 0.0).item()
        tokens += batch.tokens
    return total / tokens


def _one_epoch(found: Batches, collate: Any) -> Iterator[Batch]:
    for examples in found:
        if found.place.epoch:
            return
        yield collate(examples)


def _scores(found: Scored, loss: float, samples: tuple[Mapping[str, str], ...]) -> Scores:
    numbers = {"loss": loss, "bleu": found.bleu, "chrf": found.chrf}
    return Scores(numbers, found.chrf, samples)


def _filled(rows: Iterable[Iterable[int]], filling: int) -> Int[Tensor, "batch length"]:
    tensors = [torch.tensor(list(row), dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=filling)


def _id(tokenizer: Tokenizer, role: str) -> int:
    found = getattr(tokenizer, f"{role}_token_id")
    if found is None:
        raise InputError(f"training needs a tokenizer with a {role} token; this one has none")
    return int(found)
