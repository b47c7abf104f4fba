"""Saving a model to a folder, and loading one from a folder, a shipped name or the hub."""

import json
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.documents import check_value
from regard.errors import FileError, InputError, UnknownNameError
from regard.files import atomic_folder, read_unchanged_folder
from regard.models.checkpoints.build_limits import limit_sizes
from regard.models.checkpoints.differences import AdaptedTensors, base_folder, changed_tensors
from regard.models.checkpoints.families import FAMILIES
from regard.models.checkpoints.files import CheckpointTensors, read_json
from regard.models.checkpoints.locations import FILE_NAMES, checkpoint_folder
from regard.models.checkpoints.parameter_mapping import (
    MappedTensor,
    copy_parameters,
    skip_initialisation,
)
from regard.models.checkpoints.registry import names, registered_class
from regard.models.checkpoints.site_names import original_site_names
from regard.models.checkpoints.stored_int8 import store_as_int8
from regard.models.config import Config
from regard.models.generation import GenerationSettings
from regard.models.tokenizers import Tokenizer

__all__ = ["Pretrained", "from_pretrained"]

P = TypeVar("P", bound="Pretrained")
Precision = Literal["float", "int8"]

_TOKENIZER_FILES = (
    "tokenizer.json", "source.spm", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "merges.txt", "vocab.txt",
)  # fmt: skip
_TOKEN_ID_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


