import pytest
import torch

from models.generation.scripted_models import EOS, START, Scribe, Table
from regard.models.generation import generate


def by_hand(scribe, ids, count):
    """The likeliest token, again and again, without a cache."""
    ids = list(ids)
    for _ in range(count):
        logits, _ = scribe.step(scribe.begin(torch.tensor([ids])), torch.tensor([ids]))
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
    return ids


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_token_at_every_step(seed):
    scribe = Scribe(vocab=11, seed=seed)
    out = generate(scribe, torch.tensor([[3, 5, 2]]), max_new_tokens=13)
    assert out[0].tolist() == by_hand(scribe, [3, 5, 2], 13)


def test_a_source_is_read_and_the_target_begins_with_the_start_token():
    scribe = Scribe(vocab=11, reads_source=True, seed=2)
    out = generate(scribe, torch.tensor([[3, 5, 2]]), max_new_tokens=7)
    assert out[0][0] == START
    other = generate(scribe, torch.tensor([[7, 3, 9]]), max_new_tokens=7)
    assert out[0].tolist() != other[0].tolist()


def test_the_score_is_the_mean_log_probability_of_the_new_tokens():
    scribe = Scribe(seed=3)
    prompt = torch.tensor([[3, 2]])
    out = generate(scribe, prompt, max_new_tokens=5)
    new = out[0][2:].tolist()
    expected = scribe.log_probability(prompt, new) / len(new)
    assert out.scores.tolist() == pytest.approx([expected], rel=1e-5)


def test_without_a_word_on_length_it_writes_twenty_tokens():
    endless = Table([[0.0, 1.0], [1.0, 0.0]])
    assert len(generate(endless, torch.tensor([[0, 1, 0]]))[0]) == 23


def test_the_same_comes_twice():
    scribe = Scribe(seed=1)
    first, second = (generate(scribe, torch.tensor([[2, 3]])).sequences for _ in range(2))
    assert torch.equal(first, second)
