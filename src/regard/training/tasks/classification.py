"""Training a classifier: the label of a text is predicted from the whole text."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.recurrent.linear_logits import LinearLogits
from regard.models.recurrent.pairs import PairedEmbedding
from regard.models.tokenizers import Tokenizer
from regard.training.batches import POOL, Batches, Example
from regard.training.class_metrics import class_metrics
from regard.training.labelled_texts import LabelledFiles, LabelledText, label_index, labels_of
from regard.training.linear_fit import fit_linear_logits
from regard.training.loop import Metrics
from regard.training.recipe import Recipe
from regard.training.tasks.batch import TensorBatch, one_epoch, pad_rows, special_token_id

SAMPLES = 3  # wrongly classified texts that are reported with each evaluation


class Classification:
    """Texts with labels; a text is cut to its first `data.longest` tokens."""

    transformer_settings: ClassVar[dict[str, Any]] = {"kind": "encoder", "head": "classes"}

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.labels = _label_names(recipe)

    @staticmethod
    def learn_tokenizer(recipe: Recipe) -> Tokenizer:
        """A tokenizer learnt from the training texts."""
        vocabulary = recipe.vocabulary
        return vocabulary.learn(Classification.texts(recipe), vocabulary.kind, vocabulary.size)

    @staticmethod
    def texts(recipe: Recipe) -> Iterator[str]:
        """The training texts."""
        return (each.text for each in _training_files(recipe))

    @staticmethod
    def output_settings(recipe: Recipe) -> dict[str, Any]:
        """The settings of the model that follow from the labels of the recipe."""
        names = _label_names(recipe)
        return {"labels": len(names), "label_names": names}

    def prepare(self, model: nn.Module) -> None:
        """Fit the linear part of a model that has one; called once, before the first step."""
        linear, words = getattr(model, "linear", None), getattr(model, "words", None)
        if isinstance(linear, LinearLogits) and isinstance(words, PairedEmbedding):
            lines = list(islice(_training_files(self.recipe), POOL))
            texts, classes = zip(*self.encode(lines), strict=True)
            fit_linear_logits(linear, words.pairs, texts, [each[0] for each in classes])

    def batches(self) -> Batches:
        """The training texts in batches without end."""
        plan = self.recipe.plan
        return Batches(
            _training_files(self.recipe), self.encode, plan.tokens, seed=self.recipe.seed
        )

    def encode(self, lines: list[LabelledText]) -> list[Example]:
        """The ids of each text, cut if it is long, and its class."""
        longest = min(self.recipe.data.longest, self.recipe.plan.tokens)
        encoded = self.tokenizer(
            [each.text for each in lines], truncation=True, max_length=longest
        )["input_ids"]
        classes = [[label_index(each.label, self.labels)] for each in lines]
        return list(zip(encoded, classes, strict=True))

    def collate(self, examples: list[Example]) -> TensorBatch:
        """The tensors of some texts."""
        texts, classes = zip(*examples, strict=True)
        ids = pad_rows(texts, special_token_id(self.tokenizer, "pad"))
        real = pad_rows([[1] * len(text) for text in texts], 0)
        inputs = {"input_ids": ids, "attention_mask": real}
        return TensorBatch(inputs, torch.tensor(classes), len(classes))

    def loss(self, model: nn.Module, batch: TensorBatch) -> Tensor:
        """The cross-entropy summed over the texts, each weighted by its class if balanced."""
        weights = self.class_weights.to(batch.labels.device) if self.recipe.plan.balanced else None
        return F.cross_entropy(
            model(**batch.inputs),
            batch.labels[:, 0],
            weight=weights,
            label_smoothing=self.recipe.plan.smoothing,
            reduction="sum",
        )

    @cached_property
    def class_weights(self) -> Float[Tensor, " label"]:
        """N / (labels x number of texts of the class): 1 for each class if all are as frequent."""
        classes = [label_index(each.label, self.labels) for each in _training_files(self.recipe)]
        counts = torch.bincount(torch.tensor(classes), minlength=len(self.labels))
        return len(classes) / (len(self.labels) * counts.clamp_min(1).float())

    def evaluate(self, model: nn.Module) -> Metrics:
        """Accuracy, macro F1 and the mean loss on held-out texts; accuracy decides."""
        device, loss = next(model.parameters()).device, 0.0
        predicted, gold = list[int](), list[int]()
        for batch in self._held_out_batches:
            own = batch.to(device)
            logits = model(**own.inputs)
            loss += float(F.cross_entropy(logits, own.labels[:, 0], reduction="sum"))
            predicted += logits.argmax(-1).tolist()
            gold += own.labels[:, 0].tolist()
        metrics = class_metrics(predicted, gold, self.labels)
        values = {
            "loss": loss / len(gold),
            "accuracy": metrics.accuracy,
            "macro_f1": metrics.macro_f1,
        }
        return Metrics(values, metrics.accuracy)

    @cached_property
    def _held_out_batches(self) -> list[TensorBatch]:
        """The batches of the held-out texts, encoded once for all evaluations."""
        files = LabelledFiles((self.recipe.data.dev,))
        held_out = list(islice(files, self.recipe.plan.examples))
        batches = Batches(held_out, self.encode, self.recipe.plan.tokens)
        return list(one_epoch(batches, self.collate))


def _training_files(recipe: Recipe) -> LabelledFiles:
    """The training files; an InputError for a pair of parallel files."""
    files = tuple(name for name in recipe.data.train if isinstance(name, str))
    if len(files) < len(recipe.data.train):
        raise InputError(
            "a classifier trains on files of labelled texts; data.train names two parallel files, "
            "which are for translation"
        )
    return LabelledFiles(files)


def _label_names(recipe: Recipe) -> tuple[str, ...]:
    """The names of the classes: those of the recipe, else the labels of the training files."""
    names = recipe.data.labels or labels_of(_training_files(recipe))
    if len(names) < 2:
        raise InputError(f"a classifier needs two labels or more, got {', '.join(names)}")
    return names
