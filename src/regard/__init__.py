"""See where any model looks: build, watch, see and check attention.

Names are loaded when they are first used, so that `import regard` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard._version import __version__

if TYPE_CHECKING:
    from regard import attention, errors, masks, types
    from regard.attention import (
        Choice,
        Explanation,
        Mechanism,
        MultiHeadAttention,
        PositionalEncoding,
        SingleHeadAttention,
        attend,
        catalog,
        choose,
        explain,
        weights,
    )
    from regard.errors import RegardError
    from regard.kernels.taps import register_tap
    from regard.storage import load_trace, save_trace
    from regard.tracing import watch
    from regard.types import Trace

__all__ = [
    "Choice",
    "Explanation",
    "Mechanism",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RegardError",
    "SingleHeadAttention",
    "Trace",
    "__version__",
    "attend",
    "attention",
    "catalog",
    "choose",
    "errors",
    "explain",
    "load_trace",
    "masks",
    "register_tap",
    "save_trace",
    "types",
    "watch",
    "weights",
]

_ROOMS = {
    "RegardError": "regard.errors",
    "Trace": "regard.types",
    "watch": "regard.tracing",
    "load_trace": "regard.storage",
    "register_tap": "regard.kernels.taps",
    "save_trace": "regard.storage",
}
_MODULES = ("attention", "errors", "masks", "types")


def __getattr__(name: str) -> Any:
    """Load a name of the public surface on its first use."""
    if name in _MODULES:
        return import_module(f"regard.{name}")
    if name in __all__:
        return getattr(import_module(_ROOMS.get(name, "regard.attention")), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
