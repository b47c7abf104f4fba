"""Finding the folder of a checkpoint: shipped with the package, given, or on the hub."""

import re
from importlib.util import find_spec
from pathlib import Path

from regard.errors import FileError, InputError, nearest_name
from regard.files import finish_replacement

__all__ = [
    "FILE_NAMES",
    "checkpoint_folder",
    "is_file_name",
    "is_sentence",
    "shipped_models",
    "shorten",
]

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

# A name on the hub is "name" or "owner/name"; what begins with a dot is a path.
_HUB_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?", re.ASCII)
# What ends so is meant as a file, although a name on the hub could end so too.
_FILE_SUFFIXES = (
    ".trace", ".safetensors", ".json", ".jsonl", ".toml", ".txt", ".tsv", ".csv", ".html", ".bin",
    ".pt", ".png", ".jpg", ".jpeg", ".py",
)  # fmt: skip
_FILES = ["*.json", "*.safetensors", "*.model", "*.spm", "vocab.txt", "merges.txt"]
_SHOWN = 40  # characters of a name that a message quotes
_PICKLED_WEIGHTS = ["pytorch_model*.bin"]
_EXPECTED = "expected a folder, a shipped name or a hub name"


def checkpoint_folder(name: str | Path) -> Path:
    """The folder of a checkpoint: that of a shipped name, a path, or downloaded from the hub."""
    if not isinstance(name, (str, Path)) or not str(name).strip():
        raise InputError(f"expected the name or the folder of a model, got {name!r}")
    text, path = str(name), _existing_path(name)
    if path is not None and path.is_dir():
        return path
    if path is not None:
        raise FileError(f"{path} is a file; expected the folder that holds config.json")
    if text in shipped_models():
        return ZOO / text
    if "://" in text:
        raise FileError(f"{shorten(text)} is an address; give the hub name alone: owner/name")
    if is_sentence(text):
        raise FileError(f"{shorten(text)!r} is a text and no model; {_EXPECTED}")
    if is_file_name(text):
        raise FileError(f"there is no file {shorten(text)}; {_EXPECTED}")
    if _HUB_NAME.fullmatch(text) is None:
        raise FileError(f"no folder {shorten(text)}; {_EXPECTED}")
    near = nearest_name(text, shipped_models())
    if near is not None and "/" not in text:  # misspelled: the hub has nothing to do with it
        raise FileError(
            f"no folder and no shipped model {text!r} ({_list_shipped()}); did you mean {near!r}?"
        )
    return _download(text)


def is_sentence(name: str) -> bool:
    """True if a name can only be a text: it has white space or letters beyond ASCII, and no path.

    >>> from regard.models.checkpoints.locations import is_sentence
    >>> is_sentence("I love you"), is_sentence("我爱你"), is_sentence("./my model")
    (True, True, False)
    """
    is_plain = name.isascii() and not any(map(str.isspace, name.strip()))
    return not is_plain and "/" not in name and not is_file_name(name)


def is_file_name(name: str) -> bool:
    """True if a name ends as those of files do, such as .trace or .txt."""
    return name.lower().endswith(_FILE_SUFFIXES)


def shorten(text: str) -> str:
    """A text for a message: its first 40 characters."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _existing_path(name: str | Path) -> Path | None:
    """The path of this name if there is something; None if not, or if the name is no path."""
    try:
        path = Path(name).expanduser()
        finish_replacement(path, FILE_NAMES)
        return path if path.exists() else None
    except PermissionError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from error
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or ~ of an unknown user
        return None


def shipped_models() -> tuple[str, ...]:
    """The names of the models that came with the package."""
    folders = ZOO.iterdir() if ZOO.is_dir() else ()
    return tuple(sorted(path.name for path in folders if (path / "config.json").is_file()))


def _list_shipped() -> str:
    """The shipped models, for messages."""
    return f"shipped: {', '.join(shipped_models())}" if shipped_models() else "none is shipped"


def _suggestion(name: str) -> str:
    """The shipped name that was probably meant by a name on the hub, for messages."""
    near = nearest_name(name.rpartition("/")[2], shipped_models())
    return "" if near is None else f"; did you mean {near!r}?"


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
    raise FileError(
        f"no folder and no shipped model {name!r} ({_list_shipped()}), and {reason}"
        f"{_suggestion(name)}"
    )
