import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from regard import masks
from regard.errors import InputError, ShapeError, UnknownNameError
from regard.masks import Area, Part

BATCH, HEADS, QUERIES, KEYS = 2, 3, 5, 7


def booleans(*sizes):
    return st.integers(0, 2**32 - 1).map(
        lambda seed: torch.rand(sizes, generator=torch.Generator().manual_seed(seed)) > 0.4
    )


def segment_numbers(*sizes):
    return booleans(*sizes).map(lambda seen: seen.long())


side = st.none() | st.integers(0, 8)
leaves = st.one_of(
    st.just(masks.everything()),
    st.just(masks.causal()),
    st.builds(masks.window, side, side),
    st.lists(st.integers(0, KEYS), min_size=BATCH, max_size=BATCH).map(masks.lengths),
    booleans(BATCH, KEYS).map(masks.padding),
    booleans(QUERIES, KEYS).map(masks.explicit),
    booleans(BATCH, HEADS, QUERIES, KEYS).map(masks.explicit),
    st.builds(masks.segments, segment_numbers(BATCH, QUERIES), segment_numbers(BATCH, KEYS)),
)
any_mask = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
    ),
    max_leaves=4,
)


def by_definition(mask, offset):
    sizes = (BATCH, HEADS, QUERIES, KEYS)
    cells = torch.cartesian_prod(*map(torch.arange, sizes)).tolist()
    seen = [reference.sees(mask, b, h, i, j, offset) for b, h, i, j in cells]
    return torch.tensor(seen).view(sizes)


@given(any_mask, st.integers(-3, 9))
@settings(max_examples=60, deadline=None)
def test_a_dense_mask_is_what_its_definition_says(mask, offset):
    dense = mask.dense(QUERIES, KEYS, offset=offset)
    assert torch.equal(dense.expand(BATCH, HEADS, QUERIES, KEYS), by_definition(mask, offset))


@given(any_mask, st.integers(-3, 9))
@settings(max_examples=40, deadline=None)
def test_a_split_mask_is_its_window_and_its_rest(mask, offset):
    band, rest = mask.split()
    joined = band if rest is None else band & rest
    assert torch.equal(by_definition(joined, offset), by_definition(mask, offset))


@given(any_mask)
@settings(max_examples=40, deadline=None)
def test_a_mask_survives_the_way_to_disk_and_back(mask):
    assert masks.restore(mask.state()) == mask


@given(any_mask, st.integers(0, QUERIES), st.integers(0, KEYS))
@settings(max_examples=40, deadline=None)
def test_a_cut_is_a_rectangle_of_the_whole(mask, row, column):
    area = Area(range(row, QUERIES), range(column, KEYS), 2)
    sizes = (BATCH, HEADS, QUERIES - row, KEYS - column)
    whole = mask.dense(QUERIES, KEYS, offset=2).expand(BATCH, HEADS, QUERIES, KEYS)
    assert torch.equal(mask.cut(area).expand(sizes), whole[..., row:, column:])


@given(any_mask, st.integers(0, 1), st.integers(0, QUERIES - 1), st.integers(0, KEYS - 1))
@settings(max_examples=60, deadline=None)
def test_a_part_is_the_mask_of_one_example_s_rectangle(mask, example, row, column):
    part = Part(example, range(row, QUERIES), range(column, KEYS))
    whole = mask.dense(QUERIES, KEYS, offset=2).expand(BATCH, HEADS, QUERIES, KEYS)
    sizes = (QUERIES - row, KEYS - column)
    dense = mask.within(part).dense(*sizes, offset=2 + part.moved).expand(1, HEADS, *sizes)
    assert torch.equal(dense, whole[example : example + 1, :, row:, column:])


@given(side, side, st.integers(-3, 9))
@settings(max_examples=60, deadline=None)
def test_a_window_reaches_just_the_keys_that_some_row_sees(left, right, offset):
    window, area = masks.window(left, right), Area(range(1, QUERIES), range(KEYS), offset)
    seen = window.cut(area)[0, 0]
    assert {*seen.any(0).nonzero()[:, 0].tolist()} <= {*window.reach(area)}
    assert window.covers(area) == bool(seen.all())


def test_masks_print_as_the_calls_that_make_them():
    mask = (masks.causal() | masks.window(2, 3)) & masks.lengths([3, 5]) & ~masks.window(0, 0)
    assert str(mask) == "(causal() | window(2, 3)) & lengths([3, 5]) & ~window(0, 0)"
    tensors = masks.padding(torch.tensor([[True, False]])) & masks.explicit(torch.ones(2, 2) > 0)
    assert str(tensors) == "padding(1x2, 1 padded) & explicit(1x1x2x2)"
    segments = ~(masks.segments(torch.zeros(1, 2).long()) & masks.everything())
    assert str(segments) == "~segments(1x2, 1x2)"
    assert str(masks.window(None, 4)) == "window(inf, 4)"
    assert str(~(masks.causal() | masks.everything())) == "~(causal() | everything())"


