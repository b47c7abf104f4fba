"""Measures how far back four networks can recall symbols: with and without attention.

    python recipes/recall/experiment.py          # about half an hour on one core
    python recipes/recall/experiment.py --times  # the time of a step by length, a few minutes
    python recipes/recall/draw.py                # the figures of docs/recall.md

The networks are a recurrent encoder-decoder without and with attention, a convolutional one without
attention, and a Transformer. A source is noise, three symbols to remember, and noise again; the
target is the three symbols. The distance is the number of noise tokens on each side: the recurrent
encoder reads in both directions, so symbols at one end would be close for one of the two. Each
network is trained from scratch at each distance with five seeds, for the same number of steps.

recall.json stores, for each network, distance and seed, the share of symbols recalled on unseen
sources and the norm of the gradient of the loss at the embeddings of the symbols, before and after
training, also as a share of the norm over all tokens. Results that are already in the file are not
computed again, so an interrupted run continues where it stopped.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.files import atomic_file
from regard.models import Recurrent, Transformer

HERE = Path(__file__).parent
SYMBOLS, NOISE, RECALLED = 16, 16, 3  # kinds of symbols and of noise tokens; symbols per source
START = SYMBOLS + NOISE
VOCAB, WIDTH, BATCH, STEPS = START + 1, 64, 64, 300
DISTANCES = (2, 4, 8, 16, 32, 64)
SEEDS = range(5)
LENGTHS = (15, 31, 63, 127, 255)


class Convolutional(nn.Module):
    """A gated convolutional encoder-decoder, 4 + 4 layers (Gehring et al. 2017, sections 3.1-3.2).

    The paper's attention is left out: the decoder gets one fixed vector, the mean of the encoder's
    output.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.places = nn.Embedding(512, WIDTH)
        self.read = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 5, padding=2) for _ in range(4))
        self.write = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 5) for _ in range(4))
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        """The logits after each decoder input token, as the models of regard return them."""
        encoded = self._embed(input_ids)
        for layer in self.read:
            encoded = encoded + F.glu(layer(encoded), dim=1)
        decoded = self._embed(decoder_input_ids) + encoded.mean(dim=2, keepdim=True)
        for layer in self.write:
            # Padding on the left only keeps the decoder causal.
            decoded = decoded + F.glu(layer(F.pad(decoded, (4, 0))), dim=1)
        return self.out(decoded.transpose(1, 2))

    def _embed(self, ids: Tensor) -> Tensor:
        """The sum of token and position embeddings, [batch, dim, token] as convolutions need it."""
        positions = torch.arange(ids.shape[1], device=ids.device)
        return (self.words(ids) + self.places(positions)).transpose(1, 2)


def _recurrent(attention: str) -> nn.Module:
    """A recurrent encoder-decoder; `attention` is "additive" or "none"."""
    return Recurrent(vocab=VOCAB, d_embed=WIDTH, hidden=WIDTH, attention=attention, dropout=0.0)


def _transformer() -> nn.Module:
    """A small pre-norm Transformer encoder-decoder."""
    return Transformer(
        vocab=VOCAB, d_model=WIDTH, layers=2, heads=4, d_ff=2 * WIDTH, dropout=0.0, norm_first=True
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "recurrent, no attention": lambda: _recurrent("none"),
    "recurrent, attention": lambda: _recurrent("additive"),
    "convolutional": Convolutional,
    "Transformer": _transformer,
}


def batch(distance: int, generator: torch.Generator, rows: int = BATCH) -> tuple[Tensor, Tensor]:
    """Random sources of noise, symbols and noise, and the symbols as their targets."""
    target = torch.randint(SYMBOLS, (rows, RECALLED), generator=generator)
    before, after = (
        torch.randint(SYMBOLS, START, (rows, distance), generator=generator) for _ in range(2)
    )
    return torch.cat([before, target, after], dim=1), target


