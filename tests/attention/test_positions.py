import math

import pytest
import torch

from regard.attention import LearnedPositions, PositionalEncoding, RelativePositions, Rotary
from regard.errors import InputError, ShapeError


def test_sinusoids_are_those_of_the_paper():
    encoding = PositionalEncoding(512, dropout=0.1, max_len=5000).eval()
    encoded = encoding(torch.zeros(1, 100, 512))
    for position, i in ((0, 0), (7, 3), (99, 255)):
        angle = position / 10000 ** (2 * i / 512)
        assert encoded[0, position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert encoded[0, position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_an_odd_width_has_its_sinusoids_too():
    assert PositionalEncoding(7, max_len=3)(torch.zeros(3, 7)).shape == (3, 7)


def test_dropout_is_for_training():
    encoding = PositionalEncoding(16, dropout=0.5)
    x = torch.ones(3, 16)
    assert (encoding.train()(x) == 0).any()
    assert torch.equal(encoding.eval()(x), encoding.eval()(x))


@pytest.mark.parametrize("make", [PositionalEncoding, LearnedPositions])
def test_an_offset_continues_where_the_past_ended(make):
    positions = make(6, max_len=11).eval()
    x = torch.randn(2, 11, 6)
    torch.testing.assert_close(positions(x)[:, 4:], positions(x[:, 4:], 4))


@pytest.mark.parametrize("pairs", ["neighbours", "halves"])
def test_turned_scores_depend_on_the_distance_alone(pairs):
    rotary = Rotary(8, pairs=pairs)
    query, key = torch.randn(1, 8), torch.randn(1, 8)
    scores = [(rotary(query, i) @ rotary(key, i + 3).T).item() for i in (0, 5, 100)]
    assert scores == pytest.approx([scores[0]] * 3, abs=1e-4)
    assert scores[0] != pytest.approx((rotary(query, 0) @ rotary(key, 4).T).item(), abs=1e-4)


def test_a_pair_is_turned_by_its_angle():
    rotary = Rotary(4, base=100.0)
    turned = rotary(torch.tensor([[1.0, 0.0, 0.0, 1.0]]), offset=3)[0].tolist()
    slow = 3 * 100 ** (-2 / 4)
    assert turned == pytest.approx([math.cos(3), math.sin(3), -math.sin(slow), math.cos(slow)])


def test_halves_and_neighbours_are_one_turn_in_two_orders():
    x = torch.randn(5, 8)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    halves, neighbours = Rotary(8, pairs="halves"), Rotary(8)
    torch.testing.assert_close(halves(x)[:, order], neighbours(x[:, order]))


def test_relative_positions_follow_their_table():
    positions = RelativePositions(heads=3, buckets=8, both_ways=False, far=16)
    with torch.no_grad():
        positions.table[0, 2] = 5.0
    dense = positions().dense(4, 4)
    assert (dense[0, 2].triu() == torch.full((4, 4), 5.0).triu()).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: PositionalEncoding(0), InputError, "dim and max_len above 0, got 0, 5000"),
        (
            lambda: PositionalEncoding(4)(torch.zeros(2, 3)),
            ShapeError,
            "has width 4, got vectors of width 3",
        ),
        (
            lambda: LearnedPositions(4, 5)(torch.zeros(6, 4)),
            InputError,
            "positions 0 to 4, got 0 to 5; .* larger max_len",
        ),
        (
            lambda: LearnedPositions(4, 5)(torch.zeros(1, 4), -1),
            InputError,
            "positions 0 to 4, got -1 to -1",
        ),
        (lambda: Rotary(3), InputError, "expected an even dim, got 3"),
        (lambda: Rotary(4, pairs="thirds"), InputError, "'neighbours' or 'halves', got 'thirds'"),
        (
            lambda: Rotary(4)(torch.zeros(2, 6)),
            ShapeError,
            "vectors of width 4, got 6; it wants the width of one head",
        ),
    ],
)
def test_positions_that_do_not_fit_get_their_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_remembered_turns_are_those_of_every_type():
    rotary, x = Rotary(8), torch.randn(5, 8)
    with torch.inference_mode():
        rotary(x, 3)
    torch.testing.assert_close(rotary(x.double(), 3).float(), rotary(x, 3))
    x = x.requires_grad_()
    rotary(x, 1).sum().backward()
    assert x.grad is not None
