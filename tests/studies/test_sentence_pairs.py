"""Sentences as words with links, read from the files that aligners use."""

from pathlib import Path

import pytest

from regard.errors import FileError
from regard.studies import SentencePair, read_sentence_pairs
from regard.studies.sentence_pairs import spaces_before


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("He was drowned .", "He was drowned."),
        ("I did n't ( really ) .", "I didn't (really)."),
        ('He said " no , thanks " .', 'He said "no, thanks".'),
        ("That 's 5 % .", "That's 5%."),
    ],
)
def test_marks_stick_to_their_words(words: str, text: str) -> None:
    assert SentencePair(tuple(words.split()), ()).text(0) == text


def test_words_without_spaces_are_written_one_after_the_other() -> None:
    assert spaces_before(["我", "爱", "你", "。"], False) == ["", "", "", ""]


def test_columns_of_words_and_links_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", "I love you .\t我 爱 你 。\t0-0 1-1 2p2\nYes .\t是 。\t0-0\n")
    first, second = read_sentence_pairs(path)
    assert (first.text(0), first.text(1)) == ("I love you.", "我爱你。")
    assert first.gold is not None
    assert (sorted(first.gold.sure), len(first.gold.possible)) == ([(0, 0), (1, 1)], 3)
    assert second.spaced == (True, False)


def test_links_beside_words_count_from_one_and_go_the_other_way(tmp_path: Path) -> None:
    words = written(tmp_path, "a.src-tgt", "我 爱 你 ||| i really love you\n")
    links = written(tmp_path, "a.gold", "1-1 2-3 3p4\n")
    (found,) = read_sentence_pairs(links, words, first=1, reverse=True)
    assert (found.source, found.target) == (("i", "really", "love", "you"), ("我", "爱", "你"))
    assert found.gold is not None
    assert sorted(found.gold.possible) == [(0, 0), (2, 1), (3, 2)]


@pytest.mark.parametrize(
    ("links", "words", "message"),
    [
        ("a b\tc\n", None, "line 1: expected words, words and links"),
        ("a\tb\t0-x\n", None, "line 1: expected links such as 0-1"),
        ("a\tb\t0-0\na\tb\t1-0\n", None, "line 2: a link between source word 2 .* lies beyond"),
        ("0-0\n", None, "line 1: expected words, words and links"),
        ("0-0\n", "a ||| b\nc ||| d\n", "a line of links for each pair, got 1 .* and 2"),
        ("0-0\n", "a b\n", "expected source |||"),
        ("", None, "has no line"),
    ],
)
def test_a_file_that_is_wrong_is_told_where(
    tmp_path: Path, links: str, words: str | None, message: str
) -> None:
    path = written(tmp_path, "links", links)
    other = None if words is None else written(tmp_path, "words", words)
    with pytest.raises(FileError, match=message):
        read_sentence_pairs(path, other)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read '.*gone\.tsv': No such file"):
        read_sentence_pairs(tmp_path / "gone.tsv")
