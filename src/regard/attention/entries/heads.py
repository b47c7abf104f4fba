"""Catalog entries of the family `heads`: attention with learned projections."""

from regard.attention.coattention import CoAttention
from regard.attention.entries.words import FUSED, PROJECTED, ROWS, VASWANI
from regard.attention.entry import Entry, Sizes, Text
from regard.attention.heads import MultiHeadAttention, SingleHeadAttention


def _build_multi_head(sizes: Sizes, key_heads: int) -> MultiHeadAttention:
    """Multi-head attention whose query heads share `key_heads` heads of keys and values."""
    return MultiHeadAttention(sizes.dim, sizes.heads, key_heads=key_heads, key_dim=sizes.key_dim)


def _half_the_heads(heads: int) -> int:
    """Half as many heads, or one if the number is odd and cannot be grouped in pairs."""
    return heads // 2 if heads % 2 == 0 else 1


ENTRIES = (
    Entry(
        "single-head",
        "heads",
        formula=Text("attend(x W_Q, y W_K, y W_V)"),
        paper=VASWANI + ", section 3.2.1",
        year=2017,
        time=Text("O(n m d + (n + m) d²)"),
        memory=ROWS,
        summary=Text(
            "One head with learned projections between two sequences of different widths.",
            "单头注意力：两侧序列宽度可不同，投影可学习。",
        ),
        make=lambda sizes: SingleHeadAttention(sizes.dim, sizes.key_dim, sizes.dim),
    ),
    Entry(
        "multi-head",
        "heads",
        formula=Text("Concat(head₁ … head_h) W_O"),
        paper=VASWANI + ", section 3.2.2",
        year=2017,
        time=Text("O(n m d + (n + m) d²)"),
        memory=ROWS,
        summary=Text(
            "Several heads side by side, each looking for something else.",
            "多个头并行，各自关注不同的东西。",
        ),
        make=lambda sizes: _build_multi_head(sizes, sizes.heads),
        breaks=PROJECTED,
    ),
    Entry(
        "grouped-query",
        "heads",
        formula=Text("head h reads key head ⌊h / g⌋", "第 h 头读第 ⌊h / g⌋ 个键头"),
        paper="Ainslie et al.: GQA, section 2.2",
        year=2023,
        time=Text("O(n m d + (n + m) d²)"),
        memory=Text("a cache g times smaller than multi-head", "缓存为多头的 1/g"),
        summary=Text(
            "Groups of query heads share one head of keys and values.",
            "若干查询头共用一组键和值。",
        ),
        make=lambda sizes: _build_multi_head(sizes, _half_the_heads(sizes.heads)),
        aliases=("gqa",),
        breaks=PROJECTED,
    ),
    Entry(
        "multi-query",
        "heads",
        formula=Text("all heads read one key head", "所有头读同一个键头"),
        paper="Shazeer: Fast transformer decoding, section 3",
        year=2019,
        time=Text("O(n m d + (n + m) d²)"),
        memory=Text("a cache h times smaller than multi-head", "缓存为多头的 1/h"),
        summary=Text(
            "All query heads share one head of keys and values: the smallest cache.",
            "所有查询头共用一个键值头：缓存最小。",
        ),
        make=lambda sizes: _build_multi_head(sizes, 1),
        aliases=("mqa",),
        breaks=PROJECTED,
    ),
    Entry(
        "co-attention",
        "heads",
        formula=Text(
            "e = a · q + b · k + c · (q ∘ k), s_j = Σᵢ βᵢⱼ qᵢ, context [Σⱼ αᵢⱼ vⱼ; Σⱼ αᵢⱼ sⱼ]",
            "e = a · q + b · k + c · (q ∘ k), s_j = Σᵢ βᵢⱼ qᵢ, 上下文 [Σⱼ αᵢⱼ vⱼ; Σⱼ αᵢⱼ sⱼ]",
        ),
        paper="Seo et al.: Bidirectional attention flow for machine comprehension, eq. 1",
        year=2017,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "Two sequences attend to each other by one score: a reader's text to the question, and "
            "the question to the text.",
            "两个序列用同一个得分互相注意：阅读器的正文看问题，问题也看正文。",
        ),
        make=lambda sizes: CoAttention(sizes.dim),
        aliases=("bidaf", "coattention"),
    ),
)
