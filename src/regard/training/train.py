"""Training a model by a recipe: `train` builds it, runs the loop and writes the result."""

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.arguments import check_first_argument
from regard.attention import Hard, StraightThrough
from regard.errors import InputError, UnknownNameError
from regard.models import Transformer, TransformerConfig
from regard.models.generation import GenerationSettings
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.tokenizers import Tokenizer
from regard.training.checkpoints import average_weights, checkpoints, load_checkpoint
from regard.training.distribution import World, process_group
from regard.training.events import Callback, Ended
from regard.training.loop import Loop
from regard.training.recipe import Recipe
from regard.training.recipe_file import load_recipe
from regard.training.tasks import TASKS

_MODEL_CLASSES: dict[str, tuple[Any, Any]] = {
    "transformer": (Transformer, TransformerConfig),
    "recurrent": (Recurrent, RecurrentConfig),
}


@check_first_argument
def train(
    recipe: Recipe | str | Path,
    *,
    callbacks: Sequence[Callback] = (),
    device: str | None = None,
    changes: dict[str, Any] | None = None,
) -> Ended:
    """Train the model of a recipe, or resume its training; the finished model is in folder/model.

    Under torchrun the processes share the work. Called again with the same folder, training resumes
    from the newest checkpoint, on one CPU process with bit-identical results. `changes` replace
    keys of the recipe: {"plan.steps": 500}.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, **changes or {})
    with process_group(device) as ranks:
        torch.manual_seed(recipe.seed)
        tokenizer = _tokenizer(recipe, ranks)
        model = build_model(recipe, tokenizer)
        task: Any = TASKS[recipe.task](recipe, tokenizer)
        loop = Loop(model, task, recipe.plan, recipe.folder, ranks, callbacks)
        ended = loop.run()
        if ranks.is_first and ended.reason in ("done", "stopped early"):
            ended = replace(ended, path=write_finished_model(recipe, model))
        for callback in callbacks if ranks.is_first else ():
            callback(ended)
    return ended


def build_model(recipe: Recipe, tokenizer: Tokenizer) -> Any:
    """The recipe's model with random weights, of the vocabulary's size."""
    settings = dict(recipe.model)
    kind = str(settings.pop("class", "transformer"))
    if kind not in _MODEL_CLASSES:
        raise UnknownNameError("class of model", kind, _MODEL_CLASSES)
    model_class, config_class = _MODEL_CLASSES[kind]
    sizes: dict[str, Any] = {"vocab": len(tokenizer.source)}
    if tokenizer.target is not tokenizer.source:
        sizes["target_vocab"] = len(tokenizer.target)
    if kind == "transformer":
        settings = {**TASKS[recipe.task].transformer_settings, **settings}
    model = model_class(config_class(**sizes | _use_straight_through(settings, recipe.plan.hard)))
    _check_hard(model, recipe.plan.hard)
    model.tokenizer = tokenizer
    model.generation = _generation_settings(tokenizer.target, recipe.data.longest)
    return model


def _use_straight_through(settings: dict[str, Any], how: str | None) -> dict[str, Any]:
    """The model settings with "hard" replaced by "straight-through" if that is how it learns."""
    if how != "straight-through":
        return settings
    named = {
        name: re.sub(r"(?<![\w-])hard(?![\w-])", how, value)
        for name, value in settings.items()
        if name in ("attention", "cross_attention")
    }
    return settings | named


def _check_hard(model: nn.Module, how: str | None) -> None:
    """Raise an InputError if plan.hard does not fit the model's attention."""
    found = [part for part in model.modules() if isinstance(part, Hard)]
    if how is not None and not found:
        raise InputError(
            f"plan.hard = {how!r} is for hard attention, and this model's is soft; leave it out, "
            "or name attention = 'additive + hard'"
        )
    if how == "reinforce" and not hasattr(model, "sample_attention"):
        raise InputError(
            "plan.hard = 'reinforce' needs a recurrent model; for a Transformer take "
            "'straight-through'"
        )
    if how is None and any(not isinstance(part, StraightThrough) for part in found):
        raise InputError(
            "hard attention learns nothing from the loss alone; set plan.hard to 'reinforce' or "
            "'straight-through'"
        )


def write_finished_model(recipe: Recipe, model: Any) -> Path:
    """Write the finished model: the mean of the newest checkpoints, or the best one."""
    folder = recipe.folder / "checkpoints"
    paths = checkpoints(folder)
    chosen = paths[-recipe.plan.average :] if recipe.plan.average else [_best(folder)]
    model.load_state_dict(average_weights(chosen), strict=False)
    path = recipe.folder / "model"
    kept = model if recipe.plan.stored == "float32" else deepcopy(model).half()
    kept.save_pretrained(path)
    return path


def _best(folder: Path) -> Path:
    """The checkpoint with the best metric, which the newest one records."""
    newest = load_checkpoint(checkpoints(folder)[-1])
    return folder / f"step-{newest.state['standing']['best_step']:08d}"


def _tokenizer(recipe: Recipe, ranks: World) -> Tokenizer:
    """The tokenizer of the run; at the first call the first process learns it from the corpus."""
    folder = recipe.folder / "tokenizer"
    if ranks.is_first and not (folder / "tokenizer.json").exists():
        TASKS[recipe.task].learn_tokenizer(recipe).save(folder)
    ranks.barrier()
    return Tokenizer.load(folder)


def _generation_settings(target: Tokenizer, longest: int) -> GenerationSettings:
    """The default generation settings: at most twice the length of a training example."""
    return GenerationSettings().replace(
        max_new_tokens=2 * longest,
        bos_token_id=target.bos_token_id,
        decoder_start_token_id=target.bos_token_id,
        eos_token_id=target.eos_token_id,
        pad_token_id=target.pad_token_id,
    )
