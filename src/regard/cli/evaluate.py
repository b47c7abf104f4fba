"""`regard evaluate`: how good a model is, as numbers."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.cli import options
from regard.cli.scores import Scores, shown
from regard.errors import InputError
from regard.models import from_pretrained
from regard.studies import Sentence, align, read_sentences
from regard.training.corpora import Pair, barred, pairs, texts
from regard.training.evaluate import evaluate as score
from regard.training.evaluate import evaluate_texts

_PATIENCE = 2.0  # seconds before progress is shown
_EXAMPLES = """\b
Examples:
  regard evaluate ./en-zh test.tsv --beam 5 --by-length
  regard evaluate ./en-zh test.tsv --gold alignments.tsv --peaks peaks.tsv --json
  regard evaluate ./en-zh zhen.src-tgt --gold zhen.gold --one-based --reverse"""
_LANGUAGES = ("zh", "13a", "char", "ja-mecab", "none")


@click.command(epilog=_EXAMPLES)
@click.argument("model", metavar="MODEL")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--beam", type=click.IntRange(1), help="Hypotheses side by side. [model's own]")
@click.option("--limit", type=click.IntRange(1), help="Take the first so many lines only.")
@click.option(
    "--language",
    type=click.Choice(_LANGUAGES),
    help="How sacrebleu splits the target into words. [guessed from the target]",
)
@click.option("--by-length", is_flag=True, help="Also chrF by the length of the source.")
@click.option(
    "--gold",
    type=click.Path(path_type=Path),
    help="Links by hand: alignment error rate of the model's attention.",
)
@click.option(
    "--peaks",
    type=click.Path(path_type=Path),
    help="Links of some words: how often the largest weight is right.",
)
@click.option("--one-based", is_flag=True, help="The links count words from 1.")
@click.option("--reverse", is_flag=True, help="DATA and links have the target first.")
@options.language
@options.as_json
def evaluate(model: str, data: Path, lang: str, as_json: bool, **asked: Any) -> None:
    """Score a model on held-out DATA.

    DATA has pairs: .tsv (source, tab, target), .jsonl, or lines of source ||| target. MODEL is a
    folder or a name on the hub. For a model that continues texts, DATA is a text file, and the
    scores are loss and perplexity.

    A file of links has the words of both sides and the links i-j (sure) or ipj (possible), with
    tabs between; or the links alone, a line for each line of DATA. The model is made to write the
    reference, and each word of it is linked with the source word that was looked at most.
    """
    scorer = from_pretrained(model)
    if scorer.tokenizer is None:
        raise InputError(f"{model} has no tokenizer: a folder with one holds tokenizer.json")
    found = (
        _translator(scorer, data, asked) if scorer.reads_source else _teller(scorer, data, asked)
    )
    click.echo(json.dumps(found.record(), ensure_ascii=False) if as_json else shown(found, lang))


def _teller(model: Any, data: Path, asked: dict[str, Any]) -> Scores:
    refused = [name for name in ("beam", "language", "gold", "peaks") if asked[name] is not None]
    if refused:
        raise InputError(f"--{refused[0]} is for models that translate; this one continues texts")
    found = evaluate_texts(model, list(islice(texts(data), asked["limit"])))
    return Scores(asdict(found))


def _translator(model: Any, data: Path, asked: dict[str, Any]) -> Scores:
    held = _pairs(data, asked["limit"], reverse=asked["reverse"])
    gold, peaks = (_links(asked[name], data, asked) for name in ("gold", "peaks"))
    with _progress(len(held) + len(gold) + len(peaks)) as bar:
        found = score(model, held, beam=asked["beam"], words=asked["language"], told=bar.after(0))
        numbers = asdict(found)
        lengths = numbers.pop("by_length")
        scores = Scores(numbers, lengths if asked["by_length"] else ())
        if gold:
            told = bar.after(len(held))
            scores.alignment = asdict(align(model, model.tokenizer, gold, told=told))
        if peaks:
            told = bar.after(len(held) + len(gold))
            scores.peaks = asdict(align(model, model.tokenizer, peaks, told=told))
    return scores


def _pairs(data: Path, limit: int | None, *, reverse: bool) -> list[Pair]:
    corpus = barred(data) if data.suffix not in (".tsv", ".jsonl") else pairs(data)
    found = list(islice(corpus, limit))
    return [Pair(each.target, each.source) for each in found] if reverse else found


def _links(path: Path | None, data: Path, asked: dict[str, Any]) -> Sequence[Sentence]:
    if path is None:
        return ()
    first = int(asked["one_based"])
    return read_sentences(path, data, first=first, reverse=asked["reverse"])[: asked["limit"]]


class _Bar:
    """A bar on stderr that appears once the work has taken more than a moment."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("{task.completed:.0f}/{task.total:.0f}"), BarColumn())
        console = Console(stderr=True)
        self.progress = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self.task, self.start = self.progress.add_task("", total=total), monotonic()

    def after(self, before: int) -> Any:
        """What is told how many are done, after so many others."""
        return lambda done: self.show(before + done)

    def show(self, done: int) -> None:
        """Say how many are done."""
        self.progress.update(self.task, completed=done)
        late = monotonic() - self.start > _PATIENCE
        if late and self.progress.console.is_terminal and not self.progress.live.is_started:
            self.progress.start()


@contextmanager
def _progress(total: int) -> Iterator[_Bar]:
    bar = _Bar(total)
    try:
        yield bar
    finally:
        if bar.progress.live.is_started:
            bar.progress.stop()
