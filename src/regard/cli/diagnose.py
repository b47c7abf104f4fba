"""`regard diagnose`: bugs and notable patterns of a model's attention, as sentences."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from regard.cli import options
from regard.cli.inputs import capture_inputs, is_file, read_texts
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.errors import FileError, InputError, RegardError
from regard.terminal import make_console, print_line
from regard.text import say

if TYPE_CHECKING:
    from rich.console import Console

    from regard.cli.progress import StatusLine
    from regard.loading import LoadedModel
    from regard.types import Finding, Trace

_BATCH = 16  # texts that are read together; translators write one text at a time
_FINDINGS_PER_CHECK = 2  # printed without --all
_SHORT_SENTENCES = 3  # printed with --short
_EXIT_CODE_FOUND = 1
_EXAMPLES = """\b
Examples:
  regard diagnose en-zh-transformer "I love you" "Where is the station?"
  regard diagnose ./my-model --file texts.txt --out report.html
  regard diagnose ./my-model --file texts.txt --fail-on warning   # in CI
  regard diagnose love.trace --expect causal --lang zh"""


@dataclass(frozen=True)
class DiagnoseOptions:
    """The options of `regard diagnose`."""

    model: str
    texts: tuple[str, ...]
    file: Path | None
    limit: int | None
    deep: bool
    expect: tuple[Literal["causal", "hard", "partial"], ...]
    everything: bool
    short: bool
    fail_on: Literal["warning", "bug"] | None
    out: Path | None
    lang: str
    as_json: bool
    device: str | None
    quiet: bool


@command(epilog=_EXAMPLES)
@options.model_argument("model", "MODEL|TRACE")
@click.argument("texts", metavar="[TEXT|TRACE]...", nargs=-1)
@options.texts_file
@options.limit_texts
@click.option(
    "--deep",
    is_flag=True,
    help="Also run the model on changed texts: does its output depend on what it attends to?",
)
@click.option(
    "--expect",
    type=click.Choice(("causal", "hard", "partial")),
    multiple=True,
    help="What kind of attention is intended, if the model does not declare it.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print every finding instead of the first two of each check.",
)
@click.option(
    "--short", is_flag=True, help="Print only the three most severe findings, a sentence each."
)
@click.option(
    "--fail-on",
    type=click.Choice(("warning", "bug")),
    help="Exit with code 1 if a finding is at least this severe.",
)
@options.out
@options.language
@options.as_json
@options.device
@options.quiet
def diagnose(**arguments: Any) -> None:
    """Check a model's attention for bugs and notable patterns.

    MODEL reads each TEXT, or each line of --file or of stdin (-); a translator also writes its
    translation. MODEL is a shipped name, a folder or a hub name; or give saved traces instead.

    A bug is an error in masks or numbers, a warning is probably a fault, an observation is common
    in healthy models. Each finding has its number and its limit, the usual cause and what to try.
    --expect causal: no token may attend to later ones; hard: each row chooses one token; partial:
    rows may sum to less than one. --out writes a page (.html) with the pictures.
    """
    _diagnose(DiagnoseOptions(**arguments))


@dataclass(frozen=True, eq=False)
class Subject:
    """What is diagnosed: traces, and the model and texts that they come from if these are known."""

    name: str
    traces: "Sequence[Trace]"
    loaded: "LoadedModel | None" = None
    texts: Sequence[str] = ()


def _diagnose(options: DiagnoseOptions) -> None:
    """Load or capture traces, run the checks, print the findings, and set the exit code."""
    from regard.cli.progress import StatusLine
    from regard.diagnosis import CHECKS, diagnose

    status = StatusLine(quiet=options.quiet)
    if _is_trace(options.model):
        subject = _load_traces([options.model, *options.texts], options)
    else:
        subject = _capture_traces(options, status)
    checks = [check for check in CHECKS.values() if options.deep or check.cost == "traces"]
    names = [check.name for check in checks]
    findings = diagnose(
        subject.traces,
        *(() if subject.loaded is None else (subject.loaded.model,)),
        processor=None if subject.loaded is None else subject.loaded.processor,
        texts=subject.texts if options.deep else None,
        expect=options.expect,
        checks=checks,
        on_progress=_status_of_checks(status, names, options.lang),
    )
    status.clear()
    _print_diagnosis(subject, findings, names, options)
    if _is_severe(findings, options.fail_on):
        sys.exit(_EXIT_CODE_FOUND)


def _is_severe(findings: "Sequence[Finding]", limit: Literal["warning", "bug"] | None) -> bool:
    """True if a finding is at least as severe as the limit."""
    from regard.types.finding import SEVERITIES

    if limit is None:
        return False
    severe = SEVERITIES[SEVERITIES.index(limit) :]
    return any(finding.severity in severe for finding in findings)


def _is_trace(name: str) -> bool:
    """True if a name is that of a trace; a damaged one is known by its suffix."""
    from regard.storage import is_trace_file

    path = Path(name).expanduser()
    return is_trace_file(path) or (path.suffix == ".trace" and is_file(str(path)))


def _load_traces(names: Sequence[str], options: DiagnoseOptions) -> Subject:
    """The traces of these files, with which no option about a model goes."""
    from regard.storage import load_trace

    for name, value in (("--file", options.file), ("--deep", options.deep or None)):
        if value is not None:
            raise click.UsageError(f"a saved trace has its model behind it; leave out {name}")
    paths = [Path(name).expanduser() for name in names]
    for name in names:
        if not _is_trace(name):
            raise InputError(f"expected saved traces after the first, got {name!r}")
    return Subject(paths[0].name, [load_trace(path) for path in paths[: options.limit]])


def _capture_traces(options: DiagnoseOptions, status: "StatusLine") -> Subject:
    """The traces of the model on the texts."""
    from regard.loading import load
    from regard.models.checkpoints.locations import is_file_name

    if is_file_name(options.model):  # before stdin is read; files that are there were refused
        raise FileError(f"there is no file {options.model}; give a trace that is there, or a model")
    lines = [text for text in read_texts(options.texts, options.file) if text.strip()]
    texts = lines[: options.limit]
    loaded = load(options.model, device=options.device, progress=not options.quiet)
    if loaded.sees:
        raise InputError(
            f"{options.model} looks at pictures; regard diagnose reads texts, or traces that "
            "regard look --out FILE.trace wrote"
        )
    loaded.tokenizer  # noqa: B018  refuses a model without one
    traces: list[Trace] = []
    batch = 1 if loaded.translates else _BATCH
    generate = True if loaded.translates else None
    for start in range(0, len(texts), batch):
        part = texts[start : start + batch]
        traces += capture_inputs(loaded, part, generate, "these texts")
        status.show(say("diagnose.captured", options.lang, done=len(traces), count=len(texts)))
    return Subject(options.model, traces, loaded, texts)


def _status_of_checks(
    status: "StatusLine", names: Sequence[str], language: str
) -> Callable[[str], None]:
    """A function that shows which check is being run."""

    def show(check: str) -> None:
        """Show that this check is being run."""
        done = names.index(check) + 1
        text = say("diagnose.checking", language, done=done, count=len(names), check=check)
        status.show(text)

    return show


def _print_diagnosis(
    subject: Subject, findings: "Sequence[Finding]", ran: Sequence[str], options: DiagnoseOptions
) -> None:
    """Print the findings as text or JSON, or write their page and print its name."""
    page = None if options.out is None else _write_page(subject, findings, options)
    if options.as_json:
        print_json(_record(subject, findings, ran, page))
    elif page is not None:
        print_line(str(page))
    elif options.short:
        _print_short(findings, make_console(), options.lang)
    else:
        _print_findings(subject, findings, ran, options)


def _print_findings(
    subject: Subject, findings: "Sequence[Finding]", ran: Sequence[str], options: DiagnoseOptions
) -> None:
    """Print what was read, the findings, and what was left out or not run."""
    from regard.views import report

    console, language = make_console(), options.lang
    shown = list(findings) if options.everything else _first_of_each_check(findings)
    summary = say("diagnose.summary", language, **_counts(subject))
    console.print(summary)
    console.print(report(subject.traces, shown, language=language))
    for line in _closing_lines(findings, shown, ran, language):
        console.print(line)
    native = subject.loaded is not None and subject.loaded.native
    if native and any(finding.remedy_code for finding in shown):
        line = say("diagnose.python", language, name=subject.name)
        console.print(line)


def _print_short(findings: "Sequence[Finding]", console: "Console", language: str) -> None:
    """Print the first sentences alone, or that there are no findings."""
    from rich.cells import cell_len

    from regard.views.captions import finding_text
    from regard.views.wrapping import wrap_text

    for finding in findings[:_SHORT_SENTENCES]:
        severity = say(f"severity.{finding.severity}", language)
        text = finding_text(finding, language).sentence
        # rich wraps Chinese text at its few spaces only; wrap_text knows where it may be broken
        line = say("finding.named", language, name=severity, text=text)
        for part in wrap_text(line, console.width, cell_len):
            console.print(part, no_wrap=True)
    if not findings:
        console.print(say("report.none", language))


def _write_page(subject: Subject, findings: "Sequence[Finding]", options: DiagnoseOptions) -> Path:
    """Write the page of --out; its path."""
    from regard.views import report

    assert options.out is not None
    try:
        page = report(subject.traces, findings, language=options.lang, title=subject.name)
        return page.save(options.out)
    except OSError as error:
        if isinstance(error, RegardError):
            raise
        raise FileError(f"cannot write {options.out}: {error.strerror or error}") from error


def _first_of_each_check(findings: "Sequence[Finding]") -> "list[Finding]":
    """The first findings of each check; the others are only counted."""
    counts, first_findings = Counter[str](), list[Any]()
    for finding in findings:
        counts[finding.check] += 1
        if counts[finding.check] <= _FINDINGS_PER_CHECK:
            first_findings.append(finding)
    return first_findings


def _closing_lines(
    findings: "Sequence[Finding]", shown: "Sequence[Finding]", ran: Sequence[str], language: str
) -> Iterator[str]:
    """The number of findings that are not shown, and the checks without findings or not run."""
    from regard.diagnosis import CHECKS

    yield ""
    hidden = Counter(finding.check for finding in findings)
    hidden.subtract(Counter(finding.check for finding in shown))
    for check, count in hidden.items():
        if count:
            yield say("diagnose.more", language, count=count, check=check)
    with_findings = {finding.check for finding in findings}
    silent = [name for name in ran if name not in with_findings and not CHECKS[name].describes]
    if silent:
        yield say("diagnose.nothing", language, checks=", ".join(silent))
    not_run = [name for name in CHECKS if name not in ran]
    if not_run:
        yield say("diagnose.not-run", language, checks=", ".join(not_run))


def _counts(subject: Subject) -> dict[str, Any]:
    """The numbers of the summary: heads and sites of the largest trace, texts and tokens."""
    largest = max(subject.traces, key=len)
    return {
        "name": subject.name,
        "heads": sum(attention_map.heads for attention_map in largest),
        "sites": len(largest),
        "texts": len(subject.traces),
        "tokens": sum(len(stream) for trace in subject.traces for stream in trace.streams.values()),
    }


def _record(
    subject: Subject, findings: "Sequence[Finding]", ran: Sequence[str], page: Path | None
) -> dict[str, Any]:
    """The diagnosis as JSON types."""
    from regard.types.finding import SEVERITIES

    severities = Counter(finding.severity for finding in findings)
    return {
        "model": subject.name,
        "texts": list(subject.texts),
        "traces": len(subject.traces),
        "out": None if page is None else str(page),
        "checks": list(ran),
        "counts": {severity: severities[severity] for severity in SEVERITIES},
        "findings": [finding.to_json() for finding in findings],
    }
