"""Attention made visible: a view is data, and page, notebook, figure and terminal draw it."""

from regard.views.functions import compare, flow, heads, heatmap, highlight, overlay
from regard.views.report import report
from regard.views.scene import Scene
from regard.views.state import Place, State
from regard.views.view import View

__all__ = [
    "Place",
    "Scene",
    "State",
    "View",
    "compare",
    "flow",
    "heads",
    "heatmap",
    "highlight",
    "overlay",
    "report",
]
