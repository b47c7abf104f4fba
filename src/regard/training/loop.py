"""The training loop: steps of the optimiser, evaluations and checkpoints, reported as events.

`Loop` knows nothing about text. A task (see `Task`) gives it batches, turns them into tensors, and
computes the loss and the metrics. The path of one step: `Batches` -> `_batch` (this process's part,
as tensors on its device) -> the loss of each of `plan.accumulate` batches and its gradient ->
clipping -> the optimiser -> the event `Stepped`. In between, `_evaluate` and `_save` run as often
as the plan says.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import InputError, NotFiniteError
from regard.training.batches import Batches, Example, Place, process_share
from regard.training.checkpoints import (
    Checkpoint,
    Tensors,
    checkpoints,
    flatten_optimizer_state,
    load_checkpoint,
    random_state,
    remove_old_checkpoints,
    restore_optimizer_state,
    save_checkpoint,
    unusable_checkpoint,
)
from regard.training.contexts import compiled_model, deferred_interrupts
from regard.training.distribution import (
    World,
    defer_gradient_sync,
    distribute_module,
    gather_state,
    gather_weights,
    scatter_state,
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
    """The tensors of a batch as a task makes them; the loop only moves them and counts tokens."""

    @property
    def tokens(self) -> int:
        """The number of tokens over which the loss is summed."""

    @property
    def padding(self) -> float:
        """The share of the target side that is padding."""

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device."""


class Metrics(NamedTuple):
    """Metrics by name on held-out examples, and some of these examples with the model's outputs.

    The checkpoint with the largest `deciding` number is the best.
    """

    values: Mapping[str, float]
    deciding: float
    samples: tuple[Mapping[str, str], ...] = ()


@runtime_checkable
class Task(Protocol):
    """The methods of a task that the loop calls."""

    def batches(self) -> Batches:
        """The training examples as an endless stream of batches."""

    def collate(self, examples: list[Example]) -> Batch:
        """The tensors of some examples."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The sum of the losses of all tokens of the batch."""

    def evaluate(self, model: nn.Module) -> Metrics:
        """The metrics of the model on held-out examples."""


@runtime_checkable
class StatefulTask(Protocol):
    """A task with a state that changes from step to step and is stored in checkpoints."""

    def state(self) -> Mapping[str, Any]:
        """The state as JSON types."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the state of a checkpoint."""


class _LossModule(nn.Module):
    """A module whose forward pass is the task's loss of a model.

    DDP and FSDP2 have to wrap the module whose forward pass computes the loss.
    """

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model = model
        self._task = task

    def forward(self, batch: Batch) -> Tensor:
        return self._task.loss(self.model, batch)


@dataclass
class _Progress:
    """The progress of training: steps, the best metric, and `stale`, the evaluations since then."""

    step: int = 0
    best: float = -math.inf
    best_step: int = 0
    stale: int = 0


