"""What a caller wants of a watcher, as one value."""

from dataclasses import dataclass, field

from regard.kernels.observe import ObserveOptions
from regard.tracing.recording.editor import Editor
from regard.tracing.recording.options import Keep
from regard.tracing.recording.site_choice import SiteChoice


@dataclass(frozen=True, eq=False)
class WatchOptions:
    """Which numbers of each row, at which sites, what to keep, what to change, and how to look.

    `beside` lets the model's own operations run and observes beside them, bit for bit.
    """

    what: ObserveOptions
    choice: SiteChoice = field(default_factory=lambda: SiteChoice.of(None))
    keep: Keep = field(default_factory=Keep)
    editor: Editor = field(default_factory=lambda: Editor(None))
    beside: bool = False
