"""Training a summariser: a short text is written or copied from a long one."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.tokenizers import Tokenizer
from regard.models.tokenizers.unknown_words import number_per_example
from regard.training.batches import Batches, Example
from regard.training.loop import Metrics
from regard.training.losses import IGNORED
from regard.training.recipe import Recipe
from regard.training.summaries import SummarisedText, SummaryFiles
from regard.training.summary_metrics import mean_rouge, rouge_scores
from regard.training.tasks.batch import TensorBatch, one_epoch, pad_rows, special_token_id

SAMPLES = 3  # summaries that are reported with each evaluation
TEXTS_AT_A_TIME = 32  # that are summarised as one batch


class Summarisation:
    """Texts with summaries; a text is cut to its first `data.longest` tokens.

    Words that the vocabulary lacks have ids of their own in each example, so that the model learns
    to copy them (See et al. 2017, section 2.2).
    """

    transformer_settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the texts and the summaries, which share it."""
        vocabulary = recipe.vocabulary
        if vocabulary.target_size is not None:
            raise InputError(
                "a summariser copies words, so that both sides need one vocabulary; leave out "
                "vocabulary.target_size"
            )
        sides = (side for each in _training_files(recipe) for side in each)
        return vocabulary.learn(sides, vocabulary.kind, vocabulary.size)

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """Nothing: the vocabulary is all that the model has to know of the data."""
        return {}

    def batches(self) -> Batches:
        """The training texts in batches without end."""
        plan = self.recipe.plan
        return Batches(
            _training_files(self.recipe), self.encode, plan.tokens, seed=self.recipe.seed
        )

    def encode(self, lines: list[SummarisedText]) -> list[Example]:
        """The ids of each text and of its summary, with ids of its own for unknown words."""
        longest = min(self.recipe.data.longest, self.recipe.plan.tokens)
        extended = self.tokenizer.with_words_of(each.text for each in lines)
        options: dict[str, Any] = {"truncation": True, "max_length": longest}
        sources = extended([each.text for each in lines], **options)["input_ids"]
        targets = extended([each.summary for each in lines], **options)["input_ids"]
        vocab, unknown = len(self.tokenizer), self.tokenizer.unk_token_id or 0
        return [
            number_per_example(source, target, vocab, unknown)
            for source, target in zip(sources, targets, strict=True)
        ]

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The tensors of some examples; the decoder reads each summary shifted right by one."""
        sources, targets = zip(*examples, strict=True)
        pad = special_token_id(self.tokenizer, "pad")
        labels = pad_rows(targets, IGNORED)
        start = torch.full((len(targets), 1), special_token_id(self.tokenizer, "bos"))
        before = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad)
        inputs = {
            "input_ids": pad_rows(sources, pad),
            "decoder_input_ids": torch.cat([start, before], dim=1),
            "attention_mask": pad_rows([[1] * len(source) for source in sources], 0),
        }
        return TensorBatch(inputs, labels, sum(map(len, targets)))

    def loss(self, model: Any, batch: TensorBatch) -> Tensor:
        """-log P(summary) and the coverage loss, summed over the tokens (See et al., eq. 13).

        Label smoothing changes the distribution of generating alone.
        """
        plan, counted = self.recipe.plan, batch.labels != IGNORED
        mixture = model.mixture(**batch.inputs, covered=plan.coverage > 0)
        losses = -mixture.log_probability_of(batch.labels.clamp_min(0), plan.smoothing)
        if plan.coverage:
            losses = losses + plan.coverage * mixture.coverage_loss
        total: Tensor = losses[counted].sum()
        return total

    def evaluate(self, model: nn.Module) -> Metrics:
        """ROUGE and the mean loss of a token on held-out texts; the mean of ROUGE decides."""
        texts, references = zip(*self._held_out, strict=True)
        outputs = summarise_all(
            model, texts, beam=self.recipe.plan.beam, longest=self.recipe.data.longest
        )
        rouge = mean_rouge(rouge_scores(outputs, references))
        samples = [
            {"source": text, "target": reference, "output": output}
            for text, reference, output in islice(
                zip(texts, references, outputs, strict=True), SAMPLES
            )
        ]
        values = {"loss": self._token_loss(model), **rouge._asdict()}
        return Metrics(values, rouge.mean, tuple(samples))

    def _token_loss(self, model: Any) -> float:
        """-log P of a held-out token, without smoothing and coverage: comparable between plans."""
        device, total, tokens = next(model.parameters()).device, 0.0, 0
        for batch in self._held_out_batches:
            own = batch.to(device)
            likelihood = model.mixture(**own.inputs).log_probability_of(own.labels.clamp_min(0))
            total -= float(likelihood[own.labels != IGNORED].sum())
            tokens += batch.tokens
        return total / tokens

    @cached_property
    def _held_out(self) -> list[SummarisedText]:
        return list(islice(SummaryFiles((self.recipe.data.dev,)), self.recipe.plan.examples))

    @cached_property
    def _held_out_batches(self) -> list[TensorBatch]:
        """The batches of the held-out texts, encoded once for all evaluations."""
        batches = Batches(self._held_out, self.encode, self.recipe.plan.tokens)
        return list(one_epoch(batches, self.collate))


class TextSummary(NamedTuple):
    """The summary of one text, given by its position, and its number of tokens."""

    position: int
    summary: str
    tokens: int


def summarise_in_batches(
    model: Any, texts: Sequence[str], *, beam: int | None = None, longest: int | None = None
) -> Iterator[TextSummary]:
    """The summaries of texts, the short ones first, each batch as soon as it is done.

    A text is cut to its first `longest` tokens. Without a `beam` the number of beams is that of the
    model's own generation settings.
    """
    settings = {} if beam is None else {"num_beams": beam}
    device = next(model.parameters()).device
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for start in range(0, len(order), TEXTS_AT_A_TIME):
        indices = order[start : start + TEXTS_AT_A_TIME]
        own = [texts[index] for index in indices]
        tokenizer = model.tokenizer.with_words_of(own)
        cut = {} if longest is None else {"truncation": True, "max_length": longest}
        batch = tokenizer(own, return_tensors="pt", padding=True, **cut)
        ids, real = batch["input_ids"].to(device), batch["attention_mask"].to(device)
        outputs = model.generate(ids, real, tokenizer=tokenizer, **settings)
        for index, output in zip(indices, outputs, strict=True):
            text = tokenizer.decode(output, skip_special_tokens=True)
            yield TextSummary(index, text, len(output) - 1)  # the start token was given


def summarise_all(
    model: Any, texts: Sequence[str], *, beam: int | None = None, longest: int | None = None
) -> list[str]:
    """The summaries of texts in their order."""
    summaries = sorted(summarise_in_batches(model, texts, beam=beam, longest=longest))
    return [each.summary for each in summaries]


def _training_files(recipe: Recipe) -> SummaryFiles:
    """The training files; an InputError for a pair of parallel files."""
    files = tuple(name for name in recipe.data.train if isinstance(name, str))
    if len(files) < len(recipe.data.train):
        raise InputError(
            "a summariser trains on files of objects with text and summary; data.train names two "
            "parallel files, which are for translation"
        )
    return SummaryFiles(files)