class Pretrained(nn.Module):
    """The base class of all models: a configuration, a tokenizer or None, generation settings.

    `site_names` are the module paths that a converted checkpoint had before, by the paths here:
    traces call its attention by them. Other models have none.

    A class of models names its `config_class`, is built from one, and is registered by
    `checkpoints.registry.register`.
    """

    config_class: ClassVar[type[Config]]
    config: Any
    tokenizer: Tokenizer | Any | None

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = None
        self.generation = GenerationSettings()
        self.site_names: dict[str, str] = {}

    @classmethod
    def from_pretrained(
        cls: type[P],
        name: str | Path,
        *,
        dtype: torch.dtype = torch.float32,
        precision: Precision = "float",
    ) -> P:
        """The model of a shipped name, of a folder, or of a name on the hub, ready to be used.

        The weights become `dtype`, whatever they are in the file; with `precision="int8"` large
        matrices are kept in eight bits.
        """
        model = from_pretrained(name, dtype=dtype, precision=precision)
        if not isinstance(model, cls):
            raise InputError(
                f"{name} holds a {type(model).__name__}, not a {cls.__name__}; "
                "regard.models.from_pretrained picks the class"
            )
        return model

    def save_pretrained(
        self, folder: str | Path, *, stored: Precision = "float", base: str | None = None
    ) -> None:
        """Write config, weights, tokenizer and generation settings, whole or not at all.

        With stored="int8" large matrices take a quarter of their size on disk, each row as 8-bit
        integers with a scale; they are loaded as floating point again. With a `base`, the name of
        the model that this one was adapted from, only what was trained is written.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder} is a file; expected a folder to write the checkpoint to")
        try:
            with atomic_folder(folder, own_names=FILE_NAMES) as temporary:
                self._write(temporary, stored, base)
        except FileError:
            raise
        except (OSError, SafetensorError) as error:
            raise FileError(
                f"cannot write the checkpoint to {folder}: {error}; what was there before is as it "
                "was, make room or name another folder"
            ) from error

    def prepare_decoder_input_ids_from_labels(
        self, labels: Int[Tensor, "batch target"]
    ) -> Int[Tensor, "batch target"]:
        """The decoder's input for these labels: they are shifted right, after the start token."""
        start = self.generation.decoder_start_token_id
        if start is None:
            raise InputError(
                "what the decoder starts with is not known: set decoder_start_token_id in "
                "model.generation"
            )
        return torch.cat([labels.new_full((len(labels), 1), start), labels[:, :-1]], dim=1)

    def _write(self, folder: Path, stored: Precision, base: str | None) -> None:
        """Write all files of the checkpoint into an existing folder."""
        config = {"class": type(self).__name__} | self.config.to_json()
        if base is not None:
            config["base"] = base
        if self.site_names:
            config["site_names"] = self.site_names
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        (folder / "generation_config.json").write_text(self.generation.to_json(), encoding="utf-8")
        tensors = _tensors(self) if base is None else changed_tensors(self)
        tensors = tensors if stored == "float" else store_as_int8(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        if self.tokenizer is not None and base is None:  # a difference has that of its base
            self.tokenizer.write_files(folder)


@check_first_argument
def from_pretrained(
    name: str | Path, *, dtype: torch.dtype = torch.float32, precision: Precision = "float"
) -> Any:
    """The model of a shipped name, of a folder, or of a hub name; its folder tells the class.

    Folders of Hugging Face's Marian, BART, mBART, GPT-2, Llama, BERT and ViT become a Transformer.
    With `precision="int8"` the large matrices of a Transformer are kept in eight bits, which
    makes it lighter, and faster on a CPU.
    """
    if not dtype.is_floating_point:
        raise InputError(f"expected a floating-point dtype, got {dtype}")
    folder = checkpoint_folder(name)
    model = read_unchanged_folder(folder, lambda: _load_folder(folder, dtype))
    return _quantise(model.eval(), name) if precision == "int8" else model.eval()


def _load_folder(folder: Path, dtype: torch.dtype) -> Any:
    """The model of a folder, with its tokenizer and generation settings."""
    config = read_json(folder / "config.json")
    base = base_folder(folder, config["base"]) if "base" in config else None
    model = (
        _load_own(folder, config, dtype, base)
        if "class" in config
        else _load_converted(folder, config, dtype)
    )
    model.tokenizer = _tokenizer(base or folder)
    model.generation = _generation(folder, config)
    return model


def _quantise(model: Any, name: str | Path) -> Any:
    """The 8-bit form of a model; an InputError for classes that have none."""
    if not hasattr(model, "to_int8"):
        raise InputError(
            f"{name} holds a {type(model).__name__}; only a Transformer has an int8 form, "
            'load this one with precision="float"'
        )
    return model.to_int8()


def _load_own(
    folder: Path, config: dict[str, Any], dtype: torch.dtype, base: Path | None = None
) -> Any:
    """The model of a folder that `save_pretrained` wrote, perhaps as a difference to a base."""
    kind = registered_class(str(config.pop("class")))
    config.pop("base", None)
    site_names = config.pop("site_names", {})
    check_value(str(folder / "config.json"), "site_names", site_names, dict[str, str])
    settings, weights = kind.config_class.from_json(config), _read_weights(folder, base)
    with skip_initialisation(), limit_sizes(folder, weights):
        model = kind(settings).to(dtype)
    model.site_names = site_names
    copy_parameters(
        model, (MappedTensor(n, n, partial(weights.__getitem__, n)) for n in weights), folder
    )
    return model


def _read_weights(folder: Path, base: Path | None) -> CheckpointTensors | AdaptedTensors:
    """The tensors of a folder, where it has a base those of the adapted base."""
    own = CheckpointTensors(folder)
    return own if base is None else AdaptedTensors(own, CheckpointTensors(base), folder)


def _load_converted(folder: Path, config: dict[str, Any], dtype: torch.dtype) -> Any:
    """A Transformer with the weights of a Hugging Face checkpoint."""
    kind = str(config.get("model_type", ""))
    if kind not in FAMILIES:
        raise UnknownNameError(
            f"architecture (model_type of {folder / 'config.json'})", kind, [*FAMILIES, *names()]
        )
    family, weights = FAMILIES[kind], CheckpointTensors(folder)
    ours = family.config(folder, config, weights)
    with skip_initialisation(), limit_sizes(folder, weights):
        model = registered_class("Transformer")(ours).to(dtype)
    model.site_names = original_site_names(model, ours, family)
    copy_parameters(model, family.mapped_tensors(weights, ours), folder, family.file_name)
    return model


def _tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of the folder, None if there is none."""
    there = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    return Tokenizer.load(folder) if there else None


def _generation(folder: Path, config: dict[str, Any]) -> GenerationSettings:
    """The settings of generation_config.json; missing ids, or all settings, from config.json."""
    file = folder / "generation_config.json"
    ids = {key: config[key] for key in _TOKEN_ID_KEYS if config.get(key) is not None}
    settings = ids | read_json(file) if file.is_file() else config
    try:
        return GenerationSettings.from_record(settings)
    except InputError as error:
        name = file if file.is_file() else folder / "config.json"
        raise FileError(f"{name} cannot be used: {error}") from None


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors to store by name; a shared parameter is stored once."""
    names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), name)
    stored = model.state_dict()
    whole = torch.contiguous_format
    return {name: stored[name].clone(memory_format=whole) for name in names.values()}
