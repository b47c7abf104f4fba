"""Triples are ranked by a matcher as if the base had its background relations too."""

import pytest
import torch

from regard.models import Matcher, Tokenizer
from regard.tasks.knowledge.base import open_base
from regard.tasks.knowledge.triples import EVIDENCE, TripleBase

pytest.importorskip("bm25s")

TRIPLES = "姚明\t身高\t229厘米\n姚明\t出生地\t上海\n中国\t首都\t北京\n"
LIKELY = EVIDENCE.index("log-probability")


@pytest.fixture
def base(tmp_path):
    (tmp_path / "facts.tsv").write_text(TRIPLES, encoding="utf-8")
    return open_base(tmp_path / "facts.tsv")


def rank(base, background=()):
    tokenizer = Tokenizer.train([TRIPLES, "多高喜欢音乐？"] * 3, "character", 400)
    torch.manual_seed(2)
    model = Matcher(
        vocab=len(tokenizer), d_embed=12, hidden=14, d_match=6, background=background
    ).eval()
    model.tokenizer = tokenizer.with_template("$A </s>", "$A </s> $B:1 </s>:1")
    return TripleBase(base.base, base.index, model).rank("姚明有多高")


def test_the_probabilities_of_the_relations_of_a_base_are_one_together(base):
    ranked = rank(base)
    own = sum(torch.tensor(each.evidence[LIKELY]).exp() for each in ranked)
    assert {each.relation for each in ranked} == {"身高", "出生地"}
    assert 0 < own < 1  # the rest is that of 首都


def test_a_background_takes_probability_and_adds_no_triple(base):
    plain = {each.relation: each.evidence for each in rank(base)}
    ranked = {each.relation: each.evidence for each in rank(base, ("身高", "喜欢", "音乐"))}
    assert ranked.keys() == plain.keys()
    for relation, evidence in ranked.items():
        assert evidence[0] == pytest.approx(plain[relation][0], abs=1e-5)
        assert evidence[LIKELY] < plain[relation][LIKELY] - 0.1


def test_a_background_that_the_base_has_changes_nothing(base):
    again = [each.evidence for each in rank(base, ("首都", "身高"))]
    for one, other in zip(rank(base), again, strict=True):
        assert one.evidence == pytest.approx(other, abs=1e-5)
