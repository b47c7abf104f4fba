"""Builds a tiny random model of a class, with inputs with which it runs."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bench.architectures.inputs import candidate_inputs, fit_inputs
from bench.architectures.shrink import LEVELS, repair, shrink, walk_configs

__all__ = ["Built", "NotBuiltError", "build"]

_LARGEST = 200e6  # parameters
_REPAIRS = 3  # changes of a config, or of inputs, after errors that name what is wrong


class NotBuiltError(Exception):
    """No config and inputs were found with which a model runs; the message has the reasons."""


@dataclass(frozen=True)
class Built:
    """A model, inputs with which it runs, and the level by which its config was shrunk."""

    model: nn.Module
    inputs: dict[str, Any]
    level: str


def build(model_type: str, class_name: str, attention: str | None = None) -> Built:
    """A model of a class with inputs; `attention` is its `attn_implementation`."""
    reasons: dict[str, None] = {}
    for level in LEVELS:
        repairs: list[str] = []
        for _ in range(_REPAIRS):
            messages: list[str] = []
            built = _try_level(model_type, class_name, level, (attention, repairs, messages))
            if built is not None:
                return built
            reasons |= dict.fromkeys(messages)
            known = [text for text in messages if text not in repairs and _can_repair(text)]
            if not known:
                break
            repairs += known
    raise NotBuiltError(" || ".join(reasons))


def _try_level(
    model_type: str,
    class_name: str,
    level: str,
    options: tuple[str | None, list[str], list[str]],
) -> Built | None:
    """A model at one level that runs; the messages of errors are added to the options."""
    attention, repairs, messages = options
    try:
        model = _build_model(model_type, class_name, level, attention, repairs)
    except Exception as error:
        messages.append(_first_line(error))
        return None
    for inputs in candidate_inputs(model):
        for _ in range(_REPAIRS):
            try:
                with torch.no_grad():
                    model(**copy.deepcopy(inputs))
                return Built(model, inputs, level)
            except Exception as error:
                shapes = {name: tuple(getattr(x, "shape", ())) for name, x in inputs.items()}
                messages.append(f"{shapes}: {_first_line(error)}")
                fitting = fit_inputs(model, inputs, str(error))
            if fitting is None:
                break
            inputs = fitting
    return None


def _can_repair(message: str) -> bool:
    """True for messages that `repair` knows."""
    known = ("Config' object has no attribute", "split_sizes=", "=True")
    return any(part in message for part in known)


def _build_model(
    model_type: str, class_name: str, level: str, attention: str | None, repairs: list[str]
) -> nn.Module:
    """A random model with a shrunk config, in evaluation mode."""
    config = shrink(CONFIG_MAPPING[model_type](), level)
    for message in repairs:
        repair(config, message)
    kind = getattr(transformers, class_name)
    expected = getattr(kind, "config_class", None)
    if expected is not None and not isinstance(config, expected):  # the text model of several
        config = next((c for c in walk_configs(config) if isinstance(c, expected)), config)
    if attention is not None:
        config._attn_implementation = attention
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind(copy.deepcopy(config)).parameters())
    if size > _LARGEST:
        raise NotBuiltError(f"too large with {size / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    model: nn.Module = kind(config).eval()
    return model


def _first_line(error: Exception) -> str:
    """An error in one line of at most 160 characters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160]
