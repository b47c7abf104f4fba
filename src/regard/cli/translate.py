"""`regard translate`: texts in one language to texts in another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

if TYPE_CHECKING:
    from regard.cli.progress import LineCount

_BATCH = 16  # texts that are translated together
_SHIPPED_MODEL = "en-zh-transformer"
_EXAMPLES = """\b
Examples:
  regard translate "I love you"
  regard translate --model ./opus-mt-zh-en --file news.txt --beam 5
  cat news.txt | regard translate --json > news.jsonl"""


@dataclass(frozen=True)
class TranslateOptions(GenerationOptions):
    """The options of `regard translate`."""

    texts: tuple[str, ...]


@command(epilog=_EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@generation_options
@output_options
def translate(**arguments: Any) -> None:
    """Translate texts with a model.

    Translates each TEXT, or each line of --file or of stdin (-), and prints one line for each; an
    empty line stays empty. With --best each line begins with the score of the translation: its
    log-probability divided by its number of tokens. --json prints one object per text and line.
    """
    _translate_all(TranslateOptions(**arguments))


def _translate_all(options: TranslateOptions) -> None:
    """Translate all sources, and print or write a line for each as its batch is done."""
    from regard.cli.progress import LineCount

    name = default_model(options.model, "translate", _SHIPPED_MODEL)
    sources = read_texts(options.texts, options.file)
    progress = LineCount(len(sources), options.lang, options.quiet)
    with settings_name_options():
        model = load_writer(name, options, translates=True).model
        answers = _translate_in_batches(model, sources, options.settings(), progress)
        lines = (_format_line(*pair, as_json=options.as_json) for pair in answers)
        write_lines(lines, options.out)


def _translate_in_batches(
    model: Any, sources: Sequence[str], settings: dict[str, Any], progress: "LineCount"
) -> Iterator[tuple[str, list[Answer]]]:
    """Each source with its translations, as soon as its batch is done."""
    for start in range(0, len(sources), _BATCH):
        batch = sources[start : start + _BATCH]
        answers = _translate_batch(model, batch, settings)
        progress.clear()
        yield from zip(batch, answers, strict=True)
        progress.show(start + len(batch))


def _translate_batch(
    model: Any, sources: Sequence[str], settings: dict[str, Any]
) -> list[list[Answer]]:
    """The translations of each source, the best first; none for a source without text."""
    from regard.models.generation import generate

    filled = [index for index, source in enumerate(sources) if source.strip()]
    answers: list[list[Answer]] = [[] for _ in sources]
    if not filled:
        return answers
    generated = generate(
        model, [model.tokenizer.encode(sources[index]) for index in filled], **settings
    )
    per_source = len(generated) // len(filled)  # more than one with --best
    rows = zip(generated, generated.scores.tolist(), strict=True)
    for row, (token_ids, score) in enumerate(rows):
        text = model.tokenizer.decode(token_ids, skip_special_tokens=True)
        answers[filled[row // per_source]].append(Answer(text, score))
    return answers


def _format_line(source: str, answers: list[Answer], *, as_json: bool) -> str:
    """The line of one source: its translations as text, or a JSON object."""
    if not as_json:
        return format_answers(answers)
    translations = [answer._asdict() for answer in answers]
    return to_json_text({"source": source, "translations": translations})
