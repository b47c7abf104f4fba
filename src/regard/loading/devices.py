"""Where to compute: a device by its name."""

import torch

from regard.arguments import check_first_argument
from regard.errors import InputError

__all__ = ["find_device"]


@check_first_argument
def find_device(name: str | torch.device | None) -> torch.device:
    """The device of this name; without a name CUDA if this machine has it, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, ValueError):
        raise InputError(f"no device {name!r} here; there is {_device_list()}") from None
    if device.type == "meta":
        raise InputError(f"{name!r} holds no numbers; give one of {_device_list()}")
    return device


def _device_list() -> str:
    """The devices of this machine, with commas between them."""
    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return ", ".join(names + ["mps"] * torch.backends.mps.is_available())
