"""Makes the corpus of the English-Chinese recipes from its public source.

    curl -O https://www.manythings.org/anki/cmn-eng.zip
    python recipes/en-zh/prepare.py cmn-eng.zip --to recipes/en-zh/corpus

The sentences are Tatoeba's, CC BY 2.0 FR, as manythings.org exports them: English, tab, Chinese,
tab, attribution. Files of the Tatoeba Challenge may be added with --more: their lines have two
languages, then source and target, with tabs between; .gz is read as well.

A pair is kept if its English side contains a letter and its Chinese side a Chinese character. Runs
of whitespace become one space, and duplicate pairs are dropped. --simplify converts traditional to
simplified characters and needs OpenCC (pip install opencc-python-reimplemented); without it the
few per cent of the sentences that are in traditional characters stay as they are.

Pairs that share an English or a Chinese sentence always go to the same split, which is chosen by a
hash of the first of them. No English and no Chinese sentence of dev or test is therefore in train,
and the same export gives the same files. The shipped models were trained on a split of the same
source, made in the same way (55,392 / 1,500 / 1,000 pairs, export of 2026-02; its dev and test
pairs came from the dev and test releases of the Tatoeba Challenge). The files that this script
writes are similar but not identical, so metrics will differ a little.
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
LARGEST_HELD_OUT_GROUP = 3  # larger groups of pairs that share sentences go to train


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, of a .gz file, or of the cmn.txt in a .zip archive."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (name,) = [entry for entry in archive.namelist() if entry == "cmn.txt"] or [""]
            if not name:
                sys.exit(f"{path}: expected cmn.txt within; take cmn-eng.zip of manythings.org")
            with io.TextIOWrapper(archive.open(name), encoding="utf-8") as file:
                yield from file
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from io.StringIO(data.decode("utf-8"))


def pairs(path: Path) -> Iterator[Pair]:
    """The (English, Chinese) pairs of a file.

    A line has English and Chinese in its first two columns (manythings.org), or two language codes
    followed by the sentences in those languages (Tatoeba Challenge).
    """
    for line in lines(path):
        columns = line.rstrip("\r\n").split("\t")
        if len(columns) >= 4 and all(LANGUAGE.fullmatch(code) for code in columns[:2]):
            chinese_first = not columns[0].startswith("eng")
            yield (columns[3], columns[2]) if chinese_first else (columns[2], columns[3])
        elif len(columns) >= 2:
            yield columns[0], columns[1]


def clean_pairs(raw_pairs: Iterable[Pair], simplify: Callable[[str], str]) -> Iterator[Pair]:
    """The pairs with text in both languages, with whitespace normalised and duplicates removed."""
    seen = set()
    for pair in raw_pairs:
        english, chinese = (" ".join(unicodedata.normalize("NFC", side).split()) for side in pair)
        chinese = simplify(chinese)
        has_both_languages = any(map(str.isalpha, english)) and HAN.search(chinese)
        if has_both_languages and not HAN.search(english) and (english, chinese) not in seen:
            seen.add((english, chinese))
            yield english, chinese


def group_pairs(clean: list[Pair]) -> list[list[Pair]]:
    """Groups of pairs that share a sentence in either language, directly or through other pairs."""
    # Union-find: each pair points to another pair of its group, or to itself if it is the root.
    parent = list(range(len(clean)))

    def root(number: int) -> int:
        """The pair that represents the group of a pair."""
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    first_with_sentence: dict[tuple[int, str], int] = {}
    for number, pair in enumerate(clean):
        # The key (0, sentence) stands for an English sentence, (1, sentence) for a Chinese one.
        for sentence in enumerate(pair):
            parent[root(number)] = root(first_with_sentence.setdefault(sentence, number))
    groups: dict[int, list[Pair]] = {}
    for number, pair in enumerate(clean):
        groups.setdefault(root(number), []).append(pair)
    return list(groups.values())


def split(clean: list[Pair], dev: int, test: int) -> dict[str, list[Pair]]:
    """The pairs of train, dev and test.

    Groups are taken in the order of a hash. Small groups fill test, then dev; the rest is train.
    """
    parts: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    sizes = {"test": test, "dev": dev}
    for group in sorted(group_pairs(clean), key=lambda pairs: _hash(min(pairs)[0])):
        splits_with_space = [
            name
            for name, size in sizes.items()
            if len(group) <= min(LARGEST_HELD_OUT_GROUP, size - len(parts[name]))
        ]
        parts[splits_with_space[0] if splits_with_space else "train"] += group
    position = {pair: number for number, pair in enumerate(clean)}
    return {name: sorted(part, key=position.__getitem__) for name, part in parts.items()}


def simplifier(enabled: bool) -> Callable[[str], str]:
    """A function that converts traditional to simplified characters, or changes nothing."""
    if not enabled:
        return str
    try:
        from opencc import OpenCC
    except ImportError:
        sys.exit("--simplify needs OpenCC; install it: pip install opencc-python-reimplemented")
    convert: Callable[[str], str] = OpenCC("t2s").convert
    return convert


def _hash(text: str) -> str:
    """The SHA-256 checksum of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Write train.tsv, dev.tsv and test.tsv, and print the pair count and checksum of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="cmn-eng.zip of manythings.org, or its cmn.txt")
    parser.add_argument("--more", type=Path, nargs="*", default=[], help="more files of pairs")
    parser.add_argument("--to", type=Path, default=Path("corpus"), help="the folder to write to")
    parser.add_argument("--dev", type=int, default=1500, help="pairs of dev.tsv")
    parser.add_argument("--test", type=int, default=1000, help="pairs of test.tsv")
    parser.add_argument("--simplify", action="store_true", help="traditional to simplified")
    args = parser.parse_args()
    for path in (args.source, *args.more):
        if not path.is_file():
            sys.exit(f"no file {path}; download it first, see the top of this script")
    raw_pairs = (pair for path in (args.source, *args.more) for pair in pairs(path))
    clean = list(clean_pairs(raw_pairs, simplifier(args.simplify)))
    args.to.mkdir(parents=True, exist_ok=True)
    for name, part in split(clean, args.dev, args.test).items():
        text = "".join(f"{english}\t{chinese}\n" for english, chinese in part)
        (args.to / f"{name}.tsv").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}.tsv  {len(part):6} pairs  sha256 {_hash(text)}\n")


if __name__ == "__main__":
    main()
