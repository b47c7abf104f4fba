"""Views in the terminal, drawn by rich: as wide as it is, with or without colour."""

from regard.views.terminal.drawing import render

__all__ = ["render"]
