"""How likely the teacher finds stories: those of the student beside its own.

    python recipes/stories/judge.py stories15M stories --own recipes/stories/corpus/test.txt

The student tells 100 stories, drawn as the teacher's were. Each text is read by the teacher, and
the loss is the mean of -ln p over its tokens, in nats, all stories together.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.nn import functional as F

import regard
from regard.training.corpora import texts

SETTINGS = {"do_sample": True, "temperature": 1.0, "top_k": 100, "max_new_tokens": 319}


def generate_stories(model: regard.Transformer, count: int, seed: int) -> list[str]:
    """Stories that the model generates from the start token alone."""
    start = torch.full((count, 1), model.tokenizer.bos_token_id)
    written = model.generate(start, seed=seed, **SETTINGS)
    return [model.tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in written]


@torch.no_grad()
def loss(teacher: regard.Transformer, stories: Sequence[str], most: int = 256) -> float:
    """The teacher's mean loss of a token, within its context."""
    total, tokens = 0.0, 0
    for story in stories:
        ids = [teacher.tokenizer.bos_token_id]
        ids += teacher.tokenizer.encode(story, add_special_tokens=False)
        read = torch.tensor([ids[:most]])
        logits = teacher(read[:, :-1])
        total += float(F.cross_entropy(logits[0], read[0, 1:], reduction="sum"))
        tokens += read.shape[1] - 1
    return total / tokens


def main() -> None:
    """Print both losses, and the first stories of the student."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("teacher", help="the folder of stories15M")
    asked.add_argument("student", help="a shipped name or a folder")
    asked.add_argument("--own", type=Path, required=True, help="stories of the teacher")
    asked.add_argument("--count", type=int, default=100, help="stories of each [100]")
    asked.add_argument("--seed", type=int, default=0)
    args = asked.parse_args()
    teacher = regard.from_pretrained(args.teacher).eval()
    found = generate_stories(regard.from_pretrained(args.student).eval(), args.count, args.seed)
    own = [text for text, _ in zip(texts(args.own), range(args.count), strict=False)]
    print(
        f"the teacher's loss of a token: {loss(teacher, found):.3f} on the student's stories, "
        f"{loss(teacher, own):.3f} on its own"
    )
    print("\n\n".join(found[:3]))


if __name__ == "__main__":
    main()
