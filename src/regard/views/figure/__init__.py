"""Views as figures for paper: PNG, SVG and PDF by matplotlib.

`write(scene, state, path)` asks the kind for its numbers, makes a `Canvas` as wide as a column of a
paper (canvas.py), lets the kind's `draw_<kind>` draw on it, and puts the caption below. Maps are
drawn with map_panel.py; fonts.py finds a font for every character and embeds it into SVG files.
"""

from regard.views.figure.drawing import draw, write

__all__ = ["draw", "write"]
