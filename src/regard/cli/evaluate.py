"""`regard evaluate`: the metrics of a model on held-out data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.generation import check_native_writer
from regard.cli.lazy import command
from regard.cli.output import to_json_text, write_lines
from regard.errors import InputError
from regard.text import say

if TYPE_CHECKING:
    from regard.loading import LoadedModel
    from regard.studies import SentencePair
    from regard.training.corpora import Pair

_EXAMPLES = """\b
Examples:
  regard evaluate ./en-zh test.tsv --beam 5 --by-length
  regard evaluate ./en-zh test.tsv --gold alignments.tsv --peaks peaks.tsv --json
  regard evaluate ./en-zh zhen.src-tgt --gold zhen.gold --one-based --reverse
  regard evaluate ./sentiment reviews.tsv.gz
  regard evaluate ./minilm-squad dev.jsonl --json
  regard evaluate summaries-en abstracts.jsonl.gz --beam 4"""
_BLEU_TOKENIZERS = ("zh", "13a", "char", "ja-mecab", "none")
_NAMES = {"bleu": "BLEU", "chrf": "chrF", "signature": "sacrebleu"}  # the same in every language
_FORMATS = {
    "pairs": "{:d}",
    "texts": "{:d}",
    "bleu": "{:.2f}",
    "chrf": "{:.2f}",
    "loss": "{:.4f}",
    "perplexity": "{:.2f}",
    "speed": "{:,.0f}",
    "signature": "{}",
    "aer": "{:.1%}",
    "precision": "{:.1%}",
    "recall": "{:.1%}",
    "diagonal": "{:.1%}",
    "unknown": "{0[0]:.1%}, {0[1]:.1%}",
    "peaks": "{:.1%}",
}


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of `regard evaluate`."""

    model: str
    data: Path
    beam: int | None
    limit: int | None
    language: str | None
    by_length: bool
    gold: Path | None
    peaks: Path | None
    one_based: bool
    reverse: bool
    out: Path | None
    lang: str
    as_json: bool
    device: str | None
    quiet: bool


@command(epilog=_EXAMPLES)
@options.model_argument("model", "MODEL")
@click.argument("data", type=options.input_file)
@options.beam
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="Use only the first N lines of each file."
)
@click.option(
    "--language",
    type=click.Choice(_BLEU_TOKENIZERS),
    help="How sacrebleu tokenizes the target for BLEU. [guessed from the target]",
)
@click.option("--by-length", is_flag=True, help="Also print chrF by the length of the source.")
@options.file(
    "--gold", "Word alignments made by hand: print the alignment error rate of the attention."
)
@options.file(
    "--peaks",
    "Alignments of some words: print how often the largest weight is on an aligned word.",
)
@click.option("--one-based", is_flag=True, help="Alignments count words from 1 instead of 0.")
@click.option(
    "--reverse", is_flag=True, help="DATA and alignments have the target before the source."
)
@options.out
@options.language
@options.as_json
@options.device
@options.quiet
def evaluate(**arguments: Any) -> None:
    """Compute the metrics of a model on held-out DATA.

    DATA has pairs: .tsv (source, tab, target), .jsonl, or lines of source ||| target. MODEL is a
    shipped name, a folder, or a name on the hub. For a model that continues texts, DATA is a text
    file, and the metrics are loss and perplexity. For a classifier, DATA has texts and labels
    (.tsv, or .jsonl with text and label): accuracy, macro F1 and the confusion matrix. For a model
    that answers questions it is .jsonl with question, context and answers: exact match and F1,
    counted as SQuAD does, or CMRC 2018 for Chinese, and the worst answers. For a model that writes,
    .jsonl with text and summary gives ROUGE and the worst summaries. For a matcher it has question,
    right and wrong entries (.tsv, or .jsonl with question, right and wrong): how often the first is
    right, and the mean reciprocal rank. Files may be gzipped.

    A file of alignments has on each line the words of both sides and the links i-j (sure) or ipj
    (possible), separated by tabs; or the links alone, one line for each line of DATA. The model is
    forced to write the reference, and each of its words is aligned with the source word that has
    the largest attention weight.
    """
    _evaluate(EvaluateOptions(**arguments))


