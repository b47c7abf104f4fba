"""The cost of watching whole models, against a plain forward pass and against other tools."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import regard
from bench.measure import (
    OURS,
    Effort,
    Row,
    Table,
    Target,
    compare,
    memory_row,
    peak_memory,
    time_rows,
)

PLAIN, EAGER, LENS = "plain forward", "output_attentions, eager", "TorchLens"
SUMMARY = "watched, keep='summary'"


@dataclass(frozen=True)
class Model:
    """A model with random weights, the size of its input, and the target for watching it."""

    name: str
    build: Callable[[str], Any]
    batch: int
    length: int
    limit: float

    def inputs(self) -> Tensor:
        """Token ids."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(0, 1000, (self.batch, self.length), generator=generator)


def minilm(implementation: str) -> Any:
    """BERT of MiniLM's size: 6 layers of 12 heads, width 384."""
    import transformers

    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    return _built(transformers.BertModel, config, implementation)


def gpt2(implementation: str, positions: int = 1024, layers: int = 12) -> Any:
    """GPT-2 small."""
    import transformers

    config = transformers.GPT2Config(n_positions=positions, n_layer=layers)
    return _built(transformers.GPT2LMHeadModel, config, implementation)


def llama(implementation: str) -> Any:
    """Eight layers of Llama: 16 heads that share 4 of keys, width 1024."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=4096,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=8192,
    )
    return _built(transformers.LlamaModel, config, implementation)


def _built(kind: Any, config: Any, implementation: str) -> Any:
    torch.manual_seed(0)
    config._attn_implementation = implementation
    return kind(config).eval()


MODELS = [
    Model("MiniLM, 32 tokens", minilm, 1, 32, 1.2),
    Model("MiniLM, 32 x 32 tokens", minilm, 32, 32, 1.2),
    Model("MiniLM, 512 tokens", minilm, 1, 512, 1.05),
    Model("GPT-2 small, 1024 tokens", gpt2, 1, 1024, 1.1),
    Model("Llama, 8 layers, 8192 tokens", llama, 1, 8192, 1.05),
]
_LONGEST_EAGER = 2048  # beyond it, weights of every head at once are more than a machine has


def contenders(model: Model, length: int | None = None) -> Mapping[str, Callable[[], Any]]:
    """A watched forward pass, a plain one, and an eager one that returns its weights."""
    network, ids = model.build("sdpa"), model.inputs()[:, :length]

    def watched() -> Tensor:
        with regard.watch(network):
            return _first(network(ids))

    found = {OURS: watched, PLAIN: lambda: _first(network(ids))}
    if ids.shape[1] <= _LONGEST_EAGER:
        eager = model.build("eager")
        found[EAGER] = lambda: _kept(eager(ids, output_attentions=True))
    return found


def _first(output: Any) -> Tensor:
    first: Tensor = output[0]
    return first


def _kept(output: Any) -> Tensor:
    """The first output, after checking that the weights were returned too."""
    assert len(output.attentions) > 0
    return _first(output)


def model_rows(effort: Effort) -> Iterator[Row]:
    """Time and memory of each model."""
    for model in MODELS[:3] if effort.quick else MODELS:
        case = contenders(model)
        timings = compare(case, effort.repeats, seconds=20 * effort.seconds)
        targets = {PLAIN: Target(model.limit), EAGER: None}
        yield from time_rows(timings, model.name, {name: targets[name] for name in list(case)[1:]})
        del case
        yield from memory_rows(model)


def memory_rows(model: Model) -> Iterator[Row]:
    """The peak memory of a forward pass."""
    case, warm = partial(contenders, model), partial(contenders, model, 8)
    names = [OURS, PLAIN] + [EAGER] * (model.length <= _LONGEST_EAGER)
    peaks = {name: peak_memory(case, name, warm=warm) for name in names}
    for name in names[1:]:
        row = memory_row(model.name, name, Target(1.0), peaks[OURS], peaks[name])
        yield Row(row.case, row.peer, "memory", row.ratio, None, None, row.note)

    if model.length > _LONGEST_EAGER:
        case, warm = partial(summary_contender, model), partial(summary_contender, model, 8)
        peak = peak_memory(case, SUMMARY, warm=warm)
        row = memory_row(model.name, PLAIN, Target(1.3), peak, peaks[PLAIN])
        name = f"{model.name}, keep='summary'"
        yield Row(name, PLAIN, "memory", row.ratio, None, Target(1.3), row.note)


def summary_contender(model: Model, length: int | None = None) -> Mapping[str, Callable[[], Any]]:
    """A watched forward pass that keeps statistics and atlases only."""
    network, ids = model.build("sdpa"), model.inputs()[:, :length]

    def watched() -> Tensor:
        with regard.watch(network, keep="summary"):
            return _first(network(ids))

    return {SUMMARY: watched}


def lens_rows(effort: Effort) -> Iterator[Row]:
    """TorchLens, in a process of its own because it changes torch's functions permanently."""
    for model in (MODELS[0], MODELS[2]):
        call = f"from bench.watching import lens; lens({MODELS.index(model)})"
        done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
        last = (done.stdout or done.stderr).strip().rpartition("\n")[2]
        ratio = float(last) if done.returncode == 0 else None
        note = "" if done.returncode == 0 else f"cannot run: {last[:100]}"
        yield Row(model.name, LENS, "plain forwards", ratio, None, None, note)


