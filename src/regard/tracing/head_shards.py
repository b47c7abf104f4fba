"""Which processes share the heads of a call, where tensor parallelism splits them.

In a model that `parallelize_module` has split, each process has some heads of every layer: its
`q_proj.weight` is a DTensor that is sharded over the processes of a device mesh. Two layouts occur:

- The projections return plain tensors (the default). Nothing about a query tells that there are
  more heads elsewhere, but the parameters of the module that attends do.
- The projections return DTensors (`use_local_output=False`). Then attention is described by the
  local parts of its tensors, and the placements of the DTensors say which axis is split.

Only a description is made here, without any communication; `parallel_heads` joins the heads when
the block ends. Parameters are read while the module runs, because only then those of FSDP2 are
whole: a parameter that is still sharded is split by tensor parallelism.
"""

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from regard.kernels.observe.taps import Describer, Tapped, Unmapped
from regard.tracing.dataflow.origins import ManualWeights
from regard.tracing.dtensors import has_dtensors, local_part, split_axes
from regard.tracing.sites import running

if TYPE_CHECKING:  # a torch that was built without torch.distributed has neither
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

OTHER_AXIS = (
    "its tensors are split over processes along an axis other than the heads, so that no process "
    "has whole rows of weights; watch the model with its heads split, or whole"
)


@dataclass(frozen=True)
class HeadShard:
    """The dimension of a device mesh along which the heads of a call are split."""

    mesh: "DeviceMesh"
    dimension: int

    @property
    def group(self) -> "ProcessGroup":
        """The processes that have the heads."""
        return self.mesh.get_group(self.dimension)

    @property
    def rank(self) -> int:
        """The number of this process among them: heads are split in this order."""
        return self.mesh.get_local_rank(self.dimension)

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self.mesh.size(self.dimension)

    @property
    def device(self) -> torch.device:
        """The device on which the processes exchange tensors."""
        return torch.device(self.mesh.device_type)


class _SplitInOtherWaysError(Exception):
    """The tensors of a call are not split along their heads, all in the same way."""


class _LocalCall(threading.local):
    """How the DTensors of the call that was described last in this thread are split."""

    shard: HeadShard | None = None


_local_call = _LocalCall()


def describe_local(describer: Describer, args: Any, kwargs: Any) -> Tapped | Unmapped | None:
    """The description of a call of a tapped function, by the parts of DTensors that are here.

    The function itself runs on the DTensors, because what it does to them is not for us to say.
    """
    operands = (*args, *kwargs.values())
    if not has_dtensors(operands):
        return describer(*args, **kwargs)
    try:
        _local_call.shard = _find_common_shard(operands)
    except _SplitInOtherWaysError:
        return Unmapped(OTHER_AXIS)
    named = {name: local_part(operand) for name, operand in kwargs.items()}
    tapped = describer(*map(local_part, args), **named)
    return replace(tapped, runs_itself=True) if isinstance(tapped, Tapped) else tapped


def localise_weights(manual: ManualWeights) -> ManualWeights | None:
    """Hand-written weights by the part that is here; None if another axis than heads is split."""
    tensors = (manual.weights, manual.scores)
    if not has_dtensors(tensors):
        return manual
    try:
        shard = _find_common_shard(tensors)
    except _SplitInOtherWaysError:
        return None
    axes = {manual.pair.left.axis, manual.pair.right.axis}
    if shard is not None and axes != {-1, -2}:
        return None  # then axis 1 holds queries or keys
    _local_call.shard = shard
    weights, scores = map(local_part, tensors)
    return replace(manual, weights=weights, scores=scores)


class HeadShards:
    """Tells of each call whether its heads are split, and over which processes."""

    def __init__(self) -> None:
        self.is_distributed = dist.is_available() and dist.is_initialized()
        self._by_module = dict[int, HeadShard | None]()

    def of_call(self) -> HeadShard | None:
        """The shard of the call that was described last; None if this process has all heads."""
        if not self.is_distributed:
            return None
        shard, _local_call.shard = _local_call.shard, None
        return shard or self._of_running_module()

    def _of_running_module(self) -> HeadShard | None:
        """The shard of the innermost running module that has parameters."""
        for module in running():
            number = id(module)
            if number in self._by_module:
                return self._by_module[number]
            parameters = list(module.parameters())
            if parameters:
                shard = self._by_module[number] = _shard_of(parameters)
                return shard
        return None


def is_tensor_parallel(model: nn.Module) -> bool:
    """True if parameters of a model, which does not run now, are split for tensor parallelism.

    FSDP2 splits parameters too, along one dimension of a mesh, which may have one process.
    """
    fsdp = sys.modules.get("torch.distributed.fsdp")
    is_sharded = fsdp is not None and any(
        isinstance(module, fsdp.FSDPModule) for module in model.modules()
    )
    return any(
        sum(placement.is_shard() for placement in getattr(parameter, "placements", ())) > is_sharded
        for parameter in model.parameters()
    )


def _shard_of(parameters: Iterable[Tensor]) -> HeadShard | None:
    """The dimension along which one of the parameters is split; the innermost of several."""
    for parameter in parameters:
        for dimension, _ in reversed([*split_axes(parameter)]):
            return HeadShard(parameter.device_mesh, dimension)  # type: ignore[attr-defined]
    return None


def _find_common_shard(operands: Iterable[Any]) -> HeadShard | None:
    """How the heads of the tensors of one call are split.

    Queries, keys, values, weights and masks have the axes (batch, head, ...), so heads are axis 1.
    Where that axis has one element, as in most masks, a tensor is the same for all heads.
    """
    shards = set[HeadShard | None]()
    for operand in operands:
        placements = getattr(operand, "placements", None)
        if placements is None:
            continue
        split = [*split_axes(operand)]
        if any(placement.is_partial() for placement in placements) or len(split) > 1:
            raise _SplitInOtherWaysError
        if split and (operand.dim() != 4 or split[0][1] != 1):
            raise _SplitInOtherWaysError
        if operand.dim() == 4 and operand.shape[1] > 1:
            shards.add(HeadShard(operand.device_mesh, split[0][0]) if split else None)
    if len(shards) > 1:
        raise _SplitInOtherWaysError
    return next(iter(shards), None)
