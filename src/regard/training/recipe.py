"""Recipe and its sections Data, Vocabulary and Plan: every key of a recipe's TOML file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard.errors import InputError
from regard.models.config import Config
from regard.models.tokenizers import Tokenizer

__all__ = ["Data", "Plan", "Recipe", "Vocabulary"]


@dataclass(frozen=True)
class Data(Config):
    """The section [data]: training files and held-out files, named relative to the recipe."""

    train: tuple[str | tuple[str, ...], ...] = ()
    """Files of pairs (.tsv or .jsonl), of labelled texts (.tsv or .jsonl), of questions (.jsonl),
    of texts with summaries (.jsonl) or of texts, which may be gzipped (.gz); ["a.en", "a.zh"] are
    two parallel files."""
    dev: str = ""
    """The held-out file on which metrics are computed."""
    longest: int = 128
    """Pairs with more tokens on one side are left out; texts of a language model and contexts of
    questions are cut into pieces, texts of a classifier and of a summariser after this many
    tokens."""
    language: Literal["zh", "13a", "char", "ja-mecab", "none"] = "13a"
    """How sacrebleu splits the target into words."""
    labels: tuple[str, ...] = ()
    """The names of the classes of a classifier; labels in the files are names or their numbers
    from 0. Without names they are the labels of the training files, sorted."""
    unanswered: float = 1.0
    """The share of a reader's windows without the answer that it is trained on."""
    stripped: float = 0.0
    """The share of pairs that are also trained on without the punctuation at their ends.

    With them, the translation of "I love you" has no full stop either.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "longest")
        self.refuse_below(0, "stripped", "unanswered")


@dataclass(frozen=True)
class Vocabulary(Config):
    """The section [vocabulary]: the settings of `Tokenizer.train`."""

    kind: Literal["bpe", "byte-bpe", "unigram", "word", "character"] = "bpe"
    size: int = 8000
    """The size of the source vocabulary, or of the one that both share."""
    target_kind: Literal["bpe", "byte-bpe", "unigram", "word", "character"] | None = None
    target_size: int | None = None
    """If set, source and target have separate vocabularies, and this is the target's size."""
    punctuation: bool = True
    """Whether a punctuation mark is a token of its own."""
    chinese: Literal["character", "subword"] = "character"
    """Whether a Chinese character is a token of its own."""
    lower: bool = False
    """Whether all text is read in lower case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "size", "target_size")

    def learn(self, lines: Iterable[str], kind: Any, size: int) -> Tokenizer:
        """A tokenizer of this kind and size, learnt from lines of text."""
        return Tokenizer.train(
            lines,
            kind,
            size,
            punctuation=self.punctuation,
            chinese=self.chinese,
            lower=self.lower,
        )


@dataclass(frozen=True)
class Plan(Config):
    """The section [plan]: how long and how to train."""

    steps: int = 10000
    """The number of optimiser steps in all."""
    tokens: int = 4096
    """Tokens of a batch, padding included, for all processes together."""
    accumulate: int = 1
    """The number of batches whose gradients are added up for one step."""
    rate: float = 1e-3
    """The highest learning rate."""
    schedule: Literal["inverse-square-root", "cosine", "constant"] = "inverse-square-root"
    warmup: int = 1000
    """The number of steps in which the rate rises to its highest value."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip: float = 1.0
    """The largest norm of the gradient; 0 for no limit."""
    smoothing: float = 0.1
    """Label smoothing."""
    balanced: bool = False
    """Whether the loss of each class is weighted by the inverse of its frequency."""
    rank: int = 0
    """If above 0, the matrices of `model.start` are frozen, and each learns a difference of this
    rank; the head, and the biases and norms of the adapted layers, are trained whole."""
    frozen: int = 0
    """With a rank: the number of layers, from the first, that are not trained at all."""
    hard: Literal["reinforce", "straight-through"] | None = None
    """How hard attention is trained: REINFORCE with moving baselines, or a soft gradient."""
    coverage: float = 0.0
    """The weight of the coverage loss of a summariser (See et al. 2017, eq. 13)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    """Whether the model is compiled by torch.compile."""
    sharing: Literal["ddp", "fsdp"] = "ddp"
    """Under torchrun: every process holds the whole model (ddp) or a part of it (fsdp)."""
    minutes: float = 1e9
    """After this time the run saves a checkpoint and ends; it can be resumed."""
    evaluate_every: int = 1000
    save_every: int = 1000
    keep: int = 5
    """The number of newest checkpoints that are kept, in addition to the best one."""
    average: int = 1
    """The finished model is the mean of this many newest checkpoints; 0 takes the best one."""
    stored: Literal["float32", "float16", "int8"] = "float32"
    """How the finished model's file stores weights; float16 is half as large, int8 (large matrices,
    with a scale for each row) a quarter. Both are loaded as float32."""
    patience: int = 0
    """Stop after this many evaluations without a better metric; 0 for never."""
    beam: int = 1
    """The number of beams in evaluations."""
    examples: int = 500
    """The number of held-out examples of an evaluation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "steps", "tokens", "accumulate", "evaluate_every", "save_every")
        self.refuse_below(1, "keep", "beam")
        self.refuse_below(0, "warmup", "clip", "average", "patience", "examples", "weight_decay")
        self.refuse_below(0, "rank", "frozen", "coverage")
        self.refuse_unless_rates("smoothing")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise InputError(f"Plan expected betas from 0 to below 1, got {self.betas}")
        if not self.rate > 0:
            raise InputError(f"Plan expected a rate above 0, got {self.rate}")
        if self.average > self.keep:
            raise InputError(
                f"the mean of {self.average} checkpoints needs as many: keep is {self.keep}"
            )


@dataclass(frozen=True)
class Recipe:
    """A training run: the task, its data and vocabulary, the model's settings, and the plan."""

    task: str
    """A name of `regard.training.tasks.TASKS`."""
    folder: Path
    seed: int = 0
    data: Data = field(default_factory=Data)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    model: Mapping[str, Any] = field(default_factory=dict)
    """The class of the model and the settings of its config. `start` names a Transformer (a folder,
    a shipped or a hub name) whose tokenizer and weights, except those of its head, are taken.
    `vectors` is a file of word vectors (word2vec's text format) with which the embeddings of a
    recurrent classifier, reader or summariser begin, as far as it has the words."""
    plan: Plan = field(default_factory=Plan)
