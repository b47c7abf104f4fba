"""Examples of the format that Python and the front end both read: run this file to write them."""

import base64
import json
import zlib
from dataclasses import asdict, is_dataclass
from pathlib import Path

import numpy as np
import torch

from regard.types import AttentionMap, Axis, DenseWeights, Tokens, Trace
from regard.types.finding import Finding, FindingText, FindingView
from regard.views import MapReference, View, ViewState, report
from regard.views.captions import percent
from regard.views.encoding import LogFactors, blobs, decode
from regard.views.labelled_map import ticks
from regard.views.page.utf16 import Characters
from regard.views.reports import open_finding
from regard.views.scene import build_scene, pack_scene, unpack_scene
from regard.views.scene.build import mark_tokens

PATH = Path(__file__).with_name("vectors.json")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def a_trace() -> Trace:
    """Self-attention of two layers and a cross map, with pieces, words, sentences and Chinese."""
    source = Tokens(
        ("[CLS]", "un", "##kind", "words", ".", HOSTILE, "我", "[SEP]"),
        offsets=((0, 0), (0, 2), (2, 6), (7, 12), (12, 13), (14, 51), (51, 52), (0, 0)),
        words=(None, 0, 0, 1, 2, 3, 4, None),
        special=(True, *[False] * 6, True),
    )
    target = Tokens(
        ("<s>", "▁un", "freund", "liche", "▁Worte", "</s>"),
        words=(None, 0, 0, 0, 1, None),
        special=(True, *[False] * 4, True),
    )
    torch.manual_seed(5)
    every, rows, columns = Axis("source", tuple(range(8))), Axis("target", (0, 1, 2, 3, 4)), None
    columns = every
    self_1, self_2 = ((3 * torch.randn(2, 8, 8)).softmax(-1) for _ in range(2))
    cross = (2 * torch.randn(3, 5, 8)).softmax(-1)
    causal = (torch.randn(2, 5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf)).softmax(
        -1
    )
    maps = (
        AttentionMap("encoder.0", "encoder", every, every, DenseWeights(self_1)),
        AttentionMap(
            "encoder.1", "encoder", every, every, DenseWeights(self_2), head_indices=(4, 9)
        ),
        AttentionMap("decoder.0", "decoder", rows, rows, DenseWeights(causal)),
        AttentionMap(
            "cross.0",
            "cross",
            rows,
            columns,
            DenseWeights(cross),
            produced=Axis("target", (1, 2, 3, 4, 5)),
        ),
    )
    return Trace({"source": source, "target": target}, maps)


def another_trace() -> Trace:
    """The same text with other pieces."""
    texts = ("<s>", "Un", "kind words", ".", HOSTILE[:9], HOSTILE[9:], "我")
    torch.manual_seed(7)
    weights = (2 * torch.randn(2, 7, 7)).softmax(-1)
    tokens = Tokens(texts, words=(None, 0, 1, 2, 3, 3, 4), special=(True, *[False] * 6))
    return Trace.from_weights({"encoder.0": weights}, tokens)


def findings() -> list[Finding]:
    """One of each severity, with every kind of picture and with none."""
    said = {
        "en": FindingText(f"Looks at {HOSTILE}.", "It is <b>tired</b>.", "Let it & rest."),
        "zh": FindingText("看向首个词元。", "它累了。", "让它休息。"),
    }
    only = {"en": FindingText("Nobody knows.")}
    column = FindingView("heatmap", "encoder.0", 1, columns=(5, 6))
    row = FindingView("highlight", "cross.0", None, rows=(2,), columns=(1,))
    code = f"try({HOSTILE!r})"
    return [
        Finding("sink", "observation", 0.91, 0.5, said, "encoder.0", 1, 0, column, code),
        Finding("leak", "bug", float("nan"), 0.001, said, "cross.0", None, 0, row),
        Finding("odd", "warning", 2.0, 1.0, only, "encoder.1", 0, 0, FindingView("heads")),
        Finding("lost", "observation", 1.5, float("inf"), only),
    ]  # fmt: skip


def encode(weights: np.ndarray, scores: LogFactors | None = None) -> bytes:
    """One map by its factors, if they are known, however small it is; else by its cells."""
    by_factor = blobs.encode_by_factors(weights, scores) if scores else None
    return by_factor or blobs.encode_by_levels(blobs.CellLevels.of(weights[None]))[0]


