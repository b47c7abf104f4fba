import pytest
import torch

from regard.errors import InputError
from regard.kernels.observe import ObserveOptions, Region, observe
from regard.masks import causal
from regard.types import AttentionMap, Axis, RecomputableWeights, SummaryOnly
from regard.types.pooling import pool_from_atlas

ROWS, COLUMNS, DIM = 211, 307, 5
RECTANGLES = [
    (range(ROWS), range(COLUMNS)),
    (range(64, 160), range(32, 256)),
    (range(96, ROWS), range(32)),
    (range(16, 32), range(288, COLUMNS)),
]


def long_map(rows=ROWS, columns=COLUMNS, mask=None):
    """A map whose atlas has cells of 16 x 32."""
    query, key = torch.randn(1, 2, rows, DIM), torch.randn(1, 2, columns, DIM)
    seen = observe(query, key, key, keep=ObserveOptions(atlas=16), mask=mask)
    parts = vars(seen.atlas)
    return AttentionMap(
        "h.0",
        "cross",
        Axis("target", tuple(range(rows))),
        Axis("source", tuple(range(columns))),
        RecomputableWeights(query[0], key[0], seen.lse[0], seen.scoring),
        atlas=type(seen.atlas)(**parts | {name: parts[name][0] for name in ("mean", "largest")}),
    )


@pytest.mark.parametrize("mask", [None, causal()], ids=str)
@pytest.mark.parametrize(("rows", "columns"), RECTANGLES)
@pytest.mark.parametrize("zoom", [32, 64, 96, 512])
def test_a_window_from_the_atlas_is_the_one_computed_again(zoom, rows, columns, mask):
    each = long_map(mask=mask)
    region = Region(rows, columns, 1, 0, zoom)
    found, expected = (
        pool_from_atlas(each.atlas, region, (ROWS, COLUMNS)),
        each.source.window(region),
    )
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found.largest, expected.largest, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("rows", "columns", "zoom"),
    [
        (range(ROWS), range(COLUMNS), 16),
        (range(ROWS), range(COLUMNS), 48),
        (range(8, 64), range(64), 32),
        (range(64), range(16, 64), 32),
        (range(63), range(64), 32),
        (range(64), range(63), 32),
        (range(32, 32), range(64), 32),
    ],
)
def test_cells_that_do_not_fit_answer_nothing(rows, columns, zoom):
    atlas = long_map().atlas
    assert (atlas.rows, atlas.columns) == (16, 32)
    assert pool_from_atlas(atlas, Region(rows, columns, 0, 0, zoom), (ROWS, COLUMNS)) is None


def test_a_map_reads_off_its_atlas_what_it_can():
    summary = long_map()
    object.__setattr__(summary, "source", SummaryOnly(summary.shape))
    assert summary.window(1, range(ROWS), range(COLUMNS), 32).mean.shape == (7, 10)
    with pytest.raises(InputError, match="keeps only statistics and an atlas"):
        summary.window(1, range(ROWS), range(COLUMNS), 8)


def test_a_map_computes_again_what_its_atlas_cannot_answer():
    each = long_map()
    found = each.window(0, range(3, 100), range(7, 200), 32)
    expected = each.source.window(Region(range(3, 100), range(7, 200), 0, 0, 32))
    assert torch.equal(found.mean, expected.mean)


@pytest.mark.parametrize("rows", [range(224), range(0, 64, 2), range(-32, 32)])
def test_rows_outside_the_map_are_refused_before_the_atlas_is_asked(rows):
    with pytest.raises(InputError, match="expected a region within batch=1 head=2 query=211"):
        long_map().window(0, rows, range(32), 32)


def test_what_was_read_off_does_not_share_the_atlas_s_memory():
    each = long_map(rows=COLUMNS)  # cells of 32 on both sides
    mean, largest = each.atlas.mean.clone(), each.atlas.largest.clone()
    found = each.window(0, range(COLUMNS), range(COLUMNS), 32)
    found.mean.zero_()
    found.largest.zero_()
    assert torch.equal(each.atlas.mean, mean)
    assert torch.equal(each.atlas.largest, largest)