@dataclass
class Metrics:
    """The metrics of a model, with those by length and of alignment if they were asked for."""

    numbers: Mapping[str, Any]
    by_length: Sequence[Mapping[str, Any]] = ()
    alignment: Mapping[str, Any] | None = None
    peaks: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All metrics as JSON types."""
        record = dict(self.numbers)
        if self.by_length:
            record["by_length"] = list(self.by_length)
        if self.alignment is not None:
            record["alignment"] = self.alignment
        if self.peaks is not None:
            record["peaks"] = {key: self.peaks[key] for key in ("sentences", "peaks", "unknown")}
        return record


def _evaluate(options: EvaluateOptions) -> None:
    """Load the model, compute its metrics, and print them or write them to --out."""
    from regard.loading import load

    loaded = load(options.model, device=options.device)
    if loaded.answers or loaded.matches or (loaded.classifies and not loaded.sees):
        _evaluate_task(loaded, options)
        return
    if loaded.translates and not loaded.sees and _has_summaries(options.data):
        _evaluate_summaries(loaded, options)
        return
    check_native_writer(
        loaded, "evaluate", f"{options.model} writes no texts, so that there is nothing to score"
    )
    loaded.tokenizer  # noqa: B018  refuses a model without one
    if loaded.translates:
        metrics = _evaluate_translator(loaded.model, options)
    else:
        metrics = _evaluate_language_model(loaded.model, options)
    text = to_json_text(metrics.to_json()) if options.as_json else _format(metrics, options.lang)
    write_lines([text], options.out)


def _evaluate_task(loaded: "LoadedModel", options: EvaluateOptions) -> None:
    """Print the metrics of a classifier or of a reader, or write them to --out."""
    from regard.cli.evaluate_tasks import (
        evaluate_classifier,
        evaluate_matcher,
        evaluate_reader,
        format_task_metrics,
    )

    _refuse_translation_options(options, "this one labels texts, or finds or ranks answers")
    loaded.tokenizer  # noqa: B018  refuses a model without one
    if loaded.matches:
        evaluate_model = evaluate_matcher
    else:
        evaluate_model = evaluate_reader if loaded.answers else evaluate_classifier
    record = evaluate_model(loaded, options.data, options.limit, quiet=options.quiet)
    text = to_json_text(record) if options.as_json else format_task_metrics(record, options.lang)
    write_lines([text], options.out)


def _has_summaries(data: Path) -> bool:
    from regard.training.summaries import has_summaries

    return has_summaries(data)


def _evaluate_summaries(loaded: "LoadedModel", options: EvaluateOptions) -> None:
    """Print ROUGE and the worst summaries of a model, or write them to --out."""
    from regard.cli.evaluate_tasks import evaluate_summariser, format_task_metrics

    loaded.tokenizer  # noqa: B018  refuses a model without one
    record = evaluate_summariser(
        loaded, options.data, options.limit, options.beam, quiet=options.quiet
    )
    text = to_json_text(record) if options.as_json else format_task_metrics(record, options.lang)
    write_lines([text], options.out)


def _refuse_translation_options(options: EvaluateOptions, kind: str) -> None:
    """Refuse options that only a translator has a use for."""
    for name in ("beam", "language", "gold", "peaks"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name} is for models that translate; {kind}")


def _evaluate_language_model(model: Any, options: EvaluateOptions) -> Metrics:
    """Loss and perplexity of a model that continues texts."""
    from regard.training.corpora import texts
    from regard.training.evaluate import evaluate_texts

    _refuse_translation_options(options, "this one continues texts")
    held_out = list(islice(texts(options.data), options.limit))
    return Metrics(asdict(evaluate_texts(model, held_out)))


def _evaluate_translator(model: Any, options: EvaluateOptions) -> Metrics:
    """BLEU, chrF and loss of a translator, and the metrics of its alignments if asked for."""
    from regard.cli.progress import progress_bar
    from regard.studies import evaluate_alignment
    from regard.training.evaluate import evaluate

    held_out = _read_pairs(options)
    gold, peaks = _read_alignments(options.gold, options), _read_alignments(options.peaks, options)
    with progress_bar(len(held_out) + len(gold) + len(peaks), quiet=options.quiet) as bar:
        numbers = asdict(
            evaluate(
                model,
                held_out,
                beam=options.beam,
                bleu_tokenizer=options.language,
                on_progress=bar.after(0),
            )
        )
        lengths = numbers.pop("by_length")
        metrics = Metrics(numbers, lengths if options.by_length else ())
        if gold:
            show = bar.after(len(held_out))
            metrics.alignment = asdict(
                evaluate_alignment(model, model.tokenizer, gold, on_progress=show)
            )
        if peaks:
            show = bar.after(len(held_out) + len(gold))
            metrics.peaks = asdict(
                evaluate_alignment(model, model.tokenizer, peaks, on_progress=show)
            )
    return metrics


def _read_pairs(options: EvaluateOptions) -> "list[Pair]":
    """The held-out pairs, source first whatever their order in the file."""
    from regard.training.corpora import Pair, bar_separated_pairs, pairs

    columns = options.data.suffix in (".tsv", ".jsonl")
    corpus = pairs(options.data) if columns else bar_separated_pairs(options.data)
    held_out = list(islice(corpus, options.limit))
    return [Pair(pair.target, pair.source) for pair in held_out] if options.reverse else held_out


def _read_alignments(file: Path | None, options: EvaluateOptions) -> "Sequence[SentencePair]":
    """The sentence pairs of a file of alignments; none without a file."""
    from regard.studies import read_sentence_pairs

    if file is None:
        return ()
    first = int(options.one_based)
    return read_sentence_pairs(file, options.data, first=first, reverse=options.reverse)[
        : options.limit
    ]


def _format(metrics: Metrics, language: str) -> str:
    """A line for each metric: its name and its value."""
    return "\n".join(f"{name}: {value}" for name, value in _named_values(metrics, language))


def _named_values(metrics: Metrics, language: str) -> Iterator[tuple[str, str]]:
    """The name and the formatted value of each metric, in the order of the output."""
    for key, value in metrics.numbers.items():
        if key in _FORMATS:
            name = _NAMES.get(key) or say(f"evaluate.{key}", language)
            yield name, _FORMATS[key].format(value)
    for group in metrics.by_length:
        first, last = group["first"], group["last"]
        reach = f"{first}+" if last is None else f"{first}-{last}"
        name = say("evaluate.length", language, reach=reach, pairs=group["pairs"])
        yield name, f"{group['chrf']:.2f}"
    if metrics.alignment is not None:
        yield from _alignment_values(metrics.alignment, language)
    if metrics.peaks is not None:
        name = say("evaluate.peaks", language, sentences=metrics.peaks["sentences"])
        yield name, _FORMATS["peaks"].format(metrics.peaks["peaks"])


def _alignment_values(alignment: Mapping[str, Any], language: str) -> Iterator[tuple[str, str]]:
    """The names and formatted values of the metrics of alignment."""
    links = alignment["agreement"]
    values = {
        "aer": links["error_rate"],
        "precision": links["precision"],
        "recall": links["recall"],
        "diagonal": alignment["diagonal"]["error_rate"],
        "unknown": alignment["unknown"],
    }
    for key, value in values.items():
        name = say(f"evaluate.{key}", language, sentences=alignment["sentences"])
        yield name, _FORMATS[key].format(value)
