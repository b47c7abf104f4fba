"""See where any model looks: build, watch, see and check attention.

Names are loaded when they are first used, so that `import regard` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard._version import __version__

if TYPE_CHECKING:
    from regard import (
        attention,
        attribution,
        diagnosis,
        errors,
        loading,
        masks,
        measures,
        models,
        studies,
        types,
    )
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
    from regard.diagnosis import diagnose
    from regard.errors import RegardError
    from regard.kernels.observe.taps import register_tap
    from regard.loading import LoadedModel, load
    from regard.models import Transformer, from_pretrained
    from regard.models.text_explanation import TextExplanation, explain_text
    from regard.storage import load_trace, save_trace
    from regard.tasks import answer, classify, recognise, summarise, transcribe, translate
    from regard.tracing import Keep, capture, watch
    from regard.training.train import train
    from regard.types import Finding, TaskResult, Trace
    from regard.views import View, compare, flow, heads, heatmap, highlight, overlay, report, view

__all__ = [
    "Choice",
    "Explanation",
    "Finding",
    "Keep",
    "LoadedModel",
    "Mechanism",
    "MultiHeadAttention",
    "PositionalEncoding",
    "RegardError",
    "SingleHeadAttention",
    "TaskResult",
    "TextExplanation",
    "Trace",
    "Transformer",
    "View",
    "__version__",
    "answer",
    "attend",
    "attention",
    "attribution",
    "capture",
    "catalog",
    "choose",
    "classify",
    "compare",
    "diagnose",
    "diagnosis",
    "errors",
    "explain",
    "explain_text",
    "flow",
    "from_pretrained",
    "heads",
    "heatmap",
    "highlight",
    "load",
    "load_trace",
    "loading",
    "masks",
    "measures",
    "models",
    "overlay",
    "recognise",
    "register_tap",
    "report",
    "save_trace",
    "studies",
    "summarise",
    "train",
    "transcribe",
    "translate",
    "types",
    "view",
    "watch",
    "weights",
]

_ROOMS = {
    "Keep": "regard.tracing",
    "RegardError": "regard.errors",
    "Finding": "regard.types",
    "TaskResult": "regard.types",
    "Trace": "regard.types",
    "diagnose": "regard.diagnosis",
    "Transformer": "regard.models",
    "answer": "regard.tasks",
    "capture": "regard.tracing",
    "classify": "regard.tasks",
    "watch": "regard.tracing",
    "LoadedModel": "regard.loading",
    "load": "regard.loading",
    "load_trace": "regard.storage",
    "TextExplanation": "regard.models.text_explanation",
    "explain_text": "regard.models.text_explanation",
    "from_pretrained": "regard.models",
    "register_tap": "regard.kernels.observe.taps",
    "save_trace": "regard.storage",
    "recognise": "regard.tasks",
    "train": "regard.training.train",
    "summarise": "regard.tasks",
    "transcribe": "regard.tasks",
    "translate": "regard.tasks",
    "View": "regard.views",
    "compare": "regard.views",
    "flow": "regard.views",
    "heads": "regard.views",
    "heatmap": "regard.views",
    "highlight": "regard.views",
    "overlay": "regard.views",
    "report": "regard.views",
    "view": "regard.views",
}
_MODULES = (
    "attention",
    "attribution",
    "diagnosis",
    "errors",
    "loading",
    "masks",
    "measures",
    "models",
    "studies",
    "types",
)


def __getattr__(name: str) -> Any:
    """Load a name of the public surface on its first use."""
    if name in _MODULES:
        return import_module(f"regard.{name}")
    if name in __all__:
        return getattr(import_module(_ROOMS.get(name, "regard.attention")), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
