from functools import cache

import pytest
import torch

from models.generation.scripted_models import EOS, Scribe, Table, every_sequence
from regard.models.generation import generate
from regard.models.generation.beam import BeamSearch
from regard.models.generation.hypotheses import Hypotheses, SearchState
from regard.models.generation.loop import decode, make_request

LONGEST = 4


PROMPT = torch.tensor([[3, 2]])


@cache
def brute_force(reads_source):
    scribe = Scribe(vocab=4, reads_source=reads_source, seed=5)
    return scribe, [*every_sequence(scribe, PROMPT, LONGEST)]


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("early", [False, "never"])
@pytest.mark.parametrize("reads_source", [False, True])
def test_as_many_beams_as_sequences_are_an_exhaustive_search(penalty, early, reads_source):
    scribe, found = brute_force(reads_source)
    expected = sorted(((log / len(ids) ** penalty, ids) for log, ids in found), reverse=True)[:11]
    out = generate(
        scribe,
        PROMPT,
        num_beams=200,
        num_return_sequences=11,
        max_new_tokens=LONGEST,
        length_penalty=penalty,
        early_stopping=early,
    )
    read = out.sequences.shape[1] - out.rows.shape[0]
    assert [tuple(ids[read:].tolist()) for ids in out] == [target for _, target in expected]
    assert out.scores.tolist() == pytest.approx([score for score, _ in expected], rel=1e-5)


def test_a_few_beams_find_a_better_sequence_than_none():
    garden = [[0.0, 0.0, 0.6, 0.4], [0.0, 1.0, 0.0, 0.0], [0.0, 0.3, 0.4, 0.3], [0.0, 1.0, 0, 0]]
    writer = Table(garden, eos_token_id=EOS, max_new_tokens=2, length_penalty=0.0)
    prompt = torch.tensor([[0]])
    assert generate(writer, prompt)[0].tolist()[1] == 2
    out = generate(writer, prompt, num_beams=2)
    assert out[0].tolist() == [0, 3, 1]
    assert out.scores.exp().tolist() == pytest.approx([0.4])


def one_beam(scribe, prompt, **settings):
    request = make_request(scribe, prompt, None, None, None, settings)
    single = BeamSearch(request.strategy().rules, 1, early_stopping=True)
    *_, search = decode(scribe, request, single)
    return request.collect(search.finished)


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_is_greedy(seed):
    scribe = Scribe(vocab=11, seed=seed)
    prompt = torch.tensor([[3, 5], [2, 7]])
    expected = generate(scribe, prompt, max_new_tokens=13)
    found = one_beam(scribe, prompt, max_new_tokens=13)
    assert torch.equal(found.sequences, expected.sequences)
    assert found.scores.tolist() == pytest.approx(expected.scores.tolist(), rel=1e-5)
    assert torch.equal(found.rows, expected.rows)


def test_early_stopping_never_gives_no_worse_score_than_false_and_false_than_true():
    prompt = torch.tensor([[3, 2], [2, 5], [6, 4]])
    scores = {True: 0.0, False: 0.0, "never": 0.0}
    for seed in range(7):
        for early in scores:
            scribe = Scribe(seed=seed, sharp=1.0, num_beams=3, max_new_tokens=11)
            out = generate(scribe, prompt, early_stopping=early, length_penalty=2.0)
            scores[early] += float(out.scores.sum())
    assert scores[True] < scores[False] < scores["never"]


def test_early_stopping_takes_fewer_steps():
    scribes = [Scribe(seed=3, sharp=0.5, num_beams=3, max_new_tokens=31) for _ in range(2)]
    for scribe, early in zip(scribes, (True, "never"), strict=True):
        generate(scribe, torch.tensor([[3, 2]]), early_stopping=early, length_penalty=2.0)
    assert len(scribes[0].steps) < len(scribes[1].steps)


def test_a_sentence_with_too_few_hypotheses_is_filled_up_with_its_prompt():
    writer = Table([[0.5, 0.5], [0.5, 0.5]], max_new_tokens=1)
    out = generate(writer, torch.tensor([[0]]), num_beams=3, num_return_sequences=3)
    assert [ids.tolist() for ids in out] == [[0, 0], [0, 1], [0]]
    assert out.scores[2] == -torch.inf
    assert out.rows.tolist() == [[0, 0, -1]]


def test_the_scores_of_a_sentence_fall():
    out = generate(Scribe(seed=2), torch.tensor([[3], [2]]), num_beams=5, num_return_sequences=5)
    assert out.scores.view(2, 5).diff(dim=1).le(0).all()
    assert len({tuple(ids.tolist()) for ids in out}) == 10


def test_several_ends_leave_enough_hypotheses_to_go_on():
    scribe = Scribe(vocab=11, seed=4, eos_token_id=(1, 2, 3), min_new_tokens=3)
    out = generate(scribe, torch.tensor([[5]]), num_beams=5, num_return_sequences=5)
    assert all(ids[-1] in (1, 2, 3) for ids in out)


def test_drawn_beams_follow_the_seed_and_the_filter():
    scribe = Scribe(vocab=23, seed=4, sharp=0.3)
    asked = {"num_beams": 3, "do_sample": True, "num_return_sequences": 3}
    prompt = torch.tensor([[5, 3]])
    first, again, other = (generate(scribe, prompt, seed=s, **asked).sequences for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    sure = generate(scribe, prompt, seed=1, temperature=1e-4, **asked)[0]
    assert torch.equal(sure, generate(scribe, prompt, num_beams=3)[0])


def test_beams_are_drawn_in_proportion_without_replacement():
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05])
    writer = Table([shares.tolist()] * 4, max_new_tokens=1, num_beams=2, do_sample=True)
    prompts = torch.zeros(4000, 1, dtype=torch.long)
    out = generate(writer, prompts, num_return_sequences=2, seed=3)
    pairs = out.sequences[:, -1].view(-1, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    chance = sum(shares[a] * shares[b] / (1 - shares[a]) for a, b in ((0, 1), (1, 0)))
    found = ((pairs == 0).any(dim=1) & (pairs == 1).any(dim=1)).float().mean()
    assert found == pytest.approx(float(chance), abs=0.03)


def test_a_search_without_hypotheses_has_no_rows():
    search = SearchState(Hypotheses.from_prompts(torch.empty(0, 3, dtype=torch.long)))
    assert (search.active.count, search.active.new_tokens) == (0, 0)
