"""Training a model by a recipe: `train` builds it, runs the loop and writes the result."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.arguments import check_first_argument
from regard.attention import Hard, StraightThrough
from regard.errors import FileError, InputError, UnknownNameError, first_line
from regard.files import exclusive_lock
from regard.models import Transformer, TransformerConfig, from_pretrained
from regard.models.checkpoints.locations import checkpoint_folder, shipped_models
from regard.models.generation import GenerationSettings
from regard.models.low_rank import add_low_rank, merge_low_rank
from regard.models.matching import Matcher, MatcherConfig
from regard.models.recurrent import (
    ClassifierConfig,
    PointerGenerator,
    PointerGeneratorConfig,
    ReaderConfig,
    Recurrent,
    RecurrentClassifier,
    RecurrentConfig,
    RecurrentReader,
)
from regard.models.recurrent.encoder import TokenEmbedding
from regard.models.recurrent.pairs import PairedEmbedding
from regard.models.tokenizers import Tokenizer
from regard.training.checkpoints import average_weights, checkpoints, load_checkpoint
from regard.training.distribution import World, process_group
from regard.training.embeddings import copy_known_vectors, prepare_embeddings
from regard.training.events import Callback, Ended
from regard.training.loop import Loop
from regard.training.recipe import Recipe
from regard.training.recipe_file import load_recipe
from regard.training.tasks import TASKS

_MODEL_CLASSES: dict[str, tuple[Any, Any]] = {
    "transformer": (Transformer, TransformerConfig),
    "recurrent": (Recurrent, RecurrentConfig),
    "recurrent-classifier": (RecurrentClassifier, ClassifierConfig),
    "recurrent-reader": (RecurrentReader, ReaderConfig),
    "pointer-generator": (PointerGenerator, PointerGeneratorConfig),
    "matcher": (Matcher, MatcherConfig),
}
# The classes of models that can be trained on a task; all others read a source and write.
_TASK_CLASSES = {
    "classification": ("transformer", "recurrent-classifier"),
    "answering": ("transformer", "recurrent-reader"),
    "summarisation": ("pointer-generator",),
    "matching": ("transformer", "matcher"),
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
    with process_group(device) as ranks, _locked_folder(recipe.folder, ranks):
        torch.manual_seed(recipe.seed)
        tokenizer = _tokenizer(recipe, ranks)
        model = build_model(recipe, tokenizer)
        task: Any = TASKS[recipe.task](recipe, tokenizer)
        # the checkpoint of a run that is resumed holds what was prepared when it began
        if not checkpoints(recipe.folder / "checkpoints"):
            _prepare_model(recipe, model, task)
        loop = Loop(model, task, recipe.plan, recipe.folder, ranks, callbacks)
        ended = loop.run()
        if ranks.is_first and ended.reason in ("done", "stopped early"):
            if recipe.plan.sharing == "fsdp" and ranks.size > 1:
                model = build_model(
                    recipe, tokenizer
                )  # the trained one holds a part of the weights
            ended = replace(ended, path=write_finished_model(recipe, model))
        for callback in callbacks if ranks.is_first else ():
            callback(ended)
    return ended


def _prepare_model(recipe: Recipe, model: Any, task: Any) -> None:
    """Set what follows from the training files without gradient steps."""
    words, vectors = getattr(model, "words", None), recipe.model.get("vectors")
    if isinstance(words, PairedEmbedding):
        prepare_embeddings(words, model.tokenizer, TASKS[recipe.task].texts(recipe), vectors)
    elif vectors is not None:
        assert isinstance(words, TokenEmbedding)  # build_model refuses vectors for other models
        copy_known_vectors(words, model.tokenizer, Path(vectors))
    if hasattr(task, "prepare"):
        task.prepare(model)


def build_model(recipe: Recipe, tokenizer: Tokenizer) -> Any:
    """The recipe's model, of the vocabulary's size, with random weights or those of `start`."""
    settings = dict(recipe.model)
    start, vectors = settings.pop("start", None), settings.pop("vectors", None)
    kind = str(settings.pop("class", "transformer"))
    known = _TASK_CLASSES.get(recipe.task, ("transformer", "recurrent"))
    if kind not in known:
        raise UnknownNameError(f"class of model for {recipe.task}", kind, known)
    model_class, config_class = _MODEL_CLASSES[kind]
    sizes: dict[str, Any] = {"vocab": len(tokenizer.source)}
    if tokenizer.target is not tokenizer.source:
        sizes["target_vocab"] = len(tokenizer.target)
    sizes |= TASKS[recipe.task].output_settings(recipe)
    if kind == "transformer":
        settings = {**TASKS[recipe.task].transformer_settings, **settings}
    settings = sizes | _use_straight_through(settings, recipe.plan.hard)
    if start is not None:
        adapted = _build_from_start(recipe, str(start), settings, tokenizer)
        if recipe.plan.rank:
            add_low_rank(adapted, recipe.plan.rank, frozen=recipe.plan.frozen)
        return adapted
    if recipe.plan.rank:
        raise InputError("plan.rank adapts a model that is trained already: name it as model.start")
    config = config_class(**settings)
    try:
        model = model_class(config)
    except (RuntimeError, MemoryError, OverflowError) as error:
        raise InputError(
            "no model can be built by the section [model] of the recipe "
            f"({first_line(error)}); choose smaller sizes"
        ) from error
    _check_hard(model, recipe.plan.hard)
    if vectors is not None and not isinstance(getattr(model, "words", None), TokenEmbedding):
        raise InputError(f"word vectors cannot be given to a {kind}; leave out model.vectors")
    model.tokenizer = tokenizer
    model.generation = _generation_settings(tokenizer.target, recipe.data.longest)
    if kind == "pointer-generator" and tokenizer.unk_token_id is not None:
        # a word that the model does not know it copies, or writes another
        model.generation = model.generation.replace(suppress_tokens=(tokenizer.unk_token_id,))
    return model


def _build_from_start(
    recipe: Recipe, start: str, settings: dict[str, Any], tokenizer: Tokenizer
) -> Any:
    """The Transformer of a folder with another head: all other weights are those of the folder."""
    trunk = from_pretrained(start)
    if not isinstance(trunk, Transformer):
        raise InputError(f"model.start expected a Transformer, {start} is a {type(trunk).__name__}")
    # the size of an embedding may be larger than the vocabulary
    fixed = {"vocab": trunk.config.vocab, "types": trunk.config.types, "pooler": False}
    pooling = settings.get("pooling", "attentive")
    model = Transformer(trunk.config, **settings | fixed | {"pooling": pooling})
    own = model.state_dict()
    kept = {
        name: tensor
        for name, tensor in trunk.state_dict().items()
        if not name.startswith("head.") and name in own and own[name].shape == tensor.shape
    }
    model.load_state_dict(kept, strict=False)
    model.tokenizer, model.site_names = tokenizer, trunk.site_names
    model.generation = _generation_settings(tokenizer.target, recipe.data.longest)
    return model


def _use_straight_through(settings: dict[str, Any], how: str | None) -> dict[str, Any]:
    """The model settings with "hard" replaced by "straight-through" if that is how it learns."""
    if how != "straight-through":
        return settings
    named = {
        name: re.sub(r"(?<![\w-])hard(?![\w-])", how, value)
        for name, value in settings.items()
        if name in ("attention", "cross_attention") and isinstance(value, str)
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
    path, base = recipe.folder / "model", None
    if recipe.plan.rank and recipe.model["start"] in shipped_models():
        base = str(recipe.model["start"])
    elif recipe.plan.rank:  # the folder of the base need not stay where it is
        merge_low_rank(model)
    kept = deepcopy(model).half() if recipe.plan.stored == "float16" else model
    stored: Any = "int8" if recipe.plan.stored == "int8" else "float"
    kept.save_pretrained(path, stored=stored, base=base)
    return path


def _best(folder: Path) -> Path:
    """The checkpoint with the best metric, which the newest one records."""
    newest = load_checkpoint(checkpoints(folder)[-1])
    return folder / f"step-{newest.state['standing']['best_step']:08d}"


@contextmanager
def _locked_folder(folder: Path, ranks: World) -> Iterator[None]:
    """Refuse to train in a folder in which another run is training."""
    with ExitStack() as stack:
        with ranks.failing_together():
            if ranks.is_first:
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise FileError(f"cannot write to {folder}: {error.strerror}") from error
                advice = "wait until it ends, or name another folder in the recipe"
                lock = exclusive_lock(folder / ".lock", f"training in {folder}", advice)
                stack.enter_context(lock)
        yield


def _tokenizer(recipe: Recipe, ranks: World) -> Tokenizer:
    """The tokenizer of the run; at the first call the first process learns it from the corpus."""
    folder = recipe.folder / "tokenizer"
    with ranks.failing_together():
        if ranks.is_first and (missing := _missing_tokenizer_file(folder, recipe)):
            if checkpoints(recipe.folder / "checkpoints"):
                raise FileError(
                    f"{folder} has no {missing}, and the checkpoints beside it need that "
                    f"vocabulary; put the file back, or remove {recipe.folder} to begin anew"
                )
            start = recipe.model.get("start")
            learnt = (
                TASKS[recipe.task].learn_tokenizer(recipe)
                if start is None
                else Tokenizer.load(checkpoint_folder(str(start)))
            )
            learnt.save(folder)
    return Tokenizer.load(folder)


def _missing_tokenizer_file(folder: Path, recipe: Recipe) -> str | None:
    """The first file that the vocabulary of the run lacks; earlier versions could leave a part."""
    names = ["tokenizer.json", "tokenizer_config.json"]
    if recipe.task == "translation" and recipe.vocabulary.target_size is not None:
        names.append("target_tokenizer.json")
    return next((name for name in names if not (folder / name).is_file()), None)


def _generation_settings(target: Tokenizer, longest: int) -> GenerationSettings:
    """The default generation settings: at most twice the length of a training example."""
    return GenerationSettings().replace(
        max_new_tokens=2 * longest,
        bos_token_id=target.bos_token_id,
        decoder_start_token_id=target.bos_token_id,
        eos_token_id=target.eos_token_id,
        pad_token_id=target.pad_token_id,
    )
