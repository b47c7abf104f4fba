import pytest
import torch
from torch._subclasses import FakeTensorMode

from regard.errors import ShapeError
from regard.kernels.decode import matvec
from regard.kernels.decode.matvec import MAX_MATVEC_ROWS, native_matvec, supports_matvec
from regard.kernels.observe.choice import Implementation


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 11, MAX_MATVEC_ROWS])
@pytest.mark.parametrize(("outs", "dim"), [(1, 1), (3, 17), (67, 5), (131, 64), (1031, 97)])
def test_the_product_is_that_of_torch(native: Implementation, rows, outs, dim):
    x, weight, bias = torch.randn(rows, dim), torch.randn(outs, dim), torch.randn(outs)
    wanted = x.double() @ weight.double().t() + bias.double()
    torch.testing.assert_close(
        native_matvec(x, weight, bias).double(), wanted, atol=1e-4, rtol=1e-5
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_it_is_the_same_on_any_number_of_threads(native: Implementation, threads):
    x, weight = torch.randn(5, 131), torch.randn(4099, 131)
    before = torch.get_num_threads()
    one = native_matvec(x, weight, None)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(native_matvec(x, weight, None), one)
    finally:
        torch.set_num_threads(before)


def test_rows_with_gaps_are_read_as_they_are(native: Implementation):
    wide, weight = torch.randn(3, 29), torch.randn(7, 13)
    x = wide[:, 5:18]
    torch.testing.assert_close(native_matvec(x, weight, None), x @ weight.t())


def test_nan_and_infinity_are_kept(native: Implementation):
    x = torch.ones(2, 19)
    x[0, 3], x[1, 5] = torch.nan, torch.inf
    y = native_matvec(x, torch.ones(3, 19), None)
    assert y[0].isnan().all()
    assert y[1].isposinf().all()


def test_only_whole_matrices_of_single_precision_are_taken(native: Implementation):
    assert supports_matvec(torch.zeros(3, 5))
    assert not supports_matvec(torch.zeros(3, 5).double())
    assert not supports_matvec(torch.zeros(5, 3).t())


def test_where_it_is_not_built_nothing_is_taken(monkeypatch):
    monkeypatch.setattr(matvec, "library", lambda: None)
    matvec.load_matvec.cache_clear()
    assert not supports_matvec(torch.zeros(3, 5))
    matvec.load_matvec.cache_clear()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("x", "bias"),
    [
        (torch.zeros(2, 7), None),
        (torch.zeros(2, 5).double(), None),
        (torch.zeros(2, 5), torch.zeros(7)),
        (torch.zeros(2, 5), torch.zeros(3).double()),
        (torch.zeros(5), None),
    ],
    ids=["width", "dtype", "bias", "dtype of the bias", "axes"],
)
def test_rows_that_do_not_fit_the_matrix_are_refused(native: Implementation, x, bias):
    with pytest.raises(ShapeError, match=r"a native product expected float32 rows \(row dim\) on"):
        native_matvec(x, torch.zeros(3, 5), bias)


@pytest.mark.parametrize(("rows", "dim", "outs"), [(0, 5, 3), (2, 0, 3), (2, 5, 0)])
def test_an_axis_may_be_empty(native: Implementation, rows, dim, outs):
    bias = torch.randn(outs)
    y = native_matvec(torch.zeros(rows, dim), torch.zeros(outs, dim), bias)
    assert torch.equal(y, bias.expand(rows, outs))


def test_a_lazy_negation_is_read_as_it_is(native: Implementation):
    x, weight, bias = torch.randn(2, 5), torch.randn(3, 5), torch.randn(6)[::2]
    assert not supports_matvec(torch._neg_view(weight))
    y = native_matvec(torch._neg_view(-x), weight, torch._neg_view(-bias))
    torch.testing.assert_close(y, x @ weight.t() + bias)


@pytest.mark.usefixtures("unchecked")
def test_fake_rows_give_fake_products(native: Implementation):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert not supports_matvec(torch.zeros(3, 5))
        assert native_matvec(torch.zeros(2, 5), torch.zeros(3, 5), None).fake_mode is mode
