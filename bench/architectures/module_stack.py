"""Which module of a model is running, by global forward hooks."""

from typing import Any

from torch import nn
from torch.nn.modules import module as hooks

__all__ = ["ModuleStack"]


class ModuleStack:
    """The paths of the modules whose `forward` runs, innermost last.

    A module that is not part of the model is named by its class below the module that calls it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(module): name for name, module in model.named_modules()}
        self._root = type(model).__name__
        self._running: list[str] = []
        self._handles: list[Any] = []

    @property
    def site(self) -> str:
        """The path of the innermost module that runs; the class of the model for itself."""
        return (self._running[-1] if self._running else "") or self._root

    def open(self) -> None:
        """Begin to follow modules."""
        self._running.clear()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: nn.Module, _: Any) -> None:
        """Put a module on the stack."""
        above = self._running[-1] if self._running else ""
        self._running.append(self._names.get(id(module), f"{above}.{type(module).__name__}"))

    def _leave(self, *_: Any) -> None:
        """Take the innermost module off the stack."""
        if self._running:
            self._running.pop()
