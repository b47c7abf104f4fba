"""What the files of a folder say about the model in it, without its weights being read."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.arguments import check_first_argument
from regard.configs import architecture_name, context_length
from regard.documents import check_value, parse_json
from regard.errors import FileError, InputError, RegardError
from regard.models.checkpoints.differences import base_folder
from regard.models.checkpoints.families import FAMILIES
from regard.models.checkpoints.files import CheckpointTensors, read_json
from regard.models.checkpoints.registry import names
from regard.models.checkpoints.stored_int8 import SCALE_SUFFIX

__all__ = ["ModelDescription", "describe_model", "find_models", "is_model_folder"]

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "source.spm", "vocab.txt")
# Keys of config.json, a group for each naming scheme; in a group the encoder's key comes first.
_LAYERS = (
    ("layers", "decoder_layers"), ("encoder_layers", "decoder_layers"),
    ("num_layers", "num_decoder_layers"), ("num_hidden_layers",), ("n_layer",), ("n_layers",),
)  # fmt: skip
_HEADS = (
    ("heads",), ("num_attention_heads",), ("encoder_attention_heads",), ("num_heads",),
    ("n_head",), ("n_heads",),
)  # fmt: skip
_WIDTHS = (("d_model",), ("hidden",), ("hidden_size",), ("n_embd",), ("dim",))
_VOCABULARIES = (("vocab", "target_vocab"), ("vocab_size",))
# What is in the name of an architecture of transformers, and the task that it tells.
_ARCHITECTURE_TASKS = (
    ("ForConditionalGeneration", "translates"), ("MarianMTModel", "translates"),
    ("LMHeadModel", "continues"), ("ForCausalLM", "continues"), ("ForMaskedLM", "fills"),
    ("ForSequenceClassification", "classifies"), ("ForQuestionAnswering", "answers"),
    ("ForTokenClassification", "classifies"), ("ForImageClassification", "sees"),
)  # fmt: skip
_METADATA = "__metadata__"  # the only entry of a safetensors header that is no tensor
_KIND_TASKS = {"encoder-decoder": "translates", "decoder": "continues", "vision": "sees"}
_HEAD_TASKS = {"classes": "classifies", "spans": "answers"}
_CLASS_TASKS = {
    "Recurrent": "translates", "RecurrentClassifier": "classifies", "RecurrentReader": "answers",
    "PointerGenerator": "translates",
    "Captioner": "sees",
    "Recogniser": "sees",
    "Matcher": "matches",
}  # fmt: skip


@dataclass(frozen=True)
class ModelDescription:
    """A model as its files describe it; what they do not state is None or empty.

    `layers` and `vocabulary` have two numbers if encoder and decoder have their own. `task` is one
    of translates, continues, fills, classifies, answers, matches, sees and reads. `loads` is the
    package whose class loads the model, "regard" or "transformers", and `why` the reason if it is
    not "regard". `score` is the first row of the table of metrics in the model's card.
    """

    name: str
    folder: str
    architecture: str
    task: str
    layers: tuple[int, ...]
    heads: int | None
    width: int | None
    parameters: int | None
    bytes: int
    vocabulary: tuple[int, ...]
    context: int | None
    tokenizer: str | None
    loads: str
    why: str | None
    score: str | None

    def to_json(self) -> dict[str, Any]:
        """The description as JSON types."""
        return asdict(self)


def is_model_folder(folder: Path) -> bool:
    """True if the folder holds a checkpoint."""
    return (folder / "config.json").is_file()


@check_first_argument
def find_models(folder: Path) -> list[Path]:
    """The folder itself if it holds a model, else those folders in it that do."""
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise FileError(f"cannot read {folder}: {error.strerror}; give a folder") from error
    candidates = [folder] if is_model_folder(folder) else inner
    models = [path for path in candidates if is_model_folder(path)]
    if not models:
        raise FileError(f"{folder} holds no model: neither it nor its folders have a config.json")
    return models


@check_first_argument
def describe_model(folder: Path, name: str | None = None) -> ModelDescription:
    """Describe the model in a folder from its config, the headers of its weights and its card.

    >>> from regard.loading import describe_model
    >>> from regard.models.checkpoints.locations import checkpoint_folder
    >>> describe_model(checkpoint_folder("en-zh-transformer")).task
    'translates'
    """
    config = read_json(folder / "config.json")
    architecture = str(config.get("class") or architecture_name(config, "?"))
    refusal = _refusal_reason(folder, config)
    folders = [folder, *_base_folders(folder, config)]
    heads, widths = _first_numbers(config, _HEADS), _first_numbers(config, _WIDTHS)
    return ModelDescription(
        name=name or folder.resolve().name,
        folder=str(folder),
        architecture=architecture,
        task=_task(architecture, config),
        layers=_first_numbers(config, _LAYERS),
        heads=heads[0] if heads else None,
        width=widths[0] if widths else None,
        parameters=_count_all_parameters(folders),
        bytes=sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
        vocabulary=_first_numbers(config, _VOCABULARIES),
        context=context_length(config),
        tokenizer=next(
            (file for each in folders for file in _TOKENIZERS if (each / file).is_file()), None
        ),
        loads="regard" if refusal is None else "transformers",
        why=refusal,
        score=_card_metrics(folder),
    )


def _first_numbers(
    config: Mapping[str, Any], groups: tuple[tuple[str, ...], ...]
) -> tuple[int, ...]:
    """The numbers of the first group of keys of which the config has one."""
    for group in groups:
        numbers = [config[key] for key in group if isinstance(config.get(key), int)]
        if numbers:
            return tuple(numbers)
    return ()


def _task(architecture: str, config: Mapping[str, Any]) -> str:
    """What the model is for; "reads" if it only encodes texts."""
    if architecture in _CLASS_TASKS:
        return _CLASS_TASKS[architecture]
    if "class" in config:
        kind = str(config.get("kind", "encoder-decoder"))
        return _KIND_TASKS.get(kind, _HEAD_TASKS.get(str(config.get("head")), "reads"))
    return next((task for part, task in _ARCHITECTURE_TASKS if part in architecture), "reads")


def _base_folders(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """The folder of the model that this one is stored as a difference to, if it is there."""
    try:
        return [base_folder(folder, config["base"])] if "base" in config else []
    except FileError:
        return []


def _count_all_parameters(folders: Sequence[Path]) -> int | None:
    """The weights of a model and of its base together; None if a file cannot be read."""
    counts = [_count_parameters(folder) for folder in folders]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _count_parameters(folder: Path) -> int | None:
    """The number of weights in the safetensors files, by their headers; None for other files."""
    files = sorted(folder.glob("*.safetensors"))
    total = 0
    for file in files:
        try:
            shapes = _read_shapes(file)
        except (InputError, KeyError, OSError):  # a damaged file, or a link that leads nowhere
            return None
        total += sum(map(math.prod, shapes))
    return total if files else None


def _read_shapes(file: Path) -> list[list[int]]:
    """The shapes of the tensors in a safetensors file, by its header."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > file.stat().st_size:
            raise InputError(f"{file} is shorter than its header says")
        header = parse_json(opened.read(length), str(file))
    check_value(str(file), "its header", header, dict[str, dict[str, Any]])
    # the scales of matrices in 8 bits are no parameters
    tensors = {name: entry for name, entry in header.items() if name != _METADATA}
    shapes = [
        entry["shape"]
        for name, entry in tensors.items()
        if name.removesuffix(SCALE_SUFFIX) not in tensors or not name.endswith(SCALE_SUFFIX)
    ]
    check_value(str(file), "the shapes", shapes, list[list[int]])
    return shapes


def _refusal_reason(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Why regard's own classes do not load the checkpoint; None if they do."""
    if "class" in config:
        return None if config["class"] in names() else f"no class {config['class']!r} here"
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        return f"its architecture is none of {', '.join(FAMILIES)}"
    if not any(folder.glob("*.safetensors")):
        return None
    try:
        # the family refuses settings that its architecture here does not have
        family.config(folder, config, CheckpointTensors(folder))
    except RegardError as error:
        return str(error)
    return None


def _card_metrics(folder: Path) -> str | None:
    """The first row of the card's table of metrics, such as "BLEU 32.7 (beam 5)"."""
    try:
        card = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    section = re.search(r"^## (?:Scores?|Metrics)$(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\|(.+)\|\s*$", section[1], re.MULTILINE) if section else []
    if len(rows) < 3:  # a heading, the line of dashes, and a row
        return None
    heading, first = ([cell.strip() for cell in row.split("|")] for row in (rows[0], rows[2]))
    metrics = [f"{name} {value}" for name, value in zip(heading, first, strict=False) if value][1:]
    return f"{', '.join(metrics)} ({first[0]})" if metrics else None
