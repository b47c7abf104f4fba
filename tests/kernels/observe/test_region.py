from regard.kernels.observe.region import Region, cell_counts


def test_the_last_cell_may_be_partial() -> None:
    assert cell_counts(11, 4).tolist() == [4, 4, 3]
    assert cell_counts(8, 4).tolist() == [4, 4]


def test_cells_cover_the_region() -> None:
    assert Region(range(3, 14), range(5), zoom=4).cells == (3, 2)
