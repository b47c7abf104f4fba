"""Streaming: the tokens or the text of one sequence, each part as soon as it is generated."""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.models.generation.loop import GenerativeModel, decode, make_request
from regard.models.generation.prompts import Inputs, Prefix
from regard.models.generation.request import GenerationRequest
from regard.models.generation.stopping import TextDecoder

_CONTEXT_TOKENS = 8  # tokens of the prompt that the first new text may depend on
_INCOMPLETE = "\ufffd"  # what a decoder gives for bytes that do not make a character yet


@dataclass
class IncrementalDetokenizer:
    """Turns ids that arrive one by one into text.

    A character that is spread over several tokens comes with the last of them. `context` are the
    last ids of the prompt: the text of a token can depend on those before it, for instance whether
    it begins with a space.
    """

    tokenizer: TextDecoder
    context: InitVar[Sequence[int]] = ()
    _ids: list[int] = field(init=False)
    _emitted: int = field(init=False)  # the number of ids whose text was already given out

    def __post_init__(self, context: Sequence[int]) -> None:
        self._ids, self._emitted = list(context), len(context)

    def push(self, token: int) -> str:
        """The text that this token completes, which may be empty."""
        self._ids.append(token)
        text = self._decode(len(self._ids))
        return "" if text.endswith(_INCOMPLETE) else self._emit(text)

    def close(self) -> str:
        """The text that is left after the last token."""
        return self._emit(self._decode(len(self._ids)))

    def _emit(self, text: str) -> str:
        """The part of the text that was not given out before."""
        new = text[len(self._decode(self._emitted)) :]
        if new:
            self._ids = self._ids[self._emitted :]
            self._emitted = len(self._ids)
        return new

    def _decode(self, count: int) -> str:
        """The text of the first `count` ids."""
        return self.tokenizer.decode(self._ids[:count], skip_special_tokens=True)


def stream_ids(
    model: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: TextDecoder | None = None,
    **settings: Any,
) -> Iterator[int]:
    """The new tokens of one sequence, each as soon as it is chosen; arguments as of `generate`."""
    request = make_request(model, inputs, attention_mask, prefix, tokenizer, settings)
    return _stream_tokens(model, request)


def stream(
    model: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: TextDecoder | None = None,
    **settings: Any,
) -> Iterator[str]:
    """The new text of one sequence in parts, each as soon as its characters are complete.

    Joined, the parts are the text that `generate` gives after the prompt; arguments as there.
    """
    request = make_request(model, inputs, attention_mask, prefix, tokenizer, settings)
    if request.tokenizer is None:
        raise InputError("a stream of text needs a tokenizer; give tokenizer=... or use stream_ids")
    context = request.prompt.tokens[0, -_CONTEXT_TOKENS:].tolist()
    detokenizer = IncrementalDetokenizer(request.tokenizer, context)
    return _stream_text(_stream_tokens(model, request), detokenizer)


def _stream_tokens(model: GenerativeModel[Any], request: GenerationRequest) -> Iterator[int]:
    """The newest token after each step; an InputError if there is more than one sequence."""
    rows, settings = len(request.prompt.tokens), request.settings
    if rows > 1 or settings.num_beams > 1 or settings.num_return_sequences > 1:
        raise InputError(
            f"a stream is one sequence, got {rows} inputs, num_beams={settings.num_beams}, "
            f"num_return_sequences={settings.num_return_sequences}; use generate for more"
        )
    return (
        int((search.finished[0] if search.finished else search.active).ids[0, -1])
        for search in decode(model, request)
    )


def _stream_text(tokens: Iterator[int], detokenizer: IncrementalDetokenizer) -> Iterator[str]:
    """The text of the tokens, without empty parts."""
    for token in tokens:
        if text := detokenizer.push(token):
            yield text
    if rest := detokenizer.close():
        yield rest
