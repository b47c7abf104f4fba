"""The models of Hugging Face that were downloaded to this machine before."""

from importlib.util import find_spec
from pathlib import Path

from regard.cli.work.portraits import is_model


def cached() -> dict[str, Path]:
    """The folder of the newest snapshot of each model in the hub's cache, by its name."""
    if find_spec("huggingface_hub") is None:
        return {}
    import huggingface_hub

    try:
        repositories = huggingface_hub.scan_cache_dir().repos
    except (huggingface_hub.CacheNotFound, OSError, ValueError):
        return {}
    found = {}
    for each in sorted(repositories, key=lambda one: one.repo_id):
        newest = sorted(each.revisions, key=lambda one: one.last_modified)
        if each.repo_type == "model" and newest and is_model(newest[-1].snapshot_path):
            found[each.repo_id] = Path(newest[-1].snapshot_path)
    return found
