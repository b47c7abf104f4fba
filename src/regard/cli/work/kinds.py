"""What a model of ours is for, by what it has and by what its config says."""

import inspect
from typing import Any


def kind_of(model: Any) -> str | None:
    """The kind of a Transformer: encoder-decoder, decoder, encoder or vision; of others, None."""
    return getattr(getattr(model, "config", None), "kind", None)


def sees(model: Any) -> bool:
    """Whether it looks at pictures."""
    taken = inspect.signature(getattr(model, "forward", sees)).parameters
    return kind_of(model) == "vision" or (kind_of(model) is None and "pixel_values" in taken)


def writes(model: Any) -> bool:
    """Whether it writes token by token; a Transformer needs a decoder and an output layer."""
    ending = getattr(getattr(model, "config", None), "ending", None)
    whole = kind_of(model) in (None, "encoder-decoder", "decoder") and ending in (None, "language")
    return whole and hasattr(model, "step")
