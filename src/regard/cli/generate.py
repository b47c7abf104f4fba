"""`regard generate`: texts continued, shown while they are written."""

import json
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.writing import Answer, Progress, load, printed, settings_of, texts_of, writing
from regard.models.generation import generate as write
from regard.models.generation import stream

_EXAMPLES = """\b
Examples:
  regard generate --model ./stories15M "Once upon a time"
  regard generate --model ./stories15M "Lily saw" --sample --seed 7 --top-p 0.9
  regard generate --model ./stories15M --file prompts.txt --beam 4 --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("prompts", metavar="[PROMPT]...", nargs=-1)
@writing
@click.option("--stop", multiple=True, help="End after this text; may be given several times.")
@options.language
@options.as_json
def generate(
    prompts: tuple[str, ...],
    model: str,
    file: Path | None,
    lang: str,
    as_json: bool,
    int8: bool,
    **asked: Any,
) -> None:
    """Continue texts with a model.

    Each PROMPT is continued, or each line of --file, or of stdin, one after the other. The text is
    shown while it is written, except with --beam, --best and --json. --best prints several for
    each, the score before each: the log-probability over the new tokens. --json prints an object
    for each prompt, on a line of its own.
    """
    texts, settings = texts_of(prompts, file), settings_of(asked)
    writer = load(model, reads_source=False, light=int8)
    asks = writer.generation.updated(**settings)
    flows = not as_json and asks.num_beams == 1 and asks.num_return_sequences == 1
    progress = Progress(len(texts), lang)
    for done, text in enumerate(filter(str.strip, texts), start=1):
        if flows:
            _flow(writer, text, settings)
            continue
        found = _continued(writer, text, settings)
        progress.clear()
        click.echo(_record(text, found) if as_json else printed(found))
        progress.show(done)


def _flow(writer: Any, prompt: str, settings: dict[str, Any]) -> None:
    """The prompt, and what is written after it, as it is written."""
    pieces = stream(writer, [writer.tokenizer.encode(prompt)], **settings)
    click.echo(prompt + next(pieces, ""), nl=False)  # at once: what fails at first prints nothing
    for piece in pieces:
        click.echo(piece, nl=False)
    click.echo()


def _continued(writer: Any, prompt: str, settings: dict[str, Any]) -> list[Answer]:
    out = write(writer, [writer.tokenizer.encode(prompt)], **settings)
    return [
        Answer(writer.tokenizer.decode(ids, skip_special_tokens=True), score)
        for ids, score in zip(out, out.scores.tolist(), strict=True)
    ]


def _record(prompt: str, found: list[Answer]) -> str:
    texts = [answer._asdict() for answer in found]
    return json.dumps({"prompt": prompt, "texts": texts}, ensure_ascii=False)
