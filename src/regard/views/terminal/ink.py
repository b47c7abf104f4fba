"""What a terminal can show: colours or shades of characters, and which letters."""

import unicodedata
from dataclasses import dataclass
from functools import cache

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.style import Style
from rich.text import Text

from regard.views import colours
from regard.views.captions import percent
from regard.views.state import State

SHADES, ASCII = " ░▒▓█", " .:*#"
FAINTEST = 0.04  # the shade from which on there is a character
BARS = " ▏▎▍▌▋▊▉█"
_SPELLED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # they would move the cursor, or turn the text around


@dataclass(frozen=True)
class Ink:
    """Whether there are colours, on which ground, and in which encoding text is written."""

    coloured: bool = True
    on_light: bool = False
    encoding: str = "utf-8"

    @classmethod
    def of(cls, console: Console, options: ConsoleOptions, state: State) -> "Ink":
        """What a console can show; sixteen colours are too few for shades."""
        coloured = console.color_system in ("256", "truecolor") and not console.no_color
        return cls(coloured, state.theme == "light", options.encoding)

    @property
    def plain(self) -> bool:
        """Whether only letters of ASCII are drawn with."""
        return not self.encoding.startswith("utf")

    def text(self, text: str) -> str:
        """A text that can be written, and that moves nothing on the screen."""
        return "".join(map(self._letter, text))

    def _letter(self, letter: str) -> str:
        if letter in _SPELLED:
            return _SPELLED[letter]
        try:
            letter.encode(self.encoding)
        except UnicodeEncodeError:
            return f"U+{ord(letter):04X}"
        hidden = unicodedata.category(letter) in _HIDDEN
        return f"U+{ord(letter):04X}" if hidden else letter

    def cut(self, text: str, width: int) -> str:
        """As much of a text as has room, counted in cells: a Chinese character takes two."""
        text = self.text(text)
        if cell_len(text) <= width:
            return text
        rest = "~" if self.plain else "…"
        return set_cell_size(text, width - 1).rstrip() + rest if width > 1 else rest[:width]

    def shade(self, shade: float) -> str:
        """A character as dense as a shade from 0 to 1."""
        ramp = ASCII if self.plain else SHADES
        return ramp[min(4, 1 + int(4 * shade)) if shade >= FAINTEST else 0]

    def style(self, shade: float) -> Style:
        """Letters on the colour of a shade."""
        return _shaded(round(shade * STEPS), self.on_light)

    def signed_style(self, shade: float) -> Style:
        """Letters on the colour of a difference."""
        return _signed(round(shade * STEPS), self.on_light)

    def halves(self, upper: float, lower: float) -> Style:
        """The colours of two shades, one above the other in one cell."""
        return _halves(round(upper * STEPS), round(lower * STEPS), self.on_light)

    def bar(self, share: float, width: int) -> str:
        """A bar as long as a share of the width."""
        if self.plain:
            return "#" * round(share * width)
        eighths = round(share * width * 8)
        return BARS[-1] * (eighths // 8) + BARS[eighths % 8].strip()

    def percent(self, weight: float) -> Text:
        """A weight as it is shown, which is never cut."""
        text = percent(weight)
        return Text(text.replace("−", "-") if self.plain else text)

    @property
    def arrow(self) -> str:
        """What stands between two tokens of a line."""
        return "->" if self.plain else "→"


STEPS = 256  # of shades, as many as there are colours: a map has many cells of each


@cache
def _shaded(step: int, on_light: bool) -> Style:
    return _on(_rgb(step, on_light))


@cache
def _signed(step: int, on_light: bool) -> Style:
    red, green, blue = colours.signed(step / STEPS, on_dark=not on_light)
    return _on((int(red), int(green), int(blue)))


@cache
def _halves(upper: int, lower: int, on_light: bool) -> Style:
    above, below = (Color.from_rgb(*_rgb(step, on_light)) for step in (upper, lower))
    return Style(color=above, bgcolor=below)


def _rgb(step: int, on_light: bool) -> tuple[int, int, int]:
    red, green, blue = (colours.light if on_light else colours.dark)(step / STEPS)
    return int(red), int(green), int(blue)


def _on(rgb: tuple[int, int, int]) -> Style:
    """Letters that can be read on a colour."""
    ink = "#ffffff" if colours.is_dim(rgb) else "#101010"
    return Style(color=ink, bgcolor=Color.from_rgb(*rgb))


def padded(text: str, width: int, align: str = "right") -> str:
    """A text with blanks, as many cells wide as said."""
    blank = " " * max(0, width - cell_len(text))
    if align == "center":
        half = len(blank) // 2
        return blank[:half] + text + blank[half:]
    return blank + text if align == "right" else text + blank
