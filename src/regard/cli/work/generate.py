"""The work of `regard generate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from regard.cli.output import as_text, write_lines
from regard.cli.work.inputs import texts_of
from regard.cli.work.writing import (
    Answer,
    Progress,
    in_options,
    load_writer,
    printed,
    settings_of,
    usual,
)
from regard.models.generation import generate as write
from regard.models.generation import stream

_USUAL = "stories"


def run(
    prompts: tuple[str, ...],
    model: str | None,
    file: Path | None,
    out: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Continue the prompts one after the other."""
    name = usual(model, "generate", _USUAL)
    texts = [text for text in texts_of(prompts, file) if text.strip()]
    progress = Progress(len(texts), asked.pop("lang"), asked.pop("quiet"))
    light, device = asked.pop("int8"), asked.pop("device")
    with in_options():
        writer = load_writer(name, translates=False, int8=light, device=device).model
        settings = settings_of(asked)
        asks = writer.generation.replace(**settings)
        if out is None and not as_json and asks.num_beams == asks.num_return_sequences == 1:
            for text in texts:
                _flow(writer, text, settings)
            return
        found = _all(writer, texts, settings, progress)
        write_lines((_line(*each, as_json=as_json) for each in found), out)


def _flow(writer: Any, prompt: str, settings: dict[str, Any]) -> None:
    """The prompt, and what is written after it, as it is written."""
    pieces = stream(writer, [writer.tokenizer.encode(prompt)], **settings)
    click.echo(prompt + next(pieces, ""), nl=False)  # at once: what fails at first prints nothing
    for piece in pieces:
        click.echo(piece, nl=False)
    click.echo()


def _all(
    writer: Any, prompts: list[str], settings: dict[str, Any], progress: Progress
) -> Iterator[tuple[str, list[Answer]]]:
    for done, prompt in enumerate(prompts, start=1):
        found = _continued(writer, prompt, settings)
        progress.clear()
        yield prompt, found
        progress.show(done)


def _continued(writer: Any, prompt: str, settings: dict[str, Any]) -> list[Answer]:
    out = write(writer, [writer.tokenizer.encode(prompt)], **settings)
    return [
        Answer(writer.tokenizer.decode(ids, skip_special_tokens=True), score)
        for ids, score in zip(out, out.scores.tolist(), strict=True)
    ]


def _line(prompt: str, found: list[Answer], *, as_json: bool) -> str:
    if not as_json:
        return printed(found)
    return as_text({"prompt": prompt, "texts": [answer._asdict() for answer in found]})
