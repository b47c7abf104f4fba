"""Facts that every model's configuration states, each library under its own key.

Here `config` is the configuration object of a model (ours or one of transformers) or the content
of a config.json file as a dict.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

__all__ = ["architecture_name", "context_length", "exceeds_context"]

# The names that configurations give to the number of positions the model was built for.
_CONTEXT_KEYS = ("max_positions", "max_position_embeddings", "n_positions", "max_target_positions")
# Tokenizers of transformers that know no limit report 10**30.
_NO_LIMIT = 1 << 30


def context_length(config: Any, tokenizer: Any = None) -> int | None:
    """The largest number of tokens that the model reads at once; None if nothing states it.

    It is the smallest of the limits in the configuration (or, where that has none, in its part
    about text) and in the tokenizer.

    >>> from regard.configs import context_length
    >>> context_length({"n_positions": 1024})
    1024
    >>> context_length({"text_config": {"max_position_embeddings": 77}})
    77
    """
    limits = _limits(config, _CONTEXT_KEYS) or _limits(_text_config(config), _CONTEXT_KEYS)
    return min(limits + _limits(tokenizer, ("model_max_length",)), default=None)


def architecture_name(config: Mapping[str, Any], default: str) -> str:
    """The first of the architectures that a config.json of transformers names, or the default.

    >>> from regard.configs import architecture_name
    >>> architecture_name({"architectures": ["BertModel"]}, "?")
    'BertModel'
    """
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else default
    return first if isinstance(first, str) else default


def exceeds_context(name: str, count: int, longest: int | None, remedy: str) -> str | None:
    """The sentence that says that a model reads more tokens than its context; None if it does not.

    The command line refuses such a text, and `capture` warns of it, both in these words.

    >>> from regard.configs import exceeds_context
    >>> exceeds_context("stories", 600, 512, "cut the text")
    'stories expected at most 512 tokens, its context, got 600; cut the text'
    """
    if longest is None or count <= longest:
        return None
    return f"{name} expected at most {longest:,} tokens, its context, got {count:,}; {remedy}"


def _limits(settings: Any, keys: tuple[str, ...]) -> list[int]:
    """The values of these keys that are real limits."""
    values = [_value(settings, key) for key in keys]
    return [value for value in values if isinstance(value, int) and 0 < value < _NO_LIMIT]


def _text_config(config: Any) -> Any:
    """The part about text of the configuration of a model that also reads images or sounds."""
    if hasattr(config, "get_text_config"):
        with suppress(ValueError):  # transformers finds several parts about text
            return config.get_text_config()
    return _value(config, "text_config")


def _value(settings: Any, key: str) -> Any:
    return settings.get(key) if isinstance(settings, Mapping) else getattr(settings, key, None)
