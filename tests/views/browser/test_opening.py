import pytest

from regard.views import compare, flow, heads, heatmap, highlight, overlay
from views.browser import scenes

# nothing on the console and no request are checked by the fixture for every page


def test_the_page_opens_from_a_file_and_says_when_its_first_picture_is_there(open_page):
    found = open_page(heads(scenes.a_trace()))
    marks = found.page.evaluate("performance.getEntriesByName('regard:first-picture').length")
    assert marks == 1
    assert found.page.url.startswith("file:")
    assert found.page.locator(".tile").count() == scenes.LAYERS * scenes.HEADS


@pytest.mark.parametrize("view", [heatmap, highlight, flow])
def test_every_view_of_a_trace_is_drawn_with_the_caption_of_python(open_page, view):
    made = view(scenes.a_trace(), head=1, hide=("special",), unit="word")
    assert open_page(made).caption == scenes.caption(made)


def test_two_traces_are_compared(open_page):
    made = compare(scenes.a_trace(), scenes.a_trace(seed=5), head=0)
    found = open_page(made)
    assert found.caption == scenes.caption(made)
    assert found.page.locator(".pane canvas[role=img]").count() == 3


def test_a_picture_is_shown_under_its_cells(open_page):
    made = overlay(scenes.a_captioned_picture(), scenes.a_picture())
    found = open_page(made, "#place=1")
    assert found.caption == scenes.caption(made, place=1)
    box = found.page.locator(".picture canvas").first.bounding_box()
    found.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
    assert "75.0%" in found.text(".tip")


def test_a_click_on_a_small_map_opens_it(open_page):
    found = open_page(heads(scenes.a_trace(), badges={("layer.1", 2): ["sink"]}))
    assert found.text(".badges") == "sink"
    found.click('.tile[data-head="layer.1 2"]')
    assert found.caption.startswith("layer.1, head 2.")
    assert found.hash == "#view=heatmap&site=layer.1&head=2"


def test_a_view_that_cannot_be_drawn_says_why(open_page):
    long = heatmap(scenes.a_long_trace(), head=0, whole=512)
    found = open_page(long, "#view=highlight")
    assert "too long" in found.text("[role=alert]")


def test_a_page_is_no_wider_than_a_telephone(open_page):
    found = open_page(heads(scenes.a_trace()), width=400)
    for name in ("heads", "heatmap", "highlight", "flow", "compare"):
        found.look(f"#view={name}&head=0")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400, name
