"""What the highlight of a classifier may claim: whether the words that it shades matter.

    python -m bench.highlights sentiment-en test.tsv --count 300

Of each text (`text<TAB>label`) the fifth of the words that a ranking puts first is erased, and then
kept alone. The fall of the probability of the predicted class is comprehensiveness (high is good)
and sufficiency (low is good; DeYoung et al. 2020), at 20% of the words. The rankings are the shown
highlight (`TaskResult.evidence`), attention of the last map, gradient x input and occlusion;
`random` is the mean of shuffles. Printed as JSON: means over the texts, the gain in
comprehensiveness over random with a bootstrap interval of 95%, and the share of the better of
gradient x input and occlusion that the shown highlight gains.
"""

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import regard
from regard.attribution.attention import last_layer_attention
from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import Eraser
from regard.attribution.gradients import token_gradients
from regard.attribution.occlusion import occlude_each
from regard.tasks.evidence import evidence_weights
from regard.training.labelled_texts import LabelledFiles

SHARE = 0.2  # of the words
SHUFFLES = 5
DRAWS = 2000  # of the bootstrap
MOST_WORDS = 60  # longer texts are left out: erasing each word takes a pass

Record = dict[str, tuple[float, float]]  # comprehensiveness and sufficiency by ranking


def measure_text(loaded: Any, text: str, generator: torch.Generator) -> Record | None:
    """Comprehensiveness and sufficiency of each ranking for one text; None for too few words."""
    run = CleanRun.of(loaded.model, loaded.processor, text)
    eraser = Eraser(run)
    count = len(eraser.units)
    if not 5 <= count <= MOST_WORDS:
        return None
    shown = evidence_weights(regard.classify(text, loaded))
    rankings: dict[str, Tensor] = {
        "shown": eraser.sum_over_pieces(shown),
        "attention": eraser.sum_over_pieces(last_layer_attention(run)),
        "gradient": eraser.sum_over_pieces(token_gradients(run)),
        "occlusion": occlude_each(eraser).effect,
    }
    record = {name: _falls(eraser, values) for name, values in rankings.items()}
    shuffles = [
        _falls(eraser, torch.randperm(count, generator=generator).double()) for _ in range(SHUFFLES)
    ]
    record["random"] = (
        sum(each[0] for each in shuffles) / SHUFFLES,
        sum(each[1] for each in shuffles) / SHUFFLES,
    )
    return record


def _falls(eraser: Eraser, importance: Tensor) -> tuple[float, float]:
    """How much the probability falls without the first fifth of the words, and with it alone."""
    order = importance.argsort(descending=True, stable=True).tolist()
    size = max(1, round(SHARE * len(order)))
    without, alone = eraser.values([order[:size], order[size:]]).tolist()
    return eraser.run.value - without, eraser.run.value - alone


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
    arguments = parser.parse_args()
    loaded = regard.load(arguments.model, device="cpu")
    generator, records = torch.Generator().manual_seed(0), list[Record]()
    for line in LabelledFiles((arguments.file,)):
        record = measure_text(loaded, line.text, generator)
        if record is not None:
            records.append(record)
        if len(records) == arguments.count:
            break
    print(json.dumps(summarise(records), indent=1))


if __name__ == "__main__":
    main()
