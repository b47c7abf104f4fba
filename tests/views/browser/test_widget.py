"""The front end without a page around it, as a notebook mounts it."""

import base64

import pytest

from regard.views import heads, heatmap
from regard.views.captions import page_sentences
from regard.views.encoding import encode
from regard.views.page.html import built_front
from views.browser import scenes

MOUNT = """([header, blobs, state]) => {
  const bytes = text => Uint8Array.from(atob(text), each => each.charCodeAt(0));
  const values = {header, state, blobs: new DataView(bytes(blobs).buffer)};
  const handlers = {};
  window.sent = [];
  window.told = [];
  window.model = {
    get: name => values[name],
    set: (name, value) => { values[name] = value; told.push(value); },
    save_changes: () => {},
    send: content => sent.push(content),
    on: (name, handler) => { handlers[name] = handler; },
    say: state => { values.state = state; handlers["change:state"](); },
    answer: (id, blob) => handlers["msg:custom"](
      {regard: "window", id}, [new DataView(bytes(blob).buffer)]),
  };
  regard.render({model, el: document.body});
}"""


def text(data):
    return base64.b64encode(data).decode()


@pytest.fixture
def mounted(browser):
    page = browser.new_page(viewport={"width": 1000, "height": 1100})

    def mount(view):
        page.add_script_tag(content=built_front())
        header = {"scene": view.packed.header, "words": page_sentences()}
        page.evaluate(MOUNT, [header, text(b"".join(view.packed.blobs)), view.state.to_json()])
        page.wait_for_selector(".regard[data-ready]")
        return page

    yield mount
    page.close()


def test_the_state_goes_both_ways(mounted):
    view = heads(scenes.a_trace())
    page = mounted(view)
    page.locator('.tile[data-head="layer.1 2"]').click()
    told = page.evaluate("told.at(-1)")
    assert (told["view"], told["site"], told["head"]) == ("heatmap", "layer.1", 2)
    page.evaluate("state => model.say(state)", view.with_state(view="flow").state.to_json())
    page.wait_for_selector(".flow")
    assert page.evaluate("location.hash") == ""


def test_exact_parts_of_a_long_map_are_asked_for_as_one_zooms(mounted):
    trace = scenes.a_long_trace()
    page = mounted(heatmap(trace, "long", 0, whole=512))
    box = page.locator(".map canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for _ in range(3):
        page.mouse.wheel(0, -400)
    page.wait_for_function("sent.length > 0")
    asked = page.evaluate("sent.at(-1)")
    assert (asked["regard"], asked["site"], asked["head"]) == ("window", "long", 0)
    part = trace["long"].weights(0)[slice(*asked["rows"]), slice(*asked["columns"])]
    blob = encode(part[None].numpy())[0]
    page.evaluate("([id, blob]) => model.answer(id, blob)", [asked["id"], text(blob)])
    page.mouse.move(box["x"] + box["width"] / 2 + 9, box["y"] + box["height"] / 2 + 9)
    said = page.locator(".tip div:first-child").inner_text()
    row, column = (int(each.strip(" t")) for each in said.split(": ")[0].split("→"))
    exact = float(trace["long"].weights(0)[row, column])
    shown = said.rpartition(": ")[2]
    assert "mean" not in said
    rounding = 0.006 if exact < 0.01 else 0.06
    near = "<" not in shown and abs(float(shown[:-1]) - 100 * exact) <= 3 * exact + rounding
    assert near or exact < 0.00103, (said, exact)
