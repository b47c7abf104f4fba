"""The work of `regard translate`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
from regard.models.generation import generate

_BATCH = 16  # lines that are translated together
_USUAL = "en-zh-transformer"


def run(
    texts: tuple[str, ...],
    model: str | None,
    file: Path | None,
    out: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Translate the texts, a batch at a time."""
    name = usual(model, "translate", _USUAL)
    sources = texts_of(texts, file)
    progress = Progress(len(sources), asked.pop("lang"), asked.pop("quiet"))
    light, device = asked.pop("int8"), asked.pop("device")
    with in_options():
        translator = load_writer(name, translates=True, int8=light, device=device).model
        found = _all(translator, sources, settings_of(asked), progress)
        write_lines((_line(*each, as_json=as_json) for each in found), out)


def _all(
    translator: Any, sources: Sequence[str], settings: dict[str, Any], progress: Progress
) -> Iterator[tuple[str, list[Answer]]]:
    for start in range(0, len(sources), _BATCH):
        batch = sources[start : start + _BATCH]
        answers = _translated(translator, batch, settings)
        progress.clear()
        yield from zip(batch, answers, strict=True)
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


def _line(source: str, found: list[Answer], *, as_json: bool) -> str:
    if not as_json:
        return printed(found)
    return as_text({"source": source, "translations": [answer._asdict() for answer in found]})
