"""What `regard translate` and `regard generate` share: options, model and answers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from regard.cli import options
from regard.cli.inputs import errors_name_options
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.loading import LoadedModel

__all__ = [
    "Answer",
    "GenerationOptions",
    "check_native_writer",
    "format_answers",
    "generation_options",
    "load_writer",
    "output_options",
    "settings_name_options",
]

# The settings of `regard.models.generation.generate`, and the options that set them.
_SETTING_OPTIONS = {
    "num_return_sequences": "--best",
    "num_beams": "--beam",
    "do_sample": "--sample",
    "stop_strings": "--stop",
    "max_length": "--max-length",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "repetition_penalty": "--repetition-penalty",
    "temperature": "--temperature",
}
_PHRASES = {
    'with precision="float"': "without --int8",
    'precision="int8"': "--int8",
    'device="cpu"': "--device cpu",
}

generation_options = options.apply_options(
    [
        options.model,
        options.texts_file,
        click.option(
            "--int8",
            is_flag=True,
            help="Keep large weight matrices in 8 bits: less memory, faster on a CPU.",
        ),
        options.beam,
        click.option(
            "--best",
            metavar="N",
            type=click.IntRange(1, 512),
            help="Print the N best answers to each text. [1]",
        ),
        click.option(
            "--max-length",
            metavar="N",
            type=click.IntRange(1),
            help="Write at most N tokens. [the model's own]",
        ),
        click.option(
            "--sample",
            is_flag=True,
            help="Draw each token at random by its probability instead of taking the likeliest.",
        ),
        click.option(
            "--temperature",
            metavar="X",
            type=float,
            help="Sampling temperature: below 1 makes likely tokens likelier, above 1 flattens "
            "the distribution; with --sample.",
        ),
        click.option(
            "--top-k",
            metavar="K",
            type=click.IntRange(0),
            help="Sample from the K likeliest tokens only; 0 is no limit. [50]",
        ),
        click.option(
            "--top-p",
            metavar="P",
            type=float,
            help="Sample from the smallest set of tokens whose probabilities sum to P (nucleus "
            "sampling).",
        ),
        click.option(
            "--min-p",
            metavar="P",
            type=float,
            help="Drop tokens whose probability is below P times the largest (min-p).",
        ),
        click.option(
            "--repetition-penalty",
            metavar="X",
            type=float,
            help="Above 1, lower the logits of tokens that were already written.",
        ),
    ]
)
output_options = options.apply_options(
    [
        options.out,
        options.language,
        options.as_json,
        options.seed,
        options.device,
        options.quiet,
    ]
)


@dataclass(frozen=True)
class GenerationOptions:
    """The options of a command that generates text; None is what the model's settings say."""

    model: str | None
    file: Path | None
    int8: bool
    beam: int | None
    best: int | None
    max_length: int | None
    sample: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    out: Path | None
    lang: str
    as_json: bool
    seed: int | None
    device: str | None
    quiet: bool

    def settings(self) -> dict[str, Any]:
        """The settings of `generate` that were given, by their names in Python."""
        settings = {
            "num_beams": self.beam,
            "num_return_sequences": self.best,
            "max_length": self.max_length,
            "do_sample": self.sample or None,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
            "seed": self.seed,
        }
        return {name: value for name, value in settings.items() if value is not None}


class Answer(NamedTuple):
    """A text that the model wrote, and its log-probability per token."""

    text: str
    score: float


def format_answers(answers: Sequence[Answer]) -> str:
    """The only answer alone; several on a line each, with their scores before them."""
    if len(answers) < 2:
        return "".join(answer.text for answer in answers)
    return "\n".join(f"{answer.score:.4f}\t{answer.text}" for answer in answers)


def settings_name_options() -> AbstractContextManager[None]:
    """Let errors about a setting of `generate` or `load` name the option that sets it."""
    return errors_name_options(_SETTING_OPTIONS, _PHRASES)


def load_writer(name: str, chosen: GenerationOptions, *, translates: bool) -> "LoadedModel":
    """Load a model of the kind that the command needs: one that translates, or that continues."""
    from regard.loading import load

    loaded = load(
        name,
        device=chosen.device,
        precision="int8" if chosen.int8 else None,
        progress=not chosen.quiet,
    )
    check_native_writer(
        loaded,
        "translate" if translates else "generate",
        f"{name} writes no texts; regard look shows where it looks",
    )
    if loaded.translates is not translates:
        other = "continues texts; use regard generate" if translates else None
        raise InputError(f"{name} {other or 'translates; use regard translate'}")
    loaded.tokenizer  # noqa: B018  refuses a model without one
    return loaded


def check_native_writer(loaded: "LoadedModel", command: str, refusal: str) -> None:
    """Refuse a model that writes no text, or not by regard's own decoding."""
    if not (loaded.translates or loaded.continues) or loaded.sees:
        raise InputError(refusal)
    if not loaded.native:
        raise InputError(
            f"regard {command} takes architectures that regard's own classes load; {loaded.name} "
            f"is a {type(loaded.model).__name__} of transformers, which regard look, diagnose and "
            "survey take"
        )
