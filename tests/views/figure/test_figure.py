"""Figures by what is on the canvas: texts, positions and colours, not by pixels alone."""

import importlib
import io
import re
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.text import Text
from PIL import Image

from regard.errors import FileError, InputError
from regard.types import Tokens, Trace
from regard.views import (
    MapReference,
    colours,
    compare,
    figure,
    flow,
    heads,
    heatmap,
    highlight,
    overlay,
    report,
)
from regard.views.figure import drawing
from regard.views.figure.canvas import cut_start, default_settings, width_in_points
from regard.views.figure.map_panel import MapPanel
from regard.views.kinds.flow import figure as flow_figure
from regard.views.kinds.heatmap import figure as heatmap_figure
from views import vectors


def texts(view, width="double") -> list[Text]:
    drawn = figure.draw(view.scene, view.state, width)
    return [each for each in drawn.axes[0].texts if each.get_text()]


def images(view, width="double") -> list[np.ndarray]:
    drawn = figure.draw(view.scene, view.state, width)
    return [np.asarray(each.get_array()) for each in drawn.axes[0].images]


def chinese(length: int = 5) -> Trace:
    torch.manual_seed(3)
    words = "我爱注意力机制模型看"
    tokens = [words[place % len(words)] for place in range(length)]
    return Trace.from_weights(torch.randn(2, 3, length, length).mul(2).softmax(-1), tokens)


def patched() -> Trace:
    patches = Tokens(tuple(map(str, range(15))), grid=(3, 5), named=False)
    return Trace.from_weights(torch.rand(2, 4, 15).softmax(-1), ["a", "red", "太阳", "."], patches)


def png(width: int = 50, height: int = 30) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (width, height), (200, 40, 40)).save(made, "PNG")
    return made.getvalue()


def test_a_heatmap_has_the_colours_of_its_shades():
    view = heatmap(vectors.a_trace(), "encoder.0", 1)
    assert (images(view)[0] == colours.light(view.numbers.shades)).all()


def test_every_token_of_a_short_map_is_a_label():
    view = heatmap(chinese(), head=1)
    shown = [each.get_text() for each in texts(view)]
    assert all(shown.count(label) == 2 for label in "我爱注意力")


def test_the_caption_stands_under_the_picture():
    view = heatmap(chinese(), head=1, language="zh")
    said = "".join(each.get_text() for each in texts(view) if each.get_fontsize() == 8)
    assert said == view.numbers.caption


def test_cells_with_room_say_their_weights_in_hundredths():
    view = heatmap(Trace.from_weights(torch.tensor([[0.25, 0.75], [0.001, 0.999]]), "ab"), head=0)
    assert [each.get_text() for each in texts(view) if each.get_fontsize() == 6][:3] == [
        "25",
        "75",
        "100",
    ]


@pytest.mark.parametrize("length", [5, 61, 307])
def test_labels_do_not_overlap_however_many_tokens_there_are(length):
    with default_settings():
        drawn = figure.draw(*_parts(heatmap(chinese(length), head=0)), 97)
        boxes = [
            each.get_window_extent()
            for each in drawn.axes[0].texts
            if each.get_horizontalalignment() == "right"
        ]
    assert 1 < len(boxes) <= length
    tops = sorted((box.y0, box.y1) for box in boxes)
    assert all(below[1] <= above[0] + 1 for below, above in pairwise(tops))


def _parts(view):
    return view.scene, view.state


def test_a_long_map_stays_square():
    panel = MapPanel(np.zeros((307, 307, 3)), *[heatmap(chinese(307)).numbers.rows] * 2)
    wide, high = panel.cell_size(400, 640)
    assert wide == high


def test_highlighted_words_are_in_their_order_and_inside_the_canvas():
    view = highlight(chinese(307), 11)
    shown = [each for each in texts(view, "single") if each.get_fontsize() == 9]
    assert "".join(each.get_text() for each in shown) == "".join(
        each.text for each in view.numbers.words
    )
    assert max(each.get_position()[0] for each in shown) < width_in_points("single") - 9


def test_the_words_of_most_weight_are_listed_with_their_percents():
    view = highlight(vectors.a_trace(), 2)
    shown = [each.get_text() for each in texts(view)]
    text, weight = view.numbers.top[0]
    assert "Tokens of most weight" in shown
    assert f"{100 * weight:.1f}%" in shown
    assert text in shown


