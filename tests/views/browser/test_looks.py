"""Pictures of pages beside stored ones: small, so that fonts and machines make no difference."""

import base64
import os
from pathlib import Path

import pytest

from regard.views import heads
from views.browser import scenes

STORED = Path(__file__).with_name("stored")
SIZE = (120, 96)
TOLERANCE = 0.02

LOOKS = {
    "heads": "#",
    "heads-dark": "#theme=dark",
    "heatmap": "#view=heatmap&site=layer.1&head=1&place=4",
    "text-zh": "#view=highlight&site=layer.0&head=0&place=7&language=zh",
    "flow": "#view=flow&site=layer.0&threshold=0.3",
    "compare-dark": "#view=compare&site=layer.0&head=0&other=0%2C2%2Clayer.1&theme=dark",
}

SHRUNK = """async ([address, wide, high]) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), {width: wide, height: high});
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, wide, high);
  return canvas.toDataURL("image/png");
}"""

DISTANCE = """async (addresses) => {
  const pixels = await Promise.all(addresses.map(async address => {
    const image = new Image();
    image.src = address;
    await image.decode();
    const {width, height} = image;
    const canvas = Object.assign(document.createElement("canvas"), {width, height});
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, width, height).data;
  }));
  const total = pixels[0].reduce((sum, each, at) => sum + Math.abs(each - pixels[1][at]), 0);
  return total / pixels[0].length / 255;
}"""


@pytest.fixture(scope="module")
def blank(browser):
    page = browser.new_page()
    yield page
    page.close()


def address(png):
    return "data:image/png;base64," + base64.b64encode(png).decode()


def stored(name):
    return address((STORED / f"{name}.png").read_bytes())


@pytest.fixture
def looks(open_page, blank):
    """Small pictures of the states of one page, as data addresses."""
    found = open_page(heads(scenes.a_trace()), height=800)

    def picture(name):
        found.look(LOOKS[name])
        return blank.evaluate(SHRUNK, [address(found.page.screenshot()), *SIZE])

    return picture


def test_pages_look_as_they_did(looks, blank):
    far = {}
    for name in LOOKS:
        small = looks(name)
        if os.environ.get("REGARD_STORE_LOOKS"):
            data = base64.b64decode(small.partition(",")[2])
            (STORED / f"{name}.png").write_bytes(data)
        far[name] = blank.evaluate(DISTANCE, [small, stored(name)])
    assert {name: each for name, each in far.items() if each >= TOLERANCE} == {}


def test_another_picture_would_be_noticed(looks, blank):
    assert blank.evaluate(DISTANCE, [looks("heatmap"), stored("flow")]) > TOLERANCE
