r"""Makes the corpus of the Chinese sentiment recipe from three public sets of reviews.

    python recipes/sentiment/prepare_zh.py --hotels chnsenticorp --shopping online-shopping-zh \
        --meals waimai-zh --to recipes/sentiment/corpus/zh

Each folder has the files train, dev and test (.tsv or .tsv.gz) with lines `text<TAB>label`: of
ChnSentiCorp, online_shopping_10_cats and waimai_10k (SophonPlus/ChineseNlpCorpus). The published
test file of ChnSentiCorp has no labels: its dev file is the test here, and --dev texts of its
training file, chosen by a hash, are held out instead. A text of any dev or test file is removed
from the training texts of all three sets. Labels become 0 (negative) and 1 (positive).
train-hotels.tsv repeats the texts of ChnSentiCorp, the smallest set with the longest texts: the
recipe reads them twice.

How long a review is says something of its label in these sets, and nothing elsewhere: a third of
the meals is positive, a fifteenth of the long ones. train-repeats.tsv therefore repeats texts of
the rarer label, until both are as frequent among the texts of a set that are about as long (or each
is there --most times). train-clauses.tsv has first or last clauses of short reviews, as many of
each label; dev-clauses.tsv has such clauses of the dev texts.
"""

import argparse
import gzip
import hashlib
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

Rows = dict[str, str]  # text -> label

LENGTHS = (10, 20, 40, 80, 160)  # characters: texts between two of these are about as long
SHORT = 80  # characters of a review at most from which a clause is taken
CLAUSE = range(6, 21)  # characters of a clause
MARKS = re.compile(r"[，。！？；、,.!?;~～…\s]+")

LABELS = {"0": "0", "1": "1", "negative": "0", "positive": "1"}


def read_rows(folder: Path, name: str) -> Rows:
    """The labelled texts of one file of a folder; a text that is there twice counts once."""
    paths = [folder / f"{name}.tsv", folder / f"{name}.tsv.gz"]
    path = next((each for each in paths if each.is_file()), None)
    if path is None:
        sys.exit(f"no file {paths[0]}, nor .gz; see the top of this script for what is needed")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows: Rows = {}
    for line in data.decode("utf-8").splitlines():
        text, _, rest = line.partition("\t")
        label = LABELS.get(rest.split("\t")[0].strip())
        if text.strip() and label is not None:
            rows.setdefault(text.strip(), label)
    return rows


def split_hotels(folder: Path, dev: int) -> dict[str, Rows]:
    """The splits of ChnSentiCorp: its dev file is the test, a part of its training file is dev."""
    train, test = read_rows(folder, "train"), read_rows(folder, "dev")
    order = sorted(train, key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    held_out = set([text for text in order if text not in test][:dev])
    return {
        "train": {text: label for text, label in train.items() if text not in held_out},
        "dev": {text: label for text, label in train.items() if text in held_out},
        "test": test,
    }


def in_hash_order(texts: Iterable[str]) -> list[str]:
    """The texts in an order that depends on nothing but themselves."""
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())


def repeats(rows: Rows, most: int) -> list[tuple[str, str]]:
    """Texts of the rarer label, so that both are as frequent among texts that are about as long."""
    groups: dict[int, dict[str, list[str]]] = {}
    for text in in_hash_order(rows):
        group = groups.setdefault(bisect_left(LENGTHS, len(text)), {"0": [], "1": []})
        group[rows[text]].append(text)
    again = list[tuple[str, str]]()
    for _, group in sorted(groups.items()):
        rarer, other = sorted(group, key=lambda label: len(group[label]))
        missing = len(group[other]) - len(group[rarer])
        copies = (group[rarer] * (most - 1))[:missing]
        again += [(text, rarer) for text in copies]
    return again


def clauses(rows: Rows) -> Rows:
    """The first or the last clause of short reviews, as many of each label."""
    found: dict[str, list[str]] = {"0": [], "1": []}
    seen = set(rows)
    for text in in_hash_order(text for text in rows if len(text) <= SHORT):
        parts = [part for part in MARKS.split(text) if part]
        if len(parts) < 2:
            continue
        for part in (parts[0], parts[-1]):
            if len(part) in CLAUSE and part not in seen:
                seen.add(part)
                found[rows[text]].append(part)
                break
    count = min(map(len, found.values()))
    return {part: label for label, parts in found.items() for part in parts[:count]}


def write_rows(path: Path, rows: Rows | list[tuple[str, str]]) -> None:
    """Write labelled texts, and print how many there are, with the file's checksum."""
    pairs = rows.items() if isinstance(rows, dict) else rows
    content = "".join(f"{text}\t{label}\n" for text, label in pairs).encode()
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    sys.stdout.write(f"{path.name:18} {len(rows):6} texts  sha256 {digest}\n")


def main() -> None:
    """Write the training and dev texts of all sets together, and dev and test files of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hotels", type=Path, required=True, help="folder of ChnSentiCorp")
    parser.add_argument("--shopping", type=Path, required=True, help="online_shopping_10_cats")
    parser.add_argument("--meals", type=Path, required=True, help="folder of waimai_10k")
    parser.add_argument("--dev", type=int, default=1000, help="texts of ChnSentiCorp for dev")
    parser.add_argument("--most", type=int, default=4, help="times that a text is repeated at most")
    parser.add_argument("--to", type=Path, default=Path("recipes/sentiment/corpus/zh"))
    args = parser.parse_args()
    sets = {"hotels": split_hotels(args.hotels, args.dev)}
    for name, folder in (("shopping", args.shopping), ("meals", args.meals)):
        sets[name] = {split: read_rows(folder, split) for split in ("train", "dev", "test")}
    held_out = {text for each in sets.values() for split in ("dev", "test") for text in each[split]}
    train = {
        text: label
        for each in sets.values()
        for text, label in each["train"].items()
        if text not in held_out
    }
    args.to.mkdir(parents=True, exist_ok=True)
    write_rows(args.to / "train.tsv", train)
    hotels = {text: label for text, label in train.items() if text in sets["hotels"]["train"]}
    write_rows(args.to / "train-hotels.tsv", hotels)
    again, short, rest = list[tuple[str, str]](), Rows(), dict(train)
    for each in sets.values():  # a text of two sets counts for the first
        own = {text: rest.pop(text) for text in each["train"] if text in rest}
        again += repeats(own, args.most)
        parts = clauses(own)
        short |= {text: label for text, label in parts.items() if text not in held_out}
    write_rows(args.to / "train-repeats.tsv", again)
    write_rows(args.to / "train-clauses.tsv", short)
    dev_short = [clauses(each["dev"]).items() for each in sets.values()]
    write_rows(args.to / "dev-clauses.tsv", [pair for pairs in dev_short for pair in pairs])
    merged = {text: label for each in sets.values() for text, label in each["dev"].items()}
    write_rows(args.to / "dev.tsv", merged)
    for name, each in sets.items():
        for split in ("dev", "test"):
            write_rows(args.to / f"{split}-{name}.tsv", each[split])


if __name__ == "__main__":
    main()
