"""Reading texts with their labels, from .tsv and .jsonl files, which may be gzipped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.documents import parse_json
from regard.errors import FileError, InputError, UnknownNameError
from regard.training.corpora import check_exists, data_suffix, numbered

__all__ = ["LabelledFiles", "LabelledText", "label_index", "labels_of"]


class LabelledText(NamedTuple):
    """A text and its label as the file has it: a name, or the number of one."""

    text: str
    label: str


@dataclass(frozen=True)
class LabelledFiles:
    """The labelled texts of some files, read anew in each iteration.

    In .tsv the text is the first column and the label the second; further columns are not read. An
    object in .jsonl has the keys "text" and "label". Empty lines are skipped.
    """

    paths: tuple[str | Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("expected at least one file of labelled texts, got none")
        for path in self.paths:
            check_exists(Path(path))

    def __iter__(self) -> Iterator[LabelledText]:
        for name in self.paths:
            path = Path(name)
            parse = _from_json if data_suffix(path) == ".jsonl" else _from_columns
            for number, line in numbered(path):
                if not line.strip():
                    continue
                try:
                    yield parse(line)
                except InputError as error:
                    raise FileError(f"{path}, line {number}: {error}") from error


def labels_of(texts: LabelledFiles) -> tuple[str, ...]:
    """The different labels of some files, sorted."""
    return tuple(sorted({each.label for each in texts}))


def label_index(label: str, names: Sequence[str]) -> int:
    """The index of a label that is given by its name or by its number.

    >>> from regard.training.labelled_texts import label_index
    >>> label_index("positive", ["negative", "positive"]), label_index("1", ["bad", "good"])
    (1, 1)
    """
    if label in names:
        return list(names).index(label)
    if label.isdecimal() and int(label) < len(names):
        return int(label)
    raise UnknownNameError("label", label, names)


def _from_columns(line: str) -> LabelledText:
    """The text and label of a line with a tab between them."""
    text, _, rest = line.partition("\t")
    label = rest.split("\t")[0].strip()
    if not text.strip() or not label:
        raise InputError(
            f"expected a text and a label with a tab between, got {line[:60]!r}; mend or remove "
            "the line"
        )
    return LabelledText(text.strip(), label)


def _from_json(line: str) -> LabelledText:
    """The text and label of a JSON object."""
    try:
        content = parse_json(line, "the line")
    except InputError:
        content = None
    text, label = (
        content.get(name) if isinstance(content, dict) else None for name in LabelledText._fields
    )
    if isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    if not (isinstance(text, str) and isinstance(label, str) and text.strip() and label.strip()):
        raise InputError(f'expected an object with "text" and "label", got {line[:60]!r}')
    return LabelledText(text.strip(), label.strip())
