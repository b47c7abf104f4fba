"""Fit the evidence weights of a matcher on held-out questions, and measure answers from triples.

    python recipes/knowledge/measure.py fit MODEL NLPCC-KBQA-FOLDER OUT-MODEL [LIMIT]
    python recipes/knowledge/measure.py test MODEL NLPCC-KBQA-FOLDER [LIMIT]

The first reads the dev split, the second the test split. MODEL is a folder or "overlap", which
measures what the ranking does without a matcher.
"""

import gzip
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.models import from_pretrained
from regard.tasks.knowledge.base import open_base
from regard.tasks.knowledge.linking import Mention
from regard.tasks.knowledge.normalise import mask_span, normalise_entry
from regard.tasks.knowledge.triples import EVIDENCE, RankedTriple, TripleBase

LOST = 0.02  # of all questions, that may be lost by saying that the base has no answer
BACKGROUND = 1000  # relations, the most frequent ones, that the model takes along
MANY = 3  # triples of a subject from which on choosing the relation is hard


class Asked(NamedTuple):
    """A question with its triple, what the base ranked, and the same without that triple."""

    row: dict[str, Any]
    ranked: list[RankedTriple]
    without: list[RankedTriple]


def is_gold(triple: RankedTriple, row: dict[str, Any]) -> bool:
    """True if a triple is the one that a question asks for."""
    return triple.entry.texts == (
        row["subject"].strip(),
        row["relation"].strip(),
        row["object"].strip(),
    )


def ask_all(triples: TripleBase, rows: list[dict[str, Any]]) -> list[Asked]:
    """What the base ranks for each question."""
    asked = []
    for row in rows:
        ranked = triples.rank(row["question"])
        asked.append(Asked(row, ranked, [each for each in ranked if not is_gold(each, row)]))
    return asked


def fit_ranking(asked: list[Asked]) -> list[float]:
    """The weights under which the gold triple is likeliest among those that were ranked."""
    known = [each for each in asked if any(is_gold(triple, each.row) for triple in each.ranked)]
    weights = torch.zeros(len(EVIDENCE), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")
    tables = [torch.tensor([triple.evidence for triple in each.ranked]) for each in known]
    gold = [next(n for n, t in enumerate(each.ranked) if is_gold(t, each.row)) for each in known]

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        rows = [(table @ weights).log_softmax(0)[n] for table, n in zip(tables, gold, strict=True)]
        value = -torch.stack(rows).mean() + 1e-3 * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return weights.tolist()


def fit_no_answer(asked: list[Asked], weights: list[float]) -> list[float]:
    """The weights and bias of whether the best triple answers; the bias keeps the answers found."""
    rows, labels, right = [], [], []
    for each in asked:
        for ranked, has_answer in ((each.ranked, True), (each.without, False)):
            if ranked:
                best = max(ranked, key=lambda triple: weigh(triple, weights))
                correct = best.entry.texts[2] == each.row["object"].strip()
                rows.append((*best.evidence, 1.0))
                labels.append(float(correct))
                right.append(correct and has_answer)
    table, target = torch.tensor(rows), torch.tensor(labels)
    fitted = torch.zeros(table.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([fitted], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(table @ fitted, target)
        value = value + 1e-3 * fitted.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    *slopes, bias = fitted.tolist()
    logits = (table @ fitted)[torch.tensor(right)].sort().values
    bias -= float(logits[int(LOST * len(asked))].detach())
    return [*slopes, bias]


def weigh(triple: RankedTriple, weights: Any) -> float:
    """The weighted sum of a triple's evidence."""
    return sum(w * x for w, x in zip(weights, triple.evidence, strict=True))


def report(triples: TripleBase, asked: list[Asked]) -> dict[str, float]:
    """The numbers of the card."""
    counts = Counter(entry.texts[0] for own in triples.by_subject.values() for entry in own)
    right, answered, many, refused = [], [], [], 0
    for each in asked:
        correct = bool(each.ranked) and each.ranked[0].entry.texts[2] == each.row["object"].strip()
        sure = bool(each.ranked) and triples.probability(each.ranked[0]) >= 0.5
        right.append(correct)
        answered.append(correct and sure)
        if counts[each.row["subject"].strip()] >= MANY:
            many.append(correct and sure)
        refused += not each.without or triples.probability(each.without[0]) < 0.5
    size = len(asked)
    return {
        "questions": size,
        "right, an answer always given": sum(right) / size,
        "right": sum(answered) / size,
        f"right, subject of {MANY} triples or more": sum(many) / len(many),
        "questions about these": len(many),
        "no answer, gold triple deleted": refused / size,
        "relation among all": relation_among_all(triples, [each.row for each in asked]),
    }


def relation_among_all(triples: TripleBase, rows: list[dict[str, Any]]) -> float:
    """How often the right relation is the first of all, the question's subject masked."""
    names = Counter(entry.texts[1] for own in triples.by_subject.values() for entry in own)
    # relations that only differ in blanks are one to the matcher: the most frequent is meant
    spelling: dict[str, str] = {}
    for name, _ in names.most_common():
        spelling.setdefault(normalise_entry(name), name)
    relations = list(triples.relations)
    right = 0
    for row in rows:
        mentions = triples.linker.mentions(row["question"])
        own: Mention | None = next((m for m in mentions if m.subject == row["subject"]), None)
        masked = mask_span(row["question"], None if own is None else own.span)
        best = int(triples.scores.score([masked])[0].argmax())
        right += spelling[relations[best]] == row["relation"].strip()
    return right / len(rows)


def frequent_relations(triples: TripleBase) -> tuple[str, ...]:
    """The relations of most triples of a base."""
    entries = (entry for own in triples.by_subject.values() for entry in own)
    names = Counter(normalise_entry(entry.texts[1]) for entry in entries)
    return tuple(name for name, _ in names.most_common(BACKGROUND))


def main(action: str, name: str, folder: Path, out: str | None, limit: int | None) -> None:
    """Fit or measure."""
    begin = time.monotonic()
    base = open_base(folder / "kb.tsv.gz")
    model = None if name == "overlap" else from_pretrained(name)
    triples = TripleBase(base.base, base.index, model)
    print(f"base opened in {time.monotonic() - begin:.1f} s")
    split = "dev" if action == "fit" else "test"
    with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:limit]
    begin = time.monotonic()
    asked = ask_all(triples, rows)
    print(f"{(time.monotonic() - begin) / len(rows):.3f} s a question")
    if action == "fit":
        weights = fit_ranking(asked)
        missing = fit_no_answer(asked, weights)
        triples.scores.weights, triples.scores.no_answer = tuple(weights), tuple(missing)
        print(dict(zip(EVIDENCE, weights, strict=True)), missing)
        resorted = [
            each._replace(
                ranked=sorted(each.ranked, key=lambda t: -weigh(t, weights)),
                without=sorted(each.without, key=lambda t: -weigh(t, weights)),
            )
            for each in asked
        ]
        asked = resorted
        if out is not None and model is not None:
            model.config = model.config.replace(
                evidence_weights=tuple(round(w, 4) for w in weights),
                answer_weights=tuple(round(w, 4) for w in missing),
                background=frequent_relations(triples),
            )
            model.save_pretrained(out, stored="int8")
    print(json.dumps(report(triples, asked), indent=1))


if __name__ == "__main__":
    action, name, folder, *rest = sys.argv[1:]
    out = rest.pop(0) if action == "fit" and rest else None
    main(action, name, Path(folder), out, int(rest[0]) if rest else None)
