"""The work of `regard diagnose`."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console

from regard.cli.output import as_text
from regard.cli.work.inputs import texts_of
from regard.cli.work.patience import Patience
from regard.cli.work.seeing import is_trace
from regard.diagnosis import CHECKS, diagnose
from regard.errors import FileError, InputError, RegardError
from regard.loading import LoadedModel, load
from regard.loading.loaded_model import first_line
from regard.storage import load_trace
from regard.text import say
from regard.tracing import capture
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding
from regard.views import report
from regard.views.captions import finding_text
from regard.views.wrapping import wrap_text

_BATCH = 16  # texts that are read together; what is written is written one by one
_FIRST = 2  # findings of one check that are told without --all
_SHORT = 3  # sentences that --short tells
_FOUND = 1  # exit code
_WORDS = {
    "patient": (
        "{name}: heads {heads}, sites {sites}, texts {texts}, tokens {tokens}",
        "{name}：{heads} 个头，{sites} 处，{texts} 个文本，{tokens} 个词元",
    ),
    "more": (
        "… and {count} more findings of {check}; --all tells them",
        "… {check} 另有 {count} 条；--all 可全部列出",
    ),
    "nothing": ("Nothing found by: {checks}", "未发现问题的检查：{checks}"),
    "deeper": (
        "Not run: {checks}; --deep runs the model again for them",
        "未运行：{checks}；--deep 会为此再次运行模型",
    ),
    "python": (
        "To try in Python: import regard.diagnosis; model = regard.from_pretrained({name!r}); "
        "processor = model.tokenizer; texts = […]",
        "在 Python 中试：import regard.diagnosis; model = regard.from_pretrained({name!r}); "
        "processor = model.tokenizer; texts = […]",
    ),
    "captured": ("{done} of {count} texts", "{done}/{count} 个文本"),
    "checking": ("check {done} of {count}: {check}", "检查 {done}/{count}：{check}"),
}


@dataclass(frozen=True, eq=False)
class Patient:
    """What is diagnosed: traces, and the model and the texts that they are of, if there are any."""

    name: str
    traces: Sequence[Trace]
    loaded: LoadedModel | None = None
    texts: Sequence[str] = ()


def run(model: str, texts: tuple[str, ...], **asked: Any) -> None:
    """Capture, diagnose, print; leave with 1 if it is as serious as --fail-on says."""
    patience = Patience(quiet=asked["quiet"])
    if is_trace(Path(model).expanduser()):
        patient = _saved([model, *texts], asked)
    else:
        patient = _captured(model, texts, asked, patience)
    checks = [each for each in CHECKS.values() if asked["deep"] or each.cost == "traces"]
    findings = diagnose(
        patient.traces,
        *(() if patient.loaded is None else (patient.loaded.model,)),
        processor=None if patient.loaded is None else patient.loaded.processor,
        texts=patient.texts if asked["deep"] else None,
        expect=asked["expect"],
        checks=checks,
        told=_teller(patience, [each.name for each in checks], asked["lang"]),
    )
    patience.clear()
    _print(patient, findings, [each.name for each in checks], asked)
    wanted = asked["fail_on"]
    if wanted and any(_rank(each.severity) >= _rank(wanted) for each in findings):
        sys.exit(_FOUND)


def _rank(severity: Any) -> int:
    return SEVERITIES.index(severity)


def _saved(names: Sequence[str], asked: dict[str, Any]) -> Patient:
    for name, value in (("--file", asked["file"]), ("--deep", asked["deep"] or None)):
        if value is not None:
            raise click.UsageError(f"a saved trace has its model behind it; leave out {name}")
    other = next((name for name in names if not is_trace(Path(name).expanduser())), None)
    if other is not None:
        raise InputError(f"expected saved traces after the first, got {other!r}")
    traces = [load_trace(Path(name).expanduser()) for name in names[: asked["limit"]]]
    return Patient(Path(names[0]).name, traces)


def _captured(
    model: str, given: tuple[str, ...], asked: dict[str, Any], patience: Patience
) -> Patient:
    lines = [text for text in texts_of(given, asked["file"]) if text.strip()]
    texts = lines[: asked["limit"]]
    loaded = load(model, device=asked["device"], progress=not asked["quiet"])
    if loaded.sees:
        raise InputError(
            f"{model} looks at pictures; regard diagnose reads texts, or traces that regard look "
            "--out FILE.trace wrote"
        )
    loaded.tokenizer  # noqa: B018  refuses a model without one
    traces = list[Trace]()
    together = 1 if loaded.translates else _BATCH
    for start in range(0, len(texts), together):
        traces += _read(loaded, texts[start : start + together])
        patience.say(_say("captured", asked["lang"], done=len(traces), count=len(texts)))
    return Patient(model, traces, loaded, texts)


def _read(loaded: LoadedModel, texts: list[str]) -> list[Trace]:
    plan = True if loaded.translates else None
    try:
        return capture(loaded.model, loaded.processor, texts, generate=plan)
    except RegardError:
        raise
    except Exception as error:
        if loaded.native:
            raise
        raise InputError(
            f"{loaded.name} cannot run on these texts ({first_line(error)})"
        ) from error


def _teller(patience: Patience, names: Sequence[str], lang: str) -> Any:
    def told(check: str) -> None:
        done = names.index(check) + 1
        patience.say(_say("checking", lang, done=done, count=len(names), check=check))

    return told


def _print(
    patient: Patient, findings: Sequence[Finding], ran: Sequence[str], asked: dict[str, Any]
) -> None:
    out, lang = asked["out"], asked["lang"]
    written = None
    if out is not None:
        written = _written(patient, findings, out, lang)
    if asked["as_json"]:
        click.echo(as_text(_record(patient, findings, ran, written)))
        return
    if written is not None:
        click.echo(str(written))
        return
    console = Console()
    if asked["short"]:
        _print_short(findings, console, lang)
        return
    told = list(findings) if asked["everything"] else _first(findings)
    console.print(_say("patient", lang, **_counts(patient)), markup=False, highlight=False)
    console.print(report(patient.traces, told, language=lang))
    for line in _ending(findings, told, ran, lang):
        console.print(line, markup=False, highlight=False)
    if (
        patient.loaded is not None
        and patient.loaded.native
        and any(each.remedy_code for each in told)
    ):
        console.print(_say("python", lang, name=patient.name), markup=False, highlight=False)


def _print_short(findings: Sequence[Finding], console: Console, lang: str) -> None:
    """The first sentences alone; that there are none is a sentence, too."""
    for each in findings[:_SHORT]:
        severity = say(f"severity.{each.severity}", lang)
        line = say("finding.named", lang, name=severity, text=finding_text(each, lang).sentence)
        for part in wrap_text(line, console.width, cell_len):
            console.print(part, markup=False, highlight=False, no_wrap=True)
    if not findings:
        console.print(say("report.none", lang), markup=False, highlight=False)


def _written(patient: Patient, findings: Sequence[Finding], out: Path, lang: str) -> Path:
    try:
        return report(patient.traces, findings, language=lang, title=patient.name).save(out)
    except OSError as error:
        if isinstance(error, RegardError):
            raise
        raise FileError(f"cannot write {out}: {error.strerror or error}") from error


def _first(findings: Sequence[Finding]) -> list[Finding]:
    """All bugs and warnings of a kind once or twice, and so observations."""
    seen, kept = Counter[str](), list[Finding]()
    for each in findings:
        seen[each.check] += 1
        if seen[each.check] <= _FIRST:
            kept.append(each)
    return kept


def _ending(
    findings: Sequence[Finding], shown: Sequence[Finding], ran: Sequence[str], lang: str
) -> Iterator[str]:
    """What was not told, what found nothing, and what was not run."""
    yield ""
    left = Counter(each.check for each in findings)
    left.subtract(Counter(each.check for each in shown))
    for check, count in left.items():
        if count:
            yield _say("more", lang, count=count, check=check)
    found = {each.check for each in findings}
    told = ("role-", "portrait-")  # these look for nothing that is wrong
    nothing = [name for name in ran if name not in found and not name.startswith(told)]
    if nothing:
        yield _say("nothing", lang, checks=", ".join(nothing))
    idle = [name for name in CHECKS if name not in ran]
    if idle:
        yield _say("deeper", lang, checks=", ".join(idle))


def _counts(patient: Patient) -> dict[str, Any]:
    first = max(patient.traces, key=len)
    return {
        "name": patient.name,
        "heads": sum(each.heads for each in first),
        "sites": len(first),
        "texts": len(patient.traces),
        "tokens": sum(len(each) for trace in patient.traces for each in trace.streams.values()),
    }


def _record(
    patient: Patient, findings: Sequence[Finding], ran: Sequence[str], out: Path | None
) -> dict[str, Any]:
    return {
        "model": patient.name,
        "texts": list(patient.texts),
        "traces": len(patient.traces),
        "out": None if out is None else str(out),
        "checks": list(ran),
        "counts": {each: sum(f.severity == each for f in findings) for each in SEVERITIES},
        "findings": [each.to_json() for each in findings],
    }


def _say(word: str, lang: str, **values: object) -> str:
    return _WORDS[word][lang == "zh"].format(**values)