def test_every_line_of_a_flow_is_drawn_and_the_heaviest_is_the_thickest():
    view = flow(vectors.a_trace(), "encoder.0", head=1)
    drawn = figure.draw(*_parts(view), "single").axes[0].collections[0]
    assert len(drawn.get_paths()) == len(view.numbers.lines)
    widths = drawn.get_linewidths()
    assert np.argmax(widths) == len(widths) - 1


def test_each_head_of_a_flow_has_its_colour_and_is_named_by_its_number():
    view = flow(vectors.a_trace(), "encoder.1")
    shown = [each.get_text() for each in texts(view)]
    assert {"head", "4", "9"} <= {*shown}
    inks = figure.draw(*_parts(view)).axes[0].collections[0].get_edgecolors()[:, :3]
    assert len({tuple(ink) for ink in inks}) == 2


def test_a_flow_over_time_has_the_source_on_the_left():
    view = flow(vectors.a_trace(), "cross.0", span="time")
    left = [each.get_text() for each in texts(view) if each.get_horizontalalignment() == "right"]
    assert left[:3] == ["[CLS]", "un", "##kind"]


def test_a_flow_across_layers_numbers_its_layers_from_the_input():
    view = flow(chinese(7), span="all")
    numbers = {each.get_text(): each.get_position()[0] for each in texts(view)}
    assert numbers["0"] < numbers["1"]


def test_where_labels_would_overlap_the_heaviest_lines_keep_theirs():
    heights = {row: 2.0 * row for row in range(100)}
    chosen = flow_figure._labels_without_overlap(heights, {3: 0.9, 4: 0.5, 50: 0.1})
    assert chosen == [3, 50]


def test_of_a_long_text_only_the_tokens_that_lines_meet_stand_beside_the_flow():
    weights = torch.full((211, 211), 0.001)
    weights[:, 0] = 0.79
    weights[5, 199] = weights[5, 200] = 0.9
    tokens = [f"t{place}" for place in range(211)]
    view = flow(Trace.from_weights(weights, tokens), head=0, threshold=0.85)
    assert [each.get_text() for each in texts(view)][:3] == ["t5", "t199", "t200"]
    height = figure.draw(view.scene, view.state, "single").get_size_inches()[1]
    assert height < 1.2


def test_the_ends_of_titles_tell_two_heads_apart():
    assert cut_start("encoder.layer.2.attention, head 3.", 7, 60).endswith("head 3.")
    assert cut_start("short", 7, 60) == "short"


def test_a_frame_around_a_thin_row_leaves_it_to_be_seen():
    torch.manual_seed(2)
    long = Trace.from_weights(torch.randn(211, 211).softmax(-1), ["x"] * 211)
    (row,) = frames(heatmap(long, head=0).with_state(place=100))
    assert row[3] > 2.0 + 1.0


def test_the_overview_has_a_map_for_every_head_and_the_badges():
    view = heads(vectors.a_trace(), badges={("encoder.0", 1): ["sink"]})
    assert len(images(view)) == 9
    shown = [each.get_text() for each in texts(view)]
    assert {"encoder 0", "encoder 1", "decoder 0", "cross 0", "sink"} <= {*shown}


def test_every_step_of_a_caption_is_a_picture_named_by_its_token():
    view = overlay(patched(), png(), head=0)
    assert {"a", "red", "太阳", "."} <= {each.get_text() for each in texts(view)}
    opaque = [each for each in images(view) if each.shape == (3, 5, 4)]
    assert len(opaque) == 5
    assert (opaque[0][..., :3] == colours.dark(view.numbers.shades)).all()


def test_a_picture_that_cannot_be_read_is_refused():
    view = overlay(patched(), b"\x89PNG\r\n\x1a\n rest", head=0)
    with pytest.raises(InputError, match=r"cannot read the picture .*; give a whole PNG, JPEG"):
        figure.draw(*_parts(view))


def test_a_comparison_shows_both_maps_in_one_scale_and_their_difference():
    view = compare(
        vectors.a_trace(), site="encoder.0", head=0, other=MapReference(0, "encoder.1", 1)
    )
    shown, (first, second, _, difference, _) = view.numbers, images(view)
    largest = max(shown.first.max(), shown.second.max())
    assert (first == colours.light(shown.first / largest)).all()
    assert (second == colours.light(shown.second / largest)).all()
    assert (difference == colours.signed(shown.difference / np.abs(shown.difference).max())).all()


