r"""Makes the corpus of the English reader from public sets of questions with a text.

    python recipes/answers/prepare_en.py \
        --train squadshifts-en/train.jsonl.gz fairytaleqa-en/train.jsonl.gz \
        --dev squadshifts-en/dev.jsonl.gz fairytaleqa-en/dev.jsonl.gz \
        --test squadshifts-en/test.jsonl.gz --squad dev-v1.1.json --to recipes/answers/corpus/en

The sets are SQuADShifts (github.com/modestyachts/squadshifts-website, CC BY 4.0; new Wikipedia,
Reddit and Amazon) and the questions of FairytaleQA whose answer stands in the text
(github.com/uci-soe/FairytaleQAData, Apache 2.0). Lines have "question", "context" and "answers"
(objects with "text" and "start"). SQuAD's dev set (CC BY-SA 4.0) is only for measuring.

A training text that is also in one of the other files is left out. A long training text is cut to
--words words around the answer, at a random place, so that one window of the reader has it all. A
--unanswered share of the questions gets a text without the answer: another part of its own text
or, where that is too short, the text of the same set that has most rare words of the question.
"""

import argparse
import math
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from prepare_zh import Row, read_rows, write_rows

_WORD = re.compile(r"\w+")


class SimilarTexts:
    """Finds the text that shares the rarest words with a question, by an inverted index."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = list(dict.fromkeys(texts))
        self._index: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self.texts):
            for word in set(_WORD.findall(text.lower())):
                self._index[word].append(number)

    def find(self, row: Row) -> str | None:
        """The text most like the question, other than its own and without any of its answers."""
        scores: Counter[int] = Counter()
        # in a fixed order, as the sums of floats depend on it
        for word in sorted(set(_WORD.findall(row["question"].lower()))):
            found = self._index.get(word, [])
            for number in found:
                scores[number] += math.log(len(self.texts) / len(found))
        answers = [each["text"].lower() for each in row["answers"]]
        for number, _ in scores.most_common(20):
            text = self.texts[number]
            if text != row["context"] and not any(each in text.lower() for each in answers):
                return text
        return None


def common_answer(row: Row) -> Row:
    """The answer that most people gave, the first of these."""
    counts = Counter(each["text"] for each in row["answers"])
    answer: Row = max(row["answers"], key=lambda each: counts[each["text"]])
    return answer


def cut_text(text: str, start: int, stop: int, words: int, generator: random.Random) -> range:
    """The characters of a stretch of this many words at a random place around an answer."""
    places = [match.span() for match in re.finditer(r"\S+", text)]
    if len(places) <= words:
        return range(len(text))
    first = next(number for number, place in enumerate(places) if place[1] > start)
    last = max(number for number, place in enumerate(places) if place[0] < stop)
    low, high = max(0, last - words + 1), min(first, len(places) - words)
    # an answer longer than the stretch keeps its beginning
    begin = generator.randint(low, high) if low <= high else first
    end = min(begin + max(words, last - begin + 1), len(places))
    return range(places[begin][0], places[end - 1][1])


def cut_row(row: Row, words: int, generator: random.Random) -> Row:
    """A question with one answer, and the part of its text around it."""
    answer = common_answer(row)
    start, stop = answer["start"], answer["start"] + len(answer["text"])
    part = cut_text(row["context"], start, stop, words, generator)
    moved = {"text": answer["text"], "start": start - part.start}
    return row | {"context": row["context"][part.start : part.stop], "answers": [moved]}


def unanswered_row(row: Row, similar: SimilarTexts, words: int, generator: random.Random) -> Row:
    """The question with a text that has no answer to it; with its own if none is found."""
    text, answers = row["context"], row["answers"]
    parts = [
        text[: min(each["start"] for each in answers)],
        text[max(each["start"] + len(each["text"]) for each in answers) :],
    ]
    longest = max(parts, key=len)
    lowered = longest.lower()
    has_answer = any(each["text"].lower() in lowered for each in answers)
    other = longest.strip()
    if has_answer or len(longest.split()) < words // 2:
        other = (similar.find(row) or "").strip()
    if not other:
        return cut_row(row, words, generator)
    begin = generator.randrange(len(other))
    part = cut_text(other, begin, begin + 1, words, generator)
    return row | {"context": other[part.start : part.stop].strip(), "answers": []}


def train_rows(rows: list[Row], words: int, unanswered: float) -> list[Row]:
    """The training questions of one set, cut and in part without an answer."""
    generator = random.Random(1)
    similar = SimilarTexts(row["context"] for row in rows)
    return [
        unanswered_row(row, similar, words, generator)
        if generator.random() < unanswered
        else cut_row(row, words, generator)
        for row in rows
    ]


def main() -> None:
    """Write train.jsonl, dev.jsonl, test.jsonl, squad.jsonl and unanswered.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--dev", type=Path, nargs="+", required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--words", type=int, default=120, help="words of a training text")
    parser.add_argument("--unanswered", type=float, default=0.08)
    parser.add_argument("--to", type=Path, default=Path("recipes/answers/corpus/en"))
    args = parser.parse_args()
    for path in (*args.train, *args.dev, args.test, args.squad):
        if not path.is_file():
            sys.exit(f"no file {path}; see the top of this script for what is needed")
    test, squad = read_rows(args.test), read_rows(args.squad)
    dev = [row for path in args.dev for row in read_rows(path)]
    outside = {row["context"].strip() for row in (*test, *squad, *dev)}
    train: list[Row] = []
    for path in args.train:
        rows = [row for row in read_rows(path) if row["context"].strip() not in outside]
        train += train_rows(rows, args.words, args.unanswered)
    unanswered = train_rows(dev, 1000, 1.0)
    for rows in (train, dev, unanswered):
        random.Random(0).shuffle(rows)
    args.to.mkdir(parents=True, exist_ok=True)
    files = {"train": train, "dev": dev, "test": test, "squad": squad, "unanswered": unanswered}
    for name, rows in files.items():
        write_rows(args.to / f"{name}.jsonl", rows)


if __name__ == "__main__":
    main()