def test_a_mask_without_tensors_is_plain_json():
    mask = ~masks.causal() | (masks.window(3, None) & masks.everything())
    assert masks.restore(json.loads(json.dumps(mask.state()))) == mask


def test_joining_with_everything_changes_nothing():
    assert masks.everything() & masks.causal() == masks.causal()
    assert masks.causal() & masks.everything() == masks.causal()
    assert ~~masks.causal() == masks.causal()


def test_masks_are_equal_by_content():
    assert masks.lengths([3, 5]) == masks.lengths(torch.tensor([3, 5]))
    assert masks.lengths([3, 5]) != masks.lengths([3, 4])
    assert masks.causal() != masks.everything()
    assert masks.causal() != "causal()"
    assert len({masks.causal(), masks.causal()}) == 1


def test_infinity_is_no_limit():
    assert masks.window(float("inf"), 0) == masks.causal()


def test_an_empty_window_is_refused():
    with pytest.raises(InputError, match=r"window\(1, -2\) is empty; expected left \+ right >= 0"):
        masks.window(1, -2)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_numbers_is_refused_with_the_way_out():
    with pytest.raises(ShapeError, match=r"expected a boolean tensor.*use tensor != 0"):
        masks.padding(torch.ones(2, 3))
    with pytest.raises(ShapeError, match=r"explicit\(\.\.\.\) expected a boolean tensor"):
        masks.explicit(torch.ones(2, 3))


def test_an_explicit_mask_of_one_axis_is_refused():
    with pytest.raises(ShapeError, match=r"should have the axes \(query key\).*got 1 of them"):
        masks.explicit(torch.ones(3) > 0)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (masks.lengths([1, 2, 3]), r"lengths should have shape \(batch=2\).*got \(3,\)"),
        (masks.padding(torch.ones(2, 3) > 0), r"padding should have shape \(batch=2 key=7\)"),
        (masks.segments(torch.zeros(2, 3).long()), r"query segments should have shape"),
        (masks.causal() & masks.explicit(torch.ones(5, 6) > 0), r"should broadcast to .*key=7"),
        (~masks.lengths([1]), r"lengths should have shape"),
    ],
    ids=str,
)
def test_a_mask_that_does_not_fit_the_call_says_so(mask, message):
    with pytest.raises(ShapeError, match=message):
        mask.check(BATCH, HEADS, QUERIES, KEYS)


def test_a_foreign_state_is_refused():
    with pytest.raises(
        UnknownNameError, match="no kind of mask or bias 'Windw'; did you mean 'Window'"
    ):
        masks.restore({"kind": "Windw"})


@pytest.mark.parametrize("side", [2**62, 2**63, 2**64, 1e300])
def test_a_side_beyond_int64_sees_everything_or_nothing(side):
    assert masks.window(side, side).dense(QUERIES, KEYS, offset=3).all()
    assert not masks.window(-side, side).dense(QUERIES, KEYS, offset=3).any()


@pytest.mark.parametrize("side", [math.nan, -math.inf, 1.5])
def test_a_side_that_is_no_whole_number_is_refused(side):
    with pytest.raises(InputError, match="expected sides that are whole numbers, None or infinity"):
        masks.window(side, 0)


@pytest.mark.parametrize("offset", [2**62, -(2**63), 2**64])
def test_an_offset_beyond_int64_is_refused(offset):
    with pytest.raises(InputError, match=r"an offset that is a whole number between -2\*\*62 and"):
        masks.causal().dense(QUERIES, KEYS, offset=offset)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "sizes", [[2**64, 1], [2.5, 1.0], torch.tensor([1, 2], dtype=torch.uint64)]
)
def test_lengths_that_int64_does_not_hold_are_refused(sizes):
    with pytest.raises(
        InputError, match=r"lengths\(...\) expected whole numbers below 2\*\*63, got"
    ):
        masks.lengths(sizes)


@pytest.mark.usefixtures("unchecked")
def test_a_length_far_below_zero_stays_empty_in_a_part():
    mask = masks.lengths(torch.tensor([-(2**63), 3]))
    part = mask.within(Part(0, range(2), range(4, 6)))
    assert not part.dense(2, 2).any()
    small = masks.lengths(torch.tensor([3, 3], dtype=torch.uint8)).within(
        Part(0, range(2), range(4, 6))
    )
    assert not small.dense(2, 2).any()