def lens(number: int) -> None:
    """Print the time of a pass under TorchLens divided by that of a plain forward pass."""
    import torchlens

    network, ids = MODELS[number].build("sdpa"), MODELS[number].inputs()
    both = {PLAIN: lambda: _first(network(ids)), LENS: lambda: torchlens.trace(network, ids)}
    print(compare(both, 5, check=False).ratio(LENS, PLAIN))


def generation_rows(effort: Effort) -> Iterator[Row]:
    """GPT-2 small that continues a prompt of 64 tokens, watched and plain."""
    network = gpt2("sdpa")
    ids = torch.randint(0, 1000, (1, 64), generator=torch.Generator().manual_seed(0))
    new = 16 if effort.quick else 64
    write = partial(
        network.generate,
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new,
        min_new_tokens=new,
        do_sample=False,
        pad_token_id=0,
    )

    def watched() -> Tensor:
        with regard.watch(network):
            return write()

    timings = compare({OURS: watched, "plain generate": write}, 8, seconds=60)
    yield from time_rows(
        timings, f"GPT-2 small, {new} new tokens", {"plain generate": Target(1.15)}
    )


def trace_rows(effort: Effort) -> Iterator[Row]:
    """A trace of GPT-2 small over a long text: saved, opened in a new process and panned."""
    length = 4096 if effort.quick else 32768
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.trace"
        context = multiprocessing.get_context("spawn")
        writer = context.Process(target=_write_trace, args=(path, length, torch.get_num_threads()))
        writer.start()
        writer.join()
        here, there = context.Pipe(duplex=False)
        reader = context.Process(target=_pan, args=(there, path, length))
        reader.start()
        there.close()
        opened, resident, late = here.recv()
        reader.join()
        size = path.stat().st_size / 2**20
    case = f"GPT-2 small, {length} tokens ({size:,.0f} MiB on disk)"
    yield Row(case, "-", "seconds to open", opened, None, Target(1.0))
    yield Row(case, "-", "MiB resident while panning", resident, None, Target(500))
    for zoom, seconds in late.items():
        limit = 20.0 if zoom > 16 else 100.0
        name = f"p95 in ms, 512 x 512 cells at zoom {zoom}"
        yield Row(case, "-", name, seconds * 1e3, None, Target(limit))


def _write_trace(path: Path, length: int, threads: int) -> None:
    torch.set_num_threads(threads)
    network = gpt2("sdpa", positions=length).transformer
    ids = torch.randint(0, 1000, (1, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), regard.watch(network, atlas=1024) as seen:
        network(ids, use_cache=False)
    regard.save_trace(seen[0], path)


def _pan(answer: Connection, path: Path, length: int) -> None:
    """Open the trace and read windows along the diagonal of heads of all layers, at each zoom."""
    level = _resident()
    start = time.perf_counter()
    trace = regard.load_trace(path)
    opened = time.perf_counter() - start
    late = {}
    for zoom in (1, 4, 16, 32, 64):
        side = min(512 * zoom, length)
        late[zoom] = _p95([partial(_look, trace, n, side, zoom) for n in range(24)])
    answer.send((opened, (_resident() - level) / 2**20, late))


def _look(trace: Any, number: int, side: int, zoom: int) -> None:
    site = trace.maps[number % len(trace)]
    first = (site.shape[1] - side) * number // 24 // zoom * zoom
    site.window(number % site.heads, range(first, first + side), range(first, first + side), zoom)


def _p95(looks: list[Callable[[], None]]) -> float:
    taken = []
    for look in looks:
        start = time.perf_counter()
        look()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[int(0.95 * (len(taken) - 1))]


@cache
def _page() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _page()


TABLES = {
    "models": Table("A watched forward pass, default `keep`", model_rows, 6.0),
    "lens": Table("How many plain forwards TorchLens takes for one", lens_rows, 1.0),
    "generation": Table("`generate`, watched", generation_rows, 1.5),
    "trace": Table("A long trace: save, open, pan", trace_rows, 6.0),
}
