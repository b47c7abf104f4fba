import pytest

from models.generation.scripted_models import EOS, Letters, Reciter, Scribe
from regard.errors import InputError
from regard.models.generation import generate, stream, stream_ids
from regard.models.generation.streaming import IncrementalDetokenizer

TEXT = "I 爱 you 🙂, naïve 世界。"


def test_the_pieces_are_characters_and_joined_they_are_the_text():
    pieces = [*stream(Reciter(TEXT), [[0]])]
    assert pieces == [*TEXT]


def test_the_streamed_ids_are_those_of_generate():
    scribe = Scribe(vocab=11, seed=9)
    expected = generate(scribe, [[3, 5]], max_new_tokens=13)[0][2:].tolist()
    assert [*stream_ids(scribe, [[3, 5]], max_new_tokens=13)] == expected
    drawn = {"do_sample": True, "seed": 3}
    expected = generate(scribe, [[3, 5]], **drawn)[0][2:].tolist()
    assert [*stream_ids(scribe, [[3, 5]], **drawn)] == expected


def test_a_token_comes_before_the_next_is_asked_for():
    scribe = Scribe(vocab=11, seed=4, min_new_tokens=7)
    pieces = stream_ids(scribe, [[3, 5]])
    next(pieces)
    assert len(scribe.steps) == 1
    next(pieces)
    assert len(scribe.steps) == 2


def test_bytes_that_never_become_a_character_come_at_the_end():
    flow, ids = IncrementalDetokenizer(Letters()), Letters().encode("a中")
    assert [flow.push(token) for token in ids[:-1]] == ["a", "", ""]
    assert flow.close() == "\ufffd"
    assert flow.close() == ""


def test_special_tokens_have_no_text():
    flow = IncrementalDetokenizer(Letters())
    assert [flow.push(token) for token in (0, *Letters().encode("a"), EOS)] == ["", "a", ""]


def test_a_tokenizer_that_looks_back_is_asked_with_what_came_before():
    class Words:
        def decode(self, token_ids, *, skip_special_tokens=True):
            return " ".join(["the", "cat", "sat"][token] for token in token_ids)

    flow = IncrementalDetokenizer(Words())
    assert "".join(flow.push(token) for token in (0, 1, 2, 0)) == "the cat sat the"


def test_a_stop_string_ends_the_stream():
    assert "".join(stream(Reciter(TEXT), [[0]], stop_strings=["you"])) == "I 爱 you"


@pytest.mark.parametrize(
    ("inputs", "settings"),
    [
        ([[3], [5]], {}),
        ([[3]], {"num_beams": 2}),
        ([[3]], {"do_sample": True, "num_return_sequences": 2}),
    ],
)
def test_a_stream_of_several_sequences_is_refused_at_once(inputs, settings):
    with pytest.raises(InputError, match="a stream is one sequence, got"):
        stream_ids(Scribe(), inputs, **settings)


def test_a_stream_of_text_needs_a_tokenizer():
    with pytest.raises(InputError, match="a stream of text needs a tokenizer; give tokenizer="):
        stream(Scribe(), [[3]])
