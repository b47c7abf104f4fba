r"""The only place where text goes to a terminal: lines on stdout and stderr, and consoles of rich.

Texts of models, files and names are not trusted. A token may hold an escape sequence that renames
the window, writes the clipboard or hides the line above; a file name may hold a mark of direction
that reverses its suffix. So nothing else in the package prints (a test reads the source), and what
is printed here is made harmless first, on a terminal and in a pipe alike:

    print_line("page\x1b[2J.html")       page�[2J.html          one line, whatever it holds
    print_text("two\nlines\x07")        two, lines�            line feeds and tabs are kept
    make_console().print(table)          cells�                 segments of rich, before layout

Each such character (regard.unicode says which) becomes U+FFFD. The exact text is in the output of
--json, where it is escaped, and in files that --out writes. The colours of a console are its own:
texts are printed without markup, so that a name such as [link=…] stays a name.

click and rich are imported when something is printed, so that help pages appear at once.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from regard.unicode import replace_controls, split_ending_joiners

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

__all__ = [
    "clear_line",
    "make_console",
    "overwrite_line",
    "print_line",
    "print_pieces",
    "print_text",
]

_CLEAR_TO_END = "\x1b[K"  # of the terminal's line


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line to stdout, or to stderr; a line feed in the text is replaced too."""
    _write(f"{replace_controls(text)}\n", err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines to stdout, or to stderr, and end its last line."""
    _write(f"{replace_controls(text, lines=True)}\n", err=err)


def print_pieces(pieces: Iterable[str]) -> None:
    """Print the pieces of one text as they come, and end the line.

    A joiner at the end of a piece is printed with the next one: whether it joins two visible
    characters, as in an emoji, is not known before.
    """
    before, rest = "", ""
    for piece in pieces:
        text, rest = split_ending_joiners(rest + piece)
        _write(replace_controls(before + text, lines=True)[len(before) :])
        before = text[-1:] or before
    print_text(rest)


def overwrite_line(text: str) -> None:
    """Show a text in place of the last line of stderr, which has to be a terminal."""
    _write(f"\r{replace_controls(text)}{_CLEAR_TO_END}", err=True)


def clear_line() -> None:
    """Remove the line that `overwrite_line` shows."""
    overwrite_line("")


def make_console(*, stderr: bool = False, quiet: bool = False) -> "Console":
    """A console of rich that makes every text harmless, and reads no markup in texts."""
    console: Console = _console_class()(
        stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False
    )
    return console


def _write(text: str, *, err: bool = False) -> None:
    """Write text that is harmless by now, and flush it."""
    import click

    click.echo(text, err=err, nl=False)


@cache
def _console_class() -> "type[Console]":
    """The class of our consoles; rich is imported for it."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class HarmlessConsole(Console):
        """A console that changes texts before they are laid out, and segments before output."""

        def render(
            self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
        ) -> "Iterator[Segment]":
            """The segments of a renderable; rich calls this for each part of it again."""
            if isinstance(renderable, str):
                renderable = replace_controls(renderable, lines=True)
            elif isinstance(renderable, Text):
                renderable = _harmless_rich_text(renderable)
            for segment in super().render(renderable, options):
                # control segments are rich's own: cursor moves of progress bars
                text = segment.text if segment.control else _harmless_segment(segment.text)
                yield segment if text is segment.text else Segment(text, segment.style)

        def out(self, *objects: Any, **settings: Any) -> None:
            """Print without layout; rich writes these texts past `render`."""
            super().out(*(replace_controls(str(part), lines=True) for part in objects), **settings)

    return HarmlessConsole


def _harmless_rich_text(text: Any) -> Any:
    """A Text of rich with the same styles, since one character replaces one."""
    plain = replace_controls(text.plain, lines=True)
    if plain == text.plain:
        return text
    harmless = text.copy()
    harmless.plain = plain
    return harmless


def _harmless_segment(text: str) -> str:
    """The text of a segment; the very same object if nothing is replaced."""
    harmless = replace_controls(text, lines=True)
    return text if harmless == text else harmless
