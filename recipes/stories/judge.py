"""Compares the teacher's loss on stories of the student with its loss on its own stories.

    python recipes/stories/judge.py stories15M stories --own recipes/stories/corpus/test.txt

The student generates 100 stories, sampled with the temperature and top-k of the teacher's corpus.
The loss is the mean of -ln p over the tokens of all stories together, in nats, where p is the
probability that the teacher gives to a token.
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
    sequences = model.generate(start, seed=seed, **SETTINGS)
    return [model.tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in sequences]


@torch.no_grad()
def loss(teacher: regard.Transformer, stories: Sequence[str], most: int = 256) -> float:
    """The teacher's mean loss per token; a story is cut at `most` tokens, the teacher's context."""
    total, count = 0.0, 0
    for story in stories:
        ids = [teacher.tokenizer.bos_token_id]
        ids += teacher.tokenizer.encode(story, add_special_tokens=False)
        story_ids = torch.tensor([ids[:most]])
        logits = teacher(story_ids[:, :-1])
        total += float(F.cross_entropy(logits[0], story_ids[0, 1:], reduction="sum"))
        count += story_ids.shape[1] - 1
    return total / count


def main() -> None:
    """Print both losses, and the first stories of the student."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("teacher", help="the folder of stories15M")
    parser.add_argument("student", help="a shipped name or a folder")
    parser.add_argument("--own", type=Path, required=True, help="stories of the teacher")
    parser.add_argument("--count", type=int, default=100, help="stories of each [100]")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    teacher = regard.from_pretrained(args.teacher).eval()
    student_stories = generate_stories(
        regard.from_pretrained(args.student).eval(), args.count, args.seed
    )
    teacher_stories = [text for text, _ in zip(texts(args.own), range(args.count), strict=False)]
    on_student, on_own = loss(teacher, student_stories), loss(teacher, teacher_stories)
    print(
        f"the teacher's loss of a token: {on_student:.3f} on the student's stories, "
        f"{on_own:.3f} on its own"
    )
    print("\n\n".join(student_stories[:3]))


if __name__ == "__main__":
    main()
