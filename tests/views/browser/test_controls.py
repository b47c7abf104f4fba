from regard.text import say
from regard.views import heads, heatmap, highlight
from views.browser import scenes


def test_arrows_go_through_layers_and_heads(open_page):
    found = open_page(heatmap(scenes.a_trace(), "layer.0", 0))
    found.press("ArrowDown", "ArrowRight", "ArrowRight")
    assert found.caption.startswith("layer.1, head 2.")
    found.press("ArrowRight")
    assert found.caption.startswith("layer.1, mean over 3 heads.")
    found.press("ArrowUp")
    assert found.caption.startswith("layer.0, mean over 3 heads.")


def test_a_key_does_what_a_click_does_and_the_caption_says_it(open_page):
    found = open_page(heatmap(scenes.a_trace(), "layer.0", 0))
    for key, address, sentence in [
        ("u", "#unit=word", "caption.unit.word"),
        ("h", "#unit=word&hide=first", "caption.hide.first"),
        ("s", "#unit=word&hide=first%2Cspecial", "caption.hide.both"),
        ("c", "#unit=word&hide=first%2Cspecial&scale=log", "caption.scale.log"),
    ]:
        found.press(key)
        assert found.hash == address
        assert say(sentence, "en") in found.caption


def test_one_click_hides_tokens_and_renormalises(open_page):
    view = heatmap(scenes.a_trace(), "layer.0", 0)
    found = open_page(view)
    found.click('[data-key="hide.special"]')
    assert found.caption == scenes.caption(view, hide=("special",))


def test_a_link_opens_the_same_head_and_token(open_page):
    address = "#view=heatmap&site=layer.1&head=2&axis=column&place=6&unit=word"
    found = open_page(heads(scenes.a_trace()), address)
    assert found.caption.startswith("layer.1, head 2.")
    assert found.text(".top h2") == "What attends to 我."


def test_a_link_to_what_is_not_there_opens_what_is(open_page):
    found = open_page(heads(scenes.a_trace()), "#view=heatmap&site=none&head=99&place=99&unit=x")
    assert found.caption.startswith("layer.0, mean over 3 heads.")


def test_going_back_shows_the_view_before(open_page):
    found = open_page(heads(scenes.a_trace()))
    found.click('.tile[data-head="layer.0 1"]')
    found.page.go_back()
    found.page.wait_for_selector(".tile")


def test_a_token_is_searched_and_pinned(open_page):
    found = open_page(heatmap(scenes.a_trace(), "layer.0", 0))
    found.press("/")
    found.page.keyboard.type("爱")
    found.press("Enter")
    assert found.hash == "#place=7"
    found.press("Escape")
    assert found.hash == ""


def test_a_question_mark_shows_the_keys(open_page):
    found = open_page(heads(scenes.a_trace()))
    found.press("?")
    assert "Arrow keys" in found.text("dialog.help")
    found.press("Escape")
    assert not found.page.locator("dialog.help").is_visible()


def test_a_word_is_clicked_to_see_its_sources(open_page):
    view = highlight(scenes.a_trace(), site="layer.0", head=1)
    found = open_page(view)
    found.page.locator(".text .word", has_text="爱").click()
    found.settle()
    assert found.caption == scenes.caption(view, place=7)
    top = view.with_state(place=7).numbers.top
    assert found.text(".top li:first-child bdi") == top[0][0]


def test_the_page_speaks_chinese(open_page):
    view = heatmap(scenes.a_trace(), "layer.0", 0)
    found = open_page(view, "#language=zh")
    assert found.caption == scenes.caption(view, language="zh")
    assert found.text("nav [aria-current]") == say("view.heatmap", "zh")
    found.click('[data-key="language"]')
    assert found.caption == scenes.caption(view)


def test_the_page_speaks_the_readers_language_unless_it_is_told(browser, tmp_path):
    path = heads(scenes.a_trace()).save(tmp_path / "page.html")
    context = browser.new_context(locale="zh-CN", offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("nav [aria-current]").inner_text() == say("view.heads", "zh")
    context.close()


def test_the_page_is_dark_where_the_reader_likes_it_and_can_be_switched(open_page):
    found = open_page(heads(scenes.a_trace()), scheme="dark")
    assert found.page.locator("#regard[data-theme=dark]").count() == 1
    found.click('[data-key="theme"]')
    assert found.hash == "#theme=light"
    assert found.page.locator("#regard[data-theme=light]").count() == 1


def test_heads_are_switched_on_alone_in_the_flow(open_page):
    found = open_page(heads(scenes.a_trace()), "#view=flow&threshold=0.3")
    found.click('[data-key="heads.1"]')
    assert found.caption.startswith("layer.0, head 1.")
    found.click('[data-key="heads.2"]')
    assert found.caption.startswith("layer.0, 2 heads,")
