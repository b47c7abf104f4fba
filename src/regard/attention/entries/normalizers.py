"""Catalog entries of the family `normalizer`: how scores become weights."""

from regard.attention.entries.words import BAHDANAU, BLOCKS, CHOICE, FUSED, ROWS, XU
from regard.attention.entry import Entry, Text
from regard.attention.hard import Hard, StraightThrough
from regard.attention.mechanism import Mechanism
from regard.attention.normalizers import AdaptiveEntmax, Entmax, Sparsemax, TopK
from regard.attention.scores import DotScore

ENTRIES = (
    Entry(
        "soft",
        "normalizer",
        formula=Text("α = softmax(e), c = Σ αᵢ vᵢ"),
        paper=BAHDANAU + ", eq. 5 and 6",
        year=2015,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "Every key gets some weight and the context is their mean: smooth throughout.",
            "每个键都得到一些权重，上下文是加权平均：处处可微。",
        ),
        make=lambda sizes: Mechanism(DotScore()),
        aliases=("softmax",),
    ),
    Entry(
        "hard",
        "normalizer",
        formula=Text("a ~ softmax(e), c = v_a"),
        paper=XU + ", section 4.1",
        year=2015,
        time=Text("O(n m d), no second product", "O(n m d), 没有第二次乘法"),
        memory=BLOCKS,
        summary=Text(
            "One key only: sampled while training (REINFORCE), the most likely one otherwise.",
            "只看一个键：训练时按概率抽样（REINFORCE），评估时取最可能的一个。",
        ),
        make=lambda sizes: Mechanism(DotScore(), Hard()),
        breaks=CHOICE,
    ),
    Entry(
        "straight-through",
        "normalizer",
        formula=Text("α = onehot(argmax(e + g)), ∂α = ∂softmax((e + g) / τ)"),
        paper="Jang, Gu, Poole: Categorical reparameterization with Gumbel-softmax",
        year=2017,
        time=FUSED,
        memory=BLOCKS,
        summary=Text(
            "Hard going forward, soft going backward, with Gumbel noise g.",
            "前向是硬注意力，反向用软注意力的梯度，g 为 Gumbel 噪声。",
        ),
        make=lambda sizes: Mechanism(DotScore(), StraightThrough()),
        aliases=("gumbel",),
        breaks=CHOICE,
    ),
    Entry(
        "top-k",
        "normalizer",
        formula=Text("α = softmax over the k largest e", "α = 在最大的 k 个 e 上做 softmax"),
        paper="Gupta et al.: Memory-efficient transformers via top-k attention",
        year=2021,
        time=FUSED,
        memory=BLOCKS,
        summary=Text(
            "Softmax over the k best keys, the others get exactly zero.",
            "只在得分最高的 k 个键上做 softmax，其余恰为零。",
        ),
        make=lambda sizes: Mechanism(normalizer=TopK(8)),
    ),
    Entry(
        "sparsemax",
        "normalizer",
        formula=Text("α = argmin over the simplex of ‖α − e‖²", "α = 单纯形上使 ‖α − e‖² 最小者"),
        paper="Martins, Astudillo: From softmax to sparsemax, eq. 1",
        year=2016,
        time=Text("O(n m (d + log m))"),
        memory=BLOCKS,
        summary=Text(
            "The nearest point of the simplex: keys far below the best get exactly zero.",
            "投影到单纯形上最近的点：远低于最高分的键恰为零。",
        ),
        make=lambda sizes: Mechanism(normalizer=Sparsemax()),
    ),
    Entry(
        "entmax",
        "normalizer",
        formula=Text(
            "α = argmax over the simplex of α·e + H_a(α), a = 1.5",
            "α = 单纯形上使 α·e + H_a(α) 最大者, a = 1.5",
        ),
        paper="Peters, Niculae, Martins: Sparse sequence-to-sequence models, eq. 5",
        year=2019,
        time=Text("O(n m (d + t)), t Newton steps", "O(n m (d + t)), t 为牛顿步数"),
        memory=BLOCKS,
        summary=Text(
            "Between softmax (a = 1) and sparsemax (a = 2).",
            "介于 softmax（a = 1）与 sparsemax（a = 2）之间。",
        ),
        make=lambda sizes: Mechanism(normalizer=Entmax(1.5)),
    ),
    Entry(
        "adaptive-entmax",
        "normalizer",
        formula=Text(
            "entmax with a = 1 + sigmoid(θ) learned by each head",
            "entmax, 各头自学 a = 1 + sigmoid(θ)",
        ),
        paper="Correia, Niculae, Martins: Adaptively sparse transformers, eq. 10",
        year=2019,
        time=Text("O(n m (d + t)), t Newton steps", "O(n m (d + t)), t 为牛顿步数"),
        memory=BLOCKS,
        summary=Text(
            "Each head learns how sparse it wants to be.",
            "每个头自己学习要多稀疏。",
        ),
        make=lambda sizes: Mechanism(normalizer=AdaptiveEntmax(sizes.heads)),
    ),
)
