"""Views in the terminal by their segments: texts, widths in cells and colours."""

import io
from functools import cache

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment

from regard.types import Tokens, Trace
from regard.views import MapReference, colours, compare, flow, heads, heatmap, highlight, overlay
from views import vectors

WIDTHS = [40, 80, 200]
WEIGHTS = [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5], [0.0, 0.004, 0.996]]


def small() -> Trace:
    return Trace.from_weights(torch.tensor(WEIGHTS), ["我", "爱", "中国"])


def long(length: int = 307) -> Trace:
    torch.manual_seed(11)
    words = ["注意", "x", "antidisestablishmentarianism", "力"]
    tokens = [words[place % 4] for place in range(length)]
    return Trace.from_weights(torch.randn(2, 5, length, length).softmax(-1), tokens)


def patched() -> Trace:
    patches = Tokens(tuple(map(str, range(15))), grid=(3, 5), named=False)
    return Trace.from_weights(torch.rand(2, 4, 15).softmax(-1), list("abcd"), patches)


@cache
def every_view(language: str = "en") -> dict:
    trace, extras = vectors.a_trace(), {"language": language}
    return {
        "heatmap": heatmap(trace, "encoder.0", 1, **extras),
        "long": heatmap(long(211), head=0, **extras),
        "highlight": highlight(trace, 2, **extras),
        "flow": flow(trace, "encoder.0", **extras),
        "layers": flow(trace, "encoder.0", span="all", **extras),
        "time": flow(trace, "cross.0", span="time", **extras),
        "heads": heads(trace, badges={("encoder.0", 1): ["沉"]}, **extras),
        "many": heads(long(17), **extras),
        "overlay": overlay(patched(), head=1, **extras),
        "compare": compare(
            trace, site="encoder.0", head=0, other=MapReference(0, "encoder.1", 1), **extras
        ),
    }


