"""KnowledgeBase: the entries of a base with the index that finds them, kept while files stay."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.errors import FileError
from regard.tasks.knowledge.entries import Base, Entry, base_files, read_base
from regard.tasks.knowledge.index import TermIndex, file_marks, load_index, save_index
from regard.tasks.knowledge.terms import stemmer_name, terms_of
from regard.tasks.knowledge.triples import TripleBase

__all__ = ["KnowledgeBase", "open_base"]

_BASES = 4  # that are kept in memory
_STEP = 512  # entries between two reports of progress
Progress = Callable[[int], None]


class KnowledgeBase:
    """A base with its index, which is read from beside the base or made and kept there."""

    def __init__(self, base: Base, on_progress: Progress | None = None) -> None:
        self.base = base
        root = base.path if base.path.is_dir() else base.path.parent
        about: dict[str, Any] = {
            "kind": base.kind,
            "files": file_marks(root, base.files),
            "stemmer": stemmer_name(),
        }
        index = load_index(base.path, about)
        if index is None or index.count != self._text_count():
            index = TermIndex.build(self._terms(on_progress))
            save_index(base.path, about, index)
        self.index = index

    def search(self, question: str, most: int) -> list[tuple[int, float]]:
        """The numbers of the entries that share terms with a question, and their scores."""
        return [(each.number, each.score) for each in self.index.search(terms_of(question), most)]

    def entry(self, number: int) -> Entry:
        """The entry of this number."""
        return self.base.entries[number]

    def _text_count(self) -> int:
        """The number of texts that the index is about: entries, or the subjects of triples."""
        if self.base.kind == "triples":
            return len({entry.texts[0] for entry in self.base.entries})
        return len(self.base.entries)

    def _terms(self, on_progress: Progress | None) -> Iterator[list[str]]:
        """The terms of each text."""
        if self.base.kind == "triples":
            yield from TripleBase.index_terms(self.base)
            return
        for number, entry in enumerate(self.base.entries):
            if on_progress is not None and number % _STEP == 0:
                on_progress(number)
            yield terms_of(" ".join(entry.texts))


def open_base(path: str | Path) -> KnowledgeBase:
    """The base of a path; one that was opened before and has not changed is not read again."""
    path = Path(path)
    if "\0" in str(path):
        raise FileError("the name of a base has a null character; name a file or a folder")
    root = path if path.is_dir() else path.parent
    marks = tuple(tuple(mark) for mark in file_marks(root, base_files(path)))
    return _open(path.resolve(), marks)


@lru_cache(maxsize=_BASES)
def _open(path: Path, marks: tuple[Any, ...]) -> KnowledgeBase:
    """The base of a path whose files have these marks."""
    return KnowledgeBase(read_base(path))
