"""What a folder with a model says of itself, without its weights being read."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.errors import FileError, RegardError
from regard.models.checkpoints.families import FAMILIES
from regard.models.checkpoints.files import Weights, read_json
from regard.models.checkpoints.registry import names

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "source.spm", "vocab.txt")
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
_CONTEXTS = (("max_positions",), ("max_position_embeddings",), ("n_positions",))
_PIXELS = ("ForImageClassification", "ViT", "Captioner", "Recogniser")
_TASKS = (
    ("ForConditionalGeneration", "translates"), ("MarianMTModel", "translates"),
    ("LMHeadModel", "continues"), ("ForCausalLM", "continues"), ("ForMaskedLM", "fills"),
    ("ForSequenceClassification", "classifies"), ("ForQuestionAnswering", "answers"),
    ("ForTokenClassification", "classifies"), ("ForImageClassification", "sees"),
)  # fmt: skip
_OURS = {"encoder-decoder": "translates", "decoder": "continues", "vision": "sees"}


@dataclass(frozen=True)
class Portrait:
    """A model as its files describe it; what they do not tell is None.

    Layers and vocabularies may be two, of what reads and of what writes. `loads` is who loads it,
    "regard" or "transformers", and `score` what its card says first.
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

    def record(self) -> dict[str, Any]:
        """The portrait as JSON types."""
        return asdict(self)


def is_model(folder: Path) -> bool:
    """Whether a folder holds a checkpoint."""
    return (folder / "config.json").is_file()


def portrait(folder: Path, name: str | None = None) -> Portrait:
    """What the files of a folder say."""
    config = read_json(folder / "config.json")
    architecture = str(config.get("class") or (config.get("architectures") or ["?"])[0])
    refusal = _refusal(folder, config)
    heads, width, context = (_numbers(config, each) for each in (_HEADS, _WIDTHS, _CONTEXTS))
    return Portrait(
        name or folder.resolve().name,
        str(folder),
        architecture,
        _task(architecture, config),
        _numbers(config, _LAYERS),
        heads[0] if heads else None,
        width[0] if width else None,
        _parameters(folder),
        sum(each.stat().st_size for each in folder.iterdir() if each.is_file()),
        _numbers(config, _VOCABULARIES),
        context[0] if context else None,
        next((each for each in _TOKENIZERS if (folder / each).is_file()), None),
        "regard" if refusal is None else "transformers",
        refusal,
        _score(folder),
    )


def _numbers(config: Mapping[str, Any], keys: tuple[tuple[str, ...], ...]) -> tuple[int, ...]:
    """The values of the first keys of which one is there."""
    for group in keys:
        found = [config[key] for key in group if isinstance(config.get(key), int)]
        if found:
            return tuple(found)
    return ()


def _task(architecture: str, config: Mapping[str, Any]) -> str:
    if architecture in ("Recurrent", "Captioner", "Recogniser"):
        return "translates" if architecture == "Recurrent" else "sees"
    if "class" in config:
        kind = str(config.get("kind", "encoder-decoder"))
        return _OURS.get(kind, "classifies" if config.get("head") == "classes" else "reads")
    return next((task for end, task in _TASKS if end in architecture), "reads")


def _parameters(folder: Path) -> int | None:
    """How many numbers the safetensors files hold, by their headers; of other files, unknown."""
    files = sorted(folder.glob("*.safetensors"))
    total = 0
    for file in files:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > file.stat().st_size:
                return None
            try:
                header = json.loads(opened.read(length))
            except ValueError:
                return None
        header.pop("__metadata__", None)
        total += sum(math.prod(each["shape"]) for each in header.values())
    return total if files else None


def _refusal(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Why our classes do not load it; None where they do."""
    if "class" in config:
        known = names()
        return None if config["class"] in known else f"no class {config['class']!r} here"
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None:
        return f"its architecture is none of {', '.join(FAMILIES)}"
    if not any(folder.glob("*.safetensors")):
        return None
    try:
        family.config(folder, config, Weights(folder))
    except RegardError as error:
        return str(error)
    return None


def _score(folder: Path) -> str | None:
    """The first row of the first table of the card under a heading about scores."""
    try:
        card = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    section = re.search(r"^## Scores?$(.*?)(?=^## |\Z)", card, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\|(.+)\|\s*$", section[1], re.MULTILINE) if section else []
    if len(rows) < 3:
        return None
    heading, first = ([cell.strip() for cell in row.split("|")] for row in (rows[0], rows[2]))
    pairs = [f"{name} {value}" for name, value in zip(heading, first, strict=False) if value][1:]
    return f"{', '.join(pairs)} ({first[0]})" if pairs else None


def models_in(folder: Path) -> list[Path]:
    """The folder itself, if it holds a model, else those of its folders that do."""
    try:
        inner = sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError as error:
        raise FileError(f"cannot read {folder}: {error.strerror}; give a folder") from error
    found = [folder] if is_model(folder) else [each for each in inner if is_model(each)]
    if not found:
        raise FileError(f"{folder} holds no model: neither it nor its folders have a config.json")
    return found
