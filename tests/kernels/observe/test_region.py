import pytest

from regard.errors import InputError
from regard.kernels.observe.region import Region, cell_counts


def test_the_last_cell_may_be_partial() -> None:
    assert cell_counts(11, 4).tolist() == [4, 4, 3]
    assert cell_counts(8, 4).tolist() == [4, 4]


def test_cells_cover_the_region() -> None:
    assert Region(range(3, 14), range(5), zoom=4).cells == (3, 2)


@pytest.mark.usefixtures("unchecked")
def test_a_zoom_that_is_not_whole_is_refused() -> None:
    with pytest.raises(InputError, match=r"expected a zoom of at least 1, got 1\.5; give a whole"):
        Region(range(3), range(3), zoom=1.5).check(1, 1, 3, 3)
