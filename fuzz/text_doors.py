"""Doors through which a text is shown by the library: views and tables, and all their outputs.

A door takes the text and an empty folder, and raises if the text did any harm. VIEWS has a function
for each registered kind of view, OUTPUTS one for each suffix and for the terminal and the notebook.
"""

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from unittest.mock import patch

import torch

from fuzz import text_checks as checks
from fuzz.hostile_texts import BENIGN
from regard.storage import load_trace, save_trace
from regard.studies.survey.files import load_survey, save_survey
from regard.studies.survey.table import Survey
from regard.terminal import make_console
from regard.tracing.statistics.collect import SiteStatistics
from regard.tracing.statistics.moments import Moments
from regard.types import AttentionMap, Axis, DenseWeights, Gap, Tokens, Trace
from regard.types.finding import Finding, FindingText, FindingView
from regard.unicode import cut_text
from regard.views import View, compare, flow, heads, heatmap, highlight, overlay, report
from regard.views.scene.streams import LONGEST_TOKEN
from regard.views.survey_table import survey_grid, survey_page

__all__ = ["OUTPUTS", "TABLES", "VIEWS", "Door", "hostile_trace", "view_door"]

Door = Callable[[str, Path], None]
_MEASURES = ("entropy", "confidence", "distance", "on_first", "on_self", "on_previous", "on_next")
_MEASURES += ("on_special", "on_punctuation")


def hostile_trace(text: str) -> Trace:
    """A trace with the text as a token, as the name of a site and as the reason of a gap."""
    axis = Axis("tokens", (0, 1, 2))
    weights = torch.eye(3).repeat(2, 1, 1)
    maps = AttentionMap(f"h.0{text}", "encoder", axis, axis, DenseWeights(weights))
    return Trace({"tokens": Tokens((text, "b", "c."))}, (maps,), (Gap(text, text),))


def _patch_trace(text: str) -> Trace:
    """Words with the text among them that look at the patches of a picture."""
    patches = Tokens(tuple(map(str, range(6))), grid=(2, 3), named=False)
    axes = Axis("words", (0, 1)), Axis("patches", tuple(range(6)))
    maps = AttentionMap(f"cross{text}", "cross", *axes, DenseWeights(torch.full((1, 2, 6), 1 / 6)))
    return Trace({"words": Tokens((text, "b")), "patches": patches}, (maps,))


