"""Laws over the whole catalog; an entry that breaks one says so, and must really break it."""

import pytest
import torch

from attention.cases import BATCH, KEYS, QUERIES, Case, breaking, obeying
from regard.attention import catalog
from regard.attention.entry import LAWS
from regard.masks import causal, explicit, lengths, padding

TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 4e-3}


def partly_seen():
    """A mask that hides some keys from everyone and keeps some for every query."""
    return lengths([KEYS - 2, KEYS])


def hiding():
    """Keys 1 and 3 of the first example are hidden."""
    real = torch.ones(BATCH, KEYS, dtype=torch.bool)
    real[0, [1, 3]] = False
    return padding(real)


def with_an_empty_row():
    seen = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    seen[2] = False
    return explicit(seen)


def test_every_exception_names_a_law():
    assert all(set(entry.breaks) <= set(LAWS) for entry in catalog.values())


@pytest.mark.parametrize("name", obeying("sums to one"))
def test_weights_are_not_negative_and_sum_to_one(name):
    case = Case(name)
    weights = case.weights(case.inputs(), partly_seen())
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@pytest.mark.parametrize("name", list(catalog))
def test_the_module_declares_the_row_sum_that_its_entry_declares(name):
    module = Case(name).module
    assert (module.row_sum == "one") == ("sums to one" not in catalog[name].breaks)


@pytest.mark.parametrize("name", breaking("sums to one"))
def test_weights_that_are_declared_not_to_sum_to_one_do_not(name):
    case = Case(name)
    weights = case.weights(case.inputs())
    sums = weights.sum(-1)
    assert (weights >= 0).all()
    if case.module.row_sum == "at most one":
        assert (sums <= 1).all()
        assert sums.min() < 0.9
    else:
        assert (sums - 1).abs().max() > 0.1


@pytest.mark.parametrize("name", list(catalog))
def test_one_key_gets_all_the_weight_where_it_is_declared_and_only_there(name):
    case = Case(name)
    weights = case.weights(case.inputs())
    assert bool((weights.amax(-1) == weights.sum(-1)).all()) == case.module.one_hot


@pytest.mark.parametrize("name", obeying("masked key"))
def test_a_masked_key_gets_exactly_zero_weight(name):
    case = Case(name)
    weights = case.weights(case.inputs(), hiding())
    assert (weights[0, ..., [1, 3]] == 0).all()
    assert (weights[1, ..., [1, 3]] != 0).any()


@pytest.mark.parametrize("name", obeying("masked key"))
def test_no_gradient_reaches_a_masked_key(name):
    case = Case(name)
    inputs = case.inputs()
    inputs.key.requires_grad_()
    inputs.value.requires_grad_()
    case.context(inputs, hiding()).square().sum().backward()
    for side in (inputs.key, inputs.value):
        assert side.grad is None or (side.grad[0, ..., [1, 3], :] == 0).all()
    assert (inputs.value.grad[1, ..., [1, 3], :] != 0).any()


@pytest.mark.parametrize("name", obeying("empty row"))
def test_a_row_that_sees_nothing_is_zeros_forward(name):
    case = Case(name)
    context = case.context(case.inputs(), with_an_empty_row())
    assert (context[..., 2, :] == 0).all()
    assert (context[..., 3, :] != 0).any()


@pytest.mark.parametrize("name", list(catalog))
def test_a_row_that_sees_nothing_has_no_nan_in_its_gradients(name):
    case = Case(name)
    inputs = case.inputs()
    for side in inputs:
        side.requires_grad_()
    (case.context(inputs, with_an_empty_row())[..., 2, :].sum()).backward()
    for side in (*inputs, *case.module.parameters()):
        assert side.grad is None or side.grad.isfinite().all()
    assert inputs.query.grad is None or (inputs.query.grad == 0).all()


