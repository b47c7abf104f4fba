"""Catalog entries of the family `reach`: which keys a query can see."""

from regard.attention.entries.words import BLOCKS, FUSED, LUONG, PLACE, ROWS, VASWANI
from regard.attention.entry import Entry, Text
from regard.attention.local import PredictiveLocal
from regard.attention.mechanism import Mechanism
from regard.attention.scores import GeneralScore
from regard.masks import causal, window

WINDOW = 128  # keys on each side

ENTRIES = (
    Entry(
        "global",
        "reach",
        formula=Text("query i sees all keys", "查询 i 可见所有键"),
        paper=LUONG + ", section 3.1",
        year=2015,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "Every query sees every key.",
            "每个查询都能看到所有的键。",
        ),
        make=lambda sizes: Mechanism(GeneralScore(sizes.dim, sizes.key_dim)),
    ),
    Entry(
        "local-m",
        "reach",
        formula=Text("query i sees keys i − D .. i + D", "查询 i 可见键 i − D .. i + D"),
        paper=LUONG + ", section 3.2",
        year=2015,
        time=Text("O(n D d)"),
        memory=ROWS,
        summary=Text(
            "Monotonic local attention: a window at the query's own position.",
            "单调局部注意力：以查询自身位置为中心的窗口。",
        ),
        make=lambda sizes: Mechanism(mask=window(WINDOW, WINDOW)),
        breaks=PLACE,
    ),
    Entry(
        "local-p",
        "reach",
        formula=Text("p = S σ(v · tanh(W q)), α = softmax(e) exp(−(s − p)² / 2σ²), σ = D/2"),
        paper=LUONG + ", eq. 9 and 10",
        year=2015,
        time=FUSED,
        memory=BLOCKS,
        summary=Text(
            "Predictive local attention: a window around a predicted centre, and a Gaussian.",
            "预测式局部注意力：在预测的中心周围开窗，再乘以高斯衰减。",
        ),
        make=lambda sizes: PredictiveLocal(
            sizes.dim, GeneralScore(sizes.dim, sizes.key_dim), radius=10
        ),
        breaks=PLACE
        | {
            "sums to one": Text(
                "the Gaussian factor comes after the softmax (eq. 10)",
                "高斯因子乘在 softmax 之后（式 10）",
            )
        },
    ),
    Entry(
        "causal",
        "reach",
        formula=Text("query i sees keys 0 .. i", "查询 i 可见键 0 .. i"),
        paper=VASWANI + ", section 3.2.3",
        year=2017,
        time=Text("O(n m d), half of it skipped", "O(n m d), 跳过一半"),
        memory=ROWS,
        summary=Text(
            "No look into the future: what a decoder needs to be trained in one pass.",
            "不看未来：解码器一次并行训练所必需。",
        ),
        make=lambda sizes: Mechanism(mask=causal()),
        aliases=("masked",),
        breaks=PLACE,
    ),
    Entry(
        "sliding-window",
        "reach",
        formula=Text("query i sees keys i − w .. i", "查询 i 可见键 i − w .. i"),
        paper="Beltagy, Peters, Cohan: Longformer, section 3.1",
        year=2020,
        time=Text("O(n w d)"),
        memory=ROWS,
        summary=Text(
            "A causal window: the cost per token stays the same however long the text is.",
            "因果滑动窗口：无论文本多长，每个词的开销不变。",
        ),
        make=lambda sizes: Mechanism(mask=window(WINDOW, 0)),
        breaks=PLACE,
    ),
)
