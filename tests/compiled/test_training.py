"""Training through the compiler: the same losses, the same names; run without shape checks."""

import os
from pathlib import Path

import pytest
import torch

from regard.training.checkpoints import checkpoints, load_checkpoint
from regard.training.contexts import compiled_model
from regard.training.events import Stepped
from regard.training.train import train

pytestmark = pytest.mark.skipif(
    os.environ.get("REGARD_CHECK_SHAPES", "1") == "1",
    reason="the compiler cannot look through shape checks; run with REGARD_CHECK_SHAPES=0",
)

TINY = Path(__file__).parents[2] / "recipes" / "tiny" / "recipe.toml"
SIZES = {"class": "transformer", "d_model": 14, "heads": 2, "d_ff": 17, "layers": 1}


def trained(folder, **plan):
    told = []
    changes = {"folder": str(folder), "model": SIZES, "plan.steps": 3, "plan.examples": 1}
    train(TINY, callbacks=[told.append], changes=changes | plan)
    losses = [event.loss for event in told if isinstance(event, Stepped)]
    return losses, load_checkpoint(checkpoints(folder / "checkpoints")[-1])


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that went through torch.compile; they run as they are, which is quick."""
    seen, real = [], torch.compile

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda f, **more: real(f, backend=backend, **more))
    torch.compiler.reset()
    return seen


def test_a_plan_that_asks_for_it_goes_through_the_compiler(tmp_path, graphs):
    losses, checkpoint = trained(tmp_path / "compiled", **{"plan.compile": True})
    assert graphs
    expected, plain = trained(tmp_path / "plain")
    assert losses == pytest.approx(expected, rel=1e-4)
    assert checkpoint.model.keys() == plain.model.keys()


def test_a_plan_that_does_not_ask_stays_away_from_it(tmp_path, graphs):
    trained(tmp_path)
    assert not graphs


def test_the_model_is_as_it_was_afterwards(graphs):
    model = torch.nn.Linear(3, 5)
    names = [*vars(model)]
    with compiled_model(model, enabled=True):
        model(torch.ones(2, 3))
    assert graphs
    assert [*vars(model)] == names
