"""Views as figures for paper: PNG, SVG and PDF by matplotlib."""

from regard.views.figure.writing import draw, write

__all__ = ["draw", "write"]
