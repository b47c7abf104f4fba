import pytest

from regard.views import heatmap
from views.browser import scenes

SIZE = scenes.SIZE


def shown(text):
    """The weight that a text says, and whether it only says that it is small."""
    if "<" in text:
        return None
    return float(text.rstrip("%")) / 100


def test_hovering_shows_the_weights_of_the_trace(open_page):
    trace = scenes.a_trace()
    found = open_page(heatmap(trace, "layer.1", 2))
    for row, column in [(0, 0), (3, 5), (7, 2), (12, 11)]:
        names, _, weight = found.hover(row, column, SIZE, SIZE).rpartition(": ")
        assert names == f"{scenes.WORDS[row]} → {scenes.WORDS[column]}"
        exact = float(trace["layer.1"].weights(2)[row, column])
        if exact < 0.00097:
            assert shown(weight) is None
        else:
            assert shown(weight) == pytest.approx(exact, rel=0.03, abs=0.0006)


def test_small_weights_are_said_to_be_small(open_page):
    trace = scenes.a_trace()
    weights = trace["layer.0"].weights(0)
    row, column = divmod(int(weights.argmin()), SIZE)
    assert float(weights[row, column]) < 0.00097
    found = open_page(heatmap(trace, "layer.0", 0))
    assert found.hover(row, column, SIZE, SIZE).endswith(": < 0.1%")


def test_a_click_pins_a_row_and_another_lets_it_go(open_page):
    found = open_page(heatmap(scenes.a_trace(), "layer.0", 1))
    found.page.mouse.click(*found.cell(4, 9, SIZE, SIZE))
    found.settle()
    assert found.hash == "#place=4"
    assert found.text(".top h2") == "What words attends to."
    found.page.mouse.click(*found.cell(4, 2, SIZE, SIZE))
    found.settle()
    assert found.hash == ""


def test_a_click_with_shift_pins_a_column(open_page):
    found = open_page(heatmap(scenes.a_trace(), "layer.0", 1))
    found.page.keyboard.down("Shift")
    found.page.mouse.click(*found.cell(4, 6, SIZE, SIZE))
    found.page.keyboard.up("Shift")
    found.settle()
    assert found.hash == "#axis=column&place=6"
    assert found.text(".top h2") == "What attends to 我."


def test_the_wheel_zooms_and_a_double_click_shows_all(open_page):
    found = open_page(heatmap(scenes.a_long_trace(), "long", 0, whole=2000))
    found.page.mouse.move(*found.cell(700, 700, 1543, 1543))
    for _ in range(4):
        found.page.mouse.wheel(0, -300)
    found.settle()
    assert found.page.locator(".map.zoomed").count() == 1
    found.page.mouse.dblclick(*found.cell(700, 700, 1543, 1543))
    found.settle()
    assert found.page.locator(".map.zoomed").count() == 0


def test_a_long_map_shows_cells_and_exact_windows(open_page):
    trace = scenes.a_long_trace()
    window = ("long", 0, range(1000, 1200), range(300, 500))
    view = heatmap(trace, "long", 0, whole=512, windows=[window])
    found = open_page(view)
    assert "For other parts: " in found.text(".beside")
    assert "regard.heatmap" in found.text(".beside code")
    size = len(trace["long"].rows)
    said = found.hover(1100, 400, size, size)
    row, column = (int(part.strip(" t")) for part in said.split(": ")[0].split("→"))
    assert abs(row - 1100) < 4
    exact = float(trace["long"].weights(0)[row, column])
    weight = shown(said.rpartition(": ")[2])
    assert (
        (exact < 0.00103) if weight is None else weight == pytest.approx(exact, rel=0.03, abs=6e-4)
    )


def test_cells_of_a_long_map_say_their_mean_and_their_largest(open_page):
    found = open_page(heatmap(scenes.a_long_trace(), "long", 0, whole=512))
    found.page.wait_for_timeout(100)
    assert "mean " in found.hover(700, 700, 1543, 1543)
