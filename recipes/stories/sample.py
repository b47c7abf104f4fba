"""Samples the corpus of the recipe `stories` from a teacher that tells stories.

    python recipes/stories/sample.py stories15M --to recipes/stories/corpus --parts 60

The teacher is stories15M, a Llama of 15 million weights trained on TinyStories (karpathy/llama2.c,
MIT licence), in the layout of Hugging Face. Part n is drawn with seed n and written whole or not at
all; a part that is there is not drawn again, so that a run goes on where it was stopped and two
processes may share the work (`--parts 30` and `--first 30 --parts 30`). Stories that do not end
within the teacher's context are left out. Part 0 becomes dev.txt, part 1 test.txt, the others
train.txt.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import torch

import regard

STORIES = 512  # in a part, before those that do not end are left out
ROWS = 128  # written side by side
SETTINGS = {"do_sample": True, "temperature": 1.0, "top_k": 100, "max_new_tokens": 255}


def stories(model: regard.Transformer, part: int) -> Iterator[str]:
    """The stories of a part that end, their paragraphs parted by one line end."""
    start = torch.full((ROWS, 1), model.tokenizer.bos_token_id)
    for batch in range(STORIES // ROWS):
        written = model.generate(start, seed=part * STORIES + batch, **SETTINGS)
        for ids in written:
            if len(ids) <= SETTINGS["max_new_tokens"]:
                text = model.tokenizer.decode(ids, skip_special_tokens=True)
                yield "\n".join(line.strip() for line in text.splitlines() if line.strip())


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    aside = path.with_suffix(".part")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def gather(folder: Path) -> None:
    """Make the files of the recipe from the parts that are there."""
    parts = sorted(folder.glob("part-*.txt"))
    for name, chosen in {"dev": parts[:1], "test": parts[1:2], "train": parts[2:]}.items():
        texts = [each.read_text(encoding="utf-8") for each in chosen]
        write(folder / f"{name}.txt", "\n".join(texts))
        print(f"{name}.txt: {sum(map(len, texts)):,} characters")


def main() -> None:
    """Draw the parts that are missing, then gather all that are there."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("teacher", help="the folder of stories15M")
    asked.add_argument("--to", type=Path, required=True, help="where the corpus goes")
    asked.add_argument("--first", type=int, default=0, help="the first part [0]")
    asked.add_argument("--parts", type=int, default=60, help="how many parts [60]")
    asked.add_argument("--threads", type=int, help="threads of torch")
    args = asked.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    model = regard.from_pretrained(args.teacher).eval()
    args.to.mkdir(parents=True, exist_ok=True)
    names = [
        args.to / f"part-{each:04d}.txt" for each in range(args.first, args.first + args.parts)
    ]
    missing = [each for each in names if not each.exists()]
    begun = monotonic()
    for done, path in enumerate(missing, start=1):
        write(path, "\n\n".join(stories(model, int(path.stem[5:]))) + "\n")
        left = (monotonic() - begun) / done * (len(missing) - done)
        print(f"{done} of {len(missing)} parts, {left / 60:.0f} minutes left", file=sys.stderr)
    gather(args.to)


if __name__ == "__main__":
    main()
