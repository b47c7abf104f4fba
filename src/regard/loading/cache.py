"""The models of the Hugging Face hub that were downloaded to this machine before."""

from importlib.util import find_spec
from pathlib import Path

from regard.loading.descriptions import is_model_folder

__all__ = ["cached_models"]


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
