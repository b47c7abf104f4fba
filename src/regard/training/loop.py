"""The loop: batches in, steps of the optimiser out, events for whoever listens."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import InputError, NotFiniteError
from regard.training.batches import Batches, Example, Place, share
from regard.training.checkpoints import (
    Checkpoint,
    Tensors,
    checkpoints,
    flattened,
    forget,
    generators,
    load_checkpoint,
    restored,
    save_checkpoint,
)
from regard.training.contexts import compiled, deferred_interrupts
from regard.training.distribution import (
    World,
    defer_gradient_sync,
    gather_state,
    gather_weights,
    scatter_state,
    shared,
)
from regard.training.events import (
    Callback,
    Ended,
    Evaluated,
    Event,
    Reason,
    Saved,
    Started,
    Stepped,
)
from regard.training.recipe import Plan
from regard.training.schedules import schedule


@runtime_checkable
class Batch(Protocol):
    """What a task makes of examples; the loop only counts it and moves it."""

    @property
    def tokens(self) -> int:
        """How many tokens its loss is the sum over."""

    @property
    def padding(self) -> float:
        """The share of its target side that is padding."""

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""


class Metrics(NamedTuple):
    """Metrics by name on held-out examples, the one that decides, and some examples with outputs.

    The deciding number says which checkpoint is the best: a larger one is better.
    """

    values: Mapping[str, float]
    deciding: float
    samples: tuple[Mapping[str, str], ...] = ()


@runtime_checkable
class Task(Protocol):
    """What the loop needs to know of the work: it knows neither text nor translation itself."""

    def batches(self) -> Batches:
        """The training examples, in batches without end."""

    def collate(self, examples: list[Example]) -> Batch:
        """The tensors of some examples."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The sum of the losses of the batch's tokens."""

    def evaluate(self, model: nn.Module) -> Metrics:
        """How good the model is on held-out examples."""


@runtime_checkable
class Remembers(Protocol):
    """A task with something to remember from step to step, beside the weights."""

    def state(self) -> Mapping[str, Any]:
        """What it remembers, as JSON types."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with what it remembered."""


