"""`regard survey`: measures of every attention head of a model over a corpus."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.errors import InputError
from regard.terminal import make_console, print_line
from regard.text import say

if TYPE_CHECKING:
    from regard.studies.survey.table import Survey
    from regard.training.distribution import World

_PAGE = ".html"
_STATE = ".state"  # the suffix of the file that holds an unfinished survey
_EXAMPLES = """\b
Examples:
  regard survey en-zh-transformer pairs.tsv
  regard survey ./minilm sentences.txt --out heads.csv --out heads.html
  torchrun --nproc-per-node 2 -m regard survey ./minilm sentences.txt --out heads.parquet"""


@dataclass(frozen=True)
class SurveyOptions:
    """The options of `regard survey`."""

    model: str
    corpus: Path
    outs: tuple[Path, ...]
    limit: int | None
    paragraphs: bool
    batch: int
    longest: int | None
    lang: str
    as_json: bool
    device: str | None
    quiet: bool


@command(epilog=_EXAMPLES)
@options.model_argument("model", "MODEL")
@click.argument("corpus", type=options.input_file)
@click.option(
    "--out",
    "outs",
    metavar="FILE",
    type=options.path,
    multiple=True,
    help="Write .csv, .parquet, .json or .html; may be given several times.",
)
@options.limit_texts
@click.option(
    "--paragraphs", is_flag=True, help="Texts are separated by empty lines, not by line ends."
)
@click.option(
    "--batch",
    metavar="TOKENS",
    type=click.IntRange(1),
    default=2048,
    show_default=True,
    help="Largest number of tokens in a batch.",
)
@click.option(
    "--longest",
    metavar="TOKENS",
    type=click.IntRange(1),
    help="Cut texts after this number of tokens. [the model's context length]",
)
@options.language
@options.as_json
@options.device
@options.quiet
def survey(**arguments: Any) -> None:
    """Measure every attention head of a model over a CORPUS.

    Each line of CORPUS is a text; in .tsv the first column, in .jsonl the key "text". A model that
    translates needs pairs: .tsv (source, tab, target), .jsonl with "source" and "target", or lines
    of source ||| target; it is forced to write the target.

    Each row of the table is a head, with the mean and the standard deviation of each measure over
    the texts. With --out the survey can be interrupted, and the same command continues it. Under
    torchrun the processes share the texts.
    """
    _survey(SurveyOptions(**arguments))


def _survey(options: SurveyOptions) -> None:
    """Run the survey in all processes; the first one writes and prints its table."""
    from regard.loading import find_device
    from regard.training.distribution import process_group

    _check_outputs(options.outs)
    device = find_device(options.device)
    with process_group(str(device)) as world:
        result = _run_survey(options, world)
        if not world.is_first:
            return
    for out in options.outs:
        _write(result, out, options)
    if options.outs:
        _state_file(options.outs[0]).unlink(missing_ok=True)
    _print_survey(result, options)


def _check_outputs(outs: tuple[Path, ...]) -> None:
    """Refuse, before the work, files that cannot be written after it."""
    from regard.studies.survey.files import SUFFIXES

    for out in outs:
        if out.suffix not in (_PAGE, *SUFFIXES):
            known = ", ".join((*SUFFIXES, _PAGE))
            raise InputError(f"expected --out to end with {known}, got {str(out)!r}")
        if not out.parent.is_dir():
            raise InputError(f"no folder {str(out.parent)!r} to write {out.name} to; make it first")


def _state_file(out: Path) -> Path:
    """The file that holds the unfinished survey of an output file."""
    return out.with_name(out.name + _STATE)


def _run_survey(options: SurveyOptions, world: "World") -> "Survey":
    """The survey, with a progress bar; Ctrl-C saves what is done and says how to continue."""
    from regard.cli.progress import progress_bar
    from regard.loading import load
    from regard.studies.survey.run import survey, takes_pairs
    from regard.training.contexts import deferred_interrupts
    from regard.training.corpus_file import CorpusFile

    loaded = load(options.model, device=world.device)
    pairs = takes_pairs(loaded.model)
    texts = CorpusFile(options.corpus, pairs, options.paragraphs, options.limit)
    state = _state_file(options.outs[0]) if options.outs else None
    tokenizer = loaded.tokenizer  # refuses a model without one before the corpus is read
    # counting also finds a broken line of the corpus before the work
    total = sum(1 for _ in texts) if world.is_first else 0
    signals: list[int] = []
    done_texts = 0

    def report_progress(done: int) -> bool:
        """Show how many texts are done; True stops the survey."""
        nonlocal done_texts
        done_texts = done
        bar.show(done)
        return bool(signals)

    quiet = options.quiet or not world.is_first
    with deferred_interrupts(signals), progress_bar(total, quiet=quiet) as bar:
        try:
            return survey(
                loaded.model,
                tokenizer,
                texts,
                batch=options.batch,
                longest=options.longest,
                state=state,
                on_progress=report_progress,
            )
        except KeyboardInterrupt:
            if state is not None and world.is_first:
                print_line(say("survey.interrupted", options.lang, done=done_texts), err=True)
            raise


def _write(result: "Survey", out: Path, options: SurveyOptions) -> None:
    """Write the survey as a page or as a table, by the file's suffix."""
    from regard.studies.survey.files import save_survey
    from regard.views.survey_table import survey_page

    if out.suffix == _PAGE:
        survey_page(result, options.model, options.lang).save(out)
    else:
        save_survey(result, out)


def _print_survey(result: "Survey", options: SurveyOptions) -> None:
    """Print the table, or only where it was written."""
    from regard.views.survey_table import survey_grid

    if options.as_json:
        record = {
            "model": options.model,
            "examples": result.examples,
            "cut": result.cut,
            "gaps": dict(result.gaps),
            "heads": result.rows,
            "out": [str(out) for out in options.outs],
        }
        print_json(record)
    elif options.outs:
        paths = ", ".join(map(str, options.outs))
        heads = len(result.rows)
        values = {"examples": result.examples, "heads": heads, "path": paths}
        print_line(say("survey.written", options.lang, **values))
    else:
        make_console().print(survey_grid(result, options.lang))
