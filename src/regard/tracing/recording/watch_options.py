"""What a caller wants of a watcher, as one value."""

from dataclasses import dataclass, field

from regard.kernels.observe import ObserveOptions
from regard.tracing.recording.editor import Editor
from regard.tracing.recording.options import Keep
from regard.tracing.recording.site_choice import Choice


@dataclass(frozen=True, eq=False)
class Wishes:
    """Which numbers of each row, at which sites, what to keep, what to change, and how to look.

    `beside` lets the model's own operations run and observes beside them, bit for bit.
    """

    what: ObserveOptions
    choice: Choice = field(default_factory=lambda: Choice.of(None))
    keep: Keep = field(default_factory=Keep)
    editor: Editor = field(default_factory=lambda: Editor(None))
    beside: bool = False
