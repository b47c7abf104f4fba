"""What is declared of a model: by the caller, by its config, or by its own modules.

Whether attention ought to be causal is read here and nowhere guessed from what it did.
"""

from typing import Any, Literal

from regard.tracing.sites import find_module

Expectation = Literal["causal", "hard", "partial"]

_WRITERS = ("ForCausalLM", "LMHeadModel")
# What weights may sum to, from the strictest to the loosest, as a module declares in `row_sum`.
_ROW_SUMS = ("one", "at most one", "any")


def declared_row_sum(model: Any) -> str:
    """The loosest `row_sum` that a module of the model declares: "one", "at most one" or "any".

    Our mechanisms declare it (`regard.attention.Normalizer`), and any other module may.
    """
    sums = _declared(model, "row_sum")
    return max((each for each in sums if each in _ROW_SUMS), key=_ROW_SUMS.index, default="one")


def declares(model: Any, expectation: Expectation) -> bool:
    """True if a module of the model declares attention that is meant to be so."""
    if expectation == "hard":
        return any(value is True for value in _declared(model, "one_hot"))
    return expectation == "partial" and declared_row_sum(model) != "one"


def _declared(model: Any, name: str) -> list[Any]:
    """The values of an attribute in those modules of the model that have it."""
    modules = model.modules() if hasattr(model, "modules") else ()
    return [getattr(module, name) for module in modules if hasattr(module, name)]


def writes_alone(model: Any) -> str | None:
    """What declares that all of a model is a decoder, None where nothing does."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return None
    if getattr(config, "kind", None) == "decoder":
        return "config.kind"
    if getattr(config, "is_decoder", False):
        return "config.is_decoder"
    name = type(model).__name__
    return name if name.endswith(_WRITERS) else None


def causal_module(model: Any, site: str) -> bool | None:
    """What the attention module itself says of being causal; None where it says nothing."""
    if model is None:
        return None
    path = site.partition("#")[0].partition("@")[0]
    try:
        said = getattr(find_module(model, path), "is_causal", None)
    except AttributeError:  # a site that is no module of the model
        return None
    return said if isinstance(said, bool) else None
