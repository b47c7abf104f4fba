"""Measures: from traces to numbers. Pure functions; no model is run."""

from regard.measures.alignment import (
    GoldLinks,
    LinkAgreement,
    agreement,
    argmax_links,
    grow_diag,
    intersect_links,
    merge_pieces,
    read_gold_links,
    threshold_links,
)
from regard.measures.decoding import coverage, fertility, merge_words, monotonicity, revisits
from regard.measures.faithfulness import (
    area_over_curve,
    bin_sizes,
    comprehensiveness,
    kendall,
    ranking,
    spearman,
    sufficiency,
)
from regard.measures.head_detector import pattern_share
from regard.measures.head_distances import Drift, compares_rows, distances, drift, redundancy
from regard.measures.heads import HeadNumbers, distance_profile, head_numbers
from regard.measures.repeated_tokens import RepeatAttention, repeat_attention
from regard.measures.roles import Role, aligner, best_offsets, leading_roles, roles

__all__ = [
    "Drift",
    "GoldLinks",
    "HeadNumbers",
    "LinkAgreement",
    "RepeatAttention",
    "Role",
    "agreement",
    "aligner",
    "area_over_curve",
    "argmax_links",
    "best_offsets",
    "bin_sizes",
    "compares_rows",
    "comprehensiveness",
    "coverage",
    "distance_profile",
    "distances",
    "drift",
    "fertility",
    "grow_diag",
    "head_numbers",
    "intersect_links",
    "kendall",
    "leading_roles",
    "merge_pieces",
    "merge_words",
    "monotonicity",
    "pattern_share",
    "ranking",
    "read_gold_links",
    "redundancy",
    "repeat_attention",
    "revisits",
    "roles",
    "spearman",
    "sufficiency",
    "threshold_links",
]
