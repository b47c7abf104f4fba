"""Encode many texts at once, truncated to what the model reads, and pad them batch by batch."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.reader import InputKind, InputReader, ModelInputs, PaddingSide
from regard.tracing.inputs.token_names import TokenNamer
from regard.types import Tokens

_MASK, _SPECIAL = "attention_mask", "special_tokens_mask"
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # a byte that is no character by itself
_NO_TOKENS = Tokens((), ids=(), special=())


@dataclass(frozen=True)
class TokenKinds:
    """The kinds of tokens that are measured: their names, and the function that finds them."""

    names: tuple[str, ...]
    of: Callable[[Tokens], Int[Tensor, " token"]]


@dataclass(frozen=True)
class EncodedRow:
    """One encoded text: its values by argument of the model, and the kind of each token."""

    parts: Mapping[str, Sequence[int]]
    kinds: Sequence[int]
    cut: bool = False

    def __len__(self) -> int:
        return len(self.kinds)


class KindFinder:
    """Finds the kind of each token by its id, and remembers it.

    A piece that is a part of a character has no kind by itself; then the whole text is classified.
    """

    def __init__(self, namer: TokenNamer, kinds: TokenKinds) -> None:
        self._namer, self._kinds = namer, kinds
        self._known: dict[tuple[int, bool], int | None] = {}

    def kinds_of(self, ids: Sequence[int], special: Sequence[bool] | None = None) -> list[int]:
        """The kinds of the tokens of one text; `special` are those that the tokenizer added."""
        special = [False] * len(ids) if special is None else special
        kinds = [self._kind_of_id(*pair) for pair in zip(ids, special, strict=True)]
        if None not in kinds:
            return [kind for kind in kinds if kind is not None]
        tokens = self._namer.name_ids(ids)
        both = zip(tokens.special or special, special, strict=True)
        return self._classify(replace(tokens, special=tuple(one or other for one, other in both)))

    def kind_of_start(self, start: int) -> int:
        """The kind of a decoder's start token."""
        return self._classify(self._namer.prepend_start(start, _NO_TOKENS))[0]

    def _kind_of_id(self, number: int, special: bool) -> int | None:
        """The kind of a token by its id alone; None if it is a part of a character."""
        key = number, special
        if key not in self._known:
            tokens = self._namer.name_ids((number,))
            is_part = _BYTE.search(tokens.texts[0]) is not None
            tokens = replace(tokens, special=(True,)) if special else tokens
            self._known[key] = None if is_part else self._classify(tokens)[0]
        return self._known[key]

    def _classify(self, tokens: Tokens) -> list[int]:
        """The kind of each token."""
        kinds: list[int] = self._kinds.of(tokens).tolist()
        return kinds


class CorpusReader(InputReader):
    """A reader that encodes many texts before they are run, and keeps them until then.

    Sources and targets of more than `longest` tokens are truncated.
    """

    def __init__(self, tokenizer: Any, kinds: TokenKinds, longest: int | None) -> None:
        super().__init__(tokenizer)
        self._longest = longest
        self.source_kinds = KindFinder(self.namer, kinds)
        self.target_kinds = KindFinder(self.target_namer, kinds)
        self._sources: dict[Text, EncodedRow] = {}
        self._targets: dict[str, EncodedRow] = {}

    def read(self, texts: Sequence[Text], targets: Sequence[str] | None) -> None:
        """Encode texts; those that were encoded before are dropped."""
        pairs = [text for text in texts if isinstance(text, tuple)]
        columns = [list(column) for column in zip(*pairs, strict=True)] if pairs else [list(texts)]
        self._sources = dict(
            zip(texts, self._encode_rows(self.source_kinds, *columns), strict=True)
        )
        if targets is not None:
            rows = self._encode_rows(self.target_kinds, text_target=list(targets))
            self._targets = dict(zip(targets, rows, strict=True))

    def source(self, text: Text) -> EncodedRow:
        """The encoded source of a text."""
        return self._sources[text]

    def target(self, text: str) -> EncodedRow:
        """The encoded target of a text."""
        return self._targets[text]

    def encode(
        self,
        kind: InputKind,
        examples: Sequence[Any],
        side: PaddingSide,
        *,
        spelled: bool = False,
    ) -> ModelInputs:
        """The arguments of encoded texts; their tokens are not named, which saves time."""
        rows = [self._sources[text] for text in examples]
        return ModelInputs(self._pad_arguments("source", rows), (None,) * len(rows))

    def encode_targets(self, texts: Sequence[str]) -> tuple[Tensor, Tensor, list[Tokens]]:
        """Ids and mask of targets that were encoded; their tokens are not named."""
        arguments = self._pad_arguments("target", [self._targets[text] for text in texts])
        return arguments["input_ids"], arguments[_MASK], [_NO_TOKENS] * len(texts)

    def _pad_arguments(
        self, side: Literal["source", "target"], rows: Sequence[EncodedRow]
    ) -> dict[str, Tensor]:
        """The rows as padded tensors; the mask hides the padding, so its id does not matter."""
        tokenizer = getattr(self.tokenizer, side, self.tokenizer)
        fill = {"input_ids": getattr(tokenizer, "pad_token_id", None) or 0}
        return {
            name: pad_rows([row.parts[name] for row in rows], fill.get(name, 0))
            for name in rows[0].parts
        }

    def _encode_rows(
        self, finder: KindFinder, *columns: list[str], **target: list[str]
    ) -> list[EncodedRow]:
        """Encode each text, truncated if it is too long.

        Tokenizers do not say which texts they truncated. So all are encoded with one token more
        than allowed, and those that have this token are encoded again.
        """
        limit = None if self._longest is None else self._longest + 1
        encoding = self._call_tokenizer_up_to(limit, columns, target)
        rows = [_row(finder, encoding, index) for index in range(len(encoding["input_ids"]))]
        long = [index for index, row in enumerate(rows) if len(row) == limit]
        if not long:
            return rows
        long_columns = [[column[index] for index in long] for column in columns]
        long_targets = {name: [texts[index] for index in long] for name, texts in target.items()}
        truncated = self._call_tokenizer_up_to(self._longest, long_columns, long_targets)
        for position, index in enumerate(long):
            rows[index] = replace(_row(finder, truncated, position), cut=True)
        return rows

    def _call_tokenizer_up_to(
        self, limit: int | None, columns: Sequence[list[str]], target: Mapping[str, list[str]]
    ) -> Any:
        """Encode texts without padding, truncated to at most `limit` tokens."""
        truncation = {} if limit is None else {"truncation": True, "max_length": limit}
        return self.tokenizer(
            *columns,
            **target,
            return_attention_mask=True,
            return_special_tokens_mask=True,
            **truncation,
        )


def _row(finder: KindFinder, encoding: Mapping[str, Any], index: int) -> EncodedRow:
    """One text of an encoding, with the kinds of its tokens."""
    parts = {name: encoding[name][index] for name in encoding if name != _SPECIAL}
    ids = parts["input_ids"]
    added = encoding[_SPECIAL][index] if _SPECIAL in encoding else [0] * len(ids)
    return EncodedRow(parts, finder.kinds_of(ids, list(map(bool, added))))


def pad_rows(rows: Sequence[Sequence[int]], fill: int) -> Int[Tensor, "row column"]:
    """Rows of different lengths as one tensor, padded on the right.

    >>> from regard.tracing.statistics.texts import pad_rows
    >>> pad_rows([[5], [7, 3]], 0).tolist()
    [[5, 0], [7, 3]]
    """
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)
