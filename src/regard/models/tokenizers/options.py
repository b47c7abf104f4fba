"""How texts are to be encoded: the keywords of a tokenizer's call, as one value."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from regard.errors import InputError, UnknownNameError

_PADDING = (False, True, "longest", "max_length", "do_not_pad")
_TRUNCATION = (False, True, "longest_first", "only_first", "only_second", "do_not_truncate")


@dataclass(frozen=True)
class Options:
    """The keywords of a call, named as Hugging Face names them."""

    return_tensors: Literal["pt", "np"] | None = None
    padding: bool | str = False
    truncation: bool | str = False
    max_length: int | None = None
    add_special_tokens: bool = True
    pad_to_multiple_of: int | None = None
    is_split_into_words: bool = False
    return_attention_mask: bool = True
    return_token_type_ids: bool | None = None
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False

    @property
    def truncates(self) -> bool:
        """Whether texts that are too long are cut."""
        return self.truncation not in (False, "do_not_truncate")

    @property
    def pads(self) -> bool:
        """Whether short texts are filled up."""
        return self.padding not in (False, "do_not_pad")

    def width(self, longest: int) -> int:
        """How many tokens each padded text has."""
        width = longest
        if self.padding == "max_length":
            if self.max_length is None:
                raise InputError('padding="max_length" needs max_length; give it, or padding=True')
            width = max(longest, self.max_length)
        step = self.pad_to_multiple_of or 1
        return -(-width // step) * step

    @property
    def strategy(self) -> str:
        """Which of a text and its pair is cut."""
        return self.truncation if isinstance(self.truncation, str) else "longest_first"


def options_of(given: dict[str, Any]) -> Options:
    """The keywords as a value; an unknown one is refused with the nearest."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise UnknownNameError("option of a tokenizer", name, known)
    options = Options(**given)
    for name, value, expected in (
        ("return_tensors", options.return_tensors, (None, "pt", "np")),
        ("padding", options.padding, _PADDING),
        ("truncation", options.truncation, _TRUNCATION),
    ):
        if value not in expected:
            raise InputError(f"{name} should be one of {expected}, got {value!r}")
    return options
