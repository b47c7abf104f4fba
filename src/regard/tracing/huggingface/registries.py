"""Enters the mask and attention registries of transformers, for the threads that watch only."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from torch import Tensor

from regard.tracing.huggingface.eager_attention import describe_when_called
from regard.tracing.huggingface.mask_functions import make_lazily
from regard.tracing.readable import are_readable

Undo = Callable[[], None]


class _OpenBlocks:
    """How many watch blocks are open that a thread has entered."""

    count = 0


class _ThreadBlocks(threading.local):
    """The open blocks of the calling thread."""

    def __init__(self) -> None:
        self.open = _OpenBlocks()


class RegistryPatches:
    """The functions that are replaced while any thread watches, and which threads do.

    The registries belong to the process, so all watching threads share one replacement; the
    stand-ins themselves ask whether the calling thread watches.
    """

    def __init__(self) -> None:
        self._lock, self._thread = threading.Lock(), _ThreadBlocks()
        self._watchers = 0
        self._undo: dict[str, list[Undo]] = {}

    @property
    def thread_watches(self) -> bool:
        """True if the calling thread is inside a watch block."""
        return self._thread.open.count > 0

    def enter(self) -> _OpenBlocks:
        """Count one more watcher, and replace what of transformers is loaded by now.

        Returns what `leave` takes, because another thread may be the one that leaves.
        """
        with self._lock:
            self._watchers += 1
            for name, patch in (
                ("masking_utils", _patch_masks),
                ("modeling_utils", _patch_attention),
            ):
                module = sys.modules.get(f"transformers.{name}")
                if module is not None and name not in self._undo:
                    self._undo[name] = list(patch(module))
            self._thread.open.count += 1
        return self._thread.open

    def leave(self, blocks: _OpenBlocks) -> None:
        """Count one watcher less; after the last one everything is as it was."""
        with self._lock:
            blocks.count -= 1
            self._watchers -= 1
            if not self._watchers:
                for undo in (undo for undos in self._undo.values() for undo in undos):
                    undo()
                self._undo.clear()


_patches = RegistryPatches()


@contextmanager
def watch_registries() -> Iterator[None]:
    """While the block runs, models of this thread get lazy masks and describable attention.

    Nothing happens where transformers is not loaded or has no such registries.
    """
    blocks = _patches.enter()
    try:
        yield
    finally:
        _patches.leave(blocks)


def _patch_masks(module: ModuleType) -> Iterator[Undo]:
    """Replace the functions that make dense masks, under every name they are registered by."""
    registry = getattr(module, "ALL_MASK_ATTENTION_FUNCTIONS", None)
    dense = [getattr(module, name, None) for name in ("sdpa_mask", "eager_mask")]
    for mapping in (
        getattr(registry, "_global_mapping", {}),
        getattr(registry, "_local_mapping", {}),
    ):
        for name, function in list(mapping.items()):
            if any(function is known for known in dense):
                yield _replace_entry(mapping, name, _lazy_for_watchers(function))


def _lazy_for_watchers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The mask function, whose masks are lazy in threads that watch."""

    @wraps(function)
    def make_mask(*args: Any, **kwargs: Any) -> Tensor | None:
        padding = kwargs.get("attention_mask")
        tensors = [padding] if isinstance(padding, Tensor) else []
        if args or not _patches.thread_watches or not are_readable(tensors):
            return function(*args, **kwargs)  # type: ignore[no-any-return]
        return make_lazily(function, kwargs)

    return make_mask


def _replace_entry(mapping: dict[str, Any], name: str, stand_in: Callable[..., Any]) -> Undo:
    """Put a stand-in into a registry, and return the function that takes it out again."""
    original = mapping[name]
    mapping[name] = stand_in

    def undo() -> None:
        if mapping.get(name) is stand_in:  # else another function was registered meanwhile
            mapping[name] = original

    return undo


def _patch_attention(module: ModuleType) -> Iterator[Undo]:
    """Replace the lookup of attention functions, whose default is the model's own plain form."""
    registry: Any = getattr(module, "AttentionInterface", None)
    find = vars(registry).get("get_interface") if registry is not None else None
    if find is None:
        return

    @wraps(find)
    def find_for_watchers(self: Any, name: Any, default: Any) -> Any:
        function = find(self, name, default)
        if function is default and _patches.thread_watches:
            return describe_when_called(function)
        return function

    registry.get_interface = find_for_watchers

    def undo() -> None:
        if vars(registry).get("get_interface") is find_for_watchers:
            registry.get_interface = find

    yield undo
