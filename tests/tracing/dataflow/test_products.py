"""What a product sums over, and where the rest goes, told for every way to write it."""

import pytest
import torch

from regard.tracing.dataflow.products import product_of

LEFT, RIGHT = torch.zeros(2, 3, 5, 7), torch.zeros(2, 3, 7, 11)

WAYS = [
    ("matmul", (LEFT, RIGHT)),
    ("bmm", (LEFT[0], RIGHT[0])),
    ("baddbmm", (torch.zeros(1), LEFT[0], RIGHT[0])),
    ("__rmatmul__", (RIGHT, LEFT)),
    ("mm", (LEFT[0, 0], RIGHT[0, 0])),
    ("einsum", ("bhik,bhkj->bhij", LEFT, RIGHT)),
    ("einsum", ("...ik,...kj->...ij", LEFT, RIGHT)),
    ("einsum", ("... i k, ... k j -> ... i j", (LEFT, RIGHT))),
    ("einsum", ("ik,kj", LEFT[0, 0], RIGHT[0, 0])),
]


@pytest.mark.parametrize(("name", "args"), WAYS, ids=str)
def test_rows_and_columns_stay_and_what_is_between_is_summed(name, args):
    product = product_of(name, args)
    left, right = product.sides
    assert (left.summed, right.summed) == ((-1,), (-2,))
    assert (left.own, right.own) == (-2, -1)
    assert (left.move(-2), right.move(-1), left.move(-1)) == (-2, -1, 0)


def test_a_linear_map_by_a_tensor_is_a_product_with_it_turned():
    left, right = product_of("linear", (LEFT, torch.zeros(11, 7))).sides
    assert (left.summed, right.summed, right.own) == ((-1,), (-1,), -1)


def test_a_vector_leaves_no_axis():
    left, right = product_of("matmul", (LEFT, torch.zeros(7))).sides
    assert (left.move(-2), right.own) == (-1, None)


def test_heads_of_one_side_alone_are_not_its_vectors():
    left, _ = product_of("einsum", ("bhqd,bkd->bhqk", LEFT, torch.zeros(2, 11, 7))).sides
    assert left.owns == (-3, -2)
    assert left.own == -2


@pytest.mark.parametrize(
    "args",
    [("bij->bji", LEFT[0]), ("i,i,i->i", *(torch.zeros(3),) * 3), (LEFT, [0, 1, 2, 3], RIGHT)],
    ids=["one", "three", "lists"],
)
def test_what_is_not_two_tensors_and_an_equation_is_no_product(args):
    assert product_of("einsum", args) is None
