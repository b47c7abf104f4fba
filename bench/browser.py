"""Pages in a headless Chromium: the time to the first picture, and the delay of hovering."""

import resource
import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DEADLINE = 90.0  # seconds after which a page counts as drawing nothing
MOVES = 300

# Sets window.drawnAfter one frame after the page has drawn, when that frame is painted.
WAIT_UNTIL_DRAWN = """(() => {
  const drawn = () => { try { return %s } catch { return false } };
  const painted = () => setTimeout(() => { window.drawnAfter = performance.now() });
  const see = () => requestAnimationFrame(drawn() ? painted : see);
  see();
})()"""

# Measures, for each of many pointer moves, the time of its handler plus that of the next frame.
MEASURE_HOVER = """async ([moves, seed]) => {
  const map = document.querySelector(".map");
  const box = map.getBoundingClientRect();
  const [left, top, wide, high] = map.dataset.frame.split(" ").map(Number);
  let state = seed;
  const chance = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  const taken = [];
  for (let move = 0; move < moves; move++) {
    const place = {
      clientX: box.left + left + chance() * wide,
      clientY: box.top + top + chance() * high,
      bubbles: true,
    };
    const start = performance.now();
    map.dispatchEvent(new PointerEvent("pointermove", place));
    const handled = performance.now() - start;
    const frame = await new Promise(done => requestAnimationFrame(() => {
      const begun = performance.now();
      const channel = new MessageChannel();
      channel.port1.onmessage = () => done(performance.now() - begun);
      channel.port2.postMessage(null);
    }));
    taken.push(handled + frame);
  }
  if (document.querySelector(".tip").hidden) throw new Error("nothing was shown");
  return taken;
}"""


class Browser:
    """A Chromium that opens pages from disk, each in a window of its own, without a network."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def first_picture(self, path: Path, drawn: str, times: int) -> list[float] | str:
        """Seconds from the start of opening a page until it has drawn; or why there are none."""
        found = []
        for _ in range(times):
            with self._page() as page:
                page.add_init_script(WAIT_UNTIL_DRAWN % drawn)
                try:
                    page.goto(path.as_uri(), wait_until="commit", timeout=1000 * DEADLINE)
                    page.wait_for_function(
                        "() => window.drawnAfter > 0", timeout=1000 * DEADLINE, polling=50
                    )
                except Exception as error:
                    return f"draws nothing within {DEADLINE:.0f} s offline ({_first_line(error)})"
                found.append(page.evaluate("window.drawnAfter") / 1000)
        return found

    def hover(self, path: Path, address: str) -> float:
        """Milliseconds that all but one move in twenty over a heatmap take, the frame included."""
        with self._page() as page:
            page.goto(path.as_uri() + address)
            page.wait_for_selector(".map[data-frame]")
            page.evaluate(MEASURE_HOVER, [MOVES // 10, 7])  # the first moves are compiled
            return statistics.quantiles(page.evaluate(MEASURE_HOVER, [MOVES, 3]), n=20)[-1]

    @contextmanager
    def _page(self) -> Iterator[Any]:
        context = self._opened.new_context(offline=True, viewport={"width": 1280, "height": 900})
        try:
            yield context.new_page()
        finally:
            context.close()


@contextmanager
def browser() -> Iterator[Browser | str]:
    """A browser, or what is missing for it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield "no Playwright here; install it with: pip install playwright"
        return
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        yield "no Chromium here; install it with: apt-get install chromium"
        return
    with _all_addresses(), sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield Browser(opened)
        opened.close()


@contextmanager
def _all_addresses() -> Iterator[None]:
    """Lift the runner's limit on addresses: a browser reserves far more than it uses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:80].replace("|", "/")
