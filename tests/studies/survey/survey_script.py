"""Run by torchrun in tests: surveys the texts in some processes, and writes what all have found."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from regard.studies.survey import run as module
from regard.studies.survey.files import to_json
from regard.studies.survey.run import survey
from studies.survey.models import TEXTS, UNEVEN, reader, tokenizer


def shard(model):
    """The model with its parameters split over the processes by FSDP2."""
    for layer in model.encoder.layers:
        fully_shard(layer)
    return fully_shard(model)


def main(folder: str, stopping: str, dying: str, sharded: str) -> None:
    module.PORTION = 5
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()

    def told(done: int) -> bool:
        if rank == 1 and int(dying) and done >= int(dying):
            os._exit(9)
        return rank == 1 and 0 < int(stopping) <= done

    state = Path(folder, "state")
    try:
        model = shard(reader()) if sharded else reader()
        texts = UNEVEN if sharded else TEXTS * 3
        found = survey(model, tokenizer(), texts, batch=17, state=state, on_progress=told)
        Path(folder, f"found-{rank}.json").write_text(json.dumps(to_json(found)))
    except KeyboardInterrupt:
        Path(folder, f"stopped-{rank}").touch()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
