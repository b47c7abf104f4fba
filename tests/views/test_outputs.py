import json
import sys
import types

import numpy as np
import pytest
import torch

import regard.views
from regard.errors import FileError, InputError, UnknownNameError
from regard.types import Tokens, Trace
from regard.views import MapReference, View, compare, flow, heads, heatmap, highlight, overlay
from regard.views.page import html
from views import opening, vectors

PNG = b"\x89PNG\r\n\x1a\n rest"


@pytest.fixture
def _front(monkeypatch):
    monkeypatch.setattr(html, "built_front", lambda: "0")


def test_each_function_makes_its_view():
    trace = vectors.a_trace()
    views = [heatmap(trace), highlight(trace), flow(trace), heads(trace)]
    assert [view.state.view for view in views] == ["heatmap", "highlight", "flow", "heads"]
    assert compare(trace, trace).state.other == MapReference(1, None, None)


def test_without_a_site_the_last_cross_map_is_shown():
    assert heatmap(vectors.a_trace()).state.site == "cross.0"
    assert heatmap(Trace.from_weights(torch.rand(2, 1, 3, 3), "abc")).state.site == "layer 0"


def test_a_query_can_be_named_by_its_text():
    trace = vectors.a_trace()
    assert highlight(trace, "Worte").state.place == 3
    assert highlight(trace, "##kind", site="encoder.0").state.place == 2
    assert highlight(trace, 4).state.place == 4


def test_what_is_done_to_the_numbers_is_said_by_keyword():
    view = heatmap(vectors.a_trace(), unit="word", hide=["special"], scale="log", language="zh")
    state = view.state
    assert (state.unit, state.hide, state.scale, state.language) == (
        "word",
        ("special",),
        "log",
        "zh",
    )


@pytest.mark.usefixtures("_front")
def test_the_page_is_written_by_its_suffix(tmp_path):
    path = heatmap(vectors.a_trace(), head=1).save(tmp_path / "page.html")
    assert opening.Page(path.read_bytes()).header["state"]["head"] == 1


def test_a_view_comes_back_from_json(tmp_path):
    view = heatmap(vectors.a_trace(), site="cross.0", head=1, unit="word")
    again = View.load(view.save(tmp_path / "view.json"))
    assert again.state == view.state
    assert again.numbers.weights == pytest.approx(view.numbers.weights, rel=0.03, abs=0.001)
    assert again.numbers.caption.split(" Colours")[0] == view.numbers.caption.split(" Colours")[0]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"blobs": [], "scene": {}, "state": {}}'])
def test_a_file_that_is_no_view_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileError):
        View.load(tmp_path / "x.json")


def test_figures_are_drawn_by_their_own_door(tmp_path, monkeypatch):
    drawn = []
    door = types.ModuleType("regard.views.figure")
    door.write = lambda scene, state, path: drawn.append((state.view, path.suffix))
    monkeypatch.setitem(sys.modules, "regard.views.figure", door)
    heatmap(vectors.a_trace()).save(tmp_path / "x.PNG")
    assert drawn == [("heatmap", ".PNG")]


def test_the_terminal_draws_what_is_printed(monkeypatch):
    door = types.ModuleType("regard.views.terminal")
    door.render = lambda scene, state: f"drawn {state.view}"
    monkeypatch.setitem(sys.modules, "regard.views.terminal", door)
    assert str(heatmap(vectors.a_trace())) == "drawn heatmap"


def test_a_notebook_shows_the_widget(monkeypatch):
    door = types.ModuleType("regard.views.notebook")
    widget = types.SimpleNamespace(_repr_mimebundle_=lambda **options: {"text/html": "x"})
    door.widget = lambda scene, state: widget
    monkeypatch.setitem(sys.modules, "regard.views.notebook", door)
    assert heads(vectors.a_trace())._repr_mimebundle_(include=None) == {"text/html": "x"}


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot save a view as 'x.gif'; expected a name that"):
        heatmap(vectors.a_trace()).save(tmp_path / "x.gif")


def test_a_view_says_what_it_is():
    assert (
        repr(heatmap(vectors.a_trace(), "encoder.0", 1)) == "<heatmap view of 'encoder.0', head 1>"
    )


def test_the_same_scene_can_be_looked_at_in_another_way():
    view = heatmap(vectors.a_trace(), "encoder.0")
    other = view.with_state(head=1, unit="word")
    assert other.scene is view.scene
    assert (other.state.head, other.state.unit) == (1, "word")


def test_an_overlay_finds_the_site_that_looks_at_patches():
    patches = Tokens.positions(6)
    grid = Tokens(patches.texts, grid=(2, 3), named=False)
    trace = Trace.from_weights(torch.rand(2, 4, 6), list("abcd"), grid)
    view = overlay(trace, PNG, head=1)
    assert view.numbers.weights.shape == (2, 3)
    assert view.numbers.picture.data == PNG


def test_two_models_are_compared_by_the_place_of_their_sites():
    one = Trace.from_weights({"a.0": torch.rand(1, 3, 3), "a.1": torch.rand(1, 3, 3)}, "abc")
    two = Trace.from_weights({"b.0": torch.rand(1, 3, 3), "b.1": torch.rand(1, 3, 3)}, "abc")
    assert compare(one, two, site="a.1").state.other.site == "b.1"
    assert np.allclose(compare(one, one, site="a.1").numbers.difference, 0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda trace: heatmap(trace, "h.9"), UnknownNameError, "no attention site 'h.9'"),
        (
            lambda trace: heatmap(trace, head=7),
            InputError,
            "no head 7 at 'cross.0'; it has heads 0 to 2",
        ),
        (
            lambda trace: highlight(trace, "Haus"),
            InputError,
            "no row of 'cross.0' is 'Haus'; give the text",
        ),
        (
            lambda trace: highlight(trace, 99),
            InputError,
            "no row 99 at 'cross.0'; it has rows 0 to 4",
        ),
        (lambda trace: heatmap(trace, unit="letter"), UnknownNameError, "no unit 'letter'"),
        (lambda trace: overlay(trace), InputError, "no stream of this trace has a grid of patches"),
        (lambda trace: compare(trace), InputError, "expected a second trace, or the `other` place"),
        (lambda trace: heatmap(trace, colour="red"), TypeError, "unexpected argument 'colour'"),
    ],
)
def test_what_is_not_there_is_refused_with_a_sentence(make, error, message, unchecked):
    with pytest.raises(error, match=message):
        make(vectors.a_trace())


def test_the_surface_of_the_room_is_what_it_says():
    for name in regard.views.__all__:
        assert getattr(regard.views, name).__doc__


def test_json_is_json(tmp_path):
    path = heads(vectors.a_trace()).save(tmp_path / "x.json")
    assert json.loads(path.read_text("utf-8"))["scene"]["format"] == "regard scene"
