"""Hard attention is learnt: by REINFORCE with a moving baseline, and straight through."""

from pathlib import Path

import pytest
import torch

from regard.attention import StraightThrough
from regard.errors import InputError
from regard.models import Recurrent
from regard.training.events import Evaluated, Event
from regard.training.losses import IGNORED, Baseline, cross_entropy, reinforce_loss
from regard.training.recipe_file import load_recipe
from regard.training.tasks import TASKS, Translation
from regard.training.train import build_model, train

TINY = Path(__file__).parents[2] / "recipes" / "tiny" / "recipe.toml"
HARD = {"model.attention": "additive + hard"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reinforce", "straight-through"])
def test_a_model_with_hard_attention_learns_the_tiny_corpus(tmp_path: Path, how: str) -> None:
    told: list[Event] = []
    plan = {"plan.hard": how, "plan.steps": 200, "plan.evaluate_every": 200, "plan.examples": 20}
    train(TINY, callbacks=[told.append], changes={"folder": str(tmp_path), **HARD, **plan})
    (last,) = [event for event in told if isinstance(event, Evaluated)]
    assert last.metrics["loss"] < 0.8  # 5.2 at the start


def built(**changes: object) -> Recurrent:
    recipe = load_recipe(TINY, **changes)
    model: Recurrent = build_model(recipe, TASKS[recipe.task].learn_tokenizer(recipe))
    return model


@pytest.mark.parametrize("how", ["reinforce", "straight-through"])
def test_a_soft_model_is_refused_to_learn_as_a_hard_one(how: str) -> None:
    with pytest.raises(InputError, match=rf"plan.hard = '{how}' is for hard attention"):
        built(**{"plan.hard": how})


def test_hard_attention_must_be_told_how_to_learn() -> None:
    with pytest.raises(InputError, match=r"set plan\.hard to 'reinforce' or 'straight-through'"):
        built(**HARD)


def test_a_transformer_is_sent_to_the_other_way() -> None:
    sizes = {"d_model": 14, "heads": 2, "d_ff": 17, "layers": 1, "attention": "hard"}
    model = {"model": {"class": "transformer", **sizes}}
    with pytest.raises(InputError, match="needs a recurrent model"):
        built(**{"plan.hard": "reinforce"}, **model)


def test_straight_through_takes_the_place_of_hard() -> None:
    model = built(**HARD, **{"plan.hard": "straight-through"})
    assert model.config.attention == "additive + straight-through"
    assert any(isinstance(part, StraightThrough) for part in model.modules())


def test_the_value_is_the_cross_entropy_and_the_gradient_has_more() -> None:
    logits = torch.randn(3, 5, 7, requires_grad=True)
    chosen = torch.randn(3, 5, requires_grad=True)
    labels = torch.randint(0, 7, (3, 5))
    labels[1, 3:] = IGNORED
    loss = reinforce_loss(logits, chosen, labels, Baseline(-0.5), 0.1)
    torch.testing.assert_close(loss, cross_entropy(logits, labels, 0.1))
    (taught,) = torch.autograd.grad(loss, chosen)
    log_p = logits.log_softmax(-1).gather(-1, labels.clamp_min(0)[..., None])[..., 0]
    torch.testing.assert_close(taught, -(log_p + 0.5) * (labels != IGNORED))


def test_the_baseline_follows_the_rewards() -> None:
    baseline = Baseline()
    found = [baseline.update(reward) for reward in (-4.0, -2.0, -2.0)]
    assert found == pytest.approx([-4.0, -4.0, -3.8])


def test_the_baseline_goes_on_where_it_was() -> None:
    recipe = load_recipe(TINY, **HARD, **{"plan.hard": "reinforce"})
    first, second = (
        Translation(recipe, TASKS[recipe.task].learn_tokenizer(recipe)) for _ in range(2)
    )
    first.baseline.update(-3.25)
    second.restore(first.state())
    assert second.baseline == first.baseline
