import pytest
import torch
from torch import nn

import regard
from regard.errors import InputError
from regard.tracing import Keep
from tracing.hands import FORMS, HEADS, Model, an_input, by_fused, by_matmul

every_form = pytest.mark.parametrize("form", FORMS)


def seen_of(model, x, **wishes):
    with regard.watch(model, **wishes) as seen:
        model(x)
    return seen


@every_form
def test_only_sites_that_fit_the_pattern_are_seen(form):
    model, x = Model(form), an_input()
    whole, seen = seen_of(model, x), seen_of(model, x, sites="*.1")
    assert [each.site for each in seen[0]] == ["h.1"]
    torch.testing.assert_close(seen[0]["h.1"].weights(), whole[0]["h.1"].weights())


@every_form
def test_several_patterns_choose_the_sites_of_each(form):
    seen = seen_of(Model(form), an_input(), sites=["h.1", "h.0"])
    assert [each.site for each in seen[0]] == ["h.0", "h.1"]


@every_form
def test_only_chosen_heads_are_kept_and_say_which_they_are(form):
    model, x = Model(form), an_input()
    whole, seen = seen_of(model, x), seen_of(model, x, sites={"h.0": [2, 0], "h.1": 1})
    assert [each.head_indices for each in seen[0]] == [(2, 0), (1,)]
    torch.testing.assert_close(seen[0]["h.0"].weights(), whole[0]["h.0"].weights()[[2, 0]])
    torch.testing.assert_close(seen[1]["h.1"].weights(), whole[1]["h.1"].weights()[[1]])


def test_patterns_that_share_a_site_choose_the_heads_of_all():
    model, x = Model(by_fused), an_input()
    seen = seen_of(model, x, sites={"h.*": [2], "h.1": [0, 2]})
    assert [each.head_indices for each in seen[0]] == [(2,), (2, 0)]


def test_what_was_seen_of_the_rows_is_that_of_the_chosen_heads():
    model, x = Model(by_fused), an_input()
    whole, seen = seen_of(model, x, top=2), seen_of(model, x, top=2, sites={"h.0": 1})
    one, other = seen[0]["h.0"], whole[0]["h.0"]
    assert torch.equal(one.statistics.entropy, other.statistics.entropy[[1]])
    assert torch.equal(one.top.keys, other.top.keys[[1]])
    assert torch.equal(one.atlas.mean, other.atlas.mean[[1]])


@every_form
def test_chosen_heads_keep_their_values_and_gradients(form):
    model, x, keep = Model(form), an_input(), Keep(values=True, gradients=True)
    with regard.watch(model, keep=keep, sites={"h.1": 2}) as seen:
        model(x).sum().backward()
    with regard.watch(model, keep=keep) as whole:
        model(x).sum().backward()
    one, other = seen[0]["h.1"], whole[0]["h.1"]
    torch.testing.assert_close(one.values, other.values[[2]])
    torch.testing.assert_close(one.gradient, other.gradient[[2]])


def test_a_site_that_is_not_chosen_runs_the_model_s_own_operation():
    model, x = Model(by_fused), an_input()
    with regard.watch(model, sites="h.1"):
        first = model.h[0](x)
        model(x)
    assert torch.equal(first, model.h[0](x))


@pytest.mark.parametrize("sites", ["h.7", ["h.0", "h.7"], {"h.7": 0}])
@pytest.mark.parametrize("form", [by_fused, by_matmul])
def test_a_pattern_that_fits_no_site_is_refused_with_those_that_were_seen(form, sites):
    with pytest.raises(InputError, match=r"no site fits 'h.7'; the model attended at h.0, h.1"):
        seen_of(Model(form), an_input(), sites=sites)


def test_a_head_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"some of the heads 0 to 2 of 'h.0', got \[3\]"):
        seen_of(Model(by_fused), an_input(), sites={"h.0": HEADS})


@pytest.mark.parametrize("sites", [[], [3], 7])
def test_what_is_no_pattern_is_refused(sites, unchecked):
    with pytest.raises(
        InputError, match=r"expected patterns of sites such as '\*.h.5.\*', or a ma"
    ):
        regard.watch(nn.Identity(), sites=sites).__enter__()


def test_heads_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match=r"numbers of heads for 'h.0', got \[\]; a pattern by it"):
        regard.watch(nn.Identity(), sites={"h.0": []}).__enter__()


def test_an_error_in_the_block_comes_before_a_pattern_that_fits_nothing():
    with pytest.raises(RuntimeError), regard.watch(model := Model(by_fused), sites="h.7"):
        model(an_input()[..., 1:])
