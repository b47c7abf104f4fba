"""The work of `regard info`."""

from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from regard.cli.output import as_text
from regard.cli.work.models import columns, portrayed, size_of
from regard.cli.work.record import record
from regard.cli.work.seeing import is_trace
from regard.cli.work.words import printable
from regard.errors import FileError
from regard.loading import cached_models, describe_model
from regard.loading.descriptions import is_model_folder
from regard.models import shipped_models
from regard.models.checkpoints.locations import checkpoint_folder
from regard.storage import load_trace
from regard.text import say as sentence
from regard.types import Tokens, Trace

_SHOWN = 12  # tokens of a stream that are printed
_WORDS = {
    "trace": ("Trace", "记录"),
    "stream": ("Stream {}", "序列 {}"),
    "tokens": ("{} tokens: {}", "{} 个词元：{}"),
    "maps": ("Maps", "图"),
    "map": (
        "{} x {}, {} heads, {} x {} tokens, {}: {}",
        "{} 个{}，{} 头，{} x {} 词元，{}：{}",
    ),
    "gap": ("Not seen", "未能记录"),
    "recomputable": ("any weight can be computed again", "可重算任意权重"),
    "dense": ("every weight is kept", "保存全部权重"),
    "summary": ("statistics and atlas only", "仅存统计量与缩略图"),
}


def run(file: str, lang: str, as_json: bool) -> None:
    """Print the glance."""
    path = Path(file).expanduser()
    console = Console(highlight=False)
    folder = None if path.is_file() and is_trace(path) else _folder(file, path)
    if folder is None:
        trace, size = load_trace(path), path.stat().st_size
        if as_json:
            click.echo(as_text(record(trace, None) | {"file": str(path), "bytes": size}, indent=2))
        else:
            console.print(columns(_lines(trace, path, size, lang == "zh")))
        return
    found = describe_model(folder, file if not path.exists() else None)
    if as_json:
        click.echo(as_text(found.to_json(), indent=2))
    else:
        console.print(portrayed(found, lang))


def _folder(file: str, path: Path) -> Path | None:
    """The folder of the model that is meant; None for a file that may be a damaged trace."""
    if path.is_dir():
        return path
    if path.is_file():
        return path.parent if is_model_folder(path.parent) else None
    if file in shipped_models():
        return checkpoint_folder(file)
    known = cached_models()
    if file in known:
        return known[file]
    names = ", ".join([*shipped_models(), *known])
    raise FileError(f"no file, folder or model {file!r} here; the models are {names or 'none'}")


def _lines(trace: Trace, path: Path, size: int, chinese: bool) -> Iterator[tuple[str, str]]:
    def say(word: str, *values: object) -> str:
        return _WORDS[word][chinese].format(*values)

    yield say("trace"), f"{path}, {size_of(size)}"
    for name, tokens in trace.streams.items():
        yield say("stream", name), say("tokens", f"{len(tokens):,}", _beginning(tokens))
    groups: dict[tuple[str, tuple[int, int, int], str], list[str]] = {}
    for each in trace.maps:
        key = (each.kind, each.shape, type(each.source).__name__.lower())
        groups.setdefault(key, []).append(each.site)
    for (kind, (heads, rows, width), kept), sites in groups.items():
        named = sites[0] if len(sites) == 1 else f"{sites[0]} … {sites[-1]}"
        known = sentence(f"kind.{kind}", "zh" if chinese else "en")
        sizes = (heads, f"{rows:,}", f"{width:,}")
        yield say("maps"), say("map", len(sites), known, *sizes, say(kept), named)
    for gap in trace.gaps:
        yield say("gap"), f"{gap.site}: {gap.reason}"


def _beginning(tokens: Tokens) -> str:
    shown = " ".join(printable(text) for text in tokens.texts[:_SHOWN])
    return shown if len(tokens) <= _SHOWN else f"{shown} …"
