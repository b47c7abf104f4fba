"""`regard look`: what a model writes for a text, and where it looked while it wrote."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from regard.cli import options
from regard.errors import InputError
from regard.models import from_pretrained, shipped
from regard.tracing import capture
from regard.types import AttentionMap, Trace
from regard.views import View, flow, heads, heatmap, highlight

_USUAL = "en-zh-transformer"
_NEW = 40  # tokens that a story goes on for
_VIEWS = ("heatmap", "highlight", "flow", "heads")
_EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard look "I love you" --model en-zh-rnn --view flow
  regard look "I love you" --out page.html
  regard look "Once upon a time" --model stories --layer 2 --head 0"""


@click.command(epilog=_EXAMPLES)
@click.argument("text")
@click.option("--model", metavar="PATH|NAME", help="A shipped name, a folder, or a hub name.")
@click.option("--view", type=click.Choice(_VIEWS), default="heatmap", show_default=True)
@click.option("--layer", type=click.IntRange(0), help="Of the cross maps, or of all if none is.")
@click.option("--head", type=click.IntRange(0), help="One head instead of their mean.")
@click.option("--query", help="The token whose sources a highlight shows.")
@click.option("--beam", type=click.IntRange(1), help="Hypotheses side by side. [model's own]")
@click.option("--out", type=click.Path(path_type=Path), help=".html, .png, .svg, .pdf or .json")
@options.language
def look(text: str, model: str | None, out: Path | None, lang: str, **asked: Any) -> None:
    """Show where a model looks while it reads TEXT and writes.

    A translator's map is that of its translation: what was written down the side, the source along
    the top. Other models show how TEXT, and what they write after it, looks back. With --out a page
    or a figure is written instead of the terminal.
    """
    if not text.strip():
        raise InputError('there is no text to look at; give some, such as "I love you"')
    looked = from_pretrained(_named(model))
    trace = _traced(looked, text, asked["beam"])
    view = _view(looked, trace, asked, lang)
    if out is not None:
        click.echo(view.save(out))
        return
    console = Console()
    written = _written(trace)
    if written:
        console.print(f"{text} → {written}", markup=False, highlight=False)
    console.print(view)


def _named(model: str | None) -> str:
    if model is not None:
        return model
    if _USUAL not in shipped():
        raise click.UsageError(f"{_USUAL} is not shipped with this build; name one with --model")
    return _USUAL


def _traced(model: Any, text: str, beam: int | None) -> Trace:
    if model.tokenizer is None:
        raise InputError("this model has no tokenizer: a folder with one holds tokenizer.json")
    if not hasattr(model, "generate"):
        return capture(model, model.tokenizer, text)
    settings: dict[str, Any] = {} if beam is None else {"num_beams": beam}
    if not model.reads_source:
        settings["max_new_tokens"] = _NEW
    return capture(model, model.tokenizer, text, generate=settings or True)


def _view(model: Any, trace: Trace, asked: dict[str, Any], lang: str) -> View:
    kind, site = asked["view"], _site(model, trace, asked["layer"])
    if kind == "heads":
        return heads(trace, language=lang)
    if kind == "highlight":
        return highlight(trace, asked["query"], site, asked["head"], language=lang)
    if kind == "flow":
        span = "time" if trace[site].kind == "cross" else "layers"
        return flow(trace, site, asked["head"], span=span, language=lang)
    return heatmap(trace, site, asked["head"], language=lang)


def _site(model: Any, trace: Trace, layer: int | None) -> str:
    """The map to look at: of a translator the layer that aligns best, of others the last."""
    maps = trace.of("cross") or list(trace.maps)
    if layer is None and trace.of("cross"):
        layer = getattr(model.config, "alignment_layer", None)
    if layer is not None and layer >= len(maps):
        raise InputError(f"no layer {layer}; there are layers 0 to {len(maps) - 1}")
    return maps[-1 if layer is None else layer].site


def _written(trace: Trace) -> str:
    """The translation; of a model that reads no source, nothing."""
    cross: list[AttentionMap] = list(trace.of("cross"))
    if not cross or cross[-1].produced is None:
        return ""
    tokens = trace.tokens(cross[-1].produced)
    special = tokens.special or (False,) * len(tokens)
    pieces = [each for each, out in zip(tokens.texts, special, strict=True) if not out]
    return "".join(pieces).replace("▁", " ").strip()