def _picture() -> bytes:
    """A PNG of six black points."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(8))),
    )
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in (*chunks, (b"IEND", b""))
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _report(text: str) -> View:
    """A report whose finding has the text in every field that is shown."""
    words = {language: FindingText(text, text, text) for language in ("en", "zh")}
    site = f"h.0{text}"
    shown = FindingView("heatmap", site, 0)
    finding = Finding(
        f"check{text}", "warning", 0.9, 0.5, words, site, 0, view=shown, remedy_code=text
    )
    return report(hostile_trace(text), [finding], title=text)


def _badges(text: str) -> Mapping[tuple[str, int], tuple[str, ...]]:
    """The text as the badge of a head."""
    return {(f"h.0{text}", 0): (text,)}


VIEWS: dict[str, Callable[[str], View]] = {
    "heads": lambda text: heads(hostile_trace(text), title=text, badges=_badges(text)),
    "heatmap": lambda text: heatmap(hostile_trace(text), title=text),
    "highlight": lambda text: highlight(hostile_trace(text), 0, title=text),
    "flow": lambda text: flow(hostile_trace(text), title=text),
    "overlay": lambda text: overlay(_patch_trace(text), _picture(), title=text),
    "compare": lambda text: compare(hostile_trace(text), hostile_trace(text), title=text),
    "report": _report,
}


@cache
def _benign_page(kind: str) -> str:
    """The page of a harmless text."""
    return b"".join(_page_bytes(VIEWS[kind](BENIGN))).decode("utf-16")


def _page_bytes(view: View) -> list[bytes]:
    """The page of a view."""
    from regard.views.page.html import page

    return [*page(view.packed, view.state)]


def _check_page(kind: str, text: str, folder: Path) -> None:
    """The page has no element of the text, and its data hold the text."""
    page = checks.page_text(VIEWS[kind](text).save(folder / "page.html").read_bytes())
    checks.check_same_elements(page, _benign_page(kind))
    _check_tokens(checks.page_header(page), text)


def _check_tokens(header: dict, text: str) -> None:
    """The first token of a packed scene is the text, cut as pictures cut it."""
    shown = next(iter(header["traces"][0]["streams"].values()))["texts"][0]
    if shown != cut_text(text.removeprefix("▁") or text, LONGEST_TOKEN):
        raise ValueError(f"the first token is {shown[:80]!a}")


def _check_view_json(kind: str, text: str, folder: Path) -> None:
    """The data of a view are JSON, and are read back as the same view."""
    path = VIEWS[kind](text).save(folder / "view.json")
    _check_tokens(json.loads(path.read_text("utf-8"))["scene"], text)
    View.load(path)


@cache
def _known_svg(kind: str) -> set[tuple[str, str]]:
    """The elements and attributes of drawings of harmless texts, short, long and Chinese."""
    import tempfile

    known = set()
    with tempfile.TemporaryDirectory() as folder:
        for text in (BENIGN, BENIGN * 200, "我爱 \n"):
            path = VIEWS[kind](text).save(Path(folder) / "drawing.svg")
            known |= checks.svg_attributes(path.read_bytes())
    return known


def _check_svg(kind: str, text: str, folder: Path) -> None:
    """The drawing is well-formed, and has no element of the text."""
    drawing = VIEWS[kind](text).save(folder / "drawing.svg").read_bytes()
    checks.check_svg(drawing, _known_svg(kind))


def _check_figure(suffix: str, magic: bytes) -> Callable[[str, str, Path], None]:
    """A check that a figure is written, and that no field about the file holds the text."""

    def check(kind: str, text: str, folder: Path) -> None:
        """Write the figure and look at its bytes."""
        data = VIEWS[kind](text).save(folder / f"figure{suffix}").read_bytes()
        plain = text.encode("utf-8", "replace")
        if not data.startswith(magic) or (len(plain) > 8 and plain in data):
            raise ValueError(f"no {suffix} file, or one with the text in it: {data[:40]!r}")

    return check


def _check_terminal(kind: str, text: str, folder: Path) -> None:
    """The picture in a terminal has no control of the text, with and without colours."""
    view = VIEWS[kind](text)
    checks.check_terminal(_printed(view, {"NO_COLOR": "1"}))
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    checks.check_terminal(_printed(view, colours), coloured=True)


def _printed(renderable: object, environment: Mapping[str, str]) -> str:
    """What a console prints of a renderable."""
    stream = io.StringIO()
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_COLOR")}
    environment = kept | {"COLUMNS": "100"} | dict(environment)
    with patch.dict("os.environ", environment, clear=True), redirect_stdout(stream):
        make_console().print(renderable)
    return stream.getvalue()


def _check_notebook(kind: str, text: str, folder: Path) -> None:
    """What a notebook stores is JSON in UTF-8, and holds the text."""
    view = VIEWS[kind](text)
    state = view.widget.get_state()
    json.dumps([state["header"], state["state"]], ensure_ascii=False).encode("utf-8")
    json.dumps(view._repr_mimebundle_()[0]).encode("utf-8")
    if text.isprintable():
        _check_tokens(state["header"]["scene"], text)


OUTPUTS: dict[str, Callable[[str, str, Path], None]] = {
    ".html": _check_page,
    ".htm": _check_page,
    ".json": _check_view_json,
    ".svg": _check_svg,
    ".png": _check_figure(".png", b"\x89PNG"),
    ".pdf": _check_figure(".pdf", b"%PDF"),
    "terminal": _check_terminal,
    "notebook": _check_notebook,
}


def view_door(kind: str, output: str) -> Door:
    """The door of one kind of view and one of its outputs."""
    return lambda text, folder: OUTPUTS[output](kind, text, folder)


def _check_trace_file(suffix: str) -> Door:
    """A door: a trace with the text is saved and comes back the same."""

    def check(text: str, folder: Path) -> None:
        """Save and load the trace."""
        save_trace(hostile_trace(text), folder / f"a{suffix}")
        trace = load_trace(folder / f"a{suffix}")
        if (trace.streams["tokens"][0], trace.maps[0].site) != (text, f"h.0{text}"):
            raise ValueError("the trace came back with another text")

    return check


def _survey(text: str) -> Survey:
    """A survey with the text as a site's name and in a gap."""
    statistics = SiteStatistics(
        "encoder", 2, 6, Moments.of(torch.rand(2, len(_MEASURES), 2).double())
    )
    return Survey(_MEASURES, {text: statistics}, 2, 0, {text: text})


def _check_survey_file(suffix: str) -> Door:
    """A door: a survey is saved and comes back with the name of its site."""

    def check(text: str, folder: Path) -> None:
        """Save and load the survey."""
        if suffix == ".parquet" and (_has_surrogates(text) or "pyarrow" not in _installed()):
            return
        path = save_survey(_survey(text), folder / f"heads{suffix}")
        if suffix == ".csv":
            with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file:
                checks.check_csv(file.read())
        if [*load_survey(path).sites] != [text]:
            raise ValueError("the survey came back with another name of its site")

    return check


def _has_surrogates(text: str) -> bool:
    """True if the text has halves of surrogate pairs, which parquet refuses."""
    return any("\ud800" <= character <= "\udfff" for character in text)


@cache
def _installed() -> frozenset[str]:
    """Optional packages that are there."""
    from importlib.util import find_spec

    return frozenset(name for name in ("pyarrow",) if find_spec(name))


def _check_survey_page(text: str, folder: Path) -> None:
    """The page of a survey has no element of the text."""
    page = survey_page(_survey(text), text).save(folder / "heads.html").read_bytes()
    checks.check_same_elements(checks.page_text(page), survey_page(_survey(BENIGN), BENIGN).html())


def _check_survey_grid(text: str, folder: Path) -> None:
    """The table of a survey in the terminal has no control of the text."""
    checks.check_terminal(_printed(survey_grid(_survey(text)), {"NO_COLOR": "1"}))


TABLES: dict[str, Door] = {
    "trace .trace": _check_trace_file(".trace"),
    "trace .safetensors": _check_trace_file(".safetensors"),
    "survey .csv": _check_survey_file(".csv"),
    "survey .json": _check_survey_file(".json"),
    "survey .parquet": _check_survey_file(".parquet"),
    "survey .html": _check_survey_page,
    "survey terminal": _check_survey_grid,
}
