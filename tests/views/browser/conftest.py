"""Pages in a real browser, opened from a file, with no network and nothing wrong on the console."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]


def missing(what):
    """Skip where no browser can be had; under CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"the browser tests cannot run: {what}", pytrace=False)
    pytest.skip(f"browser tests skipped: {what}")


def executable(chromium):
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and not Path(chromium.executable_path).exists():
        missing("no Chromium here; install it with: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("no Playwright here; install it with: pip install playwright")
    with sync_playwright() as playwright:
        path = executable(playwright.chromium)
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page of a view, what it said on the console and what it asked the network for."""

    page: object
    errors: list = field(default_factory=list)
    requests: list = field(default_factory=list)

    def text(self, selector):
        return self.page.locator(selector).inner_text()

    @property
    def caption(self):
        return self.text("figcaption")

    @property
    def hash(self):
        return self.page.evaluate("location.hash")

    def settle(self):
        """Wait until what was last asked for is drawn."""
        self.page.wait_for_function(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))"
        )

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def look(self, address):
        """Go to another state of the same page."""
        self.page.evaluate("address => { location.hash = address }", address)
        self.settle()

    def click(self, selector):
        self.page.locator(selector).first.click()
        self.settle()

    def cell(self, row, column, rows, columns):
        """The point of the window in the middle of a cell of the first map."""
        map_ = self.page.locator(".map").first
        box = map_.locator("canvas").first.bounding_box()
        left, top, wide, high = map(float, map_.get_attribute("data-frame").split())
        x = box["x"] + left + (column + 0.5) * wide / columns
        return x, box["y"] + top + (row + 0.5) * high / rows

    def hover(self, row, column, rows, columns):
        self.page.mouse.move(*self.cell(row, column, rows, columns))
        return self.text(".tip div:first-child")


@pytest.fixture(scope="session")
def usual_page(browser):
    """One window for all tests: a new one takes longer than all that is done in it."""
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def open_page(usual_page, tmp_path):
    """Save a view as a page and open it; afterwards nothing may have gone wrong."""
    found = Opened(usual_page)
    listeners = {
        "console": lambda said: found.errors.append(said.text),
        "pageerror": lambda error: found.errors.append(str(error)),
        "request": lambda request: found.requests.append(request.url),
    }
    for name, listener in listeners.items():
        usual_page.on(name, listener)

    def opening(view, address="", width=1000, height=1100, scheme="light"):
        path = view.save(tmp_path / "page.html")
        usual_page.set_viewport_size({"width": width, "height": height})
        usual_page.emulate_media(color_scheme=scheme)
        usual_page.goto("about:blank")  # or another hash would not be another page
        usual_page.goto(path.as_uri() + address)
        usual_page.wait_for_selector("#regard[data-ready]")
        return found

    yield opening
    for name, listener in listeners.items():
        usual_page.remove_listener(name, listener)
    assert found.errors == []
    assert [url for url in found.requests if not url.startswith(("file:", "blob:", "about:"))] == []
