import pytest
import torch
from torch._subclasses import FakeTensorMode

from regard.errors import ShapeError
from regard.kernels.decode import int8
from regard.kernels.decode.int8 import native_int8_matvec, supports_int8_matvec
from regard.kernels.observe.choice import Implementation


def rounded(x):
    """Each row as whole numbers times its scale: what the kernel multiplies."""
    scale = x.abs().amax(dim=1, keepdim=True) / 127
    return (x / scale + 0.5).floor() * scale


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 11, 83])
@pytest.mark.parametrize(("outs", "dim"), [(1, 1), (3, 17), (67, 64), (131, 193), (1031, 97)])
def test_the_product_is_that_of_the_rounded_numbers(native: Implementation, rows, outs, dim):
    x, scale, bias = torch.randn(rows, dim), torch.rand(outs) + 0.1, torch.randn(outs)
    weight = torch.randint(-127, 128, (outs, dim), dtype=torch.int8)
    wanted = rounded(x.double()) @ (weight.double() * scale[:, None].double()).t() + bias
    found = native_int8_matvec(x, weight, scale, bias)
    # a number midway between two may go either way
    torch.testing.assert_close(found.double(), wanted, atol=0.02 * dim, rtol=1e-3)


def test_whole_numbers_are_multiplied_exactly(native: Implementation):
    x = torch.randint(-127, 128, (7, 131)).float()
    x[:, 0] = 127.0
    weight = torch.randint(-128, 128, (29, 131), dtype=torch.int8)
    found = native_int8_matvec(x, weight, torch.ones(29), None)
    assert torch.equal(found, x @ weight.float().t())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_bytes_are_the_same_on_any_number_of_threads(native: Implementation, threads):
    x, weight = torch.randn(5, 131), torch.randint(-9, 9, (4099, 131), dtype=torch.int8)
    before, scale = torch.get_num_threads(), torch.ones(4099)
    one = native_int8_matvec(x, weight, scale, None)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(native_int8_matvec(x, weight, scale, None), one)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [3, 18])
def test_a_row_with_no_number_gives_none_and_spares_the_others(native: Implementation, bad, place):
    x = torch.ones(2, 19)
    x[0, place] = bad
    y = native_int8_matvec(x, torch.ones(3, 19, dtype=torch.int8), torch.ones(3), None)
    assert y[0].isnan().all()
    assert torch.equal(y[1], torch.full((3,), 19.0))


def test_a_row_of_zeros_gives_the_bias(native: Implementation):
    weight, bias = torch.ones(3, 19, dtype=torch.int8), torch.randn(3)
    assert torch.equal(native_int8_matvec(torch.zeros(1, 19), weight, torch.ones(3), bias)[0], bias)


def test_where_they_are_not_built_no_bytes_are_taken(monkeypatch):
    weight, scale = torch.zeros(3, 5, dtype=torch.int8), torch.ones(3)
    monkeypatch.setattr(int8, "library", lambda: None)
    int8.load_int8_matvec.cache_clear()
    assert not supports_int8_matvec(weight, scale)
    int8.load_int8_matvec.cache_clear()


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-30, 1e30, 1e37])
def test_rows_of_any_size_are_rounded_to_their_own_scale(native: Implementation, size):
    x = torch.full((1, 19), size)
    y = native_int8_matvec(x, torch.ones(3, 19, dtype=torch.int8), torch.ones(3), None)
    expected = torch.full((1, 3), 19 * size)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-35)


def test_rows_so_long_that_a_sum_could_overflow_are_not_taken(native: Implementation):
    scale = torch.ones(1)
    assert supports_int8_matvec(torch.ones(1, 1 << 17, dtype=torch.int8), scale)
    assert not supports_int8_matvec(torch.ones(1, (1 << 17) + 1, dtype=torch.int8), scale)
    x, weight = torch.ones(1, 1 << 17), torch.full((1, 1 << 17), 127, dtype=torch.int8)
    assert native_int8_matvec(x, weight, scale, None).item() == pytest.approx(127.0 * (1 << 17))


def test_scales_that_native_code_cannot_read_are_not_taken(native: Implementation):
    weight, scale = torch.ones(3, 5, dtype=torch.int8), torch.ones(6)
    assert not supports_int8_matvec(weight, scale[::2])
    assert not supports_int8_matvec(weight, torch._neg_view(scale[:3]))


@pytest.mark.usefixtures("unchecked")
def test_scales_that_do_not_fit_are_refused(native: Implementation):
    weight = torch.ones(3, 5, dtype=torch.int8)
    with pytest.raises(ShapeError, match="scales and a float32 bias"):
        native_int8_matvec(torch.ones(2, 5), weight, torch.ones(2), None)


@pytest.mark.usefixtures("unchecked")
def test_fake_rows_give_fake_bytes_products(native: Implementation):
    weight, scale = torch.ones(3, 5, dtype=torch.int8), torch.ones(3)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert not supports_int8_matvec(weight, scale)
        assert native_int8_matvec(torch.ones(2, 5), weight, scale, None).fake_mode is mode
