"""Two maps side by side with their difference."""

from regard.views.kind import ViewKind

KIND = ViewKind("compare", order=6, traces=2, in_findings=False, in_command_line=False)
