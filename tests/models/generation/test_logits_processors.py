import pytest
import torch

from models.generation.scripted_models import EOS, Scribe
from regard.models.generation import generate
from regard.models.generation.hypotheses import Hypotheses
from regard.models.generation.logits_processors import (
    ForbiddenPhrase,
    NoRepeatedNgram,
    RepetitionPenalty,
)

PROMPTS = [[3, 5, 2], [7]]


def phrases(ids, size):
    return [tuple(ids[place : place + size]) for place in range(len(ids) - size + 1)]


def test_the_repetition_penalty_divides_what_is_positive_and_multiplies_what_is_negative():
    logits = torch.tensor([[2.0, -2.0, 6.0, 1.0], [2.0, -2.0, 6.0, 1.0]])
    hypotheses = Hypotheses.from_prompts(torch.tensor([[0, 1, 1], [-1, -1, 2]]))
    RepetitionPenalty(2.0)(logits, torch.zeros(2), hypotheses)
    assert logits.tolist() == [[1.0, -4.0, 6.0, 1.0], [2.0, -2.0, 3.0, 1.0]]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("beams", [1, 3])
def test_no_phrase_comes_twice(size, beams):
    scribe = Scribe(vocab=13, seed=4, num_beams=beams, min_new_tokens=9)
    for ids in generate(scribe, PROMPTS, no_repeat_ngram_size=size, max_new_tokens=9):
        found = phrases(ids.tolist(), size)
        assert len(found) == len({*found})
    loose = generate(scribe, PROMPTS, max_new_tokens=9)
    assert any(len({*phrases(ids.tolist(), size)}) < 10 - size for ids in loose)


def test_a_phrase_is_as_long_as_it_is_though_the_prompt_is_shorter():
    logits, totals = torch.zeros(2, 5), torch.zeros(2)
    NoRepeatedNgram(3)(logits, totals, Hypotheses.from_prompts(torch.tensor([[-1, 4], [1, 4]])))
    ForbiddenPhrase(torch.tensor([2, 3, 1, 0]))(
        logits, totals, Hypotheses.from_prompts(torch.tensor([[2, 3], [3, 1]]))
    )
    assert logits.eq(0).all()


def test_a_forbidden_phrase_is_never_written_and_its_beginning_may_be():
    scribe = Scribe(vocab=11, seed=9, sharp=1.5, min_new_tokens=9)
    free = generate(scribe, [[3, 5]], max_new_tokens=9)[0].tolist()
    phrase = free[4:7]
    held = generate(scribe, [[3, 5]], max_new_tokens=9, bad_words_ids=[phrase])[0].tolist()
    assert tuple(phrase) not in phrases(held, 3)
    assert held[:6] == free[:6]
    assert held[6] != free[6]


def test_forbidden_tokens_are_never_written():
    scribe = Scribe(vocab=11, seed=9)
    free = {*generate(scribe, PROMPTS, max_new_tokens=11).sequences.flatten().tolist()}
    gone = [*(free - {EOS, 3, 5, 2, 7})]
    for setting in ({"suppress_tokens": gone}, {"bad_words_ids": [[token] for token in gone]}):
        held = generate(scribe, PROMPTS, max_new_tokens=11, **setting).sequences
        assert gone
        assert not {*held.flatten().tolist()} & {*gone}


def test_the_end_cannot_be_a_bad_word():
    scribe = Scribe(vocab=11, seed=9)
    free = generate(scribe, PROMPTS)
    assert torch.equal(generate(scribe, PROMPTS, bad_words_ids=[[EOS]]).sequences, free.sequences)


def test_a_token_may_be_forbidden_at_the_beginning_alone():
    scribe = Scribe(vocab=11, seed=9, min_new_tokens=7)
    first = int(generate(scribe, [[3, 5]])[0][2])
    held = generate(scribe, [[3, 5]], begin_suppress_tokens=[first], max_new_tokens=7)[0]
    assert held[2] != first


def test_after_a_forced_first_token_the_beginning_is_the_second():
    scribe = Scribe(vocab=11, seed=9, reads_source=True, forced_bos_token_id=6)
    second = int(generate(scribe, [[3, 5]])[0][2])
    held = generate(scribe, [[3, 5]], begin_suppress_tokens=[6, second])[0]
    assert held[1] == 6
    assert held[2] != second


@pytest.mark.parametrize("beams", [1, 3])
def test_tokens_are_forced_at_the_beginning_and_at_the_end(beams):
    scribe = Scribe(vocab=11, seed=4, reads_source=True, num_beams=beams, min_new_tokens=5)
    out = generate(
        scribe, PROMPTS, forced_bos_token_id=7, forced_eos_token_id=EOS, max_new_tokens=6
    )
    assert out.sequences[:, 1].tolist() == [7, 7]
    assert out.sequences[:, 6].tolist() == [EOS, EOS]


def test_what_is_forced_costs_nothing():
    scribe = Scribe(vocab=11, seed=4, reads_source=True, length_penalty=0.0)
    out = generate(scribe, [[3]], forced_bos_token_id=7, max_new_tokens=1, num_beams=2)
    assert out.scores.tolist() == [0.0]


@pytest.mark.parametrize("beams", [1, 2])
def test_the_least_length_counts_the_prompt_and_the_least_new_tokens_do_not(beams):
    scribe = Scribe(vocab=11, seed=1, num_beams=beams)
    assert min(len(ids) for ids in generate(scribe, PROMPTS)) < 9
    assert min(len(ids) for ids in generate(scribe, PROMPTS, min_length=9)) >= 9
    out = generate(scribe, PROMPTS, min_new_tokens=9)
    assert (out.rows >= 0).sum(dim=0).min() >= 9