def coded() -> list[dict]:
    """Blobs of every code and support with the weights that they decode to."""
    torch.manual_seed(1)
    few, many = torch.randn(11, 7).mul(2).softmax(-1), None
    query, key = torch.randn(61, 5), torch.randn(67, 5)
    logits = query @ key.T
    many = logits.softmax(-1)
    seen = torch.ones(61, 67).tril(3) > 0
    causal = logits.masked_fill(~seen, -torch.inf)
    window = causal.masked_fill(torch.ones(61, 67).tril(-9) > 0, -torch.inf).softmax(-1)
    smooth = 0.5 + 0.4 * torch.sin(torch.arange(31)[:, None] * torch.arange(37) / 99)
    wrong = many.clone()
    wrong[[3, 41, 60], wrong.argmax(1)[[3, 41, 60]]] *= 1.3
    scores = LogFactors(query.numpy(), key.numpy(), -causal.logsumexp(-1).numpy())
    plain = LogFactors(query.numpy(), key.numpy(), -logits.logsumexp(-1).numpy())
    found = {
        "few cells, every one": encode(few.numpy()),
        "levels, causal": encode(few.tril(1).numpy()),
        "differences, causal": encode(smooth.tril().numpy()),
        "levels, runs": encode(window.nan_to_num().numpy()),
        "factors, every cell": encode(many.numpy(), plain),
        "factors, causal": encode(causal.softmax(-1).numpy(), scores),
        "factors, corrected": encode(wrong.numpy(), plain),
    }
    examples = []
    for name, blob in found.items():
        head = zlib.decompress(blob, -15)[:2]
        examples.append(
            {
                "name": name,
                "code": head[0],
                "support": head[1],
                "blob": text(blob),
                "weights": plainly(decode(blob)),
            }
        )
    return examples


def text(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


def plainly(value):
    """A value as JSON types, numbers with seven digits."""
    if is_dataclass(value):
        return {name: plainly(getattr(value, name)) for name in asdict(value) if name != "picture"}
    if isinstance(value, np.ndarray):
        return plainly(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return [plainly(each) for each in value] if isinstance(value, list | tuple) else value


STATES = [
    ViewState("heatmap", site="encoder.0", head=1),
    ViewState("heatmap", site="encoder.1", head=0, hide=("special",), unit="word", scale="log"),
    ViewState("heatmap", site="encoder.1", hide=("first", "special"), unit="sentence", scale="row",
          language="zh"),
    ViewState("heatmap", site="decoder.0", head=0, hide=("first",)),
    ViewState("heatmap", site="cross.0", head=2, unit="word"),
    ViewState("heatmap", site="cross.0", head=2, label="read"),
    ViewState("highlight", site="cross.0", head=1, place=2, unit="word"),
    ViewState("highlight", site="encoder.0", depth="all", language="zh"),
    ViewState("highlight", site="encoder.0", head=0, axis="column", place=3),
    ViewState("flow", site="encoder.0", hide=("special",)),
    ViewState("flow", site="encoder.0", heads=(1,), threshold=0.25, unit="word"),
    ViewState("flow", site="encoder.1", span="all", hide=("first",), threshold=0.05),
    ViewState("flow", site="cross.0", span="time", place=1, language="zh"),
    ViewState("compare", site="encoder.0", head=0, other=MapReference(0, "encoder.1", 1)),
    ViewState("compare", site="encoder.0", head=0, hide=("special",)),
    ViewState("heads", scale="row"),
    ViewState("heads", trace=1, finding=3),
]  # fmt: skip

PERCENTS = (0.0, 0.0009, 0.001, 0.00567, 0.01, 0.1234, 1.0, -0.25)
TICKS = ((4, 10), (12, 5), (100, 7), (3, 0), (60, 30))


def made() -> dict:
    """All examples."""
    scene = build_scene(
        a_trace(),
        another_trace(),
        names=("one", "two"),
        title=f"Title {HOSTILE}",
        badges={("encoder.0", 1): ["sink"]},
        aggregates={"rollout": torch.eye(8)},
    )
    packed = pack_scene(mark_tokens(scene, "source", (2, 3)))
    read = unpack_scene(packed)
    told = report(a_trace(), findings())
    shown = [index for index, each in enumerate(told.scene.findings) if each.view]
    data = (
        bytes(range(256)) + b"\x00\xd8\xff\xdf\x00\xe0\xff\xfe\xfe\xff\xff\xff<\x00\r\x00\x00\x00x"
    )
    return {
        "characters": {"bytes": data.hex(), "units": Characters.of(data).units().tolist()},
        "maps": coded(),
        "scene": packed.header,
        "blobs": [text(blob) for blob in packed.blobs],
        "hashes": [{"state": state.to_json(), "hash": state.to_hash()} for state in STATES],
        "findings": pack_scene(told.scene).header["findings"],
        "opened": [
            [index, open_finding(told.scene.findings[index], index, ViewState()).to_json()]
            for index in shown
        ],
        "percents": [[weight, percent(weight)] for weight in PERCENTS],
        "ticks": [[*pair, list(ticks(*pair))] for pair in TICKS],
        "numbers": [
            {"state": state.to_json(), "numbers": plainly(View(read, state).numbers)}
            for state in STATES
        ],
    }  # fmt: skip


if __name__ == "__main__":
    PATH.write_text(json.dumps(made(), ensure_ascii=False, indent=1) + "\n", "utf-8")
