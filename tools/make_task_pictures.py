"""Make the pictures of docs/tasks.md, in English and Chinese: docs/pictures/task-*.png.

Run: python tools/make_task_pictures.py [NAME …]; without names, all of them. The page of a task, as
a browser shows it in dark mode or on a phone, is written by the commands of docs/tasks.md.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from make_course_pictures import ABSTRACT, shrunk

import regard
from regard.types import TaskResult

PLACE = Path(__file__).parents[1] / "docs/pictures"
FAQ = (
    ("How do I reset my password?", "Click on 'forgot password' below the login."),
    ("Where is the office?", "In the old harbour, next to the ferry."),
    ("When are you open?", "From nine to five, except on Sundays."),
)
READING = {
    "en": (
        "Who wrote the first program?",
        "Charles Babbage designed the engine in 1837. The first program for it was written by Ada "
        "Lovelace, who translated an article about it.",
    ),
    "zh": (
        "中国科学院的总部设在哪里？",
        "中国科学院成立于1949年11月1日，总部设在北京，是中国自然科学的最高学术机构。",
    ),
}


def answer_from_base() -> TaskResult:
    """The answer from a base of questions with answers."""
    with TemporaryDirectory() as folder:
        base = Path(folder) / "faq.tsv"
        base.write_text("".join(f"{question}\t{answer}\n" for question, answer in FAQ))
        return regard.answer("I forgot my password.", base=base, device="cpu")


# Each takes the language of the page that the picture is for; most show one text in both.
RESULTS: dict[str, Callable[[str], TaskResult]] = {
    "classify": lambda _: regard.classify(
        "The actors are good, the story is terrible.", device="cpu"
    ),
    "topic": lambda _: regard.classify("央行宣布下调存款准备金率", task="topic", device="cpu"),
    "reading": lambda language: regard.answer(*READING[language], device="cpu"),
    "answer": lambda _: answer_from_base(),
    "summarise": lambda _: regard.summarise(ABSTRACT, device="cpu"),
    "translate": lambda _: regard.translate("I love you", device="cpu"),
}


def main() -> None:
    """Draw the pictures that are named, or all."""
    with TemporaryDirectory() as folder:
        for name in sys.argv[1:] or RESULTS:
            for language, ending in (("en", ""), ("zh", ".zh")):
                result = RESULTS[name](language)
                large = regard.view(result, language=language).save(Path(folder) / "large.png")
                shrunk(large, PLACE / f"task-{name}{ending}.png")


if __name__ == "__main__":
    main()
