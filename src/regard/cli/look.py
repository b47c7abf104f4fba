"""`regard look`: what a model attends to while it reads and writes."""

import tempfile
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.inputs import (
    capture_inputs,
    check_is_text,
    check_names_no_missing_file,
    default_model,
    errors_name_options,
    is_file,
    read_text,
)
from regard.cli.lazy import command
from regard.cli.output import print_json
from regard.cli.printing.written_text import written_text
from regard.cli.task_results import classify_text
from regard.errors import FileError, InputError, RegardError
from regard.terminal import make_console, print_line
from regard.text import say
from regard.views.kinds import command_line_kinds

if TYPE_CHECKING:
    from regard.loading import LoadedModel
    from regard.types import TaskResult, Trace
    from regard.views import View
    from regard.views.functions import ViewOptions

_SHIPPED_MODEL = "en-zh-transformer"
_NEW_TOKENS = 40  # that a language model writes after the text
_MOST_WEIGHTS = 1 << 20  # that --json prints
_PAGES = (".html", ".htm")
_TRACES = (".trace", ".safetensors")
_OUTPUTS = (*_PAGES, ".png", ".svg", ".pdf", ".json", *_TRACES)
# A text without spaces that ends so is meant as the name of a file.
_INPUT_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", *_TRACES)
_EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard look "I love you" --model en-zh-rnn --view flow
  regard look "I love you" --out page.html --open
  regard look "This film is wonderful." --task sentiment
  regard look "The capital of France is" --model ./gpt2 --layer 5 --head 1
  regard look cat.png --model ./vit-base-patch16-224
  regard look --file book.txt --model ./Llama-3.2-1B --out book.html
  regard look "I love you" --out love.trace && regard look love.trace --query 爱"""


@dataclass(frozen=True)
class LookOptions:
    """The options of `regard look`."""

    text: str | None
    model: str | None
    task: str | None
    file: Path | None
    trace: Path | None
    view: str | None
    grid: tuple[int, int] | None
    layer: str | None
    head: int | None
    query: str | None
    beam: int | None
    new: int | None
    limit: int | None
    opens: bool
    out: Path | None
    lang: str
    as_json: bool
    seed: int | None
    device: str | None
    quiet: bool


@command(epilog=_EXAMPLES)
@click.argument("text", metavar="[TEXT|PICTURE|TRACE]", required=False)
@options.model
@options.subject
@options.file("--file", "Read the whole text of this file, in UTF-8; - is stdin.")
@options.file("--trace", "Draw this saved trace; no model is run.")
@click.option(
    "--view",
    type=click.Choice(command_line_kinds()),
    help="The kind of picture. [heatmap; for an image, overlay]",
)
@options.grid
@click.option(
    "--layer",
    metavar="N|SITE",
    help="A site by its name, or by its number from 0 among the cross-attention maps (among all "
    "maps if there are none). [the last cross-attention map, else the first map]",
)
@click.option(
    "--head", metavar="N", type=click.IntRange(0), help="One head instead of the mean over heads."
)
@click.option(
    "--query",
    metavar="TOKEN|N",
    help="Show what this token attends to; a number is a row, from 0.",
)
@options.beam
@click.option(
    "--new",
    metavar="N",
    type=click.IntRange(0),
    help="Number of tokens that the model writes after the text. [40; with --file 0]",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1), help="Read only the first N tokens of the text."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@options.out
@options.language
@options.as_json
@options.seed
@options.device
@options.quiet
def look(**arguments: Any) -> None:
    """Show what a model attends to in a text or an image.

    A model reads TEXT. For a translator the picture is the cross-attention of its translation:
    each row is a token that it writes, each column a token of the source. Other models show the
    attention within the text and what they write after it. --model is a shipped model, or a folder
    or hub name of Hugging Face: causal, masked, encoder-decoder, a classifier, or a vision model,
    for which PICTURE is an image file. - is stdin. TRACE is a file that --out or save_trace wrote.

    Without --out the picture is drawn in the terminal. --out writes a page (.html), a figure (.png,
    .svg, .pdf), the data of the picture (.json) or the trace (.trace, .safetensors). The page of a
    long text shows averages over cells, and exact weights at its beginning, its end, and for the
    token of --query.
    """
    _look(LookOptions(**arguments))


@dataclass(frozen=True, eq=False)
class Capture:
    """A trace, and the text or image file and the model that it comes from, if these are known.

    With --task it is the trace of a `result`, which has a picture of its own.
    """

    trace: "Trace"
    text: str | None = None
    model: str | None = None
    picture: bytes | None = None
    result: "TaskResult | None" = None


def _look(options: LookOptions) -> None:
    """Capture or load a trace, draw its view, and print, write or open it."""
    out = _output_file(options)
    trace_file = _trace_file(options)
    captured = _run_model(options) if trace_file is None else _load_trace(trace_file, options)
    view = _draw(captured, options)
    if out is not None:
        _write(captured.trace, view, out)
    if options.as_json:
        print_json(_record(captured, None if out else view, out))
    elif out is not None:
        print_line(str(out))
    else:
        _print_view(captured, view)
    if options.opens and out is not None:
        _open_page(out, options)


def _output_file(options: LookOptions) -> Path | None:
    """The file to write, checked before any work; --open alone writes to a temporary folder."""
    out = options.out
    if out is None:
        folder = tempfile.mkdtemp(prefix="regard-") if options.opens else None
        return None if folder is None else Path(folder) / "look.html"
    suffix = out.suffix.lower()
    if suffix not in _OUTPUTS:
        raise InputError(
            f"cannot write {str(out)!r}; expected a name that ends with {', '.join(_OUTPUTS)}"
        )
    if options.opens and suffix not in _PAGES:
        raise click.UsageError("--open is for pages; give --out a name that ends with .html")
    if not out.parent.is_dir():
        raise FileError(f"cannot write {out}: there is no folder {out.parent}")
    return out


def _trace_file(options: LookOptions) -> Path | None:
    """The file of a saved trace that is to be drawn: --trace, or a TEXT that is the path of one."""
    from regard.storage import is_trace_file

    text = options.text
    if options.trace is not None or text is None:
        return options.trace
    path = Path(text)
    named_as_trace = is_file(text) and path.suffix.lower() in _TRACES
    return path if named_as_trace or is_trace_file(path) else None


def _load_trace(file: Path, options: LookOptions) -> Capture:
    """The trace of a file, with which no option about a model goes."""
    from regard.storage import load_trace

    text = options.text if options.trace is not None else None
    for name, value in (
        ("a text", text),
        ("--model", options.model),
        ("--task", options.task),
        ("--file", options.file),
    ):
        if value is not None:
            raise click.UsageError(f"a saved trace has its model behind it; leave out {name}")
    return Capture(load_trace(file))


def _run_model(options: LookOptions) -> Capture:
    """The trace of the model on the text, or on the image that the text is the path of."""
    import torch

    from regard.loading import is_picture, load
    from regard.tasks.models import SUBJECTS

    text = options.text
    if options.seed is not None:
        torch.manual_seed(options.seed)
    if options.task is not None or options.model in SUBJECTS:
        _check_is_text(text)
        text = read_text(text, options.file)
        result = classify_text(text, options.model, options.task, options.device)
        return Capture(result.trace, text, result.model, result=result)
    name = default_model(options.model, "look", _SHIPPED_MODEL)
    if text is not None and is_file(text) and is_picture(Path(text)):
        loaded = load(name, device=options.device, progress=not options.quiet)
        return _capture_picture(Path(text), loaded, options)
    _check_is_text(text)
    text = read_text(text, options.file)
    loaded = load(name, device=options.device, progress=not options.quiet)
    if loaded.sees:
        quoted = repr(text if len(text) <= 40 else f"{text[:39]}…")
        raise InputError(f"{name} looks at pictures; give the path of one, got {quoted}")
    return _capture_text(text, loaded, options)


def _check_is_text(text: str | None) -> None:
    """Refuse a text that was surely meant as the name of a file."""
    if text is None:
        return
    check_is_text(text)
    check_names_no_missing_file(text, _INPUT_SUFFIXES)


def _capture_picture(path: Path, loaded: "LoadedModel", options: LookOptions) -> Capture:
    """The trace of a vision model on an image file, with the image for the page."""
    from regard.loading import page_picture, read_picture

    if not loaded.sees:
        raise InputError(
            f"{loaded.name} reads texts, not pictures; name one that sees with --model"
        )
    if loaded.processor is None:
        raise InputError(
            f"{loaded.name} does not say how it reads pictures; a folder that does holds "
            "preprocessor_config.json"
        )
    # a captioner writes with its own settings unless some are given
    generate = _generation_settings(loaded, options) or True if loaded.translates else None
    trace = capture_inputs(loaded, read_picture(path), generate, "this input")
    return Capture(trace, str(path), loaded.name, page_picture(path, loaded.processor))


def _capture_text(text: str, loaded: "LoadedModel", options: LookOptions) -> Capture:
    """The trace of a model on a text, and on what it writes after it."""
    from regard.loading import fit_text

    with errors_name_options({}, phrases={"limit= ": "--limit ", "limit=": "--limit "}):
        text, count = fit_text(loaded, text, options.limit)
    generate = _settings_for_text(loaded, count, options)
    return Capture(capture_inputs(loaded, text, generate, "this input"), text, loaded.name)


def _generation_settings(loaded: "LoadedModel", options: LookOptions) -> dict[str, Any]:
    """The settings of `generate` that were given as options."""
    settings = {} if options.beam is None else {"num_beams": options.beam}
    # native models have a generator of their own; others use torch's, which is seeded already
    if options.seed is not None and loaded.native:
        settings["seed"] = options.seed
    return settings


def _settings_for_text(
    loaded: "LoadedModel", count: int, options: LookOptions
) -> dict[str, Any] | bool | None:
    """The settings to generate with after a text of `count` tokens; None if it is only read."""
    settings = _generation_settings(loaded, options)
    if loaded.translates:
        if options.new:
            settings["max_new_tokens"] = options.new
        return settings or True
    new = options.new if options.new is not None else 0 if options.file else _NEW_TOKENS
    if loaded.context_length is not None:
        new = min(new, loaded.context_length - count)
    return settings | {"max_new_tokens": new} if loaded.continues and new > 0 else None


def _draw(captured: Capture, options: LookOptions) -> "View":
    """The view of the trace that the options describe."""
    from regard.views import view
    from regard.views.choose import choose_site

    trace, layer = captured.trace, options.layer
    choices = (options.view, layer, options.head, options.query, options.grid)
    result = captured.result
    if result is not None and all(choice is None for choice in choices):
        if not options.as_json or result.evidence is None:
            return view(result, language=options.lang)
        layer = result.evidence.site  # JSON has weights of the trace, also where a picture has not
    site = choose_site(trace, int(layer) if layer is not None and layer.isdecimal() else layer)
    _check_length(trace, site, options.view)
    chosen: ViewOptions = {"language": options.lang}
    if options.grid is not None:
        chosen["grid"] = options.grid
    with errors_name_options({}, {"grid=(14, 14)": "--grid 14x14"}):
        return view(
            trace,
            options.view,
            site=site,
            head=options.head,
            query=options.query,
            picture=captured.picture,
            **chosen,
        )


def _check_length(trace: "Trace", site: str, kind: str | None) -> None:
    """Refuse a text that is too long for the kind of picture, in the words of the options."""
    from regard.views.kinds import view_kind

    most = None if kind is None else view_kind(kind).most_tokens
    longest = max(trace[site].shape[1:])
    if most is not None and longest > most:
        raise InputError(
            f"--view {kind} shows {most:,} tokens at most, got {longest:,}; show fewer with "
            f"--limit {most}, or all with --view heatmap"
        )


def _write(trace: "Trace", view: "View", out: Path) -> None:
    """Write the trace or the view to a file, by the file's suffix."""
    from regard.storage import save_trace

    try:
        if out.suffix.lower() in _TRACES:
            save_trace(trace, out)
        else:
            view.save(out)
    except RegardError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {out}: {error.strerror or error}") from error


