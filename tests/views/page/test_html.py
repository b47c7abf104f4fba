import base64
import hashlib
import json

import numpy as np
import pytest
import torch

from regard.errors import FileError
from regard.text import say
from regard.types import Trace
from regard.views import ViewState, heads, heatmap
from regard.views.captions import page_sentences
from regard.views.page import html, page, write_page
from regard.views.scene import build_scene, pack_scene
from views import opening, vectors

FRONT = "console.log('是 < 3')"


def opened(scene, state=None):
    packed = pack_scene(scene)
    data = b"".join(page(packed, state or ViewState(), front=FRONT))
    return packed, opening.Page(data)


def a_scene():
    return build_scene(vectors.a_trace(), vectors.another_trace(), title=f"Title {vectors.HOSTILE}")


def test_the_page_holds_every_blob_as_it_was():
    packed, found = opened(a_scene())
    for number, blob in enumerate(packed.blobs):
        assert found.blob(number) == blob


def test_a_plain_reader_finds_the_weights_in_the_page():
    _, found = opened(a_scene(), ViewState("heatmap", site="cross.0", head=2))
    site = found.header["scene"]["traces"][0]["sites"][3]
    weights = vectors.a_trace()["cross.0"].weights(2).numpy()
    read = np.array(opening.weights(found.blob(site["maps"][2])))
    assert read == pytest.approx(weights, rel=0.03, abs=0.001)


def test_the_header_and_the_state_come_back():
    state = ViewState("heatmap", site="cross.0", head=1, language="zh")
    packed, found = opened(a_scene(), state)
    assert found.header["scene"] == json.loads(json.dumps(packed.header))
    assert ViewState.from_json(found.header["state"]) == state
    assert found.header["words"] == page_sentences()


def test_a_token_cannot_close_the_script_it_sits_in():
    _, found = opened(a_scene())
    assert vectors.HOSTILE not in found.text
    assert "img" not in found.tags
    texts = found.header["scene"]["traces"][0]["streams"]["source"]["texts"]
    assert vectors.HOSTILE in texts
    assert found.title == f"Title {vectors.HOSTILE}"


@pytest.mark.parametrize(
    "token", ["<!--<script>", "\ud83d", "\x00", "\r\n", "\ufeff", "{front}", "]]>"]
)
def test_any_token_comes_back_as_it_was(token):
    _, found = opened(build_scene(Trace.from_weights(torch.eye(2), [token, "b"])))
    assert found.header["scene"]["traces"][0]["streams"]["tokens"]["texts"] == [token, "b"]


def test_only_the_front_end_may_run():
    _, found = opened(a_scene())
    digest = base64.b64encode(hashlib.sha256(FRONT.encode()).digest()).decode()
    policy = found.meta["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{digest}';")
    assert found.scripts["front"] == FRONT


def test_nothing_outside_is_named():
    _, found = opened(build_scene(Trace.from_weights(torch.eye(2), ["a", "b"])))
    assert "http:" not in found.text
    assert "https:" not in found.text
    assert "link" not in found.tags


def test_what_the_first_picture_needs_stands_before_the_script():
    packed, found = opened(a_scene(), ViewState("heatmap", site="cross.0", head=1))
    needed = packed.header["traces"][0]["sites"][3]["maps"][1]
    assert found.header["places"][needed][0] == 0
    order = [key for key in found.scripts if key.startswith(("regard-part", "front"))]
    assert order == ["regard-part-0", "front", "regard-part-1"]
    assert sum(place[0] == 0 for place in found.header["places"]) == 1


def test_the_overview_needs_all_thumbnails_first():
    packed, found = opened(a_scene())
    needed = [site["thumbs"]["blob"] for site in packed.header["traces"][0]["sites"]]
    assert all(found.header["places"][blob][0] == 0 for blob in needed)


def test_long_pages_come_in_parts(monkeypatch):
    monkeypatch.setattr(html, "PART_SIZE", 100)
    packed, found = opened(a_scene())
    assert len(found.scripts) > 5
    assert [found.blob(number) for number in range(len(packed.blobs))] == list(packed.blobs)


@pytest.mark.parametrize(("language", "lang"), [(None, "en"), ("zh", "zh-Hans")])
def test_the_page_says_its_language(language, lang):
    _, found = opened(a_scene(), ViewState(language=language))
    assert f'<html lang="{lang}">' in found.text
    assert say("page.noscript", "zh") in found.text


def test_a_page_that_cannot_be_written_leaves_what_was_there(tmp_path):
    packed = pack_scene(a_scene())
    with pytest.raises(FileError, match=r"cannot write .*; write to another place"):
        write_page(tmp_path / "missing" / "page.html", packed, ViewState(), front=FRONT)
    assert list(tmp_path.iterdir()) == []


def test_a_front_end_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(html, "files", lambda package: tmp_path)
    html.built_front.cache_clear()
    with pytest.raises(FileError, match=r"the front end of the page, front.js, is missing"):
        b"".join(page(pack_scene(a_scene()), ViewState()))


def test_the_page_of_a_real_shape_is_small():
    size, dim = 128, 32
    query, key = 1.5 * torch.randn(6, 12, size, dim), torch.randn(6, 12, size, dim)
    weights = (query @ key.mT / dim**0.5).softmax(-1)
    view = heads(Trace.from_weights(weights, [f"token{index}" for index in range(size)]))
    length = sum(map(len, page(view.packed, view.state, front=FRONT)))
    assert length < 1_100_000


def test_the_same_trace_gives_the_same_page():
    view, again = (heatmap(vectors.a_trace(), head=0) for _ in range(2))
    pages = [b"".join(page(each.packed, each.state, front=FRONT)) for each in (view, again)]
    assert pages[0] == pages[1]
