"""Samples the corpus of the recipe `stories` from a larger language model, the teacher.

    python recipes/stories/sample.py stories15M --to recipes/stories/corpus --parts 60

The teacher is stories15M, a Llama of 15 million weights trained on TinyStories (karpathy/llama2.c,
MIT licence), in the layout of Hugging Face. The corpus is sampled in parts. The seeds of a part
follow from its number, and its file is written completely or not at all. Parts that exist are not
sampled again, so an interrupted run continues where it stopped, and two processes can share the
work (`--parts 30` and `--first 30 --parts 30`). Stories that do not end within the teacher's
context are left out. Part 0 becomes dev.txt, part 1 test.txt, the others train.txt.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import torch

import regard
from regard.files import atomic_file

STORIES = 512  # stories sampled for a part, including those that do not end and are left out
ROWS = 128  # stories sampled in one batch
SETTINGS = {"do_sample": True, "temperature": 1.0, "top_k": 100, "max_new_tokens": 255}


def stories(model: regard.Transformer, part: int) -> Iterator[str]:
    """The finished stories of a part, with a single line break between paragraphs."""
    start = torch.full((ROWS, 1), model.tokenizer.bos_token_id)
    for batch in range(STORIES // ROWS):
        sequences = model.generate(start, seed=part * STORIES + batch, **SETTINGS)
        for ids in sequences:
            # A story that filled all new tokens was cut off before its end.
            if len(ids) <= SETTINGS["max_new_tokens"]:
                text = model.tokenizer.decode(ids, skip_special_tokens=True)
                yield "\n".join(line.strip() for line in text.splitlines() if line.strip())


def write(path: Path, text: str) -> None:
    """Write a file completely or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def gather(folder: Path) -> None:
    """Join the existing parts into dev.txt, test.txt and train.txt."""
    parts = sorted(folder.glob("part-*.txt"))
    for name, paths in {"dev": parts[:1], "test": parts[1:2], "train": parts[2:]}.items():
        texts = [path.read_text(encoding="utf-8") for path in paths]
        write(folder / f"{name}.txt", "\n".join(texts))
        print(f"{name}.txt: {sum(map(len, texts)):,} characters")


def main() -> None:
    """Sample the parts that are missing, then join all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("teacher", help="the folder of stories15M")
    parser.add_argument("--to", type=Path, required=True, help="where the corpus goes")
    parser.add_argument("--first", type=int, default=0, help="the first part [0]")
    parser.add_argument("--parts", type=int, default=60, help="how many parts [60]")
    parser.add_argument("--threads", type=int, help="threads of torch")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    model = regard.from_pretrained(args.teacher).eval()
    args.to.mkdir(parents=True, exist_ok=True)
    numbers = range(args.first, args.first + args.parts)
    paths = [args.to / f"part-{number:04d}.txt" for number in numbers]
    missing = [path for path in paths if not path.exists()]
    start_time = monotonic()
    for done, path in enumerate(missing, start=1):
        write(path, "\n\n".join(stories(model, int(path.stem[5:]))) + "\n")
        left = (monotonic() - start_time) / done * (len(missing) - done)
        print(f"{done} of {len(missing)} parts, {left / 60:.0f} minutes left", file=sys.stderr)
    gather(args.to)


if __name__ == "__main__":
    main()