class _Lesson(nn.Module):
    """A model with its task: what is run forward, and shared among processes, is the loss."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model = model
        self._task = task

    def forward(self, batch: Batch) -> Tensor:
        return self._task.loss(self.model, batch)


@dataclass
class _Standing:
    """How far training is: steps, the best score, and evaluations since it was reached."""

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    stale: int = 0


class Loop:
    """Trains a model on a task by a plan, with checkpoints in a folder that it goes on from."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        plan: Plan,
        folder: Path,
        ranks: World,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.model, self.task, self.plan, self.ranks = model.to(ranks.device), task, plan, ranks
        self.folder, self.callbacks = folder / "checkpoints", callbacks
        self.lesson = shared(_Lesson(self.model, task), ranks, plan.sharing)
        self.optimizer = torch.optim.AdamW(
            _groups(self.lesson, plan.weight_decay),
            lr=plan.rate,
            betas=plan.betas,
            fused=plan.sharing == "ddp",
        )
        self.rate = schedule(plan.schedule, plan.warmup, plan.steps)
        self.standing = _Standing()
        self.data = task.batches()
        self._asked: list[int] = []  # signals that came

    def run(self) -> Ended:
        """Train until the plan is done, and say why it ended."""
        self._resume()
        self._tell(Started(self.model, self.standing.step, self.plan.steps))
        with (
            deferred_interrupts(self._asked),
            self.ranks.report_lost_process(self._newest),
            compiled(self.model, wanted=self.plan.compile),
        ):
            reason = self._train()
        return Ended(self.standing.step, reason)

    def _newest(self) -> int:
        """The step of the newest checkpoint, 0 if there is none."""
        found = checkpoints(self.folder)
        return load_checkpoint(found[-1]).step if found else 0

    def _train(self) -> Reason:
        stream, begin = iter(self.data), time.monotonic()
        self.lesson.train()
        while self.standing.step < self.plan.steps:
            self._step(stream)
            step = self.standing.step
            due = step % self.plan.evaluate_every == 0 or step == self.plan.steps
            if due:
                self._evaluate()
            late = time.monotonic() - begin > 60 * self.plan.minutes
            stop = self.ranks.any(bool(self._asked) or late)
            if due or stop or step % self.plan.save_every == 0:
                self._save()
            if stop:
                return "interrupted" if self._asked else "out of time"
            if due and self.plan.patience and self.standing.stale >= self.plan.patience:
                return "stopped early"
        return "done"

    def _step(self, stream: Iterator[list[Example]]) -> None:
        start = time.monotonic()
        batches = [self._batch(next(stream)) for _ in range(self.plan.accumulate)]
        tokens = sum(self.ranks.sum(*(float(batch.tokens) for batch in batches)))
        total = torch.zeros((), device=self.ranks.device)
        for number, batch in enumerate(batches):
            with (
                defer_gradient_sync(self.lesson, last=number == len(batches) - 1),
                self._precision(),
            ):
                loss = self.lesson(batch)
            # processes' gradients are averaged: the mean over all tokens is their sum over it
            (loss * (self.ranks.size / tokens)).backward()
            total += loss.detach()
        step = self.standing.step + 1
        norm = nn.utils.clip_grad_norm_(self.lesson.parameters(), self.plan.clip or math.inf)
        mean = self._checked(self.ranks.sum(total.item())[0] / tokens, step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate * self.rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.standing.step = step
        padding = sum(batch.padding for batch in batches) / len(batches)
        self._tell(
            Stepped(
                step,
                mean,
                int(tokens),
                padding,
                self.plan.rate * self.rate(step),
                float(norm),
                time.monotonic() - start,
            )
        )

    def _batch(self, examples: list[Example]) -> Batch:
        mine = share(examples, self.ranks.rank, self.ranks.size)
        # a process without an example of its own runs one for nothing: all must take part
        batch = self.task.collate(mine or examples[:1])
        return batch.to(self.ranks.device)

    def _precision(self) -> Any:
        wanted = self.plan.precision == "bfloat16"
        return torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=wanted)

    def _checked(self, loss: float, step: int) -> float:
        if not math.isfinite(loss):
            raise NotFiniteError(
                f"the loss of step {step} is {loss}; the last checkpoint is as it was: go on from "
                "it with a lower rate, a longer warm-up or a smaller clip"
            )
        return loss

    def _evaluate(self) -> None:
        self.lesson.eval()
        with torch.no_grad(), gather_weights(self.lesson):
            metrics = self.task.evaluate(self.model)
        self.lesson.train()
        standing, better = self.standing, metrics.deciding > self.standing.best
        standing.stale = 0 if better else standing.stale + 1
        if better:
            standing.best, standing.best_step = metrics.deciding, standing.step
        self._tell(Evaluated(standing.step, metrics.values, metrics.samples, better, self.model))

    def _save(self) -> None:
        weights, optimizer = gather_state(self.lesson, self.optimizer)
        if self.ranks.is_first:
            tensors, plain = flattened(optimizer)
            place = {"epoch": self.data.place.epoch, "batch": self.data.place.batch}
            state = {
                "standing": vars(self.standing),
                "place": place,
                "optimizer": plain,
                "generators": generators(),
                "task": self.task.state() if isinstance(self.task, Remembers) else {},
            }
            path = save_checkpoint(
                Checkpoint(self.standing.step, _named(weights), tensors, state), self.folder
            )
            best = self.folder / f"step-{self.standing.best_step:08d}"
            forget(self.folder, self.plan.keep, spared=[best])
            self._tell(Saved(self.standing.step, path))
        self.ranks.barrier()

    def _resume(self) -> None:
        found = checkpoints(self.folder)
        if not found:
            return
        checkpoint = load_checkpoint(found[-1])
        if checkpoint.step > self.plan.steps:
            raise InputError(
                f"the folder {str(self.folder)!r} holds {checkpoint.step} steps, more than the "
                f"{self.plan.steps} of the recipe; raise its steps or name another folder"
            )
        state = checkpoint.state
        weights = {f"model.{name}": each for name, each in checkpoint.model.items()}
        optimizer = restored(checkpoint.optimizer, state["optimizer"])
        scatter_state(self.lesson, self.optimizer, weights, optimizer)
        self.standing = _Standing(**state["standing"])
        self.data.go_to(Place(**state["place"]))
        if isinstance(self.task, Remembers) and state.get("task"):
            self.task.restore(state["task"])
        torch.set_rng_state(torch.tensor(state["generators"], dtype=torch.uint8))

    def _tell(self, event: Event) -> None:
        if self.ranks.is_first:
            for callback in self.callbacks:
                callback(event)


def _named(weights: Mapping[str, Tensor]) -> Tensors:
    """The weights by the names that they have in the model itself; each storage once."""
    seen: set[tuple[int, int]] = set()
    kept: Tensors = {}
    for name, each in weights.items():
        place = (each.data_ptr(), each.numel())
        if place not in seen or each.numel() == 0:
            kept[name.removeprefix("module.").removeprefix("model.")] = each
        seen.add(place)
    return kept


def _groups(module: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not."""
    learned = [each for each in module.parameters() if each.requires_grad]
    return [
        {"params": [each for each in learned if each.dim() > 1], "weight_decay": decay},
        {"params": [each for each in learned if each.dim() <= 1], "weight_decay": 0.0},
    ]
