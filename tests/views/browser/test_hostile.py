from regard.views import heads
from views.browser import scenes


def test_a_hostile_token_stays_text_in_every_view(open_page):
    found = open_page(heads(scenes.a_hostile_trace(), title=scenes.HOSTILE[1]))
    for name in ("heads", "heatmap", "highlight", "flow", "compare"):
        found.look(f"#view={name}&head=0&place=1")
        assert found.page.locator("#regard img, #regard script, #regard b").count() == 0, name
    assert found.page.title() == scenes.HOSTILE[1]
    assert found.text("h1") == scenes.HOSTILE[1]
    scripts = found.page.evaluate("document.scripts.length")
    assert scripts == 4  # header, two parts, the front end


def test_a_token_that_looks_like_markup_is_read_as_it_is(open_page):
    found = open_page(heads(scenes.a_hostile_trace()), "#view=highlight&head=0")
    words = found.page.locator(".text .word").all_inner_texts()
    assert words[0] == scenes.HOSTILE[0]
    assert words[1] == scenes.HOSTILE[1]


def test_marks_of_direction_are_spelled_out(open_page):
    found = open_page(heads(scenes.a_hostile_trace()), "#view=heatmap&head=0")
    size = len(scenes.HOSTILE)
    assert found.hover(3, 2, size, size).startswith("U+202EdrawkcabU+202C → U+2028: ")


def test_what_is_searched_is_text_too(open_page):
    found = open_page(heads(scenes.a_hostile_trace()), "#view=heatmap&head=0")
    found.press("/")
    found.page.keyboard.type("<img")
    assert found.text(".search li bdi") == scenes.HOSTILE[1]
