import numpy as np
import pytest

from regard.views import colours


def luma(found: np.ndarray) -> np.ndarray:
    linear = np.where(found <= 10.3, found / 3294.6, ((found / 255 + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("ramp", "sign"), [(colours.light, -1), (colours.dark, 1)])
def test_more_weight_is_always_darker_on_paper_and_brighter_on_a_screen(ramp, sign):
    steps = sign * np.diff(luma(ramp(np.linspace(0, 1, 41))))
    assert steps.min() > 0
    assert steps.max() < 2 * steps.min()  # even to the eye


def test_no_weight_is_nearly_the_colour_of_paper():
    assert colours.light(0.0).min() > 245


def test_a_difference_of_nothing_has_no_hue():
    assert np.ptp(colours.signed(0.0).astype(int)) <= 3
    blue, orange = colours.signed(-1.0).astype(int), colours.signed(1.0).astype(int)
    assert blue[2] > blue[0] + 60
    assert orange[0] > orange[2] + 60


def test_letters_on_a_dark_colour_are_to_be_light():
    assert colours.is_dim(colours.light(1.0))
    assert not colours.is_dim(colours.light(0.2))


def test_heads_beyond_the_last_colour_begin_anew():
    assert len({colours.head_colour(head) for head in range(12)}) == 12
    assert colours.head_colour(12) == colours.head_colour(0)
