"""What is declared of a model: by the caller, by its config, or by its own modules.

Whether attention ought to be causal is read here and nowhere guessed from what it did.
"""

from collections.abc import Mapping
from typing import Any, Literal

from regard.tracing.sites import find_module

Expectation = Literal["causal", "hard", "partial"]

_WRITERS = ("ForCausalLM", "LMHeadModel")
_MECHANISMS: Mapping[Expectation, tuple[str, ...]] = {
    "hard": ("hard", "straight-through"),
    "partial": ("local-p",),  # a Gaussian after the softmax (Luong et al. 2015, eq. 10)
}


def by_mechanism(config: Any, expectation: Expectation) -> bool:
    """Whether the mechanism that a config of ours names is meant to be so."""
    names = str(getattr(config, "attention", "")).split(" + ")
    return any(each in names for each in _MECHANISMS[expectation])


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
