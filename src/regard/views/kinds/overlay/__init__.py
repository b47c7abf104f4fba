"""The attention that image patches received, laid over the image."""

from regard.views.kind import ViewKind

KIND = ViewKind("overlay", order=5, needs_image=True, in_findings=False)
