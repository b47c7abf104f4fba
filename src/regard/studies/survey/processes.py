"""A survey shared between processes: torch.distributed's ranks, or this one alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from regard.errors import RegardError


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> "Ranks":
        """Those of the process group, if there is one."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.rank == 0

    def any(self, *here: bool) -> list[bool]:
        """Whether each thing is so in some process."""
        if self.size == 1:
            return list(here)
        said = torch.tensor(here, dtype=torch.uint8, device=_device())
        with self._talking():
            dist.all_reduce(said, op=dist.ReduceOp.MAX)
        return [bool(each) for each in said.tolist()]

    def gathered(self, text: str) -> Sequence[str]:
        """The texts of all processes, in their order, in every process."""
        if self.size == 1:
            return [text]
        own = torch.tensor(list(text.encode()), dtype=torch.uint8, device=_device())
        sizes = [torch.zeros(1, dtype=torch.long, device=_device()) for _ in range(self.size)]
        with self._talking():
            dist.all_gather(sizes, torch.tensor([len(own)], device=_device()))
            longest = max(int(each) for each in sizes)
            texts = [own.new_zeros(longest) for _ in sizes]
            dist.all_gather(texts, torch.nn.functional.pad(own, (0, longest - len(own))))
        pairs = zip(texts, sizes, strict=True)
        return [bytes(each[: int(size)].tolist()).decode() for each, size in pairs]

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Say it in a sentence when another process has died."""
        try:
            yield
        except RuntimeError as error:
            raise RegardError(
                f"another of the {self.size} processes has ended; run the same again, with as many "
                "as you like, to go on from what was saved"
            ) from error


def _device() -> torch.device:
    """Where the process group passes tensors around."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
