"""Any model that can be looked at: one of ours, or one of transformers by its own classes."""

import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.cli.work.devices import device_of
from regard.cli.work.kinds import kind_of, sees, writes
from regard.cli.work.pictures import Pixels
from regard.errors import FileError, InputError, RegardError
from regard.models import from_pretrained
from regard.models.checkpoints.files import read_json
from regard.models.checkpoints.locations import folder_of

_READERS = (
    "tokenizer.json", "*.model", "*.spm", "vocab.*", "merges.txt", "tokenizer_config.json",
    "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
_ENDLESS = 1 << 30  # tokenizers without a limit write a larger number


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model, what reads its inputs (a tokenizer, a processor or None), and what it does.

    `sees` is whether it looks at pictures, `translates` whether it writes about what it read,
    `continues` whether it goes on with it. `context` is how many tokens it reads, if it says so.
    """

    name: str
    model: nn.Module
    processor: Any
    ours: bool
    sees: bool
    translates: bool
    continues: bool
    context: int | None = None


def load(name: str, device: str | None = None, *, quiet: bool = True) -> Loaded:
    """The model of a shipped name, a folder or a hub name, by our classes or by transformers'.

    Ours come first. A folder needs no network; hub names go through the hub's own cache.
    """
    place, folder = device_of(device), folder_of(name)
    try:
        found = _ours(name, folder)
    except RegardError as error:  # an architecture, or a setting of one, that we do not have
        if not (folder / "config.json").is_file() or "class" in read_json(folder / "config.json"):
            raise
        found = _theirs(name, folder, error, quiet=quiet)
    found.model.to(place).eval()
    return replace(found, context=_context(found))


def _ours(name: str, folder: Path) -> Loaded:
    model = from_pretrained(folder)
    seeing, writing = sees(model), writes(model)
    return Loaded(
        name,
        model,
        _reader(model, folder) if seeing else model.tokenizer,
        ours=True,
        sees=seeing,
        translates=writing and kind_of(model) != "decoder",
        continues=writing and kind_of(model) == "decoder",
    )


def _reader(model: Any, folder: Path) -> Any:
    """What reads pictures for a model of ours: transformers where it can, for its finer points."""
    if find_spec("transformers") is not None and (folder / "preprocessor_config.json").is_file():
        with suppress(Exception):  # whatever it lacks, such as torchvision
            return _quiet_transformers().AutoImageProcessor.from_pretrained(
                folder, local_files_only=True
            )
    return Pixels.of(folder, model.config, model.tokenizer)


def _theirs(name: str, folder: Path, refusal: RegardError, *, quiet: bool) -> Loaded:
    if find_spec("transformers") is None:
        raise InputError(f"{refusal}; to load it by transformers: pip install 'regard[hf]'")
    hf = _quiet_transformers(bars=not quiet and sys.stderr.isatty())
    place: dict[str, Any] = {"pretrained_model_name_or_path": folder, "local_files_only": True}
    try:
        config = hf.AutoConfig.from_pretrained(**place)
        named = [getattr(hf, each, None) for each in config.architectures or ()]
        kind = next((each for each in named if each is not None), hf.AutoModel)
        model = kind.from_pretrained(**place, dtype=torch.float32)
    except Exception as error:  # whatever it meets: its message says what
        raise FileError(
            f"{refusal}; transformers cannot load {name} either ({brief(error)})"
        ) from error
    writes = bool(getattr(model, "can_generate", bool)())
    both = bool(getattr(config, "is_encoder_decoder", False))
    return Loaded(
        name,
        model,
        _processor(hf, place),
        ours=False,
        sees=model.main_input_name == "pixel_values",
        translates=writes and both,
        continues=writes and not both,
    )


def _processor(hf: Any, place: dict[str, Any]) -> Any:
    """The processor of a checkpoint, or what it has of one; an empty one helps nobody."""
    folder = place["pretrained_model_name_or_path"]
    if not any(each for name in _READERS for each in folder.glob(name)):
        return None
    for kind in (hf.AutoProcessor, hf.AutoTokenizer, hf.AutoImageProcessor):
        with suppress(Exception):  # a checkpoint need not have this kind
            return kind.from_pretrained(**place)
    return None


def _quiet_transformers(*, bars: bool = False) -> Any:
    """The package, which then says nothing that is no error."""
    import transformers

    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    return transformers


def _context(found: Loaded) -> int | None:
    """The most tokens that the model reads at once: by its config, or by its tokenizer."""
    config = getattr(found.model, "config", None)
    text = getattr(config, "get_text_config", lambda: config)()
    limits = [getattr(text, name, None) for name in ("max_positions", "max_position_embeddings")]
    limits.append(getattr(found.processor, "model_max_length", None))
    known = [each for each in limits if isinstance(each, int) and 0 < each < _ENDLESS]
    return min(known, default=None)


def brief(error: Exception) -> str:
    """The first line of what an error says, cut where it goes on and on."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return said if len(said) <= 200 else f"{said[:199]}…"
