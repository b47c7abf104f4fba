"""`regard generate`: texts continued, printed while they are written."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from regard.cli.generation import (
    Answer,
    GenerationOptions,
    format_answers,
    generation_options,
    load_writer,
    output_options,
    settings_name_options,
)
from regard.cli.inputs import default_model, read_texts
from regard.cli.lazy import command
from regard.cli.output import to_json_text, write_lines
from regard.terminal import print_pieces

if TYPE_CHECKING:
    from regard.cli.progress import LineCount

_SHIPPED_MODEL = "stories"
_EXAMPLES = """\b
Examples:
  regard generate "Once upon a time"
  regard generate "Lily saw" --sample --seed 7 --top-p 0.9
  regard generate --model ./stories15M --file prompts.txt --beam 4 --json"""


@dataclass(frozen=True)
class GenerateOptions(GenerationOptions):
    """The options of `regard generate`."""

    prompts: tuple[str, ...]
    stop: tuple[str, ...]

    def settings(self) -> dict[str, Any]:
        """The settings of `generate` that were given, with the strings that end a text."""
        stop = {"stop_strings": self.stop} if self.stop else {}
        return super().settings() | stop


@command(epilog=_EXAMPLES)
@click.argument("prompts", metavar="[PROMPT]...", nargs=-1)
@generation_options
@click.option(
    "--stop", multiple=True, help="Stop when this text was written; may be given several times."
)
@output_options
def generate(**arguments: Any) -> None:
    """Continue texts with a model.

    Continues each PROMPT, or each line of --file or of stdin (-), one after the other. The text is
    printed while it is written, except with --beam, --best, --out and --json. With --best each line
    begins with the score of the text: the log-probability of the new tokens divided by their
    number. --json prints one object per prompt and line.
    """
    _generate_all(GenerateOptions(**arguments))


def _generate_all(options: GenerateOptions) -> None:
    """Continue all prompts: one by one as a stream, or as lines when each is complete."""
    from regard.cli.progress import LineCount

    name = default_model(options.model, "generate", _SHIPPED_MODEL)
    prompts = [text for text in read_texts(options.prompts, options.file) if text.strip()]
    progress = LineCount(len(prompts), options.lang, options.quiet)
    with settings_name_options():
        model = load_writer(name, options, translates=False).model
        settings = options.settings()
        resolved = model.generation.replace(**settings)
        single = resolved.num_beams == resolved.num_return_sequences == 1
        if single and options.out is None and not options.as_json:
            for prompt in prompts:
                _print_while_generating(model, prompt, settings)
            return
        answers = _generate_each(model, prompts, settings, progress)
        lines = (_format_line(*pair, as_json=options.as_json) for pair in answers)
        write_lines(lines, options.out)


def _print_while_generating(model: Any, prompt: str, settings: dict[str, Any]) -> None:
    """Print the prompt, and after it each piece of text as it is generated."""
    from regard.models.generation import stream

    pieces = stream(model, [model.tokenizer.encode(prompt)], **settings)
    # the prompt goes out with the first piece, so that an error at the start prints nothing
    print_pieces(chain([prompt + next(pieces, "")], pieces))


def _generate_each(
    model: Any, prompts: list[str], settings: dict[str, Any], progress: "LineCount"
) -> Iterator[tuple[str, list[Answer]]]:
    """Each prompt with its continuations, as soon as they are done."""
    for done, prompt in enumerate(prompts, start=1):
        answers = _continue_prompt(model, prompt, settings)
        progress.clear()
        yield prompt, answers
        progress.show(done)


def _continue_prompt(model: Any, prompt: str, settings: dict[str, Any]) -> list[Answer]:
    """The continuations of one prompt with their scores, the best first."""
    from regard.models.generation import generate

    generated = generate(model, [model.tokenizer.encode(prompt)], **settings)
    return [
        Answer(model.tokenizer.decode(token_ids, skip_special_tokens=True), score)
        for token_ids, score in zip(generated, generated.scores.tolist(), strict=True)
    ]


def _format_line(prompt: str, answers: list[Answer], *, as_json: bool) -> str:
    """The line of one prompt: its continuations as text, or a JSON object."""
    if not as_json:
        return format_answers(answers)
    return to_json_text({"prompt": prompt, "texts": [answer._asdict() for answer in answers]})
