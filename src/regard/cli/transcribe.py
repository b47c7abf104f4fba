"""`regard transcribe`: what is said in sounds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.task_results import (
    TaskOptions,
    check_picture_file,
    print_results,
    task_errors_name_options,
    task_options,
)

if TYPE_CHECKING:
    from regard.types import TaskResult

_EXAMPLES = """\b
Examples:
  regard transcribe talk.flac --model ./whisper-tiny.en
  regard transcribe talk.mp3 --model ./whisper-base --spoken zh --json
  regard transcribe *.wav --model ./wav2vec2-base-960h --json > words.jsonl
  regard transcribe talk.wav --model ./whisper-tiny.en --out talk.html"""


@dataclass(frozen=True)
class TranscribeOptions(TaskOptions):
    """The options of `regard transcribe`."""

    sounds: tuple[str, ...]
    spoken: str | None


@command(epilog=_EXAMPLES)
@click.argument("sounds", metavar="SOUND...", nargs=-1, required=True)
@options.named_model
@click.option(
    "--spoken",
    metavar="LANGUAGE",
    help="The language that is spoken, such as en or zh, for a Whisper of several. [recognised]",
)
@task_options
def transcribe(**arguments: Any) -> None:
    """Write what is said in each sound, and when.

    SOUND is a WAV, FLAC, OGG or MP3 file of any rate and any number of channels, of at most two
    hours. --model is a Whisper or a model with a CTC head (Wav2Vec2, HuBERT, ...), a folder or a
    name on the Hugging Face hub; no model is shipped yet.

    Prints a line for each sound. --json prints one object per sound, in their order, with the words
    and their start and end in seconds. --out draws what the model attended to: of Whisper the
    cross-attention from each token to the sound. It needs pip install 'regard[audio]'.
    """
    _transcribe_all(TranscribeOptions(file=None, **arguments))


def _transcribe_all(options: TranscribeOptions) -> None:
    """Transcribe all sounds, and print or draw the result of each."""
    from regard.tasks.models import named_model

    check_picture_file(options.out, len(options.sounds))
    with task_errors_name_options():
        model = named_model("transcribe", options.model, options.device)
        print_results(_transcribe_each(model, options), options, "text")


def _transcribe_each(model: Any, options: TranscribeOptions) -> "Iterator[TaskResult | None]":
    """The result of each sound as soon as it is there."""
    from regard.cli.progress import LineCount
    from regard.tasks import transcribe

    settings = {} if options.spoken is None else {"language": options.spoken}
    progress = LineCount(len(options.sounds), options.lang, options.quiet)
    for number, sound in enumerate(options.sounds, 1):
        result = transcribe(sound, model, trace=options.out is not None, **settings)
        progress.clear()
        yield result
        progress.show(number)
