"""The notebook's widget: a real object of anywidget, and a real kernel."""

import builtins
import importlib
import json
import sys

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient

from regard.errors import InputError, UnknownNameError
from regard.types import Trace
from regard.views import View, ViewState, heatmap
from regard.views.encoding import decode
from views import vectors


def test_half_a_surrogate_pair_does_not_break_the_message_to_the_page():
    trace = Trace.from_weights({"\ud800": torch.eye(2)[None]}, ["\udfff", "b"])
    state = heatmap(trace, "\ud800").widget.get_state()
    assert json.dumps([state["header"], state["state"]], ensure_ascii=False).encode()
    assert state["header"]["scene"]["traces"][0]["sites"][0]["name"] == state["state"]["site"]


@pytest.fixture
def shown(monkeypatch):
    """A widget, and what it sends to the front end besides its values."""
    widget = heatmap(vectors.a_trace(), "encoder.0", 1).widget
    sent = []
    monkeypatch.setattr(widget, "send", lambda *message: sent.append(message))
    return widget, sent


def ask(widget, **changes) -> None:
    asked = {"regard": "window", "id": 7, "site": "encoder.0", "head": 1}
    asked |= {"rows": [2, 5], "columns": [1, 8]} | changes
    widget._handle_custom_msg(asked, [])


def test_a_widget_carries_the_scene_its_words_and_the_front_end(shown):
    state = shown[0].get_state()
    assert state["header"]["scene"]["format"] == "regard scene"
    assert sum(state["header"]["scene"]["blobs"]) == len(state["blobs"])
    assert state["header"]["words"]["zh"]["view.heatmap"] == "热力图"
    assert state["_esm"].endswith("export default { render: regard.render };\n")
    assert state["_esm"].startswith('"use strict";var regard=')


def test_the_front_end_gets_the_state_as_json(shown):
    assert shown[0].get_state()["state"] == ViewState("heatmap", site="encoder.0", head=1).to_json()


def test_what_a_reader_looks_at_is_read_in_python(shown):
    widget, _ = shown
    seen = []
    widget.observe(lambda change: seen.append(change["new"].place), "state")
    widget.set_state({"state": ViewState("highlight", site="cross.0", head=2, place=3).to_json()})
    assert (widget.state.view, widget.state.site, widget.state.head) == ("highlight", "cross.0", 2)
    assert seen == [3]


def test_python_can_look_at_something_else(shown):
    widget, _ = shown
    widget.look(head=0, unit="word")
    assert widget.get_state()["state"]["head"] == 0
    assert widget.get_state()["state"]["unit"] == "word"


def test_a_place_that_is_not_there_is_refused(shown):
    widget, _ = shown
    with pytest.raises(UnknownNameError, match=r"no attention site 'h\.9'"):
        widget.look(site="h.9")
    with pytest.raises(InputError, match=r"no head 7 at 'encoder\.0'; it has heads 0 to 1"):
        widget.look(head=7)
    assert widget.state.head == 1


@pytest.mark.parametrize("said", [{"view": "cloud"}, {"colour": 1}, 5, None])
def test_what_python_does_not_know_changes_nothing(shown, said):
    widget, _ = shown
    widget.set_state({"state": said})
    assert widget.state == ViewState("heatmap", site="encoder.0", head=1)


def test_a_window_is_answered_with_its_weights(shown):
    widget, sent = shown
    ask(widget)
    ((content, (blob,)),) = sent
    assert content == {"regard": "window", "id": 7}
    expected = widget.scene.weights(0, "encoder.0", 1)[2:5, 1:8]
    assert np.allclose(decode(blob), expected, rtol=0.03, atol=0.001)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"site": "h.9"}, "no attention site 'h.9'"),
        ({"head": 2}, "expected a window of at most 1048576 weights within head=2 query=8 key=8"),
        ({"rows": [5, 5]}, "got head 1, rows (5, 5)"),
        ({"rows": [0, 9]}, "ask for less"),
        ({"rows": 3}, "not iterable"),
    ],
)
def test_a_window_that_cannot_be_had_is_answered_with_the_reason(shown, changes, message):
    widget, sent = shown
    ask(widget, **changes)
    ((content,),) = sent
    assert message in content["error"]
    assert content["id"] == 7


def test_other_messages_are_left_alone(shown):
    widget, sent = shown
    widget._handle_custom_msg({"event": "click"}, [])
    widget._handle_custom_msg("hello", [])
    assert sent == []


def test_a_saved_scene_has_only_its_own_windows(tmp_path):
    trace = Trace.from_weights(torch.rand(1, 1, 13, 13).softmax(-1), list("abcdefghijklm"))
    held = [("layer 0", 0, range(7), range(2, 11))]
    view = heatmap(trace, whole=5, windows=held)
    again = View.load(view.save(tmp_path / "x.json")).widget
    sent = []
    again.send = lambda *message: sent.append(message)
    ask(again, site="layer 0", head=0, rows=[0, 7], columns=[2, 11])
    ask(again, site="layer 0", head=0, rows=[0, 6], columns=[2, 11])
    assert decode(sent[0][1][0]).shape == (7, 9)
    assert "this scene holds no Window" in sent[1][0]["error"]


def test_a_view_shows_its_widget_and_always_the_same():
    view = heatmap(vectors.a_trace(), "encoder.0", 1)
    bundle = view._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    place = data["application/vnd.jupyter.widget-view+json"]
    assert place["model_id"] == view.widget.model_id


def test_without_anywidget_one_sentence_says_what_to_install(monkeypatch):
    usual = builtins.__import__

    def missing(name, *rest):
        if name == "anywidget":
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.delitem(sys.modules, "regard.views.notebook", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"needs anywidget; .* pip install 'regard\[notebook\]'"):
        importlib.import_module("regard.views.notebook")


@pytest.mark.slow
def test_a_notebook_shows_the_view_and_reads_what_is_looked_at(tmp_path):
    cells = [
        "import torch\nfrom regard.types import Trace\nfrom regard.views import heatmap\n"
        "view = heatmap(Trace.from_weights(torch.rand(2, 3, 5, 5).softmax(-1), '我爱你们。'))\n"
        "view",
        "view.widget.look(head=2)\nprint(view.widget.state.to_hash())",
    ]
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)])
    client = NotebookClient(notebook, timeout=300, startup_timeout=300, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    first, second = (cell["outputs"] for cell in notebook["cells"])
    shown = first[-1]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert second[-1]["text"] == "#view=heatmap&site=layer%200&head=2\n"
    kept = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert kept[shown]["state"]["state"]["head"] == 2
