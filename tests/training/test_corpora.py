"""Corpora in every form, and the place of what is broken in them."""

from pathlib import Path

import pytest

from regard.errors import FileError, InputError
from regard.training.corpora import Pair, bar_separated_pairs, pairs, texts


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_objects_and_two_files_give_the_same_pairs(tmp_path: Path) -> None:
    columns = written(tmp_path, "a.tsv", "I love you.\t我爱你。\tmore\n\nGo!\t走！\n")
    objects = written(
        tmp_path,
        "a.jsonl",
        '{"source": "I love you.", "target": "我爱你。"}\n{"source": "Go!", "target": "走！"}\n',
    )
    sides = (
        written(tmp_path, "a.en", "I love you.\nGo!\n"),
        written(tmp_path, "a.zh", "我爱你。\n走！\n"),
    )
    expected = [Pair("I love you.", "我爱你。"), Pair("Go!", "走！")]
    for files in (columns, objects, sides):
        assert list(pairs(files)) == expected


def test_files_follow_one_another(tmp_path: Path) -> None:
    files = [written(tmp_path, f"{n}.tsv", f"{n}\t{n}\n") for n in "abc"]
    assert [pair.source for pair in pairs(*files)] == ["a", "b", "c"]


@pytest.mark.parametrize("line", ["one column", "\t目标", "source\t "])
def test_a_line_without_two_columns_is_named_with_its_number(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, "a.tsv", f"Go!\t走！\n{line}\n")
    with pytest.raises(FileError, match=r"a.tsv, line 2: expected a source and a target"):
        list(pairs(path))


@pytest.mark.parametrize("line", ["{", '"text"', '{"source": "Go!"}'])
def test_a_line_that_is_no_object_of_two_texts_is_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, "a.jsonl", f"{line}\n")
    with pytest.raises(FileError, match=r"a.jsonl, line 1: expected a"):
        list(pairs(path))


@pytest.mark.parametrize("lengths", [(2, 3), (3, 2)])
def test_two_files_of_different_lengths_are_refused(
    tmp_path: Path, lengths: tuple[int, int]
) -> None:
    sides = [
        written(tmp_path, f"a.{side}", "word\n" * count)
        for side, count in zip("xy", lengths, strict=True)
    ]
    with pytest.raises(FileError, match="expected as many lines"):
        list(pairs(sides))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"Go!\t\xd7\xdf\n")
    with pytest.raises(FileError, match="line 1: expected UTF-8, got the byte 0xd7"):
        list(pairs(path))


def test_a_missing_file_is_named_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no corpus .*missing\.tsv"):
        pairs(tmp_path / "missing.tsv")


def test_no_file_and_three_side_by_side_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one file of pairs"):
        pairs()
    with pytest.raises(InputError, match="at least one file of text"):
        texts()
    with pytest.raises(InputError, match="or two side by side, got 3"):
        pairs(("a", "b", "c"))


def test_texts_are_parted_by_empty_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "\nOnce upon\na time.\n\n\n从前\n")
    assert list(texts(path)) == ["Once upon\na time.", "从前"]


def test_lines_with_bars_are_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.src-tgt"
    path.write_text("我 爱 你 ||| i love you\n你 好\thello\n", encoding="utf-8")
    assert list(bar_separated_pairs(path)) == [
        Pair("我 爱 你", "i love you"),
        Pair("你 好", "hello"),
    ]


@pytest.mark.parametrize("line", ["[" * 99999, '{"source": 1' + "0" * 5000 + "}", "3", "null"])
def test_a_hostile_line_of_json_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line)
    with pytest.raises(FileError, match=r"a.jsonl, line 1: expected a"):
        list(pairs(tmp_path / "a.jsonl"))
