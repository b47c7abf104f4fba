"""Views in the terminal, drawn by rich: as wide as the terminal is, with or without colour.

`render(scene, state)` gives a value that rich can print. When it is printed, a `TerminalStyle` is
made from the console (style.py), the kind's own `draw_<kind>` yields lines and tables, built from
the pieces of layout.py, and the caption follows below. Findings are a list instead (findings.py).
"""

from regard.views.terminal.drawing import render

__all__ = ["render"]
