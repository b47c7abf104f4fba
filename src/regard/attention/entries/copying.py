"""Catalog entries of the family `copying`: weights that outlive their step, in a summariser."""

from regard.attention.copying import Copying
from regard.attention.coverage import Coverage
from regard.attention.entries.words import BLOCKS
from regard.attention.entry import Entry, Text
from regard.attention.mechanism import Mechanism
from regard.attention.scores import AdditiveScore

SEE = "See, Liu, Manning: Get to the point: summarization with pointer-generator networks"

__all__ = ["ENTRIES"]


def _make_copying(query_dim: int, key_dim: int) -> Mechanism:
    return Copying(query_dim, key_dim, AdditiveScore(query_dim, key_dim))


ENTRIES = (
    Entry(
        "copy",
        "copying",
        formula=Text("P(w) = p P_vocab(w) + (1 − p) Σ_{wᵢ = w} αᵢ, p = σ(w_h · h* + w_s · q + b)"),
        paper=SEE + ", eq. 8 and 9",
        year=2017,
        time=Text("O(n m h), h the hidden width", "O(n m h), h 为隐层宽度"),
        memory=BLOCKS,
        summary=Text(
            "A pointer: each key's weight is the probability of copying its token, times a gate "
            "that leaves the rest to the vocabulary; words that the vocabulary lacks can be "
            "written.",
            "指针机制：键的权重乘以门控即复制该词的概率，其余概率留给词表；词表之外的词也能写出。",
        ),
        make=lambda sizes: _make_copying(sizes.dim, sizes.key_dim),
        aliases=("pointer",),
        breaks={
            "sums to one": Text(
                "the rest is the probability of generating a word (eq. 9)",
                "其余部分是从词表生成的概率（式 9）",
            )
        },
    ),
    Entry(
        "coverage",
        "copying",
        formula=Text("e_t = v · tanh(W q + U k + w c_t), c_t = Σ_{t' < t} α_t'"),
        paper=SEE + ", eq. 10 and 11",
        year=2017,
        time=Text("O(n m h), the queries one after the other", "O(n m h), 各查询须依次计算"),
        memory=Text("O(n m + m h)"),
        summary=Text(
            "Additive attention that sees how much weight each key has already had, so that a "
            "summary does not repeat itself; a loss, Σ min(α, c), penalises overlap.",
            "加性注意力，并看到每个键此前累计获得的权重，使摘要不重复；"
            "覆盖损失 Σ min(α, c) 惩罚重叠。",
        ),
        make=lambda sizes: Coverage(sizes.dim, sizes.key_dim),
    ),
)
