import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.kernels.observe import ObserveOptions, observe
from regard.kernels.observe.call import Call, Scoring
from regard.kernels.observe.choice import NATIVE, Implementation
from regard.kernels.observe.gradient import differentiable
from regard.masks import causal, explicit, t5_buckets, tensor_bias, window

from .cases import a_call
from .reference import reference, rounding


def tensors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(3)
    shapes = [(2, 6, 7, 5), (2, 3, 11, 5), (2, 3, 11, 2), (6,), (1, 6, 7, 11), (8, 6)]
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


MASKS = {
    "none": None,
    "causal": causal(),
    "band": window(3.0, 2.0),
    "explicit": explicit(torch.arange(77).view(7, 11) % 3 > 0),
    "rows that see nothing": explicit((torch.arange(7) > 2)[:, None].expand(7, 11)),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_slopes_are_those_of_finite_differences(mask: str, softcap: float | None) -> None:
    query, key, value, sink, added, table = tensors()

    def attention(*sources: Tensor) -> Tensor:
        query, key, value, sink, added, table = sources
        bias = tensor_bias(added) + t5_buckets(table)
        seen = observe(
            query, key, value, mask=MASKS[mask], bias=bias, softcap=softcap, sink=sink, offset=3
        )
        return seen.context

    assert torch.autograd.gradcheck(
        attention, (query, key, value, sink, added, table), fast_mode=True
    )


@pytest.mark.parametrize("mask", ["none", "causal", "rows that see nothing"])
def test_second_derivatives_are_those_of_finite_differences(mask: str) -> None:
    query, key, value, sink, added, _ = tensors()

    def attention(*sources: Tensor) -> Tensor:
        query, key, value, sink, added = sources
        bias = tensor_bias(added)
        return observe(query, key, value, mask=MASKS[mask], bias=bias, sink=sink).context

    sources = (query, key, value, sink, added)
    assert torch.autograd.gradgradcheck(attention, sources, fast_mode=True)


def test_second_derivatives_of_one_tensor_on_all_sides_are_counted_once() -> None:
    side = tensors()[1]

    def attention(side: Tensor) -> Tensor:
        return observe(side, side.mul(2), side).context

    assert torch.autograd.gradgradcheck(attention, (side,), fast_mode=True)


@given(seed=st.integers(0, 10**9))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_slopes_after_either_kernel_are_those_of_the_reference(
    implementation: Implementation, seed: int
) -> None:
    call = a_call(seed)
    sources = [call.query, call.key, call.value]
    if call.scoring.sink is not None:
        sources.append(call.scoring.sink)
    for source in sources:
        source.requires_grad_()
    seen = differentiable(call, lambda: implementation.observe(call, ObserveOptions()))
    wanted = reference(call)
    direction = torch.randn(seen.context.shape)
    got = torch.autograd.grad(seen.context, sources, direction)
    expected = torch.autograd.grad(wanted.context, sources, direction.double())
    large = rounding(call, wanted.lse)
    for one, two in zip(got, expected, strict=True):
        room = 1e-4 * large * max(1.0, two.abs().max().item())
        torch.testing.assert_close(one, two, rtol=0, atol=room)


def test_a_bias_learns_through_its_own_form_in_native(native: Implementation) -> None:
    query, key, value, sink, _, table = tensors(torch.float32)
    bias = t5_buckets(table) + tensor_bias(torch.zeros(1, 1, 1, 11, requires_grad=True))
    call = Call(query, key, value, Scoring(bias=bias, sink=sink))
    for run in (differentiable(call, lambda: NATIVE.observe(call, ObserveOptions())).context,):
        [got] = torch.autograd.grad(run.square().sum(), [table])
        [wanted] = torch.autograd.grad(reference(call).context.square().sum(), [table])
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_numbers_about_the_context_carry_no_gradient() -> None:
    query, key, value, *_ = tensors()
    seen = observe(query, key, value)
    assert seen.context.requires_grad
    assert not seen.lse.requires_grad
    assert not seen.statistics.entropy.requires_grad


def test_without_a_wish_for_gradients_there_is_no_graph() -> None:
    query, key, value, *_ = tensors()
    with torch.no_grad():
        assert not observe(query, key, value).context.requires_grad


def test_a_source_changed_in_place_is_noticed() -> None:
    query, key, value, *_ = tensors()
    changed = value * 1
    context = observe(query, key, changed).context
    changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        context.sum().backward()
