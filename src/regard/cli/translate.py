"""`regard translate`: texts in one language to texts in another."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.writing import Answer, Progress, load, printed, settings_of, texts_of, writing
from regard.models.generation import generate

_BATCH = 16  # lines that are translated together
_EXAMPLES = """\b
Examples:
  regard translate --model ./opus-mt-zh-en 我爱你。
  regard translate --model ./opus-mt-zh-en --file news.txt --beam 5
  cat news.txt | regard translate --model ./opus-mt-zh-en --json"""


@click.command(epilog=_EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@writing
@options.language
@options.as_json
def translate(
    texts: tuple[str, ...],
    model: str,
    file: Path | None,
    lang: str,
    as_json: bool,
    int8: bool,
    **asked: Any,
) -> None:
    """Translate texts with a model.

    Each TEXT is translated, or each line of --file, or of stdin: a line each, an empty one for an
    empty one. --best prints several for each, the score before each: its log-probability over its
    tokens. --json prints an object for each text, on a line of its own.
    """
    sources, settings = texts_of(texts, file), settings_of(asked)
    translator = load(model, reads_source=True, light=int8)
    progress = Progress(len(sources), lang)
    for start in range(0, len(sources), _BATCH):
        batch = sources[start : start + _BATCH]
        answers = _translated(translator, batch, settings)
        progress.clear()
        for source, found in zip(batch, answers, strict=True):
            click.echo(_record(source, found) if as_json else printed(found))
        progress.show(start + len(batch))


def _translated(
    translator: Any, sources: Sequence[str], settings: dict[str, Any]
) -> list[list[Answer]]:
    """The translations of each source, best first; of one without text, none."""
    said = [place for place, source in enumerate(sources) if source.strip()]
    answers: list[list[Answer]] = [[] for _ in sources]
    if not said:
        return answers
    ids = [translator.tokenizer.encode(sources[place]) for place in said]
    out = generate(translator, ids, **settings)
    each = len(out) // len(said)
    for index, (ids_out, score) in enumerate(zip(out, out.scores.tolist(), strict=True)):
        text = translator.tokenizer.decode(ids_out, skip_special_tokens=True)
        answers[said[index // each]].append(Answer(text, score))
    return answers


def _record(source: str, found: list[Answer]) -> str:
    translations = [answer._asdict() for answer in found]
    return json.dumps({"source": source, "translations": translations}, ensure_ascii=False)
