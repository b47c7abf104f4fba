"""Measure answers from a base of answers: how often the first one is right.

    python recipes/knowledge/faq.py FOLDER dev|test [--limit COUNT] [--model MODEL]

FOLDER has answers.jsonl.gz (id, text) and {dev,test}.jsonl.gz (question, answer_ids).
"""

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

from regard.tasks.asking import BaseQuestions
from regard.tasks.knowledge.base import open_base


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main(folder: Path, split: str, limit: int | None, model: str | None) -> None:
    """Print how often the first answer is right, by BM25 alone and as the base answers."""
    texts = {each["id"]: each["text"].strip() for each in read(folder / "answers.jsonl.gz")}
    rows = read(folder / f"{split}.jsonl.gz")[:limit]
    begin = time.monotonic()
    base = open_base(folder / "answers.jsonl.gz")
    print(f"base opened in {time.monotonic() - begin:.1f} s")
    asked = BaseQuestions(base, model, no_answer=False, trace=False)
    bm25 = first = found = 0
    spent = 0.0
    for number, row in enumerate(rows, 1):
        gold = {texts[each] for each in row["answer_ids"]}
        numbers = [n for n, _ in base.search(row["question"], 24)]
        passages = [base.entry(n).passage for n in numbers]
        begin = time.monotonic()
        result = asked.answer(row["question"])
        spent += time.monotonic() - begin
        first += result.answer in gold
        bm25 += bool(passages) and passages[0] in gold
        found += not gold.isdisjoint(passages)
        if number % 100 == 0 or number == len(rows):
            shares = (f"{100 * n / number:.1f}%" for n in (first, bm25, found))
            print(number, *shares, f"{spent / number:.3f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("split", choices=["dev", "test"])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--model", help="a sentence encoder; the shipped one by default")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.split, arguments.limit, arguments.model)
