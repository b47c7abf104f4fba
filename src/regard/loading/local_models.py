"""The models on this machine: those shipped with regard, and those downloaded from the hub."""

from importlib.util import find_spec
from pathlib import Path

from regard.arguments import check_first_argument
from regard.errors import FileError, nearest_name
from regard.loading.descriptions import ModelDescription, describe_model, is_model_folder
from regard.models import shipped_models
from regard.models.checkpoints.locations import checkpoint_folder

__all__ = ["cached_models", "describe_models_here", "find_model_folder"]


def cached_models() -> dict[str, Path]:
    """The folder of the newest snapshot of each model in the hub's cache, by the model's name."""
    if find_spec("huggingface_hub") is None:
        return {}
    import huggingface_hub

    try:
        repositories = huggingface_hub.scan_cache_dir().repos
    except (huggingface_hub.CacheNotFound, OSError, ValueError):
        return {}
    folders = {}
    for repository in sorted(repositories, key=lambda repository: repository.repo_id):
        revisions = sorted(repository.revisions, key=lambda revision: revision.last_modified)
        if repository.repo_type != "model" or not revisions:
            continue
        newest = Path(revisions[-1].snapshot_path)
        if is_model_folder(newest):
            folders[repository.repo_id] = newest
    return folders


def describe_models_here() -> dict[str, list[ModelDescription]]:
    """The models that need no download: the "shipped" ones, and the "cached" ones of the hub.

    >>> from regard.loading import describe_models_here
    >>> "en-zh-rnn" in [model.name for model in describe_models_here()["shipped"]]
    True
    """
    return {
        "shipped": [describe_model(checkpoint_folder(name), name) for name in shipped_models()],
        "cached": [describe_model(folder, name) for name, folder in cached_models().items()],
    }


@check_first_argument
def find_model_folder(name: str) -> Path:
    """The folder of a shipped or cached model; nothing is downloaded."""
    if name in shipped_models():
        return checkpoint_folder(name)
    cached = cached_models()
    if name in cached:
        return cached[name]
    names = [*shipped_models(), *cached]
    near = nearest_name(name, names)
    hint = "the" if near is None else f"did you mean {near!r}? The"
    raise FileError(
        f"no file, folder or model {name!r} here; {hint} models are {', '.join(names) or 'none'}"
    )
