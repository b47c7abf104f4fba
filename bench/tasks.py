"""Speed of `classify` and `answer` against transformers' pipelines, with the same weights.

The models have random weights and the size of MiniLM (Wang et al. 2020: 6 layers of width 384), and
are saved as folders of Hugging Face, which both sides load. Nothing is traced. The texts of a batch
of classify have different lengths, as reviews have; those of answer are equally long, so that
neither side can gain by padding less. transformers 5 has no pipeline for question answering: there
the steps of that pipeline are written out as `transformers`.
"""

import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import regard
from bench.measure import OURS, Contender, Effort, Row, Table, Target, compare, time_rows
from regard.loading import LoadedModel

PIPELINE, STEPS = "pipeline", "transformers"
MINILM = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_VOCABULARY = 8000
_REVIEW = (8, 120)  # words of the shortest and the longest text that is classified
_CONTEXT, _QUESTION = 120, 8  # words
_LONGEST = 48  # tokens of an answer, as regard searches
_AS_FAST = Target(1.0)

Answers = tuple[Tensor, Tensor]  # probabilities; first and last characters


def words(count: int = _VOCABULARY) -> list[str]:
    """Made-up words, each a token of its own."""
    letters, generator = "abcdefghijklmnopqrstuvwxyz", random.Random(0)
    made = dict[str, None]()
    while len(made) < count:
        made["".join(generator.choices(letters, k=generator.randint(3, 8)))] = None
    return [*made]


def write_model(folder: Path, kind: str, sizes: Mapping[str, int]) -> None:
    """Save a random BERT for this kind of task, with its tokenizer, as Hugging Face does."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    transformers: Any = import_module("transformers")  # its types are those of one version
    vocabulary = {word: number for number, word in enumerate((*_SPECIAL, *words()))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=_SPECIAL[1]))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(
        ("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"])
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=512,
        **dict(zip(names, _SPECIAL, strict=True)),
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(vocabulary), **sizes)
    model = getattr(transformers, f"BertFor{kind}")(config)
    # wide logits, so that one class or span is clearly the best
    torch.nn.init.normal_([*model.children()][-1].weight, std=0.5)
    model.save_pretrained(folder)


def reviews(count: int) -> list[str]:
    """Texts of different lengths; a single one is of middle length."""
    generator, known = random.Random(1), words()
    least, most = _REVIEW if count > 1 else (sum(_REVIEW) // 2,) * 2
    return [
        " ".join(generator.choices(known, k=generator.randint(least, most))) for _ in range(count)
    ]


def questions(count: int) -> list[tuple[str, str]]:
    """Questions with texts, all equally long."""
    generator, known = random.Random(2), words()
    return [
        (
            " ".join(generator.choices(known, k=_QUESTION)),
            " ".join(generator.choices(known, k=_CONTEXT)),
        )
        for _ in range(count)
    ]


def class_contenders(folder: Path, count: int) -> dict[str, Contender]:
    """The probability of the best label of each text."""
    from transformers import pipeline

    loaded, texts = regard.load(folder, device="cpu"), reviews(count)
    theirs = pipeline("text-classification", model=str(folder), device="cpu")

    def by_ours() -> Tensor:
        return torch.tensor([each.score for each in regard.classify(texts, loaded, trace=False)])

    def by_pipeline() -> Tensor:
        return torch.tensor([each["score"] for each in theirs(texts, batch_size=count)])

    return {OURS: by_ours, PIPELINE: by_pipeline}


def answer_contenders(folder: Path, count: int) -> dict[str, Contender]:
    """The probability and the place of the best answer to each question."""
    loaded, pairs = regard.load(folder, device="cpu"), questions(count)
    return {
        OURS: partial(answer_by_ours, loaded, pairs),
        **_pipeline_of_answers(folder, pairs),
        STEPS: partial(answer_by_steps, *_reader_of_transformers(folder), pairs),
    }


def answer_by_ours(loaded: LoadedModel, pairs: Sequence[tuple[str, str]]) -> Answers:
    """The best answers of regard; "no answer" takes part in the normalising, as in the pipeline."""
    asked, contexts = [first for first, _ in pairs], [second for _, second in pairs]
    results = regard.answer(asked, contexts, loaded, trace=False)
    best = (next(each for each in result.candidates if each.span) for result in results)
    return _answers((each.score, *(each.span or ())) for each in best)


def answer_by_steps(tokenizer: Any, model: Any, pairs: Sequence[tuple[str, str]]) -> Answers:
    """What the pipeline of transformers 4 did: probabilities of both ends, and their product."""
    encoding = tokenizer(
        [first for first, _ in pairs],
        [second for _, second in pairs],
        return_tensors="pt",
        padding=True,
        truncation="only_second",
        return_offsets_mapping=True,
    )
    offsets = encoding.pop("offset_mapping").tolist()
    output = model(**encoding)
    found = []
    for row, places in enumerate(offsets):
        outside = torch.tensor([part != 1 for part in encoding.sequence_ids(row)])
        outside[0] = False  # [CLS], which stands for "no answer"
        starts, ends = (
            logits[row].masked_fill(outside, -torch.inf).softmax(-1)
            for logits in (output.start_logits, output.end_logits)
        )
        starts[0] = ends[0] = 0.0
        products = torch.outer(starts, ends).triu().tril(_LONGEST - 1)
        best = int(products.argmax())
        first, last = divmod(best, len(places))
        found.append((float(products.flatten()[best]), places[first][0], places[last][1]))
    return _answers(found)


def _reader_of_transformers(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder), model.eval()


def _pipeline_of_answers(folder: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Contender]:
    """The pipeline, where transformers has it: before version 5."""
    pipelines: Any = import_module("transformers.pipelines")
    if "question-answering" not in pipelines.SUPPORTED_TASKS:
        return {}
    theirs = pipelines.pipeline("question-answering", model=str(folder), device="cpu")
    asked: dict[str, Any] = {
        "question": [first for first, _ in pairs],
        "context": [second for _, second in pairs],
    }
    settings = {"batch_size": len(pairs), "max_answer_len": _LONGEST}

    def by_pipeline() -> Answers:
        rows = theirs(**asked, **settings)
        rows = rows if isinstance(rows, list) else [rows]
        return _answers((row["score"], row["start"], row["end"]) for row in rows)

    return {PIPELINE: by_pipeline}


def _answers(rows: Any) -> Answers:
    """Scores and places of answers as tensors, which can be compared."""
    scores, starts, ends = zip(*rows, strict=True)
    return torch.tensor(scores), torch.tensor([starts, ends])


def speed_rows(
    kind: str,
    contenders: Callable[[Path, int], Mapping[str, Contender]],
    name: str,
    effort: Effort,
    sizes: Mapping[str, int] = MINILM,
) -> Iterator[Row]:
    """The time of one input and of 32 inputs in one call, against the peers."""
    with tempfile.TemporaryDirectory() as place:
        write_model(Path(place), kind, sizes)
        for count in (1, 32):
            sides = contenders(Path(place), count)
            timings = compare(sides, effort.repeats, seconds=5 * effort.seconds)
            what = f"{name}, {count} text{'s' if count > 1 else ''}"
            yield from time_rows(timings, what, {peer: _AS_FAST for peer in sides if peer != OURS})


TABLES = {
    "classify": Table(
        "classify against the pipeline of transformers, MiniLM's size",
        partial(speed_rows, "SequenceClassification", class_contenders, "classify"),
        1.0,
    ),
    "answer": Table(
        "answer against transformers, MiniLM's size",
        partial(speed_rows, "QuestionAnswering", answer_contenders, "answer"),
        1.0,
    ),
}