@pytest.mark.parametrize("name", breaking("empty row"))
def test_a_row_that_sees_nothing_is_said_to_be_other_than_zeros(name):
    case = Case(name)
    assert (case.context(case.inputs(), with_an_empty_row())[..., 2, :] != 0).any()
    assert (case.weights(case.inputs(), with_an_empty_row())[..., 2, :] == 0).all()


def permuted(inputs):
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    return type(inputs)(inputs.query, inputs.key[..., order, :], inputs.value[..., order, :])


@pytest.mark.parametrize("name", obeying("permutation"))
def test_permuting_keys_and_values_together_changes_nothing(name):
    case = Case(name)
    inputs = case.inputs()
    torch.testing.assert_close(case.context(inputs), case.context(permuted(inputs)))


@pytest.mark.parametrize("name", breaking("permutation"))
def test_where_position_counts_permuting_keys_changes_the_context(name):
    case = Case(name)
    inputs = case.inputs()
    assert not torch.allclose(case.context(inputs), case.context(permuted(inputs)))


@pytest.mark.parametrize("name", obeying("padding"))
def test_an_example_alone_equals_itself_in_a_padded_batch(name):
    case = Case(name)
    inputs, size = case.inputs(), KEYS - 3
    together = case.context(inputs, lengths([size, KEYS]))
    alone = type(inputs)(
        inputs.query[:1], inputs.key[:1, ..., :size, :], inputs.value[:1, ..., :size, :]
    )
    torch.testing.assert_close(together[:1], case.context(alone))


@pytest.mark.parametrize("name", obeying("gradients"))
def test_gradients_match_finite_differences(name):
    case = Case(name)
    inputs = case.inputs(queries=3, keys=5)
    names = [each for each, _ in case.module.named_parameters()]
    mask = lengths([4, 5])

    def run(query, key, value, *parameters):
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(case.module, state, (query, key, value, mask))

    sides = (*inputs, *(parameter.detach().clone() for parameter in case.module.parameters()))
    sides = tuple(side.requires_grad_() for side in sides)
    assert torch.autograd.gradcheck(run, sides, fast_mode=True)


@pytest.mark.parametrize("name", breaking("gradients"))
def test_a_choice_passes_no_gradient_to_the_scores(name):
    case = Case(name)
    inputs = case.inputs()
    inputs.query.requires_grad_()
    inputs.value.requires_grad_()
    case.context(inputs).sum().backward()
    assert inputs.query.grad is None
    assert (inputs.value.grad != 0).any()


@pytest.mark.parametrize("mask", [None, causal(), partly_seen(), ~causal()], ids=str)
@pytest.mark.parametrize("name", obeying("reference"))
def test_the_fast_form_equals_a_plain_loop(name, mask):
    case = Case(name)
    inputs = case.inputs()
    torch.testing.assert_close(case.context(inputs, mask), case.reference(inputs, mask))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", obeying("half precision"))
def test_half_precision_stays_within_its_stated_error(name, dtype):
    case = Case(name)
    case.module.to(dtype)
    inputs = type(case.inputs())(*(side.to(dtype) for side in case.inputs()))
    context = case.context(inputs, partly_seen())
    assert context.dtype == dtype
    expected = case.reference(inputs, partly_seen())
    worst = (context.double() - expected).abs().max() / expected.abs().max()
    assert worst <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", list(catalog))
def test_gradients_reach_every_parameter(name):
    case = Case(name)
    inputs = case.inputs()
    inputs.value.requires_grad_()
    case.context(inputs).square().sum().backward()
    unreached = [name for name, each in case.module.named_parameters() if each.grad is None]
    assert unreached == []


@pytest.mark.parametrize("name", list(catalog))
def test_nothing_is_remembered_between_calls(name):
    case = Case(name)
    inputs = case.inputs()
    before = case.context(inputs)
    case.context(case.inputs(batch=3, queries=2, keys=11))
    assert torch.equal(before, case.context(inputs))
    assert before.shape[0] == BATCH
