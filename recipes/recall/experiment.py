"""How far back can a network recall? With attention, without, by convolution, in a Transformer.

    python recipes/recall/experiment.py          # about half an hour on one core
    python recipes/recall/experiment.py --times  # the time of a step by length, a few minutes
    python recipes/recall/draw.py                # the figures of docs/recall.md

A source is noise, three symbols to remember, and noise again; the target is the three symbols. The
noise on either side is the distance: recurrent networks read in both directions, and symbols at one
end would be near for one of the two. Each network is trained from scratch at each distance, five
times with other seeds, for the same number of steps. Written down are the share of symbols that it
gets right on sources that it never saw, and the norm of the loss's gradient at the vectors of the
symbols, before training and after, and as a share of that at all tokens. A cell that is there is
not run again: a run goes on where it was stopped.
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

from regard.models import Recurrent, Transformer

HERE = Path(__file__).parent
SYMBOLS, NOISE, RECALLED = 16, 16, 3
START = SYMBOLS + NOISE
VOCAB, WIDTH, BATCH, STEPS = START + 1, 64, 64, 300
DISTANCES = (2, 4, 8, 16, 32, 64)
SEEDS = range(5)
LENGTHS = (15, 31, 63, 127, 255)


class Convolutional(nn.Module):
    """Four layers of gated convolutions read, four write (Gehring et al. 2017, sections 3.1-3.2).

    Without their attention: the decoder gets the mean of what was read, one fixed vector.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.places = nn.Embedding(512, WIDTH)
        self.read = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 5, padding=2) for _ in range(4))
        self.write = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 5) for _ in range(4))
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        """The logits after each token of the target, as our own models give them."""
        found = self._embedded(input_ids)
        for layer in self.read:
            found = found + F.glu(layer(found), dim=1)
        written = self._embedded(decoder_input_ids) + found.mean(dim=2, keepdim=True)
        for layer in self.write:
            written = written + F.glu(layer(F.pad(written, (4, 0))), dim=1)
        return self.out(written.transpose(1, 2))

    def _embedded(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        return (self.words(ids) + self.places(places)).transpose(1, 2)


def _recurrent(attention: str) -> nn.Module:
    return Recurrent(vocab=VOCAB, d_embed=WIDTH, hidden=WIDTH, attention=attention, dropout=0.0)


def _transformer() -> nn.Module:
    return Transformer(
        vocab=VOCAB, d_model=WIDTH, layers=2, heads=4, d_ff=2 * WIDTH, dropout=0.0, norm_first=True
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "recurrent, no attention": lambda: _recurrent("none"),
    "recurrent, attention": lambda: _recurrent("additive"),
    "convolutional": Convolutional,
    "Transformer": _transformer,
}


def batch(distance: int, chance: torch.Generator, rows: int = BATCH) -> tuple[Tensor, Tensor]:
    """Sources and their targets."""
    target = torch.randint(SYMBOLS, (rows, RECALLED), generator=chance)
    before, after = (
        torch.randint(SYMBOLS, START, (rows, distance), generator=chance) for _ in range(2)
    )
    return torch.cat([before, target, after], dim=1), target


def loss_of(model: nn.Module, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss of a symbol, and which symbols the network would write."""
    late = F.pad(target[:, :-1], (1, 0), value=START)
    logits = model(source, late)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten()), logits.argmax(dim=-1)


def gradient(model: nn.Module, distance: int) -> tuple[float, float]:
    """The norm of the gradient at the symbols' vectors, and its share of that at all tokens."""
    source, target = batch(distance, torch.Generator().manual_seed(99))
    kept: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
        if output.requires_grad and not kept and inputs[0].shape == source.shape:
            output.retain_grad()
            kept.append(output)

    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    hooks = [table.register_forward_hook(keep) for table in tables]
    loss_of(model, source, target)[0].backward()
    for hook in hooks:
        hook.remove()
    model.zero_grad()
    found = kept[0].grad
    assert found is not None
    symbols = found[:, distance : distance + RECALLED].norm()
    return float(symbols), float(symbols / found.norm())


def trained(name: str, distance: int, seed: int) -> dict[str, float]:
    """The share of symbols that are right, and the gradient before and after."""
    torch.manual_seed(seed)
    model, chance = NETWORKS[name](), torch.Generator().manual_seed(seed)
    before = gradient(model, distance)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 30, (STEPS - step) / 100)
        loss_of(model, *batch(distance, chance))[0].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    source, target = batch(distance, torch.Generator().manual_seed(10_000 + seed), rows=500)
    with torch.no_grad():
        _, written = loss_of(model.eval(), source, target)
    right = float((written == target).float().mean())
    names = ("gradient before", "share before", "gradient after", "share after")
    return {"right": right} | dict(zip(names, before + gradient(model, distance), strict=True))


def seconds(name: str, length: int, threads: int) -> Callable[[], float]:
    """What runs one step of training and says how long it took."""
    torch.manual_seed(0)
    model, chance = NETWORKS[name](), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters())

    def run() -> float:
        torch.set_num_threads(threads)
        source, target = batch((length - RECALLED) // 2, chance)
        begun = time.perf_counter()
        loss_of(model, source, target)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - begun

    return run


def times() -> list[dict[str, Any]]:
    """The shortest step of many of each network, all measured in turn."""
    cells = list(product(NETWORKS, LENGTHS, (1, 2)))
    runs = [seconds(*cell) for cell in cells]
    best = [min(run(), run()) for run in runs]
    for _ in range(15):
        best = [min(old, run()) for old, run in zip(best, runs, strict=True)]
    return [
        {"network": name, "length": length, "threads": threads, "seconds": found}
        for (name, length, threads), found in zip(cells, best, strict=True)
    ]


def write(path: Path, found: object) -> None:
    """Write JSON whole or not at all."""
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    aside.replace(path)


def main() -> None:
    """Run what is missing, and keep it."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--to", type=Path, default=HERE, help="the folder of the results")
    asked.add_argument("--times", action="store_true", help="measure steps instead of recall")
    args = asked.parse_args()
    if args.times:
        write(args.to / "times.json", times())
        return
    path = args.to / "recall.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    cells = [(s, d, n) for s, d, n in product(SEEDS, DISTANCES, NETWORKS)]
    missing = [cell for cell in cells if key(*cell) not in found]
    begun = time.monotonic()
    for done, (seed, distance, name) in enumerate(missing, start=1):
        found[key(seed, distance, name)] = trained(name, distance, seed)
        write(path, found)
        left = (time.monotonic() - begun) / done * (len(missing) - done) / 60
        print(
            f"{done} of {len(missing)}, {left:.0f} minutes left: {key(seed, distance, name)} "
            f"{found[key(seed, distance, name)]}",
            file=sys.stderr,
        )


def key(seed: int, distance: int, name: str) -> str:
    """What a cell is called in the results."""
    return f"{name} | distance {distance} | seed {seed}"


if __name__ == "__main__":
    main()
