"""The processes that share a survey: those of torch.distributed, or this one alone."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from regard.errors import RegardError


@dataclass(frozen=True)
class Processes:
    """The rank of this process, and how many processes there are."""

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> "Processes":
        """The processes of the process group, or a single one without a group."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @property
    def first(self) -> bool:
        """True for the process that writes files."""
        return self.rank == 0

    def any(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is set in any process."""
        if self.size == 1:
            return list(flags)
        reduced = torch.tensor(flags, dtype=torch.uint8, device=_device())
        with self._explain_failures():
            dist.all_reduce(reduced, op=dist.ReduceOp.MAX)
        return [bool(flag) for flag in reduced.tolist()]

    def gather(self, text: str) -> Sequence[str]:
        """The texts of all processes, in their order, in every process."""
        if self.size == 1:
            return [text]
        encoded = torch.tensor(list(text.encode()), dtype=torch.uint8, device=_device())
        sizes = [torch.zeros(1, dtype=torch.long, device=_device()) for _ in range(self.size)]
        with self._explain_failures():
            dist.all_gather(sizes, torch.tensor([len(encoded)], device=_device()))
            longest = max(int(size) for size in sizes)
            # all_gather needs tensors of one size, so shorter texts are padded with zeros
            texts = [encoded.new_zeros(longest) for _ in sizes]
            dist.all_gather(texts, torch.nn.functional.pad(encoded, (0, longest - len(encoded))))
        pairs = zip(texts, sizes, strict=True)
        return [bytes(padded[: int(size)].tolist()).decode() for padded, size in pairs]

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        """Turn the failure of a collective call into an error that says what happened."""
        try:
            yield
        except RuntimeError as error:
            raise RegardError(
                f"another of the {self.size} processes has ended; run the same again, with as many "
                "as you like, to go on from what was saved"
            ) from error


def _device() -> torch.device:
    """The device on which the process group exchanges tensors."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
