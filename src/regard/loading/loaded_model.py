"""`load`: any model by its name, with what reads its inputs and what it can do."""

import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard.arguments import check_first_argument
from regard.configs import context_length
from regard.errors import FileError, InputError, RegardError, first_line
from regard.loading.abilities import (
    Abilities,
    abilities_of_native_model,
    abilities_of_transformers_model,
    has_independent_labels,
    label_names,
)
from regard.loading.devices import find_device
from regard.loading.pictures import PixelReader
from regard.loading.remote_code import (
    check_needs_no_code,
    closed_transformers,
    refuse_processor_code,
)
from regard.models import from_pretrained
from regard.models.checkpoints.build_limits import limit_parameters
from regard.models.checkpoints.files import count_tensors, read_json
from regard.models.checkpoints.locations import checkpoint_folder

__all__ = ["LoadedModel", "Precision", "load"]

Precision = Literal["float", "int8"]

# Files of which a checkpoint has at least one if transformers can read its inputs.
_PROCESSOR_FILES = (
    "tokenizer.json", "*.model", "*.spm", "vocab.*", "merges.txt", "tokenizer_config.json",
    "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
_MOST_TENSORS = 1 << 14  # of a checkpoint in another format than safetensors


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model, what prepares its inputs, and what it can do.

    `processor` is a tokenizer, an image processor, both in one, or None if the folder has neither.
    `native` is True for a model of one of regard's own classes, False for one of transformers.
    A model that `translates` writes about an input, one that `continues` goes on with it, one that
    `classifies` gives one of its `labels` (with `multi_label` several), one that `answers` finds
    the answer to a question in a text; it `sees` pictures or `hears` sounds, not texts.
    `context_length` is the largest number of tokens that it reads, None if nothing states it;
    `window` is the number that it reads best at once, where the model says so.
    """

    name: str
    model: Any
    processor: Any
    native: bool
    translates: bool
    continues: bool
    classifies: bool
    sees: bool
    hears: bool
    answers: bool = False
    matches: bool = False
    context_length: int | None = None
    labels: tuple[str, ...] = ()
    multi_label: bool = False
    window: int | None = None

    def __repr__(self) -> str:
        able = [name for name in Abilities._fields if getattr(self, name)]
        return (
            f"LoadedModel({self.name!r}, {type(self.model).__name__}, "
            f"{' and '.join(able) or 'encodes'}, context_length={self.context_length})"
        )

    @property
    def tokenizer(self) -> Any:
        """What splits texts into tokens; an InputError if the model's folder has nothing for it."""
        inner = getattr(self.processor, "tokenizer", None)
        if inner is None and (self.processor is None or self.sees):
            raise InputError(
                f"{self.name} has no tokenizer: a folder with one holds tokenizer.json"
            )
        return inner or self.processor


@check_first_argument
def load(
    name_or_path: str | Path,
    *,
    device: str | torch.device | None = None,
    precision: Precision | None = None,
    progress: bool = False,
) -> LoadedModel:
    """Load the model of a shipped name, a folder or a name on the Hugging Face hub.

    regard's own classes are tried first; an architecture that they do not have is loaded by
    transformers, if that is installed, without running code of the checkpoint. A folder needs no
    network; a hub name is downloaded once. The model is in evaluation mode on `device` (CUDA if
    there is one, else the CPU) in float32. With `precision="int8"` the large matrices of a native
    Transformer are kept in eight bits, which is for the CPU. `progress` lets transformers show its
    progress bars.

    >>> import regard
    >>> loaded = regard.load("en-zh-transformer", device="cpu")
    >>> loaded.translates, loaded.sees
    (True, False)
    >>> trace = regard.capture(loaded.model, loaded.processor, "I love you", generate=True)
    >>> trace.of("cross")[0].kind
    'cross'
    """
    name, target = str(name_or_path), find_device(device)
    if precision == "int8" and target.type != "cpu":
        raise InputError(f'precision="int8" is for the CPU; give device="cpu", got {target}')
    folder = checkpoint_folder(name_or_path)
    try:
        model, processor = _load_native(folder, precision or "float")
        able = abilities_of_native_model(model)
        native = True
    except RegardError as refusal:  # an architecture, or a setting of one, that we do not have
        if not _is_for_transformers(folder):
            raise
        if precision == "int8":
            raise InputError(
                f"{refusal}; only a Transformer of regard has an int8 form, load this one with "
                'precision="float"'
            ) from refusal
        model, processor = _load_by_transformers(folder, refusal, name, progress=progress)
        able = abilities_of_transformers_model(model)
        native = False
    limit = context_length(getattr(model, "config", None), processor)
    return LoadedModel(
        name,
        model.to(target).eval(),
        processor,
        native,
        **able._asdict(),
        context_length=limit,
        labels=label_names(model) if able.classifies else (),
        multi_label=able.classifies and has_independent_labels(model),
        window=getattr(model.config, "window", None) if native else None,
    )


def _is_for_transformers(folder: Path) -> bool:
    """True for a checkpoint that names no class of regard's own."""
    config = folder / "config.json"
    return config.is_file() and "class" not in read_json(config)


def _load_native(folder: Path, precision: Precision) -> tuple[Any, Any]:
    """The model by regard's own classes, and its tokenizer or what reads its pictures."""
    model = from_pretrained(folder, precision=precision)
    if abilities_of_native_model(model).sees:
        return model, _picture_reader(model, folder)
    return model, model.tokenizer


def _picture_reader(model: Any, folder: Path) -> Any:
    """What makes pixels for a native model.

    It is the image processor of transformers where that can be loaded: it crops and resizes
    exactly as the model was trained.
    """
    if find_spec("transformers") is not None and (folder / "preprocessor_config.json").is_file():
        with suppress(Exception):  # whatever it lacks, such as torchvision
            hf = _silenced_transformers()
            with closed_transformers():
                return hf.AutoImageProcessor.from_pretrained(
                    folder, local_files_only=True, trust_remote_code=False
                )
    return PixelReader.for_model(folder, model.config, model.tokenizer)


def _load_by_transformers(
    folder: Path, refusal: RegardError, name: str, *, progress: bool
) -> tuple[nn.Module, Any]:
    """The model by the class of transformers that its config names, and its processor."""
    if find_spec("transformers") is None:
        raise InputError(f"{refusal}; to load it by transformers: pip install 'regard[hf]'")
    hf = _silenced_transformers(progress_bars=progress and sys.stderr.isatty())
    check_needs_no_code(hf, folder, name)
    try:
        with closed_transformers():
            return _transformers_model(hf, folder), _transformers_processor(hf, folder, name)
    except RegardError:
        raise
    except Exception as error:  # whatever it meets: its message says what
        raise FileError(
            f"{refusal}; transformers cannot load {name} either ({first_line(error)})"
        ) from error


def _transformers_model(hf: Any, folder: Path) -> nn.Module:
    """The model of the class that the config names, else of the one that fits the config."""
    config = hf.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    named = [getattr(hf, str(name), None) for name in config.architectures or ()]
    # a config may name anything of transformers, so that a class of models is looked for
    classes: list[Any] = [
        kind for kind in named if isinstance(kind, type) and issubclass(kind, nn.Module)
    ]
    # a config may ask for a million layers, whose building would take minutes or hours
    with limit_parameters(folder, count_tensors(folder) or _MOST_TENSORS):
        model: nn.Module = (classes or [hf.AutoModel])[0].from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32
        )
    return model


def _transformers_processor(hf: Any, folder: Path, name: str) -> Any:
    """The processor of a checkpoint, else its tokenizer, else its image processor, else None."""
    # without any of these files transformers would build an empty tokenizer
    if not any(file for pattern in _PROCESSOR_FILES for file in folder.glob(pattern)):
        return None
    for auto_class in (hf.AutoProcessor, hf.AutoTokenizer, hf.AutoImageProcessor):
        with suppress(Exception):  # a checkpoint need not have this kind
            return auto_class.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    refuse_processor_code(folder, name)
    return None


def _silenced_transformers(*, progress_bars: bool = False) -> Any:
    """The package transformers, which from now on logs errors only."""
    import transformers

    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    if not progress_bars:
        logging.disable_progress_bar()
    return transformers