def loss_of(model: nn.Module, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss per symbol, and the symbols that the network predicts."""
    shifted = F.pad(target[:, :-1], (1, 0), value=START)
    logits = model(source, shifted)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten()), logits.argmax(dim=-1)


def gradient(model: nn.Module, distance: int) -> tuple[float, float]:
    """The gradient norm at the symbols' embeddings, and its share of the norm at all tokens."""
    source, target = batch(distance, torch.Generator().manual_seed(99))
    embeddings: list[Tensor] = []

    def keep_embeddings(module: nn.Module, inputs: Any, output: Tensor) -> None:
        # Keep only the embeddings of the source: those of the target have another shape.
        if output.requires_grad and not embeddings and inputs[0].shape == source.shape:
            output.retain_grad()
            embeddings.append(output)

    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    hooks = [table.register_forward_hook(keep_embeddings) for table in tables]
    loss_of(model, source, target)[0].backward()
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    grad = embeddings[0].grad
    assert grad is not None
    symbols = grad[:, distance : distance + RECALLED].norm()
    return float(symbols), float(symbols / grad.norm())


def train_and_measure(name: str, distance: int, seed: int) -> dict[str, float]:
    """The results of training one network: symbols recalled, and the gradient before and after."""
    torch.manual_seed(seed)
    model, generator = NETWORKS[name](), torch.Generator().manual_seed(seed)
    before = gradient(model, distance)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 30, (STEPS - step) / 100)
        loss_of(model, *batch(distance, generator))[0].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    source, target = batch(distance, torch.Generator().manual_seed(10_000 + seed), rows=500)
    with torch.no_grad():
        _, predicted = loss_of(model.eval(), source, target)
    right = float((predicted == target).float().mean())
    names = ("gradient before", "share before", "gradient after", "share after")
    return {"right": right} | dict(zip(names, before + gradient(model, distance), strict=True))


def seconds(name: str, length: int, threads: int) -> Callable[[], float]:
    """A function that runs one training step and returns the seconds that it took."""
    torch.manual_seed(0)
    model, generator = NETWORKS[name](), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters())

    def run() -> float:
        torch.set_num_threads(threads)
        source, target = batch((length - RECALLED) // 2, generator)
        start = time.perf_counter()
        loss_of(model, source, target)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    return run


def times() -> list[dict[str, Any]]:
    """The shortest training step of each network, length and thread count, in seconds."""
    cells = list(product(NETWORKS, LENGTHS, (1, 2)))
    runs = [seconds(*cell) for cell in cells]
    # All cells are measured in turn, so that a busy moment of the machine affects all of them.
    best = [min(run(), run()) for run in runs]
    for _ in range(15):
        best = [min(old, run()) for old, run in zip(best, runs, strict=True)]
    return [
        {"network": name, "length": length, "threads": threads, "seconds": step_seconds}
        for (name, length, threads), step_seconds in zip(cells, best, strict=True)
    ]


def write(path: Path, results: object) -> None:
    """Write a JSON file completely or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Compute the results that are missing and save each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=HERE, help="the folder of the results")
    parser.add_argument("--times", action="store_true", help="measure steps instead of recall")
    args = parser.parse_args()
    if args.times:
        write(args.to / "times.json", times())
        return
    path = args.to / "recall.json"
    results: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    cells = list(product(SEEDS, DISTANCES, NETWORKS))
    missing = [cell for cell in cells if key(*cell) not in results]
    start = time.monotonic()
    for done, (seed, distance, name) in enumerate(missing, start=1):
        results[key(seed, distance, name)] = train_and_measure(name, distance, seed)
        write(path, results)
        left = (time.monotonic() - start) / done * (len(missing) - done) / 60
        print(
            f"{done} of {len(missing)}, {left:.0f} minutes left: {key(seed, distance, name)} "
            f"{results[key(seed, distance, name)]}",
            file=sys.stderr,
        )


def key(seed: int, distance: int, name: str) -> str:
    """The key of one network, distance and seed in recall.json."""
    return f"{name} | distance {distance} | seed {seed}"


if __name__ == "__main__":
    main()
