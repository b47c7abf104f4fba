"""Make the training data of the matcher `knowledge-zh` from the files of NLPCC 2016 KBQA.

    python recipes/knowledge/prepare.py NLPCC-KBQA-FOLDER OUT-FOLDER

The folder has kb.tsv.gz (subject, relation, object) and train and dev .jsonl.gz (question, subject,
relation). Each question becomes a line with its subject masked, its relation, and wrong relations:
the others of its subject, and those of the base that share most characters with the question.
"""

import gzip
import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

from regard.tasks.knowledge.normalise import mask_span, normalise, normalise_entry

NEGATIVES = 12  # relations that share characters with a question


def subject_span(question: str, subject: str) -> tuple[int, int] | None:
    """The characters of the question that name the subject: the longest stretch of its name."""
    text, name = normalise(question), normalise(subject).text
    best = (0, 0)
    for start in range(len(text.text)):
        stop = start
        while stop < len(text.text) and text.text[start : stop + 1] in name:
            stop += 1
        best = max(best, (stop - start, -start))
    length, start = best[0], -best[1]
    return text.span(start, start + length) if length >= min(2, len(name)) > 0 else None


class SharedCharacters:
    """Finds the relations that share most characters with a question, rare ones counting more."""

    def __init__(self, relations: list[str]) -> None:
        self.relations = relations
        self.by_character = defaultdict(list)
        for relation in relations:
            for character in set(relation):
                self.by_character[character].append(relation)
        self.weight = {
            character: math.log(1 + len(relations) / len(own))
            for character, own in self.by_character.items()
        }

    def __call__(self, question: str) -> list[str]:
        """The relations that share most characters with a question, best first."""
        scores: Counter[str] = Counter()
        for character in set(question) & self.by_character.keys():
            for relation in self.by_character[character]:
                scores[relation] += self.weight[character] / math.sqrt(len(relation) + 1)
        return [relation for relation, _ in scores.most_common(NEGATIVES)]


def main(folder: Path, out: Path) -> None:
    """Write train.jsonl and dev.jsonl."""
    relations = defaultdict(list)
    with gzip.open(folder / "kb.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            subject, relation, _ = line.rstrip("\n").split("\t")
            relations[subject].append(normalise_entry(relation))
    similar = SharedCharacters(sorted({each for own in relations.values() for each in own}))
    out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev"):
        source = folder / f"{split}.jsonl.gz"
        with (
            gzip.open(source, "rt", encoding="utf-8") as rows,
            (out / f"{split}.jsonl").open("w", encoding="utf-8") as target,
        ):
            for line in rows:
                row = json.loads(line)
                asked, right = row["question"], normalise_entry(row["relation"])
                question = mask_span(asked, subject_span(asked, row["subject"]))
                wrong = dict.fromkeys([*relations[row["subject"]], *similar(question)])
                wrong.pop(right, None)
                record = {"question": question, "right": right, "wrong": list(wrong)}
                target.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
