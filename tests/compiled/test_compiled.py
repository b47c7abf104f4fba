"""Everything runs as one graph of the compiler; `make test` runs this without shape checks."""

import os

import pytest
import torch

import regard
from attention.cases import Case
from regard.attention import catalog
from regard.masks import causal, explicit, lengths, padding, segments, window

pytestmark = pytest.mark.skipif(
    os.environ.get("REGARD_CHECK_SHAPES", "1") == "1",
    reason="the compiler cannot look through shape checks; run with REGARD_CHECK_SHAPES=0",
)


def compiled(function):
    torch.compiler.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("name", list(catalog))
def test_every_mechanism_is_one_graph(name):
    case = Case(name)
    inputs = case.inputs()
    module = compiled(case.module)
    context = module(*inputs, lengths([5, 7]))
    torch.testing.assert_close(context, case.context(inputs, lengths([5, 7])))


@pytest.mark.parametrize(
    "name", [name for name in catalog if name not in ("hard", "straight-through")]
)
def test_gradients_pass_through_the_graph(name):
    case = Case(name)
    inputs = case.inputs()
    grads = []
    for run in (case.module, compiled(case.module)):
        sides = [side.clone().requires_grad_() for side in inputs]
        run(*sides, causal()).square().sum().backward()
        grads.append([side.grad for side in sides])
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(
    "mask",
    [
        causal(),
        window(3, 1),
        causal() & lengths([50, 90]),
        ~window(2, 2) | padding(torch.arange(180).view(2, 90) % 3 > 0),
        segments(torch.arange(180).view(2, 90) // 7),
        explicit(torch.arange(8100).view(90, 90) % 5 > 1),
    ],
    ids=str,
)
def test_every_mask_is_part_of_the_graph(mask):
    query, key, value = (torch.randn(2, 3, 90, 8) for _ in range(3))

    def run(query, key, value):
        return regard.attend(query, key, value, mask=mask, offset=0)

    torch.testing.assert_close(compiled(run)(query, key, value), run(query, key, value))


@pytest.mark.parametrize("name", ["hard", "straight-through"])
def test_sampling_is_part_of_the_graph(name):
    case = Case(name)
    case.module.train()
    inputs = case.inputs()

    def run(query, key, value):
        choice = regard.choose(query, key, value, case.module)
        return choice.context, choice.index, choice.log_probability

    context, index, log = compiled(run)(*inputs)
    assert torch.equal(context, inputs.value.gather(2, index[..., None].expand_as(context)))
    assert (log <= 0).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # inside inductor
@pytest.mark.parametrize("name", ["scaled-dot", "additive", "sliding-window", "entmax"])
def test_the_real_backend_gives_the_same(name):
    case = Case(name)
    inputs = case.inputs()
    torch.compiler.reset()
    module = torch.compile(case.module, fullgraph=True)
    torch.testing.assert_close(module(*inputs), case.context(inputs))
