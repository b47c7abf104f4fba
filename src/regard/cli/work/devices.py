"""Where to compute: a device by the name that the command line gives it."""

import torch

from regard.errors import InputError


def device_of(name: str | None) -> torch.device:
    """The device of this name; without one, cuda if there is one, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, ValueError):
        raise InputError(f"no device {name!r} here; there is {', '.join(_known())}") from None
    if device.type == "meta":
        raise InputError(f"{name!r} holds no numbers; give one of {', '.join(_known())}")
    return device


def _known() -> list[str]:
    found = ["cpu"]
    found += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return found + ["mps"] * torch.backends.mps.is_available()
