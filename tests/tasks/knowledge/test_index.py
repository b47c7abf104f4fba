"""An index finds what shares terms, is kept beside its base, and made again when files change."""

import os

import numpy as np
import pytest

from regard.errors import InputError
from regard.tasks.knowledge import base as bases
from regard.tasks.knowledge import index as indexes
from regard.tasks.knowledge.base import open_base
from regard.tasks.knowledge.index import TermIndex, index_folders

pytest.importorskip("bm25s")

TEXTS = [["red", "house"], ["red", "car"], ["sea"]]


@pytest.fixture
def path(tmp_path):
    (tmp_path / "faq.tsv").write_text("Where is the house?\tIn Rome.\nHow old is it?\tTen.\n")
    return tmp_path / "faq.tsv"


@pytest.fixture
def builds(monkeypatch):
    """The number of times that an index was built."""
    count = []
    build = TermIndex.build.__func__
    counted = classmethod(lambda cls, terms: count.append(1) or build(cls, terms))
    monkeypatch.setattr(TermIndex, "build", counted)
    bases._open.cache_clear()
    return count


def reopen(path):
    bases._open.cache_clear()
    return open_base(path)


def test_texts_are_found_by_their_terms_the_best_first():
    index = TermIndex.build(TEXTS)
    assert [found.number for found in index.search(["red", "car"], 5)] == [1, 0]
    assert index.search(["moon", ""], 5) == []
    assert len(index.search(["red"], 1)) == 1


def test_a_stored_index_finds_the_same():
    index = TermIndex.build(TEXTS)
    again = TermIndex.restore(index.terms(), index.arrays(), index.count)
    assert again.search(["red", "car"], 5) == index.search(["red", "car"], 5)


@pytest.mark.parametrize("name", ["data", "indices", "indptr"])
def test_numbers_that_do_not_fit_are_refused(name):
    index = TermIndex.build(TEXTS)
    arrays = index.arrays() | {name: index.arrays()[name][:-1]}
    with pytest.raises(InputError, match="do not fit"):
        TermIndex.restore(index.terms(), arrays, index.count)


def test_the_index_is_read_again_and_made_anew_when_a_file_changed(path, builds):
    reopen(path)
    assert reopen(path).search("house", 3)[0][0] == 0
    assert len(builds) == 1
    path.write_text("How old is the tree?\tNine.\nWhere is the house?\tIn Oslo.\n")
    assert reopen(path).search("house", 3)[0][0] == 1
    assert len(builds) == 2


def test_a_damaged_index_is_made_again(path, builds):
    reopen(path)
    for name in ("indices.npy", "terms.json", "about.json"):
        (index_folders(path)[0] / name).write_bytes(b"x")
        assert reopen(path).search("house", 3)
    assert len(builds) == 4


def test_an_index_with_pickled_objects_is_not_read(path, builds):
    reopen(path)
    np.save(index_folders(path)[0] / "data.npy", np.array([{}, []], dtype=object))
    reopen(path)
    assert len(builds) == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_the_index_of_a_read_only_folder_is_kept_in_the_cache(path, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path.parent.chmod(0o555)
    reopen(path)
    path.parent.chmod(0o755)
    assert index_folders(path)[1].is_dir()


def test_where_the_index_cannot_be_written_beside_the_base_it_is_kept_in_the_cache(
    path, tmp_path, monkeypatch, builds
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    beside, cached = index_folders(path)
    beside.write_text("a file in its place")
    reopen(path)
    reopen(path)
    assert cached.is_dir()
    assert len(builds) == 1


def test_without_bm25s_a_base_names_the_extra(path, monkeypatch, builds):
    monkeypatch.setattr(indexes, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'regard\[knowledge\]'"):
        reopen(path)
