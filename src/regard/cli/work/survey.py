"""The work of `regard survey`."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from regard.cli.output import as_text
from regard.cli.work.bar import Bar, progress
from regard.cli.work.corpus import Corpus
from regard.cli.work.surveyed import page, printed, record, say
from regard.errors import InputError
from regard.loading import find_device, load
from regard.studies.survey.files import SUFFIXES, save_survey
from regard.studies.survey.run import survey, takes_pairs
from regard.studies.survey.table import Survey
from regard.training.contexts import deferred_interrupts
from regard.training.distribution import World, process_group

_PAGE = ".html"
_STATE = ".state"  # what the name of a survey under way ends with


def run(model: str, corpus: Path, outs: tuple[Path, ...], **asked: Any) -> None:
    """Survey the model, and write the table or print it."""
    _check(outs)
    device = find_device(asked["device"])
    # under torchrun each process moves the model to its own device below
    loaded = load(model, device="cpu")
    tokenizer = loaded.tokenizer
    texts = Corpus(corpus, takes_pairs(loaded.model), asked["paragraphs"], asked["limit"])
    with process_group(str(device)) as ranks:
        work = _Work(loaded.model.to(ranks.device), tokenizer, texts, ranks, asked)
        found = work.surveyed(outs[0] if outs else None)
        if not ranks.is_first:
            return
    for out in outs:
        _write(found, model, out, asked["lang"])
    if outs:
        _state(outs[0]).unlink(missing_ok=True)
    _tell(found, model, outs, asked)


def _check(outs: tuple[Path, ...]) -> None:
    """Refuse before the work what cannot be written after it."""
    for out in outs:
        if out.suffix not in (_PAGE, *SUFFIXES):
            known = ", ".join((*SUFFIXES, _PAGE))
            raise InputError(f"expected --out to end with {known}, got {str(out)!r}")
        if not out.parent.is_dir():
            raise InputError(f"no folder {str(out.parent)!r} to write {out.name} to; make it first")


def _state(out: Path) -> Path:
    return out.with_name(out.name + _STATE)


def _write(found: Survey, model: str, out: Path, language: str) -> None:
    if out.suffix == _PAGE:
        page(found, model, language).save(out)
    else:
        save_survey(found, out)


def _tell(found: Survey, model: str, outs: tuple[Path, ...], asked: dict[str, Any]) -> None:
    if asked["as_json"]:
        click.echo(as_text(record(found, model) | {"out": [str(out) for out in outs]}))
    elif outs:
        paths = ", ".join(map(str, outs))
        values = {"examples": found.examples, "heads": len(found.rows), "path": paths}
        click.echo(say("written", asked["lang"], **values))
    else:
        Console(highlight=False).print(printed(found, asked["lang"]))


class _Work:
    """A survey with its progress in the terminal, which Ctrl-C ends after the texts at hand."""

    def __init__(
        self, network: Any, tokenizer: Any, texts: Corpus, ranks: World, asked: dict[str, Any]
    ) -> None:
        self.network, self.tokenizer = network, tokenizer
        self.texts, self.ranks, self.asked = texts, ranks, asked
        self.signals: list[int] = []
        self.done = 0

    def surveyed(self, out: Path | None) -> Survey:
        """The survey; a file to be written lets it be gone on with."""
        # what is broken in the corpus is found before the work
        total = sum(1 for _ in self.texts) if self.ranks.is_first else 0
        quiet = self.asked["quiet"] or not self.ranks.is_first
        with deferred_interrupts(self.signals), progress(total, quiet=quiet) as bar:
            try:
                return survey(
                    self.network,
                    self.tokenizer,
                    self.texts,
                    batch=self.asked["batch"],
                    longest=self.asked["longest"],
                    state=None if out is None else _state(out),
                    on_progress=lambda done: self._told(bar, done),
                )
            except KeyboardInterrupt:
                if out is not None and self.ranks.is_first:
                    said = say("interrupted", self.asked["lang"], done=self.done)
                    click.echo(said, err=True)
                raise

    def _told(self, bar: Bar, done: int) -> bool:
        self.done = done
        bar.show(done)
        return bool(self.signals)
