"""A task of which everything is known: predict y = 3 x + noise, with dropout to use chance."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.training.batches import Batches, Example
from regard.training.distribution import World
from regard.training.events import Callback, Ended
from regard.training.loop import Loop, Metrics
from regard.training.recipe import Plan

COUNT, ALONE = 211, World(0, 1, torch.device("cpu"))


@dataclass(frozen=True)
class Points:
    """Some x with their y."""

    x: Tensor
    y: Tensor
    padding: float = 0.0

    @property
    def tokens(self) -> int:
        return len(self.x)

    def to(self, device: torch.device) -> "Points":
        return replace(self, x=self.x.to(device), y=self.y.to(device))


class Line:
    """The task."""

    def __init__(self, broken_at: int = 0) -> None:
        self.broken_at, self.calls = broken_at, 0

    def batches(self) -> Batches:
        draw = torch.Generator().manual_seed(5)
        lengths = torch.randint(1, 14, (COUNT,), generator=draw).tolist()
        return Batches([([number] * n,) for number, n in enumerate(lengths)], list, 53, seed=3)

    def collate(self, examples: list[Example]) -> Points:
        x = torch.tensor([float(sides[0][0]) for sides in examples])[:, None] / COUNT
        return Points(x, 3 * x)

    def loss(self, model: nn.Module, batch: Points) -> Tensor:
        self.calls += 1
        if self.calls == self.broken_at:
            return (model(batch.x) * torch.nan).sum()
        return (model(batch.x) - batch.y).square().sum()

    def evaluate(self, model: nn.Module) -> Metrics:
        x = torch.linspace(0, 1, 11)[:, None]
        error = (model(x) - 3 * x).square().mean().item()
        return Metrics({"error": error}, -error)


def network() -> nn.Module:
    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(1, 7), nn.Tanh(), nn.Dropout(0.2), nn.Linear(7, 1))


def plan(**settings: object) -> Plan:
    usual = {"steps": 40, "rate": 0.01, "warmup": 5, "evaluate_every": 10, "save_every": 7}
    return Plan(**usual | settings)


def trained(
    folder: Path, callbacks: tuple[Callback, ...] = (), **settings: object
) -> tuple[nn.Module, Ended]:
    model = network()
    return model, Loop(model, Line(), plan(**settings), folder, ALONE, callbacks).run()
