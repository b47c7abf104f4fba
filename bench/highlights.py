"""What the highlight of a classifier or a reader may claim: whether the words it shades matter.

    python -m bench.highlights sentiment-en test.tsv --count 300
    python -m bench.highlights answers-en test.jsonl --count 100 --most-words 100

Of each text (`text<TAB>label`) the fifth of the words that a ranking puts first is erased, and then
kept alone. The fall of the probability of the predicted class is comprehensiveness (high is good)
and sufficiency (low is good; DeYoung et al. 2020), at 20% of the words. The rankings are the shown
highlight (`TaskResult.evidence`), attention of the last map, gradient x input and occlusion;
`random` is the mean of shuffles. Printed as JSON: means over the texts, the gain in
comprehensiveness over random with a bootstrap interval of 95%, and the share of the better of
gradient x input and occlusion that the shown highlight gains.

For a reader (lines with "question" and "context") the probability is that of the span that it
answers with, and the words are those of question and text. The words of the answer are not ranked
and never erased: without them no answer could stand there, whatever else was read. Questions that
are answered with "no answer", and texts of several windows, are left out.
"""

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

import regard
from regard.attribution.attention import last_layer_attention
from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import Eraser
from regard.attribution.gradients import token_gradients
from regard.attribution.occlusion import occlude_each
from regard.tasks.answering import read_span_logits
from regard.tasks.evidence import evidence_weights
from regard.training.labelled_texts import LabelledFiles
from regard.training.questions import QuestionFiles

SHARE = 0.2  # of the words
SHUFFLES = 5
DRAWS = 2000  # of the bootstrap
LEAST_WORDS, MOST_WORDS = 5, 60  # longer texts are left out: erasing each word takes a pass

Record = dict[str, tuple[float, float]]  # comprehensiveness and sufficiency by ranking


@dataclass(frozen=True)
class SpanProbability:
    """The probability that an answer starts at one token and ends at another, among all tokens."""

    first: int
    last: int

    def __call__(self, output: Any) -> Float[Tensor, " batch"]:
        """The probability for each example of a batch."""
        logs = read_span_logits(output).double().log_softmax(dim=1)
        return (logs[:, self.first, 0] + logs[:, self.last, 1]).exp()


def measure_text(
    loaded: Any, text: str, generator: torch.Generator, most_words: int = MOST_WORDS
) -> Record | None:
    """Comprehensiveness and sufficiency of each ranking for one text; None for too few words."""
    eraser = Eraser(CleanRun.of(loaded.model, loaded.processor, text))
    if not LEAST_WORDS <= len(eraser.units) <= most_words:
        return None
    shown = evidence_weights(regard.classify(text, loaded))
    return _measure(eraser, shown, range(len(eraser.units)), generator)


def measure_question(
    loaded: Any,
    question: str,
    context: str,
    generator: torch.Generator,
    most_words: int = MOST_WORDS,
) -> Record | None:
    """The same for one question and its text, where the words of the answer are never erased."""
    result = regard.answer(question, context, loaded)
    if result.answer is None or len(result.windows) > 1 or result.evidence is None:
        return None
    answer = result.evidence.marked
    objective = SpanProbability(answer[0], answer[-1])
    run = CleanRun.of(loaded.model, loaded.processor, (question, context), objective=objective)
    eraser = Eraser(run)
    ranked = [number for number, unit in enumerate(eraser.units) if not {*unit} & {*answer}]
    if not LEAST_WORDS <= len(ranked) <= most_words:
        return None
    return _measure(eraser, evidence_weights(result), ranked, generator)


def _measure(
    eraser: Eraser, shown: Tensor, ranked: Sequence[int], generator: torch.Generator
) -> Record:
    """Comprehensiveness and sufficiency of each ranking of some of the words."""
    run = eraser.run
    rankings: dict[str, Tensor] = {
        "shown": eraser.sum_over_pieces(shown),
        "attention": eraser.sum_over_pieces(last_layer_attention(run)),
        "gradient": eraser.sum_over_pieces(token_gradients(run)),
        "occlusion": occlude_each(eraser).effect,
    }
    record = {name: _falls(eraser, values, ranked) for name, values in rankings.items()}
    count = len(eraser.units)
    shuffles = [
        _falls(eraser, torch.randperm(count, generator=generator).double(), ranked)
        for _ in range(SHUFFLES)
    ]
    record["random"] = (
        sum(each[0] for each in shuffles) / SHUFFLES,
        sum(each[1] for each in shuffles) / SHUFFLES,
    )
    return record


def _falls(eraser: Eraser, importance: Tensor, ranked: Sequence[int]) -> tuple[float, float]:
    """How much the probability falls without the first fifth of the words, and with it alone."""
    order = sorted(ranked, key=lambda number: -float(importance[number]))
    size = max(1, round(SHARE * len(order)))
    without, alone = eraser.values([order[:size], order[size:]]).tolist()
    return eraser.run.value - without, eraser.run.value - alone


def measure_file(loaded: Any, path: Path, most_words: int = MOST_WORDS) -> Iterator[Record]:
    """The records of a file's texts, or of its questions if the model is a reader."""
    generator = torch.Generator().manual_seed(0)
    if loaded.answers:
        records = (
            measure_question(loaded, each.question, each.context, generator, most_words)
            for each in QuestionFiles((path,))
        )
    else:
        records = (
            measure_text(loaded, each.text, generator, most_words)
            for each in LabelledFiles((path,))
        )
    return (record for record in records if record is not None)


def summarise(records: Sequence[Record]) -> dict[str, Any]:
    """The means over all texts, and the gains over random with their intervals."""
    names = list(records[0])
    falls = {name: [record[name][0] for record in records] for name in names}
    gains = {
        name: [own - chance for own, chance in zip(falls[name], falls["random"], strict=True)]
        for name in names
        if name != "random"
    }
    means = {name: sum(values) / len(values) for name, values in gains.items()}
    best = max(("gradient", "occlusion"), key=lambda name: means[name])
    return {
        "texts": len(records),
        "comprehensiveness": {name: sum(falls[name]) / len(records) for name in names},
        "sufficiency": {
            name: sum(record[name][1] for record in records) / len(records) for name in names
        },
        "gain": {name: [means[name], *_interval(gains[name])] for name in gains},
        "better": best,
        "share": [means["shown"] / means[best], *_share_interval(gains, best)],
    }


def _resamples(count: int) -> list[list[int]]:
    """Indices of texts, drawn with replacement."""
    generator = random.Random(0)
    return [[generator.randrange(count) for _ in range(count)] for _ in range(DRAWS)]


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap interval of a mean."""
    means = sorted(
        sum(values[index] for index in drawn) / len(values) for drawn in _resamples(len(values))
    )
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)]


def _share_interval(gains: Mapping[str, Sequence[float]], best: str) -> tuple[float, float]:
    """The bootstrap interval of the share that the shown highlight gains."""
    shares = sorted(
        sum(gains["shown"][index] for index in drawn) / sum(gains[best][index] for index in drawn)
        for drawn in _resamples(len(gains[best]))
    )
    return shares[int(0.025 * DRAWS)], shares[int(0.975 * DRAWS)]


def main() -> None:
    """Measure a model on the first texts of a file."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--most-words", type=int, default=MOST_WORDS)
    arguments = parser.parse_args()
    loaded = regard.load(arguments.model, device="cpu")
    records = measure_file(loaded, arguments.file, arguments.most_words)
    print(json.dumps(summarise(list(islice(records, arguments.count))), indent=1))


if __name__ == "__main__":
    main()
