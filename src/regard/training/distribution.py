"""Training in one process or in many: torchrun's ranks, DDP, and FSDP2.

All calls of torch.distributed are here. Without torchrun there is one process, and the functions
return at once. With DDP each process holds the whole model; with FSDP2 it holds a part of each
weight.
"""

import gc
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

# Words in the error that the other processes get when one has ended.
_LOST_CONNECTION = ("gloo", "nccl", "connection", "timed out")
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
        """The sum of each number over all processes."""
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
        """Turn the error of a lost connection into a RegardError that names the last saved step."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(word in str(error).lower() for word in _LOST_CONNECTION):
                raise
            raise RegardError(
                f"another of the {self.size} processes has ended; run again, with as many as you "
                f"like, to go on from step {newest()}"
            ) from error

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """Around work of the first process: if it fails there, all processes raise, none waits."""
        error: Exception | None = None
        try:
            yield
        except Exception as raised:
            error = raised
        failed = self.any(error is not None)
        if error is not None:
            raise error
        if failed:
            raise RegardError("the first process has ended with an error, which it has printed")

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def process_group(device: str | torch.device | None = None) -> Iterator[World]:
    """Join the process group that torchrun started; without torchrun, this process is alone."""
    size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    own_device = torch.device(device if device is not None else _default_device())
    if size == 1:
        yield World(0, 1, own_device)
        return
    if own_device.type == "cuda":
        own_device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(own_device)
    dist.init_process_group("nccl" if own_device.type == "cuda" else "gloo")
    try:
        yield World(rank, size, own_device)
        # DDP stands in a cycle of references. Collected later, it would take the last reference to
        # the group with it, whose threads then wait for the interpreter that waits for them.
        gc.collect()
    finally:
        dist.destroy_process_group()


def distribute_module(module: nn.Module, ranks: World, how: Sharing) -> nn.Module:
    """The module wrapped by DDP or FSDP2, so that gradients are averaged over processes."""
    if ranks.size == 1:
        return module
    if how == "ddp":
        return DistributedDataParallel(module)
    for part in module.modules():
        # Each layer is sharded by itself, so that only the running layer is whole in memory.
        if isinstance(part, nn.ModuleList):
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
    """Inside the block every process holds all weights, for use outside of the forward pass."""
    sharded = [part for part in module.modules() if isinstance(part, FSDPModule)]
    for part in sharded:
        part.unshard()
    try:
        yield
    finally:
        for part in sharded:
            part.reshard()


def gather_state(module: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """All weights and the whole state of the optimiser, collected in the first process."""
    return (
        get_model_state_dict(module, options=_GATHER_OPTIONS),
        get_optimizer_state_dict(module, optimizer, options=_GATHER_OPTIONS),
    )


def scatter_state(
    module: nn.Module, optimizer: Optimizer, weights: dict[str, Any], state: dict[str, Any]
) -> None:
    """Send weights and optimiser state, which the first process has read, to all processes."""
    options = _SCATTER_OPTIONS if dist.is_initialized() else StateDictOptions(full_state_dict=True)
    if dist.is_initialized() and dist.get_rank():
        weights, state = {}, {}  # torch adds DDP's prefix to the names in the first process only
    set_model_state_dict(module, weights, options=options)
    set_optimizer_state_dict(module, optimizer, state, options=options)


def _default_device() -> str:
    """The GPU if there is one, else the CPU."""
    return "cuda" if torch.cuda.is_available() else "cpu"
