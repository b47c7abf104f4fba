"""Descriptions of models in the terminal: several as a table, one with all its facts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from regard.loading import ModelDescription
from regard.text import say
from regard.unicode import cut_text, replace_controls

__all__ = ["format_bytes", "list_models", "model_facts", "two_columns"]

_COLUMNS = ("name", "task", "parameters", "size", "loads", "score")
_LONGEST_FACT = 2000  # characters of a name, path or reason that are printed
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def list_models(
    groups: Mapping[str, Sequence[ModelDescription]], language: str
) -> Iterator[RenderableType]:
    """A heading and a table for each group of models, or all facts of a single model.

    A group is "shipped", "cached", or "" for a folder, which has no heading.
    """
    for group, models in groups.items():
        if group:
            yield Text(say(f"models.group.{group}", language), style="bold")
        if len(models) == 1 and not group:
            yield model_facts(models[0], language)
        elif models:
            yield _models_table(models, language)
        else:
            yield Text(f"  {say('models.none', language)}", style="dim")


def model_facts(model: ModelDescription, language: str) -> Table:
    """All that is known about one model, a line for each fact."""
    facts = {
        "name": model.name,
        "folder": model.folder,
        "architecture": model.architecture,
        "task": say(f"models.task.{model.task}", language),
        "layers": _format_counts(model.layers),
        "heads": _format_count(model.heads),
        "width": _format_count(model.width),
        "parameters": _format_count(model.parameters),
        "size": format_bytes(model.bytes),
        "vocabulary": _format_counts(model.vocabulary),
        "context": _format_count(model.context),
        "tokenizer": model.tokenizer or say("models.none", language),
        "loads": model.loads + (f" ({model.why})" if model.why else ""),
        "score": model.score,
    }
    return two_columns(
        (say(f"models.label.{name}", language), value) for name, value in facts.items() if value
    )


def two_columns(rows: Iterable[tuple[str, str]]) -> Table:
    """Labels and values without headings; a value that does not fit is folded."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for label, value in rows:
        table.add_row(Text(label, style="bold"), Text(_one_line(value), overflow="fold"))
    return table


def _models_table(models: Sequence[ModelDescription], language: str) -> Table:
    """A table with a line for each model."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for name in _COLUMNS:
        table.add_column(
            say(f"models.label.{name}", language),
            justify="right" if name in ("parameters", "size") else "left",
            overflow="fold",
            no_wrap=name != "score",
        )
    for model in models:
        table.add_row(
            Text(_one_line(model.name), style="cyan"),
            Text(say(f"models.task.{model.task}", language)),
            _format_count(model.parameters),
            format_bytes(model.bytes),
            Text(model.loads),
            Text(_one_line(model.score or "")),
        )
    return table


def _one_line(text: str) -> str:
    """A text of a file or folder as one line, which cannot pass for a line of the table."""
    return replace_controls(cut_text(text, _LONGEST_FACT))


def _format_count(number: int | None) -> str:
    """A number with thousands separators; empty if it is not known."""
    return "" if number is None else f"{number:,}"


def _format_counts(numbers: Sequence[int]) -> str:
    """Two numbers, those of encoder and decoder, with a plus between them."""
    return " + ".join(f"{number:,}" for number in numbers)


def format_bytes(count: int) -> str:
    """A size with its unit.

    >>> format_bytes(3 << 20), format_bytes(12)
    ('3.0 MiB', '12 B')
    """
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"
