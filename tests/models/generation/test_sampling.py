import pytest
import torch

from models.generation.scripted_models import EOS, Scribe, Table
from regard.models.generation import generate
from regard.models.generation.sampling import SamplingFilter, draw_columns

SHARES = torch.tensor([0.37, 0.29, 0.17, 0.11, 0.05, 0.01])
CRITICAL = 20.5  # chi-square with 5 degrees of freedom is larger once in a thousand times


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def test_draws_have_the_probabilities_of_the_logits():
    count = 20_011
    drawn = draw_columns(SHARES.log().expand(count, -1), source())
    expected = count * SHARES
    chi_square = ((torch.bincount(drawn, minlength=6) - expected) ** 2 / expected).sum()
    assert 0.2 < chi_square < CRITICAL


def test_generated_tokens_have_the_probabilities_of_the_model():
    writer = Table([SHARES.tolist()] * 6, max_new_tokens=101)
    out = generate(writer, [[0]] * 199, do_sample=True, seed=3)
    found = torch.bincount(out.sequences[:, 1:].flatten(), minlength=6)
    expected = 101 * 199 * SHARES
    assert ((found - expected) ** 2 / expected).sum() < CRITICAL


def test_a_token_without_probability_is_never_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(5003, -1)
    assert {*draw_columns(logits, source()).tolist()} == {1, 3}


def test_the_seed_decides_and_the_stream_of_torch_is_untouched():
    scribe = Scribe(vocab=23, seed=1, sharp=0.5)
    before = torch.get_rng_state()
    first, again, other = (generate(scribe, [[3]], do_sample=True, seed=s)[0] for s in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.tolist() == again.tolist() != other.tolist()
    drawn = {tuple(generate(scribe, [[3]], do_sample=True)[0].tolist()) for _ in range(5)}
    assert len(drawn) > 1


def left_by(settings, logits=None):
    """The tokens that a filter leaves of each row."""
    logits = SHARES.log()[None] if logits is None else logits
    left, tokens = settings(logits)
    tokens = torch.arange(logits.shape[1]).expand_as(logits) if tokens is None else tokens
    return [{*row[keep > -torch.inf].tolist()} for row, keep in zip(tokens, left, strict=True)]


@pytest.mark.parametrize("k", [1, 2, 5, 6, 13])
def test_top_k_leaves_the_likeliest(k):
    assert left_by(SamplingFilter(top_k=k)) == [{*range(min(k, 6))}]


@pytest.mark.parametrize(("p", "kept"), [(0.01, 1), (0.37, 1), (0.38, 2), (0.9, 4), (0.95, 5)])
def test_top_p_leaves_the_fewest_that_hold_the_mass(p, kept):
    assert left_by(SamplingFilter(top_p=p)) == [{*range(kept)}]


@pytest.mark.parametrize(("p", "kept"), [(0.01, 6), (0.1, 5), (0.5, 2), (1.0, 1)])
def test_min_p_leaves_what_is_not_much_less_likely_than_the_likeliest(p, kept):
    assert left_by(SamplingFilter(min_p=p)) == [{*range(kept)}]


def test_the_filters_ask_what_the_one_before_left():
    assert left_by(SamplingFilter(top_k=3, top_p=0.78)) == [{0, 1}]
    assert left_by(SamplingFilter(top_k=3, top_p=0.81)) == [{0, 1, 2}]
    assert left_by(SamplingFilter(temperature=0.5, min_p=0.5)) == [{0, 1}]
    assert left_by(SamplingFilter(temperature=0.4, min_p=0.6)) == [{0}]


def test_at_least_so_many_are_left():
    assert left_by(SamplingFilter(top_k=1, top_p=0.01, min_p=1.0, min_tokens=3)) == [{0, 1, 2}]


@pytest.mark.parametrize(
    "settings", [SamplingFilter(top_p=0.9), SamplingFilter(min_p=0.05), SamplingFilter(top_p=0.3)]
)
def test_a_large_vocabulary_is_filtered_as_if_it_were_sorted(settings):
    logits = torch.randn(5, 1031) * torch.tensor([0.1, 1.0, 3.0, 5.0, 9.0])[:, None]
    for row in range(5):
        shares = logits[row].double().softmax(dim=0)
        above = (shares[None, :] > shares[:, None]).double() @ shares
        kept = (above < settings.top_p) & (shares >= settings.min_p * shares.max())
        assert left_by(settings, logits[row : row + 1]) == [{*kept.nonzero()[:, 0].tolist()}]


def test_a_low_temperature_is_greedy():
    scribe = Scribe(vocab=11, seed=2)
    expected = generate(scribe, [[3, 5], [2, 4]]).sequences
    found = generate(scribe, [[3, 5], [2, 4]], do_sample=True, temperature=1e-5, seed=1)
    assert torch.equal(found.sequences, expected)


def test_several_sequences_of_a_sentence_stand_next_to_each_other_in_their_order():
    scribe = Scribe(vocab=23, seed=1, sharp=0.3)
    out = generate(scribe, [[3, 5], [2, 4]], do_sample=True, num_return_sequences=5, seed=2)
    assert [ids[0].item() for ids in out] == [3] * 5 + [2] * 5
    assert len({tuple(ids.tolist()) for ids in out}) == 10
    assert out.rows[0].tolist() == [0] * 5 + [1] * 5
    assert out.rows[1, out.rows[1] >= 0].diff().gt(0).all()


def test_the_order_of_several_sequences_tells_nothing_of_their_length():
    writer = Table([[0.5, 0.5], [0.5, 0.5]], eos_token_id=EOS, max_new_tokens=13)
    out = generate(writer, [[0]], do_sample=True, num_return_sequences=997, seed=2)
    lengths = torch.tensor([len(ids) for ids in out]).double()
    ranks = torch.arange(997).double()
    assert abs(torch.corrcoef(torch.stack([lengths, ranks]))[0, 1]) < 0.1


def test_the_score_is_that_of_what_was_drawn_from():
    writer = Table([SHARES.tolist()] * 6, max_new_tokens=1, length_penalty=0.0)
    out = generate(writer, [[0]], do_sample=True, top_k=2, seed=2)
    expected = SHARES[:2] / SHARES[:2].sum()
    assert out.scores.exp().item() == pytest.approx(expected[out[0][1]].item(), rel=1e-5)


def test_the_lowest_temperature_draws_the_likeliest():
    columns, _ = SamplingFilter(temperature=1e-320)(SHARES.log()[None].expand(7, -1))
    assert draw_columns(columns, source()).tolist() == [0] * 7
