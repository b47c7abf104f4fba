"""Texts and tensors of all processes of a group, in all of them, sent as bytes."""

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from regard.tracing.head_shards import HeadShard

TensorForms = Mapping[str, Sequence[object]]  # by name: the dtype's name, and the shape


def gather_texts(text: str, shard: HeadShard) -> list[str]:
    """The texts of all processes, in their order."""
    own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(shard.device)
    count = torch.tensor([len(own)], device=shard.device)
    counts = [torch.zeros_like(count) for _ in range(shard.size)]
    dist.all_gather(counts, count, group=shard.group)
    parts = gather_bytes(own, [int(size) for size in counts], shard)
    return [bytes(part.tolist()).decode() for part in parts]


def gather_bytes(own: Tensor, sizes: Sequence[int], shard: HeadShard) -> list[Tensor]:
    """The bytes of all processes, in their order; `sizes` says how many each of them has."""
    # all_gather takes tensors of one size, so shorter ones are padded
    longest = max(sizes)
    parts = [own.new_empty(longest) for _ in sizes]
    dist.all_gather(parts, F.pad(own, (0, longest - len(own))), group=shard.group)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]


def pack_tensors(tensors: Iterable[Tensor], device: torch.device) -> Tensor:
    """The numbers of tensors as bytes, one after the other."""
    parts = [tensor.detach().reshape(-1).contiguous().view(torch.uint8) for tensor in tensors]
    packed: Tensor = torch.cat([part.to(device) for part in parts]) if parts else torch.empty(0)
    return packed.to(torch.uint8)


def form_of(tensor: Tensor) -> list[object]:
    """What `unpack_tensors` needs to know of a tensor: the name of its dtype, and its shape."""
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def size_of(form: Sequence[object]) -> int:
    """How many bytes a tensor of this form has."""
    dtype, shape = _read_form(form)
    return torch.Size(shape).numel() * dtype.itemsize


def unpack_tensors(packed: Tensor, forms: Sequence[Sequence[object]]) -> list[Tensor]:
    """The tensors of these forms from which `pack_tensors` made the bytes."""
    tensors = []
    for form, part in zip(forms, packed.split([size_of(form) for form in forms]), strict=True):
        dtype, shape = _read_form(form)
        # a copy, which begins at an address that numbers of the dtype may have
        tensors.append(part.clone().view(dtype).reshape(shape))
    return tensors


def _read_form(form: Sequence[object]) -> tuple[torch.dtype, list[int]]:
    """The dtype and the shape that a form names."""
    name, shape = form
    dtype = getattr(torch, str(name), None)
    assert isinstance(dtype, torch.dtype)
    assert isinstance(shape, list)
    return dtype, shape
