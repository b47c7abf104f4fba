"""The settings of a generation: one frozen value, read from generation_config.json."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, Literal, get_type_hints

from regard.documents import check_value, parse_json, quote_value
from regard.errors import FileError, InputError, UnknownNameError

Tokens = tuple[int, ...]

_MAXIMUM_LENGTHS = ("max_length", "max_new_tokens")
_MOST_TOKENS = 1 << 31  # no text is that long; a larger number may not fit into a tensor
_MINIMUM = {
    "max_length": 1,
    "max_new_tokens": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "top_k": 0,
    "no_repeat_ngram_size": 0,
}
_TUPLES = {
    "eos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "stop_strings",
}
# Options of transformers that change nothing here: what they ask for is always the case.
_ACCEPTED = {"return_dict_in_generate", "output_scores", "use_cache"}
_FOR_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
# Settings whose own check says more than their type.
_CHECKED_BY_VALUE = {
    *_MINIMUM,
    "early_stopping",
    "length_penalty",
    "min_p",
    "repetition_penalty",
    "temperature",
    "top_p",
}


@dataclass(frozen=True, kw_only=True)
class GenerationSettings:
    """The options of `generate`, with the names that a generation_config.json has for them.

    `max_length` counts the prompt, `max_new_tokens` does not; without both, 20 new tokens.
    Sampling draws from the 50 likeliest tokens unless `top_k` says otherwise, 0 being all.
    The score of a sequence is its log-probability / length ** length_penalty. `early_stopping`
    True stops a sentence as soon as it has `num_beams` finished hypotheses, "never" only when no
    better one is possible, False (the default) when none is likely.

    >>> from regard.models.generation import GenerationSettings
    >>> GenerationSettings(num_beams=5).replace(length_penalty=0.6).num_beams
    5
    """

    max_length: int | None = None
    max_new_tokens: int | None = None
    min_length: int = 0
    min_new_tokens: int = 0
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    num_return_sequences: int = 1
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[Tokens, ...] = ()
    suppress_tokens: Tokens = ()
    begin_suppress_tokens: Tokens = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: Tokens = ()
    stop_strings: tuple[str, ...] = ()
    decoder_start_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: Tokens = ()
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        _check_types(self, exempt=_CHECKED_BY_VALUE)
        _check(self)
        _check_types(self)

    def replace(self, **changes: Any) -> "GenerationSettings":
        """A copy with some settings changed.

        Where several ids are possible, one id or a list of them may be given. None stands for the
        default value. One of max_length and max_new_tokens replaces the other.
        """
        known = [field.name for field in fields(self)]
        changes = {name: value for name, value in changes.items() if name not in _ACCEPTED}
        for name in changes:
            if name not in known:
                raise UnknownNameError("setting", name, known)
        if all(changes.get(name) is not None for name in _MAXIMUM_LENGTHS):
            raise InputError("give max_length or max_new_tokens, not both")
        if any(changes.get(name) is not None for name in _MAXIMUM_LENGTHS):
            changes = dict.fromkeys(_MAXIMUM_LENGTHS) | changes
        defaults: dict[str, Any] = {field.name: field.default for field in fields(self)}
        values = {
            name: defaults[name] if value is None else _normalise(name, value)
            for name, value in changes.items()
        }
        settings = replace(self, **values)
        for name in _FOR_SAMPLING:
            if not settings.do_sample and values.get(name, defaults[name]) != defaults[name]:
                raise InputError(f"{name} is for sampling; add do_sample=True or leave it out")
        return settings

    @staticmethod
    def from_json(text: str) -> "GenerationSettings":
        """The settings of a generation_config.json, given as text; unknown keys are ignored."""
        try:
            record = parse_json(text, "the text of the generation settings")
        except InputError as error:
            raise FileError(str(error)) from None
        return GenerationSettings.from_record(record)

    @staticmethod
    def from_record(record: Any) -> "GenerationSettings":
        """The settings of a parsed generation_config.json; unknown keys are ignored."""
        if not isinstance(record, Mapping):
            kind = type(record).__name__
            raise FileError(f"the generation settings should be a JSON object, got {kind}")
        known = {field.name for field in fields(GenerationSettings)}
        return GenerationSettings(
            **{
                name: _normalise(name, value)
                for name, value in record.items()
                if name in known and value is not None
            }
        )

    def to_json(self) -> str:
        """The settings that differ from the defaults, as the text of a generation_config.json."""
        changed = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        return json.dumps(changed, ensure_ascii=False, indent=2) + "\n"


def _normalise(name: str, value: Any) -> Any:
    """The value of a setting: a tuple if it can hold several values, a maximum that fits."""
    if name in _MAXIMUM_LENGTHS and isinstance(value, int) and not isinstance(value, bool):
        return min(value, _MOST_TOKENS)
    if name == "bad_words_ids":
        return tuple(map(_items, _items(value)))
    return _items(value) if name in _TUPLES else value


def _items(value: Any) -> tuple[Any, ...]:
    """The items of a list or another iterable; a single value is the only item."""
    single = isinstance(value, str | Mapping) or not isinstance(value, Iterable)
    return (value,) if single else tuple(value)


def _check_types(settings: GenerationSettings, exempt: Collection[str] = ()) -> None:
    """Raise an InputError for the first setting whose value has not the type of its hint."""
    for name, hint in get_type_hints(GenerationSettings).items():
        if name not in exempt:
            check_value("generation", name, getattr(settings, name), hint)


def _check(settings: GenerationSettings) -> None:
    """Raise an InputError for the first setting whose value is not possible."""
    for name, least in _MINIMUM.items():
        value = getattr(settings, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            raise InputError(
                f"{name} should be a whole number from {least}, got {quote_value(value)}"
            )
    _check_sampling(settings)
    penalty, early = settings.repetition_penalty, settings.early_stopping
    if not _within(penalty, 0):
        raise InputError(f"repetition_penalty should be more than 0, got {penalty!r}; 1 is none")
    if not _within(settings.length_penalty, -inf):
        raise InputError(f"length_penalty should be a number, got {settings.length_penalty!r}")
    if early not in (True, False, "never"):
        raise InputError(f'early_stopping should be True, False or "never", got {early!r}')
    for name in ("stop_strings", "bad_words_ids"):
        if not all(getattr(settings, name)):
            raise InputError(f"one of {name} is empty; leave it out")


def _check_sampling(settings: GenerationSettings) -> None:
    """Raise an InputError for an impossible temperature, top_p or min_p."""
    if settings.do_sample and not _within(settings.temperature, 0):
        raise InputError(
            f"temperature should be more than 0, got {settings.temperature!r}; "
            "for the likeliest token at every step leave out do_sample"
        )
    if not _within(settings.top_p, 0, 1):
        raise InputError(f"top_p should be more than 0 and at most 1, got {settings.top_p!r}")
    if settings.min_p != 0 and not _within(settings.min_p, 0, 1):
        raise InputError(f"min_p should be from 0 to 1, got {settings.min_p!r}")


def _within(value: object, low: float, high: float = inf) -> bool:
    """True for a finite number above `low` and at most `high`."""
    try:
        return isinstance(value, (int, float)) and isfinite(value) and low < value <= high
    except OverflowError:  # a whole number that is larger than any float
        return False
