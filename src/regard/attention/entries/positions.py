"""Catalog entries of the family `position`: how positions enter the scores."""

from regard.attention.entries.words import FUSED, PLACE, PROJECTED, ROWS
from regard.attention.entry import Entry, Text
from regard.attention.heads import MultiHeadAttention
from regard.attention.mechanism import Mechanism
from regard.attention.positions import RelativePositions, Rotary
from regard.masks import alibi

ENTRIES = (
    Entry(
        "alibi",
        "position",
        formula=Text("e = q · k / √d − m_h |i − j|"),
        paper="Press, Smith, Lewis: Train short, test long, section 3",
        year=2022,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "A penalty that grows with the distance, steeper for some heads than for others.",
            "随距离线性增长的惩罚，各头的斜率不同。",
        ),
        make=lambda sizes: Mechanism(bias=alibi(sizes.heads)),
        breaks=PLACE,
    ),
    Entry(
        "t5-bias",
        "position",
        formula=Text("e = q · k / √d + b[bucket(j − i), h]"),
        paper="Raffel et al.: Exploring the limits of transfer learning, section 2.1",
        year=2020,
        time=FUSED,
        memory=Text(
            "O(n m) under autograd, for the table's gradient", "求导时 O(n m), 用于偏置表的梯度"
        ),
        summary=Text(
            "A learned number for each bucket of distance and each head.",
            "每个距离分桶、每个头各学一个偏置。",
        ),
        make=lambda sizes: Mechanism(bias=RelativePositions(sizes.heads)),
        aliases=("relative",),
        breaks=PLACE,
    ),
    Entry(
        "rotary",
        "position",
        formula=Text("e = (R_i q) · (R_j k) / √d"),
        paper="Su et al.: RoFormer, eq. 34",
        year=2021,
        time=FUSED,
        memory=ROWS,
        summary=Text(
            "Query and key are turned by their positions, so that only their distance counts.",
            "按位置旋转查询与键，得分只取决于相对距离。",
        ),
        make=lambda sizes: MultiHeadAttention(
            sizes.dim,
            sizes.heads,
            key_dim=sizes.key_dim,
            rotary=Rotary(sizes.dim // sizes.heads),
        ),
        aliases=("rope",),
        breaks=PLACE | PROJECTED,
    ),
)