class Loop:
    """Trains a model on a task by a plan; resumes from the newest checkpoint in the folder."""

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
        self.loss_module = distribute_module(_LossModule(self.model, task), ranks, plan.sharing)
        self.optimizer = torch.optim.AdamW(
            _parameter_groups(self.loss_module, plan.weight_decay),
            lr=plan.rate,
            betas=plan.betas,
            fused=plan.sharing == "ddp",
        )
        self.rate = schedule(plan.schedule, plan.warmup, plan.steps)
        self.progress = _Progress()
        self.data = task.batches()
        self._signals: list[int] = []  # Ctrl-C or SIGTERM, recorded by `deferred_interrupts`

    def run(self) -> Ended:
        """Train until the plan is done or interrupted; the returned event says why it ended."""
        self._resume()
        self._report(Started(self.model, self.progress.step, self.plan.steps))
        with (
            deferred_interrupts(self._signals),
            self.ranks.report_lost_process(self._newest),
            compiled_model(self.model, enabled=self.plan.compile),
        ):
            reason = self._train()
        return Ended(self.progress.step, reason)

    def _newest(self) -> int:
        """The step of the newest checkpoint, 0 if there is none."""
        folders = checkpoints(self.folder)
        return load_checkpoint(folders[-1]).step if folders else 0

    def _train(self) -> Reason:
        """Step until the last step, an interrupt, the time limit or early stopping."""
        stream, begin = iter(self.data), time.monotonic()
        self.loss_module.train()
        while self.progress.step < self.plan.steps:
            self._step(stream)
            step = self.progress.step
            evaluates = step % self.plan.evaluate_every == 0 or step == self.plan.steps
            if evaluates:
                self._evaluate()
            out_of_time = time.monotonic() - begin > 60 * self.plan.minutes
            # All processes have to stop at the same step, or the others would wait forever.
            stop = self.ranks.any(bool(self._signals) or out_of_time)
            if evaluates or stop or step % self.plan.save_every == 0:
                self._save()
            if stop:
                return "interrupted" if self._signals else "out of time"
            if evaluates and self.plan.patience and self.progress.stale >= self.plan.patience:
                return "stopped early"
        return "done"

    def _step(self, stream: Iterator[list[Example]]) -> None:
        """One step of the optimiser, over `accumulate` batches."""
        start = time.monotonic()
        batches = [self._batch(next(stream)) for _ in range(self.plan.accumulate)]
        tokens = sum(self.ranks.sum(*(float(batch.tokens) for batch in batches)))
        total = torch.zeros((), device=self.ranks.device)
        for number, batch in enumerate(batches):
            with (
                defer_gradient_sync(self.loss_module, last=number == len(batches) - 1),
                self._precision(),
            ):
                loss = self.loss_module(batch)
            # DDP averages gradients over processes. Times their number it is the sum; divided by
            # the tokens of all processes it is the gradient of the mean loss.
            (loss * (self.ranks.size / tokens)).backward()
            total += loss.detach()
        step = self.progress.step + 1
        norm = nn.utils.clip_grad_norm_(self.loss_module.parameters(), self.plan.clip or math.inf)
        mean = self._check_loss(self.ranks.sum(total.item())[0] / tokens, step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate * self.rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step = step
        padding = sum(batch.padding for batch in batches) / len(batches)
        self._report(
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
        """This process's part of a batch, on its device."""
        own_part = process_share(examples, self.ranks.rank, self.ranks.size)
        # With fewer examples than processes, an example is used twice: all must exchange gradients.
        batch = self.task.collate(own_part or examples[:1])
        return batch.to(self.ranks.device)

    def _precision(self) -> Any:
        """Autocast to bfloat16 if the plan says so."""
        enabled = self.plan.precision == "bfloat16"
        return torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=enabled)

    def _check_loss(self, loss: float, step: int) -> float:
        """The loss itself; a NotFiniteError if it is infinite or not a number."""
        if not math.isfinite(loss):
            raise NotFiniteError(
                f"the loss of step {step} is {loss}; the last checkpoint is as it was: go on from "
                "it with a lower rate, a longer warm-up or a smaller clip"
            )
        return loss

    def _evaluate(self) -> None:
        """Compute the metrics on held-out examples, and record whether they are the best."""
        self.loss_module.eval()
        with torch.no_grad(), gather_weights(self.loss_module):
            metrics = self.task.evaluate(self.model)
        self.loss_module.train()
        progress, better = self.progress, metrics.deciding > self.progress.best
        progress.stale = 0 if better else progress.stale + 1
        if better:
            progress.best, progress.best_step = metrics.deciding, progress.step
        self._report(Evaluated(progress.step, metrics.values, metrics.samples, better, self.model))

    def _save(self) -> None:
        """Write a checkpoint, and remove old ones."""
        weights, optimizer = gather_state(self.loss_module, self.optimizer)
        if self.ranks.is_first:
            tensors, plain = flatten_optimizer_state(optimizer)
            place = {"epoch": self.data.place.epoch, "batch": self.data.place.batch}
            # The keys are part of the checkpoint format.
            state = {
                "standing": vars(self.progress),
                "place": place,
                "optimizer": plain,
                "generators": random_state(),
                "task": self.task.state() if isinstance(self.task, StatefulTask) else {},
            }
            path = save_checkpoint(
                Checkpoint(self.progress.step, _model_weights(weights), tensors, state), self.folder
            )
            self._remove_old_checkpoints()
            self._report(Saved(self.progress.step, path))
        self.ranks.barrier()

    def _remove_old_checkpoints(self) -> None:
        """Remove all checkpoints but the newest ones and the best one."""
        best = self.folder / f"step-{self.progress.best_step:08d}"
        remove_old_checkpoints(self.folder, self.plan.keep, spared=[best])

    def _resume(self) -> None:
        """Continue from the newest checkpoint, if there is one."""
        folders = checkpoints(self.folder)
        if not folders:
            return
        checkpoint = load_checkpoint(folders[-1])
        if checkpoint.step > self.plan.steps:
            raise InputError(
                f"the folder {str(self.folder)!r} holds {checkpoint.step} steps, more than the "
                f"{self.plan.steps} of the recipe; raise its steps or name another folder"
            )
        try:
            self._restore(checkpoint)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
            # The model of the recipe has other sizes, or the files were damaged.
            raise unusable_checkpoint(folders[-1], error) from error

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Take over the weights and the whole state of a checkpoint."""
        state = checkpoint.state
        model_weights = _name_shared_weights(checkpoint.model, self.model)
        weights = {f"model.{name}": tensor for name, tensor in model_weights.items()}
        optimizer = restore_optimizer_state(checkpoint.optimizer, state["optimizer"], weights)
        scatter_state(self.loss_module, self.optimizer, weights, optimizer)
        self.progress = _Progress(**state["standing"])
        self.data.resume_at(Place(**state["place"]))
        if isinstance(self.task, StatefulTask) and state.get("task"):
            self.task.restore(state["task"])
        torch.set_rng_state(torch.tensor(state["generators"], dtype=torch.uint8))
        if self.ranks.is_first:  # the process before may have been killed before it could
            self._remove_old_checkpoints()

    def _report(self, event: Event) -> None:
        """Call the callbacks, in the first process only."""
        if self.ranks.is_first:
            for callback in self.callbacks:
                callback(event)


def _model_weights(weights: Mapping[str, Tensor]) -> Tensors:
    """The weights by their names in the model itself; a shared tensor is stored once."""
    seen: set[tuple[int, int]] = set()
    stored: Tensors = {}
    for name, tensor in weights.items():
        memory = (tensor.data_ptr(), tensor.numel())
        if memory not in seen or tensor.numel() == 0:
            # "module." is the prefix of DDP, "model." that of `_LossModule`.
            stored[name.removeprefix("module.").removeprefix("model.")] = tensor
        seen.add(memory)
    return stored


def _name_shared_weights(stored: Tensors, model: nn.Module) -> Tensors:
    """The weights of a checkpoint under all names; a parameter with two names is stored once."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    weights = dict(stored)
    for shared in names.values():
        known = [name for name in shared if name in stored]
        weights |= {name: stored[known[0]] for name in shared if known and name not in stored}
    return weights


def _parameter_groups(module: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Parameter groups of the optimiser: weight decay for matrices, none for biases and norms."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
