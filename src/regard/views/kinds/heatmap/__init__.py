"""Queries x keys of one head as coloured cells; the usual picture of a trace."""

from regard.views.kind import ViewKind

KIND = ViewKind("heatmap", order=2)
