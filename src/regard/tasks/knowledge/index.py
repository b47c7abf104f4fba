"""TermIndex: finds the texts that share terms with a question, by BM25 (Robertson et al. 1994).

The index of a base is kept in a folder beside it, or in the user's cache folder where that cannot
be written:

    facts.tsv
    .facts.tsv.regard-index/
        about.json       what it was made from: names, sizes and times of files, settings
        terms.json       the number of each term
        data.npy, indices.npy, indptr.npy      the BM25 scores of each term

It is made again when a file changed, written whole or not at all, and read as plain numbers:
nothing in it is executed, and an index that does not fit together is made again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.documents import read_json
from regard.errors import FileError, InputError
from regard.files import atomic_folder

__all__ = ["Found", "TermIndex", "file_marks", "index_folders", "load_index", "save_index"]

FORMAT = 1  # of the folder; another number is made again
MOST_JSON = 1 << 28  # bytes of terms.json
_FILES = ("about.json", "terms.json", "data.npy", "indices.npy", "indptr.npy")
_ARRAYS = ("data", "indices", "indptr")
_SUFFIX = ".regard-index"
# Settings of BM25 that hold for questions against short texts (Robertson and Zaragoza 2009).
_K1, _B = 1.2, 0.75


class Found(NamedTuple):
    """The number of a text that was found, and its BM25 score."""

    number: int
    score: float


class TermIndex:
    """The BM25 scores of the terms of some texts.

    >>> from regard.tasks.knowledge.index import TermIndex
    >>> index = TermIndex.build([["red", "house"], ["red", "car"], ["sea"]])
    >>> [found.number for found in index.search(["red", "car"], 5)]
    [1, 0]
    """

    def __init__(self, bm25: Any) -> None:
        self._bm25 = bm25

    @classmethod
    def build(cls, terms: Iterable[Sequence[str]]) -> "TermIndex":
        """The index of some texts, each as its terms."""
        bm25 = _new_bm25()
        bm25.index([list(own) for own in terms], create_empty_token=False, show_progress=False)
        return cls(bm25)

    @property
    def count(self) -> int:
        """The number of texts."""
        return int(self._bm25.scores["num_docs"])

    def search(self, terms: Sequence[str], most: int) -> list[Found]:
        """The texts with the highest scores, best first; those that share no term are left out."""
        known = [term for term in terms if term in self._bm25.vocab_dict and term]
        if not known or not self.count:
            return []
        scores = self._bm25.get_scores(known)
        size = min(most, len(scores))
        best = np.argpartition(-scores, size - 1)[:size]
        # texts of equal score stand in the order of the base
        order = best[np.lexsort((best, -scores[best]))]
        return [Found(int(number), float(scores[number])) for number in order if scores[number] > 0]

    def arrays(self) -> dict[str, Any]:
        """The numbers of the index."""
        return {name: self._bm25.scores[name] for name in _ARRAYS}

    def terms(self) -> dict[str, int]:
        """The number of each term."""
        return {term: int(number) for term, number in self._bm25.vocab_dict.items()}

    @classmethod
    def restore(cls, terms: dict[str, int], arrays: dict[str, Any], count: int) -> "TermIndex":
        """The index of these numbers; an InputError if they do not fit together."""
        data, indices, indptr = (arrays[name] for name in _ARRAYS)
        fits = (
            data.dtype == np.float32
            and all(each.dtype.kind == "i" for each in (indices, indptr))
            and all(each.ndim == 1 for each in (data, indices, indptr))
            and len(data) == len(indices)
            and sorted(terms.values()) == list(range(len(terms)))
            and len(indptr) == len(terms) + 1
            and indptr[0] == 0
            and indptr[-1] == len(data)
            and bool((np.diff(indptr) >= 0).all())
            and (not len(indices) or (indices.min() >= 0 and indices.max() < count))
        )
        if not fits:
            raise InputError("the numbers of the index do not fit together")
        bm25 = _new_bm25()
        bm25.vocab_dict, bm25.nonoccurrence_array = terms, None
        bm25.unique_token_ids_set = set(terms.values())
        bm25.scores = {**arrays, "num_docs": count}
        return cls(bm25)


def _new_bm25() -> Any:
    """An empty BM25 of the package bm25s; an InputError if that is not installed."""
    if find_spec("bm25s") is None:
        raise InputError(
            "a knowledge base is searched by the package bm25s, which is not installed: "
            "pip install 'regard[knowledge]'"
        )
    import bm25s

    return bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy")


def file_marks(root: Path, files: Sequence[Path]) -> list[list[Any]]:
    """The name, size and time of each file: what changes when a file does."""
    marks = []
    for file in files:
        try:
            state = file.stat()
        except OSError as error:
            raise FileError(f"cannot read {file}: {error.strerror}") from error
        marks.append([os.path.relpath(file, root), state.st_size, state.st_mtime_ns])
    return marks


def index_folders(path: Path) -> list[Path]:
    """Where the index of a base may be: beside it, and in the cache folder of the user."""
    beside = path / _SUFFIX if path.is_dir() else path.parent / f".{path.name}{_SUFFIX}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    return [beside, cache / "regard" / "bases" / f"{path.name}-{digest}"]


def load_index(path: Path, about: dict[str, Any]) -> TermIndex | None:
    """The stored index of a base if it was made from just this; None if there is none."""
    for folder in index_folders(path):
        with suppress(FileError, InputError, OSError, ValueError, EOFError):
            stored = read_json(folder / "about.json")
            count = stored.pop("texts", None)
            if stored != about | {"format": FORMAT} or not isinstance(count, int):
                continue
            terms = read_json(folder / "terms.json", max_bytes=MOST_JSON)
            arrays = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in _ARRAYS}
            return TermIndex.restore(terms, arrays, count)
    return None


def save_index(path: Path, about: dict[str, Any], index: TermIndex) -> Path | None:
    """Write the index where that is possible; the folder, or None if it is kept nowhere."""
    for folder in index_folders(path):
        with suppress(OSError):  # a place that is read-only, or has no room
            with atomic_folder(folder, own_names=_FILES) as temporary:
                _write(temporary, about | {"format": FORMAT, "texts": index.count}, index)
            return folder
    return None


def _write(folder: Path, about: dict[str, Any], index: TermIndex) -> None:
    """Write all files of an index."""
    dump: Callable[[Any], str] = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    (folder / "about.json").write_text(dump(about), encoding="utf-8")
    (folder / "terms.json").write_text(dump(index.terms()), encoding="utf-8")
    for name, array in index.arrays().items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
