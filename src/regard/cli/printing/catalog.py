"""The catalog of mechanisms in the terminal: all entries as a table, or one in full."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regard.attention.entry import LAWS, Entry
from regard.text import say

__all__ = ["describe_entry", "entry_record", "in_language", "list_entries"]

_LEAST_TABLE_WIDTH = 72  # below it four columns are too many, and a list is printed
_ROOMY_WIDTH = 140  # below it names and times are held narrow, so that formulas have room


def entry_record(entry: Entry) -> dict[str, Any]:
    """An entry as JSON types, with the laws that it obeys and those that it breaks."""
    plain = ("name", "family", "formula", "paper", "year", "time", "memory", "aliases")
    return {
        **{field: getattr(entry, field) for field in plain},
        "summary": {"en": entry.summary.en, "zh": entry.summary.zh},
        "obeys": [name for name in LAWS if name not in entry.breaks],
        "breaks": dict(entry.breaks),
        "python": _python_line(entry),
    }


def list_entries(entries: list[Entry], language: str, width: int) -> Iterator[RenderableType]:
    """All entries by family, as a table or, in a narrow terminal, as a list."""
    if width < _LEAST_TABLE_WIDTH:
        yield from _narrow_list(entries, language)
    else:
        yield _entries_table(entries, language, tight=width < _ROOMY_WIDTH)
        yield Text(f"\n{say('mechanisms.legend', language)}", style="dim")


def describe_entry(entry: Entry, language: str) -> Iterator[RenderableType]:
    """Everything about one entry: formula, summary, facts, laws, and how to build it in Python."""
    yield Text.assemble((entry.name, "bold cyan"), "  ", in_language(entry.formula, language))
    yield Text(f"{getattr(entry.summary, language)}\n")
    yield _columns(_facts(entry, language))
    yield Text(f"\n{say('mechanisms.laws', language)}", style="bold")
    yield _columns(_laws(entry, language))
    yield Text(f"\n{say('mechanisms.python', language)}", style="bold")
    yield Text(_python_line(entry))


def in_language(text: str, language: str) -> str:
    """A text of the catalog in this language; a formula of symbols alone is the same in both."""
    translated: str = getattr(text, language, text)
    return translated


def _python_line(entry: Entry) -> str:
    """The line of Python that builds the mechanism."""
    return f'regard.catalog["{entry.name}"].build(64)'


def _by_family(entries: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """The entries of each family; entries of one family follow each other in the catalog."""
    for family, members in groupby(entries, key=lambda entry: entry.family):
        yield family, list(members)


def _citation(entry: Entry) -> str:
    """The paper's first author and year, such as Luong 2015."""
    return f"{re.split(r'[,:]| et al', entry.paper)[0]} {entry.year}"


def _entries_table(entries: list[Entry], language: str, *, tight: bool) -> Table:
    """A table of name, formula, paper and time; `tight` limits the widths of columns."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for heading, most in (("name", 16), ("formula", None), ("paper", None), ("time", 18)):
        table.add_column(
            say(f"mechanisms.label.{heading}", language),
            overflow="fold",
            no_wrap=heading == "paper",
            max_width=most if tight else None,
        )
    for index, (family, members) in enumerate(_by_family(entries)):
        if index:
            table.add_row()
        table.add_row(Text(say(f"mechanisms.family.{family}", language), style="bold"))
        for entry in members:
            formula, time = in_language(entry.formula, language), in_language(entry.time, language)
            table.add_row(
                _name_and_aliases(entry), Text(formula), Text(_citation(entry)), Text(time)
            )
    return table


def _narrow_list(entries: list[Entry], language: str) -> Iterator[RenderableType]:
    """All entries below each other, for a terminal too narrow for a table."""
    for family, members in _by_family(entries):
        yield Text(say(f"mechanisms.family.{family}", language), style="bold")
        for entry in members:
            yield Padding(_name_and_aliases(entry), (0, 0, 0, 2))
            for line in (entry.formula, _citation(entry), entry.time):
                yield Padding(Text(in_language(line, language)), (0, 0, 0, 4))
        yield Text()
    yield Text(say("mechanisms.legend", language), style="dim")


def _name_and_aliases(entry: Entry) -> Text:
    """The name of an entry, and its aliases in parentheses."""
    aliases = f" ({', '.join(entry.aliases)})" if entry.aliases else ""
    return Text.assemble((entry.name, "cyan"), (aliases, "dim"))


def _columns(rows: Iterable[tuple[str, ...]]) -> Table:
    """Columns without headings; the last one is folded if it does not fit."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for *labels, sentence in rows:
        table.add_row(*map(Text, labels), Text(sentence, overflow="fold"))
    return table


def _facts(entry: Entry, language: str) -> Iterator[tuple[str, str]]:
    """The labels and values of an entry's facts."""
    facts = {
        "family": say(f"mechanisms.family.{entry.family}", language),
        "aliases": ", ".join(entry.aliases) or say("mechanisms.none", language),
        "paper": entry.paper,
        "year": str(entry.year),
        "time": in_language(entry.time, language),
        "memory": in_language(entry.memory, language),
    }
    for label, fact in facts.items():
        yield say(f"mechanisms.label.{label}", language), fact


def _laws(entry: Entry, language: str) -> Iterator[tuple[str, str, str]]:
    """For each law whether it is obeyed, its name, and its meaning or the reason why not."""
    for law, meaning in LAWS.items():
        obeyed = law not in entry.breaks
        sentence = meaning if obeyed else entry.breaks[law]
        answer = say("mechanisms.yes" if obeyed else "mechanisms.no", language)
        yield answer, in_language(law, language), in_language(sentence, language)
