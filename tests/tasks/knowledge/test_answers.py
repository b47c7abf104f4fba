"""Answers from a base come with source, passage, score and attention, or say that there is none."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.loading import LoadedModel
from regard.loading.abilities import abilities_of_native_model
from regard.models import Matcher, Tokenizer, Transformer
from regard.tasks.knowledge import answers

pytest.importorskip("bm25s")

TRIPLES = "姚明\t身高\t229厘米\n姚明\t出生地\t上海\n中国\t首都\t北京\n"
FAQ = "How do I reset my password?\tUse the form.\nWhere is my order?\tSee Orders.\n"
NOTES = "Ada wrote the first program.\n\nThe sea is blue today.\n"


@pytest.fixture(autouse=True)
def no_shipped_model(monkeypatch):
    monkeypatch.setattr(answers, "shipped_models", dict)


@pytest.fixture
def triples(tmp_path):
    (tmp_path / "facts.tsv").write_text(TRIPLES, encoding="utf-8")
    return tmp_path / "facts.tsv"


@pytest.fixture
def faq(tmp_path):
    (tmp_path / "faq.tsv").write_text(FAQ)
    return tmp_path / "faq.tsv"


def loaded(model, tokenizer) -> LoadedModel:
    model.tokenizer = tokenizer
    able = abilities_of_native_model(model)
    return LoadedModel("tiny", model.eval(), tokenizer, True, **able._asdict())


def a_matcher() -> LoadedModel:
    tokenizer = Tokenizer.train([TRIPLES, "多高？"] * 3, "character", 400)
    torch.manual_seed(2)
    pairs = tokenizer.with_template("$A </s>", "$A </s> $B:1 </s>:1")
    return loaded(Matcher(vocab=len(tokenizer), d_embed=12, hidden=14, d_match=6), pairs)


def an_encoder() -> LoadedModel:
    tokenizer = Tokenizer.train([FAQ] * 3, "bpe", 320)
    torch.manual_seed(2)
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=1, heads=3, d_ff=17, head="none"
    )
    return loaded(model, tokenizer)


def test_a_triple_answers_with_its_line_and_passage(triples):
    result = regard.answer("姚明的身高是多少", base=triples)
    assert result.answer == "229厘米"
    assert (result.source, result.passage) == ("facts.tsv:1", "姚明 | 身高 | 229厘米")
    assert result.to_json()["passage"] == result.passage
    assert result.score > 0.5


@pytest.mark.parametrize("question", ["姚明喜欢什么音乐", "which planet?", "?"])
def test_a_base_without_the_answer_says_so(triples, question):
    result = regard.answer(question, base=triples)
    assert result.answer is None
    assert result.score >= 0.5


def test_the_best_answer_is_given_if_one_is_demanded(triples):
    result = regard.answer("姚明喜欢什么音乐", base=triples, no_answer=False)
    assert result.answer in ("229厘米", "上海")


def test_a_matcher_shows_which_characters_of_the_question_a_relation_attends_to(triples):
    result = regard.answer("姚明有多高", base=triples, model=a_matcher(), no_answer=False)
    (shown,) = result.trace.maps
    assert result.evidence.site == shown.site
    tokens = result.trace.streams[shown.columns.stream]
    rows = [tokens.texts[shown.rows.positions[row]] for row in result.evidence.rows]
    assert "".join(rows) == result.passage.split(" | ")[1]
    assert result.inputs["read"] == "〓有多高"
    assert "〓" in str(regard.view(result))


def test_an_answer_that_shares_terms_with_the_question_is_found(faq):
    result = regard.answer("I forgot my password", base=faq)
    assert (result.answer, result.source, result.model) == ("Use the form.", "faq.tsv:1", "BM25")
    assert regard.answer("cheese", base=faq).answer is None


def test_an_encoder_ranks_answers_and_shows_the_attention_of_the_question(faq):
    result = regard.answer("my password?", base=faq, model=an_encoder())
    assert result.model == "tiny"
    shown = result.trace[result.evidence.site]
    torch.testing.assert_close(shown.weights().sum(-1), torch.ones(1, len(shown.rows)))
    assert shown.rows.stream == "question"
    assert "password" in str(regard.view(result))


def test_an_encoder_finds_entries_of_a_small_base_without_a_common_term(faq):
    result = regard.answer("login forgotten", base=faq, model=an_encoder(), no_answer=False)
    assert {result.answer, result.alternatives[0].text} == {"Use the form.", "See Orders."}


def test_texts_are_read_by_a_question_answering_model(tmp_path):
    (tmp_path / "notes.md").write_text(NOTES)
    tokenizer = Tokenizer.train([NOTES] * 3, "bpe", 320)
    settings = {"d_model": 12, "layers": 1, "heads": 3, "d_ff": 17, "max_positions": 64}
    model = Transformer(kind="encoder", vocab=len(tokenizer), head="spans", **settings)
    result = regard.answer(
        "Who wrote the program?", base=tmp_path, model=loaded(model, tokenizer), no_answer=False
    )
    assert result.source == "notes.md:1"
    assert result.answer in result.passage


def test_several_questions_have_several_results(triples):
    results = regard.answer(["姚明的身高", "中国的首都"], base=triples, trace=False)
    assert [result.answer for result in results] == ["229厘米", "北京"]


def test_a_text_or_a_base_is_given_but_not_both(triples):
    with pytest.raises(InputError, match="got none"):
        regard.answer("Who?")
    with pytest.raises(InputError, match="got both"):
        regard.answer("Who?", "Ada.", base=triples)


@pytest.mark.parametrize(
    ("question", "message"), [(" ", "is empty"), ("x" * 2001, "at most 2,000")]
)
def test_a_question_without_text_or_too_long_is_refused(triples, question, message):
    with pytest.raises(InputError, match=message):
        regard.answer(question, base=triples)


def test_a_model_of_another_kind_is_refused(triples, faq):
    with pytest.raises(InputError, match="matches no relations"):
        regard.answer("姚明", base=triples, model=an_encoder())
    with pytest.raises(InputError, match="encodes no texts"):
        regard.answer("password", base=faq, model="en-zh-rnn")
