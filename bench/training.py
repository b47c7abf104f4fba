"""Training speed in target tokens per second: our loop, JoeyNMT's, and a plain loop over Marian.

Each contender trains once over the same pairs, batching included, so that the ratio of times is the
ratio of tokens per second. The pairs are random with realistic lengths, or come from the TSV file
that REGARD_BENCH_PAIRS names. JoeyNMT is measured where it can be imported. It needs old packages:
install it in a virtual environment of its own that also sees this one's packages, and run the bench
there.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from bench.measure import OURS, Contender, Effort, Row, Table, Target, compare, time_rows
from regard.models import Recurrent, Transformer
from regard.training.batches import Batches, Example, padding_fraction
from regard.training.corpora import pairs as read_pairs
from regard.training.distribution import World
from regard.training.loop import Loop
from regard.training.recipe import Plan, Recipe
from regard.training.tasks import Translation

UNK, PAD, BOS, EOS = range(4)  # JoeyNMT's order
VOCAB, WIDTH, LAYERS, HEADS, WIDER = 8000, 256, 4, 4, 1024
TOKENS, SMOOTHING, DROPOUT, CLIP = 4096, 0.1, 0.1, 1.0

_JOEY, _MARIAN = "JoeyNMT, its own batches", "transformers' Marian, our batches"
_BATCHES = 6  # of about TOKENS in a pass


@cache
def corpus(tokens: int) -> list[Example]:
    """Pairs of ids with about `tokens` target tokens in all; each side has its end token."""
    named = os.environ.get("REGARD_BENCH_PAIRS")
    found, count = [], 0
    for pair in _real(named) if named else _made_up():
        found.append(pair)
        count += len(pair[1])
        if count >= tokens:
            break
    return found


def _made_up() -> Iterator[Example]:
    """Random pairs with the lengths of short sentences; a target is about as long as its source."""
    chance = random.Random(7)
    while True:
        source = max(2, min(60, round(chance.lognormvariate(2.2, 0.45))))
        target = max(2, min(80, round(source * chance.lognormvariate(0.2, 0.22))))
        yield tuple(
            [*(chance.randrange(EOS + 1, VOCAB) for _ in range(length)), EOS]
            for length in (source, target)
        )


def _real(path: str) -> Iterator[Example]:
    """The pairs of a TSV file, encoded with subwords that both sides share."""
    from regard.models import Tokenizer

    lines = list(read_pairs(path))
    tokenizer = Tokenizer.train((side for pair in lines for side in pair), "bpe", VOCAB - 4)
    random.Random(7).shuffle(lines)
    for pair in lines:
        sides = (tokenizer.encode(side, add_special_tokens=False) for side in pair)
        yield tuple([*(min(4 + each, VOCAB - 1) for each in side), EOS] for side in sides)


class Ids(Translation):
    """The translation task for pairs that are already token ids."""

    def __init__(self, examples: list[Example]) -> None:
        side = SimpleNamespace(pad_token_id=PAD, bos_token_id=BOS)
        tokenizer: Any = SimpleNamespace(source=side, target=side)
        plan = Plan(tokens=TOKENS, smoothing=SMOOTHING, clip=CLIP, warmup=100)
        super().__init__(Recipe("translation", Path(), plan=plan), tokenizer)
        self.examples = examples

    def batches(self) -> Batches:
        """Batches of pairs of similar length."""
        return Batches(self.examples, list, TOKENS, seed=3)


def ours(build: Callable[[], nn.Module], examples: list[Example]) -> Contender:
    """Our loop, without events, evaluations and checkpoints."""
    torch.manual_seed(0)
    task = Ids(examples)
    alone = World(0, 1, torch.device("cpu"))
    folder = Path(gettempdir()) / "regard-bench-nothing"  # nothing is written
    loop = Loop(build().train(), task, task.recipe.plan, folder, alone)
    stream, count = iter(loop.data), len(_epoch(task))

    def run() -> None:
        for _ in range(count):
            loop._step(stream)

    return run


def marian(examples: list[Example]) -> Contender:
    """The usual hand-written training loop over transformers' Marian, with our batches."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in _SIDES.items()}
    config = MarianConfig(
        vocab_size=VOCAB, d_model=WIDTH, dropout=DROPOUT, pad_token_id=PAD, eos_token_id=EOS,
        decoder_start_token_id=BOS, max_position_embeddings=128, **sizes,
    )  # fmt: skip
    model, task = MarianMTModel(config).train(), Ids(examples)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    loss_of = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)

    def run() -> None:
        for some in _epoch(task):
            batch = task.collate(some)
            logits = model(**batch.inputs).logits
            loss_of(logits.flatten(0, 1), batch.labels.flatten()).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()

    return run


_SIDES = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": WIDER}


def joey(settings: Mapping[str, Any], examples: list[Example]) -> Contender:
    """JoeyNMT's model, batches and training step (Kreutzer et al. 2019)."""
    from joeynmt.datasets import TokenBatchSampler
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary
    from torch.utils.data import RandomSampler

    torch.manual_seed(0)
    special = {"unk": UNK, "pad": PAD, "bos": BOS, "eos": EOS, "sep": None}
    named = {f"{name}_token": None if n is None else f"<{name}>" for name, n in special.items()}
    ids = {f"{name}_id": n for name, n in special.items()}
    vocabulary = Vocabulary(
        [str(number) for number in range(4, VOCAB)], SimpleNamespace(lang_tags=[], **named, **ids)
    )
    model = build_model(dict(settings), vocabulary, vocabulary).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    sampler = TokenBatchSampler(RandomSampler(_Pairs(examples)), TOKENS, False, 0)

    def run() -> None:
        for places in sampler:
            batch = _joey_batch([examples[place] for place in places])
            batch.sort_by_src_length()
            loss = model(return_type="loss", **vars(batch))[0]
            batch.normalize(loss, normalization="tokens").backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()

    return run