def lines(view, width: int = 80, colour: str | None = None, encoding: str = "utf-8"):
    """The segments of each line that a console of this width would print."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=colour, force_terminal=bool(colour))
    rendered = console.render(view, console.options)
    return [[*each] for each in Segment.split_lines(rendered)]


def texts(view, *terminal) -> list[str]:
    return ["".join(each.text for each in line) for line in lines(view, *terminal)]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("colour", [None, "truecolor"])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(width, colour, language):
    for name, view in every_view(language=language).items():
        widest = max(map(cell_len, texts(view, width, colour)))
        assert 0 < widest <= width, name


@pytest.mark.parametrize("width", WIDTHS)
def test_the_caption_comes_last(width):
    for name, view in every_view().items():
        shown = "".join(texts(view, width)).replace(" ", "")
        assert shown.endswith(view.numbers.caption.replace(" ", "")[-60:]), name


def test_a_small_map_without_colour_is_written_in_numbers():
    assert texts(heatmap(small(), head=0), 40)[:4] == [
        "      我   爱  中国 ",
        "  我   90█  10░     ",
        "  爱   20░  30▒  50▓",
        "中国            100█",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_cells_have_the_colours_of_their_shades(width):
    view = heatmap(small(), head=0)
    rows = lines(view, width, "truecolor")[1:4]
    for shades, row in zip(view.numbers.shades, rows, strict=True):
        grounds = [each.style.bgcolor for each in row if each.style and each.style.bgcolor]
        found = [tuple(each.triplet) for each in grounds]
        assert found == [tuple(colours.dark(shade)) for shade in shades]


def test_a_light_theme_has_the_colours_of_paper():
    row = lines(heatmap(small(), head=0, theme="light"), 40, "truecolor")[1]
    grounds = [tuple(each.style.bgcolor.triplet) for each in row if each.style.bgcolor]
    assert grounds[2] == tuple(colours.light(0.0))


def test_chinese_labels_end_where_their_cells_begin():
    rows = texts(heatmap(small(), head=0), 40)[:4]
    assert [cell_len(row) for row in rows] == [20, 20, 20, 20]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_map_shows_the_largest_of_each_part(width):
    view = heatmap(long(), head=0, scale="row")
    shown = texts(view, width)
    said = next(line for line in shown if line.startswith("Each block"))
    down, across = (int(word) for word in said.split() if word.isdigit())
    rows = [line for line in shown if line.endswith("█")]
    assert down >= across > 1
    assert len(rows) <= -(-307 // down)
    assert cell_len(rows[0]) <= width


def test_a_part_is_as_strong_as_its_strongest_cell():
    from regard.views.terminal.layout import max_pool

    shades = np.zeros((5, 7), np.float32)
    shades[3, 6], shades[0, 1] = 0.7, 0.2
    assert np.allclose(max_pool(shades, 2, 3), [[0.2, 0, 0], [0, 0, 0.7], [0, 0, 0]])


def test_labels_of_narrow_columns_stand_upright():
    tokens = ["un", "##kind", "x"] * 5
    view = heatmap(Trace.from_weights(torch.eye(15), tokens), head=0)
    shown = texts(view, 40)
    assert [line[7] for line in shown[:6]] == [" ", " ", " ", " ", "u", "n"]
    assert [line[9] for line in shown[:6]] == ["#", "#", "k", "i", "n", "d"]


def test_words_are_on_their_colours():
    view = highlight(vectors.a_trace(), 2)
    found = {
        each.text: tuple(each.style.bgcolor.triplet)
        for line in lines(view, 200, "truecolor")
        for each in line
        if each.style and each.style.bgcolor
    }
    for word in view.numbers.words:
        assert found[word.text] == tuple(colours.dark(word.shade))


def test_words_without_colour_follow_a_character_as_dense():
    view = highlight(small(), 1)
    assert texts(view, 40)[0] == "▒我▓爱█中国"


def test_the_words_of_most_weight_are_listed():
    view = highlight(small(), 0, language="zh")
    shown = [line.split() for line in texts(view, 40)]
    start = shown.index(["权重最大的词元"])
    assert [line[:2] for line in shown[start + 1 : start + 3]] == [["我", "90.0%"], ["爱", "10.0%"]]
    assert shown[start + 1][2] == "█" * 13


def test_the_heaviest_links_come_first_with_heads_by_their_numbers():
    view = flow(vectors.a_trace(), "encoder.1")
    heaviest = view.numbers.lines[-1]
    first = texts(view, 200)[0].split()
    rows, columns = view.numbers.levels
    assert first[:2] == ["head", str((4, 9)[heaviest.head])]
    assert first[2:5] == [rows[heaviest.start].text, "→", columns[heaviest.stop].text]


def test_over_decoding_time_links_go_from_the_source():
    view = flow(Trace.from_weights(torch.tensor([[0.1, 0.9]]), "我", "ab"), span="time")
    assert texts(view, 40)[0].split()[:4] == ["b", "→", "我", "90.0%"]


@pytest.mark.parametrize(("width", "strips"), [(40, 1), (12, 5)])
def test_heads_that_do_not_fit_go_on_below(width, strips):
    shown = texts(heads(long(17)), width)
    numbers = [
        line
        for line in shown
        if line.replace("encoder", "").split()[-1:] in ([str(head)] for head in range(5))
    ]
    assert len(numbers) == 2 * strips


def test_a_head_is_drawn_in_half_blocks():
    view = heads(small())
    shown = lines(view, 80, "truecolor")
    blocks = [each for line in shown for each in line if each.text.startswith("▀")]
    shades = view.numbers.rows[0][0].shades
    assert tuple(blocks[0].style.color.triplet) == tuple(colours.dark(shades[0, 0]))
    assert tuple(blocks[-1].style.bgcolor.triplet) == tuple(colours.dark(shades[-1, -1]))


def test_a_picture_keeps_the_places_of_its_patches():
    view = overlay(patched(), head=1)
    shown = lines(view, 40, "truecolor")
    scale = sum(len(each.text) for each in shown[0]) // 5
    assert tuple(shown[0][0].style.color.triplet) == tuple(colours.dark(view.numbers.shades[0, 0]))
    assert len([line for line in shown if "▀" in line[0].text]) == -(-3 * scale // 2)


def test_a_comparison_is_a_table_where_three_maps_do_not_fit():
    view = compare(small(), small().__class__.from_weights(torch.eye(3), ["我", "爱", "中国"]))
    assert texts(view, 40)[0].split() == ["爱", "→", "爱", "30.0%", "100.0%", "−70.0%"]
    wide = lines(view, 80, "truecolor")[2]
    grounds = [
        tuple(each.style.bgcolor.triplet) for each in wide if each.style and each.style.bgcolor
    ]
    assert len(grounds) == 9
    assert grounds[:3] == [tuple(each) for each in colours.dark([0.9, 0.1, 0.0])]
    assert grounds[6] == tuple(colours.signed(-0.1 / 0.7, on_dark=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_ascii_terminals_get_ascii(width):
    for name, view in every_view(language="zh").items():
        assert "".join(texts(view, width, None, "ascii")).isascii(), name


def test_a_chinese_encoding_keeps_chinese():
    shown = texts(heatmap(small(), head=0), 40, None, "gbk")
    assert shown[1] == "  我   90#  10.     "


def test_a_token_cannot_move_the_cursor_or_use_markup():
    odd = ["\x1b[2J", "[red]x[/red]", "a\nb", "\u202eabc"]
    shown = "\n".join(texts(heatmap(Trace.from_weights(torch.eye(4), odd), head=0), 80))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "U+001B[2J" in shown
    assert "[red]x[/red]" in shown
    assert "a\\nb" in shown


def test_no_colour_is_no_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = lines(heatmap(small(), head=0), 40, "truecolor")
    assert "".join(each.text for each in shown[1]) == "  我   90█  10░     "


def test_printing_a_view_prints_its_drawing(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert str(heatmap(small(), head=0)).splitlines()[3] == "中国            100█"


def test_the_title_stands_above():
    assert texts(heatmap(small(), head=0, title="我爱中国"), 40)[0] == "我爱中国"
