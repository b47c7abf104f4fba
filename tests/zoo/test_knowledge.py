"""The shipped matcher answers from triples in Chinese, and says when a base has no answer."""

import pytest

import regard
from regard.models import from_pretrained, shipped_models

pytest.importorskip("bm25s")

TRIPLES = (
    "姚明\t身高\t229厘米\n姚明\t出生地\t上海\n姚明\t妻子\t叶莉\n"
    "中国\t首都\t北京\n红楼梦\t作者\t曹雪芹\n红楼梦\t别名\t石头记\n"
)


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text(TRIPLES, encoding="utf-8")
    return path


def test_the_matcher_is_shipped():
    assert "knowledge-zh" in shipped_models()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("请问姚明有多高？", "229厘米"),
        ("姚明是在哪里出生的？", "上海"),
        ("姚明的老婆是谁", "叶莉"),
        ("《红楼梦》是谁写的？", "曹雪芹"),
        ("红楼梦还叫什么名字", "石头记"),
    ],
)
def test_questions_in_other_words_are_answered(facts, question, answer):
    result = regard.answer(question, base=facts, trace=False)
    assert (result.answer, result.model) == (answer, "knowledge-zh")


@pytest.mark.parametrize("question", ["姚明的体重是多少？", "中国的人口有多少？"])
def test_a_small_base_without_the_answer_says_so(facts, question):
    assert regard.answer(question, base=facts, trace=False).answer is None


def test_the_relation_attends_to_the_question(facts):
    result = regard.answer("请问姚明的出生地是哪里？", base=facts)
    shown = result.trace[result.evidence.site]
    tokens = result.trace.streams[shown.columns.stream].texts
    weights = shown.weights().mean(0)[list(result.evidence.rows)].mean(0)
    columns = [tokens[place] for place in shown.columns.positions]
    assert columns[int(weights.argmax())] in "出生地"


def test_the_matcher_comes_with_its_background_and_weights():
    config = from_pretrained("knowledge-zh").config
    assert len(config.background) == 1000
    assert len(config.evidence_weights) + 1 == len(config.answer_weights)
