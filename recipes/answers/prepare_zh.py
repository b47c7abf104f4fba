r"""Makes the corpus of the Chinese reader from public sets of questions with a text.

    python recipes/answers/prepare_zh.py --train cmrc2018-train.jsonl.gz drcd-dureader.jsonl.gz \
        --dev drcd-dureader-dev.jsonl.gz --test cmrc2018_dev.json --to recipes/answers/corpus/zh

Lines of .jsonl[.gz] files have "question", "context" and "answers" (objects with "text" and
"start"); .json files are those of CMRC 2018 (github.com/ymcui/cmrc2018, CC BY-SA 4.0). DRCD (CC
BY-SA 3.0) and DuReader-robust (Apache 2.0) were made simplified and joined in one file. --held-out
texts of the training files, chosen by a hash, are added to dev with all their questions. A text
of the test file is in no training file. The questions of a training file are shuffled.
"""

import argparse
import gzip
import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The questions of a file of either format."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = data.decode("utf-8")
    if path.suffix == ".json":
        return list(cmrc_rows(json.loads(text)))
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    # an answer without text, as DuReader-checklist has it, says that there is none
    return [row | {"answers": [each for each in row["answers"] if each["text"]]} for row in rows]


def cmrc_rows(content: Row) -> Iterator[Row]:
    """The questions of a file in the format of SQuAD and CMRC 2018, whose answers are found."""
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for entry in paragraph["qas"]:
                answers = list(placed(entry["answers"], context))
                if answers:
                    question = entry["question"]
                    yield {"question": question, "context": context, "answers": answers}
                else:
                    sys.exit(f"no answer of {entry['id']} stands in its context")


def placed(answers: Iterable[Row], context: str) -> Iterator[Row]:
    """The answers with the place where they really stand: some given places are wrong."""
    for answer in answers:
        text, start = answer["text"], answer["answer_start"]
        if context[start : start + len(text)] != text:
            start = context.find(text)
        if start >= 0:
            yield {"text": text, "start": start}


def _hash(text: str) -> str:
    """The SHA-256 checksum of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write questions, and print how many there are, with the file's checksum."""
    names = ("question", "context", "answers")
    content = "".join(
        json.dumps({name: row[name] for name in names}, ensure_ascii=False) + "\n" for row in rows
    )
    path.write_text(content, encoding="utf-8")
    sys.stdout.write(f"{path.name:12} {len(rows):6} questions  sha256 {_hash(content)}\n")


def main() -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--dev", type=Path, nargs="*", default=[])
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--held-out", type=int, default=100, help="training texts for dev")
    parser.add_argument("--to", type=Path, default=Path("recipes/answers/corpus/zh"))
    args = parser.parse_args()
    for path in (*args.train, *args.dev, args.test):
        if not path.is_file():
            sys.exit(f"no file {path}; see the top of this script for what is needed")
    test, dev = read_rows(args.test), [row for path in args.dev for row in read_rows(path)]
    outside = {row["context"] for row in (*test, *dev)}
    train = [row for path in args.train for row in read_rows(path)]
    train = [row for row in train if row["context"] not in outside]
    held_out = set(sorted({row["context"] for row in train}, key=_hash)[: args.held_out])
    dev = [row for row in train if row["context"] in held_out] + dev
    train = [row for row in train if row["context"] not in held_out]
    for rows in (train, dev):
        random.Random(0).shuffle(rows)
    args.to.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train", train), ("dev", dev), ("test", test)):
        write_rows(args.to / f"{name}.jsonl", rows)


if __name__ == "__main__":
    main()