@pytest.mark.parametrize(("width", "inches"), [("single", 3.46), ("double", 7.09), (127, 5.0)])
def test_a_figure_is_as_wide_as_its_column(width, inches):
    drawn = figure.draw(*_parts(heatmap(chinese())), width)
    assert drawn.get_figwidth() == pytest.approx(inches, abs=0.01)


@pytest.mark.parametrize("width", ["triple", 7, 4000, None])
def test_another_width_is_refused(width, unchecked):
    with pytest.raises(InputError, match=r"expected a width of 'single', 'double' or 40 to 420"):
        width_in_points(width)


def test_text_is_text_in_svg_and_its_glyphs_travel_with_it(tmp_path):
    path = heatmap(chinese(), head=1, title="爱 $x$ & </svg>").save(tmp_path / "x.svg")
    drawn = path.read_text("utf-8")
    assert drawn.count(">爱<") == 2
    assert "爱 $x$ &amp; &lt;/svg&gt;" in drawn
    assert "font-family:'Regard Sans';src:url(data:font/woff;base64," in drawn
    assert len(drawn) < 60_000


def test_text_is_text_in_pdf(tmp_path):
    path = heatmap(chinese(), head=1).save(tmp_path / "x.pdf", width="single")
    data = path.read_bytes()
    assert data.startswith(b"%PDF")
    assert re.search(rb"/BaseFont /[A-Z+]*RegardSans", data)
    assert b"/Subtype /CIDFontType2" in data or b"/Subtype /Type0" in data


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_view_gives_the_same_bytes(tmp_path, suffix):
    view = heatmap(chinese(), head=1)
    first, second = (view.save(tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first == second


def test_what_the_caller_set_in_matplotlib_is_left_and_not_used(tmp_path):
    with matplotlib.rc_context({"font.size": 31.0, "figure.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        heatmap(chinese(), head=1).save(tmp_path / "red.png")
        assert dict(matplotlib.rcParams) == before
    heatmap(chinese(), head=1).save(tmp_path / "usual.png")
    assert (tmp_path / "red.png").read_bytes() == (tmp_path / "usual.png").read_bytes()


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.svg"
    path.write_text("before")

    def full(*anything):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(drawing, "embed_fonts", full)
    with pytest.raises(FileError, match=r"cannot write .*x.svg: No space left"):
        heatmap(chinese(), head=1).save(path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["x.svg"]


def test_hostile_and_odd_tokens_are_drawn_as_text():
    odd = ["$\\frac{1}{", "\ue0ff", "<b>", "a" * 99, "\n"]
    view = heatmap(Trace.from_weights(torch.eye(5), odd), head=0)
    shown = [each.get_text() for each in texts(view)]
    assert {"$\\frac{1}{", "U+E0FF", "<b>", "\\n"} <= {*shown}


def test_no_figure_is_made_by_pyplot_which_keeps_it():
    files = Path(figure.__file__).parent.glob("*.py")
    assert not any("pyplot" in file.read_text() for file in files)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("regard.views.figure")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"figures need matplotlib .*pip install 'regard\[figure"):
        importlib.import_module("regard.views.figure")


def frames(view) -> list[tuple[float, ...]]:
    """The frames around rows and columns that are marked."""
    drawn = figure.draw(view.scene, view.state, "double")
    wanted = matplotlib.colors.to_rgba(heatmap_figure.FRAME_COLOUR)
    return [each.get_bbox().bounds for each in drawn.axes[0].patches if each.get_ec() == wanted]


def test_a_pinned_row_and_what_a_finding_is_about_are_framed():
    assert frames(heatmap(chinese(), head=1)) == []
    (row,) = frames(heatmap(chinese(), head=1).with_state(place=2))
    assert row[2] == pytest.approx(5 * row[3])
    told = report(vectors.a_trace(), vectors.findings()[:1])
    assert len(frames(told)) == 2
    assert len(frames(told.with_state(head=0))) == 1  # another head: only what is pinned


def test_the_figure_of_a_report_is_the_picture_of_its_first_finding_with_its_sentence():
    told = report(vectors.a_trace(), vectors.findings()[:1], language="zh")
    said = "".join(each.get_text() for each in texts(told) if each.get_fontsize() == 8)
    assert said == "看向首个词元。" + told.numbers.caption


def test_a_report_without_a_picture_has_no_figure(tmp_path):
    told = report(vectors.a_trace(), vectors.findings()[3:])
    with pytest.raises(InputError, match=r"no finding of this report has a picture.*save.*\.html"):
        told.save(tmp_path / "report.png")