def _record(captured: Capture, view: "View | None", out: Path | None) -> dict[str, Any]:
    """The trace, and the weights that are shown, as JSON types; a file has the weights itself."""
    from regard.types.record import trace_record
    from regard.views.shown_weights import count_shown_weights, shown_weights

    count = 0 if view is None else count_shown_weights(captured.trace, view)
    if count > _MOST_WEIGHTS:
        raise InputError(
            f"{count:,} weights are too many to print; choose a row with --query, or write a file "
            "with --out"
        )
    return {
        "model": captured.model,
        "text": captured.text,
        "written": written_text(captured.trace),
        "out": None if out is None else str(out),
        **({} if captured.result is None else {"result": captured.result.to_json()}),
        **trace_record(captured.trace),
        "shown": None if view is None else shown_weights(captured.trace, view),
    }


def _print_view(captured: Capture, view: "View") -> None:
    """Print the source and its translation, if there is one, and the view."""
    console, answer = make_console(), written_text(captured.trace)
    if answer and captured.text is not None:
        console.print(f"{captured.text} → {answer}")
    console.print(view)


def _open_page(page: Path, options: LookOptions) -> None:
    """Open the page in a browser, or say where it is if there is no browser."""
    if not webbrowser.open(page.resolve().as_uri()) and not options.quiet:
        print_line(say("look.no-browser", options.lang, path=page), err=True)