class _Pairs:
    """The pairs as JoeyNMT's sampler asks for them: number, source, target."""

    def __init__(self, examples: list[Example]) -> None:
        self.examples, self.indices = examples, list(range(len(examples)))

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> tuple[int, Any, Any]:
        return place, *self.examples[place]


def _joey_batch(some: list[Example]) -> Any:
    from joeynmt.batch import Batch

    source, target = _padded([each[0] for each in some]), _padded([[BOS, *e[1]] for e in some])
    lengths = torch.tensor([len(each[0]) for each in some])
    numbers, device = torch.arange(len(some)), torch.device("cpu")
    return Batch(source, lengths, None, target, None, numbers, device, PAD, EOS)


def _padded(rows: list[Any]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, PAD)


def _epoch(task: Ids) -> list[list[Example]]:
    found = []
    batches = task.batches()
    for some in batches:
        if batches.place.epoch:
            return found
        found.append(some)
    return found


def _joey_transformer() -> dict[str, Any]:
    side = {
        "type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH,
        "ff_size": WIDER, "dropout": DROPOUT, "embeddings": {"embedding_dim": WIDTH, "scale": True},
    }  # fmt: skip
    tied = {"tied_embeddings": True, "tied_softmax": True, "initializer": "xavier_uniform"}
    return {"encoder": side, "decoder": side, **tied}


def _joey_recurrent() -> dict[str, Any]:
    embeddings = {"embedding_dim": WIDTH}
    common = {"type": "recurrent", "rnn_type": "gru", "dropout": DROPOUT, "embeddings": embeddings}
    encoder = common | {"hidden_size": WIDTH // 2, "bidirectional": True}
    decoder = common | {"hidden_size": WIDTH, "attention": "bahdanau", "init_hidden": "bridge"}
    return {"encoder": encoder, "decoder": decoder, "tied_embeddings": True}


def _transformer() -> nn.Module:
    return Transformer(
        vocab=VOCAB, d_model=WIDTH, layers=LAYERS, heads=HEADS, d_ff=WIDER, dropout=DROPOUT
    )


def _recurrent() -> nn.Module:
    return Recurrent(vocab=VOCAB, d_embed=WIDTH, hidden=WIDTH, maxout=False, dropout=DROPOUT)


def _late(make: Callable[[], Contender]) -> Contender:
    """A contender built at its first call: a missing package becomes a note in the table."""
    made: list[Contender] = []

    def run() -> None:
        if not made:
            made.append(make())
        made[0]()

    return run


def _rows(
    effort: Effort,
    case: str,
    build: Callable[[], nn.Module],
    peers: Mapping[str, tuple[Any, float]],
) -> Iterator[Row]:
    examples = corpus(TOKENS * (2 if effort.quick else _BATCHES))
    contenders = {OURS: _late(partial(ours, build, examples))}
    contenders |= {name: _late(partial(make, examples)) for name, (make, _) in peers.items()}
    rounds, seconds = (1, 0.0) if effort.quick else (effort.repeats, 40 * effort.seconds)
    timings = compare(contenders, rounds, seconds=seconds, gradient=True, check=False)
    tokens = sum(len(each[1]) for each in examples)
    speeds = {name: tokens / min(taken) for name, taken in timings.seconds.items()}
    said = ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())
    targets = {name: Target(limit, at_least=True) for name, (_, limit) in peers.items()}
    yield from time_rows(timings, case, targets)
    yield Row(case, "-", "target tokens/s", note=said)


def transformer_rows(effort: Effort) -> Iterator[Row]:
    """A Transformer of 4 + 4 layers against both peers, and the share of padding in our batches."""
    peers = {_JOEY: (partial(joey, _joey_transformer()), 1.3), _MARIAN: (marian, 1.1)}
    yield from _rows(effort, "Transformer", _transformer, peers)
    examples = corpus(TOKENS * (12 if effort.quick else 100))
    batches = _epoch(Ids(examples))
    share, other = padding_fraction(batches), padding_fraction(batches, side=0)
    note = f"of the target; {other:.0%} of the source; {len(examples):,} pairs"
    yield Row("Transformer", "-", "padding share", share, None, Target(0.03), note)


def recurrent_rows(effort: Effort) -> Iterator[Row]:
    """Bahdanau's model with GRUs of one layer against JoeyNMT."""
    peers = {_JOEY: (partial(joey, _joey_recurrent()), 1.5)}
    yield from _rows(effort, "recurrent", _recurrent, peers)


_SIZES = f"width {WIDTH}, vocabulary {VOCAB}, {TOKENS} tokens a batch"
TABLES = {
    "transformer": Table(
        f"Training a Transformer, {LAYERS} + {LAYERS} layers, {_SIZES}", transformer_rows, 8.0
    ),
    "recurrent": Table(f"Training a recurrent translator, {_SIZES}", recurrent_rows, 4.0),
}
