"""Answers from triples: which subject a question is about, and which relation it asks for.

For 姚明有多高 (how tall is Yao Ming) and a base with (姚明, 身高, 229厘米):

1. `linking` finds the subjects that the question names: 姚明, and 姚 if the base has it.
2. The matcher reads the question with the name masked, 〓有多高, against all relations of the base
   and the matcher's background at once, which gives 身高 a score, and a probability among them.
3. Each triple of a candidate subject has evidence: the score and log-probability of its relation,
   and how well its subject was named. The weighted sum ranks the triples.
4. Whether the best one is an answer at all is a logistic regression on its evidence: a relation
   that is far less likely than another one of the base is no answer.

The weights of steps 3 and 4 are fitted on held-out questions and stored with the matcher.
"""

import math
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.models.matching import EncodedTexts, Matcher
from regard.tasks.knowledge.entries import Base, Entry
from regard.tasks.knowledge.index import TermIndex
from regard.tasks.knowledge.linking import Linker, Mention
from regard.tasks.knowledge.normalise import mask_span, normalise_entry
from regard.tasks.knowledge.terms import character_terms, terms_of

__all__ = ["EVIDENCE", "MatcherScores", "OverlapScores", "RankedTriple", "TripleBase"]

EVIDENCE = ("match", "log-probability", "length", "covered", "exact", "inside", "alias")
# Without a trained matcher. The weights of the ranking were fitted on the dev questions of NLPCC
# 2016 KBQA; those of "no answer" were chosen so that a relation without a common term is none.
OVERLAP_WEIGHTS = (0.77, 0.89, 2.57, 1.17, 3.26, -0.63, -0.34)
OVERLAP_NO_ANSWER = (1.0, 0.5, 0.0, 4.0, 0.5, 0.0, 0.0, -5.0)
_LONGEST = 64  # tokens of a question or relation that are matched
_SUBJECTS = 24  # candidates whose triples are ranked
_MASKS = 3  # different places of names in a question that are matched
_OVERLAP_SHARPNESS = 6.0  # of shares of terms, which lie between 0 and 1


class RankedTriple(NamedTuple):
    """A triple, the question as the matcher read it, the evidence and its weighted sum."""

    entry: Entry
    masked: str
    evidence: tuple[float, ...]
    score: float

    @property
    def relation(self) -> str:
        """The relation as the matcher read it."""
        return normalise_entry(self.entry.texts[1])


class MatcherScores:
    """The scores of a trained matcher, which has encoded all relations of the base once.

    The relations of its background follow those of the base.
    """

    def __init__(self, model: Matcher, relations: list[str]) -> None:
        if model.tokenizer is None:
            raise InputError("a matcher needs its tokenizer to read a base; load it from a folder")
        self.weights = model.config.evidence_weights or OVERLAP_WEIGHTS
        self.no_answer = model.config.answer_weights or OVERLAP_NO_ANSWER
        self._model = model
        known = dict.fromkeys([*relations, *model.config.background])
        self._relations = self._encode(list(known))

    @torch.no_grad()
    def score(self, questions: list[str]) -> Float[Tensor, "question relation"]:
        """The scores of all relations."""
        return self._model.match(self._encode(questions), self._relations).float().cpu()

    @torch.no_grad()
    def _encode(self, texts: list[str]) -> EncodedTexts:
        """The texts as the matcher encodes them."""
        tokenizer: Any = self._model.tokenizer
        device = next(self._model.parameters()).device
        ids = [torch.tensor(row[:_LONGEST]) for row in tokenizer(texts)["input_ids"]]
        padded = torch.nn.utils.rnn.pad_sequence(
            ids, batch_first=True, padding_value=tokenizer.pad_token_id
        )
        lengths = torch.tensor([len(row) for row in ids])
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        return self._model.encode(padded.to(device), attention_mask=mask.to(device))


class OverlapScores:
    """The share of a relation's terms that the question has: what can be known without training."""

    weights, no_answer = OVERLAP_WEIGHTS, OVERLAP_NO_ANSWER

    def __init__(self, relations: list[str]) -> None:
        self._by_term: dict[str, list[int]] = defaultdict(list)
        sizes = []
        for number, relation in enumerate(relations):
            terms = set(terms_of(relation))
            sizes.append(len(terms) or 1)
            for term in terms:
                self._by_term[term].append(number)
        self._sizes = torch.tensor(sizes)

    def score(self, questions: list[str]) -> Float[Tensor, "question relation"]:
        """The scores of all relations."""
        shared = torch.zeros(len(questions), len(self._sizes))
        for row, question in enumerate(questions):
            for term in set(terms_of(question)) & self._by_term.keys():
                shared[row, self._by_term[term]] += 1
        return _OVERLAP_SHARPNESS * shared / self._sizes


class TripleBase:
    """The triples of a base by subject, and what finds subjects and scores relations."""

    def __init__(self, base: Base, names: TermIndex, model: Matcher | None) -> None:
        self.by_subject: dict[str, list[Entry]] = defaultdict(list)
        for entry in base.entries:
            self.by_subject[entry.texts[0]].append(entry)
        self.linker = Linker(self.by_subject, names)
        relations = list(dict.fromkeys(normalise_entry(each.texts[1]) for each in base.entries))
        self.relations = {relation: number for number, relation in enumerate(relations)}
        self.scores = OverlapScores(relations) if model is None else MatcherScores(model, relations)

    @staticmethod
    def index_terms(base: Base) -> list[list[str]]:
        """The terms by which the names of subjects are found, in their order in the base."""
        subjects = dict.fromkeys(entry.texts[0] for entry in base.entries)
        return [character_terms(subject) for subject in subjects]

    def rank(self, question: str) -> list[RankedTriple]:
        """The triples that may answer a question, best first."""
        mentions = self.linker.mentions(question)[:_SUBJECTS]
        spans = list(dict.fromkeys(mention.span for mention in mentions))[:_MASKS]
        if not spans:
            return []
        masked = {span: mask_span(question, span) for span in spans}
        scores = dict(zip(spans, self.scores.score(list(masked.values())), strict=True))
        ranked = [
            self._weigh(mention, entry, masked[mention.span], scores[mention.span])
            for mention in mentions
            if mention.span in scores
            for entry in self.by_subject[mention.subject]
        ]
        return sorted(ranked, key=lambda each: -each.score)

    def _weigh(
        self, mention: Mention, entry: Entry, masked: str, scores: Float[Tensor, " relation"]
    ) -> RankedTriple:
        """A triple with its evidence and the weighted sum of it."""
        score = scores[self.relations[normalise_entry(entry.texts[1])]]
        evidence = (
            float(score),
            float(score - scores.logsumexp(0)),
            math.log(mention.length),
            mention.covered,
            float(mention.exact),
            float(mention.inside),
            float(mention.alias),
        )
        total = sum(w * x for w, x in zip(self.scores.weights, evidence, strict=True))
        return RankedTriple(entry, masked, evidence, total)

    def probability(self, best: RankedTriple) -> float:
        """The probability that the best triple is an answer."""
        *weights, bias = self.scores.no_answer
        logit = bias + sum(w * x for w, x in zip(weights, best.evidence, strict=True))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))
