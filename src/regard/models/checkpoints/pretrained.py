"""What every model of the room can do: be saved to a folder, and be loaded from one."""

import json
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import torch
from jaxtyping import Int
from safetensors.torch import save_file
from torch import Tensor, nn

from regard.errors import FileError, InputError, UnknownNameError
from regard.files import atomic_folder
from regard.models.checkpoints.families import FAMILIES
from regard.models.checkpoints.files import CheckpointTensors, read_json
from regard.models.checkpoints.locations import checkpoint_folder
from regard.models.checkpoints.parameter_mapping import Piece, fill, unfilled
from regard.models.checkpoints.registry import names, registered_class
from regard.models.checkpoints.site_names import original_site_names
from regard.models.config import Config
from regard.models.generation import GenerationSettings
from regard.models.tokenizers import Tokenizer

__all__ = ["Pretrained", "from_pretrained"]

P = TypeVar("P", bound="Pretrained")
Precision = Literal["float", "int8"]

# The files that save_pretrained writes: those left over from an earlier save are removed.
FILE_NAMES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "target_tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
)
_TOKENIZERS = (
    "tokenizer.json", "source.spm", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
    "merges.txt", "vocab.txt",
)  # fmt: skip
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


class Pretrained(nn.Module):
    """A model with its configuration, its tokenizer (or None) and its way of generating.

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

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config, weights, tokenizer and generation settings, whole or not at all."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise FileError(f"{folder} is a file; expected a folder to write the checkpoint to")
        try:
            with atomic_folder(folder, own_names=FILE_NAMES) as temporary:
                self._write(temporary)
        except FileError:
            raise
        except OSError as error:
            raise FileError(f"cannot write the checkpoint to {folder}: {error}") from error

    def prepare_decoder_input_ids_from_labels(
        self, labels: Int[Tensor, "batch target"]
    ) -> Int[Tensor, "batch target"]:
        """What a decoder reads while it is to write the labels: the start token, then they."""
        start = self.generation.decoder_start_token_id
        if start is None:
            raise InputError(
                "what the decoder starts with is not known: set decoder_start_token_id in "
                "model.generation"
            )
        return torch.cat([labels.new_full((len(labels), 1), start), labels[:, :-1]], dim=1)

    def _write(self, folder: Path) -> None:
        config = {"class": type(self).__name__} | self.config.to_json()
        if self.site_names:
            config["site_names"] = self.site_names
        text = json.dumps(config, indent=2, ensure_ascii=False)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        (folder / "generation_config.json").write_text(self.generation.to_json(), encoding="utf-8")
        save_file(_tensors(self), folder / "model.safetensors", {"format": "pt"})
        if self.tokenizer is not None:
            self.tokenizer.save(folder)


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
    config = read_json(folder / "config.json")
    model = _own(folder, config, dtype) if "class" in config else _foreign(folder, config, dtype)
    model.tokenizer = _tokenizer(folder)
    model.generation = _generation(folder, config)
    return _lightened(model.eval(), name) if precision == "int8" else model.eval()


def _lightened(model: Any, name: str | Path) -> Any:
    if not hasattr(model, "to_int8"):
        raise InputError(
            f"{name} holds a {type(model).__name__}; only a Transformer has an int8 form, "
            'load this one with precision="float"'
        )
    return model.to_int8()


def _own(folder: Path, config: dict[str, Any], dtype: torch.dtype) -> Any:
    kind = registered_class(str(config.pop("class")))
    site_names = config.pop("site_names", {})
    with unfilled():
        model = kind(kind.config_class.from_json(config)).to(dtype)
    model.site_names = site_names
    weights = CheckpointTensors(folder)
    fill(model, (Piece(n, n, partial(weights.__getitem__, n)) for n in weights), folder)
    return model


def _foreign(folder: Path, config: dict[str, Any], dtype: torch.dtype) -> Any:
    kind = str(config.get("model_type", ""))
    if kind not in FAMILIES:
        raise UnknownNameError(
            f"architecture (model_type of {folder / 'config.json'})", kind, [*FAMILIES, *names()]
        )
    family, weights = FAMILIES[kind], CheckpointTensors(folder)
    ours = family.config(folder, config, weights)
    with unfilled():
        model = registered_class("Transformer")(ours).to(dtype)
    model.site_names = original_site_names(model, ours, family)
    fill(model, family.pieces(weights, ours), folder, family.theirs)
    return model


def _tokenizer(folder: Path) -> Tokenizer | None:
    """That of the folder, None if there is none."""
    there = any((folder / name).is_file() for name in _TOKENIZERS)
    return Tokenizer.load(folder) if there else None


def _generation(folder: Path, config: dict[str, Any]) -> GenerationSettings:
    """Those of generation_config.json; ids that it does not tell, or all, are in config.json."""
    file = folder / "generation_config.json"
    if not file.is_file():
        return GenerationSettings.from_json(json.dumps(config))
    ids = {key: config[key] for key in _IDS if config.get(key) is not None}
    return GenerationSettings.from_json(json.dumps(ids | read_json(file)))


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """What is to be stored by name, a shared one once."""
    names: dict[int, str] = {}
    for name, each in model.state_dict(keep_vars=True).items():
        names.setdefault(id(each), name)
    stored = model.state_dict()
    whole = torch.contiguous_format
    return {name: stored[name].clone(memory_format=whole) for name in names.values()}
