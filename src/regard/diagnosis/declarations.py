"""What a model declares about its attention, in its config or in its modules.

Whether attention should be causal is read from declarations only, never guessed from its weights.
"""

from typing import Any, Literal

from regard.tracing.sites import find_module

Expectation = Literal["causal", "hard", "partial"]

_DECODER_CLASSES = ("ForCausalLM", "LMHeadModel")  # endings of class names
# What weights may sum to, from the strictest to the loosest, as a module declares in `row_sum`.
_ROW_SUMS = ("one", "at most one", "any")


def declared_row_sum(model: Any) -> str:
    """The loosest `row_sum` that a module of the model declares: "one", "at most one" or "any".

    Our mechanisms declare it (`regard.attention.Normalizer`), and any other module may.
    """
    sums = _attribute_values(model, "row_sum")
    return max(
        (row_sum for row_sum in sums if row_sum in _ROW_SUMS), key=_ROW_SUMS.index, default="one"
    )


def declares(model: Any, expectation: Expectation) -> bool:
    """True if a module of the model declares one-hot rows ("hard") or partial sums ("partial")."""
    if expectation == "hard":
        return any(value is True for value in _attribute_values(model, "one_hot"))
    return expectation == "partial" and declared_row_sum(model) != "one"


def _attribute_values(model: Any, name: str) -> list[Any]:
    """The values of an attribute in those modules of the model that have it."""
    modules = model.modules() if hasattr(model, "modules") else ()
    return [getattr(module, name) for module in modules if hasattr(module, name)]


def writes_alone(model: Any) -> str | None:
    """The declaration that all of a model is a decoder, such as "config.kind"; None without it."""
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return None
    if getattr(config, "kind", None) == "decoder":
        return "config.kind"
    if getattr(config, "is_decoder", False):
        return "config.is_decoder"
    name = type(model).__name__
    return name if name.endswith(_DECODER_CLASSES) else None


def causal_module(model: Any, site: str) -> bool | None:
    """The attribute `is_causal` of the attention module at a site; None if it has none."""
    if model is None:
        return None
    path = site.partition("#")[0].partition("@")[0]
    try:
        declared = getattr(find_module(model, path), "is_causal", None)
    except AttributeError:  # the site is not a module of the model
        return None
    return declared if isinstance(declared, bool) else None
