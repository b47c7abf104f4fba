"""One process or many: torchrun's ranks, gradients shared by DDP, models that are cut by FSDP2.

Everything here is torch.distributed's; without torchrun there is one rank and nothing to do.
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

_GONE = ("gloo", "nccl", "connection", "timed out")  # how a lost process shows in the others
Sharing = Literal["ddp", "fsdp"]
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
_SPREAD = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


@dataclass(frozen=True)
class World:
    """Which of how many processes this is, and the device that it works on."""

    rank: int
    size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes files and tells of events."""
        return self.rank == 0

    def sum(self, *numbers: float) -> list[float]:
        """The sums of numbers over all processes."""
        if self.size == 1:
            return list(numbers)
        found = torch.tensor(numbers, dtype=torch.float64)
        found = found.to(self.device) if self.device.type == "cuda" else found
        dist.all_reduce(found)
        summed: list[float] = found.tolist()
        return summed

    def any(self, here: bool) -> bool:
        """Whether it is so in some process."""
        return self.sum(float(here))[0] > 0

    @contextmanager
    def report_lost_process(self, newest: Callable[[], int]) -> Iterator[None]:
        """Say it in a sentence when another process has died; `newest` is the step on disk."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error).lower() for word in _GONE):
                raise
            raise RegardError(
                f"another of the {self.size} processes has ended; run again, with as many as you "
                f"like, to go on from step {newest()}"
            ) from error

    def barrier(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(device: str | torch.device | None = None) -> Iterator[World]:
    """The processes that torchrun started, ready to talk; this one alone without it."""
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


def shared(module: nn.Module, ranks: World, how: Sharing) -> nn.Module:
    """The module such that its gradients are the mean over all processes."""
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
    """While gradients of several batches add up, only the last of them need be exchanged."""
    if last or not isinstance(module, DistributedDataParallel):
        return nullcontext()
    return module.no_sync()


@contextmanager
def gather_weights(module: nn.Module) -> Iterator[None]:
    """While it lasts, every process holds all weights: for work outside of the forward pass."""
    cut = [part for part in module.modules() if isinstance(part, FSDPModule)]
    for part in cut:
        part.unshard()
    try:
        yield
    finally:
        for part in cut:
            part.reshard()


def gather_state(module: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """The weights and the optimiser's state, gathered from all processes on the first."""
    return (
        get_model_state_dict(module, options=_WHOLE),
        get_optimizer_state_dict(module, optimizer, options=_WHOLE),
    )


def scatter_state(
    module: nn.Module, optimizer: Optimizer, weights: dict[str, Any], state: dict[str, Any]
) -> None:
    """Put weights and state, read by the first process, into the parts of all."""
    options = _SPREAD if dist.is_initialized() else StateDictOptions(full_state_dict=True)
    set_model_state_dict(module, weights, options=options)
    set_optimizer_state_dict(module, optimizer, state, options=options)


def _best_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
