"""Every head of every site as a small map, in one overview."""

from regard.views.kind import ViewKind

KIND = ViewKind("heads", order=1)
