"""Run by torchrun in tests: surveys the texts in some processes, and writes what all have found."""

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

from regard.studies.survey import run as module
from regard.studies.survey.files import to_json
from regard.studies.survey.run import survey
from studies.survey.models import TEXTS, reader, tokenizer


def main(folder: str, stopping: str, dying: str) -> None:
    module.PORTION = 5
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def told(done: int) -> bool:
        if rank == 1 and int(dying) and done >= int(dying):
            os._exit(9)
        return rank == 1 and 0 < int(stopping) <= done

    state = Path(folder, "state")
    try:
        found = survey(reader(), tokenizer(), TEXTS * 3, batch=17, state=state, on_progress=told)
        Path(folder, f"found-{rank}.json").write_text(json.dumps(to_json(found)))
    except KeyboardInterrupt:
        Path(folder, f"stopped-{rank}").touch()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
