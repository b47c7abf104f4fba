"""Catalog entries of the family `score`: how a query is compared with a key."""

from regard.attention.entries.words import BAHDANAU, BLOCKS, FUSED, LUONG, ROWS, VASWANI
from regard.attention.entry import Entry, Text
from regard.attention.mechanism import Mechanism
from regard.attention.scores import AdditiveScore, CosineScore, DotScore, GeneralScore

ENTRIES = (
    Entry(
        "dot",
        "score",
        formula=Text("e = q · k"),
        paper=LUONG + ", eq. 8",
        year=2015,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "The inner product of query and key: the cheapest score, without parameters.",
            "查询与键的内积：最省的打分方式，没有参数。",
        ),
        make=lambda sizes: Mechanism(DotScore()),
        aliases=("multiplicative", "luong-dot"),
    ),
    Entry(
        "scaled-dot",
        "score",
        formula=Text("e = q · k / √d"),
        paper=VASWANI + ", eq. 1",
        year=2017,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "The inner product over the root of the head's width, so that the softmax does not "
            "saturate when d is large.",
            "内积除以单个头宽度的平方根，使 d 较大时 softmax 不致饱和。",
        ),
        make=lambda sizes: Mechanism(),
        aliases=("vaswani",),
    ),
    Entry(
        "cosine",
        "score",
        formula=Text("e = cos(q, k) / τ"),
        paper="Graves, Wayne, Danihelka: Neural Turing machines, eq. 5 and 6",
        year=2014,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "The angle between query and key, whatever their lengths; a low τ sharpens.",
            "只看查询与键的夹角，不看长度；温度 τ 越低越尖锐。",
        ),
        make=lambda sizes: Mechanism(CosineScore(temperature=0.1)),
    ),
    Entry(
        "general",
        "score",
        formula=Text("e = q W k"),
        paper=LUONG + ", eq. 8",
        year=2015,
        time=Text("O(n d² + n m d)"),
        memory=ROWS,
        summary=Text(
            "A learned bilinear form; query and key may differ in width.",
            "可学习的双线性形式；查询与键的宽度可以不同。",
        ),
        make=lambda sizes: Mechanism(GeneralScore(sizes.dim, sizes.key_dim)),
        aliases=("bilinear", "luong-general"),
    ),
    Entry(
        "additive",
        "score",
        formula=Text("e = v · tanh(W q + U k)"),
        paper=BAHDANAU + ", A.1.2",
        year=2015,
        time=Text("O(n m h), h the hidden width", "O(n m h), h 为隐层宽度"),
        memory=BLOCKS,
        summary=Text(
            "A one-layer network judges each pair; query and key may differ in width.",
            "用一层网络评判每一对；查询与键的宽度可以不同。",
        ),
        make=lambda sizes: Mechanism(AdditiveScore(sizes.dim, sizes.key_dim)),
        aliases=("bahdanau", "concat"),
    ),
)
