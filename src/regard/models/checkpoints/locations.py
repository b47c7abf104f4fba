"""Finding the folder of a checkpoint: shipped with the package, given, or on the hub."""

import re
from importlib.util import find_spec
from pathlib import Path

from regard.errors import FileError
from regard.files import finish_replacement

__all__ = ["FILE_NAMES", "checkpoint_folder", "shipped_models"]

# The files that save_pretrained writes: those left over from an earlier save are removed.
FILE_NAMES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "target_tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)

ZOO = Path(__file__).parents[2] / "zoo"

_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "vocab.txt", "merges.txt"]
_PICKLED_WEIGHTS = ["pytorch_model*.bin"]


def checkpoint_folder(name: str | Path) -> Path:
    """The folder of a checkpoint: that of a shipped name, a path, or downloaded from the hub."""
    path = Path(name).expanduser()
    finish_replacement(path, FILE_NAMES)
    if path.is_dir():
        return path
    if path.exists():
        raise FileError(f"{path} is a file; expected the folder that holds config.json")
    if _REPOSITORY.fullmatch(str(name)) is None:
        raise FileError(f"no folder {path}; expected a folder, a shipped name or a hub name")
    if (ZOO / str(name)).is_dir():
        return ZOO / str(name)
    return _download(str(name))


def shipped_models() -> tuple[str, ...]:
    """The names of the models that came with the package."""
    found = ZOO.iterdir() if ZOO.is_dir() else ()
    return tuple(sorted(each.name for each in found if (each / "config.json").is_file()))


def _list_shipped() -> str:
    """The shipped models, for messages."""
    return f"shipped: {', '.join(shipped_models())}" if shipped_models() else "none is shipped"


def _download(name: str) -> Path:
    """The folder of a hub model in the local cache; pickled weights only if there are no others."""
    if find_spec("huggingface_hub") is None:
        raise FileError(
            f"no folder and no shipped model {name!r} ({_list_shipped()}); to look on the hub: "
            "pip install huggingface_hub"
        )
    import huggingface_hub
    from huggingface_hub import errors

    def fetch(patterns: list[str]) -> Path:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns))

    try:
        folder = fetch(_FILES)
        return folder if any(folder.glob("*.safetensors")) else fetch(_FILES + _PICKLED_WEIGHTS)
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        reason = "the hub has none of that name (or it is private: log in first)"
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled, OSError):
        reason = "the hub cannot be reached and nothing of it was downloaded before"
    raise FileError(f"no folder and no shipped model {name!r} ({_list_shipped()}), and {reason}")
