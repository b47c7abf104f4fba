"""Errors of our own: the model runs on, the site is a gap, and nothing is computed twice."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing import failures, watcher
from regard.tracing.dataflow.tracker import OriginTracker
from regard.tracing.mask_reading.caller_masks import CallerMasks


class Model(nn.Module):
    """A layer by hand and a fused one."""

    def __init__(self):
        super().__init__()
        self.hand, self.fused = Hand(), Fused()

    def forward(self, x):
        return self.fused(self.hand(x))


class Hand(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.mT, -1) @ x


class Fused(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.3 if self.training else 0.0)


def fail(*args, **kwargs):
    raise ValueError("no such axis\nand more")


@pytest.fixture
def caught(monkeypatch):
    """Errors of ours are caught, as they are outside tests."""
    monkeypatch.setattr(failures._Policy, "raising", 0)


FAULTS = [
    (watcher, "observe_call", {"fused"}),
    (watcher, "describe_call", {"fused"}),
    (watcher, "describe_manual_call", {"hand"}),
    (OriginTracker, "name_streams", {"fused"}),
    (OriginTracker, "follow", {"hand", "Model"}),
    (CallerMasks, "note_inputs", {"Model"}),
]


@pytest.mark.usefixtures("caught")
@pytest.mark.parametrize(("place", "name", "sites"), FAULTS, ids=lambda each: str(each)[-30:])
@pytest.mark.parametrize("nested", [False, True])
@torch.no_grad()
def test_an_error_of_ours_is_a_gap_and_the_model_runs_on(place, name, sites, nested, monkeypatch):
    model, x = Model().eval(), torch.randn(3, 5, 7)
    plain = model(x)
    monkeypatch.setattr(place, name, fail)
    with regard.watch(model) as seen, regard.watch(model if nested else nn.Identity()) as _:
        torch.testing.assert_close(model(x), plain)
        if not nested:
            model.hand(x)
    gaps = [gap for gap in seen[0].gaps if gap.reason.startswith(failures.FAILURE)]
    assert {gap.site for gap in gaps} & sites
    assert "(ValueError: no such axis), so it ran unobserved" in gaps[0].reason


@pytest.mark.usefixtures("caught")
def test_dropout_is_drawn_once_where_observing_fails_after_it(monkeypatch):
    model, x = Fused(), torch.randn(3, 5, 7)
    torch.manual_seed(5)
    plain = model(x)
    monkeypatch.setattr(watcher.DecodingRuns, "add", fail)
    torch.manual_seed(5)
    with regard.watch(model):
        assert torch.equal(model(x), plain)


@pytest.mark.usefixtures("caught")
def test_errors_of_the_model_itself_are_raised_as_they_are():
    model, x = Fused().eval(), torch.randn(3, 5, 7)
    with pytest.raises(RuntimeError) as plain:
        F.scaled_dot_product_attention(x, x[:2], x)
    model.forward = lambda x: F.scaled_dot_product_attention(x, x[:2], x)
    with pytest.raises(RuntimeError) as watched, regard.watch(model, beside=True):
        model(x)
    assert str(watched.value) == str(plain.value)


@pytest.mark.usefixtures("caught")
def test_an_edit_that_fails_is_raised_because_the_call_would_run_unedited():
    model, x = Model().eval(), torch.randn(3, 5, 7)
    with pytest.raises(ValueError, match="no such axis"), regard.watch(model, edit=fail):
        model(x)


def test_tests_see_every_error_of_ours(monkeypatch):
    model, x = Model().eval(), torch.randn(3, 5, 7)
    monkeypatch.setattr(OriginTracker, "follow", fail)
    with pytest.raises(ValueError, match="no such axis"), regard.watch(model):
        model(x)
