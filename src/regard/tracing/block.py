"""One block in which a model is watched: all that is entered for it, and left again."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from regard.tracing.huggingface.registries import watch_registries
from regard.tracing.nested import as_if_nested
from regard.tracing.recording.watch_options import WatchOptions
from regard.tracing.sites import Sites
from regard.tracing.uncompiled import uncompiled
from regard.tracing.watcher import Watcher


@contextmanager
def watching(model: nn.Module, wishes: WatchOptions) -> Iterator[Watcher]:
    """The watcher of a model while the block runs; its calls are there afterwards."""
    sites = Sites(model)
    watcher = Watcher(sites, wishes)
    with ExitStack() as stack:
        stack.enter_context(uncompiled())
        stack.enter_context(watch_registries())
        stack.enter_context(as_if_nested(sites.encoders))
        stack.enter_context(sites)
        stack.enter_context(watcher)
        yield watcher
