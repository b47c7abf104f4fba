"""Train the sentence encoder `faq-en`: a low-rank adapter of trunk-en that ranks answers.

    python recipes/knowledge/train_faq.py INSURANCEQA-FOLDER OUT-MODEL

The first FROZEN layers are not trained, so their states are computed once for every text. Each step
takes some questions, one right answer of each and wrong ones that BM25 finds for it; the loss is
the cross-entropy of the right answer among all answers of the batch, by nearness
(`regard.models.nearness`). Steps are few, because the trunk knows already what is near.
"""

import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from faq import read
from torch import Tensor

from regard.masks import padding
from regard.models import from_pretrained
from regard.models.low_rank import add_low_rank
from regard.models.nearness import TextStates, nearness, text_states
from regard.tasks.knowledge.answers import RANKED
from regard.tasks.knowledge.base import open_base
from regard.tasks.knowledge.sentences import LONGEST

RANK, FROZEN = 16, 4
STEPS, WARMUP, RATE = 200, 10, 1e-3
QUESTIONS, WRONG = 24, 2  # of a batch; wrong answers of each question, besides those of the others
SHARPNESS = 16.0  # of nearness, whose values lie close together
AT_ONCE = 64  # texts that the frozen layers read together


class FrozenStates:
    """The states of texts after the frozen layers, computed when they are first needed."""

    def __init__(self, model: Any) -> None:
        self.model, self.known = model, dict[str, Tensor]()

    @torch.no_grad()
    def add(self, texts: list[str]) -> None:
        """Compute the states of these texts, those of equal length together."""
        encoding = self.model.tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
        by_length: dict[int, list[int]] = {}
        for number, ids in enumerate(encoding):
            by_length.setdefault(len(ids), []).append(number)
        for numbers in by_length.values():
            for start in range(0, len(numbers), AT_ONCE):
                part = numbers[start : start + AT_ONCE]
                ids = torch.tensor([encoding[number] for number in part])
                with torch.autocast("cpu", torch.bfloat16):
                    states = self.model.encoder.embeddings(ids)
                    for layer in self.model.encoder.layers[:FROZEN]:
                        states = layer(states)[0]
                for number, own in zip(part, states.half(), strict=True):
                    self.known[texts[number]] = own

    def finish(self, texts: list[str]) -> TextStates:
        """What the layers that are trained make of some texts."""
        rows = [self.known[text] for text in texts]
        states = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).float()
        lengths = torch.tensor([len(row) for row in rows])
        real = torch.arange(states.shape[1]) < lengths[:, None]
        mask = None if bool(real.all()) else padding(real)
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.model.encoder.layers[FROZEN:]:
                states = layer(states, mask)[0]
        return text_states(states.float(), real)


def train(model: Any, states: FrozenStates, rows: list[tuple[str, list[str], list[str]]]) -> None:
    """Train the adapter on questions with right and wrong answers."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, RATE, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, STEPS, WARMUP / STEPS, anneal_strategy="cos", cycle_momentum=False
    )
    generator = random.Random(1)
    order: list[int] = []
    begin, mean = time.monotonic(), 0.0
    for step in range(1, STEPS + 1):
        if len(order) < QUESTIONS:
            order = generator.sample(range(len(rows)), len(rows))
        batch = [rows[order.pop()] for _ in range(QUESTIONS)]
        right = [generator.choice(each[1]) for each in batch]
        wrong = [text for each in batch for text in generator.sample(each[2], WRONG)]
        texts = list(dict.fromkeys([*right, *wrong]))
        scores = SHARPNESS * nearness(
            states.finish([each[0] for each in batch]), states.finish(texts)
        )
        # another right answer of a question is not a wrong one
        other = [
            [t in each[1] and t != own for t in texts]
            for each, own in zip(batch, right, strict=True)
        ]
        scores = scores.masked_fill(torch.tensor(other), float("-inf"))
        target = torch.tensor([texts.index(text) for text in right])
        loss = torch.nn.functional.cross_entropy(scores, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        mean = loss.item() if step == 1 else 0.95 * mean + 0.05 * loss.item()
        if step % 20 == 0:
            print(f"{step} loss {mean:.3f}, {time.monotonic() - begin:.0f} s", flush=True)


def main(folder: Path, out: Path) -> None:
    """Train and store the adapter."""
    torch.manual_seed(1)
    texts = {each["id"]: each["text"].strip() for each in read(folder / "answers.jsonl.gz")}
    base = open_base(folder / "answers.jsonl.gz")
    questions, rows = read(folder / "train.jsonl.gz"), []
    for row in random.Random(1).sample(questions, len(questions)):
        right = [texts[each] for each in row["answer_ids"]]
        found = [base.entry(n).passage for n, _ in base.search(row["question"], RANKED)]
        wrong = [text for text in found if text not in right]
        if len(wrong) >= WRONG:
            rows.append((row["question"], right, wrong))
    model = from_pretrained("trunk-en")
    states = FrozenStates(model)
    needed = {text for question, right, wrong in rows for text in (question, *right, *wrong)}
    states.add(sorted(needed))
    add_low_rank(model, RANK, frozen=FROZEN)
    train(model, states, rows)
    model.save_pretrained(out, stored="int8", base="trunk-en")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
