"""Training a reader: where in a text the answer to a question begins and ends."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.spans import WindowLogits, search_spans
from regard.models.tokenizers import Tokenizer
from regard.models.tokenizers.windows import encode_windows
from regard.training.answer_metrics import answer_metrics
from regard.training.batches import Batches, Example
from regard.training.loop import Metrics
from regard.training.questions import Question, QuestionFiles
from regard.training.recipe import Recipe
from regard.training.tasks.batch import TensorBatch, pad_rows, special_token_id

SAMPLES = 3  # answers that are reported with each evaluation
_OVERLAP = 4  # one of four tokens of a window is also in the next window
_TEMPLATE = "<s> $A </s>"
_PAIR = "<s> $A </s> $B:1 </s>:1"


@dataclass(frozen=True)
class ReaderWindow:
    """A question with a part of its text: ids, segments, and the characters of the text's tokens.

    `offsets` has for each token its characters in the text, None for tokens of the question.
    """

    ids: list[int]
    types: list[int]
    offsets: list[tuple[int, int] | None]

    @property
    def choosable(self) -> list[int]:
        """1 for each token that an answer may begin or end with: those of the text, and the first.

        The first token stands for "no answer".
        """
        return [int(index == 0 or span is not None) for index, span in enumerate(self.offsets)]

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """The first and last token of some characters; (0, 0) if they are not in this window."""
        tokens = [
            index
            for index, span in enumerate(self.offsets)
            if span is not None and span[0] < stop and start < span[1]
        ]
        if not tokens:
            return 0, 0
        first, last = self.offsets[tokens[0]], self.offsets[tokens[-1]]
        assert first is not None
        assert last is not None
        whole = first[0] <= start and stop <= last[1]
        return (tokens[0], tokens[-1]) if whole else (0, 0)


class Answering:
    """Questions with texts, read in windows of at most `data.longest` tokens.

    The first token stands for "no answer": a window without the answer points to it.
    """

    transformer_settings: ClassVar[dict[str, Any]] = {
        "kind": "encoder",
        "head": "spans",
        "types": 2,
    }

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the questions and texts, which begins each pair with <s>."""
        vocabulary = recipe.vocabulary
        learnt = vocabulary.learn(Answering.texts(recipe), vocabulary.kind, vocabulary.size)
        return learnt.with_template(_TEMPLATE, _PAIR)

    @staticmethod
    def texts(recipe: Recipe) -> Iterator[str]:
        """The training questions, and each text once where its questions follow each other."""
        last = None
        for question in _training_files(recipe):
            yield question.question
            if question.context != last:
                yield question.context
            last = question.context

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """A span head has no settings of its own."""
        return {}

    def batches(self) -> Batches:
        """The windows of the training questions in batches without end."""
        plan = self.recipe.plan
        return Batches(
            _training_files(self.recipe), self.encode, plan.tokens, seed=self.recipe.seed
        )

    def encode(self, lines: list[Question]) -> list[Example]:
        """The ids and segments of each window, and the first and last token of the answer."""
        examples: list[Example] = []
        generator = random.Random(f"{self.recipe.seed} unanswered")
        for question, windows in zip(lines, self.windows(lines), strict=True):
            answer = question.answers[0] if question.answers else None
            for window in windows:
                place = (0, 0)
                if answer is not None:
                    place = window.place(answer.start, answer.start + len(answer.text))
                if place == (0, 0) and generator.random() >= self.recipe.data.unanswered:
                    continue
                examples.append((window.ids, window.types, window.choosable, place))
        return examples

    def windows(self, lines: list[Question]) -> Iterator[list[ReaderWindow]]:
        """The windows of each question's text."""
        longest = min(self.recipe.data.longest, self.recipe.plan.tokens)
        pairs = [(each.question, each.context) for each in lines]
        encoded = encode_windows(
            self.tokenizer.backend_tokenizer, pairs, longest, longest // _OVERLAP
        )
        for encodings in encoded:
            yield [
                ReaderWindow(
                    encoding.ids,
                    encoding.type_ids,
                    [
                        span if sequence == 1 else None
                        for span, sequence in zip(
                            encoding.offsets, encoding.sequence_ids, strict=True
                        )
                    ],
                )
                for encoding in encodings
            ]

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The tensors of some windows."""
        ids, types, choosable, places = zip(*examples, strict=True)
        inputs = {
            "input_ids": pad_rows(ids, special_token_id(self.tokenizer, "pad")),
            "attention_mask": pad_rows([[1] * len(row) for row in ids], 0),
            "token_type_ids": pad_rows(types, 0),
            "choosable": pad_rows(choosable, 0),
        }
        return TensorBatch(inputs, torch.tensor(places), len(places))

    def loss(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """The mean cross-entropy of start and end, summed over the windows.

        Only tokens of the text, and the first token, can be chosen.
        """
        hidden = batch.inputs["choosable"] == 0
        logits = _run_reader(model, batch).float().masked_fill(hidden[..., None], -math.inf)
        # without label smoothing, which would give weight to tokens that cannot be chosen
        starts = F.cross_entropy(logits[..., 0], batch.labels[:, 0], reduction="sum")
        ends = F.cross_entropy(logits[..., 1], batch.labels[:, 1], reduction="sum")
        return (starts + ends) / 2

    def evaluate(self, model: nn.Module) -> Metrics:
        """Exact match and F1 on held-out questions; F1 decides."""
        held_out = self._held_out
        answers = self.find_answers(model, held_out)
        gold = [[answer.text for answer in question.answers] for question in held_out]
        metrics = answer_metrics(answers, gold)
        samples = [
            {"question": each.question, "target": " / ".join(true), "output": answer or "–"}
            for each, true, answer in islice(zip(held_out, gold, answers, strict=True), SAMPLES)
        ]
        values = {"exact": metrics.exact, "f1": metrics.f1}
        return Metrics(values, metrics.f1, tuple(samples))

    def find_answers(self, model: nn.Module, questions: list[Question]) -> list[str | None]:
        """The model's answer to each question; None where it finds none.

        Where every question has an answer, "no answer" is not offered.
        """
        may_be_none = any(not question.answers for question in questions)
        windows = [
            (index, each) for index, own in enumerate(self.windows(questions)) for each in own
        ]
        logits = self._window_logits(model, [window for _, window in windows])
        answers: list[str | None] = []
        for number, question in enumerate(questions):
            own = [place for place, (index, _) in enumerate(windows) if index == number]
            found = [_context_logits(windows[place][1], logits[place]) for place in own]
            spans, none = search_spans([each for each, _ in found], no_answer=may_be_none)
            best = spans[0] if spans else None
            if best is None or best.log_probability < none:
                answers.append(None)
                continue
            offsets = found[best.window][1]
            answers.append(question.context[offsets[best.first][0] : offsets[best.last][1]].strip())
        return answers

    def _window_logits(self, model: nn.Module, windows: list[ReaderWindow]) -> list[Tensor]:
        """The logits of the tokens of each window, run in batches of similar length."""
        device = next(model.parameters()).device
        order = sorted(range(len(windows)), key=lambda index: len(windows[index].ids))
        logits: dict[int, Tensor] = {}
        size = max(1, self.recipe.plan.tokens // max(1, self.recipe.data.longest))
        for start in range(0, len(order), size):
            indices = order[start : start + size]
            rows: list[Example] = [
                (windows[n].ids, windows[n].types, windows[n].choosable, (0, 0)) for n in indices
            ]
            output = _run_reader(model, self.collate(rows).to(device)).float().cpu()
            logits |= {
                n: row[: len(windows[n].ids)] for n, row in zip(indices, output, strict=True)
            }
        return [logits[index] for index in range(len(windows))]

    @cached_property
    def _held_out(self) -> list[Question]:
        return list(islice(QuestionFiles((self.recipe.data.dev,)), self.recipe.plan.examples))


def _run_reader(model: Any, batch: TensorBatch) -> Float[Tensor, "batch length 2"]:
    """The logits of start and end; segments are left out if the model does not have any."""
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * bool(model.config.types)
    logits: Tensor = model(**{name: batch.inputs[name] for name in names})
    return logits


def _context_logits(
    window: ReaderWindow, logits: Float[Tensor, "length 2"]
) -> tuple[WindowLogits, list[tuple[int, int]]]:
    """The logits of the text's tokens and of "no answer", and the characters of these tokens."""
    places = [index for index, span in enumerate(window.offsets) if span is not None]
    offsets = [span for span in window.offsets if span is not None]
    return WindowLogits(logits[places], logits[0]), offsets


def _training_files(recipe: Recipe) -> QuestionFiles:
    """The training files; an InputError for a pair of parallel files."""
    files = tuple(name for name in recipe.data.train if isinstance(name, str))
    if len(files) < len(recipe.data.train):
        raise InputError(
            "a reader trains on files of questions; data.train names two parallel files, which "
            "are for translation"
        )
    return QuestionFiles(files)
