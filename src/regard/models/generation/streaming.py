"""Writing that is read while it is written: new tokens, or new text, as soon as they are there."""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.models.generation.loop import GenerativeModel, plan_for, write
from regard.models.generation.prompts import Inputs, Prefix
from regard.models.generation.request import Plan
from regard.models.generation.stopping import Decoder

_BEFORE = 8  # tokens of the prompt that the first new text may depend on
_UNFINISHED = "\ufffd"  # what a decoder gives for bytes that are no character yet


@dataclass
class TextFlow:
    """Text from ids that come one by one; a character of several tokens comes with its last.

    What follows on a prompt is told by `before`, its last ids: the text may depend on them.
    """

    tokenizer: Decoder
    before: InitVar[Sequence[int]] = ()
    _ids: list[int] = field(init=False)
    _said: int = field(init=False)  # of the ids, those whose text is out

    def __post_init__(self, before: Sequence[int]) -> None:
        self._ids, self._said = list(before), len(before)

    def push(self, token: int) -> str:
        """The text that this token completes, perhaps none."""
        self._ids.append(token)
        text = self._text(len(self._ids))
        return "" if text.endswith(_UNFINISHED) else self._say(text)

    def close(self) -> str:
        """What is left when no token comes any more."""
        return self._say(self._text(len(self._ids)))

    def _say(self, text: str) -> str:
        new = text[len(self._text(self._said)) :]
        if new:
            self._ids = self._ids[self._said :]
            self._said = len(self._ids)
        return new

    def _text(self, count: int) -> str:
        return self.tokenizer.decode(self._ids[:count], skip_special_tokens=True)


def stream_ids(
    writer: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: Decoder | None = None,
    **settings: Any,
) -> Iterator[int]:
    """The new tokens of one sequence, each as soon as it is chosen; arguments as of `generate`."""
    return _tokens(writer, plan_for(writer, inputs, attention_mask, prefix, tokenizer, settings))


def stream(
    writer: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: Decoder | None = None,
    **settings: Any,
) -> Iterator[str]:
    """The new text of one sequence, piece by piece; after the prompt it is what `generate` gives.

    A piece ends where a character does.
    """
    plan = plan_for(writer, inputs, attention_mask, prefix, tokenizer, settings)
    if plan.tokenizer is None:
        raise InputError("a stream of text needs a tokenizer; give tokenizer=... or use stream_ids")
    before = plan.prompt.tokens[0, -_BEFORE:].tolist()
    return _pieces(_tokens(writer, plan), TextFlow(plan.tokenizer, before))


def _tokens(writer: GenerativeModel[Any], plan: Plan) -> Iterator[int]:
    rows, asked = len(plan.prompt.tokens), plan.settings
    if rows > 1 or asked.num_beams > 1 or asked.num_return_sequences > 1:
        raise InputError(
            f"a stream is one sequence, got {rows} inputs, num_beams={asked.num_beams}, "
            f"num_return_sequences={asked.num_return_sequences}; use generate for more"
        )
    return (
        int((board.finished[0] if board.finished else board.drafts).ids[0, -1])
        for board in write(writer, plan)
    )


def _pieces(tokens: Iterator[int], flow: TextFlow) -> Iterator[str]:
    for token in tokens:
        piece = flow.push(token)
        if piece:
            yield piece
    if rest := flow.close():
        yield rest
