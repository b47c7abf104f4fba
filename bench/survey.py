"""The cost of a survey of a corpus, against the forward passes alone.

Ours is the whole `survey`: encoding, ordering, batching, the measures of every head and the state
on disk. The peer is the model alone on the same batches, which are prepared before it is timed.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

import regard
from bench.measure import Effort, Row, Table, Target
from bench.other_viewers import minilm
from regard.measures.heads import head_numbers
from regard.studies.survey.run import KINDS, TOKENS, survey
from regard.tracing.statistics.corpus import CorpusRunner

SENTENCES, AT_ONCE, ROUNDS = 10_000, 500, 2
WORDS, SPREAD, LONGEST = 19, 9, 60  # words of a sentence, as those of film reviews have
PLAIN, TRACES = "plain forwards", "a trace of each sentence, then its measures"


def sentences(count: int) -> list[str]:
    """Sequences of words from our own documents, with the lengths of real sentences."""
    root = Path(__file__).parents[1]
    files = sorted((*root.glob("*.md"), *root.glob("docs/*.md")))
    words = " ".join(path.read_text(encoding="utf-8") for path in files).split()
    chance = Random(0)
    found = []
    for _ in range(count):
        length = min(max(round(chance.gauss(WORDS, SPREAD)), 2), LONGEST)
        start = chance.randrange(len(words) - length)
        found.append(" ".join(words[start : start + length]))
    return found


@dataclass
class Sums:
    """The shortest time of each contender for each part of the corpus."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def take(self, contenders: dict[str, Callable[[], Any]], rounds: int) -> None:
        """Time one part, contenders in alternating order, so that noise affects them alike."""
        least = dict.fromkeys(contenders, float("inf"))
        for number in range(rounds):
            for name in list(contenders)[:: 1 if number % 2 else -1]:
                start = time.perf_counter()
                contenders[name]()
                least[name] = min(least[name], time.perf_counter() - start)
        for name, taken in least.items():
            self.seconds.setdefault(name, []).append(taken)

    def ratio(self, one: str, other: str) -> float:
        """The total time of `one` divided by that of `other`."""
        return sum(self.seconds[one]) / sum(self.seconds[other])

    def median(self, one: str, other: str) -> float:
        """The median over the parts of the time of `one` divided by that of `other`."""
        pairs = zip(self.seconds[one], self.seconds[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def plain(model: Any, batches: Sequence[dict[str, Any]]) -> None:
    """Run the model over prepared batches."""
    with torch.no_grad():
        for batch in batches:
            model(**batch)


def ready(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The batches that a survey of the texts would give to the model."""
    passes = CorpusRunner(model, tokenizer, KINDS, tokens=TOKENS, longest=None)
    return [passes.prepared(group.batch)[1] for group in passes.groups(texts)]


def traced(model: Any, tokenizer: Any, texts: Sequence[str]) -> None:
    """The alternative to a survey: a trace of each text, and the measures of its heads."""
    for trace in regard.capture(model, tokenizer, list(texts), atlas=0):
        for attention_map in trace:
            head_numbers(trace, attention_map.site)


def survey_rows(effort: Effort) -> Iterator[Row]:
    """A survey of the corpus, part by part, against plain forward passes of the same parts."""
    model, tokenizer = minilm(6, 512)
    count = SENTENCES // 20 if effort.quick else SENTENCES
    texts, sums = sentences(count), Sums()
    plain(model, ready(model, tokenizer, texts[:64]))
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, count, AT_ONCE):
            part = texts[start : start + AT_ONCE]
            state = Path(folder) / f"{start}.state"
            contenders = {
                "ours": partial(_survey_from_scratch, model, tokenizer, part, state),
                PLAIN: partial(plain, model, ready(model, tokenizer, part)),
            }
            sums.take(contenders, ROUNDS)
    found = (sums.ratio("ours", PLAIN), sums.median("ours", PLAIN))
    speed = count / sum(sums.seconds["ours"])
    case = f"MiniLM, {count:,} sentences"
    yield Row(case, PLAIN, "time", *found, Target(1.3), f"{speed:.0f} sentences/s")
    some, few = Sums(), texts[:64]
    some.take(
        {
            "ours": partial(_survey_from_scratch, model, tokenizer, few, None),
            TRACES: partial(traced, model, tokenizer, few),
            PLAIN: partial(plain, model, ready(model, tokenizer, few)),
        },
        ROUNDS,
    )
    yield Row(f"{case}: the first 64", TRACES, "time", some.ratio("ours", TRACES))
    yield Row(f"{case}: the first 64", PLAIN, "time", some.ratio("ours", PLAIN))


def _survey_from_scratch(
    model: Any, tokenizer: Any, texts: Sequence[str], state: Path | None
) -> None:
    """Run a survey without the state of an earlier run."""
    if state is not None:
        state.unlink(missing_ok=True)
    survey(model, tokenizer, texts, state=state)


TABLES = {
    "corpus": Table(
        "A survey of 10,000 sentences, against the forward passes alone", survey_rows, 12.0
    )
}
