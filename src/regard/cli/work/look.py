"""The work of `regard look`."""

import tempfile
import webbrowser
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from regard.cli.language import say
from regard.cli.output import as_text
from regard.cli.work.drawing import Wish, draw
from regard.cli.work.record import record
from regard.cli.work.seeing import Seen, is_file, is_trace, looked, saved
from regard.errors import FileError, InputError, RegardError
from regard.storage import save_trace
from regard.types import Trace
from regard.views import View

_PAGES = (".html", ".htm")
_TRACES = (".trace", ".safetensors")
_FILES = (*_PAGES, ".png", ".svg", ".pdf", ".json", *_TRACES)


def run(text: str | None, model: str | None, trace: Path | None, **asked: Any) -> None:
    """Look, and draw what was seen."""
    out = _place(asked["out"], opens=asked["opens"])
    if trace is None and text is not None and _is_meant_as_trace(text):
        trace, text = Path(text), None
    seen = looked(text, model, asked) if trace is None else saved(text, model, trace, asked)
    wish = Wish(*(asked[name] for name in ("view", "layer", "head", "query", "lang")))
    view = draw(seen.trace, wish, seen.picture)
    if out is not None:
        _write(seen.trace, view, out)
    if asked["as_json"]:
        found = record(seen.trace, None if out else view)
        said = {"model": seen.model, "text": seen.text, "written": written(seen.trace)}
        click.echo(as_text(said | {"out": None if out is None else str(out)} | found))
    elif out is not None:
        click.echo(str(out))
    else:
        _print(seen, view)
    if asked["opens"] and out is not None:
        _open(out, asked["lang"], quiet=asked["quiet"])


def _is_meant_as_trace(text: str) -> bool:
    """Whether a text is the path of a trace, or of a file with the name of one."""
    return is_trace(Path(text)) or (is_file(text) and Path(text).suffix.lower() in _TRACES)


def _place(out: Path | None, *, opens: bool) -> Path | None:
    """The file to write; a page that is only opened may be anywhere. Refused before any work."""
    if out is None:
        return Path(tempfile.mkdtemp(prefix="regard-")) / "look.html" if opens else None
    suffix = out.suffix.lower()
    if suffix not in _FILES:
        raise InputError(
            f"cannot write {str(out)!r}; expected a name that ends with {', '.join(_FILES)}"
        )
    if opens and suffix not in _PAGES:
        raise click.UsageError("--open is for pages; give --out a name that ends with .html")
    if not out.parent.is_dir():
        raise FileError(f"cannot write {out}: there is no folder {out.parent}")
    return out


def _write(trace: Trace, view: View, out: Path) -> None:
    try:
        if out.suffix.lower() in _TRACES:
            save_trace(trace, out)
        else:
            view.save(out)
    except RegardError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {out}: {error.strerror or error}") from error


def _print(seen: Seen, view: View) -> None:
    console = Console()
    answer = written(seen.trace)
    if answer and seen.text is not None:
        console.print(f"{seen.text} → {answer}", markup=False, highlight=False)
    console.print(view)


def _open(page: Path, lang: str, *, quiet: bool) -> None:
    if not webbrowser.open(page.resolve().as_uri()) and not quiet:
        click.echo(say("no browser", lang, path=page), err=True)


def written(trace: Trace) -> str:
    """What was written about a source; of a model that reads no source, nothing."""
    cross = trace.of("cross")
    if not cross or cross[-1].produced is None:
        return ""
    tokens = trace.tokens(cross[-1].produced)
    special = tokens.special or (False,) * len(tokens)
    pieces = [each for each, out in zip(tokens.texts, special, strict=True) if not out]
    return "".join(pieces).replace("▁", " ").strip()
