"""The corpus is made from its public source: cleaned, parted without overlap, each time so."""

import gzip
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "recipes" / "en-zh" / "prepare.py"
NOTE = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (someone)"
NUMBERS = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十"]
CLEAN = [(f"I see {n} and {m}.", f"我看见{a}和{b}。") for n, a in enumerate(NUMBERS)
         for m, b in enumerate(NUMBERS)]  # fmt: skip
SHARED = [("Hi.", "你好。"), ("Hi.", "嗨。"), ("Hello.", "嗨。")]
BROKEN = ["\t没有。", "Nothing.\t", "Nothing.\tnothing", "一\t一", "alone"]


def source(folder: Path) -> Path:
    rows = [f"{english}\t{chinese}\t{NOTE}" for english, chinese in [*SHARED, *CLEAN, *CLEAN[:9]]]
    path = folder / "cmn.txt"
    path.write_text("\n".join([*rows, *BROKEN, f"I see  0 and 0. \t我看见一和一。\t{NOTE}", ""]))
    return path


def prepared(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments), "--to", str(folder / "out")]
    sizes = ["--dev", "13", "--test", "11"]
    return subprocess.run([*command, *sizes], capture_output=True, text=True, check=False)


def parts(folder: Path) -> dict[str, list[list[str]]]:
    names = ("train", "dev", "test")
    texts = {name: (folder / "out" / f"{name}.tsv").read_text() for name in names}
    return {name: [line.split("\t") for line in text.splitlines()] for name, text in texts.items()}


def test_every_clean_pair_is_there_once(tmp_path: Path) -> None:
    assert prepared(tmp_path, source(tmp_path)).returncode == 0
    found = [tuple(pair) for part in parts(tmp_path).values() for pair in part]
    assert sorted(found) == sorted([*SHARED, *CLEAN])


def test_the_splits_have_their_sizes_and_share_no_sentence(tmp_path: Path) -> None:
    prepared(tmp_path, source(tmp_path))
    found = parts(tmp_path)
    assert [len(found[name]) for name in ("train", "dev", "test")] == [79, 13, 11]
    for side in (0, 1):
        train, dev, test = ({pair[side] for pair in found[name]} for name in found)
        assert len(train | dev | test) == len(train) + len(dev) + len(test)


def test_counts_and_checksums_are_told_and_the_same_again(tmp_path: Path) -> None:
    first, second = (prepared(tmp_path, source(tmp_path)).stdout for _ in range(2))
    assert first == second
    digest = hashlib.sha256((tmp_path / "out" / "dev.tsv").read_bytes()).hexdigest()
    assert first.splitlines()[1].split() == ["dev.tsv", "13", "pairs", "sha256", digest]


def test_a_zip_and_files_with_names_of_languages_are_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "cmn-eng.zip", "w") as archive:
        archive.write(source(tmp_path), "cmn.txt")
    more = tmp_path / "test.txt.gz"
    with gzip.open(more, "wt", encoding="utf-8") as file:
        file.write("cmn_Hans\teng\t再见。\tGoodbye.\neng\tcmn\tThanks.\t谢谢。\n")
    assert prepared(tmp_path, tmp_path / "cmn-eng.zip", "--more", more).returncode == 0
    found = [pair for part in parts(tmp_path).values() for pair in part]
    assert ["Goodbye.", "再见。"] in found
    assert len(found) == len(SHARED) + len(CLEAN) + 2


@pytest.mark.parametrize("name", ["gone.txt", "other.zip"])
def test_what_is_not_the_source_is_named(tmp_path: Path, name: str) -> None:
    if name == "other.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("deu.txt", "Hi.\tHallo.\n")
    ran = prepared(tmp_path, tmp_path / name)
    assert ran.returncode == 1
    assert name in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
