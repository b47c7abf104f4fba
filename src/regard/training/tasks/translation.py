"""Training a translator: the target is predicted from the source and its own beginning."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard.documents import check_value
from regard.models.tokenizers import Tokenizer, TokenizerPair
from regard.training.batches import Batches, Example
from regard.training.corpora import Pair, pairs
from regard.training.loop import Metrics
from regard.training.losses import IGNORED, Baseline, reinforce_loss
from regard.training.metrics import translation_metrics
from regard.training.recipe import Recipe
from regard.training.tasks.batch import (
    TensorBatch,
    language_model_loss,
    mean_token_loss,
    one_epoch,
    pad_rows,
    special_token_id,
)

SAMPLES = 3  # translations that are reported with each evaluation
SENTENCES_AT_A_TIME = 32  # that are translated as one batch
END_PUNCTUATION = ".!?。！？ "


class Translation:
    """Pairs of sentences; `start` is the token that the decoder reads first, bos if it is None."""

    transformer_settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, *, start: int | None = None) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.start = special_token_id(tokenizer.target, "bos") if start is None else start
        self.baseline = Baseline()

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the training pairs, shared by both sides.

        With `target_size` each side has its own.
        """
        vocabulary, corpus = recipe.vocabulary, pairs(*recipe.data.train)
        if vocabulary.target_size is None:
            both_sides = (text for pair in corpus for text in pair)
            return vocabulary.learn(both_sides, vocabulary.kind, vocabulary.size)
        sources, targets = (pair.source for pair in corpus), (pair.target for pair in corpus)
        source = vocabulary.learn(sources, vocabulary.kind, vocabulary.size)
        kind = vocabulary.target_kind or vocabulary.kind
        return TokenizerPair(source, vocabulary.learn(targets, kind, vocabulary.target_size))

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """Nothing: the vocabulary is all that the model has to know of the data."""
        return {}

    def batches(self) -> Batches:
        """The training pairs in batches without end."""
        data, plan = self.recipe.data, self.recipe.plan
        corpus: Iterable[Pair] = pairs(*data.train)
        if data.stripped:
            corpus = WithUnpunctuatedCopies(corpus, data.stripped, self.recipe.seed)
        return Batches(
            corpus, self.encode, plan.tokens, seed=self.recipe.seed, longest=data.longest
        )

    def encode(self, lines: list[Pair]) -> list[Example]:
        """The ids of both sides of each pair, each with its end token."""
        source = self.tokenizer.source([pair.source for pair in lines])["input_ids"]
        target = self.tokenizer.target([pair.target for pair in lines])["input_ids"]
        return list(zip(source, target, strict=True))

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The tensors of some pairs; the decoder reads each target shifted right by one token."""
        sources, targets = zip(*examples, strict=True)
        ids = pad_rows(sources, special_token_id(self.tokenizer.source, "pad"))
        labels = pad_rows(targets, IGNORED)
        start = torch.full((len(targets), 1), self.start)
        pad = special_token_id(self.tokenizer.target, "pad")
        before = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad)
        shifted = torch.cat([start, before], dim=1)
        real = pad_rows([[1] * len(source) for source in sources], 0)
        inputs = {"input_ids": ids, "decoder_input_ids": shifted, "attention_mask": real}
        return TensorBatch(inputs, labels, sum(map(len, targets)))

    def loss(self, model: Any, batch: TensorBatch) -> Tensor:
        """The cross-entropy summed over the target's tokens.

        With hard attention that learns by REINFORCE the value is the same, and the gradient also
        rewards the choices of attention.
        """
        plan = self.recipe.plan
        if plan.hard != "reinforce":
            return language_model_loss(model, batch, plan.smoothing)
        source, target = batch.inputs["input_ids"], batch.inputs["decoder_input_ids"]
        logits, log_probability = model.sample_attention(
            source, target, attention_mask=batch.inputs["attention_mask"]
        )
        return reinforce_loss(
            logits,
            log_probability,
            batch.labels,
            self.baseline,
            plan.smoothing,
            later_steps=model.choices_reach_later_steps,
        )

    def state(self) -> dict[str, list[float]]:
        """What a checkpoint must keep for this task: the moving baselines of REINFORCE."""
        return {"baseline": self.baseline.values}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the state of a checkpoint."""
        kept = state["baseline"]
        check_value("the state of the task", "baseline", kept, list[float] | float | None)
        if not isinstance(kept, list):  # of earlier versions, which had one mean for all steps
            kept = [] if kept is None else [kept]
        self.baseline = Baseline(list(kept))

    def evaluate(self, model: nn.Module) -> Metrics:
        """BLEU, chrF and the mean loss of a token on held-out pairs; chrF decides which is best."""
        held_out = self._held_out
        sources, references = [pair.source for pair in held_out], [pair.target for pair in held_out]
        outputs = translate_all(model, sources, beam=self.recipe.plan.beam)
        quality = translation_metrics(outputs, references, self.recipe.data.language)
        loss = mean_token_loss(model, self._held_out_batches)
        samples = [
            {"source": pair.source, "target": pair.target, "output": output}
            for pair, output in islice(zip(held_out, outputs, strict=True), SAMPLES)
        ]
        values = {"loss": loss, "bleu": quality.bleu, "chrf": quality.chrf}
        return Metrics(values, quality.chrf, tuple(samples))

    @cached_property
    def _held_out(self) -> list[Pair]:
        return list(islice(pairs(self.recipe.data.dev), self.recipe.plan.examples))

    @cached_property
    def _held_out_batches(self) -> list[TensorBatch]:
        """The batches of the held-out pairs, encoded once for all evaluations."""
        batches = Batches(self._held_out, self.encode, self.recipe.plan.tokens)
        return list(one_epoch(batches, self.collate))


