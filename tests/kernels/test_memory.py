"""Which tensors native code may read, and what the others get instead."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from regard.errors import InputError
from regard.kernels.memory import has_plain_memory, resolve
from regard.kernels.observe import ObserveOptions, Region, observe, received, window
from regard.masks import causal, tensor_bias


def sides(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    query, key, value = (torch.randn(shape or (1, 2, 5, 3)) for _ in range(3))
    return query, key, value


class Subclass(torch.Tensor):
    pass


def a_freed_tensor() -> torch.Tensor:
    tensor = torch.ones(3)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, device="meta"),
        torch.ones(3).as_subclass(Subclass),
        torch.ones(3).to_sparse(),
        FakeTensorMode().from_tensor(torch.ones(3)),
        torch._to_functional_tensor(torch.ones(3)),
        torch._efficientzerotensor(3),
        a_freed_tensor(),
    ],
    ids=["meta", "subclass", "sparse", "fake", "functional", "zero", "freed"],
)
def test_a_tensor_without_numbers_at_its_address_is_not_plain(tensor: torch.Tensor) -> None:
    assert has_plain_memory(torch.ones(3), None, torch.nn.Parameter(torch.ones(3)))
    assert not has_plain_memory(torch.ones(3), tensor)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_nothing_is_plain_where_torch_follows_the_operations() -> None:
    plain = torch.ones(3)
    with FakeTensorMode():
        assert not has_plain_memory(plain)
    with forward_ad.dual_level():
        assert not has_plain_memory(plain)
    seen: list[bool] = []
    torch.jit.trace(lambda x: (seen.append(has_plain_memory(plain)), x * 2)[1], plain)
    assert seen[0] is False
    assert has_plain_memory(plain)


@pytest.mark.usefixtures("unchecked")
def test_observing_fake_tensors_gives_fake_results() -> None:
    with FakeTensorMode() as mode:
        seen = observe(*sides(), mask=causal(), keep=ObserveOptions(top=2))
    assert seen.context.shape == (1, 2, 5, 3)
    assert seen.statistics.entropy.fake_mode is mode
    real = observe(*sides(), keep=ObserveOptions(atlas=1))
    assert not hasattr(real.atlas.mean, "fake_mode")


@pytest.mark.usefixtures("unchecked")
def test_fake_tensors_outside_of_their_mode_give_fake_results() -> None:
    mode = FakeTensorMode()
    query, key, value = (mode.from_tensor(side) for side in sides())
    seen = observe(query, key, value, mask=causal())
    assert seen.context.fake_mode is mode
    pooled = window(query, key, seen.lse, Region(range(5), range(5)), seen.scoring)
    assert pooled.mean.fake_mode is mode
    assert received(query, key, seen.lse, seen.scoring).total.fake_mode is mode


@pytest.mark.usefixtures("unchecked")
def test_meta_tensors_give_the_shapes_alone() -> None:
    seen = observe(*(side.to("meta") for side in sides()))
    assert seen.context.is_meta
    assert seen.context.shape == (1, 2, 5, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_traced_graph_computes_what_observe_computes(mode: str) -> None:
    def context(*inputs: torch.Tensor) -> torch.Tensor:
        return observe(*inputs, mask=causal()).context

    graph = make_fx(context, tracing_mode=mode)(*sides())
    others = sides()
    torch.testing.assert_close(graph(*others), context(*others))


@pytest.mark.usefixtures("unchecked")
def test_a_functionalized_call_computes_what_observe_computes() -> None:
    query, key, value = sides()
    context = torch.func.functionalize(lambda side: observe(side, key, value).context)(query)
    torch.testing.assert_close(context, observe(query, key, value).context)


@pytest.mark.filterwarnings("ignore:`torch.jit")  # torch's own use of it
@pytest.mark.usefixtures("unchecked")
def test_forward_mode_derivatives_reach_the_context() -> None:
    query, key, value = sides()

    def softmax(side: torch.Tensor) -> torch.Tensor:
        return torch.softmax(side @ key.mT / 3**0.5, -1) @ value

    expected = torch.func.jvp(softmax, (query,), (key,))[1]
    with forward_ad.dual_level():
        context = observe(forward_ad.make_dual(query, key), key, value).context
        torch.testing.assert_close(forward_ad.unpack_dual(context).tangent, expected)


@pytest.mark.usefixtures("unchecked")
def test_vmap_and_func_grad_are_refused_in_a_sentence() -> None:
    query, key, value = sides(2, 2, 5, 3)
    with pytest.raises(InputError, match=r"got some of torch\.vmap; call it once with all"):
        torch.vmap(lambda side: observe(side[None], key[:1], value[:1]).context)(query)
    with pytest.raises(InputError, match=r"got some of a transform of torch\.func; use torch\.aut"):
        torch.func.grad(lambda side: observe(side, key, value).context.sum())(query)


def test_a_negation_that_is_still_to_be_done_is_done() -> None:
    query, key, value = sides()
    numbers, logits = torch.randn(5, 5), torch.randn(2)
    expected = observe(query, key, value, bias=tensor_bias(numbers), sink=logits)
    query, key, value = (torch._neg_view(-side) for side in (query, key, value))
    bias, sink = tensor_bias(torch._neg_view(-numbers)), torch._neg_view(-logits)
    assert query.is_neg()
    seen = observe(query, key, value, bias=bias, sink=sink)
    torch.testing.assert_close(seen.context, expected.context)
    pooled = window(
        query, key, torch._neg_view(-seen.lse), Region(range(5), range(5)), seen.scoring
    )
    torch.testing.assert_close(pooled.mean.sum(1), 1 - expected.statistics.on_sink[0, 0])


def test_a_resolved_tensor_has_its_numbers_in_memory() -> None:
    negated = torch._neg_view(torch.arange(3.0))
    assert not resolve(negated).is_neg()
    assert torch.equal(resolve(negated), torch.tensor([-0.0, -1.0, -2.0]))
