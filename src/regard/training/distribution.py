"""Training in one process or in many: torchrun's ranks, DDP, and FSDP2.

Everything here calls torch.distributed; without torchrun there is one rank and nothing to do.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from regard.errors import RegardError

_LOST_CONNECTION = (
    "gloo",
    "nccl",
    "connection",
    "timed out",
)  # how a lost process shows in the others
Sharing = Literal["ddp", "fsdp"]
_GATHER_OPTIONS = StateDictOptions(full_state_dict=True, cpu_offload=True)
_SCATTER_OPTIONS = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


@dataclass(frozen=True)
class World:
    """The rank of this process, the number of processes, and the device of this one."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """True for the process that writes files and calls callbacks."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """The sums of numbers over all processes."""
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64)
        tensor = tensor.to(self.device) if self.device.type == "cuda" else tensor
        dist.all_reduce(tensor)
        summed: list[float] = tensor.tolist()
        return summed

    def any(self, here: bool) -> bool:
        """True if the value is true in any process."""
        return self.sum(float(here))[0] > 0

    @contextmanager
    def report_lost_process(self, newest: Callable[[], int]) -> Iterator[None]:
        """Turn the error of a lost connection into a message with the last saved step."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error).lower() for word in _LOST_CONNECTION):
                raise
            raise RegardError(
                f"another of the {self.size} processes has ended; run again, with as many as you "
                f"like, to go on from step {newest()}"
            ) from error

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(device: str | torch.device | None = None) -> Iterator[World]:
    """Join the processes that torchrun started; without it there is this process alone."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    here = torch.device(device if device is not None else _best_device())
    if size == 1:
        yield World(0, 1, here)
        return
    if here.type == "cuda":
        here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(here)
    dist.init_process_group("nccl" if here.type == "cuda" else "gloo")
    try:
        yield World(rank, size, here)
    finally:
        dist.destroy_process_group()


def distribute_module(module: nn.Module, ranks: World, how: Sharing) -> nn.Module:
    """The module wrapped by DDP or FSDP2, so that gradients are averaged over processes."""
    if ranks.size == 1:
        return module
    if how == "ddp":
        return DistributedDataParallel(module)
    for part in module.modules():
        if isinstance(part, nn.ModuleList):  # the layers: each is gathered when it runs
            for layer in part:
                fully_shard(layer)
    fully_shard(module)
    return module


def defer_gradient_sync(module: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Skip DDP's gradient exchange for all but the last of the batches that are accumulated."""
    if last or not isinstance(module, DistributedDataParallel):
        return nullcontext()
    return module.no_sync()


@contextmanager
def gather_weights(module: nn.Module) -> Iterator[None]:
    """Inside the block, every process holds all weights, for work outside of the forward pass."""
    cut = [part for part in module.modules() if isinstance(part, FSDPModule)]
    for part in cut:
        part.unshard()
    try:
        yield
    finally:
        for part in cut:
            part.reshard()


def gather_state(module: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """All weights and the whole state of the optimiser, on the first process."""
    return (
        get_model_state_dict(module, options=_GATHER_OPTIONS),
        get_optimizer_state_dict(module, optimizer, options=_GATHER_OPTIONS),
    )


def scatter_state(
    module: nn.Module, optimizer: Optimizer, weights: dict[str, Any], state: dict[str, Any]
) -> None:
    """Distribute weights and optimiser state, which the first process has read, to all."""
    options = _SCATTER_OPTIONS if dist.is_initialized() else StateDictOptions(full_state_dict=True)
    set_model_state_dict(module, weights, options=options)
    set_optimizer_state_dict(module, optimizer, state, options=options)


def _best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
