"""Answers from a knowledge base: the best entries of its kind, each read by the model for it.

triples      the object of the triple whose subject and relation match the question (`triples`)
questions    the answer of an entry that BM25 found and a sentence encoder puts first
answers      the same, for answers without questions
passages     the words that a reader finds in the best passages
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.loading import LoadedModel, load
from regard.models import shipped_models
from regard.models.matching import Matcher
from regard.models.nearness import align
from regard.tasks.evidence import add_alignment, match_evidence
from regard.tasks.knowledge.base import KnowledgeBase
from regard.tasks.knowledge.sentences import LONGEST, SentenceRanker
from regard.tasks.knowledge.terms import terms_of
from regard.tasks.knowledge.triples import RankedTriple, TripleBase
from regard.tasks.models import AnyModel
from regard.tasks.runs import run_model
from regard.tasks.windows import check_text
from regard.types import Candidate, Evidence, InputWindow, TaskResult, Trace
from regard.unicode import HAN_CHARACTER

__all__ = ["BaseAnswerer"]

# The shipped models that read a base, by its kind; those that this version lacks are not used.
MATCHER, SENTENCES = "knowledge-zh", "trunk-en"
BM25 = "BM25"  # names what ranked the entries where no model did
_ANSWERS = 5  # of a result, besides "no answer"
RANKED = 24  # entries that a sentence encoder ranks
_PASSAGES = 3  # that a reader reads
_LONGEST_QUESTION = 2000  # characters
# Entries are ranked by nearness + _BM25_SHARE x BM25, and the probability that one answers the
# question is a logistic function of its nearness. Fitted on 300 held-out questions of InsuranceQA.
_BM25_SHARE = 0.05
_LEAST_NEAR, _NEAR_SHARPNESS = 1.1, 8.0
# Without an encoder: the share of the question's terms that the entry has.
_SHARED, _SHARED_SHARPNESS = 0.4, 8.0

Reader = Callable[[str, str, bool], TaskResult]


class BaseAnswerer:
    """Answers questions from one base by the model of its kind, which is loaded once."""

    def __init__(self, base: KnowledgeBase, model: AnyModel | None, device: str | None) -> None:
        self._base = base
        self._loaded = _model_for(base, model, device)
        self._triples: TripleBase | None = None
        self._ranker: SentenceRanker | None = None
        if base.base.kind == "triples":
            matcher = None if self._loaded is None else self._loaded.model
            self._triples = TripleBase(base.base, base.index, matcher)
        elif self._loaded is not None:
            self._ranker = SentenceRanker(self._loaded)

    def answer(self, question: str, read: Reader, *, no_answer: bool, trace: bool) -> TaskResult:
        """The answer to a question; `read` finds it in a passage."""
        question = check_text(question, "a question").strip()
        if len(question) > _LONGEST_QUESTION:
            raise InputError(
                f"a question to a base has at most {_LONGEST_QUESTION:,} characters, got "
                f"{len(question):,}; shorten it"
            )
        if self._triples is not None:
            result = self._from_triples(self._triples, question, trace=trace)
        elif self._base.base.kind == "passages":
            result = self._from_passages(question, read, trace=trace)
        else:
            result = self._from_entries(question, trace=trace)
        return result if no_answer else _must_answer(result)

    def _from_triples(self, triples: TripleBase, question: str, *, trace: bool) -> TaskResult:
        """The objects of the best triples, and the attention between question and relation."""
        ranked = _distinct(triples.rank(question))
        if not ranked:
            return self._nothing(question)
        best = ranked[0]
        probability = triples.probability(best)
        candidates = [
            Candidate(each.entry.texts[2], probability * math.exp(each.score - best.score))
            for each in ranked[:_ANSWERS]
        ]
        shown, evidence = self._watch_pair(best) if trace else (None, None)
        return TaskResult(
            "answering",
            self._name,
            {"question": question, "read": best.masked},
            _with_none(candidates, 1 - probability),
            () if shown is None else (InputWindow(0, len(question), shown),),
            evidence=evidence,
            source=best.entry.source,
            passage=best.entry.passage,
        )

    def _watch_pair(self, best: RankedTriple) -> tuple[Trace | None, Evidence | None]:
        """The trace of the matcher on the question and the relation of the best triple."""
        if self._loaded is None:
            return None, None
        pair = (best.masked, best.relation)
        (run,) = run_model(self._loaded, [pair], lambda output: output, trace=True)
        return run.trace, match_evidence(run.trace, run.tokens, len(best.masked))

    def _from_entries(self, question: str, *, trace: bool) -> TaskResult:
        """The answers of the best entries, and the attention of the encoder on the first."""
        found = self._base.search(question, RANKED if self._ranker else _ANSWERS)
        if self._ranker is not None and len(self._base.base.entries) <= RANKED:
            # a small base is ranked whole: an entry may answer without a term of the question
            scores = dict(found)
            found = [(number, scores.get(number, 0.0)) for number in range(self._base.index.count)]
        if not found:
            return self._nothing(question)
        entries = [self._base.entry(number) for number, _ in found]
        texts = [" ".join(entry.texts) for entry in entries]
        if self._ranker is None:
            scores = [score for _, score in found]
            logits = [_SHARED_SHARPNESS * (_shared(question, text) - _SHARED) for text in texts]
        else:
            near = self._ranker.nearness(question, texts)
            scores = [own + _BM25_SHARE * found[n][1] for n, own in enumerate(near)]
            logits = [_NEAR_SHARPNESS * (each - _LEAST_NEAR) for each in near]
        order = sorted(range(len(entries)), key=lambda number: -scores[number])[:_ANSWERS]
        probabilities = [1 / (1 + math.exp(-logits[number])) for number in order]
        # an answer that is ranked after another one is no likelier than that
        for place in range(1, len(order)):
            probabilities[place] = min(probabilities[place - 1 : place + 1])
        candidates = [
            Candidate(entries[number].texts[-1], probability)
            for number, probability in zip(order, probabilities, strict=True)
        ]
        best = entries[order[0]]
        window, evidence = self._watch_texts(question, texts[order[0]]) if trace else ((), None)
        return TaskResult(
            "answering",
            self._name,
            {"question": question},
            _with_none(candidates, 1 - probabilities[0]),
            window,
            evidence=evidence,
            source=best.source,
            passage=best.passage,
        )

    def _watch_texts(
        self, question: str, text: str
    ) -> tuple[tuple[InputWindow, ...], Evidence | None]:
        """The trace of the encoder on an entry, with the attention of the question to it."""
        if self._loaded is None or self._ranker is None:
            return (), None
        asked, entry = self._ranker.encode([question, text])
        short = _first_tokens(self._loaded, [question, text])
        runs = run_model(self._loaded, short, _states, trace=True)
        trace = add_alignment(runs[1].trace, runs[0].tokens, align(asked, entry)[0][0, 0])
        evidence = None if trace is None else Evidence(trace.maps[-1].site)
        return (InputWindow(0, len(short[1]), trace),), evidence

    def _from_passages(self, question: str, read: Reader, *, trace: bool) -> TaskResult:
        """What a reader finds in the best passages: the likeliest answer, with its passage."""
        found = self._base.search(question, _PASSAGES)
        if not found:
            return self._nothing(question)
        entries = [self._base.entry(number) for number, _ in found]
        results = [read(question, entry.passage, False) for entry in entries]
        first = max(range(len(results)), key=lambda number: _best_score(results[number]))
        result = read(question, entries[first].passage, True) if trace else results[first]
        return replace(result, source=entries[first].source, passage=entries[first].passage)

    def _nothing(self, question: str) -> TaskResult:
        """The result for a question of which the base has no term."""
        return TaskResult("answering", self._name, {"question": question}, (Candidate(None, 1.0),))

    @property
    def _name(self) -> str:
        return BM25 if self._loaded is None else self._loaded.name


def _model_for(base: KnowledgeBase, model: AnyModel | None, device: str | None) -> Any:
    """The model that ranks the entries of a base: the one that is named, or a shipped one."""
    kind = base.base.kind
    if kind == "passages":
        return None  # a reader answers, which the caller has
    if model is None:
        chinese = _is_chinese(base)
        name = MATCHER if kind == "triples" else SENTENCES
        if chinese is not (kind == "triples") or name not in shipped_models():
            return None
        return _load_once(name, device)
    loaded = model if isinstance(model, LoadedModel) else load(model, device=device)
    if kind == "triples" and not isinstance(loaded.model, Matcher):
        raise InputError(
            f"{loaded.name} ({type(loaded.model).__name__}) matches no relations; for a base of "
            "triples name a Matcher"
        )
    if kind != "triples" and (loaded.translates or loaded.continues or loaded.sees or loaded.hears):
        raise InputError(
            f"{loaded.name} ({type(loaded.model).__name__}) encodes no texts; for a base of "
            "answers name a sentence encoder"
        )
    return loaded


@lru_cache(maxsize=4)
def _load_once(name: str | Path, device: str | None) -> LoadedModel:
    """A shipped model, loaded once for all questions."""
    return load(name, device=device)


def _first_tokens(loaded: LoadedModel, texts: Sequence[str]) -> list[str]:
    """The characters of the tokens that a ranker reads of each text."""
    tokenizer: Any = loaded.tokenizer
    encoding = tokenizer(
        list(texts), truncation=True, max_length=LONGEST, return_offsets_mapping=True
    )
    ends = [max(stop for _, stop in offsets) for offsets in encoding["offset_mapping"]]
    return [text[:end] for text, end in zip(texts, ends, strict=True)]


def _is_chinese(base: KnowledgeBase) -> bool:
    """True if most of the first entries have Chinese characters."""
    sample = base.base.entries[:200]
    return 2 * sum(bool(HAN_CHARACTER.search(each.passage)) for each in sample) > len(sample)


def _distinct(ranked: Sequence[RankedTriple]) -> list[RankedTriple]:
    """The triples whose objects differ, each at its best place."""
    best: dict[str, RankedTriple] = {}
    for each in ranked:
        best.setdefault(each.entry.texts[2], each)
    return list(best.values())


def _with_none(candidates: list[Candidate], score: float) -> tuple[Candidate, ...]:
    """The candidates with "no answer" at the place of its score."""
    place = sum(each.score >= score for each in candidates)
    return (*candidates[:place], Candidate(None, score), *candidates[place:])


def _must_answer(result: TaskResult) -> TaskResult:
    """The result without "no answer", unless there is nothing else."""
    answers = tuple(each for each in result.candidates if each.text is not None)
    return replace(result, candidates=answers or result.candidates)


def _best_score(result: TaskResult) -> float:
    """The score of a result's answer; of one without an answer, less than any score."""
    return result.score if result.answer is not None else -result.score


def _shared(question: str, text: str) -> float:
    """The share of the question's terms that a text has."""
    asked = set(terms_of(question))
    return len(asked & set(terms_of(text))) / len(asked) if asked else 0.0


def _states(output: Any) -> Any:
    """The states that an encoder returned."""
    return getattr(output, "last_hidden_state", output)
