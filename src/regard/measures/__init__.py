"""From traces to numbers: pure, nothing is run."""

from regard.measures.alignment import (
    Agreement,
    Gold,
    agreement,
    grown,
    likeliest,
    merged,
    mutual,
    read_gold,
    strong,
)
from regard.measures.decoding import coverage, fertility, in_words, monotonicity, returns
from regard.measures.detector import detected
from regard.measures.faithfulness import (
    area_over_curve,
    comprehensiveness,
    kendall,
    ranking,
    sizes_of,
    spearman,
    sufficiency,
)
from regard.measures.heads import HeadNumbers, distance_profile, head_numbers
from regard.measures.repeats import Repeats, repeated
from regard.measures.roles import Role, aligner, best_offsets, leading_roles, roles
from regard.measures.sharing import Drift, compares_rows, distances, drift, redundancy

__all__ = [
    "Agreement",
    "Drift",
    "Gold",
    "HeadNumbers",
    "Repeats",
    "Role",
    "agreement",
    "aligner",
    "area_over_curve",
    "best_offsets",
    "compares_rows",
    "comprehensiveness",
    "coverage",
    "detected",
    "distance_profile",
    "distances",
    "drift",
    "fertility",
    "grown",
    "head_numbers",
    "in_words",
    "kendall",
    "leading_roles",
    "likeliest",
    "merged",
    "monotonicity",
    "mutual",
    "ranking",
    "read_gold",
    "redundancy",
    "repeated",
    "returns",
    "roles",
    "sizes_of",
    "spearman",
    "strong",
    "sufficiency",
]
