import pytest
import torch

from regard.errors import InputError
from regard.kernels.observe import Region
from regard.masks import Part
from regard.types import DenseWeights, RecomputableWeights, SummaryOnly
from regard.types.pooling import pool_weights
from traces import BIASES, COLUMNS, HEADS, MASKS, ROWS, a_map, a_scoring, by_definition

EVERY_SCORING = [(mask, "none") for mask in MASKS] + [("padding", bias) for bias in BIASES]
PARTS = [
    Part(0, range(3, 10), range(2, 9)),
    Part(0, range(ROWS), range(COLUMNS), (4, 0, 3)),
    Part(0, range(7, 8), range(5, 6), (5,)),
    Part(0, range(2, 9), range(COLUMNS), (1, 1)),
]


def cut(weights, part):
    heads = list(range(len(weights)) if part.heads is None else part.heads)
    return weights[heads, part.rows.start : part.rows.stop][..., list(part.columns)]


def whole(source):
    heads, rows, columns = source.sizes
    looks = [source.window(Region(range(rows), range(columns), head)) for head in range(heads)]
    return torch.stack([look.mean for look in looks])


@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
def test_a_recomputable_source_gives_the_weights_of_its_call(mask, bias):
    each = a_map(a_scoring(mask, bias))
    torch.testing.assert_close(whole(each.source).double(), by_definition(each), atol=1e-5, rtol=0)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
def test_a_part_of_a_recomputable_source_is_a_slice_of_its_weights(mask, bias, part):
    source = a_map(a_scoring(mask, bias)).source
    expected = cut(whole(source), part)
    torch.testing.assert_close(whole(source.within(part)), expected, atol=1e-6, rtol=0)


def test_a_part_of_a_part_is_a_part():
    source = a_map().source
    one = Part(0, range(2, 9), range(1, 12), (5, 2, 1))
    other = Part(0, range(1, 4), range(3, 8), (2, 0))
    expected = cut(cut(whole(source), one), other)
    found = whole(source.within(one).within(other))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_a_part_without_heads_of_its_own_copies_nothing():
    source = a_map().source
    part = source.within(PARTS[0])
    for name in ("query", "key", "lse"):
        storage = getattr(part, name).untyped_storage()
        assert storage.data_ptr() == getattr(source, name).untyped_storage().data_ptr()


def test_a_part_remembers_whether_its_weights_are_exact():
    source = a_map().source
    rounded = RecomputableWeights(source.query, source.key, source.lse, source.scoring, exact=False)
    assert source.within(PARTS[1]).exact
    assert not rounded.within(PARTS[1]).exact


def test_sizes_count_query_heads():
    assert a_map().source.sizes == (HEADS, ROWS, COLUMNS)


@pytest.mark.parametrize("zoom", [1, 2, 3, 20])
def test_a_window_of_a_recomputable_source_pools_the_weights_of_its_rectangle(zoom):
    source = a_map().source
    found = source.window(Region(range(1, 10), range(2, 13), 3, zoom=zoom))
    expected = pool_weights(whole(source)[3, 1:10, 2:13], zoom)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.largest, expected.largest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("zoom", [1, 2, 3, 5, 20])
def test_a_dense_source_pools_as_a_plain_loop_would(zoom, dtype):
    weights = torch.rand(3, 7, 11).to(dtype)
    found = DenseWeights(weights).window(Region(range(1, 7), range(3, 11), 2, zoom=zoom))
    cut = weights[2, 1:7, 3:11]
    for row, column in torch.cartesian_prod(*map(torch.arange, found.mean.shape)).tolist():
        rows, columns = (slice(zoom * n, zoom * (n + 1)) for n in (row, column))
        torch.testing.assert_close(found.mean[row, column], cut[rows, columns].mean())
        assert found.largest[row, column] == cut[rows, columns].max()


def test_an_empty_region_of_a_dense_source_is_empty():
    found = DenseWeights(torch.rand(3, 7, 11)).window(Region(range(2, 2), range(11), zoom=2))
    assert found.mean.shape == found.largest.shape == (0, 6)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_dense_source_is_a_slice(part):
    weights = torch.rand(HEADS, ROWS, COLUMNS)
    assert torch.equal(DenseWeights(weights).within(part).weights, cut(weights, part))


def test_a_single_head_can_be_taken_twice():
    part = Part(0, range(5), range(7), (0, 0))
    assert DenseWeights(torch.rand(1, 5, 7)).within(part).sizes == (2, 5, 7)


def test_a_dense_source_refuses_a_region_outside_it():
    with pytest.raises(InputError, match="within batch=1 head=3 query=7 key=11"):
        DenseWeights(torch.rand(3, 7, 11)).window(Region(range(8), range(11)))


def test_a_summary_refuses_with_the_way_out():
    with pytest.raises(InputError, match="watch again with keep='windows' or keep='dense'"):
        SummaryOnly((3, 7, 11)).window(Region(range(7), range(11)))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_summary_knows_its_sizes(part):
    expected = cut(torch.zeros(HEADS, ROWS, COLUMNS), part).shape
    assert SummaryOnly((HEADS, ROWS, COLUMNS)).within(part).sizes == tuple(expected)


@pytest.mark.parametrize("dense", [False, True])
def test_rows_of_a_source_are_all_weights_of_a_run(dense):
    source = a_map().source
    expected = whole(source)[:, 3:8]
    found = DenseWeights(whole(source)) if dense else source
    torch.testing.assert_close(found.weights_of_rows(range(3, 8)), expected)


def test_rows_of_a_summary_are_refused_with_the_way_out():
    with pytest.raises(InputError, match="watch again with keep='windows' or keep='dense'"):
        SummaryOnly((3, 7, 11)).weights_of_rows(range(7))
