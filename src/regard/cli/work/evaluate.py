"""The work of `regard evaluate`."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from regard.cli.output import as_text, write_lines
from regard.cli.work.bar import progress
from regard.cli.work.scores import Scores, shown
from regard.cli.work.writing import native_writer
from regard.errors import InputError
from regard.loading import load
from regard.studies import SentencePair, evaluate_alignment, read_sentence_pairs
from regard.training.corpora import Pair, bar_separated_pairs, pairs, texts
from regard.training.evaluate import evaluate as score
from regard.training.evaluate import evaluate_texts


def run(model: str, data: Path, lang: str, as_json: bool, **asked: Any) -> None:
    """Score the model and print the numbers."""
    loaded = native_writer(load(model, device=asked["device"]), "evaluate")
    measure = _translator if loaded.translates else _teller
    found = measure(loaded.model, data, asked)
    write_lines([as_text(found.record()) if as_json else shown(found, lang)], asked["out"])


def _teller(model: Any, data: Path, asked: dict[str, Any]) -> Scores:
    refused = [name for name in ("beam", "language", "gold", "peaks") if asked[name] is not None]
    if refused:
        raise InputError(f"--{refused[0]} is for models that translate; this one continues texts")
    found = evaluate_texts(model, list(islice(texts(data), asked["limit"])))
    return Scores(asdict(found))


def _translator(model: Any, data: Path, asked: dict[str, Any]) -> Scores:
    held = _pairs(data, asked["limit"], reverse=asked["reverse"])
    gold, peaks = (_links(asked[name], data, asked) for name in ("gold", "peaks"))
    with progress(len(held) + len(gold) + len(peaks), quiet=asked["quiet"]) as bar:
        found = score(
            model,
            held,
            beam=asked["beam"],
            bleu_tokenizer=asked["language"],
            on_progress=bar.after(0),
        )
        numbers = asdict(found)
        lengths = numbers.pop("by_length")
        scores = Scores(numbers, lengths if asked["by_length"] else ())
        if gold:
            told = bar.after(len(held))
            scores.alignment = asdict(
                evaluate_alignment(model, model.tokenizer, gold, on_progress=told)
            )
        if peaks:
            told = bar.after(len(held) + len(gold))
            scores.peaks = asdict(
                evaluate_alignment(model, model.tokenizer, peaks, on_progress=told)
            )
    return scores


def _pairs(data: Path, limit: int | None, *, reverse: bool) -> list[Pair]:
    corpus = bar_separated_pairs(data) if data.suffix not in (".tsv", ".jsonl") else pairs(data)
    found = list(islice(corpus, limit))
    return [Pair(each.target, each.source) for each in found] if reverse else found


def _links(path: Path | None, data: Path, asked: dict[str, Any]) -> Sequence[SentencePair]:
    if path is None:
        return ()
    first = int(asked["one_based"])
    return read_sentence_pairs(path, data, first=first, reverse=asked["reverse"])[: asked["limit"]]
