"""An axis is found again, wherever a function puts it: compared with numbers that know theirs."""

import pytest
import torch
from torch import Tensor

from regard.tracing.dataflow.axis_moves import LAYOUTS, merged_axis, split_axis
from regard.tracing.dataflow.origins import LOST

SIZES = (2, 3, 5, 7)

CALLS = [
    ("transpose", (1, 3)),
    ("transpose", (-1, -3)),
    ("swapaxes", (0, 2)),
    ("permute", (3, 0, 2, 1)),
    ("permute", ((1, 2, 3, 0),)),
    ("movedim", (1, 3)),
    ("unsqueeze", (2,)),
    ("unsqueeze", (-1,)),
    ("reshape", (2, 3, 5, 7, 1)),
    ("reshape", (6, 5, 7)),
    ("view", (2, 3, 35)),
    ("flatten", (1, 2)),
    ("unflatten", (0, (1, 2))),
    ("expand", (11, 2, 3, 5, 7)),
    ("repeat", (1, 1, 1, 1)),
    ("split", (2, 3)),
    ("chunk", (3, 2)),
    ("narrow", (1, 0, 2)),
    ("select", (1, 2)),
    ("unbind", (2,)),
    ("__getitem__", ((slice(None), 0),)),
    ("__getitem__", ((Ellipsis, slice(1, 4)),)),
    ("__getitem__", ((None, slice(None), 1, None),)),
    ("__getitem__", ((slice(None), slice(None), torch.tensor([3, 1])),)),
    ("__getitem__", (1,)),
]


def steps(source: Tensor, axis: int) -> Tensor:
    """A tensor in which each number is its place on one axis."""
    shape = [1] * source.dim()
    shape[axis] = source.shape[axis]
    return torch.arange(source.shape[axis]).view(shape).expand(source.shape).contiguous()


def found_by_numbers(result: Tensor, size: int) -> int | None:
    """The axis along which numbers go up one by one, from the first or a later one."""
    for place in range(-1, -result.dim() - 1, -1):
        count = result.shape[place]
        if count > 1 and bool((result.diff(dim=place) == 1).all()):
            return place
    return None


@pytest.mark.parametrize(("name", "args"), CALLS, ids=str)
@pytest.mark.parametrize("axis", [-4, -3, -2, -1])
def test_an_axis_is_where_its_numbers_are(name, args, axis):
    source = torch.zeros(SIZES)
    numbers = getattr(torch.Tensor, name)(steps(source, axis), *args)
    result = numbers if isinstance(numbers, Tensor) else numbers[0]
    expected = found_by_numbers(result, SIZES[axis])
    found = LAYOUTS[name]((name, (source, *args), {}, result), source, axis)
    assert (found or None) == expected


@pytest.mark.parametrize(("args", "expected"), [((), -1), ((2,), -1), ((0,), -2), ((-2,), -2)])
def test_axes_of_one_that_go_shift_the_others(args, expected):
    source = torch.zeros(1, 5, 1)
    call = ("squeeze", (source, *args), {}, source.squeeze(*args))
    assert LAYOUTS["squeeze"](call, source, -2) == expected


def test_an_axis_that_is_squeezed_away_is_gone():
    source = torch.zeros(3, 1, 5)
    call = ("squeeze", (source, 1), {}, source.squeeze(1))
    assert LAYOUTS["squeeze"](call, source, -2) is None


@pytest.mark.parametrize("name", ["mT", "T", "t"])
def test_a_matrix_is_turned(name):
    source = torch.zeros(3, 5)
    assert LAYOUTS[name]((name, (source,), {}, source.T), source, -1) == -2


def test_tokens_that_are_there_twice_are_lost():
    source = torch.zeros(2, 3, 5)
    call = ("repeat", (source, 1, 2, 1), {}, source.repeat(1, 2, 1))
    assert LAYOUTS["repeat"](call, source, -2) == LOST


def test_every_second_token_is_not_the_stream():
    source = torch.zeros(2, 7, 5)
    index = (slice(None), slice(None, None, 2))
    call = ("__getitem__", (source, index), {}, source[index])
    assert LAYOUTS["__getitem__"](call, source, -2) == LOST


def test_two_axes_become_one_and_two_again():
    grid, row = torch.zeros(2, 3, 5, 7), torch.zeros(2, 15, 7)
    assert merged_axis(grid, row, -2) == -2
    assert split_axis(row, grid, -2) == -2
    assert split_axis(row, grid, -2, count=3) == LOST


@pytest.mark.parametrize("axis", [-2, -1])
def test_axes_of_size_one_stay_apart_where_a_reshape_folds_heads(axis):
    """The weights of a first decoding step: one query, one key."""
    weights, folded = torch.ones(2, 3, 1, 1), torch.ones(6, 1, 1)
    for source, result in ((weights, folded), (folded, weights)):
        assert LAYOUTS["view"](("view", (), {}, result), source, axis) == axis
