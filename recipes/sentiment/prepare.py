"""Make the files of English sentiment: sentences of SST-2, and a passage of each IMDB review.

    python recipes/sentiment/prepare.py sst2 imdb --to recipes/sentiment/corpus

The folders hold train.tsv and dev.tsv (`text<TAB>label`, 1 is positive, perhaps .gz). A review has
some 250 words, which would make training several times as long; a passage of 30 to 90 words, from
the beginning of a sentence, keeps much of its opinion. Test files are not read.
"""

import argparse
import gzip
import random
import re
from pathlib import Path

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
SHORTEST, LONGEST = 30, 90  # words of a passage
COPIES = 3  # of each sentence of SST-2, which are short
REVIEWS = 400  # in dev.tsv


def read_lines(folder: Path, name: str) -> list[str]:
    """The lines of a file of a folder, which may be gzipped."""
    path = folder / name
    text = path.read_bytes() if path.is_file() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    return [line for line in text.decode("utf-8").split("\n") if line.strip()]


def choose_passage(review: str, generator: random.Random) -> str:
    """Some consecutive sentences of a review, at least `SHORTEST` words of it if it has as many."""
    sentences = [sentence.split() for sentence in SENTENCE_END.split(review)]
    length = generator.randint(SHORTEST, LONGEST)
    lengths = [len(sentence) for sentence in sentences]
    starts = [n for n in range(len(sentences)) if sum(lengths[n:]) >= SHORTEST] or [0]
    words = [word for sentence in sentences[generator.choice(starts) :] for word in sentence]
    return " ".join(words[:length])


def cut_passages(lines: list[str], generator: random.Random) -> list[str]:
    """A passage of each labelled review."""
    pairs = [line.rsplit("\t", 1) for line in lines]
    return [f"{choose_passage(review, generator)}\t{label}" for review, label in pairs]


def main() -> None:
    """Write train.tsv and dev.tsv."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("sst2", type=Path)
    parser.add_argument("imdb", type=Path)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    generator = random.Random(1)
    reviews = cut_passages(read_lines(arguments.imdb, "train.tsv"), generator)
    train = read_lines(arguments.sst2, "train.tsv") * COPIES + reviews
    reviews = cut_passages(read_lines(arguments.imdb, "dev.tsv")[:REVIEWS], generator)
    dev = read_lines(arguments.sst2, "dev.tsv") + reviews
    arguments.to.mkdir(parents=True, exist_ok=True)
    for name, lines in (("train.tsv", train), ("dev.tsv", dev)):
        (arguments.to / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
