import pytest

from regard.errors import InputError
from regard.kernels.observe import ObserveOptions
from regard.kernels.observe.observation import cell_side


@pytest.mark.parametrize("name", ["top", "atlas"])
def test_a_negative_number_to_keep_is_refused(name: str) -> None:
    with pytest.raises(
        InputError, match=rf"ObserveOptions\({name}=...\) expected .* at least 0, got -1"
    ):
        ObserveOptions(**{name: -1})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", [2**31, 2**64, 1.5])
def test_a_number_to_keep_that_is_not_whole_or_too_large_is_refused(number: float) -> None:
    with pytest.raises(
        InputError, match=r"expected a whole number below 2\*\*31 and at least 0, got"
    ):
        ObserveOptions(top=number)


@pytest.mark.parametrize(
    ("length", "most", "side"),
    [
        (1, 512, 8),
        (4096, 512, 8),
        (4097, 512, 16),
        (32768, 512, 64),
        (32768, 1024, 32),
        (11, 1, 16),
    ],
)
def test_cells_are_the_smallest_that_are_few_enough(length: int, most: int, side: int) -> None:
    assert cell_side(length, most) == side
