"""What a terminal can show: colours or shades of characters, and which characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.unicode import spell_controls
from regard.views import colours
from regard.views.captions import percent
from regard.views.state import ViewState

SHADES, ASCII_SHADES = " ░▒▓█", " .:*#"
FAINTEST = 0.04  # a fainter shade is drawn as a blank
BARS = " ▏▎▍▌▋▊▉█"
STEPS = 256  # distinct shades, one per colour; styles are cached by shade
_JUSTIFY = {"l": "left", "r": "right", "c": "center"}


@dataclass(frozen=True)
class TerminalStyle:
    """The abilities of one terminal: colours, a light or dark background, and its encoding."""

    coloured: bool = True
    on_light: bool = False
    encoding: str = "utf-8"

    @classmethod
    def of(cls, console: Console, options: ConsoleOptions, state: ViewState) -> "TerminalStyle":
        """The abilities of a console; sixteen colours count as none: too few for shades."""
        coloured = console.color_system in ("256", "truecolor") and not console.no_color
        return cls(coloured, state.theme == "light", options.encoding)

    @property
    def ascii_only(self) -> bool:
        """True if the encoding has no block characters, so that only ASCII is drawn with."""
        return not self.encoding.startswith("utf")

    def printable(self, text: str) -> str:
        """A text with every character that this terminal cannot or must not print spelled out."""
        text = spell_controls(text)
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return "".join(map(self._printable_character, text))
        return text

    def _printable_character(self, character: str) -> str:
        """The character itself, or its code point as U+XXXX if the encoding does not have it."""
        try:
            character.encode(self.encoding)
        except UnicodeEncodeError:
            return f"U+{ord(character):04X}"
        return character

    def cut(self, text: str, width: int) -> str:
        """As much of a text as fits, counted in cells: a Chinese character takes two."""
        text = self.printable(text)
        if cell_len(text) <= width:
            return text
        ellipsis = "~" if self.ascii_only else "…"
        return set_cell_size(text, width - 1).rstrip() + ellipsis if width > 1 else ellipsis[:width]

    def shade_character(self, shade: float) -> str:
        """A character as dense as a shade from 0 to 1."""
        ramp = ASCII_SHADES if self.ascii_only else SHADES
        return ramp[min(4, 1 + int(4 * shade)) if shade >= FAINTEST else 0]

    def shade_style(self, shade: float) -> Style:
        """Letters on the colour of a shade from 0 to 1."""
        return _shade_style(round(shade * STEPS), self.on_light)

    def difference_style(self, shade: float) -> Style:
        """Letters on the colour of a difference from -1 to 1."""
        return _difference_style(round(shade * STEPS), self.on_light)

    def half_block_style(self, upper: float, lower: float) -> Style:
        """The colours of two shades, one above the other in one character."""
        return _half_block_style(round(upper * STEPS), round(lower * STEPS), self.on_light)

    def bar(self, share: float, width: int) -> str:
        """A bar as long as a share of the width."""
        if self.ascii_only:
            return "#" * round(share * width)
        eighths = round(share * width * 8)
        return BARS[-1] * (eighths // 8) + BARS[eighths % 8].strip()

    def percent(self, weight: float) -> Text:
        """A weight in percent, as a text that tables never cut."""
        text = percent(weight)
        return Text(text.replace("−", "-") if self.ascii_only else text)

    @property
    def arrow(self) -> str:
        """What stands between the two tokens of a line."""
        return "->" if self.ascii_only else "→"

    def table(self, rows: Sequence[Sequence[str | Text]], justify: str, longest: int) -> Table:
        """A table without rules; `justify` has l, r or c for each column, long texts are cut."""
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        for side in justify:
            table.add_column(justify=_JUSTIFY[side], no_wrap=True)  # type: ignore[arg-type]
        longest = max(4, longest)
        for row in rows:
            cells = (
                cell if isinstance(cell, Text) else Text(self.cut(cell, longest)) for cell in row
            )
            table.add_row(*cells)
        return table


@cache
def _shade_style(step: int, on_light: bool) -> Style:
    """Letters on the colour of a shade, given as a step from 0 to STEPS."""
    return _readable_on(_shade_rgb(step, on_light))


@cache
def _difference_style(step: int, on_light: bool) -> Style:
    """Letters on the colour of a difference, given as a step from -STEPS to STEPS."""
    red, green, blue = colours.signed(step / STEPS, on_dark=not on_light)
    return _readable_on((int(red), int(green), int(blue)))


@cache
def _half_block_style(upper: int, lower: int, on_light: bool) -> Style:
    """The colours of two shades, given as steps, in one half-block character."""
    above, below = (Color.from_rgb(*_shade_rgb(step, on_light)) for step in (upper, lower))
    return Style(color=above, bgcolor=below)


def _shade_rgb(step: int, on_light: bool) -> tuple[int, int, int]:
    """Red, green and blue of a shade, given as a step from 0 to STEPS."""
    red, green, blue = (colours.light if on_light else colours.dark)(step / STEPS)
    return int(red), int(green), int(blue)


def _readable_on(rgb: tuple[int, int, int]) -> Style:
    """A background colour with letters that can be read on it."""
    letters = "#ffffff" if colours.is_dim(rgb) else "#101010"
    return Style(color=letters, bgcolor=Color.from_rgb(*rgb))


def pad(text: str, width: int, align: str = "right") -> str:
    """A text with blanks, as many cells wide as said."""
    blank = " " * max(0, width - cell_len(text))
    if align == "center":
        half = len(blank) // 2
        return blank[:half] + text + blank[half:]
    return blank + text if align == "right" else text + blank
