"""`regard recognise`: the class of pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.task_results import (
    TaskOptions,
    check_picture_file,
    needs_trace,
    print_results,
    task_errors_name_options,
    task_options,
)

if TYPE_CHECKING:
    from regard.types import TaskResult

_EXAMPLES = """\b
Examples:
  regard recognise cat.png --model ./vit-base-patch16-224
  regard recognise cat.png --model ./vit-base-patch16-224 --out cat.html
  regard recognise photos/*.jpg --model ./convnext-tiny-224 --json > labels.jsonl"""


@dataclass(frozen=True)
class RecogniseOptions(TaskOptions):
    """The options of `regard recognise`."""

    pictures: tuple[str, ...]


@command(epilog=_EXAMPLES)
@click.argument("pictures", metavar="PICTURE...", nargs=-1, required=True)
@options.named_model
@task_options
def recognise(**arguments: Any) -> None:
    """Give each picture a class, and show where it was seen.

    PICTURE is an image file. --model is an image classifier of Hugging Face (ViT, ConvNeXt, ResNet,
    ...) or one of ours, a folder or a name on the hub; no model is shipped yet.

    For one picture the attention of the last layer is drawn over it, with the five likeliest
    classes. For several each line has the class, its probability and the file. --json prints one
    object per picture, in their order, with the probability of each class. A model without
    attention, such as a ConvNeXt, has classes and no picture.
    """
    _recognise_all(RecogniseOptions(file=None, **arguments))


def _recognise_all(options: RecogniseOptions) -> None:
    """Recognise all pictures, and print or draw the result of each."""
    from regard.tasks.models import named_model

    check_picture_file(options.out, len(options.pictures))
    with task_errors_name_options():
        model = named_model("recognise", options.model, options.device)
        trace = needs_trace(options, len(options.pictures))
        print_results(_recognise_each(model, options, trace=trace), options, "label")


def _recognise_each(
    model: Any, options: RecogniseOptions, *, trace: bool
) -> "Iterator[TaskResult | None]":
    """The result of each picture as soon as it is there."""
    from regard.cli.progress import LineCount
    from regard.tasks import recognise

    progress = LineCount(len(options.pictures), options.lang, options.quiet)
    for number, picture in enumerate(options.pictures, 1):
        result = recognise(picture, model, trace=trace)
        progress.clear()
        yield result
        progress.show(number)
