"""The attention and mask registries of transformers, for the threads that watch and no others."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from torch import Tensor

from regard.tracing.huggingface.eager_attention import interface
from regard.tracing.huggingface.mask_functions import lazily

Undo = Callable[[], None]


class Replaced:
    """What is replaced while anybody watches, and who does."""

    def __init__(self) -> None:
        self._lock, self._here = threading.Lock(), threading.local()
        self._watchers = 0
        self._undo: dict[str, list[Undo]] = {}

    @property
    def watching(self) -> bool:
        """Whether this thread watches."""
        return getattr(self._here, "depth", 0) > 0

    def enter(self) -> None:
        """One more watcher; what is known of transformers by now is replaced."""
        with self._lock:
            self._watchers += 1
            for name, replace in (("masking_utils", _masks), ("modeling_utils", _attentions)):
                module = sys.modules.get(f"transformers.{name}")
                if module is not None and name not in self._undo:
                    self._undo[name] = list(replace(module))
        self._here.depth = getattr(self._here, "depth", 0) + 1

    def leave(self) -> None:
        """One watcher less; with the last one everything is as it was."""
        self._here.depth -= 1
        with self._lock:
            self._watchers -= 1
            if not self._watchers:
                for undo in (each for undos in self._undo.values() for each in undos):
                    undo()
                self._undo.clear()


_replaced = Replaced()


@contextmanager
def registries() -> Iterator[None]:
    """While the block runs, this thread's models get masks that stay descriptions.

    Attention that a model does in its own plain way is described as one call. transformers is
    used if it is there and has such registries; it is never imported.
    """
    _replaced.enter()
    try:
        yield
    finally:
        _replaced.leave()


def _masks(module: ModuleType) -> Iterator[Undo]:
    """Replace the functions that make dense masks, under whatever name they are registered."""
    registry = getattr(module, "ALL_MASK_ATTENTION_FUNCTIONS", None)
    dense = [getattr(module, name, None) for name in ("sdpa_mask", "eager_mask")]
    for mapping in (
        getattr(registry, "_global_mapping", {}),
        getattr(registry, "_local_mapping", {}),
    ):
        for key, function in list(mapping.items()):
            if any(function is each for each in dense):
                yield _put(mapping, key, _mask_for_watchers(function))


def _mask_for_watchers(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def mask(*args: Any, **kwargs: Any) -> Tensor | None:
        if args or not _replaced.watching:
            return function(*args, **kwargs)  # type: ignore[no-any-return]
        return lazily(function, kwargs)

    return mask


def _put(mapping: dict[str, Any], key: str, stand_in: Callable[..., Any]) -> Undo:
    own = mapping[key]
    mapping[key] = stand_in

    def undo() -> None:
        if mapping.get(key) is stand_in:  # else somebody has registered another meanwhile
            mapping[key] = own

    return undo


def _attentions(module: ModuleType) -> Iterator[Undo]:
    """Replace how a model finds its attention: its own plain form is the default there."""
    registry: Any = getattr(module, "AttentionInterface", None)
    find = vars(registry).get("get_interface") if registry is not None else None
    if find is None:
        return

    @wraps(find)
    def find_for_watchers(self: Any, name: Any, default: Any) -> Any:
        found = find(self, name, default)
        return interface(found) if found is default and _replaced.watching else found

    registry.get_interface = find_for_watchers

    def undo() -> None:
        if vars(registry).get("get_interface") is find_for_watchers:
            registry.get_interface = find

    yield undo
