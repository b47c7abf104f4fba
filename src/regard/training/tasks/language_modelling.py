"""Training a language model: each token of a text is predicted from those before it."""

import math
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from torch import Tensor, nn

from regard.errors import InputError
from regard.models.tokenizers import Tokenizer
from regard.training.batches import Batches, Example
from regard.training.corpora import ConcatenatedCorpus, texts
from regard.training.loop import Metrics
from regard.training.losses import IGNORED
from regard.training.recipe import Recipe
from regard.training.tasks.batch import (
    TensorBatch,
    language_model_loss,
    mean_token_loss,
    one_epoch,
    pad_rows,
    special_token_id,
)


class LanguageModelling:
    """Texts, cut into pieces of at most `data.longest` tokens."""

    transformer_settings: ClassVar[dict[str, Any]] = {"kind": "decoder"}

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the training texts; it starts no sequence with an end token."""
        vocabulary = recipe.vocabulary
        corpus = _training_texts(recipe)
        return vocabulary.learn(corpus, vocabulary.kind, vocabulary.size).without_eos()

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """Nothing: the vocabulary is all that the model has to know of the data."""
        return {}

    def batches(self) -> Batches:
        """The training texts in batches without end."""
        data, plan = self.recipe.data, self.recipe.plan
        longest = data.longest + 1  # a piece of n tokens predicts n - 1
        return Batches(
            _training_texts(self.recipe),
            self.encode,
            plan.tokens,
            seed=self.recipe.seed,
            longest=longest,
        )

    def encode(self, lines: list[str]) -> list[Example]:
        """The ids of each text between bos and eos, cut into pieces that overlap by one token.

        Because of the overlap the first token of a piece is predicted too, in the piece before it.
        """
        bos, eos = (special_token_id(self.tokenizer, role) for role in ("bos", "eos"))
        longest, pieces = self.recipe.data.longest, list[Example]()
        for ids in self.tokenizer(lines, add_special_tokens=False)["input_ids"]:
            marked = [bos, *ids, eos]
            starts = range(0, max(1, len(marked) - 1), longest)
            pieces += [(marked[start : start + longest + 1],) for start in starts]
        return pieces

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The tensors of some pieces: the labels are the tokens shifted left by one."""
        pieces = [sides[0] for sides in examples]
        ids = pad_rows([piece[:-1] for piece in pieces], special_token_id(self.tokenizer, "pad"))
        labels = pad_rows([piece[1:] for piece in pieces], IGNORED)
        return TensorBatch({"input_ids": ids}, labels, sum(len(piece) - 1 for piece in pieces))

    def loss(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """The cross-entropy summed over the batch's tokens."""
        return language_model_loss(model, batch, self.recipe.plan.smoothing)

    def evaluate(self, model: nn.Module) -> Metrics:
        """The mean loss of a token on held-out texts, and the perplexity, its exponential."""
        loss = mean_token_loss(model, self._held_out_batches)
        return Metrics({"loss": loss, "perplexity": math.exp(min(loss, 80.0))}, -loss)

    @cached_property
    def _held_out_batches(self) -> list[TensorBatch]:
        """The batches of the held-out texts, encoded once for all evaluations."""
        held_out = list(islice(texts(self.recipe.data.dev), self.recipe.plan.examples))
        longest = self.recipe.data.longest + 1
        batches = Batches(held_out, self.encode, self.recipe.plan.tokens, longest=longest)
        return list(one_epoch(batches, self.collate))


def _training_texts(recipe: Recipe) -> ConcatenatedCorpus:
    """The corpus of the training files; an InputError for a pair of parallel files."""
    files = [name for name in recipe.data.train if isinstance(name, str)]
    if len(files) < len(recipe.data.train):
        raise InputError(
            "a language model trains on files of texts; data.train names two parallel files, "
            "which are for translation"
        )
    return texts(*files)
