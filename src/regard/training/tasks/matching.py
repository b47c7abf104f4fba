"""Training a matcher: which of some entries answers a question."""

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.matching import Matcher
from regard.models.nearness import nearness, text_states
from regard.models.tokenizers import Tokenizer
from regard.models.transformer.model import Transformer
from regard.training.batches import Batches, Example
from regard.training.loop import Metrics
from regard.training.match_metrics import match_metrics
from regard.training.matches import Match, MatchFiles
from regard.training.recipe import Recipe
from regard.training.tasks.batch import TensorBatch, pad_rows, special_token_id

SAMPLES = 3  # questions that are reported with each evaluation
_PAIR = "$A </s> $B:1 </s>:1"
_OWN = 2  # wrong entries of a question, drawn anew for each batch
_NEAR_SHARPNESS = 16.0  # of nearness, whose values lie close together
_SHARED = 16  # entries of other questions in a batch, besides those that are right there


class Matching:
    """Questions with entries that answer them, such as relations, and entries that do not.

    The loss of a question is the cross-entropy of its right entries among all entries of the batch:
    those of its own line and, for a model that encodes each text alone, those of the other
    questions. Such models are a Matcher, which also gets some entries drawn from the whole corpus,
    and a Transformer with head = "none", a sentence encoder that is trained by nearness
    (`regard.models.nearness`). Other Transformers read each question with each of its entries.
    """

    transformer_settings: ClassVar[dict[str, Any]] = {
        "kind": "encoder",
        "head": "classes",
        "labels": 1,
        "types": 2,
    }

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.prefix = len(tokenizer("a")["input_ids"]) - 1 - _ends_with_special(tokenizer)

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the questions and entries."""
        vocabulary, files = recipe.vocabulary, _training_files(recipe)
        lines = chain.from_iterable((each.question, *each.right, *each.wrong) for each in files)
        learnt = vocabulary.learn(lines, vocabulary.kind, vocabulary.size)
        return learnt.with_template("$A </s>", _PAIR)

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """A matcher has no settings that follow from the data."""
        return {}

    def batches(self) -> Batches:
        """The training questions in batches without end."""
        plan = self.recipe.plan
        return Batches(
            _training_files(self.recipe), self.encode, plan.tokens, seed=self.recipe.seed
        )

    def encode(self, lines: list[Match]) -> list[Example]:
        """For each line the number of its right entries, all entries, and the question."""
        # the question stands last, because batches are made of examples with last sides alike
        return [
            ([0] * len(each.right), *map(self._ids, _entries(each)), self._ids(each.question))
            for each in lines
        ]

    def _ids(self, text: str) -> list[int]:
        """The ids of a text, cut to `data.longest` tokens with its last special token kept."""
        known = self._known
        if text not in known:
            longest = min(self.recipe.data.longest, self.recipe.plan.tokens)
            known[text] = self.tokenizer([text], truncation=True, max_length=longest)["input_ids"][
                0
            ]
        return known[text]

    @cached_property
    def _known(self) -> dict[str, list[int]]:
        """The ids of texts that were met: a relation is an entry of many questions."""
        return {}

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The questions, the entries without repetition, and which of them are whose.

        Labels are 1 for a right entry of a question, 0 for one that it is compared with, and -100
        for others.
        """
        numbers: dict[tuple[int, ...], int] = {}
        right, own = [], []
        for count, *entries, _ in examples:
            places = [
                numbers.setdefault(tuple(each), len(numbers)) for each in entries[: len(count)]
            ]
            right.append(places)
            wrong = entries[len(count) :]
            chosen = torch.randperm(len(wrong))[:_OWN].tolist()
            own.append([numbers.setdefault(tuple(wrong[n]), len(numbers)) for n in chosen])
        for entry in self._draw_entries():
            numbers.setdefault(tuple(entry), len(numbers))
        labels = torch.full((len(examples), len(numbers)), -100)
        for row, (rights, wrongs) in enumerate(zip(right, own, strict=True)):
            labels[row, wrongs] = 0
            labels[row, rights] = 1
        inputs = self._padded("question", [list(each[-1]) for each in examples])
        inputs |= self._padded("entry", [list(entry) for entry in numbers])
        return TensorBatch(inputs, labels, len(examples))

    def _draw_entries(self) -> list[list[int]]:
        """Some entries of the corpus by chance; none for a model that reads pairs one by one."""
        if self.recipe.model.get("class", "transformer") != "matcher":
            return []
        pool = self._pool
        return [pool[n] for n in torch.randint(len(pool), (_SHARED,)).tolist()]

    @cached_property
    def _pool(self) -> list[list[int]]:
        """Each right entry of the training questions once."""
        texts = {entry for each in _training_files(self.recipe) for entry in each.right}
        return [self._ids(text) for text in sorted(texts)]

    def _padded(self, name: str, rows: list[list[int]]) -> dict[str, Int[Tensor, "text token"]]:
        """The ids of some texts and their mask."""
        return {
            f"{name}_ids": pad_rows(rows, special_token_id(self.tokenizer, "pad")),
            f"{name}_mask": pad_rows([[1] * len(row) for row in rows], 0),
        }

    def loss(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """The cross-entropy of the right entries of each question, summed over the questions."""
        labels = batch.labels
        scores = _match_all(model, batch)
        scores = self._score_pairs(model, batch) if scores is None else scores
        right = scores.masked_fill(labels != 1, -math.inf).logsumexp(1)
        return (scores.logsumexp(1) - right).sum()

    def evaluate(self, model: nn.Module) -> Metrics:
        """How often the first entry is right, and the mean reciprocal rank; the first decides."""
        device, held_out = next(model.parameters()).device, self._held_out
        scores: list[list[float]] = []
        for start in range(0, len(held_out), 16):
            batch = self._evaluation_batch(held_out[start : start + 16]).to(device)
            grid = _match_all(model, batch)
            grid = self._score_pairs(model, batch) if grid is None else grid
            scores += [row[own >= 0].tolist() for row, own in zip(grid, batch.labels, strict=True)]
        # the entries of a line come first, the right ones before the others, without repetition
        right = [_flags(each) for each in held_out]
        metrics = match_metrics(scores, right)
        samples = tuple(
            {"question": each.question, "target": each.right[0], "output": _best(each, row)}
            for each, row in islice(zip(held_out, scores, strict=True), SAMPLES)
        )
        return Metrics({"first": metrics.first, "mrr": metrics.mrr}, metrics.first, samples)

    def _evaluation_batch(self, lines: list[Match]) -> TensorBatch:
        """Each question with all entries of its line, in columns of their own."""
        entries = [entry for each in lines for entry in _distinct(each)]
        labels = torch.full((len(lines), len(entries)), -100)
        column = 0
        for row, each in enumerate(lines):
            flags = _flags(each)
            labels[row, column : column + len(flags)] = torch.tensor(flags).long()
            column += len(flags)
        inputs = self._padded("question", [self._ids(each.question) for each in lines])
        inputs |= self._padded("entry", [self._ids(entry) for entry in entries])
        return TensorBatch(inputs, labels, len(lines))

    def _score_pairs(self, model: Any, batch: TensorBatch) -> Float[Tensor, "question entry"]:
        """The scores of the pairs that have a label by a model that reads both texts at once."""
        rows, columns = (batch.labels >= 0).nonzero(as_tuple=True)
        scores = torch.full(batch.labels.shape, -math.inf, device=batch.labels.device)
        pairs = [
            (
                _real(batch, "question", int(row)),
                _real(batch, "entry", int(column))[self.prefix :],
            )
            for row, column in zip(rows, columns, strict=True)
        ]
        inputs = {
            "input_ids": pad_rows(
                [a + b for a, b in pairs], special_token_id(self.tokenizer, "pad")
            ),
            "attention_mask": pad_rows([[1] * len(a + b) for a, b in pairs], 0),
            "token_type_ids": pad_rows([[0] * len(a) + [1] * len(b) for a, b in pairs], 0),
        }
        if not model.config.types:
            del inputs["token_type_ids"]
        device = batch.labels.device
        logits = model(**{name: tensor.to(device) for name, tensor in inputs.items()})[:, 0]
        return scores.index_put((rows, columns), logits.float())

    @cached_property
    def _held_out(self) -> list[Match]:
        return list(islice(MatchFiles((self.recipe.data.dev,)), self.recipe.plan.examples))


def _entries(match: Match) -> Iterator[str]:
    """The entries of a line, the right ones first."""
    return chain(match.right, match.wrong)


def _distinct(match: Match) -> list[str]:
    """The entries of a line without repetition, the right ones first."""
    return list(dict.fromkeys(_entries(match)))


def _flags(match: Match) -> list[bool]:
    """Which of the distinct entries of a line are right."""
    return [entry in match.right for entry in _distinct(match)]


def _best(match: Match, scores: list[float]) -> str:
    """The entry of a line with the highest score."""
    return _distinct(match)[max(range(len(scores)), key=scores.__getitem__)]


def _match_all(model: Any, batch: TensorBatch) -> Float[Tensor, "question entry"] | None:
    """The scores of all questions and entries of a batch; None for a model that reads pairs."""
    if isinstance(model, Transformer) and model.config.ending != "none":
        return None
    asked, entries = (_encode_side(model, batch, side) for side in ("question", "entry"))
    if isinstance(model, Matcher):
        return model.match(asked, entries).float()
    # cosines are close together, and bfloat16 has three digits
    with torch.autocast(asked.mean.device.type, enabled=False):
        return _NEAR_SHARPNESS * nearness(asked, entries)


def _encode_side(model: Any, batch: TensorBatch, side: str) -> Any:
    """The questions or the entries of a batch, encoded alone."""
    ids, mask = (batch.inputs[f"{side}_{name}"] for name in ("ids", "mask"))
    if isinstance(model, Matcher):
        return model.encode(ids, attention_mask=mask)
    return text_states(model(ids, attention_mask=mask).float(), mask.bool())


def _real(batch: TensorBatch, name: str, row: int) -> list[int]:
    """The ids of one text of a batch, without padding."""
    kept: Bool[Tensor, " token"] = batch.inputs[f"{name}_mask"][row].bool()
    ids: list[int] = batch.inputs[f"{name}_ids"][row][kept].tolist()
    return ids


def _ends_with_special(tokenizer: Tokenizer) -> bool:
    """True if the tokenizer puts a special token after a text."""
    encoding = tokenizer("a")["input_ids"]
    special = [tokenizer.eos_token_id, tokenizer.sep_token_id]
    return encoding[-1] in [each for each in special if each is not None]


def _training_files(recipe: Recipe) -> MatchFiles:
    """The training files; an InputError for a pair of parallel files."""
    files = tuple(name for name in recipe.data.train if isinstance(name, str))
    if len(files) < len(recipe.data.train):
        raise InputError(
            "a matcher trains on files of questions and entries; data.train names two parallel "
            "files, which are for translation"
        )
    return MatchFiles(files)
