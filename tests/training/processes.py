"""Run by torchrun in tests: trains the line in some processes, and writes the losses."""

import json
import os
import sys
from pathlib import Path

from regard.training.distribution import process_group
from regard.training.events import Event, Stepped
from regard.training.loop import Loop
from training.counting import Line, network, plan


def main(folder: str, sharing: str, steps: str, dying: str) -> None:
    model = network()
    model[2].p = 0.0  # chance differs between processes
    losses: list[float] = []
    with process_group("cpu") as ranks:

        def note(event: Event) -> None:
            if isinstance(event, Stepped):
                losses.append(event.loss)

        task = Line()
        if ranks.rank == 1 and int(dying):
            task.loss = _dying(task.loss, int(dying))  # type: ignore[method-assign]
        settings = plan(steps=int(steps), sharing=sharing, evaluate_every=1000)
        Loop(model, task, settings, Path(folder), ranks, [note]).run()
        if ranks.is_first:
            Path(folder, "losses.json").write_text(json.dumps(losses))


def _dying(loss, step):  # type: ignore[no-untyped-def]
    calls = []

    def wrapped(*args):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) == step:
            os._exit(9)
        return loss(*args)

    return wrapped


if __name__ == "__main__":
    main(*sys.argv[1:])
