"""`regard info`: what a trace file or a model is."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli import options
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.errors import FileError
from regard.terminal import make_console
from regard.text import say
from regard.unicode import cut_text, replace_controls

if TYPE_CHECKING:
    from regard.types import Tokens, Trace

_SHOWN_TOKENS = 12  # tokens of a stream that are printed
_LONGEST_TOKEN = 80  # characters of a token that are printed
_EXAMPLES = """\b
Examples:
  regard info love.trace
  regard info en-zh-transformer
  regard info ./gpt2 --json"""


@dataclass(frozen=True)
class InfoOptions:
    """The options of `regard info`."""

    file: str
    lang: str
    as_json: bool


@command(epilog=_EXAMPLES)
@options.model_argument("file", "FILE|NAME")
@options.language
@options.as_json
def info(**arguments: Any) -> None:
    """Describe a trace or a model.

    FILE is a trace that regard look --out or save_trace wrote, the folder of a model, or a file in
    that folder; NAME is a shipped or cached model. For a trace: its tokens, its maps with their
    heads and sizes, what each map stores, and what could not be captured. For a model: its
    architecture, layers, heads, parameters, tokenizer, and the package that loads it.
    """
    _print_info(InfoOptions(**arguments))


def _print_info(options: InfoOptions) -> None:
    """Print what is known of the file: a trace or a model."""
    from regard.storage import is_trace_file

    path = Path(options.file).expanduser()
    folder = None if is_trace_file(path) else _model_folder(options.file, path)
    is_other = not is_trace_file(path) and path.suffix not in (".trace", ".safetensors")
    if folder is None and is_other and os.access(path, os.R_OK):
        raise FileError(f"{path} is no trace, and no file in the folder of a model; name one")
    if folder is None:
        _print_trace(path, options)
    else:
        _print_model(folder, None if path.exists() else options.file, options)


def _model_folder(name: str, path: Path) -> Path | None:
    """The folder of the model that is meant; None for a file that may be a damaged trace."""
    from regard.loading import find_model_folder
    from regard.loading.descriptions import is_model_folder

    if path.is_dir():
        return path
    if path.is_file():
        return path.parent if is_model_folder(path.parent) else None
    return find_model_folder(name)


def _print_model(folder: Path, name: str | None, options: InfoOptions) -> None:
    """Print the description of the model in a folder."""
    from regard.cli.printing.models import model_facts
    from regard.loading import describe_model

    model = describe_model(folder, name)
    if options.as_json:
        print_json(model.to_json(), indent=2)
    else:
        make_console().print(model_facts(model, options.lang))


def _print_trace(path: Path, options: InfoOptions) -> None:
    """Print the size, the streams, the maps and the gaps of a saved trace."""
    from regard.cli.printing.models import format_bytes, two_columns
    from regard.storage import load_trace
    from regard.types.record import trace_record

    trace, size = load_trace(path), path.stat().st_size
    if options.as_json:
        record = trace_record(trace) | {"shown": None, "file": str(path), "bytes": size}
        print_json(record, indent=2)
        return
    title = say("info.trace", options.lang), f"{path}, {format_bytes(size)}"
    make_console().print(two_columns([title, *_trace_lines(trace, options.lang)]))


def _trace_lines(trace: "Trace", language: str) -> Iterator[tuple[str, str]]:
    """Labels and texts of streams, maps and gaps; maps that differ in their site only share one."""
    for name, tokens in trace.streams.items():
        text = say("info.tokens", language, count=f"{len(tokens):,}", tokens=_first_tokens(tokens))
        yield say("info.stream", language, name=name), text
    groups: dict[tuple[str, tuple[int, int, int], str], list[str]] = {}
    for attention_map in trace.maps:
        stored = attention_map.source.form
        key = (attention_map.kind, attention_map.shape, stored)
        groups.setdefault(key, []).append(attention_map.site)
    for (kind, (heads, rows, columns), stored), sites in groups.items():
        yield (
            say("info.maps", language),
            say(
                "info.map",
                language,
                count=len(sites),
                kind=say(f"kind.{kind}", language),
                heads=heads,
                rows=f"{rows:,}",
                columns=f"{columns:,}",
                stored=say(f"info.stored.{stored}", language),
                sites=sites[0] if len(sites) == 1 else f"{sites[0]} … {sites[-1]}",
            ),
        )
    for gap in trace.gaps:
        yield say("info.gap", language), f"{gap.site}: {gap.reason}"


def _first_tokens(tokens: "Tokens") -> str:
    """The first tokens of a stream, with … if there are more."""
    shown = " ".join(
        replace_controls(cut_text(text, _LONGEST_TOKEN)) for text in tokens.texts[:_SHOWN_TOKENS]
    )
    return shown if len(tokens) <= _SHOWN_TOKENS else f"{shown} …"
