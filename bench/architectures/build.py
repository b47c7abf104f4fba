"""Builds a tiny random model of a class, with inputs with which it runs."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bench.architectures.inputs import candidate_inputs
from bench.architectures.shrink import LEVELS, shrink

__all__ = ["Built", "NotBuiltError", "build"]

_LARGEST = 120e6  # parameters


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
        try:
            model = _build_model(model_type, class_name, level, attention)
        except Exception as error:
            reasons[_first_line(error)] = None
            continue
        for inputs in candidate_inputs(model):
            try:
                with torch.no_grad():
                    model(**copy.deepcopy(inputs))
                return Built(model, inputs, level)
            except Exception as error:
                shapes = {name: tuple(getattr(x, "shape", ())) for name, x in inputs.items()}
                reasons[f"{shapes}: {_first_line(error)}"] = None
    raise NotBuiltError(" || ".join(reasons))


def _build_model(model_type: str, class_name: str, level: str, attention: str | None) -> nn.Module:
    """A random model with a shrunk config, in evaluation mode."""
    config = shrink(CONFIG_MAPPING[model_type](), level)
    if attention is not None:
        config._attn_implementation = attention
    kind = getattr(transformers, class_name)
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
