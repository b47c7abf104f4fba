"""Maps and traces of every kind, small, for tests; their sizes are distinct primes."""

import torch

from regard import masks
from regard.kernels.observe import ObserveOptions, Scoring, observe
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    Gap,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
)

HEADS, KEY_HEADS, ROWS, COLUMNS, DIM = 6, 2, 11, 13, 5

MASKS = {
    "none": None,
    "everything": masks.everything(),
    "causal": masks.causal(),
    "window": masks.window(3, 2),
    "lengths": masks.lengths([7]),
    "padding": masks.causal() & masks.padding(torch.arange(COLUMNS)[None] > 1),
    "segments": masks.segments(torch.arange(ROWS)[None] // 5, torch.arange(COLUMNS)[None] // 4),
    "explicit": masks.explicit(
        torch.arange(HEADS * ROWS * COLUMNS).view(1, HEADS, ROWS, -1) % 3 > 0
    ),
    "either": masks.window(0, 0)
    | masks.explicit(torch.arange(ROWS * COLUMNS).view(ROWS, -1) % 7 > 2),
    "not": ~masks.window(1, 1),
}
BIASES = {
    "none": None,
    "alibi": masks.alibi(HEADS),
    "t5": masks.t5_buckets(torch.linspace(-1, 1, 8 * HEADS).view(8, HEADS), far=17),
    "tensor": masks.tensor_bias(torch.linspace(-2, 2, ROWS * COLUMNS).view(ROWS, COLUMNS)),
    "sum": masks.alibi(HEADS)
    + masks.tensor_bias(torch.linspace(-1, 1, HEADS * COLUMNS).view(1, HEADS, 1, COLUMNS)),
}


def a_scoring(mask: str = "padding", bias: str = "alibi") -> Scoring:
    """A scoring with everything that a call can do to its scores."""
    return Scoring(
        scale=0.7,
        mask=MASKS[mask],
        bias=BIASES[bias],
        offset=2,
        softcap=3.0,
        sink=torch.linspace(-1, 1, HEADS),
    )


def a_map(
    scoring: Scoring | None = None, *, site: str = "h.0", dtype: torch.dtype = torch.float32
) -> AttentionMap:
    """A recomputable map with grouped heads, and all that is seen of it."""
    query = torch.randn(1, HEADS, ROWS, DIM).to(dtype)
    key = torch.randn(1, KEY_HEADS, COLUMNS, DIM).to(dtype)
    terms = vars(scoring or a_scoring())
    seen = observe(query, key, key, keep=ObserveOptions(top=3, atlas=2), **terms)
    return AttentionMap(
        site,
        "cross",
        Axis("target", tuple(range(ROWS))),
        Axis("source", tuple(range(COLUMNS))),
        RecomputableWeights(query[0], key[0], seen.lse[0], seen.scoring),
        statistics=example(seen.statistics),
        top=example(seen.top),
        atlas=example(seen.atlas),
        produced=Axis("target", tuple(range(1, ROWS + 1))),
    )


def example(numbers):
    """The first example of what was seen of a batch."""
    parts = vars(numbers).items()
    return type(numbers)(**{k: v[0] if isinstance(v, torch.Tensor) else v for k, v in parts})


def by_definition(each: AttentionMap) -> torch.Tensor:
    """The weights of a recomputable map, dense and in double precision."""
    source, scoring = each.source, each.source.scoring
    heads, rows, columns = each.shape
    key = source.key.double().repeat_interleave(heads // len(source.key), dim=0)
    scores = source.query.double() @ key.mT * scoring.scale
    if scoring.softcap is not None:
        scores = scoring.softcap * (scores / scoring.softcap).tanh()
    if scoring.bias is not None:
        scores = scores + scoring.bias.dense(rows, columns, offset=scoring.offset)[0]
    if scoring.mask is not None:
        seen = scoring.mask.dense(rows, columns, offset=scoring.offset)[0]
        scores = scores.masked_fill(~seen, -torch.inf)
    if scoring.sink is not None:
        sink = scoring.sink.double()[:, None, None].expand(heads, rows, 1)
        scores = torch.cat([scores, sink], dim=-1)
    return scores.softmax(-1).nan_to_num(nan=0.0)[..., :columns]


def a_trace() -> Trace:
    """A trace with a map of each source, and tokens of every kind."""
    whole = a_map()
    target, source = whole.rows, whole.columns
    dense = DenseWeights(torch.rand(HEADS, ROWS, COLUMNS))
    summary = SummaryOnly((HEADS, ROWS, COLUMNS))
    texts = ("<s>", "我", "爱", "中国", "👩‍👩‍👧", "é", "\ud83d", "", "\n", '"', "\\", "</script>")
    streams = {
        "target": Tokens(
            texts,
            ids=tuple(range(100, 112)),
            offsets=tuple((n, n + 1) for n in range(12)),
            words=(None, *range(11)),
            special=(True, *[False] * 11),
        ),
        "source": Tokens.positions(COLUMNS),
    }
    maps = (
        whole,
        AttentionMap("h.1", "cross", target, source, dense),
        AttentionMap("h.2", "cross", target, source, summary, whole.statistics, atlas=whole.atlas),
    )
    return Trace(streams, maps, (Gap("h.3", "it only adds"),))
