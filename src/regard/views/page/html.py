"""The page of a scene: header, the blobs of the first picture, the front end, all other blobs.

In this order the browser can draw the first picture while it still reads the rest.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.errors import FileError
from regard.files import atomic_file
from regard.text import LANGUAGES, say
from regard.views.captions import page_sentences
from regard.views.page.utf16 import Characters
from regard.views.scene import PackedScene
from regard.views.state import ViewState

PART_SIZE = 1 << 21  # about the bytes of blobs in one element, which is read once it is parsed
BOM = b"\xff\xfe"
POLICY = (
    "default-src 'none'; script-src 'sha256-{hash}'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; form-action 'none'"
)
PAGE_START = """<!doctype html>
<html lang="{language}">
<head>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body>
<main id="regard"><noscript>{noscript}</noscript></main>
<script type="application/json" id="regard-header">{header}</script>
"""
FRONT_SCRIPT = "<script>{front}</script>\n"
PART_START = '<script type="text/plain" id="regard-part-{number}">'
PART_END = "</script>\n"
_UNSAFE_IN_SCRIPT = re.compile(r"[<\ud800-\udfff\ufeff\ufffe\uffff]")
PAGE_END = "</body>\n</html>\n"


def page(packed: PackedScene, state: ViewState, *, front: str | None = None) -> Iterator[bytes]:
    """The bytes of the page, piece by piece; `front` is the script, the built one if None."""
    front = built_front() if front is None else _check_script(front)
    parts = _split_blobs(packed, first_blobs(packed.header, state))
    texts = [Characters.of(blob) for blob in packed.blobs]
    header = {
        "scene": packed.header,
        "state": state.to_json(),
        "places": _blob_places(texts, parts),
        "words": page_sentences(),
    }
    yield BOM + _page_start(header, state, front).encode("utf-16-le")
    for number, part in enumerate(parts):
        yield PART_START.format(number=number).encode("utf-16-le")
        yield from (texts[blob].units().astype("<u2", copy=False).tobytes() for blob in part)
        yield PART_END.encode("utf-16-le")
        if number == 0:
            yield FRONT_SCRIPT.format(front=front).encode("utf-16-le")
    yield PAGE_END.encode("utf-16-le")


def write_page(
    path: Path, packed: PackedScene, state: ViewState, *, front: str | None = None
) -> None:
    """Write the page whole or not at all: a failure leaves the file that was there."""
    pieces = page(packed, state, front=front)
    with (
        atomic_file(path, advice="; write to another place or make room") as temporary,
        temporary.open("wb") as file,
    ):
        file.writelines(pieces)


def first_blobs(header: dict[str, Any], state: ViewState) -> list[int]:
    """The blobs that the first picture of a state is drawn from."""
    trace = header["traces"][state.trace]
    if state.view == "heads":
        return [site["thumbs"]["blob"] for site in trace["sites"]]
    named = [site for site in trace["sites"] if site["name"] == state.site]
    site = (named or trace["sites"])[0]
    heads = range(site["heads"]) if state.head is None else [state.head]
    maps = [site["maps"][head] for head in heads]
    return maps + [picture["blob"] for picture in trace["pictures"].values()]


def _split_blobs(packed: PackedScene, first: Sequence[int]) -> list[list[int]]:
    """The indices of the blobs in parts: those of the first picture, then all others in order."""
    parts, size = [list(first), []], 0
    for blob in range(len(packed.blobs)):
        if blob in first:
            continue
        if size > PART_SIZE:
            parts.append([])
            size = 0
        parts[-1].append(blob)
        size += len(packed.blobs[blob])
    return parts


def _blob_places(texts: Sequence[Characters], parts: list[list[int]]) -> list[list[int]]:
    """For each blob its part, first character and number of characters."""
    places: list[list[int]] = [[]] * len(texts)
    for number, part in enumerate(parts):
        start = 0
        for blob in part:
            places[blob] = [number, start, len(texts[blob])]
            start += len(texts[blob])
    return places


def _page_start(header: dict[str, Any], state: ViewState, front: str) -> str:
    """The page up to its header: policy, title and the JSON of the scene."""
    language = state.language or "en"
    digest = base64.b64encode(hashlib.sha256(front.encode()).digest()).decode()
    both = " ".join(say("page.noscript", spoken) for spoken in LANGUAGES)
    return PAGE_START.format(
        language="zh-Hans" if language == "zh" else "en",
        policy=html.escape(POLICY.format(hash=digest)),
        title=html.escape(_without_surrogates(header["scene"]["title"] or "regard")),
        noscript=html.escape(both),
        header=_script_json(header),
    )


def _script_json(value: Any) -> str:
    """JSON that cannot end the element it stands in; halves of surrogate pairs stay escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _UNSAFE_IN_SCRIPT.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _without_surrogates(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-16-le", "replace").decode("utf-16-le")


@cache
def built_front() -> str:
    """The front end that was built into the package."""
    script = files("regard.views.page") / "front.js"
    if not script.is_file():
        raise FileError(
            "the front end of the page, front.js, is missing from this installation; install "
            "regard again, or build it with: cd front && npm ci && npm run build"
        )
    return _check_script(script.read_text("utf-8"))


def _check_script(front: str) -> str:
    """The script itself, which must not hold what would end its element."""
    assert not any(end in front for end in ("</script", "<!--", "\r")), "the page would end here"
    return front
