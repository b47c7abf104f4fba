"""A recipe: all that a training run depends on, as a short TOML file of documented keys."""

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
    """What is learnt from, and what is held out.

    File names are those beside the recipe. `stripped` is the share of pairs that are also seen
    without the punctuation at their ends: who types "I love you" should not get a full stop.
    """

    train: tuple = ()  # type: ignore[type-arg]
    """Files: .tsv or .jsonl of pairs, or texts; ["a.en", "a.zh"] within is two side by side."""
    dev: str = ""
    """The held-out file that scores are taken on."""
    longest: int = 128
    """Examples with a side of more tokens are left out."""
    language: Literal["zh", "13a", "char", "ja-mecab", "none"] = "13a"
    """How sacrebleu splits the target into words."""
    stripped: float = 0.0
    """The share of pairs that are seen once more without punctuation at the end."""


@dataclass(frozen=True)
class Vocabulary(Config):
    """How text becomes tokens; the settings of `Tokenizer.train`."""

    kind: Literal["bpe", "byte-bpe", "unigram", "word", "character"] = "bpe"
    size: int = 8000
    """Of the source, or of both where they share one."""
    target_kind: Literal["bpe", "byte-bpe", "unigram", "word", "character"] | None = None
    target_size: int | None = None
    """With it, source and target have a vocabulary each."""
    punctuation: bool = True
    """Whether a punctuation mark is a token of its own."""
    chinese: Literal["character", "subword"] = "character"
    """Whether a Chinese character is a token of its own."""

    def learn(self, lines: Iterable[str], kind: Any, size: int) -> Tokenizer:
        """A tokenizer of this kind and size, learnt from lines of text."""
        return Tokenizer.train(
            lines, kind, size, punctuation=self.punctuation, chinese=self.chinese
        )


@dataclass(frozen=True)
class Plan(Config):
    """How the loop runs."""

    steps: int = 10000
    """Steps of the optimiser in all."""
    tokens: int = 4096
    """Tokens of a batch, padding included, for all processes together."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    rate: float = 1e-3
    """The highest learning rate."""
    schedule: Literal["inverse-square-root", "cosine", "constant"] = "inverse-square-root"
    warmup: int = 1000
    """Steps until the rate is highest."""
    weight_decay: float = 0.01
    betas: tuple = (0.9, 0.98)  # type: ignore[type-arg]
    clip: float = 1.0
    """The largest norm of the gradient; 0 for no limit."""
    smoothing: float = 0.1
    """Of the labels."""
    hard: Literal["reinforce", "straight-through"] | None = None
    """How hard attention learns: REINFORCE with a moving baseline, or a soft gradient."""
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    """Whether the model goes through torch.compile."""
    sharing: Literal["ddp", "fsdp"] = "ddp"
    """Under torchrun: every process holds the model, or a part of it."""
    minutes: float = 1e9
    """After so many minutes the run saves and ends, to be gone on with."""
    evaluate_every: int = 1000
    save_every: int = 1000
    keep: int = 5
    """Newest checkpoints that are kept, beside the best."""
    average: int = 1
    """The finished model is the mean of so many of the newest checkpoints; 0: the best one."""
    stored: Literal["float32", "float16"] = "float32"
    """In what the finished model is written; float16 is half as large, and read as float32."""
    patience: int = 0
    """Evaluations without a better score until training stops; 0 for never."""
    beam: int = 1
    """Beams of the translations that are scored."""
    examples: int = 500
    """Held-out examples that are translated at each evaluation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "steps", "tokens", "accumulate", "evaluate_every", "save_every")
        self.refuse_below(1, "keep", "beam")
        self.refuse_below(0, "warmup", "clip", "average", "patience", "examples", "weight_decay")
        self.refuse_unless_rates("smoothing")
        if not self.rate > 0:
            raise InputError(f"Plan expected a rate above 0, got {self.rate}")
        if self.average > self.keep:
            raise InputError(
                f"the mean of {self.average} checkpoints needs as many: keep is {self.keep}"
            )


@dataclass(frozen=True)
class Recipe:
    """A whole run: the task, its data and vocabulary, the model's own settings, and the plan."""

    task: str
    """A name of `regard.training.tasks.TASKS`."""
    folder: Path
    seed: int = 0
    data: Data = field(default_factory=Data)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    model: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
