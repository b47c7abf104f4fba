"""Makes the corpus of the English-Chinese recipes from its public source.

    curl -O https://www.manythings.org/anki/cmn-eng.zip
    python recipes/en-zh/prepare.py cmn-eng.zip --to recipes/en-zh/corpus

The sentences are Tatoeba's, CC BY 2.0 FR, as manythings.org exports them: English, tab, Chinese,
tab, attribution. Files of the Tatoeba Challenge may be added with --more: their lines have two
languages, then source and target, with tabs between; .gz is read as well.

A pair stays if both sides are there, the English has a letter and the Chinese a Chinese character;
spaces are made one, and a pair that was there before goes. Traditional characters become simplified
with --simplify, which needs OpenCC (pip install opencc-python-reimplemented): without it they stay
as they are, some hundredths of the sentences.

Sentences that share a side are kept together, and which split they go to is decided by a hash of
the first of them: no English and no Chinese sentence of dev or test is in train, and the same
export gives the same files. The shipped models were trained on a split of the same source and the
same kind (55,392 / 1,500 / 1,000 pairs, export of 2026-02, with the Challenge's dev and test
releases, which its dev and test came from): this one is like it, but not the same files, so that
scores will differ a little.
"""

import argparse
import gzip
import hashlib
import io
import re
import sys
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

Pair = tuple[str, str]

HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
LANGUAGE = re.compile(r"[a-z]{3}([_-]\w+)?")
TOGETHER = 3  # pairs that share sentences, at most, for dev and test


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, of one in .gz, or of the .txt with pairs in a .zip."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (name,) = [each for each in archive.namelist() if each == "cmn.txt"] or [""]
            if not name:
                sys.exit(f"{path}: expected cmn.txt within; take cmn-eng.zip of manythings.org")
            with io.TextIOWrapper(archive.open(name), encoding="utf-8") as file:
                yield from file
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from io.StringIO(data.decode("utf-8"))


def pairs(path: Path) -> Iterator[Pair]:
    """The first two columns, or those after two names of languages, English first."""
    for line in lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) >= 4 and all(LANGUAGE.fullmatch(each) for each in columns[:2]):
            turned = not columns[0].startswith("eng")
            yield (columns[3], columns[2]) if turned else (columns[2], columns[3])
        elif len(columns) >= 2:
            yield columns[0], columns[1]


def cleaned(found: Iterable[Pair], simplify: Callable[[str], str]) -> Iterator[Pair]:
    """Pairs with both sides present, each once."""
    seen = set()
    for pair in found:
        english, chinese = (" ".join(unicodedata.normalize("NFC", each).split()) for each in pair)
        chinese = simplify(chinese)
        present = any(map(str.isalpha, english)) and HAN.search(chinese)
        if present and not HAN.search(english) and (english, chinese) not in seen:
            seen.add((english, chinese))
            yield english, chinese


def families(found: list[Pair]) -> list[list[Pair]]:
    """Pairs that share a sentence on either side, directly or through others, together."""
    parent = list(range(len(found)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    first: dict[tuple[int, str], int] = {}
    for number, pair in enumerate(found):
        for key in enumerate(pair):
            parent[root(number)] = root(first.setdefault(key, number))
    together: dict[int, list[Pair]] = {}
    for number, pair in enumerate(found):
        together.setdefault(root(number), []).append(pair)
    return list(together.values())


def split(found: list[Pair], dev: int, test: int) -> dict[str, list[Pair]]:
    """Train, dev and test: families in the order of a hash, small ones first to test and dev."""
    parts: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    wanted = {"test": test, "dev": dev}
    for family in sorted(families(found), key=lambda each: _hash(min(each)[0])):
        room = [
            name
            for name, size in wanted.items()
            if len(family) <= min(TOGETHER, size - len(parts[name]))
        ]
        parts[room[0] if room else "train"] += family
    place = {pair: number for number, pair in enumerate(found)}
    return {name: sorted(part, key=place.__getitem__) for name, part in parts.items()}


def simplifier(wanted: bool) -> Callable[[str], str]:
    """Traditional to simplified characters, where it is wanted."""
    if not wanted:
        return str
    try:
        from opencc import OpenCC
    except ImportError:
        sys.exit("--simplify needs OpenCC; install it: pip install opencc-python-reimplemented")
    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Write the three files, and say how many pairs and which checksum each has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="cmn-eng.zip of manythings.org, or its cmn.txt")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="more files of pairs")
    parser.add_argument("--to", type=Path, default=Path("corpus"), help="the folder to write to")
    parser.add_argument("--dev", type=int, default=1500, help="pairs of dev.tsv")
    parser.add_argument("--test", type=int, default=1000, help="pairs of test.tsv")
    parser.add_argument("--simplify", action="store_true", help="traditional to simplified")
    asked = parser.parse_args()
    for path in (asked.source, *asked.more):
        if not path.is_file():
            sys.exit(f"no file {path}; download it first, see the top of this script")
    read = (pair for path in (asked.source, *asked.more) for pair in pairs(path))
    found = list(cleaned(read, simplifier(asked.simplify)))
    asked.to.mkdir(parents=True, exist_ok=True)
    for name, part in split(found, asked.dev, asked.test).items():
        text = "".join(f"{english}\t{chinese}\n" for english, chinese in part)
        (asked.to / f"{name}.tsv").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}.tsv  {len(part):6} pairs  sha256 {_hash(text)}\n")


if __name__ == "__main__":
    main()
