import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.kernels.observe import Scoring, observe
from regard.kernels.observe.call import Call
from regard.masks import lengths, tensor_bias

A = torch.zeros


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 5, 7), (3, 5, 7), (3, 5, 7)), r"with the axes \(batch head length dim\), got query"),
        (((2, 3, 5, 7), (1, 3, 5, 7), (1, 3, 5, 7)), "expected one batch size, and keys and"),
        (((2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 11, 7)), "values of the same heads and length"),
        (((2, 3, 5, 7), (2, 3, 5, 11), (2, 3, 5, 7)), "queries and keys of one width, got query"),
        (((2, 3, 5, 7), (2, 2, 5, 7), (2, 2, 5, 7)), "key heads to divide that of query heads"),
        (((2, 0, 5, 7), (2, 2, 5, 7), (2, 2, 5, 7)), "key heads to divide that of query heads"),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(
    shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        observe(*(A(shape) for shape in shapes))


def test_one_dtype_is_expected() -> None:
    query, key = A(1, 1, 3, 5), A(1, 1, 3, 5).double()
    with pytest.raises(InputError, match=r"of one floating-point dtype .* got torch.float32 on"):
        observe(query, key, key)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"sink": A(5)}, r"a sink with one logit for each of the 2 heads, got shape \(5,\)"),
        ({"softcap": 0.0}, "expected a softcap above 0, got 0.0; None leaves scores uncapped"),
        ({"padded": A(1, 11)}, r"padded to be boolean .*, got torch.float32 \(1, 11\)"),
        ({"offset": 2**62}, r"an offset that is a whole number between -2\*\*62 and 2\*\*62, got"),
        ({"offset": -(2**64)}, "an offset that is a whole number between"),
        ({"offset": 1.5}, "an offset that is a whole number .* got 1.5; it is the position"),
        ({"mask": lengths([1, 2, 3])}, "lengths should have shape"),
        ({"bias": tensor_bias(A(3, 7))}, "the bias should broadcast to"),
        (
            {"padded": A(1, 7) > 0},
            r"padded to be boolean with the axes \(batch key\) = \(1, 11\), got",
        ),
    ],
)
def test_terms_that_do_not_fit_are_refused(terms: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        observe(A(1, 2, 3, 5), A(1, 2, 11, 5), A(1, 2, 11, 5), **terms)


def test_keys_that_int32_cannot_number_are_refused() -> None:
    key = A(1, 1, 1, 1).expand(1, 1, 2**31, 1)
    with pytest.raises(ShapeError, match=r"expected fewer than 2\*\*31 keys, got query"):
        Call(A(1, 1, 1, 1), key, key, Scoring())


def test_the_usual_scale_is_one_over_the_root_of_the_width() -> None:
    side = A(1, 1, 3, 16)
    assert Call(side, side, side, Scoring()).scale == 0.25