@dataclass(frozen=True)
class WithUnpunctuatedCopies:
    """Pairs, a share of them followed by a copy without the punctuation at the end of both sides.

    A model that has only seen whole sentences adds a full stop to a phrase that has none.
    """

    corpus: Iterable[Pair]
    share: float
    seed: int

    def __iter__(self) -> Iterator[Pair]:
        generator = random.Random(f"{self.seed} stripped")
        for pair in self.corpus:
            yield pair
            bare = Pair(*(side.rstrip(END_PUNCTUATION) for side in pair))
            if bare != pair and all(bare) and generator.random() < self.share:
                yield bare


class TranslatedSentence(NamedTuple):
    """The translation of one sentence, given by its index, and its number of tokens."""

    sentence: int
    text: str
    tokens: int


def translate_in_batches(
    model: Any, sentences: Sequence[str], *, beam: int | None = None
) -> Iterator[TranslatedSentence]:
    """The translations of sentences, the short ones first, each batch as soon as it is done.

    Without a `beam` the number of beams is that of the model's own generation settings.
    """
    tokenizer = model.tokenizer
    settings = {} if beam is None else {"num_beams": beam}
    device = next(model.parameters()).device
    # Sentences of about the same length need little padding.
    order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
    for start in range(0, len(order), SENTENCES_AT_A_TIME):
        indices = order[start : start + SENTENCES_AT_A_TIME]
        batch = tokenizer([sentences[i] for i in indices], return_tensors="pt", padding=True)
        ids, real = batch["input_ids"].to(device), batch["attention_mask"].to(device)
        longest = 2 * ids.shape[1] + 20
        outputs = model.generate(ids, real, max_new_tokens=longest, **settings)
        for index, output in zip(indices, outputs, strict=True):
            text = tokenizer.decode(output, skip_special_tokens=True)
            yield TranslatedSentence(index, text, len(output) - 1)  # the start token was given


def translate_all(model: Any, sentences: Sequence[str], *, beam: int | None = None) -> list[str]:
    """The translations of sentences in their order."""
    translations = sorted(translate_in_batches(model, sentences, beam=beam))
    return [translation.text for translation in translations]
