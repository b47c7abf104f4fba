"""Run a model on a batch while it is watched: forward, along target texts, or generating."""

import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from regard.configs import context_length, exceeds_context
from regard.errors import InputError
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.inputs.generation import generate_ids
from regard.tracing.inputs.reader import InputKind, InputReader, ModelInputs, PaddingSide
from regard.tracing.watch import watch
from regard.types import Tokens, Trace

# with one of these the decoder has something to read, so that it need not generate
_DECODER_INPUTS = {"decoder_input_ids", "decoder_inputs_embeds", "labels"}


@dataclass(frozen=True)
class InputBatch:
    """Examples of one kind that are run together, and their target texts if they have any."""

    kind: InputKind
    examples: Sequence[Any]
    targets: Sequence[str] | None = None


class ModelRunner:
    """Runs a model on batches that a reader encodes, and returns their traces.

    `settings` are the arguments of the model's `generate`, or None if it shall not generate (a
    model with a decoder and no target generates all the same). `options` are those of `watch`.
    """

    def __init__(
        self,
        model: nn.Module,
        reader: InputReader,
        settings: dict[str, Any] | None,
        options: dict[str, Any],
    ) -> None:
        self.model, self.reader, self._settings, self._options = model, reader, settings, options
        parameters = inspect.signature(model.forward).parameters.values()
        self._parameters = {p.name for p in parameters if "VAR" not in p.kind.name}
        # a class whose forward takes decoder_input_ids may be configured without a decoder
        configured = getattr(getattr(model, "config", None), "is_encoder_decoder", True)
        self._has_decoder = "decoder_input_ids" in self._parameters and configured
        self._can_generate = callable(getattr(model, "generate", None))
        if settings is not None and not self._can_generate:
            raise InputError(
                f"{type(model).__name__} has no method generate; leave generate out, or take the "
                "class of the model that has a language modelling head"
            )

    @property
    def side(self) -> PaddingSide:
        """The side on which texts are padded: the left if they are continued, else the right."""
        return "right" if self._settings is None or self._has_decoder else "left"

    def traces(self, batch: InputBatch) -> list[Trace]:
        """One trace for each example of the batch."""
        parts = self._split_by_target_length(batch)
        if len(parts) > 1:
            numbered = [
                (index, trace)
                for part, indices in parts
                for index, trace in zip(indices, self.traces(part), strict=True)
            ]
            return [trace for _, trace in sorted(numbered, key=lambda pair: pair[0])]
        encoded, arguments, labels = self.prepare_batch(batch)
        if batch.kind in ("text", "pair"):
            self._warn_beyond_context(max(len(tokens or ()) for tokens in encoded.tokens))
        with (
            evaluation_mode(self.model),
            torch.no_grad(),
            watch(self.model, **self._options) as seen,
        ):
            with explain_index_errors(self.model):
                if labels is None:
                    labels = self._generate(encoded, arguments)
                else:
                    self.forward(arguments)
            seen.set_labels(labels)
        return list(seen)

    def prepare_batch(
        self, batch: InputBatch, *, spelled: bool = True
    ) -> tuple[ModelInputs, dict[str, Any], TokenLabels | None]:
        """The encoded batch, the arguments of the model, and the labels of its tokens.

        The labels are None where the model is to generate: its output is not known yet. A run that
        nobody watches needs no labels: spelled=False leaves out the texts of tokens.
        """
        encoded = self.reader.encode(batch.kind, batch.examples, self.side, spelled=spelled)
        arguments, labels = self._select_arguments(encoded, batch.kind), None
        if batch.targets is not None:
            arguments, labels = self._follow_targets(encoded, arguments, batch.targets)
        elif not self._generates(arguments):
            labels = self._token_labels(
                encoded, self._decoder_tokens(arguments) or [None] * len(encoded.tokens)
            )
        return encoded, arguments, labels

    def _warn_beyond_context(self, count: int) -> None:
        """Warn if a text, with what is generated after it, is longer than the model's context.

        The model may run all the same: not every kind of position has an end.
        """
        new = (self._settings or {}).get("max_new_tokens")
        if isinstance(new, int) and not self._has_decoder:
            count += new
        longest = context_length(getattr(self.model, "config", None), self.reader.tokenizer)
        remedy = "cut the text, or take a model with a longer context"
        sentence = exceeds_context(type(self.model).__name__, count, longest, remedy)
        if sentence is not None:
            warnings.warn(sentence, UserWarning, stacklevel=_caller_depth())

    def _split_by_target_length(self, batch: InputBatch) -> list[tuple[InputBatch, list[int]]]:
        """The batch split by target length, where the decoder takes no mask that hides padding.

        Each part comes with the indices of its examples in the batch.
        """
        targets, indices = batch.targets or (), range(len(batch.examples))
        masked = "decoder_attention_mask" in self._parameters
        if masked or not self._has_decoder or len(targets) != len(indices) or len(targets) < 2:
            return [(batch, list(indices))]
        lengths = [len(tokens) for tokens in self.reader.encode_targets(targets)[2]]
        groups = [
            [index for index in indices if lengths[index] == length]
            for length in sorted({*lengths})
        ]
        return [
            (
                InputBatch(
                    batch.kind, [batch.examples[n] for n in group], [targets[n] for n in group]
                ),
                group,
            )
            for group in groups
        ]

    def _select_arguments(self, encoded: ModelInputs, kind: InputKind) -> dict[str, Any]:
        """The arguments that the model's forward takes, on the device of the model."""
        parameter = next(self.model.parameters(), None)
        arguments = {}
        for name, value in encoded.arguments.items():
            if self._parameters and name not in self._parameters:  # a mere **kwargs takes all
                continue
            if isinstance(value, Tensor) and parameter is not None:
                # processors return float32, also for a model in half precision; tensors that the
                # caller encoded keep their own dtype
                converts = kind != "encoded" and value.is_floating_point()
                value = value.to(parameter.device, parameter.dtype if converts else value.dtype)
            arguments[name] = value
        if not arguments:
            raise InputError(
                f"{type(self.model).__name__} takes {', '.join(sorted(self._parameters))}, and "
                f"none of what it was to be given: {', '.join(encoded.arguments)}"
            )
        return arguments

    def _generates(self, arguments: Mapping[str, Any]) -> bool:
        """True if the model is to generate: by its settings, or as its decoder has no input."""
        is_due = self._has_decoder and self._can_generate and not _DECODER_INPUTS & {*arguments}
        return self._settings is not None or is_due

    def _decoder_tokens(self, arguments: Mapping[str, Any]) -> list[Tokens] | None:
        """The tokens of decoder_input_ids, without padding; None if there are none."""
        ids, mask = (
            arguments.get(name) for name in ("decoder_input_ids", "decoder_attention_mask")
        )
        if ids is None:
            return None
        real = torch.ones_like(ids) if mask is None else mask
        namer, pairs = self.reader.target_namer, zip(ids, real.bool(), strict=True)
        return [namer.name_ids(row[is_real].tolist()) for row, is_real in pairs]

    def forward(self, arguments: Mapping[str, Any]) -> Any:
        """The model's output; the state of the random number generators stays as it was."""
        # without a GPU in use there is none to ask for, and asking each parameter takes time
        parameters = self.model.parameters() if torch.cuda.is_initialized() else ()
        devices = {p.device for p in parameters if p.is_cuda}
        with torch.random.fork_rng(devices):
            return self.model(**arguments)

    def _follow_targets(
        self, encoded: ModelInputs, arguments: dict[str, Any], targets: Sequence[str]
    ) -> tuple[dict[str, Any], TokenLabels]:
        """The arguments for a decoder that reads the targets (teacher forcing), and the labels."""
        if not self._has_decoder:
            raise InputError(
                f"{type(self.model).__name__} has no decoder to follow a target; leave the target "
                "out, or put it into the text"
            )
        if len(targets) != len(encoded.tokens):
            raise InputError(
                f"capture expected a target for each of {len(encoded.tokens)} examples, got "
                f"{len(targets)}"
            )
        ids, mask, tokens = self.reader.encode_targets(targets)
        config = getattr(self.model, "config", None)
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None and bool(ids[:, 0].eq(start).all()):  # the shift adds it again
            ids, mask, tokens = ids[:, 1:], mask[:, 1:], [target[1:] for target in tokens]
        inputs = _shift_right(self.model, ids.to(next(self.model.parameters()).device), start)
        decoder_arguments = {"decoder_input_ids": inputs}
        if "decoder_attention_mask" in self._parameters:
            decoder_arguments["decoder_attention_mask"] = mask.to(inputs.device)
        namer, starts = self.reader.target_namer, inputs[:, 0].tolist()
        pairs = zip(starts, tokens, strict=True)
        labels = self._token_labels(
            encoded, [namer.prepend_start(start, target) for start, target in pairs]
        )
        return arguments | decoder_arguments, labels

    def _generate(self, encoded: ModelInputs, arguments: dict[str, Any]) -> TokenLabels:
        """Let the model generate; the labels of all tokens, and the rows of kept hypotheses."""
        decoded = generate_ids(self.model, arguments, self._settings or {}, len(encoded.tokens))
        if self._has_decoder:
            namer = self.reader.target_namer
            pairs = zip(decoded.prompt, decoded.produced, strict=True)
            targets = [
                namer.prepend_start(prompt[0], namer.name_ids(prompt[1:] + produced))
                for prompt, produced in pairs
            ]
            return self._token_labels(encoded, targets, decoded.rows)
        namer = self.reader.namer
        examples = zip(encoded.tokens, decoded.prompt, decoded.produced, strict=True)
        tokens = [
            namer.name_ids(ids + produced) if prompt is None else namer.append_ids(prompt, produced)
            for prompt, ids, produced in examples
        ]
        return TokenLabels(tuple({"tokens": stream} for stream in tokens), decoded.rows)

    def _token_labels(
        self, encoded: ModelInputs, targets: Sequence[Tokens | None], rows: Tensor | None = None
    ) -> TokenLabels:
        """The labels of each example: its input tokens and its target, without unknown ones."""
        name = "source" if self._has_decoder else "tokens"
        pairs = zip(encoded.tokens, targets, strict=True)
        streams = [{name: tokens, "target": target} for tokens, target in pairs]
        known = [
            {name: tokens for name, tokens in stream.items() if tokens is not None}
            for stream in streams
        ]
        return TokenLabels(tuple(known), rows)


def _caller_depth() -> int:
    """The stack level, as `warnings.warn` counts it, of whoever called this package."""
    names = list[str]()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        names.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    ours = [level for level, name in enumerate(names, 1) if name.startswith("regard.")]
    return ours[-1] + 1


def _shift_right(model: nn.Module, labels: Tensor, start: int | None) -> Tensor:
    """The labels shifted right behind the start token, by the model's own method if it has one."""
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
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode; every module returns to its own mode afterwards."""
    if not any(module.training for module in model.modules()):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        # one by one, because a part of a model may be in another mode than the rest
        for module, mode in modes:
            module.training = mode


@contextmanager
def explain_index_errors(model: nn.Module) -> Iterator[None]:
    """Turn torch's "index out of range" of an embedding into an error that says what to do."""
    try:
        yield
    except IndexError as error:
        if "index out of range in self" not in str(error):  # as torch words it
            raise
        raise InputError(
            f"{type(model).__name__} has no embedding for some of the input: it is longer than "
            "the model reads, or the tokenizer is that of another model"
        ) from error
