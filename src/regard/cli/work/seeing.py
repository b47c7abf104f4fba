"""What `regard look` is to show: a saved trace, or what a model saw in a text or a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from regard.cli.work.inputs import text_of
from regard.cli.work.writing import usual
from regard.errors import FileError, InputError, RegardError
from regard.loading import LoadedModel, is_picture, load, page_picture, read_picture
from regard.loading.loaded_model import first_line
from regard.storage import load_trace
from regard.storage.layout import LENGTH_BYTES, MAGIC
from regard.tracing import capture
from regard.types import Trace

_USUAL = "en-zh-transformer"
_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".trace", ".safetensors")
_NEW = 40  # tokens that a story goes on for


@dataclass(frozen=True, eq=False)
class Seen:
    """A trace, what was read, and what is known of it beside."""

    trace: Trace
    text: str | None = None
    model: str | None = None
    picture: bytes | None = None
    usual_layer: int | None = None


def is_trace(path: Path) -> bool:
    """Whether a file is a saved trace, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(LENGTH_BYTES + len(MAGIC))[LENGTH_BYTES:] == MAGIC
    except (OSError, ValueError):
        return False


def saved(text: str | None, model: str | None, trace: Path, asked: dict[str, Any]) -> Seen:
    """A trace of a file, with which nothing else goes."""
    given = {"a text": text, "--model": model, "--file": asked["file"]}
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"a saved trace has its model behind it; leave out {name}")
    return Seen(load_trace(trace))


def looked(text: str | None, model: str | None, asked: dict[str, Any]) -> Seen:
    """What the model saw in the text, or in the picture that the text is the path of."""
    name = usual(model, "look", _USUAL)
    if asked["seed"] is not None:
        torch.manual_seed(asked["seed"])
    if text is not None and is_file(text) and is_picture(Path(text)):
        return _at_picture(
            Path(text), load(name, device=asked["device"], progress=not asked["quiet"]), asked
        )
    if text is not None and is_file(text) and Path(text).suffix:
        raise InputError(f"{text} is a file; to read it: --file {text}")
    if text is not None and _is_name(text):
        raise FileError(f"there is no file {text}; name one that is there, or give a text")
    told = text_of(text, asked["file"])
    loaded = load(name, device=asked["device"], progress=not asked["quiet"])
    if loaded.sees:
        raise InputError(f"{name} looks at pictures; give the path of one, got {_quoted(told)}")
    return _at_text(told, loaded, asked)


def _quoted(text: str) -> str:
    """A text as a message quotes it."""
    return repr(text if len(text) <= 40 else f"{text[:39]}…")


def is_file(text: str) -> bool:
    """Whether a text is the path of a file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, as texts are
        return False


def _is_name(text: str) -> bool:
    """Whether a text can only be meant as the name of a picture or a trace."""
    return text.lower().endswith(_NAMES) and not any(map(str.isspace, text))


def _at_picture(path: Path, loaded: LoadedModel, asked: dict[str, Any]) -> Seen:
    if not loaded.sees:
        raise InputError(
            f"{loaded.name} reads texts, not pictures; name one that sees with --model"
        )
    if loaded.processor is None:
        raise InputError(
            f"{loaded.name} does not say how it reads pictures; a folder that does holds "
            "preprocessor_config.json"
        )
    plan = _settings(loaded, asked) or True if loaded.translates else None
    trace = _captured(loaded, read_picture(path), plan)
    return Seen(trace, str(path), loaded.name, page_picture(path, loaded.processor))


def _at_text(text: str, loaded: LoadedModel, asked: dict[str, Any]) -> Seen:
    text, count = _fitting(text, loaded, asked)
    trace = _captured(loaded, text, _plan(loaded, count, asked))
    return Seen(trace, text, loaded.name, usual_layer=loaded.alignment_layer)


def _fitting(text: str, loaded: LoadedModel, asked: dict[str, Any]) -> tuple[str, int]:
    """The text, or so much of it as --limit says, and its tokens; refused where it is too long."""
    source = getattr(loaded.tokenizer, "source", loaded.tokenizer)
    limit, most = asked["limit"], loaded.context_length
    count = len(source(text)["input_ids"])
    if limit is not None and limit < count:
        text, count = _cut(text, source, limit)
    if most is not None and count > most:
        raise InputError(
            f"{loaded.name} expected at most {most:,} tokens, its context, got {count:,}; read "
            f"fewer with --limit {most}, or name a model with a longer context"
        )
    return text, count


def _cut(text: str, source: Any, limit: int) -> tuple[str, int]:
    """The longest beginning of the text with so many tokens, special ones counted, and how many."""
    if not getattr(source, "is_fast", False):
        raise InputError("--limit needs a fast tokenizer, which tells where its tokens are")
    offsets = source(text, return_offsets_mapping=True)["offset_mapping"]
    for wanted in range(limit, 0, -1):
        beginning = text[: max(end for _, end in offsets[:wanted])]
        count = len(source(beginning)["input_ids"]) if beginning else 0
        if 0 < count <= limit:
            return beginning, count
    raise InputError(f"--limit {limit} leaves no text; give more tokens")


def _settings(loaded: LoadedModel, asked: dict[str, Any]) -> dict[str, Any]:
    found = {} if asked["beam"] is None else {"num_beams": asked["beam"]}
    # ours draw from a seed of their own, others from torch's
    return found | ({"seed": asked["seed"]} if asked["seed"] is not None and loaded.native else {})


def _plan(loaded: LoadedModel, count: int, asked: dict[str, Any]) -> dict[str, Any] | bool | None:
    """The settings to generate with; None where the text is only read."""
    plan = _settings(loaded, asked)
    if loaded.translates:
        if asked["new"]:
            plan["max_new_tokens"] = asked["new"]
        return plan or True
    new = asked["new"] if asked["new"] is not None else 0 if asked["file"] else _NEW
    if loaded.context_length is not None:
        new = min(new, loaded.context_length - count)
    return plan | {"max_new_tokens": new} if loaded.continues and new > 0 else None


def _captured(loaded: LoadedModel, given: Any, plan: dict[str, Any] | bool | None) -> Trace:
    try:
        trace: Trace = capture(loaded.model, loaded.processor, given, generate=plan)
    except RegardError:
        raise
    except Exception as error:
        if loaded.native:
            raise
        raise InputError(f"{loaded.name} cannot run on this input ({first_line(error)})") from error
    return trace
