"""`answer` finds the span that the model points to, wherever in the text it stands."""

import pytest
import torch

import regard
from regard.errors import InputError
from tasks.tiny_models import SIZES, a_known_reader, an_answerer, hf
from tracing import readers

TEXT = "I love playing chess, and playing football."


def answer(*inputs, **options):
    """Without a trace: a reader whose answers are known attends to nothing."""
    return regard.answer(*inputs, trace=False, **options)


def test_the_answer_is_the_span_of_the_likeliest_start_and_end():
    reader = a_known_reader({"playing": 5.0, "love": 2.0}, {"chess": 5.0, "love": 2.0})
    result = answer("love", TEXT, reader)
    assert result.answer == "playing chess"
    assert result.span == (7, 20)
    assert [each.text for each in result.candidates][:2] == ["playing chess", "love"]
    assert result.inputs == {"question": "love", "context": TEXT}


def test_the_score_is_the_product_of_the_probabilities_of_start_and_end():
    reader = a_known_reader({"love": 2.0}, {"love": 2.0}, 61)
    result = answer("chess", "I love you", reader)
    # three tokens and [CLS], all at -9 but one
    probability = float(torch.tensor([2.0, -9.0, -9.0, -9.0]).softmax(0)[0]) ** 2
    assert result.score == pytest.approx(probability, abs=1e-6)


def test_a_question_is_never_the_answer():
    reader = a_known_reader({"love": 9.0}, {"love": 9.0})
    result = answer("I love you", "you and I", reader, no_answer=False)
    assert result.span is not None
    assert result.answer in "you and I"


def test_where_the_first_token_is_likelier_there_is_no_answer():
    reader = a_known_reader({"[CLS]": 6.0, "love": 1.0}, {"[CLS]": 6.0, "love": 1.0})
    result = answer("chess", TEXT, reader)
    assert result.answer is None
    assert result.span is None
    assert answer("chess", TEXT, reader, no_answer=False).answer == "love"


@pytest.mark.parametrize("before", [0, 3, 17])
def test_an_answer_in_any_window_of_a_long_text_has_its_place_in_the_text(before):
    reader = a_known_reader({"love": 9.0}, {"love": 9.0}, positions=23)
    filler = "playing chess, and playing football. "
    text = filler * before + "I love you. " + filler * 5
    result = answer("you", text, reader)
    assert len(result.windows) > 1
    assert result.span == (text.index("love"), text.index("love") + 4)
    window = result.windows[result.decisive]
    assert window.start <= result.span[0] < result.span[1] <= window.stop


def test_the_evidence_is_the_rows_of_the_answers_tokens():
    model = an_answerer()
    result = regard.answer("you", TEXT, model, no_answer=False)
    tokens = result.trace.streams["tokens"]
    assert result.evidence is not None
    assert result.span is not None
    marked = result.evidence.marked
    assert result.evidence.rows == marked
    starts = [tokens.offsets[position][0] - len("you") for position in marked]
    assert starts[0] == result.span[0]


def test_questions_share_a_context_or_have_one_each():
    reader = a_known_reader({"love": 9.0}, {"love": 9.0})
    shared = answer(["you", "chess"], "I love you", reader)
    assert [result.answer for result in shared] == ["love", "love"]
    own = answer(["you", "chess"], ["I love you", "love chess"], reader)
    assert [result.span for result in own] == [(2, 6), (0, 4)]


def test_our_class_and_that_of_transformers_give_the_same(tmp_path):
    reader = readers.word_piece()
    theirs = hf.BertForQuestionAnswering(hf.BertConfig(vocab_size=len(reader), **SIZES)).eval()
    theirs.save_pretrained(tmp_path)
    reader.save_pretrained(tmp_path)
    loaded = regard.load(tmp_path, device="cpu")
    assert loaded.native
    assert loaded.answers
    encoded = reader("you", TEXT, return_tensors="pt", return_token_type_ids=True)
    output = theirs(**encoded)
    result = regard.answer("you", TEXT, loaded, no_answer=False)
    offsets = reader(TEXT, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    first = [start for start, _ in offsets].index(result.span[0])
    last = [stop for _, stop in offsets].index(result.span[1])
    shift = reader("you", TEXT).sequence_ids().index(1)
    real = slice(shift, shift + len(offsets))
    starts, ends = output.start_logits[0, real], output.end_logits[0, real]
    logs = starts.log_softmax(0)[first] + ends.log_softmax(0)[last]
    assert result.score == pytest.approx(float(logs.detach().exp()), abs=1e-5)


@pytest.mark.parametrize(
    ("question", "context", "message"),
    [
        (" ", TEXT, "a question is empty"),
        ("you", "\n", "the context is empty"),
        (["you", "I"], [TEXT], "expected a context for each of 2 questions, got 1"),
    ],
)
def test_questions_without_text_are_refused(question, context, message):
    with pytest.raises(InputError, match=message):
        answer(question, context, a_known_reader({}, {}))


def test_a_run_without_a_trace_finds_the_same():
    reader = an_answerer()
    watched, alone = (
        regard.answer("who plays?", "I love playing chess. You love football.", reader, trace=trace)
        for trace in (True, False)
    )
    assert watched.trace is not None
    assert alone.windows[0].trace is None
    assert [each.span for each in alone.candidates] == [each.span for each in watched.candidates]
    assert alone.score == pytest.approx(watched.score)
