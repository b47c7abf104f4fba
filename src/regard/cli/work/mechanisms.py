"""The work of `regard mechanisms`: the catalog as a table, and the portrait of an entry."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import click
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import regard
from regard.attention.entry import LAWS, Entry
from regard.cli.language import law, say, translated
from regard.cli.output import as_text

_NARROW = 72  # below it, four columns are too many

_ROOMY = 140  # below it, names and times are held narrow for the formulas' sake


def run(name: str | None, lang: str, as_json: bool) -> None:
    """Print the table, or the portrait of one mechanism."""
    entries = list(regard.catalog.values()) if name is None else [regard.catalog[name]]
    if as_json:
        records = [_record(entry) for entry in entries]
        click.echo(as_text(records if name is None else records[0], indent=2))
        return
    console = Console(highlight=False)
    if name is not None:
        parts = _portrait(entries[0], lang)
    else:
        width = console.width
        parts = _list(entries, lang) if width < _NARROW else _overview(entries, lang, width)
    for part in parts:
        console.print(part)


def _record(entry: Entry) -> dict[str, Any]:
    plain = ("name", "family", "formula", "paper", "year", "time", "memory", "aliases")
    return {
        **{field: getattr(entry, field) for field in plain},
        "summary": {"en": entry.summary.en, "zh": entry.summary.zh},
        "obeys": [name for name in LAWS if name not in entry.breaks],
        "breaks": dict(entry.breaks),
        "python": _python(entry),
    }


def _python(entry: Entry) -> str:
    return f'regard.catalog["{entry.name}"].build(64)'


def _families(entries: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    for family, members in groupby(entries, key=lambda entry: entry.family):
        yield family, list(members)


def _source(entry: Entry) -> str:
    """The paper as one cites it in passing, such as Luong 2015."""
    return f"{re.split(r'[,:]| et al', entry.paper)[0]} {entry.year}"


def _overview(entries: list[Entry], language: str, width: int) -> Iterator[RenderableType]:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    tight = width < _ROOMY
    for heading, most in (("name", 16), ("formula", None), ("paper", None), ("cost", 18)):
        table.add_column(
            say(heading, language),
            overflow="fold",
            no_wrap=heading == "paper",
            max_width=most if tight else None,
        )
    for index, (family, members) in enumerate(_families(entries)):
        if index:
            table.add_row()
        table.add_row(Text(say(family, language), style="bold"))
        for entry in members:
            formula, time = translated(entry.formula, language), translated(entry.time, language)
            table.add_row(_titled(entry), Text(formula), Text(_source(entry)), Text(time))
    yield table
    yield Text(f"\n{say('legend', language)}", style="dim")


def _list(entries: list[Entry], language: str) -> Iterator[RenderableType]:
    """The overview for a narrow terminal."""
    for family, members in _families(entries):
        yield Text(say(family, language), style="bold")
        for entry in members:
            yield Padding(_titled(entry), (0, 0, 0, 2))
            lines = (translated(entry.formula, language), _source(entry))
            for line in (*lines, translated(entry.time, language)):
                yield Padding(Text(line), (0, 0, 0, 4))
        yield Text()
    yield Text(say("legend", language), style="dim")


def _titled(entry: Entry) -> Text:
    aliases = f" ({', '.join(entry.aliases)})" if entry.aliases else ""
    return Text.assemble((entry.name, "cyan"), (aliases, "dim"))


def _portrait(entry: Entry, language: str) -> Iterator[RenderableType]:
    yield Text.assemble((entry.name, "bold cyan"), "  ", translated(entry.formula, language))
    yield Text(f"{getattr(entry.summary, language)}\n")
    yield _columns(_facts(entry, language))
    yield Text(f"\n{say('laws', language)}", style="bold")
    yield _columns(_laws(entry, language))
    yield Text(f"\n{say('python', language)}", style="bold")
    yield Text(_python(entry))


def _columns(rows: Iterable[tuple[str, ...]]) -> Table:
    """Columns without headings, the last of them folded where it does not fit."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for *labels, sentence in rows:
        table.add_row(*map(Text, labels), Text(sentence, overflow="fold"))
    return table


def _facts(entry: Entry, language: str) -> Iterator[tuple[str, str]]:
    facts = {
        "family": say(entry.family, language),
        "aliases": ", ".join(entry.aliases) or say("none", language),
        "paper": entry.paper,
        "year": str(entry.year),
        "cost": translated(entry.time, language),
        "memory": translated(entry.memory, language),
    }
    for label, fact in facts.items():
        yield say(label, language), fact


def _laws(entry: Entry, language: str) -> Iterator[tuple[str, str, str]]:
    """Each law: whether it is obeyed, its name, and what it says or why it is not obeyed."""
    for key, meaning in LAWS.items():
        name, sentence = law(key, meaning, language)
        if key in entry.breaks:
            yield say("no", language), name, translated(entry.breaks[key], language)
        else:
            yield say("yes", language), name, sentence
