"""What answers from a knowledge base cost: opening a base, and a question.

The bases are made up: as many triples and answers as those that the models were measured on.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measure import Effort, Row, Table
from regard.tasks.asking import BaseQuestions
from regard.tasks.knowledge import base as bases
from regard.tasks.knowledge.base import KnowledgeBase
from regard.tasks.knowledge.entries import read_base

TRIPLES, ANSWERS = 24_475, 13_542
_WORDS_OF_AN_ANSWER = 70
_MOST_TO_OPEN, _MOST_TO_ANSWER = 10.0, 0.3  # seconds
_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 3000)]
_RELATIONS = 4500


def _triples(path: Path, count: int) -> list[str]:
    """Write triples with made-up Chinese names; questions about some of them."""
    generator = random.Random(0)
    names = ["".join(generator.choices(_HAN, k=generator.randint(2, 9))) for _ in range(count)]
    relations = ["".join(generator.choices(_HAN, k=3)) for _ in range(_RELATIONS)]
    rows = [(name, generator.choice(relations)) for name in names]
    path.write_text("".join(f"{s}\t{r}\t{n}\n" for n, (s, r) in enumerate(rows)), encoding="utf-8")
    return [f"请问{subject}的{relation}是什么？" for subject, relation in rows[:50]]


def _answers(path: Path, count: int) -> list[str]:
    """Write answers of made-up English words; questions of words of some of them."""
    generator = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(generator.choices(letters, k=generator.randint(3, 9))) for _ in range(20_000)]
    weights = [1 / (place + 10) for place in range(len(words))]
    rows = [generator.choices(words, weights, k=_WORDS_OF_AN_ANSWER) for _ in range(count)]
    path.write_text("".join(" ".join(row) + "\n" for row in rows))
    return [" ".join(row[:8]) + "?" for row in rows[:50]]


def knowledge_rows(effort: Effort) -> Iterator[Row]:
    """The seconds of making an index, of reading it again, and of a question."""
    cases: dict[str, tuple[Callable[[Path, int], list[str]], int]] = {
        "triples": (_triples, TRIPLES),
        "answers": (_answers, ANSWERS),
    }
    for name, (write, count) in cases.items():
        size = count // 2 if effort.quick else count
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.tsv"
            questions = write(path, size)
            for what in ("index made", "index read"):
                bases._open.cache_clear()
                begin = time.perf_counter()
                base = KnowledgeBase(read_base(path))
                spent = time.perf_counter() - begin
                yield _row(f"{size:,} {name}, {what}", spent, _MOST_TO_OPEN)
            asked = BaseQuestions(base, trace=False)
            asked.answer(questions[0])
            begin = time.perf_counter()
            for question in questions[1 : 11 if effort.quick else None]:
                asked.answer(question)
            mean = (time.perf_counter() - begin) / (10 if effort.quick else len(questions) - 1)
            yield _row(f"{size:,} {name}, a question", mean, _MOST_TO_ANSWER)


def _row(case: str, seconds: float, most: float) -> Row:
    """A row against a limit in seconds."""
    verdict = "met" if seconds <= most else f"**missed by {seconds / most - 1:.0%}**"
    return Row(case, f"at most {most:g} s", f"{seconds:.3f} s", note=verdict)


TABLES = {"base": Table("Answers from a knowledge base", knowledge_rows, 1.5)}
