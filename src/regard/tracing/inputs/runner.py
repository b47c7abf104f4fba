"""A batch through a model that is watched: a plain pass, along a target, or generating."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.inputs.generation import decode
from regard.tracing.inputs.reader import Feed, Kind, Reader, Side
from regard.tracing.watch import watch
from regard.types import Tokens, Trace

_GIVEN = {"decoder_input_ids", "decoder_inputs_embeds", "labels"}  # a decoder has what to read


@dataclass(frozen=True)
class Batch:
    """Examples of one kind that run together, and their target texts if they have any."""

    kind: Kind
    examples: Sequence[Any]
    targets: Sequence[str] | None = None


class Run:
    """A model with the reader of its inputs; `plan` are settings to generate with, if it is to."""

    def __init__(
        self, model: nn.Module, reader: Reader, plan: dict[str, Any] | None, options: dict[str, Any]
    ) -> None:
        self.model, self.reader, self._plan, self._options = model, reader, plan, options
        parameters = inspect.signature(model.forward).parameters.values()
        self._taken = {each.name for each in parameters if "VAR" not in each.kind.name}
        # a class of models may take decoder_input_ids, and this one of them have no decoder
        both = getattr(getattr(model, "config", None), "is_encoder_decoder", True)
        self._has_decoder = "decoder_input_ids" in self._taken and both
        self._can_generate = callable(getattr(model, "generate", None))
        if plan is not None and not self._can_generate:
            raise InputError(
                f"{type(model).__name__} has no method generate; leave generate out, or take the "
                "class of the model that has a language modelling head"
            )

    @property
    def side(self) -> Side:
        """Where texts are padded: what is generated goes on at the right."""
        return "right" if self._plan is None or self._has_decoder else "left"

    def traces(self, batch: Batch) -> list[Trace]:
        """One trace for each example of the batch."""
        parts = self._parted(batch)
        if len(parts) > 1:
            found = [
                (place, each)
                for part, places in parts
                for place, each in zip(places, self.traces(part), strict=True)
            ]
            return [each for _, each in sorted(found, key=lambda one: one[0])]
        feed, arguments, told = self.prepared(batch)
        with at_rest(self.model), torch.no_grad(), watch(self.model, **self._options) as seen:
            with in_range(self.model):
                if told is None:
                    told = self._generated(feed, arguments)
                else:
                    self.forward(arguments)
            seen.set_labels(told)
        return list(seen)

    def prepared(self, batch: Batch) -> tuple[Feed, dict[str, Any], TokenLabels | None]:
        """What is read of the batch, what the model is given, and what is known of the tokens.

        Nothing is known of them yet where the model is to generate.
        """
        feed = self.reader.feed(batch.kind, batch.examples, self.side)
        arguments, told = self._arguments(feed, batch.kind), None
        if batch.targets is not None:
            arguments, told = self._along(feed, arguments, batch.targets)
        elif not self._generates(arguments):
            told = self._told(feed, self._given(arguments) or [None] * len(feed.tokens))
        return feed, arguments, told

    def _parted(self, batch: Batch) -> list[tuple[Batch, list[int]]]:
        """The batch by the lengths of its targets, where the decoder cannot be told of padding."""
        targets, places = batch.targets or (), range(len(batch.examples))
        masked = "decoder_attention_mask" in self._taken
        if masked or not self._has_decoder or len(targets) != len(places) or len(targets) < 2:
            return [(batch, list(places))]
        lengths = [len(each) for each in self.reader.targets(targets)[2]]
        groups = [[place for place in places if lengths[place] == n] for n in sorted({*lengths})]
        return [
            (Batch(batch.kind, [batch.examples[n] for n in some], [targets[n] for n in some]), some)
            for some in groups
        ]

    def _arguments(self, feed: Feed, kind: Kind) -> dict[str, Any]:
        """What the model's forward takes of the feed, where the model is."""
        one = next(self.model.parameters(), None)
        found = {}
        for name, value in feed.arguments.items():
            if self._taken and name not in self._taken:  # a mere **kwargs takes all
                continue
            if isinstance(value, Tensor) and one is not None:
                made = kind != "encoded" and value.is_floating_point()
                value = value.to(one.device, one.dtype if made else value.dtype)
            found[name] = value
        if not found:
            raise InputError(
                f"{type(self.model).__name__} takes {', '.join(sorted(self._taken))}, and none of "
                f"what it was to be given: {', '.join(feed.arguments)}"
            )
        return found

    def _generates(self, arguments: Mapping[str, Any]) -> bool:
        is_due = self._has_decoder and self._can_generate and not _GIVEN & {*arguments}
        return self._plan is not None or is_due

    def _given(self, arguments: Mapping[str, Any]) -> list[Tokens] | None:
        """The tokens that a decoder was given to read."""
        ids, mask = (
            arguments.get(name) for name in ("decoder_input_ids", "decoder_attention_mask")
        )
        if ids is None:
            return None
        real = torch.ones_like(ids) if mask is None else mask
        labels, pairs = self.reader.target_labels, zip(ids, real.bool(), strict=True)
        return [labels.of_ids(row[kept].tolist()) for row, kept in pairs]

    def forward(self, arguments: Mapping[str, Any]) -> Any:
        """The model's output; chance goes on afterwards as if it had not run."""
        devices = {each.device for each in self.model.parameters() if each.is_cuda}
        with torch.random.fork_rng(devices):
            return self.model(**arguments)

    def _along(
        self, feed: Feed, arguments: dict[str, Any], targets: Sequence[str]
    ) -> tuple[dict[str, Any], TokenLabels]:
        """The arguments with which a decoder reads its target while it is to produce it."""
        if not self._has_decoder:
            raise InputError(
                f"{type(self.model).__name__} has no decoder to follow a target; leave the target "
                "out, or put it into the text"
            )
        if len(targets) != len(feed.tokens):
            raise InputError(
                f"capture expected a target for each of {len(feed.tokens)} examples, got "
                f"{len(targets)}"
            )
        ids, mask, tokens = self.reader.targets(targets)
        config = getattr(self.model, "config", None)
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None and bool(ids[:, 0].eq(start).all()):  # the shift puts it there
            ids, mask, tokens = ids[:, 1:], mask[:, 1:], [each[1:] for each in tokens]
        read = _shifted(self.model, ids.to(next(self.model.parameters()).device), start)
        more = {"decoder_input_ids": read}
        if "decoder_attention_mask" in self._taken:
            more["decoder_attention_mask"] = mask.to(read.device)
        pairs = zip(read[:, 0].tolist(), tokens, strict=True)
        told = self._told(feed, [self.reader.target_labels.begun(*each) for each in pairs])
        return arguments | more, told

    def _generated(self, feed: Feed, arguments: dict[str, Any]) -> TokenLabels:
        decoded = decode(self.model, arguments, self._plan or {}, len(feed.tokens))
        if self._has_decoder:
            labels = self.reader.target_labels
            pairs = zip(decoded.begun, decoded.produced, strict=True)
            targets = [labels.begun(one[0], labels.of_ids(one[1:] + more)) for one, more in pairs]
            return self._told(feed, targets, decoded.rows)
        labels = self.reader.labels
        ends = zip(feed.tokens, decoded.begun, decoded.produced, strict=True)
        whole = [
            labels.of_ids(begun + more) if prompt is None else labels.continued(prompt, more)
            for prompt, begun, more in ends
        ]
        return TokenLabels(tuple({"tokens": each} for each in whole), decoded.rows)

    def _told(
        self, feed: Feed, targets: Sequence[Tokens | None], rows: Tensor | None = None
    ) -> TokenLabels:
        name = "source" if self._has_decoder else "tokens"
        pairs = zip(feed.tokens, targets, strict=True)
        streams = [{name: tokens, "target": target} for tokens, target in pairs]
        known = [
            {name: each for name, each in stream.items() if each is not None} for stream in streams
        ]
        return TokenLabels(tuple(known), rows)


def _shifted(model: nn.Module, labels: Tensor, start: int | None) -> Tensor:
    """What a decoder reads while it is to produce the labels, as the model itself shifts them."""
    own: Any = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if own is not None:
        return own(labels=labels)  # type: ignore[no-any-return]
    if start is None:
        raise InputError(
            f"what the decoder of {type(model).__name__} starts with is not known: its config has "
            "no decoder_start_token_id; give the target as decoder_input_ids in a mapping"
        )
    return torch.cat([labels.new_full((len(labels), 1), start), labels[:, :-1]], dim=1)


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """The model without dropout; every module goes back to the mode that it was in."""
    training = [each for each in model.modules() if each.training]
    if not training:
        yield
        return
    modes = [(each, each.training) for each in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for each, mode in modes:
            each.training = mode


@contextmanager
def in_range(model: nn.Module) -> Iterator[None]:
    """Say what it means that an embedding has no row for an index."""
    try:
        yield
    except IndexError as error:
        if "index out of range in self" not in str(error):  # torch's words
            raise
        raise InputError(
            f"{type(model).__name__} has no embedding for some of the input: it is longer than "
            "the model reads, or the tokenizer is that of another model"
        ) from error
