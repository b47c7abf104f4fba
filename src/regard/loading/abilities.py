"""What a model can do: read texts or pictures, write, classify; known from its class and config."""

import inspect
from typing import Any, NamedTuple

__all__ = [
    "Abilities",
    "abilities_of_native_model",
    "abilities_of_transformers_model",
    "has_independent_labels",
    "label_names",
]

# What models of transformers call the input of sounds: spectrograms, or the wave itself.
_AUDIO_INPUTS = ("input_features", "input_values")


class Abilities(NamedTuple):
    """What a model is for.

    A model that `translates` writes a text about another input, its source; one that `continues`
    goes on with the text it is given; one that `classifies` gives a label, one that `answers`
    finds the answer to a question in a text, and one that `matches` says how well an entry of a
    knowledge base answers a question. It `sees` if its input is a picture, and `hears` if
    its input is a sound.
    """

    translates: bool
    continues: bool
    classifies: bool
    sees: bool
    hears: bool = False
    answers: bool = False
    matches: bool = False


def abilities_of_native_model(model: Any) -> Abilities:
    """What a model of one of regard's own classes can do."""
    writes = writes_text(model)
    return Abilities(
        translates=writes and model.reads_source,
        continues=writes and not model.reads_source,
        classifies=_head(model) == "classes" or hasattr(getattr(model, "config", None), "classes"),
        sees=reads_pictures(model),
        answers=_head(model) == "spans",
        matches=_head(model) == "match",
    )


def abilities_of_transformers_model(model: Any) -> Abilities:
    """What a model of the package transformers can do."""
    writes = bool(getattr(model, "can_generate", bool)())
    has_encoder = bool(getattr(model.config, "is_encoder_decoder", False))
    return Abilities(
        translates=writes and has_encoder,
        continues=writes and not has_encoder,
        classifies=type(model).__name__.endswith("Classification"),
        sees=model.main_input_name == "pixel_values",
        hears=model.main_input_name in _AUDIO_INPUTS,
        answers="ForQuestionAnswering" in type(model).__name__,
    )


def label_names(model: Any) -> tuple[str, ...]:
    """The names of the classes that a model gives, in the order of its logits; () if it has none.

    Without names of its own a model's classes are LABEL_0, LABEL_1, ..., as transformers has it.
    """
    config = getattr(model, "config", None)
    own = getattr(config, "label_names", None) or getattr(config, "id2label", None)
    if isinstance(own, dict):
        return tuple(str(own[index]) for index in sorted(own))
    if own:
        return tuple(own)
    count: int = getattr(config, "labels" if _head(model) == "classes" else "classes", 0)
    return tuple(f"LABEL_{index}" for index in range(count))


def has_independent_labels(model: Any) -> bool:
    """True if an input may have several labels, each with a probability of its own."""
    config = getattr(model, "config", None)
    multi_label = getattr(config, "problem_type", None) == "multi_label_classification"
    return multi_label or getattr(config, "multi_label", False) is True


def transformer_kind(model: Any) -> str | None:
    """The kind of a Transformer: encoder-decoder, decoder, encoder or vision; None for others."""
    return getattr(getattr(model, "config", None), "kind", None)


def reads_pictures(model: Any) -> bool:
    """True if a native model takes pixels instead of tokens."""
    kind = transformer_kind(model)
    parameters = inspect.signature(getattr(model, "forward", reads_pictures)).parameters
    # every Transformer can take pixels; only one of kind "vision" is built for them
    return kind == "vision" or (kind is None and "pixel_values" in parameters)


def writes_text(model: Any) -> bool:
    """True if a native model generates token by token.

    A Transformer needs a decoder and an output layer over the vocabulary for that.
    """
    has_decoder = transformer_kind(model) in (None, "encoder-decoder", "decoder")
    return has_decoder and _head(model) in (None, "language") and hasattr(model, "step")


def _head(model: Any) -> str | None:
    """The output layer of a Transformer: language, classes, spans or none; None for others."""
    head: str | None = getattr(getattr(model, "config", None), "ending", None)
    return head
