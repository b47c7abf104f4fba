"""The share of a record that one process has: named tensors with an axis of heads, and edits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.kernels.observe import Observation, Scoring
from regard.masks import Area, Bias, Mask, explicit, tensor_bias
from regard.tracing.dataflow.output_projection import OutputProjection
from regard.tracing.dtensors import has_dtensors
from regard.tracing.parallel_heads.messages import form_of
from regard.tracing.recording.record import CallRecord, EditedWeights, GradientSlot

_EDIT = "edit "  # begins the names of edited weights, which are not joined with other ones
_HEADS_FIRST = ("sink", "output")  # all other tensors begin with the batch


@dataclass(frozen=True, eq=False)
class Share:
    """The tensors of a record by name, and for each of its edits heads, row and column."""

    tensors: Mapping[str, Tensor]
    edits: Sequence[Sequence[Any]]

    @property
    def heads(self) -> int:
        """How many heads there are."""
        name = "weights" if "weights" in self.tensors else "query"
        return self.tensors[name].shape[1]

    def forms(self) -> dict[str, list[object]]:
        """What each tensor looks like, as JSON types."""
        return {name: form_of(tensor) for name, tensor in self.tensors.items()}


def share_of(record: CallRecord) -> Share:
    """What this process has of a record."""
    tensors: dict[str, Tensor | None] = {
        "query": record.query,
        "key": record.key,
        "weights": record.weights,
        "value": record.value,
        "gradient": record.gradient,
        "output": record.output,
    }
    if record.observation is not None:
        tensors |= _observed_tensors(record.observation)
    if record.scoring is not None:
        tensors["sink"] = record.scoring.sink
        tensors["bias"] = _head_biases(record.scoring.bias, record)
    tensors["mask"] = _head_biases(record.mask, record)
    for number, edit in enumerate(record.edits):
        tensors[f"{_EDIT}{number}"] = edit.weights
    present = {
        name: tensor
        for name, tensor in tensors.items()
        if tensor is not None and not has_dtensors((tensor,))
    }
    return Share(present, [[edit.heads, edit.row, edit.column] for edit in record.edits])


def _observed_tensors(observation: Observation) -> dict[str, Tensor | None]:
    """What the kernel measured of each head, by name."""
    tensors: dict[str, Tensor | None] = {"lse": observation.lse}
    for part in ("statistics", "top", "atlas"):
        numbers = getattr(observation, part)
        for name, value in {} if numbers is None else vars(numbers).items():
            if isinstance(value, Tensor):
                tensors[f"{part}.{name}"] = value
    return tensors


def _head_biases(term: Mask | Bias | None, record: CallRecord) -> Tensor | None:
    """A mask or bias as a dense tensor if it is not the same for all heads; else None."""
    if term is None:
        return None
    _, _, queries, keys = record.sizes
    offset, device = 0 if record.scoring is None else record.scoring.offset, record.query.device
    if term.cut(Area(range(1), range(1), offset, device)).shape[1] == 1:
        return None
    return term.cut(Area(range(queries), range(keys), offset, device))


def join_shares(record: CallRecord, shares: Sequence[Share]) -> CallRecord:
    """A record with the heads of all shares, in their order."""
    device = record.query.device
    own = shares[0].tensors
    names = [
        name
        for name in own
        if not name.startswith(_EDIT) and all(name in share.tensors for share in shares)
    ]
    joined = {name: _join(name, shares).to(device) for name in names}
    scoring, mask = record.scoring, record.mask
    if "mask" in joined:
        mask = explicit(joined["mask"])
    if scoring is not None:
        bias = tensor_bias(joined["bias"]) if "bias" in joined else scoring.bias
        scoring = replace(scoring, mask=mask, bias=bias, sink=joined.get("sink"))
    return replace(
        record,
        query=joined["query"],
        key=joined["key"],
        weights=joined.get("weights"),
        scoring=scoring,
        mask=mask,
        observed=_join_observation(record.observation, scoring, joined),
        value=joined.get("value"),
        gradient_slot=GradientSlot(joined["gradient"]) if "gradient" in joined else None,
        projection=_projection_of(joined.get("output")),
        edits=_join_edits(shares, device),
        shard=None,
    )


def _join(name: str, shares: Sequence[Share]) -> Tensor:
    """The tensors of all shares, joined over heads."""
    parts = [share.tensors[name] for share in shares]
    if name in ("key", "value"):
        # how many query heads share a key head; where that differs, each gets its own copy
        groups = [share.heads // part.shape[1] for share, part in zip(shares, parts, strict=True)]
        if len({*groups}) > 1:
            pairs = zip(parts, groups, strict=True)
            parts = [part.repeat_interleave(group, dim=1) for part, group in pairs]
    elif parts[0].dim() == 4 and name in ("mask", "bias"):
        sizes = [share.heads for share in shares]
        parts = [part.expand(-1, size, -1, -1) for part, size in zip(parts, sizes, strict=True)]
    return torch.cat(parts, dim=0 if name in _HEADS_FIRST else 1)


def _join_observation(
    observation: Observation | None, scoring: Scoring | None, joined: Mapping[str, Tensor]
) -> Observation | None:
    """What was observed of all heads."""
    if observation is None or scoring is None:
        return None
    parts: dict[str, Any] = {}
    for part in ("statistics", "top", "atlas"):
        numbers = getattr(observation, part)
        prefix = f"{part}."
        columns = {
            name.removeprefix(prefix): tensor
            for name, tensor in joined.items()
            if name.startswith(prefix)
        }
        parts[part] = None if numbers is None else replace(numbers, **columns)
    return replace(observation, lse=joined["lse"], scoring=scoring, **parts)


def _projection_of(head_parts: Tensor | None) -> OutputProjection | None:
    """An output projection whose parts are known."""
    if head_parts is None:
        return None
    projection = OutputProjection()
    projection.head_parts = head_parts
    return projection


def _join_edits(shares: Sequence[Share], device: torch.device) -> tuple[EditedWeights, ...]:
    """The edits of all shares, with heads counted in the joined record."""
    edits, before = list[EditedWeights](), 0
    for share in shares:
        for number, (heads, row, column) in enumerate(share.edits):
            weights = share.tensors[f"{_EDIT}{number}"].to(device)
            edits.append(
                EditedWeights(tuple(head + before for head in heads), weights, row, column)
            )
        before += share.heads
    return tuple(edits)
